//! `read_frames`: frames of several trajectories, in any order, into arrays of the caller with the atoms of all of them.

use std::sync::Arc;

use kinema_core::frame::{BlockMut, Fields, Real, RowsMut, Stamp, Units, VectorsMut};
use kinema_core::pipeline::Progress;
use kinema_core::pipeline::arrays::{self, ArrayPart, ArrayRequest};
use kinema_core::selection::{AtomSelection, FrameSelection};
use kinema_core::trajectory::Trajectory;
use numpy::ndarray::Array;
use numpy::{Element, IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments;
use crate::errors::{invalid, to_python};
use crate::signals::{run_inline, run_interruptible};
use crate::trajectory::PyTrajectory;

/// Up to this many vectors are read on the calling thread.
const BRIEF_VECTORS: usize = 1 << 21;

/// The samples of one trajectory: their numbers in the batch, and the request that reads them.
struct Share {
    trajectory: Arc<Trajectory>,
    samples: Vec<usize>,
    request: ArrayRequest,
}

/// Frames of several trajectories; see the stub.
#[pyfunction]
#[pyo3(signature = (trajectories, which, frames, *, atoms, fields, dtype, out, workers=0))]
#[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub fn read_frames<'py>(
    py: Python<'py>,
    trajectories: Vec<PyRef<'py, PyTrajectory>>,
    which: PyReadonlyArray1<'py, i64>,
    frames: PyReadonlyArray1<'py, i64>,
    atoms: Vec<Option<Bound<'py, PyArray1<u32>>>>,
    fields: Vec<String>,
    dtype: &str,
    out: Vec<Bound<'py, PyAny>>,
    workers: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let (which, frames) = (which.as_array().to_vec(), frames.as_array().to_vec());
    if which.len() != frames.len() || trajectories.len() != atoms.len() || fields.len() != out.len() {
        return Err(invalid("the arguments have different lengths"));
    }
    let mut samples = vec![Vec::new(); trajectories.len()];
    for (sample, &number) in which.iter().enumerate() {
        let place = usize::try_from(number).ok().and_then(|number| samples.get_mut(number));
        place.ok_or_else(|| invalid(format!("there is no trajectory {number}")))?.push(sample);
    }
    let mut shares = Vec::new();
    for ((trajectory, samples), atoms) in trajectories.iter().zip(samples).zip(&atoms) {
        if samples.is_empty() {
            continue;
        }
        let n_frames = trajectory.scanned(py)?.concatenation.n_frames;
        let atoms = match atoms {
            None => AtomSelection::all(trajectory.inner.n_atoms()),
            Some(indices) => arguments::atoms(indices, trajectory.inner.n_atoms())?,
        };
        let numbers = samples.iter().map(|&sample| u64::try_from(frames[sample]));
        let numbers: Vec<u64> = numbers.collect::<Result<_, _>>().map_err(|_| invalid("frames count from 0"))?;
        let frames = FrameSelection::from_list(numbers);
        frames.check(n_frames).map_err(|error| to_python(&error))?;
        let request = ArrayRequest { frames, atoms, units: Units::Public, mark_absent: false, workers, memory: 0 };
        shares.push(Share { trajectory: trajectory.inner.clone(), samples, request });
    }
    let call = Call { n: which.len(), shares, fields, workers: arguments::workers(workers) };
    if arguments::is_double(dtype)? { call.read::<f64>(py, &out) } else { call.read::<f32>(py, &out) }
}

/// Plan of a read of these frames: bytes, frames that are decoded together, frames that are decoded.
#[pyfunction]
#[pyo3(signature = (trajectory, frames, *, atoms, fields))]
pub fn plan_frames(
    py: Python<'_>,
    trajectory: PyRef<'_, PyTrajectory>,
    frames: &Bound<'_, PyAny>,
    atoms: Option<Bound<'_, PyArray1<u32>>>,
    fields: Vec<String>,
) -> PyResult<(u64, u64, u64)> {
    trajectory.scanned(py)?;
    let atoms = match &atoms {
        None => AtomSelection::all(trajectory.inner.n_atoms()),
        Some(indices) => arguments::atoms(indices, trajectory.inner.n_atoms())?,
    };
    let frames = arguments::frames(frames)?;
    let request = ArrayRequest { frames, atoms, units: Units::Public, mark_absent: false, workers: 1, memory: 0 };
    let fields = arguments::fields(&fields)? | Fields::CELL | Fields::STEP | Fields::TIME;
    let inner = trajectory.inner.clone();
    let plan = py.detach(|| arrays::plan(&inner, &request, fields)).map_err(|error| to_python(&error))?;
    Ok((plan.bytes, plan.coupled, plan.decoded))
}

