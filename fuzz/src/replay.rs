//! Runs the body of a fuzz target over its corpus and its findings, naming the input that fails.
//!
//! Included by the crates' replay tests.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

/// Runs `body` on every file of `fuzz/corpus/<target>` and `fuzz/findings/<target>`.
///
/// # Panics
/// When the corpus is empty, and as `body` does.
pub fn inputs(target: &str, body: impl Fn(&[u8])) {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let corpus = files_in(&fuzz.join("corpus").join(target));
    assert!(!corpus.is_empty(), "no corpus of {target}");
    for path in corpus.into_iter().chain(files_in(&fuzz.join("findings").join(target))) {
        let data = fs::read(&path).expect("a readable input");
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(&data))) {
            eprintln!("{target} fails on {}", path.display());
            resume_unwind(panic);
        }
    }
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    files
}
