//! Opening regular files for reading, the one way in this crate; and a file as a source, read with `pread`.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{IoSliceMut, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{Extent, FileStatus, Source, ends_early};
use crate::error::{Error, ErrorKind, Result};

/// An open regular file.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    path: PathBuf,
}

/// Opens a file for reading, and never waits for it: whatever is no regular file is refused, a FIFO without a writer too.
///
/// # Errors
/// `NotFound`, `PermissionDenied`, or `InvalidArgument` that says what it is instead of a regular file.
pub fn open_regular(path: &Path) -> Result<File> {
    let open = || -> Result<File> {
        // without O_NONBLOCK the open of a FIFO waits for a writer; O_CLOEXEC is std's default
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(|error| {
            match (error.kind(), error.raw_os_error()) {
                (std::io::ErrorKind::NotFound, _) => Error::new(ErrorKind::NotFound, "no such file; check the name"),
                (std::io::ErrorKind::PermissionDenied, _) => {
                    Error::new(ErrorKind::PermissionDenied, "the file may not be read; check its permissions")
                }
                // a socket, or a device without a driver
                (_, Some(libc::ENXIO)) => not_regular("a socket or a device"),
                _ => Error::io("cannot open the file", &error),
            }
        })?;
        let kind = file.metadata().map_err(|error| Error::io("cannot stat the file", &error))?.file_type();
        if !kind.is_file() {
            return Err(match kind {
                kind if kind.is_dir() => {
                    Error::new(ErrorKind::InvalidArgument, "this is a directory; give a regular file")
                }
                kind if kind.is_fifo() => not_regular("a pipe (FIFO)"),
                kind if kind.is_char_device() => not_regular("a character device"),
                kind if kind.is_block_device() => not_regular("a block device"),
                _ => not_regular("of another kind"),
            });
        }
        wait_in_reads(&file)?;
        Ok(file)
    };
    open().map_err(|error| error.at_path(path))
}

/// As [`open_regular`], and reads all of it; `InvalidArgument` for more than `most` bytes, of which none is read.
///
/// # Errors
/// As said, and those of reading.
pub fn read_regular(path: &Path, most: u64) -> Result<Vec<u8>> {
    let file = open_regular(path)?;
    let failed = |error: std::io::Error| Error::io("cannot read the file", &error).at_path(path);
    let too_large = |found: u64| {
        let what = format!("the file is too large for what it is, expected at most {most} bytes, found {found}");
        Error::new(ErrorKind::InvalidArgument, what).at_path(path)
    };
    let size = file.metadata().map_err(failed)?.len();
    if size > most {
        return Err(too_large(size));
    }
    let mut bytes = Vec::with_capacity(size as usize);
    // it may grow meanwhile
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > most { Err(too_large(bytes.len() as u64)) } else { Ok(bytes) }
}

fn not_regular(what: &str) -> Error {
    let text = format!("this is not a regular file but {what}, which cannot be read at positions; give a regular file");
    Error::new(ErrorKind::InvalidArgument, text)
}

/// Clears `O_NONBLOCK`, which some file systems obey in reads of regular files; and has reads leave the time of access,
/// which parallel file systems keep on servers of their own, as it is, where the system allows that to this user.
fn wait_in_reads(file: &File) -> Result<()> {
    let handle = file.as_raw_fd();
    // SAFETY: the descriptor is open, and the command takes and gives integers only
    let found = unsafe { libc::fcntl(handle, libc::F_GETFL) };
    let flags = found & !libc::O_NONBLOCK;
    #[cfg(target_os = "linux")]
    let wanted = [flags | libc::O_NOATIME, flags];
    #[cfg(not(target_os = "linux"))]
    let wanted = [flags];
    // SAFETY: as above
    if found >= 0 && wanted.iter().any(|&flags| unsafe { libc::fcntl(handle, libc::F_SETFL, flags) } >= 0) {
        return Ok(());
    }
    Err(Error::io("cannot set the mode of the file", &std::io::Error::last_os_error()))
}

impl FileSource {
    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// As [`open_regular`].
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { file: open_regular(path)?, path: path.to_path_buf() })
    }

    /// The open file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    fn metadata(&self) -> Result<Metadata> {
        self.file.metadata().map_err(|error| Error::io("cannot stat the file", &error).at_path(&self.path))
    }
}

/// Most buffers of a call of `preadv`, on every system.
const MOST_BUFFERS: usize = 1024;

/// One call of `preadv`: bytes read, 0 at the end of the file.
fn read_vectored(file: &File, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> std::io::Result<usize> {
    let position = libc::off_t::try_from(offset).map_err(|_| std::io::ErrorKind::UnexpectedEof)?;
    let count = buffers.len().min(MOST_BUFFERS) as libc::c_int;
    // SAFETY: IoSliceMut has the layout of iovec, and the buffers are writeable while the call lasts
    let read = unsafe { libc::preadv(file.as_raw_fd(), buffers.as_mut_ptr().cast(), count, position) };
    usize::try_from(read).map_err(|_| std::io::Error::last_os_error())
}

/// A hint: what it cannot do, the read does.
#[cfg(target_os = "linux")]
fn advise(file: &File, extent: Extent, advice: libc::c_int) {
    if let (Ok(offset), Ok(len)) = (libc::off_t::try_from(extent.offset), libc::off_t::try_from(extent.len)) {
        // SAFETY: the descriptor is open, and the call takes integers only
        unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, len, advice) };
    }
}

impl Source for FileSource {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        self.metadata().map(|found| found.len())
    }

    fn status(&self) -> Result<Option<FileStatus>> {
        self.metadata().map(|found| Some(FileStatus::of(&found)))
    }

    #[cfg(target_os = "linux")]
    fn will_need(&self, extent: Extent) {
        advise(&self.file, extent, libc::POSIX_FADV_WILLNEED);
    }

    #[cfg(target_os = "linux")]
    fn not_needed(&self, extent: Extent) {
        advise(&self.file, extent, libc::POSIX_FADV_DONTNEED);
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

    fn read_scattered_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<()> {
        let (mut rest, mut at) = (buffers, offset);
        IoSliceMut::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match read_vectored(&self.file, at, rest) {
                Ok(0) => {
                    let wanted = rest.iter().map(|buffer| buffer.len() as u64).sum();
                    return Err(ends_early(&self.path, at, wanted, self.len().unwrap_or(at)));
                }
                Ok(read) => {
                    at += read as u64;
                    IoSliceMut::advance_slices(&mut rest, read);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io("cannot read the file", &error).at_byte(at).at_path(&self.path)),
            }
        }
        Ok(())
    }
}
