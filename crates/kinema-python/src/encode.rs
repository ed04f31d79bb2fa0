//! `Encoder`: the frames of a trajectory as a file of some format.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kinema_core::clock::WorkerTiming;
use kinema_core::format::{self, Encoder, Format, Making};
use kinema_core::index::{TableIndex, store};
use kinema_core::pipeline::Progress;
use kinema_core::pipeline::encode::{EncodeRequest, encode, making};
use kinema_core::pipeline::resume::{Commits, Committed, resume};
use kinema_core::selection::{AtomSelection, FrameSelection};
use kinema_core::sink::FileSink;
use kinema_core::source::FileSource;
use kinema_core::trajectory::Trajectory;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments;
use crate::errors::invalid;
use crate::signals::run_interruptible;
use crate::trajectory::PyTrajectory;

/// Time of a phase of one worker.
type PhaseOf = fn(&WorkerTiming) -> Duration;

/// What the time of the workers goes to.
const PHASES: [(&str, PhaseOf); 6] = [
    ("open", |worker| worker.phases.open),
    ("io", |worker| worker.phases.io),
    ("decode", |worker| worker.phases.decode),
    ("encode", |worker| worker.compute),
    ("write", |worker| worker.write),
    ("wait", |worker| worker.wait),
];

/// Frames, and what makes their bytes.
#[pyclass(name = "Encoder", module = "kinema._core", frozen)]
pub struct PyEncoder {
    trajectory: Arc<Trajectory>,
    format: &'static dyn Format,
    frames: FrameSelection,
    atoms: AtomSelection,
    encoder: Box<dyn Encoder>,
}

#[pymethods]
impl PyEncoder {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python class")]
    #[pyo3(signature = (trajectory, frames, format, *, steps, times, atoms=None, fields=None, precision=None, dtype=None, title=None, labels=None))]
    fn new(
        py: Python<'_>,
        trajectory: &PyTrajectory,
        frames: &Bound<'_, PyAny>,
        format: &str,
        steps: PyReadonlyArray1<'_, i64>,
        times: PyReadonlyArray1<'_, f64>,
        atoms: Option<&Bound<'_, PyArray1<u32>>>,
        fields: Option<Vec<String>>,
        precision: Option<f64>,
        dtype: Option<&str>,
        title: Option<String>,
        labels: Option<arguments::Labels>,
    ) -> PyResult<Self> {
        trajectory.scanned(py)?;
        let inner = Arc::clone(&trajectory.inner);
        let format = format::by_name(format).ok_or_else(|| invalid(format!("no format \"{format}\"")))?;
        let frames = arguments::frames(frames)?;
        let atoms = match atoms {
            None => AtomSelection::all(inner.n_atoms()),
            Some(indices) => arguments::atoms(indices, inner.n_atoms())?,
        };
        let fields = fields.map(|names| arguments::fields(&names)).transpose()?;
        let labels = labels.map(arguments::labels);
        let double = dtype.map(arguments::is_double).transpose()?;
        let (steps, times) = (steps.as_array().to_vec(), times.as_array().to_vec());
        let make = |_: &Progress| {
            let known = making(&inner, &frames, &atoms, format)?;
            let title = title.or(known.title);
            format.encoder(&Making { fields, steps, times, precision, double, title, labels, ..known })
        };
        let encoder = run_interruptible(py, None, 0, make)?;
        Ok(Self { trajectory: inner, format, frames, atoms, encoder })
    }

    #[getter]
    fn format(&self) -> &'static str {
        self.format.info().name
    }

    #[getter]
    fn fields(&self) -> Vec<&'static str> {
        self.encoder.fields().names()
    }

    #[getter]
    fn losses(&self) -> Vec<String> {
        self.encoder.losses().to_vec()
    }

    /// angstrom (per ps)
    #[getter]
    fn largest_rounding(&self) -> f64 {
        self.encoder.largest_rounding() * self.format.info().scales.length
    }

    /// Writes all frames into a file that is there; messages call it `name`. With `resumed`, the frames and bytes that an
    /// earlier call has committed, it goes on behind them.
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python method")]
    #[pyo3(signature = (path, name, *, workers=0, memory=0, progress=None, commits=None, resumed=None))]
    fn write<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        name: PathBuf,
        workers: usize,
        memory: u64,
        progress: Option<&Bound<'py, PyAny>>,
        commits: Option<&PyCommits>,
        resumed: Option<(u64, u64)>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let mut request = EncodeRequest {
            frames: self.frames.clone(),
            atoms: self.atoms.clone(),
            workers: arguments::workers(workers),
            memory,
            resumed: None,
        };
        let unseen = Commits::default();
        let commits = commits.map_or(&unseen, |commits| &commits.0);
        let written = run_interruptible(py, progress, request.frames.len(), |progress: &Progress| {
            let sink = FileSink::open(&path, &name)?;
            if let Some((frames, bytes)) = resumed {
                let source = FileSource::open(&path)?;
                request.resumed = resume(self.format, &sink, &source, Committed { frames, bytes })?;
            }
            encode(&self.trajectory, &request, self.format, &*self.encoder, &sink, commits, progress)
        })?;
        let result = PyDict::new(py);
        result.set_item("bytes", written.bytes)?;
        result.set_item("workers", written.timings.workers.len())?;
        result.set_item("wall", written.timings.wall.as_secs_f64())?;
        let phases = PyDict::new(py);
        for (name, of) in PHASES {
            phases.set_item(name, written.timings.workers.iter().map(of).sum::<Duration>().as_secs_f64())?;
        }
        result.set_item("phases", phases)?;
        let (format, n_atoms) = (self.format.info().name, self.atoms.n_requested() as u32);
        result.set_item("index", written.index.map(|index| PyWrittenIndex { index, format, n_atoms }))?;
        Ok(result)
    }
}

/// What is committed of a file while `Encoder.write` writes it.
#[pyclass(name = "Commits", module = "kinema._core", frozen)]
pub struct PyCommits(Commits);

#[pymethods]
impl PyCommits {
    #[new]
    fn new() -> Self {
        Self(Commits::default())
    }

    /// Frames at the front of the file that are whole, and the byte behind them.
    fn committed(&self) -> (u64, u64) {
        let Committed { frames, bytes } = self.0.committed();
        (frames, bytes)
    }
}

/// The frame index of a file, known from having written it.
#[pyclass(name = "WrittenIndex", module = "kinema._core", frozen)]
pub struct PyWrittenIndex {
    index: TableIndex,
    format: &'static str,
    n_atoms: u32,
}

#[pymethods]
impl PyWrittenIndex {
    /// Stores it beside the file, which has its final name, or in the user's cache folder, with a function as that of
    /// `Trajectory`. Returns where, and what is to be noted.
    fn store(&self, py: Python<'_>, path: PathBuf, write: Py<PyAny>) -> PyResult<(OsString, Option<String>)> {
        let write = arguments::index_writer(write);
        let (place, note) = run_interruptible(py, None, 0, |_| {
            store::save_written(&path, self.index.clone(), self.format, self.n_atoms, &*write)
        })?;
        Ok((place.into_os_string(), note))
    }
}
