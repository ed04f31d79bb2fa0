//! `Encoder`: the frames of a trajectory as a file of some format.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kinema_core::clock::WorkerTiming;
use kinema_core::format::{self, Encoder, Format, Making};
use kinema_core::index::{TableBuilder, TableIndex, store};
use kinema_core::pipeline::Progress;
use kinema_core::pipeline::encode::resume::{Commits, Committed, resume};
use kinema_core::pipeline::encode::{
    self, EncodeRequest, Encoded, Run, encode, encode_run, least_memory, making, pieces, place_of,
};
use kinema_core::selection::{AtomSelection, FrameSelection};
use kinema_core::sink::{FileSink, MemorySink, Sink};
use kinema_core::source::FileSource;
use kinema_core::trajectory::Trajectory;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments;
use crate::errors::{invalid, to_python};
use crate::signals::run_interruptible;
use crate::trajectory::PyTrajectory;

/// Time of a phase of one worker.
type PhaseOf = fn(&WorkerTiming) -> Duration;

/// Phases of the workers' time.
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
    encoder: Arc<dyn Encoder>,
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
        let format = format::find_by_name(format).ok_or_else(|| invalid(format!("no format \"{format}\"")))?;
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
        Ok(Self { trajectory: inner, format, frames, atoms, encoder: Arc::from(encoder) })
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

    /// Writes all frames into an existing file; messages call it `name`. `resumed` is the number of frames and bytes
    /// that an earlier call has committed: the file is then extended after them.
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
        result.set_item("phases", phases(py, &written)?)?;
        result.set_item("index", written.index.map(|index| self.index(index)))?;
        Ok(result)
    }

    /// Bytes of a record, if all have the same size.
    #[getter]
    fn record_bytes(&self) -> Option<u64> {
        Some(place_of(&*self.encoder, 1)? - place_of(&*self.encoder, 0)?)
    }

    /// The smallest memory limit with which one worker encodes, bytes.
    fn least_memory(&self) -> PyResult<u64> {
        least_memory(&self.trajectory, &self.request(0, 0), &*self.encoder).map_err(|error| to_python(&error))
    }

    /// The most bytes that a record has.
    #[getter]
    fn most_bytes(&self) -> u64 {
        self.encoder.placing().most_bytes()
    }

    /// Runs of positions from `first` on, whose records have at most `bytes`, or that are one frame; `number` runs or
    /// more if there are enough frames.
    fn pieces(&self, first: u64, bytes: u64, number: u64) -> PyResult<Vec<(u64, u64)>> {
        let found = pieces(&self.trajectory, &self.request(0, 0), &*self.encoder, first, bytes, number);
        let found = found.map_err(|error| to_python(&error))?;
        Ok(found.into_iter().map(|piece| (piece.start, piece.end)).collect())
    }

    /// Begins an existing file, to which any processes then add records; `commits` and `resumed` as in `write`.
    #[pyo3(signature = (path, name, *, commits, resumed=None))]
    fn begin(
        &self,
        py: Python<'_>,
        path: PathBuf,
        name: PathBuf,
        commits: Py<PyCommits>,
        resumed: Option<(u64, u64)>,
    ) -> PyResult<PyFileOfRuns> {
        let mut request = self.request(0, 0);
        let (begun, index, sink) = run_interruptible(py, None, 0, |_| {
            let sink = FileSink::open(&path, &name)?;
            if let Some((frames, bytes)) = resumed {
                let source = FileSource::open(&path)?;
                request.resumed = resume(self.format, &sink, &source, Committed { frames, bytes })?;
            }
            let (begun, index) = encode::begin(&request, &*self.encoder, &sink)?;
            Ok((begun, index, sink))
        })?;
        commits.get().0.begin(begun, self.encoder.head().len() as u64);
        Ok(PyFileOfRuns {
            encoder: Arc::clone(&self.encoder),
            format: self.format.info().name,
            n_atoms: self.atoms.n_requested() as u32,
            n_frames: self.frames.len(),
            commits,
            index: Mutex::new(index),
            sink,
        })
    }

    /// Writes the records of a run of positions, which all have the same size, to their places in the file; writes
    /// neither head nor count. With `sync`, returns when they are on the storage. Returns seconds of phases.
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python method")]
    #[pyo3(signature = (path, name, start, stop, *, workers=1, memory=0, sync=false))]
    fn write_run<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        name: PathBuf,
        start: u64,
        stop: u64,
        workers: usize,
        memory: u64,
        sync: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let at = place_of(&*self.encoder, start).ok_or_else(|| invalid("records of this format differ in size"))?;
        let request = self.request(workers, memory);
        let written = run_interruptible(py, None, stop.saturating_sub(start), |progress| {
            let sink = FileSink::open(&path, &name)?;
            let run = Run { frames: start..stop, at };
            let encoder = &*self.encoder;
            let done = encode_run(&self.trajectory, &request, run, self.format, encoder, &sink, progress)?;
            if sync {
                sink.sync()?;
            }
            Ok(done)
        })?;
        phases(py, &written)
    }

    /// The records of a run of positions as bytes. If sizes differ, also lengths, steps and times (in the unit of the
    /// file) of each. Also returns seconds of phases. Messages call the file `name`.
    #[pyo3(signature = (name, start, stop, *, workers=1, memory=0))]
    fn encode_run<'py>(
        &self,
        py: Python<'py>,
        name: PathBuf,
        start: u64,
        stop: u64,
        workers: usize,
        memory: u64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let request = self.request(workers, memory);
        let (written, bytes) = run_interruptible(py, None, stop.saturating_sub(start), |progress| {
            let sink = MemorySink::new(&name);
            let run = Run { frames: start..stop, at: 0 };
            let encoder = &*self.encoder;
            let done = encode_run(&self.trajectory, &request, run, self.format, encoder, &sink, progress)?;
            Ok((done, sink.into_bytes()))
        })?;
        let result = PyDict::new(py);
        result.set_item("bytes", bytes.into_pyarray(py))?;
        result.set_item("phases", phases(py, &written)?)?;
        result.set_item("index", written.index.map(|index| columns(py, &index)))?;
        Ok(result)
    }
}

