//! Conversion of Python arguments (frames, atoms, names) to types of the core.

use std::path::Path;
use std::sync::Arc;

use kinema_core::format::AtomLabels;
use kinema_core::frame::{Fields, Precision};
use kinema_core::index::store::WriteFile;
use kinema_core::named::Named;
use kinema_core::selection::{AtomSelection, FrameSelection};
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::errors::{from_python, invalid, to_python};

/// A `kinema.FrameSelection`: its stride (start, step, length), or the numbers of its list.
pub fn frames(value: &Bound<'_, PyAny>) -> PyResult<FrameSelection> {
    let stride = value.getattr("stride").map_err(|_| invalid("frames must be a FrameSelection"))?;
    if let Some((start, step, count)) = stride.extract::<Option<(u64, i64, u64)>>()? {
        return Ok(FrameSelection::Stride { start, step, count });
    }
    let numbers = value.call_method0("numbers")?;
    let numbers = numbers.cast::<PyArray1<u64>>()?;
    Ok(FrameSelection::from_list(numbers.readonly().as_array().to_vec()))
}

/// Atom indices in any order, with repetitions.
pub fn atoms(value: &Bound<'_, PyArray1<u32>>, n_atoms: u32) -> PyResult<AtomSelection> {
    AtomSelection::new(value.readonly().as_array().to_vec(), n_atoms).map_err(|error| to_python(&error))
}

/// Names, masses and charges of atoms, and whether they come from the source's own records.
pub type Labels = (Option<Vec<String>>, Option<Vec<f64>>, Option<Vec<f64>>, bool);

/// Whether a dtype is float64.
pub fn is_double(dtype: &str) -> PyResult<bool> {
    Ok(named::<Precision>(dtype)? == Precision::Float64)
}

/// Names, masses and charges of the atoms of each frame, for formats that write them.
pub fn labels((names, masses, charges, of_source): Labels) -> Arc<AtomLabels> {
    Arc::new(AtomLabels { names, masses, charges, codes: None, of_source })
}

/// Names, masses and charges, one for each kind of atoms.
pub type Kinds = (Option<Vec<String>>, Option<Vec<f64>>, Option<Vec<f64>>);

/// The same for atoms that are given by kinds, and by the kind of each.
pub fn labels_of_kinds(
    kinds: Option<Kinds>,
    codes: Option<PyReadonlyArray1<'_, u32>>,
) -> PyResult<Option<Arc<AtomLabels>>> {
    match (kinds, codes) {
        (None, None) => Ok(None),
        (Some((names, masses, charges)), Some(codes)) => {
            let codes = Some(codes.as_array().to_vec());
            Ok(Some(Arc::new(AtomLabels { names, masses, charges, codes, of_source: false })))
        }
        _ => Err(invalid("kinds of atoms and codes, which say the kind of each atom, are given together")),
    }
}

/// Field names as a set.
pub fn fields(names: &[String]) -> PyResult<Fields> {
    names.iter().try_fold(Fields::NONE, |all, name| {
        let field = Fields::from_name(name)
            .ok_or_else(|| invalid(format!("no field \"{name}\"; fields are {}", Fields::ALL.names().join(", "))))?;
        Ok(all | field)
    })
}

/// The value of that name.
pub fn named<T: Named>(name: &str) -> PyResult<T> {
    T::from_name(name).map_err(|error| to_python(&error))
}

/// The names of all values.
pub fn names<T: Named>(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, T::ALL.iter().map(|(name, _)| *name))
}

/// Threads: as asked, or all that this process may use.
pub fn workers(asked: usize) -> usize {
    if asked > 0 { asked } else { std::thread::available_parallelism().map_or(1, |n| n.get()) }
}

/// The Python function that writes an index: (path, bytes) -> a note, or None.
pub fn index_writer(function: Py<PyAny>) -> Arc<WriteFile> {
    Arc::new(move |path: &Path, bytes: &[u8]| {
        let written = Python::attach(|py| {
            function.bind(py).call1((path.as_os_str(), PyBytes::new(py, bytes)))?.extract::<Option<String>>()
        });
        written.map_err(|error| from_python(&error))
    })
}
