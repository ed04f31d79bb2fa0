//! The one error type: the message, and the place (path, format, frame, byte).
//!
//! It does not print and knows no Python class; the Python skin maps [`ErrorKind`] to exception classes.

use std::any::Any;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Result of anything that can fail in Kinema.
pub type Result<T> = std::result::Result<T, Error>;

/// Kind of failure; decides the Python exception class and the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The file does not exist.
    NotFound,
    /// The file may not be read or written.
    PermissionDenied,
    /// Any other failure of the operating system's input or output.
    Io,
    /// The file ends in the middle of a frame or header.
    Truncated,
    /// The bytes contradict the format.
    Corrupt,
    /// A valid or unknown variant that Kinema does not read.
    Unsupported,
    /// The caller's argument cannot be used.
    InvalidArgument,
    /// A frame or atom number beyond the trajectory.
    OutOfRange,
    /// One frame of the request does not fit in the stated memory limit.
    MemoryLimit,
    /// The caller asked to stop.
    Cancelled,
    /// A defect of Kinema itself, for example a panic caught at the border.
    Internal,
}

/// An error with its place: `{path}: {format} frame {i}, byte {offset}: {what}`.
#[derive(Debug, Clone)]
pub struct Error(Box<Details>);

#[derive(Debug, Clone)]
struct Details {
    kind: ErrorKind,
    path: Option<PathBuf>,
    format: Option<&'static str>,
    frame: Option<u64>,
    offset: Option<u64>,
    what: String,
    cause: Option<Cause>,
}

/// The cause of an error, for code that knows its type.
pub type Cause = Arc<dyn Any + Send + Sync>;

impl Error {
    /// A new error; `what` is lower case and has no full stop.
    #[cold]
    pub fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Self(Box::new(Details {
            kind,
            path: None,
            format: None,
            frame: None,
            offset: None,
            what: what.into(),
            cause: None,
        }))
    }

    /// `{what}, expected {expected}, found {found}`, as corrupt data.
    #[cold]
    pub fn corrupt(what: &str, expected: impl fmt::Display, found: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Corrupt, format!("{what}, expected {expected}, found {found}"))
    }

    /// An operating system's error, its kind kept.
    #[cold]
    pub fn io(doing: &str, error: &std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            std::io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
            std::io::ErrorKind::UnexpectedEof => ErrorKind::Truncated,
            _ => ErrorKind::Io,
        };
        Self::new(kind, format!("{doing}: {error}"))
    }

    /// Adds the path unless one is known already.
    #[must_use]
    pub fn with_path(mut self, path: &Path) -> Self {
        self.0.path.get_or_insert_with(|| path.to_path_buf());
        self
    }

    /// Adds the format's name unless one is known already.
    #[must_use]
    pub fn with_format(mut self, format: &'static str) -> Self {
        self.0.format.get_or_insert(format);
        self
    }

    /// Adds the frame number (of the file, from 0) unless one is known already.
    #[must_use]
    pub fn with_frame(mut self, frame: u64) -> Self {
        self.0.frame.get_or_insert(frame);
        self
    }

    /// Replaces the frame number, when a number of the trajectory becomes one of the file.
    #[must_use]
    pub fn moved_to_frame(mut self, frame: u64) -> Self {
        self.0.frame = Some(frame);
        self
    }

    /// Adds the byte offset in the file unless one is known already.
    #[must_use]
    pub fn with_byte(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Adds the cause: an exception of code that was called.
    #[must_use]
    pub fn caused_by(mut self, cause: Cause) -> Self {
        self.0.cause = Some(cause);
        self
    }

    /// Adds what to do at the end of the message.
    #[must_use]
    pub fn with_advice(mut self, advice: &str) -> Self {
        self.0.what.push_str("; ");
        self.0.what.push_str(advice);
        self
    }

    /// The cause, if it was kept.
    pub fn cause(&self) -> Option<&Cause> {
        self.0.cause.as_ref()
    }

    /// The sort of failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
    /// The file, if a file is involved.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }
    /// The format's name, if a format is involved.
    pub fn format(&self) -> Option<&'static str> {
        self.0.format
    }
    /// The frame number in the file, from 0.
    pub fn frame(&self) -> Option<u64> {
        self.0.frame
    }
    /// The byte offset in the file.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }
    /// The message without its place.
    pub fn what(&self) -> &str {
        &self.0.what
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let d = &*self.0;
        if let Some(path) = &d.path {
            write!(f, "{}: ", printed(path))?;
        }
        let mut place = Vec::new();
        if let Some(frame) = d.frame {
            place.push(format!("frame {frame}"));
        }
        if let Some(offset) = d.offset {
            place.push(format!("byte {offset}"));
        }
        let place = place.join(", ");
        match (d.format, place.is_empty()) {
            (Some(format), true) => write!(f, "{format}: ")?,
            (Some(format), false) => write!(f, "{format} {place}: ")?,
            (None, true) => {}
            (None, false) => write!(f, "{place}: ")?,
        }
        f.write_str(&d.what)
    }
}

impl std::error::Error for Error {}

/// A path in a message. Bytes that are no UTF-8 are escaped as `kinema.base.printable` does it: two names never look alike.
pub fn printed(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\udc{byte:02x}")));
    }
    text
}

/// Turns a panic into an `Internal` error: none may cross into Python or end the process.
pub fn catch_panics<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let what = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "unknown".to_owned());
        Err(Error::new(ErrorKind::Internal, format!("a defect of Kinema, please report it: {what}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_stands_before_the_message() {
        let error = Error::corrupt("wrong magic number", 1995, 7)
            .with_byte(12)
            .with_frame(3)
            .with_format("XTC")
            .with_path(Path::new("md.xtc"));
        assert_eq!(error.to_string(), "md.xtc: XTC frame 3, byte 12: wrong magic number, expected 1995, found 7");
        assert_eq!(error.with_byte(99).offset(), Some(12), "the innermost place is kept");
    }

    #[test]
    fn names_that_are_no_utf8_are_escaped_byte_by_byte() {
        let name = std::ffi::OsStr::from_bytes(b"m\xff\xe2\x82d\xc3\xa9.xtc");
        assert_eq!(printed(Path::new(name)), "m\\udcff\\udce2\\udc82d\u{e9}.xtc");
    }
}
