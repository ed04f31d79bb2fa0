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

    /// For the caller, who raises what Python raised.
    pub fn adapter(&self) -> Arc<PythonCallback> {
        self.adapter.clone()
    }

    /// The kernel's atoms in all rows of a field, in their requested order.
    fn gather(&self, values: &[f32], block: &BlockView<'_>, maps: &[AtomMap], buffer: &mut Vec<f32>) -> Vec<f32> {
        let mut gathered = Vec::with_capacity(block.rows() * self.atoms.n_requested() * 3);
        for row in values.chunks_exact((3 * block.n_selected).max(1)) {
            for map in maps {
                let atoms = map.gather(row, buffer);
                match self.atoms.columns() {
                    None => gathered.extend_from_slice(atoms),
                    Some(columns) => {
                        let atoms = atoms.as_chunks::<3>().0;
                        gathered.extend(columns.iter().flat_map(|&column| atoms[column as usize]));
                    }
                }
            }
        }
        gathered
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
        Needs { fields: self.vectors | Fields::CELL, atom_sets: vec![self.atoms.clone()] }
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
        let needed = Fields::VECTORS.into_iter().zip([block.positions, block.velocities, block.forces]);
        let needed = needed.filter(|(field, _)| self.vectors.contains(*field));
        let vectors: Vec<(Fields, Vec<f32>)> =
            needed.map(|(field, values)| (field, self.gather(values, block, maps, &mut buffers.first))).collect();
        let before = partial.gathered.take();
        let gathered = self.adapter.call(|py, object| {
            let arrays = PyDict::new(py);
            for (field, values) in vectors {
                let shaped = Array3::from_shape_vec((block.rows(), self.atoms.n_requested(), 3), values)
                    .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
                arrays.set_item(field.names()[0], shaped.into_pyarray(py))?;
            }
            set_stamps(py, block.stamps, self.vectors, &arrays)?;
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
