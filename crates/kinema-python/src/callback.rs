//! Callbacks into Python from threads of the core, with the exceptions that they raise: the core's errors cannot carry
//! an exception.
//!
//! The caller that started the work raises the kept exception.

use std::sync::{Mutex, PoisonError};

use kinema_core::{Error, ErrorKind, Result};
use pyo3::prelude::*;

/// An object to call, with the first exception of any call.
pub struct PythonCallback {
    object: Py<PyAny>,
    raised: Mutex<Option<PyErr>>,
}

impl PythonCallback {
    /// A callback to that object.
    pub fn new(object: Py<PyAny>) -> Self {
        Self { object, raised: Mutex::new(None) }
    }

    /// The object itself, for callers that can raise an exception.
    pub fn object<'a, 'py>(&'a self, py: Python<'py>) -> &'a Bound<'py, PyAny> {
        self.object.bind(py)
    }

    /// Takes the GIL and calls the object. An exception is kept, unless one is kept already.
    ///
    /// # Errors
    /// `Cancelled` in place of the exception.
    pub fn call<T>(&self, call: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>) -> Result<T> {
        Python::attach(|py| call(py, self.object.bind(py))).map_err(|exception| {
            self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(exception);
            Error::new(ErrorKind::Cancelled, "stopped by an exception of Python code")
        })
    }

    /// The exception that was kept, if there is one; given once.
    pub fn take_raised(&self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The result of the work. If the work failed, an exception raised by one of these objects replaces its error.
pub fn or_raised<'a, T>(called: impl IntoIterator<Item = &'a PythonCallback>, outcome: PyResult<T>) -> PyResult<T> {
    outcome.map_err(|error| called.into_iter().find_map(PythonCallback::take_raised).unwrap_or(error))
}
