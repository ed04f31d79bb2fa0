//! Sinks: positional writes of bytes, which every writer of a trajectory is built on.
//!
//! There is no cursor, so one handle serves all threads. Names of files, temporary or not, are the caller's.

mod file;
mod memory;
mod recording;

pub use file::{FileSink, start_writeback};
pub use memory::MemorySink;
pub use recording::{Fault, RecordingSink, Written};

use std::path::Path;

use crate::error::Result;

/// Something that takes bytes: a file, memory, later an object store.
pub trait Sink: Send + Sync {
    /// The path that messages use.
    fn path(&self) -> &Path;

    /// Writes all of `bytes` from `offset` on; a gap after the former end is filled with zeros.
    ///
    /// # Errors
    /// The operating system's error with the byte; some of the bytes may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Makes it `len` bytes long.
    ///
    /// # Errors
    /// The operating system's error.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Returns when all earlier writes are on the storage.
    ///
    /// # Errors
    /// The operating system's error.
    fn sync(&self) -> Result<()>;
}
