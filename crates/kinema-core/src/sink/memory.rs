//! Memory as a sink.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::Sink;
use crate::error::{Error, ErrorKind, Result};

/// Bytes in memory.
#[derive(Debug, Default)]
pub struct MemorySink {
    path: PathBuf,
    bytes: Mutex<Vec<u8>>,
}

impl MemorySink {
    /// No bytes yet, under the name `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), bytes: Mutex::default() }
    }

    /// The bytes written so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The bytes written, without a copy.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As `pwrite` does it.
pub(super) fn write_into(all: &mut Vec<u8>, offset: u64, bytes: &[u8]) -> Result<()> {
    let place = usize::try_from(offset).ok().and_then(|start| Some(start..start.checked_add(bytes.len())?));
    let place =
        place.ok_or_else(|| Error::new(ErrorKind::Io, "beyond the memory of this machine").with_byte(offset))?;
    if bytes.is_empty() {
        return Ok(());
    }
    if all.len() < place.end {
        all.resize(place.end, 0);
    }
    all[place].copy_from_slice(bytes);
    Ok(())
}

impl Sink for MemorySink {
    fn path(&self) -> &Path {
        &self.path
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut all = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        write_into(&mut all, offset, bytes).map_err(|error| error.with_path(&self.path))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut all = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        all.resize(len as usize, 0);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}
