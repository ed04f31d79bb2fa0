//! A file as a sink, written with `pwrite`.

use std::fs::{File, OpenOptions};
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::Sink;
use crate::error::{Error, Result};
use crate::trace::activity::{CLOSE, FDATASYNC, FTRUNCATE64, OPEN64, PWRITE64, SYNC_FILE_RANGE};
use crate::trace::{begin, finish, system_call};

/// Smaller writes (headers, counts) are left to the kernel.
const SMALL_WRITE: usize = 64 << 10;
/// The kernel is asked to begin writing when this many bytes wait: asking costs as much as writing a frame.
const WRITEBACK_BYTES: u64 = 4 << 20;

/// An open regular file.
#[derive(Debug)]
pub struct FileSink {
    /// Closed when this is dropped.
    file: ManuallyDrop<File>,
    path: PathBuf,
    waiting: Mutex<Waiting>,
}

/// Bytes that the kernel was not asked to write yet: how many, and between which offsets.
#[derive(Debug, Default)]
struct Waiting {
    bytes: u64,
    range: Range<u64>,
}

impl FileSink {
    /// Opens an existing file for writing; its bytes stay. Messages call it `name`. If `name` differs from `path`, then
    /// `path` is a temporary file of ours, and a link that somebody has put in its place is not followed.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn open(path: &Path, name: &Path) -> Result<Self> {
        let start = begin();
        let link = if path == name { 0 } else { libc::O_NOFOLLOW };
        let file = OpenOptions::new().write(true).custom_flags(link).open(path);
        finish(start, &OPEN64, Some(name), [0, 0, file.as_ref().map_or(-1, |file| i64::from(file.as_raw_fd()))]);
        let failed = |error: std::io::Error| Error::io("cannot write the file", &error).with_path(name);
        Ok(Self { file: ManuallyDrop::new(file.map_err(failed)?), path: name.to_path_buf(), waiting: Mutex::default() })
    }

    /// Notes that these bytes were written, and asks the kernel to begin writing once enough bytes wait.
    fn written(&self, offset: u64, len: u64) {
        let range = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let start = if waiting.bytes == 0 { offset } else { waiting.range.start.min(offset) };
            waiting.range = start..waiting.range.end.max(offset + len);
            waiting.bytes += len;
            if waiting.bytes < WRITEBACK_BYTES {
                return;
            }
            std::mem::take(&mut *waiting).range
        };
        let (offset, len) = (range.start, range.end - range.start);
        let start = begin();
        start_writeback(&*self.file, offset, len);
        finish(start, &SYNC_FILE_RANGE, Some(&self.path), [offset as i64, len as i64, 0]);
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        Error::io("cannot write the file", error).with_path(&self.path)
    }
}

impl Drop for FileSink {
    fn drop(&mut self) {
        let start = begin();
        // SAFETY: it is used nowhere else after this
        drop(unsafe { ManuallyDrop::take(&mut self.file) });
        finish(start, &CLOSE, Some(&self.path), [0; 3]);
    }
}

impl Sink for FileSink {
    fn path(&self) -> &Path {
        &self.path
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let (at, rest) = (offset.saturating_add(done as u64), &bytes[done..]);
            let asked = (at, rest.len() as u64);
            match system_call(&PWRITE64, &self.path, asked, || self.file.write_at(rest, at).map(|n| n as u64)) {
                Ok(0) => {
                    let error = std::io::Error::from(std::io::ErrorKind::WriteZero);
                    return Err(self.failed(&error).with_byte(offset));
                }
                Ok(written) => done += written as usize,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(&error).with_byte(offset)),
            }
        }
        if bytes.len() >= SMALL_WRITE {
            self.written(offset, bytes.len() as u64);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let cut = system_call(&FTRUNCATE64, &self.path, (0, len), || self.file.set_len(len).map(|()| 0));
        cut.map(drop).map_err(|error| self.failed(&error))
    }

    fn sync(&self) -> Result<()> {
        let synced = system_call(&FDATASYNC, &self.path, (0, 0), || self.file.sync_data().map(|()| 0));
        synced.map(drop).map_err(|error| self.failed(&error))
    }
}

/// Asks the kernel to begin writing these bytes to the storage, so that it works while the next bytes are made and
/// `sync` waits less. This is a hint: `sync` writes whatever the kernel has not written. `len` 0: all bytes from
/// `offset` on.
#[cfg(target_os = "linux")]
pub fn start_writeback(file: &impl AsFd, offset: u64, len: u64) {
    let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else { return };
    // SAFETY: a call on an open descriptor that takes no pointer.
    unsafe { libc::sync_file_range(file.as_fd().as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
}

#[cfg(not(target_os = "linux"))]
pub fn start_writeback(_: &impl AsFd, _: u64, _: u64) {}
