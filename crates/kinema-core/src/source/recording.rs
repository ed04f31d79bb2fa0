//! A log of what sources read, beside the events of a trace: tests check with it what a read touches.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Extent;

/// Reads in their order, of several sources, and files in the order in which they were opened.
#[derive(Debug, Default, Clone)]
pub struct ReadLog(Arc<Mutex<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    reads: Vec<(PathBuf, Extent)>,
    opens: Vec<PathBuf>,
}

impl ReadLog {
    /// The reads since the last call.
    pub fn take(&self) -> Vec<(PathBuf, Extent)> {
        std::mem::take(&mut self.locked().reads)
    }

    /// The same without the paths.
    pub fn take_extents(&self) -> Vec<Extent> {
        self.take().into_iter().map(|(_, extent)| extent).collect()
    }

    /// The files opened since the last call; one that was closed and opened again is there twice.
    pub fn take_opens(&self) -> Vec<PathBuf> {
        std::mem::take(&mut self.locked().opens)
    }

    fn locked(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a file was opened.
    pub(super) fn opened(&self, path: &Path) {
        self.locked().opens.push(path.to_path_buf());
    }

    /// Notes that bytes are read.
    pub(super) fn read(&self, path: &Path, offset: u64, len: u64) {
        self.locked().reads.push((path.to_path_buf(), Extent { offset, len }));
    }
}
