//! A file as a sink, written with `pwrite`.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::Sink;
use crate::error::{Error, Result};

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
        self.file.write_all_at(bytes, offset).map_err(|error| self.failed(&error).at_byte(offset))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len).map_err(|error| self.failed(&error))
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| self.failed(&error))
    }
}
