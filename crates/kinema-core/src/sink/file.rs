//! A file as a sink, written with `pwrite`.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::Sink;
use crate::error::{Error, Result};

/// Smaller writes (headers, counts) are left to the kernel.
const WRITEBACK_BYTES: usize = 64 << 10;

/// An open regular file.
#[derive(Debug)]
pub struct FileSink {
    file: File,
    path: PathBuf,
}

impl FileSink {
    /// Opens a file that exists, for writing; its bytes stay. Messages call it `name`.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn open(path: &Path, name: &Path) -> Result<Self> {
        let file = OpenOptions::new().write(true).open(path);
        let failed = |error: std::io::Error| Error::io("cannot write the file", &error).at_path(name);
        Ok(Self { file: file.map_err(failed)?, path: name.to_path_buf() })
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        Error::io("cannot write the file", error).at_path(&self.path)
    }
}

impl Sink for FileSink {
    fn path(&self) -> &Path {
        &self.path
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        // short writes and interrupted calls are gone on with
        self.file.write_all_at(bytes, offset).map_err(|error| self.failed(&error).at_byte(offset))?;
        if bytes.len() >= WRITEBACK_BYTES {
            start_writeback(&self.file, offset, bytes.len() as u64);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len).map_err(|error| self.failed(&error))
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| self.failed(&error))
    }
}

/// Has the kernel begin to write these bytes to the storage, so that it works while the next are made and `sync` waits less.
/// A hint: what it cannot do `sync` does. `len` 0: all bytes from `offset` on.
#[cfg(target_os = "linux")]
pub fn start_writeback(file: &impl AsFd, offset: u64, len: u64) {
    use std::os::fd::AsRawFd;

    let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else { return };
    // SAFETY: a call on an open descriptor that takes no pointer.
    unsafe { libc::sync_file_range(file.as_fd().as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
}

#[cfg(not(target_os = "linux"))]
pub fn start_writeback(_: &impl AsFd, _: u64, _: u64) {}