struct Call {
    /// Samples.
    n: usize,
    shares: Vec<Share>,
    fields: Vec<String>,
    workers: usize,
}

impl Call {
    fn read<'py, T: Element + Real>(self, py: Python<'py>, out: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyDict>> {
        let mut widths = vec![0; self.n];
        for share in &self.shares {
            share.samples.iter().for_each(|&sample| widths[sample] = 3 * share.request.atoms.n_requested());
        }
        let total = widths.iter().sum::<usize>();
        let mut guards = Vec::new();
        for array in out {
            let array = array.cast::<PyArray1<T>>().map_err(|_| invalid("out has another type or shape"))?;
            let guard = array.try_readwrite().map_err(|error| invalid(format!("out cannot be written: {error}")))?;
            if guard.as_array().len() != total {
                return Err(invalid(format!("out has {} values, expected {total}", guard.as_array().len())));
            }
            guards.push(guard);
        }
        let mut stamps = vec![Stamp::default(); self.n];
        {
            let mut fields: [Option<Vec<&mut [T]>>; 3] = [None, None, None];
            for (name, guard) in self.fields.iter().zip(&mut guards) {
                let field = arguments::fields(std::slice::from_ref(name))?;
                let place = Fields::VECTORS.into_iter().position(|known| known == field);
                let place = place.ok_or_else(|| invalid(format!("{name} is not a vector of the atoms")))?;
                let mut rest = guard.as_slice_mut().map_err(|_| invalid("out must be C-contiguous"))?;
                let mut rows = Vec::with_capacity(self.n);
                for &width in &widths {
                    let (row, behind) = std::mem::take(&mut rest).split_at_mut(width);
                    rows.push(row);
                    rest = behind;
                }
                fields[place] = Some(rows);
            }
            let mut stamp_rows: Vec<&mut [Stamp]> = stamps.chunks_exact_mut(1).collect();
            let parts = self.shares.iter().map(|share| {
                let vectors = fields.each_mut().map(|rows| match rows {
                    None => VectorsMut::Absent,
                    Some(rows) => T::vectors(RowsMut::Scattered(taken(rows, &share.samples))),
                });
                let stamps = RowsMut::Scattered(taken(&mut stamp_rows, &share.samples));
                let arrays = BlockMut { n_selected: share.request.atoms.len(), vectors, stamps };
                ArrayPart { trajectory: &share.trajectory, request: &share.request, arrays }
            });
            let parts: Vec<ArrayPart<'_>> = parts.collect();
            let workers = self.workers;
            let work = move |progress: &Progress| arrays::read_parts(parts, workers, progress);
            let n = self.n as u64;
            if total <= 3 * BRIEF_VECTORS {
                run_inline(py, work)?
            } else {
                run_interruptible(py, None, n, work)?
            };
        }
        let result = PyDict::new(py);
        let cells: Vec<f64> = stamps.iter().flat_map(|stamp| stamp.cell).flatten().collect();
        let cells = Array::from_shape_vec((stamps.len(), 3, 3), cells).map_err(|error| invalid(error.to_string()))?;
        result.set_item("cells", cells.into_pyarray(py))?;
        result.set_item("steps", PyArray1::from_iter(py, stamps.iter().map(|stamp| stamp.step)))?;
        result.set_item("times", PyArray1::from_iter(py, stamps.iter().map(|stamp| stamp.time)))?;
        Ok(result)
    }
}

/// The rows of these samples.
fn taken<'a, T>(rows: &mut [&'a mut [T]], samples: &[usize]) -> Vec<&'a mut [T]> {
    samples.iter().map(|&sample| std::mem::take(&mut rows[sample])).collect()
}