impl PyEncoder {
    fn request(&self, workers: usize, memory: u64) -> EncodeRequest {
        let (frames, atoms) = (self.frames.clone(), self.atoms.clone());
        EncodeRequest { frames, atoms, workers: arguments::workers(workers), memory, resumed: None }
    }

    fn index(&self, index: TableIndex) -> PyWrittenIndex {
        PyWrittenIndex { index, format: self.format.info().name, n_atoms: self.atoms.n_requested() as u32 }
    }
}

/// Seconds of all workers by phase.
fn phases<'py>(py: Python<'py>, written: &Encoded) -> PyResult<Bound<'py, PyDict>> {
    let phases = PyDict::new(py);
    for (name, of) in PHASES {
        phases.set_item(name, written.timings.workers.iter().map(of).sum::<Duration>().as_secs_f64())?;
    }
    Ok(phases)
}

type Columns<'py> = (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<f64>>);

/// Lengths, steps and times.
fn columns<'py>(py: Python<'py>, index: &TableIndex) -> Columns<'py> {
    let frames = || 0..index.n_frames();
    let lengths: Vec<u64> = frames().map(|frame| index.extent(frame).len).collect();
    let steps: Vec<i64> = frames().map(|frame| index.step(frame)).collect();
    let times: Vec<f64> = frames().map(|frame| index.time(frame)).collect();
    (lengths.into_pyarray(py), steps.into_pyarray(py), times.into_pyarray(py))
}

/// A file whose records several processes write: its content and its end. See `Encoder.begin`.
#[pyclass(name = "FileOfRuns", module = "kinema._core", frozen)]
pub struct PyFileOfRuns {
    encoder: Arc<dyn Encoder>,
    format: &'static str,
    n_atoms: u32,
    n_frames: u64,
    commits: Py<PyCommits>,
    index: Mutex<TableBuilder>,
    sink: FileSink,
}

type ReadColumns<'py> = (PyReadonlyArray1<'py, u64>, PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, f64>);

#[pymethods]
impl PyFileOfRuns {
    /// Notes that a run is in the file, from position `start` to before `stop`. If sizes of frames differ, runs are
    /// added in their order, each with the values that `Encoder.encode_run` returns for its frames.
    #[pyo3(signature = (start, stop, n_bytes, index=None))]
    fn add(&self, start: u64, stop: u64, n_bytes: u64, index: Option<ReadColumns<'_>>) -> PyResult<()> {
        if let Some((lengths, steps, times)) = index {
            let (lengths, steps, times) = (lengths.as_array(), steps.as_array(), times.as_array());
            let mut table = self.index.lock().unwrap_or_else(PoisonError::into_inner);
            let counts = [lengths.len(), steps.len(), times.len()].map(|count| count as u64);
            if table.n_frames() != start || counts != [stop - start; 3] || lengths.sum() != n_bytes {
                return Err(invalid(format!("frames {start} to {stop} do not follow the frames of the index")));
            }
            for ((&len, &step), &time) in lengths.iter().zip(steps).zip(times) {
                table.push(len, step, time).map_err(|error| to_python(&error))?;
            }
        }
        self.commits.get().0.add(start, stop - start, n_bytes);
        Ok(())
    }

    /// Call this when all processes have put their records on the storage: syncs the file, and writes the count of
    /// frames. Returns its bytes, and its index if sizes of frames differ.
    fn finish(&self, py: Python<'_>) -> PyResult<(u64, Option<PyWrittenIndex>)> {
        let done = self.commits.get().0.committed();
        if done.frames != self.n_frames {
            return Err(invalid(format!("{} of {} frames are in the file", done.frames, self.n_frames)));
        }
        run_interruptible(py, None, 0, |_| encode::finish(&*self.encoder, &self.sink, done.frames))?;
        let ordered = place_of(&*self.encoder, 0).is_none();
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner).clone().finish();
        let (format, n_atoms) = (self.format, self.n_atoms);
        Ok((done.bytes, ordered.then_some(PyWrittenIndex { index, format, n_atoms })))
    }
}

/// Committed frames of a file while `Encoder.write` writes it.
#[pyclass(name = "Commits", module = "kinema._core", frozen)]
pub struct PyCommits(Commits);

#[pymethods]
impl PyCommits {
    #[new]
    fn new() -> Self {
        Self(Commits::default())
    }

    /// Number of whole frames at the front of the file, and the offset of their end.
    fn committed(&self) -> (u64, u64) {
        let Committed { frames, bytes } = self.0.committed();
        (frames, bytes)
    }

    /// Bytes before the first frame.
    fn head(&self) -> u64 {
        self.0.head()
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
    /// Stores the index beside the file, which has its final name, or in the user's cache folder, with a function as in
    /// `Trajectory`. Returns the path, and a note.
    fn store(&self, py: Python<'_>, path: PathBuf, write: Py<PyAny>) -> PyResult<(OsString, Option<String>)> {
        let write = arguments::index_writer(write);
        let (place, note) = run_interruptible(py, None, 0, |_| {
            store::save_written(&path, self.index.clone(), self.format, self.n_atoms, &*write)
        })?;
        Ok((place.into_os_string(), note))
    }
}
