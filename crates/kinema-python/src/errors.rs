//! Kinema's errors become the exception classes of `kinema.errors`: the one place where that happens.

use kinema_core::{Error, ErrorKind};
use pyo3::prelude::*;

fn name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "NotFound",
        ErrorKind::PermissionDenied => "PermissionDenied",
        ErrorKind::Io => "Io",
        ErrorKind::Truncated => "Truncated",
        ErrorKind::Corrupt => "Corrupt",
        ErrorKind::Unsupported => "Unsupported",
        ErrorKind::InvalidArgument => "InvalidArgument",
        ErrorKind::OutOfRange => "OutOfRange",
        ErrorKind::MemoryLimit => "MemoryLimit",
        ErrorKind::Cancelled => "Cancelled",
        ErrorKind::Internal => "Internal",
    }
}

/// The Python exception of an error.
pub fn to_python(error: &Error) -> PyErr {
    Python::attach(|py| {
        let make = || {
            py.import("kinema.errors")?.getattr("make")?.call1((
                name(error.kind()),
                error.to_string(),
                error.path().map(|path| path.display().to_string()),
                error.format(),
                error.frame(),
                error.offset(),
            ))
        };
        match make() {
            Ok(exception) => PyErr::from_value(exception),
            Err(failure) => failure,
        }
    })
}

/// An `InvalidArgument` error as a Python exception.
pub fn invalid(what: impl Into<String>) -> PyErr {
    to_python(&Error::new(ErrorKind::InvalidArgument, what))
}

/// The error of an exception that was raised by Python on the way; classes of `kinema.errors` keep their kind and place.
pub fn from_python(raised: &PyErr) -> Error {
    Python::attach(|py| {
        let value = raised.value(py);
        let class = raised.get_type(py).name().map(|name| name.to_string()).unwrap_or_default();
        let text = value.to_string();
        let kind = match class.as_str() {
            "FileNotFound" => ErrorKind::NotFound,
            "FileAccessError" => ErrorKind::PermissionDenied,
            "FileIOError" => ErrorKind::Io,
            "TruncatedFileError" => ErrorKind::Truncated,
            "CorruptFileError" => ErrorKind::Corrupt,
            "UnsupportedFormatError" => ErrorKind::Unsupported,
            "ArgumentError" => ErrorKind::InvalidArgument,
            "OutOfRangeError" => ErrorKind::OutOfRange,
            "MemoryLimitError" => ErrorKind::MemoryLimit,
            "CancelledError" | "KeyboardInterrupt" => ErrorKind::Cancelled,
            _ => return Error::new(ErrorKind::Internal, format!("{class}: {text}")),
        };
        let path = value.getattr("path").ok().and_then(|path| path.extract::<String>().ok());
        let Some(path) = path else { return Error::new(kind, text) };
        // the place is said once: by the error, not by its text
        let text = text.strip_prefix(&format!("{path}: ")).unwrap_or(&text);
        let text = text.strip_prefix("H5MD: ").unwrap_or(text);
        Error::new(kind, text).at_path(std::path::Path::new(&path))
    })
}
