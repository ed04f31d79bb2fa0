//! `FileIdentity`: the state of a file, for everything that Python keeps about it.

use std::path::PathBuf;

use kinema_core::index::identity::{FileIdentity, Match};
use kinema_core::source::{FileSource, FileStatus, Source};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::invalid;
use crate::signals::run_interruptible;

/// Identity of a file at a moment.
#[pyclass(name = "FileIdentity", module = "kinema._core", frozen)]
pub struct PyFileIdentity(pub FileIdentity);

#[pymethods]
impl PyFileIdentity {
    /// Identity of a file now.
    #[staticmethod]
    #[pyo3(signature = (path, places=FileIdentity::PLACES))]
    fn of(py: Python<'_>, path: PathBuf, places: u64) -> PyResult<Self> {
        let identity = run_interruptible(py, None, 0, |_| {
            let source = FileSource::open(&path)?;
            let status = FileStatus::settled_of(&source)?;
            FileIdentity::from_source(&source, source.len()?, status, None, places)
        })?;
        Ok(Self(identity))
    }

    /// Back from `to_bytes`.
    #[staticmethod]
    fn from_bytes(mut data: &[u8]) -> PyResult<Self> {
        match FileIdentity::take(&mut data) {
            Some(identity) if data.is_empty() => Ok(Self(identity)),
            _ => Err(invalid("these bytes are not the identity of a file")),
        }
    }

    /// To be stored.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    /// Bytes of the file.
    #[getter]
    fn size(&self) -> u64 {
        self.0.size
    }

    /// The content in 16 hexadecimal digits.
    #[getter]
    fn fingerprint(&self) -> String {
        self.0.fingerprint()
    }

    /// Whether inode, size and times say that nothing was changed up to `now`.
    fn is_unchanged(&self, now: &Self) -> bool {
        self.0.compare(&now.0) == Match::Unchanged
    }

    /// Compares the file of that name with this identity: "unchanged", by its status; "grown", with the same content
    /// wherever it was sampled, up to its former end; or "changed".
    fn state_of(&self, py: Python<'_>, path: PathBuf) -> PyResult<&'static str> {
        run_interruptible(py, None, 0, |_| {
            let source = FileSource::open(&path)?;
            Ok(match self.0.check(&source, None)? {
                Match::Unchanged => "unchanged",
                Match::SameContent if source.len()? > self.0.size => "grown",
                Match::SameContent | Match::Changed(_) => "changed",
            })
        })
    }

    /// The reason why a file has changed, or may have, in words; `None` if it has not.
    fn difference(&self, now: &Self) -> Option<String> {
        match self.0.compare(&now.0) {
            Match::Changed(how) => Some(how),
            Match::Unchanged | Match::SameContent => None,
        }
    }
}
