//! All integration tests of the kernels, in one program: each program would compile and link the crate's code once more.

mod common;
mod corpus_replay;
mod geometry;
mod golden;
mod kernels;
mod lattice;
mod periodic;
mod superposition;
mod wrap;

/// Files that are programs of their own.
const PROGRAMS: [&str; 1] = ["suite"];

/// A file of tests that is not named above would never run.
#[test]
fn every_file_of_tests_is_named() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for entry in std::fs::read_dir(folder).expect("the folder of this file") {
        let name = entry.expect("an entry").file_name().into_string().expect("plain names");
        if let Some(module) = name.strip_suffix(".rs").filter(|module| !PROGRAMS.contains(module)) {
            assert!(include_str!("suite.rs").contains(&format!("\nmod {module};\n")), "{name}");
        }
    }
}
