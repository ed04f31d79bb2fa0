//! A file of the operating system, read with `pread`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{Source, ends_early};
use crate::error::{Error, ErrorKind, Result};

/// An open regular file.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    path: PathBuf,
}

impl FileSource {
    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// `NotFound`, `PermissionDenied`, or `InvalidArgument` for a directory or a device.
    pub fn open(path: &Path) -> Result<Self> {
        let open = || -> Result<File> {
            let file = File::open(path).map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => Error::new(ErrorKind::NotFound, "no such file; check the name"),
                std::io::ErrorKind::PermissionDenied => {
                    Error::new(ErrorKind::PermissionDenied, "the file may not be read; check its permissions")
                }
                _ => Error::io("cannot open the file", &error),
            })?;
            let kind = file.metadata().map_err(|error| Error::io("cannot stat the file", &error))?;
            if kind.is_dir() {
                return Err(Error::new(ErrorKind::InvalidArgument, "this is a directory; give a trajectory file"));
            }
            if !kind.is_file() {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    "not a regular file; pipes and devices cannot be read at positions",
                ));
            }
            Ok(file)
        };
        let file = open().map_err(|error| error.at_path(path))?;
        Ok(Self { file, path: path.to_path_buf() })
    }
}

impl Source for FileSource {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        self.file
            .metadata()
            .map(|meta| meta.len())
            .map_err(|error| Error::io("cannot stat the file", &error).at_path(&self.path))
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(buffer, offset).map_err(|error| {
            if error.kind() == std::io::ErrorKind::UnexpectedEof {
                ends_early(&self.path, offset, buffer.len() as u64, self.len().unwrap_or(offset))
            } else {
                Error::io("cannot read the file", &error).at_byte(offset).at_path(&self.path)
            }
        })
    }
}
