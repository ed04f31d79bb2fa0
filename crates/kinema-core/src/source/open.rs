//! Opening of paths as sources: as files, or through a layer before files.
//!
//! Every source of a trajectory is opened here, so a cache or a storage of another kind is one more implementation.

use std::path::Path;
use std::sync::Arc;

use super::{FileSource, ReadLog, Source};
use crate::error::Result;

/// Opens paths.
pub trait OpenSource: Send + Sync {
    /// Opens a path for reading.
    ///
    /// # Errors
    /// As [`FileSource::open`].
    fn open(&self, path: &Path) -> Result<Arc<dyn Source>>;
}

/// Regular files of this machine.
#[derive(Debug, Clone, Copy)]
pub struct Files;

impl OpenSource for Files {
    fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(FileSource::open(path)?))
    }
}

/// Regular files, whose opening and reads are noted.
impl OpenSource for ReadLog {
    fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        let file = FileSource::open(path)?.recorded(self);
        self.opened(path);
        Ok(Arc::new(file))
    }
}
