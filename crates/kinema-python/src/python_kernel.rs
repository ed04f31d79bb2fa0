//! Kernels written in Python: the engine calls them block by block like any other, with the GIL taken for the call.
//!
//! What Python raises is kept here and raised again where the run was started, as the exception that it was.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use kinema_core::frame::{BlockView, Fields};
use kinema_core::kernel::{AtomMap, Buffers, Kernel, Needs, ResultArray};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};
use numpy::ndarray::Array3;
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

const ID: &str = "python/1";

/// The Python object (`kinema.analysis.custom.Adapter`), and what it raised.
pub struct Adapter {
    object: Py<PyAny>,
    raised: Mutex<Option<PyErr>>,
    lost: AtomicBool,
}

impl Adapter {
    /// The exception that ended the run, if one did; taken once.
    pub fn take_raised(&self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether an exception while merging has cost what was gathered: what is left is not to be stored.
    pub fn has_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Calls a method; an exception is kept, the first one counts.
    fn call<T>(&self, call: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>) -> Option<T> {
        Python::attach(|py| match call(py, self.object.bind(py)) {
            Ok(value) => Some(value),
            Err(error) => {
                self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                None
            }
        })
    }
}

/// The stand-in for an exception on its way through the engine.
fn stopped() -> Error {
    Error::new(ErrorKind::Cancelled, "stopped by an exception of a kernel written in Python")
}

/// A kernel that calls Python.
pub struct PythonKernel {
    adapter: Arc<Adapter>,
    atoms: AtomSelection,
}

impl PythonKernel {
    /// A kernel over `atoms`.
    pub fn new(object: Py<PyAny>, atoms: AtomSelection) -> Self {
        Self { adapter: Arc::new(Adapter { object, raised: Mutex::new(None), lost: AtomicBool::new(false) }), atoms }
    }

    /// For the caller, who raises what Python raised.
    pub fn adapter(&self) -> Arc<Adapter> {
        self.adapter.clone()
    }
}

/// What a Python kernel has gathered; nothing before its first block.
pub struct PythonPartial {
    adapter: Arc<Adapter>,
    gathered: Option<Py<PyAny>>,
}

impl PythonPartial {
    /// The kernel's results, a dict.
    pub fn finish<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let object = self.adapter.object.bind(py);
        let gathered = match self.gathered {
            Some(gathered) => gathered.into_bound(py),
            None => object.call_method0("empty")?,
        };
        Ok(object.call_method1("finish", (gathered,))?.cast_into::<PyDict>()?)
    }

    /// The partial as bytes, with the exception that pickling may raise.
    pub fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let packed = match &self.gathered {
            None => return Ok(PyBytes::new(py, b"")),
            Some(gathered) => self.adapter.object.bind(py).call_method1("pack", (gathered,))?,
        };
        Ok(packed.cast_into::<PyBytes>()?)
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
        let mut positions = Vec::with_capacity(block.rows() * self.atoms.len() * 3);
        for (row, map) in (0..block.rows()).flat_map(|row| maps.iter().map(move |map| (row, map))) {
            positions.extend_from_slice(map.gather(block.positions_of(row), &mut buffers.first));
        }
        let cells: Vec<f32> = block.cells.iter().flatten().flatten().copied().collect();
        let before = partial.gathered.take();
        partial.gathered = self.adapter.call(|py, object| {
            let shaped = |values: Vec<f32>, n: usize| {
                Array3::from_shape_vec((block.rows(), n, 3), values)
                    .map(|array| array.into_pyarray(py))
                    .map_err(|error| PyRuntimeError::new_err(error.to_string()))
            };
            let arrays = PyDict::new(py);
            arrays.set_item("positions", shaped(positions, self.atoms.len())?)?;
            arrays.set_item("cells", shaped(cells, 3)?)?;
            arrays.set_item("steps", PyArray1::from_slice(py, block.steps))?;
            arrays.set_item("times", PyArray1::from_slice(py, block.times))?;
            arrays.set_item("frames", PyArray1::from_slice(py, block.frames))?;
            let before = match before {
                Some(before) => before.into_bound(py),
                None => object.call_method0("empty")?,
            };
            Ok(object.call_method1("accumulate", (before, arrays))?.unbind())
        });
        if partial.gathered.is_some() { Ok(()) } else { Err(stopped()) }
    }

    fn merge(&self, left: &mut PythonPartial, right: PythonPartial) {
        left.gathered = match (left.gathered.take(), right.gathered) {
            // an exception is found by whoever started the run
            (Some(left), Some(right)) => {
                let merged = self.adapter.call(|_, object| Ok(object.call_method1("merge", (left, right))?.unbind()));
                if merged.is_none() {
                    self.adapter.lost.store(true, Ordering::Release);
                }
                merged
            }
            (left, right) => left.or(right),
        };
    }

    fn finish(&self, _: PythonPartial) -> Result<Vec<ResultArray>> {
        Err(Error::new(ErrorKind::Internal, "the results of a Python kernel are made in Python"))
    }

    fn to_bytes(&self, partial: &PythonPartial) -> Vec<u8> {
        self.adapter.call(|py, _| Ok(partial.to_bytes(py)?.as_bytes().to_vec())).unwrap_or_default()
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<PythonPartial> {
        let mut partial = Kernel::empty(self);
        if !bytes.is_empty() {
            let unpack = |py: Python<'_>, object: &Bound<'_, PyAny>| {
                Ok(object.call_method1("unpack", (PyBytes::new(py, bytes),))?.unbind())
            };
            partial.gathered = Some(self.adapter.call(unpack).ok_or_else(stopped)?);
        }
        Ok(partial)
    }
}
