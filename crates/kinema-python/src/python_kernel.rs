//! Kernels written in Python: the pipeline calls them block by block like any other, with the GIL taken for the call.
//!
//! An exception is kept by `PythonCallback` and raised again where the run was started.

use std::sync::Arc;

use kinema_core::frame::{BlockView, Fields};
use kinema_core::reduce::{AtomMap, Buffers, Kernel, Needs, ResultArray};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};
use numpy::ndarray::Array3;
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::callback::PythonCallback;

const ID: &str = "python/1";

/// A kernel that calls Python: an object with the methods of `kinema.analysis.custom.Adapter`.
pub struct PythonKernel {
    adapter: Arc<PythonCallback>,
    atoms: AtomSelection,
}

impl PythonKernel {
    /// A kernel over `atoms`, which it sees in their requested order.
    pub fn new(object: Py<PyAny>, atoms: AtomSelection) -> Self {
        Self { adapter: Arc::new(PythonCallback::new(object)), atoms }
    }

    /// For the caller, who raises what Python raised.
    pub fn adapter(&self) -> Arc<PythonCallback> {
        self.adapter.clone()
    }
}

/// What a Python kernel has gathered; nothing before its first block.
pub struct PythonPartial {
    adapter: Arc<PythonCallback>,
    gathered: Option<Py<PyAny>>,
}

impl PythonPartial {
    /// For the caller, who raises what Python raised.
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

    fn id(&self) -> &'static str {
        ID
    }

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS, atom_sets: vec![self.atoms.clone()] }
    }

    fn empty(&self) -> PythonPartial {
        PythonPartial { adapter: self.adapter.clone(), gathered: None }
    }

    fn accumulate(
        &self,
        partial: &mut PythonPartial,
        block: &BlockView<'_>,
        maps: &[AtomMap],
        buffers: &mut Buffers,
    ) -> Result<()> {
        let mut positions = Vec::with_capacity(block.rows() * self.atoms.n_requested() * 3);
        for (row, map) in (0..block.rows()).flat_map(|row| maps.iter().map(move |map| (row, map))) {
            let atoms = map.gather(block.positions_of(row), &mut buffers.first);
            match self.atoms.columns() {
                None => positions.extend_from_slice(atoms),
                Some(columns) => {
                    let atoms = atoms.as_chunks::<3>().0;
                    positions.extend(columns.iter().flat_map(|&column| atoms[column as usize]));
                }
            }
        }
        let cells: Vec<f32> = block.cells.iter().flatten().flatten().copied().collect();
        let before = partial.gathered.take();
        let gathered = self.adapter.call(|py, object| {
            let shaped = |values: Vec<f32>, n: usize| {
                Array3::from_shape_vec((block.rows(), n, 3), values)
                    .map(|array| array.into_pyarray(py))
                    .map_err(|error| PyRuntimeError::new_err(error.to_string()))
            };
            let arrays = PyDict::new(py);
            arrays.set_item("positions", shaped(positions, self.atoms.n_requested())?)?;
            arrays.set_item("cells", shaped(cells, 3)?)?;
            arrays.set_item("steps", PyArray1::from_slice(py, block.steps))?;
            arrays.set_item("times", PyArray1::from_slice(py, block.times))?;
            arrays.set_item("frames", PyArray1::from_slice(py, block.frames))?;
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
