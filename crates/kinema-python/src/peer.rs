//! `kinema._core`: checksums of published files, and the server and client between nodes.

use std::path::PathBuf;

use kinema_core::peer;
use kinema_core::source::FileSource;
use pyo3::prelude::*;

use crate::signals::run_interruptible;

/// Size of a file in bytes, and the XXH3-64 of its content.
#[pyfunction]
pub fn file_checksum(py: Python<'_>, path: PathBuf) -> PyResult<(u64, u64)> {
    run_interruptible(py, None, 0, |progress| peer::checksum(&FileSource::open(&path)?, progress))
}
