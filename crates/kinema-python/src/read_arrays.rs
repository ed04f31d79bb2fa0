//! `Trajectory.read`: frames into arrays of NumPy.

use kinema_core::frame::{BlockMut, Fields, Real, RowsMut, Stamp, VectorsMut};
use kinema_core::pipeline::Progress;
use kinema_core::pipeline::arrays::{self, ArrayRequest};
use kinema_core::trajectory::Trajectory;
use numpy::ndarray::Array;
use numpy::{Element, IntoPyArray, PyArray1, PyArray3, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::invalid;
use crate::run::timings_dict;
use crate::signals::{run_inline, run_interruptible};

/// Up to this many vectors (frames x atoms of the files) are read on the calling thread: waiting for another thread
/// would take longer.
const BRIEF_VECTORS: u64 = 1 << 21;

/// A read into arrays of the caller, or new ones.
pub struct Fill<'a, 'py> {
    pub trajectory: &'a Trajectory,
    pub request: &'a ArrayRequest,
    pub asked: Fields,
    pub out: Option<&'a Bound<'py, PyAny>>,
    pub timings: Option<&'a Bound<'py, PyList>>,
}

impl<'py> Fill<'_, 'py> {
    /// Reads, and gives arrays by name.
    pub fn read<T: Element + Default + Real>(self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rows = usize::try_from(self.request.frames.len()).map_err(|_| invalid("too many frames"))?;
        let shape = [rows, self.request.atoms.n_requested(), 3];
        let mut out = self.out;
        let arrays: Vec<Option<Bound<'py, PyArray3<T>>>> = Fields::VECTORS
            .iter()
            .map(|&field| match (self.asked.contains(field), out.take()) {
                (false, given) => {
                    out = given;
                    Ok(None)
                }
                (true, None) => Ok(Some(PyArray3::zeros(py, shape, false))),
                (true, Some(given)) => callers_array(given, shape).map(Some),
            })
            .collect::<PyResult<_>>()?;
        let mut stamps = vec![Stamp::default(); rows];
        {
            let mut guards = arrays
                .iter()
                .map(|array| array.as_ref().map(|array| array.try_readwrite()).transpose())
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| invalid(format!("out cannot be written: {error}")))?;
            let mut vectors = [VectorsMut::Absent, VectorsMut::Absent, VectorsMut::Absent];
            for (vectors, guard) in vectors.iter_mut().zip(&mut guards) {
                if let Some(guard) = guard {
                    let values = guard.as_slice_mut().map_err(|_| invalid("out must be C-contiguous"))?;
                    *vectors = T::vectors(RowsMut::Adjacent(values, 3 * shape[1]));
                }
            }
            let n_selected = self.request.atoms.len();
            let arrays = BlockMut { n_selected, vectors, stamps: RowsMut::Adjacent(&mut stamps, 1) };
            let (trajectory, request) = (self.trajectory, self.request);
            let work = move |progress: &Progress| arrays::read(trajectory, request, arrays, progress);
            let timings = if rows as u64 * u64::from(trajectory.header().n_atoms) <= BRIEF_VECTORS {
                run_inline(py, work)?
            } else {
                run_interruptible(py, None, rows as u64, work)?
            };
            if let Some(list) = self.timings {
                list.append(timings_dict(py, &timings)?)?;
            }
        }
        let result = PyDict::new(py);
        for (array, field) in arrays.into_iter().zip(Fields::VECTORS) {
            if let Some(array) = array {
                result.set_item(field.names()[0], array)?;
            }
        }
        set_stamps(py, &stamps, self.asked, &result)?;
        let frames: Vec<u64> = (0..rows as u64).map(|row| self.request.frames.get(row)).collect();
        result.set_item("frames", frames.into_pyarray(py))?;
        Ok(result)
    }
}

/// Puts cells, their periodic edges, steps and times into the dict, and `present`: for each field an array that says
/// which frames have it.
pub(crate) fn set_stamps(py: Python<'_>, stamps: &[Stamp], asked: Fields, result: &Bound<'_, PyDict>) -> PyResult<()> {
    let cells: Vec<f64> = stamps.iter().flat_map(|stamp| stamp.cell).flatten().collect();
    let cells = Array::from_shape_vec((stamps.len(), 3, 3), cells).map_err(|error| invalid(error.to_string()))?;
    result.set_item("cells", cells.into_pyarray(py))?;
    let periodic: Vec<bool> = stamps.iter().flat_map(|stamp| stamp.periodic).collect();
    let periodic = Array::from_shape_vec((stamps.len(), 3), periodic).map_err(|error| invalid(error.to_string()))?;
    result.set_item("periodic", periodic.into_pyarray(py))?;
    result.set_item("steps", PyArray1::from_iter(py, stamps.iter().map(|stamp| stamp.step)))?;
    result.set_item("times", PyArray1::from_iter(py, stamps.iter().map(|stamp| stamp.time)))?;
    let vectors = Fields::VECTORS.into_iter().filter(|&field| asked.contains(field));
    let columns: Vec<_> = vectors.map(|field| (field.names()[0], field)).chain([("cells", Fields::CELL)]).collect();
    let flags = stamps.iter().flat_map(|stamp| columns.iter().map(|(_, field)| stamp.present.contains(*field)));
    let record: Vec<_> = columns.iter().map(|(name, _)| (*name, "?")).collect();
    result.set_item("present", PyArray1::from_vec(py, flags.collect()).call_method1("view", (record,))?)
}

fn callers_array<'py, T: Element>(given: &Bound<'py, PyAny>, shape: [usize; 3]) -> PyResult<Bound<'py, PyArray3<T>>> {
    let array = given
        .cast::<PyArray3<T>>()
        .map_err(|_| invalid("out must be a three-dimensional array of the dtype asked for (float32 unless stated)"))?;
    if array.shape() != shape {
        return Err(invalid(format!("out has the wrong shape, expected {shape:?}, found {:?}", array.shape())));
    }
    Ok(array.clone())
}
