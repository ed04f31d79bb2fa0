//! Bytes in memory as a source, for tests and for files that were built there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{ReadLog, Source, ends_early};
use crate::error::Result;

/// A named run of bytes.
#[derive(Debug, Clone)]
pub struct MemorySource {
    bytes: Arc<[u8]>,
    path: PathBuf,
    log: Option<ReadLog>,
}

impl MemorySource {
    /// A source of these bytes; `name` is what messages call it.
    pub fn new(name: &str, bytes: impl Into<Arc<[u8]>>) -> Self {
        Self { bytes: bytes.into(), path: name.into(), log: None }
    }

    /// The same source, whose reads are in `log`.
    #[must_use]
    pub fn recorded(self, log: &ReadLog) -> Self {
        Self { log: Some(log.clone()), ..self }
    }
}

impl Source for MemorySource {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        if let Some(log) = &self.log {
            log.read(&self.path, offset, buffer.len() as u64);
        }
        let wanted = usize::try_from(offset)
            .ok()
            .and_then(|start| self.bytes.get(start..start.checked_add(buffer.len())?))
            .ok_or_else(|| ends_early(&self.path, offset, buffer.len() as u64, self.bytes.len() as u64))?;
        buffer.copy_from_slice(wanted);
        Ok(())
    }
}
