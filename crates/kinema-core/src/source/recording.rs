//! A source that remembers which bytes were asked for, so that tests can say what a read touches.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::{Extent, Source};
use crate::error::Result;

/// Passes every read on to `inner` and notes it.
#[derive(Debug)]
pub struct RecordingSource<S> {
    inner: S,
    reads: Mutex<Vec<Extent>>,
}

impl<S: Source> RecordingSource<S> {
    /// Wraps a source.
    pub fn new(inner: S) -> Self {
        Self { inner, reads: Mutex::new(Vec::new()) }
    }

    /// The reads since the last call, in order.
    pub fn take(&self) -> Vec<Extent> {
        std::mem::take(&mut *self.reads.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S: Source> Source for RecordingSource<S> {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).push(Extent { offset, len: buffer.len() as u64 });
        self.inner.read_exact_at(offset, buffer)
    }
}
