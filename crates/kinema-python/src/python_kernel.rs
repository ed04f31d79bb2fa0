//! Kernels written in Python: the pipeline calls them block by block like any other, with the GIL taken for the call.
//!
//! `PythonCallback` keeps an exception, which is raised again in the call that started the run.

use std::sync::Arc;

use kinema_core::frame::Fields;
use kinema_core::reduce::{Frames, Kernel, Needs, ResultArray};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};
use numpy::ndarray::Array3;
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::callback::PythonCallback;
use crate::read_arrays::set_stamps;

const ID: &str = "python/1";

/// A kernel that calls Python: an object with the methods of `kinema.analysis.custom.Adapter`.
pub struct PythonKernel {
    adapter: Arc<PythonCallback>,
    atoms: AtomSelection,
    vectors: Fields,
}

impl PythonKernel {
    /// A kernel over `atoms`, whose `vectors` it sees in their requested order, and the cells.
    pub fn new(object: Py<PyAny>, atoms: AtomSelection, vectors: Fields) -> Self {
        Self { adapter: Arc::new(PythonCallback::new(object)), atoms, vectors }
    }

    /// For the caller, who raises the exception of the Python code.
    pub fn adapter(&self) -> Arc<PythonCallback> {
        self.adapter.clone()
    }

    /// The kernel's atoms in all rows of a field, in their requested order.
    fn requested(&self, frames: &Frames<'_>, field: Fields) -> Vec<f32> {
        let all = frames.all(field, 0);
        let Some(columns) = self.atoms.columns() else { return all.to_vec() };
        let rows = all.as_chunks::<3>().0.chunks_exact(self.atoms.len().max(1));
        rows.flat_map(|row| columns.iter().flat_map(|&column| row[column as usize])).collect()
    }
}

/// Data that a Python kernel has gathered; empty before its first block.
pub struct PythonPartial {
    adapter: Arc<PythonCallback>,
    gathered: Option<Py<PyAny>>,
}

impl PythonPartial {
    /// For the caller, who raises the exception of the Python code.
    pub fn adapter(&self) -> Arc<PythonCallback> {
        self.adapter.clone()
    }

    /// The kernel's results, a dict.
    pub fn finish<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let object = self.adapter.object(py);
        let gathered = match self.gathered {
            Some(gathered) => gathered.into_bound(py),
            None => object.call_method0("empty")?,
        };
        Ok(object.call_method1("finish", (gathered,))?.cast_into::<PyDict>()?)
    }

    /// The partial as bytes, with the exception that pickling may raise.
    pub fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = match &self.gathered {
            None => return Ok(PyBytes::new(py, b"")),
            Some(gathered) => self.adapter.object(py).call_method1("to_bytes", (gathered,))?,
        };
        Ok(bytes.cast_into::<PyBytes>()?)
    }
}

impl Kernel for PythonKernel {
    type Partial = PythonPartial;
    type Scratch = ();

    fn id(&self) -> &'static str {
        ID
    }

    fn needs(&self) -> Needs {
        Needs { fields: self.vectors | Fields::CELL, atom_sets: vec![self.atoms.clone()] }
    }

    fn empty(&self) -> PythonPartial {
        PythonPartial { adapter: self.adapter.clone(), gathered: None }
    }

    fn accumulate(&self, partial: &mut PythonPartial, frames: &Frames<'_>, (): &mut ()) -> Result<()> {
        let needed = Fields::VECTORS.into_iter().filter(|field| self.vectors.contains(*field));
        let vectors: Vec<(Fields, Vec<f32>)> = needed.map(|field| (field, self.requested(frames, field))).collect();
        let before = partial.gathered.take();
        let gathered = self.adapter.call(|py, object| {
            let arrays = PyDict::new(py);
            for (field, values) in vectors {
                let shaped = Array3::from_shape_vec((frames.rows(), self.atoms.n_requested(), 3), values)
                    .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
                arrays.set_item(field.names()[0], shaped.into_pyarray(py))?;
            }
            set_stamps(py, frames.stamps(), self.vectors, &arrays)?;
            arrays.set_item("frames", PyArray1::from_slice(py, frames.numbers()))?;
            let before = match before {
                Some(before) => before.into_bound(py),
                None => object.call_method0("empty")?,
            };
            Ok(object.call_method1("accumulate", (before, arrays))?.unbind())
        })?;
        partial.gathered = Some(gathered);
        Ok(())
    }

    fn merge(&self, left: &mut PythonPartial, right: PythonPartial) -> Result<()> {
        left.gathered = match (left.gathered.take(), right.gathered) {
            (Some(left), Some(right)) => {
                Some(self.adapter.call(|_, object| Ok(object.call_method1("merge", (left, right))?.unbind()))?)
            }
            (left, right) => left.or(right),
        };
        Ok(())
    }

    fn finish(&self, _: PythonPartial) -> Result<Vec<ResultArray>> {
        Err(Error::new(ErrorKind::Internal, "the results of a Python kernel are made in Python"))
    }

    fn to_bytes(&self, partial: &PythonPartial) -> Result<Vec<u8>> {
        self.adapter.call(|py, _| Ok(partial.to_bytes(py)?.as_bytes().to_vec()))
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<PythonPartial> {
        let mut partial = Kernel::empty(self);
        if !bytes.is_empty() {
            let restore = |py: Python<'_>, object: &Bound<'_, PyAny>| {
                Ok(object.call_method1("from_bytes", (PyBytes::new(py, bytes),))?.unbind())
            };
            partial.gathered = Some(self.adapter.call(restore)?);
        }
        Ok(partial)
    }
}
