//! Opening regular files for reading, the one way in this crate; and a file as a source, read with `pread`.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind as IoErrorKind, IoSliceMut, Read};
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{Extent, FileStatus, ReadLog, Source, ends_early};
use crate::error::{Error, ErrorKind, Result};
use crate::trace::activity::{CLOSE, FSTAT, OPEN64, POSIX_FADVISE, PREAD64, PREADV64};
use crate::trace::{Activity, begin, finish, system_call};

/// An open regular file.
#[derive(Debug)]
pub struct FileSource {
    /// Closed when this is dropped.
    file: ManuallyDrop<File>,
    path: PathBuf,
    log: Option<ReadLog>,
}

/// Opens a file for reading and never waits for it: refuses anything that is not a regular file, such as a FIFO without
/// a writer.
///
/// # Errors
/// `NotFound`, `PermissionDenied`, or `InvalidArgument` that says what the path is instead of a regular file.
pub fn open_regular(path: &Path) -> Result<File> {
    let open = || -> Result<File> {
        // without O_NONBLOCK the open of a FIFO waits for a writer; O_CLOEXEC is std's default
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        let start = begin();
        let opened = options.open(path);
        finish(start, &OPEN64, Some(path), [0, 0, returned(&opened)]);
        let file = opened.map_err(|error| {
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
        let kind = stat(&file, path).map_err(|error| Error::io("cannot stat the file", &error))?.file_type();
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
    open().map_err(|error| error.with_path(path))
}

/// Opens a file as [`open_regular`] and reads all of it.
///
/// # Errors
/// As [`open_regular`], and errors of reading; `InvalidArgument` for more than `most` bytes: none of them is read.
pub fn read_regular(path: &Path, most: u64) -> Result<Vec<u8>> {
    let file = open_regular(path)?;
    let failed = |error: std::io::Error| Error::io("cannot read the file", &error).with_path(path);
    let too_large = |found: u64| {
        let what = format!("the file is too large for what it is, expected at most {most} bytes, found {found}");
        Error::new(ErrorKind::InvalidArgument, what).with_path(path)
    };
    let size = stat(&file, path).map_err(failed)?.len();
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

/// Clears `O_NONBLOCK`, which some file systems obey in reads of regular files. If the system allows it to this user,
/// reads also leave the time of access as it is, which parallel file systems keep on servers of their own.
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
        Ok(Self { file: ManuallyDrop::new(open_regular(path)?), path: path.to_path_buf(), log: None })
    }

    /// The same file, whose reads are in `log`.
    #[must_use]
    pub fn recorded(mut self, log: &ReadLog) -> Self {
        self.log = Some(log.clone());
        self
    }

    /// A call of the system that reads: an event of the trace, and a read in the log.
    fn read_by(
        &self,
        activity: &'static Activity,
        (offset, len): (u64, u64),
        call: impl FnOnce() -> std::io::Result<u64>,
    ) -> std::io::Result<u64> {
        if let Some(log) = &self.log {
            log.read(&self.path, offset, len);
        }
        system_call(activity, &self.path, (offset, len), call)
    }

    /// The open file, for its metadata and settings.
    pub fn file(&self) -> &File {
        &self.file
    }

    fn metadata(&self) -> Result<Metadata> {
        stat(&self.file, &self.path).map_err(|error| Error::io("cannot stat the file", &error).with_path(&self.path))
    }

    fn ends_early(&self, at: u64, wanted: u64) -> Error {
        ends_early(&self.path, at, wanted, self.len().unwrap_or(at))
    }

    fn failed(&self, at: u64, error: &std::io::Error) -> Error {
        Error::io("cannot read the file", error).with_byte(at).with_path(&self.path)
    }
}

impl Drop for FileSource {
    fn drop(&mut self) {
        let start = begin();
        // SAFETY: it is used nowhere else after this
        drop(unsafe { ManuallyDrop::take(&mut self.file) });
        finish(start, &CLOSE, Some(&self.path), [0; 3]);
    }
}

/// The return value of a call that opens a file, for its event.
pub(crate) fn returned(opened: &std::io::Result<File>) -> i64 {
    match opened {
        Ok(file) => i64::from(file.as_raw_fd()),
        Err(error) => -i64::from(error.raw_os_error().unwrap_or(0)),
    }
}

fn stat(file: &File, path: &Path) -> std::io::Result<Metadata> {
    let start = begin();
    let found = file.metadata();
    let ret = found.as_ref().map_or_else(|error| -i64::from(error.raw_os_error().unwrap_or(0)), |_| 0);
    finish(start, &FSTAT, Some(path), [0, 0, ret]);
    found
}

/// Most buffers of a call of `preadv`, on every system.
const MOST_BUFFERS: usize = 1024;

/// One call of `preadv`: bytes read, 0 at the end of the file.
fn read_vectored(file: &File, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> std::io::Result<u64> {
    let position = libc::off_t::try_from(offset).map_err(|_| std::io::ErrorKind::UnexpectedEof)?;
    let count = buffers.len().min(MOST_BUFFERS) as libc::c_int;
    // SAFETY: IoSliceMut has the layout of iovec, and the buffers are writeable while the call lasts
    let read = unsafe { libc::preadv(file.as_raw_fd(), buffers.as_mut_ptr().cast(), count, position) };
    u64::try_from(read).map_err(|_| std::io::Error::last_os_error())
}

fn bytes_of(buffers: &[IoSliceMut<'_>]) -> u64 {
    buffers.iter().map(|buffer| buffer.len() as u64).sum()
}

/// A hint: what it cannot do, the read does.
#[cfg(target_os = "linux")]
fn advise(file: &File, path: &Path, extent: Extent, advice: libc::c_int) {
    if let (Ok(offset), Ok(len)) = (libc::off_t::try_from(extent.offset), libc::off_t::try_from(extent.len)) {
        let start = begin();
        // SAFETY: the descriptor is open, and the call takes integers only
        let error = unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, len, advice) };
        finish(start, &POSIX_FADVISE, Some(path), [offset, len, -i64::from(error)]);
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
        self.metadata().map(|found| Some(FileStatus::from_metadata(&found)))
    }

    fn reads_end_with_a_call(&self) -> bool {
        true
    }

    #[cfg(target_os = "linux")]
    fn will_need(&self, extent: Extent) {
        advise(&self.file, &self.path, extent, libc::POSIX_FADV_WILLNEED);
    }

    #[cfg(target_os = "linux")]
    fn not_needed(&self, extent: Extent) {
        advise(&self.file, &self.path, extent, libc::POSIX_FADV_DONTNEED);
    }

    #[cfg(target_os = "linux")]
    fn end_of_hole(&self, offset: u64) -> u64 {
        let Ok(at) = libc::off_t::try_from(offset) else { return offset };
        // SAFETY: the descriptor is open, and the call takes integers only; nothing reads at the position that it moves
        let data = unsafe { libc::lseek(self.file.as_raw_fd(), at, libc::SEEK_DATA) };
        match u64::try_from(data) {
            Ok(data) => data.max(offset),
            // nothing but a hole up to the end
            Err(_) if std::io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO) => {
                self.len().map_or(offset, |len| len.max(offset))
            }
            Err(_) => offset,
        }
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            let (at, rest) = (offset.saturating_add(done as u64), &mut buffer[done..]);
            let asked = (at, rest.len() as u64);
            match self.read_by(&PREAD64, asked, || self.file.read_at(rest, at).map(|read| read as u64)) {
                Ok(0) => return Err(self.ends_early(offset, buffer.len() as u64)),
                Ok(read) => done += read as usize,
                Err(error) if error.kind() == IoErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(offset, &error)),
            }
        }
        Ok(())
    }

    fn read_scattered_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<()> {
        let (mut rest, mut at) = (buffers, offset);
        IoSliceMut::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            let wanted = bytes_of(rest);
            let asked = (at, bytes_of(&rest[..rest.len().min(MOST_BUFFERS)]));
            match self.read_by(&PREADV64, asked, || read_vectored(&self.file, at, rest)) {
                Ok(0) => return Err(self.ends_early(at, wanted)),
                Ok(read) => {
                    at += read;
                    IoSliceMut::advance_slices(&mut rest, read as usize);
                }
                Err(error) if error.kind() == IoErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(at, &error)),
            }
        }
        Ok(())
    }
}
