//! A source that records which bytes were read, so that tests can check what a read touches.

use std::io::IoSliceMut;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Extent, FileStatus, Source};
use crate::error::Result;

/// Reads in their order, of several sources, and files in the order in which they were opened.
#[derive(Debug, Default, Clone)]
pub struct ReadLog(Arc<Mutex<Vec<(PathBuf, Extent)>>>, Arc<Mutex<Vec<PathBuf>>>);

impl ReadLog {
    /// The reads since the last call.
    pub fn take(&self) -> Vec<(PathBuf, Extent)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The files opened since the last call; one that was closed and opened again is there twice.
    pub fn take_opens(&self) -> Vec<PathBuf> {
        std::mem::take(&mut *self.1.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes that a file was opened.
    pub(super) fn opened(&self, path: &Path) {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_path_buf());
    }

    fn push(&self, path: &Path, extent: Extent) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((path.to_path_buf(), extent));
    }
}

/// Passes every read on to `inner` and notes it.
#[derive(Debug)]
pub struct RecordingSource<S> {
    inner: S,
    log: ReadLog,
}

impl<S: Source> RecordingSource<S> {
    /// Wraps a source.
    pub fn new(inner: S) -> Self {
        Self::logging(inner, ReadLog::default())
    }

    /// Wraps a source whose reads are noted in `log`.
    pub fn logging(inner: S, log: ReadLog) -> Self {
        Self { inner, log }
    }

    /// The reads since the last call, in order.
    pub fn take(&self) -> Vec<Extent> {
        self.log.take().into_iter().map(|(_, extent)| extent).collect()
    }
}

impl<S: Source> Source for RecordingSource<S> {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn status(&self) -> Result<Option<FileStatus>> {
        self.inner.status()
    }

    fn will_need(&self, extent: Extent) {
        self.inner.will_need(extent);
    }

    fn not_needed(&self, extent: Extent) {
        self.inner.not_needed(extent);
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.log.push(self.inner.path(), Extent { offset, len: buffer.len() as u64 });
        self.inner.read_exact_at(offset, buffer)
    }

    fn read_scattered_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<()> {
        let len = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        self.log.push(self.inner.path(), Extent { offset, len });
        self.inner.read_scattered_at(offset, buffers)
    }
}
