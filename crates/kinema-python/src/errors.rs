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
