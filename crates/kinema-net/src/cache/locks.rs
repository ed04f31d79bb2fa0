//! Locks between threads and processes of a node: `flock` on files of the cache, which the kernel frees when their holder dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use kinema_core::{Error, Result};

use super::forks::NotInherited;

/// A file that is locked exclusively until this is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    // dropped before the file is closed
    _not_inherited: NotInherited,
    file: File,
}

/// Opens a file of the cache for reading and writing, and creates it if necessary.
pub(super) fn open(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options.open(path).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::io("cannot lock the file", error).with_path(path)
}

impl Lock {
    /// Waits, without using processor time, until nobody else has the lock.
    /// Errors of the file.
    pub(super) fn wait(path: &Path) -> Result<Self> {
        let file = open(path)?;
        let lock = Self { _not_inherited: NotInherited::new(file.as_raw_fd()), file };
        loop {
            match lock.file.lock() {
                Ok(()) => return Ok(lock),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(path, &error)),
            }
        }
    }

    /// `None` if somebody else has the lock.
    /// Errors of the file.
    pub(super) fn attempt(path: &Path) -> Result<Option<Self>> {
        Self::acquire(open(path)?).map_err(|error| error.with_path(path))
    }

    /// Locks an open file; `None` if somebody else has locked it.
    /// Errors of the file.
    pub(super) fn acquire(file: File) -> Result<Option<Self>> {
        let lock = Self { _not_inherited: NotInherited::new(file.as_raw_fd()), file };
        loop {
            match lock.file.try_lock() {
                Ok(()) => return Ok(Some(lock)),
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Interrupted => {}
                Err(TryLockError::Error(error)) => return Err(Error::io("cannot lock the file", &error)),
            }
        }
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // a child forked just now may have the file too: closing it only here would leave the lock
        let _ = self.file.unlock();
    }
}
