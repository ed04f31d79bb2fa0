//! A sink that records all calls and fails on request, so that tests see the file after any kill.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::Sink;
use super::memory::write_into;
use crate::error::{Error, Result};

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// Bytes from an offset on.
    Bytes(u64, Vec<u8>),
    /// A new length.
    Len(u64),
    /// All before is on the storage.
    Sync,
}

/// A fault that occurs from some call on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The device is full: each write stores at most this many bytes, and fails.
    NoSpace(usize),
    /// The storage fails a sync.
    Sync,
}

/// Records all calls, in their order.
#[derive(Debug, Default)]
pub struct RecordingSink {
    path: PathBuf,
    log: Mutex<Vec<Written>>,
    /// From the call of this number on.
    fault: Option<(usize, Fault)>,
}

impl RecordingSink {
    /// One that never fails.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), ..Self::default() }
    }

    /// One that fails from the call of number `from` on.
    pub fn failing(path: impl Into<PathBuf>, from: usize, fault: Fault) -> Self {
        Self { fault: Some((from, fault)), ..Self::new(path) }
    }

    /// The calls recorded so far.
    pub fn log(&self) -> Vec<Written> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The file after some calls, and the first `torn` bytes of `next`, if that is a write.
    ///
    /// # Errors
    /// For offsets beyond memory.
    pub fn replayed<'a>(
        calls: impl IntoIterator<Item = &'a Written>,
        next: Option<&Written>,
        torn: usize,
    ) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for call in calls {
            match call {
                Written::Bytes(offset, written) => write_into(&mut bytes, *offset, written)?,
                Written::Len(len) => bytes.resize(*len as usize, 0),
                Written::Sync => {}
            }
        }
        if let Some(Written::Bytes(offset, written)) = next {
            write_into(&mut bytes, *offset, &written[..torn.min(written.len())])?;
        }
        Ok(bytes)
    }

    fn push(&self, call: Written) -> Result<()> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = self.fault.filter(|(from, _)| log.len() >= *from).map(|(_, fault)| fault);
        let full = || Error::io("cannot write the file", &std::io::Error::from_raw_os_error(libc::ENOSPC));
        match (fault, call) {
            (Some(Fault::NoSpace(most)), Written::Bytes(offset, mut bytes)) => {
                bytes.truncate(most);
                log.push(Written::Bytes(offset, bytes));
                Err(full().with_byte(offset).with_path(&self.path))
            }
            (Some(Fault::Sync), Written::Sync) => {
                let error = std::io::Error::from_raw_os_error(libc::EIO);
                Err(Error::io("cannot write the file", &error).with_path(&self.path))
            }
            (_, call) => {
                log.push(call);
                Ok(())
            }
        }
    }
}

impl Sink for RecordingSink {
    fn path(&self) -> &Path {
        &self.path
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.push(Written::Bytes(offset, bytes.to_vec()))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.push(Written::Len(len))
    }

    fn sync(&self) -> Result<()> {
        self.push(Written::Sync)
    }
}
