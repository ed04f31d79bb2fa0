//! Conversion of the core's errors to the exception classes of `kinema.base.errors`, and back: the one place for both.

use std::path::{Path, PathBuf};

use kinema_core::error::printed;
use kinema_core::format::find_by_name;
use kinema_core::{Error, ErrorKind};
use pyo3::exceptions::PyException;
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
            py.import("kinema.base.errors")?.getattr("make")?.call1((
                name(error.kind()),
                error.to_string(),
                error.path().map(Path::as_os_str),
                error.format(),
                error.frame(),
                error.offset(),
            ))
        };
        let raised = error.cause().and_then(|cause| cause.downcast_ref::<PyErr>());
        let raised = raised.map(|raised| raised.clone_ref(py));
        match (make(), raised) {
            // an interrupt is passed on as it is
            (_, Some(raised)) if !raised.is_instance_of::<PyException>(py) => raised,
            (Ok(exception), raised) => {
                let exception = PyErr::from_value(exception);
                exception.set_cause(py, raised);
                exception
            }
            (Err(failure), _) => failure,
        }
    })
}

/// An `InvalidArgument` error as a Python exception.
pub fn invalid(what: impl Into<String>) -> PyErr {
    to_python(&Error::new(ErrorKind::InvalidArgument, what))
}

/// The message of an exception; names of files in it that are not UTF-8 are escaped as by [`printed`].
fn text_of(value: &Bound<'_, PyAny>) -> String {
    let escaped = |text: Bound<'_, PyAny>| -> PyResult<String> {
        match text.extract::<String>() {
            Ok(text) => Ok(text),
            Err(_) => value.py().import("kinema.base.printable")?.getattr("printable_lines")?.call1((text,))?.extract(),
        }
    };
    value.str().and_then(|text| escaped(text.into_any())).unwrap_or_default()
}

/// The error for an exception that Python raised on the way; classes of `kinema.base.errors` keep their kind and place.
pub fn from_python(raised: &PyErr) -> Error {
    Python::attach(|py| {
        let value = raised.value(py);
        let class = raised.get_type(py).name().map(|name| name.to_string()).unwrap_or_default();
        let text = text_of(value);
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
        let path = value.getattr("path").ok().and_then(|path| path.extract::<PathBuf>().ok());
        let Some(path) = path else { return Error::new(kind, text) };
        // the place is said once: by the error, not by its text
        let text = text.strip_prefix(&format!("{}: ", printed(&path))).unwrap_or(&text);
        let format =
            value.getattr("format").ok().and_then(|format| format.extract::<String>().ok()).unwrap_or_default();
        let frame = value.getattr("frame").ok().and_then(|frame| frame.extract::<u64>().ok());
        let offset = value.getattr("offset").ok().and_then(|offset| offset.extract::<u64>().ok());
        let place = match (frame, offset) {
            (None, _) => format!("{format}: "),
            (Some(frame), None) => format!("{format} frame {frame}: "),
            (Some(frame), Some(offset)) => format!("{format} frame {frame}, byte {offset}: "),
        };
        let error = Error::new(kind, text.strip_prefix(&place).unwrap_or(text)).with_path(&path);
        let error = match find_by_name(&format) {
            Some(known) => error.with_format(known.info().name),
            None => error,
        };
        match (frame, offset) {
            (Some(frame), Some(offset)) => error.with_frame(frame).with_byte(offset),
            (Some(frame), None) => error.with_frame(frame),
            (None, _) => error,
        }
    })
}
