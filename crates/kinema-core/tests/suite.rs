//! All integration tests of the core, in one program: each program would compile and link the crate's code once more.

mod append;
mod atom_records;
mod common;
mod corpus_replay;
mod dcd;
mod dcd_encode;
mod dcd_golden;
mod dlpoly_classic;
mod dlpoly_unformatted;
mod encode;
mod encode_runs;
mod file_identity;
#[path = "../../../fuzz/src/files.rs"]
mod files;
mod g96;
mod growing;
mod h5md;
mod hdf5_filters;
mod index_store;
mod pipeline;
mod record_file;
mod rows;
mod text_fortran;
mod transforms;
mod xtc;
mod xtc_checkpoints;
mod xtc_encode;

/// Files that are programs of their own.
const PROGRAMS: [&str; 2] = ["suite", "encode_memory"];

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
