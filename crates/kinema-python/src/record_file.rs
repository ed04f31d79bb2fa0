//! `RecordFile`: a file of records that frames are added to.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kinema_core::format::{self, Making};
use kinema_core::frame::{Cell, Stamp};
use kinema_core::index::store::save_written;
use kinema_core::pipeline::Progress;
use kinema_core::pipeline::encode::record_file::{Given, RecordFile, Values};
use kinema_core::sink::FileSink;
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arguments;
use crate::atom_records::cell_of;
use crate::errors::{invalid, to_python};
use crate::signals::{run_inline, run_interruptible};
use crate::trajectory::PyTrajectory;

/// A file that is written frame after frame.
#[pyclass(name = "RecordFile", module = "kinema._core", frozen)]
pub struct PyRecordFile {
    inner: Mutex<RecordFile>,
}

/// Vectors of some frames.
pub enum Vectors<'py> {
    Single(PyReadonlyArrayDyn<'py, f32>),
    Double(PyReadonlyArrayDyn<'py, f64>),
}

impl<'py> Vectors<'py> {
    /// # Errors
    /// If the array is not of float32 or float64.
    pub fn extract(array: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(single) = array.extract() {
            return Ok(Self::Single(single));
        }
        array.extract().map(Self::Double).map_err(|_| invalid("vectors are arrays of float32 or float64"))
    }

    /// Their values, which are `rows` x `n_atoms` x 3.
    fn values(&self, rows: usize, n_atoms: usize) -> PyResult<Values<'_>> {
        let shape = self.shape();
        if shape != [rows, n_atoms, 3] {
            return Err(invalid(format!("vectors have shape {shape:?}, expected [{rows}, {n_atoms}, 3]")));
        }
        self.contiguous()
    }

    /// The values of one frame, atoms x 3.
    pub fn one_frame(&self) -> PyResult<Values<'_>> {
        match self.shape() {
            [_, 3] => self.contiguous(),
            shape => Err(invalid(format!("vectors have shape {shape:?}, expected [atoms, 3]"))),
        }
    }

    fn shape(&self) -> &[usize] {
        match self {
            Self::Single(array) => array.shape(),
            Self::Double(array) => array.shape(),
        }
    }

    fn contiguous(&self) -> PyResult<Values<'_>> {
        let values = match self {
            Self::Single(array) => array.as_slice().map(Values::F32),
            Self::Double(array) => array.as_slice().map(Values::F64),
        };
        values.map_err(|_| invalid("vectors must be C-contiguous"))
    }
}

fn making(
    n_atoms: u32,
    fields: Option<Vec<String>>,
    precision: Option<f64>,
    dtype: Option<&str>,
    title: Option<String>,
    labels: Option<arguments::Labels>,
) -> PyResult<Making> {
    let fields = fields.map(|names| arguments::fields(&names)).transpose()?;
    let labels = labels.map(arguments::labels);
    let double = dtype.map(arguments::is_double).transpose()?;
    Ok(Making { n_atoms, source_atoms: n_atoms, fields, precision, double, title, labels, ..Making::default() })
}

impl PyRecordFile {
    fn file(&self) -> MutexGuard<'_, RecordFile> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PyRecordFile {
    /// A new file, empty at `path`; messages call it `name`.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python class")]
    #[pyo3(signature = (path, name, format, n_atoms, *, fields=None, precision=None, dtype=None, title=None, labels=None, workers=0))]
    fn new(
        path: PathBuf,
        name: PathBuf,
        format: &str,
        n_atoms: u32,
        fields: Option<Vec<String>>,
        precision: Option<f64>,
        dtype: Option<&str>,
        title: Option<String>,
        labels: Option<arguments::Labels>,
        workers: usize,
    ) -> PyResult<Self> {
        let format = format::find_by_name(format).ok_or_else(|| invalid(format!("no format \"{format}\"")))?;
        let sink = FileSink::open(&path, &name).map_err(|error| to_python(&error))?;
        let making = making(n_atoms, fields, precision, dtype, title, labels)?;
        let file = RecordFile::new(format, &making, Arc::new(sink), arguments::workers(workers));
        Ok(Self { inner: Mutex::new(file) })
    }

    /// Goes on with the one file of a trajectory that was scanned.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python method")]
    #[pyo3(signature = (trajectory, path, *, n_frames=None, fields=None, precision=None, dtype=None, title=None, labels=None, workers=0))]
    fn resume(
        py: Python<'_>,
        trajectory: &PyTrajectory,
        path: PathBuf,
        n_frames: Option<u64>,
        fields: Option<Vec<String>>,
        precision: Option<f64>,
        dtype: Option<&str>,
        title: Option<String>,
        labels: Option<arguments::Labels>,
        workers: usize,
    ) -> PyResult<Self> {
        trajectory.scanned(py)?;
        let trajectory = Arc::clone(&trajectory.inner);
        let making = making(trajectory.n_atoms(), fields, precision, dtype, title, labels)?;
        let workers = arguments::workers(workers);
        let open = |_: &Progress| {
            let sink = FileSink::open(&path, &path)?;
            RecordFile::resume(&trajectory, &making, n_frames, Arc::new(sink), workers)
        };
        Ok(Self { inner: Mutex::new(run_interruptible(py, None, 0, open)?) })
    }

    /// The record of a single frame, the lost data of frames, and the lost parts of this frame's step, time and cell.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python method")]
    #[pyo3(signature = (format, n_atoms, frame, vectors, cell, step, time, *, fields=None, precision=None))]
    fn encoded<'py>(
        py: Python<'py>,
        format: &str,
        n_atoms: u32,
        frame: u64,
        vectors: [Option<Bound<'py, PyAny>>; 3],
        cell: PyReadonlyArray2<'_, f64>,
        step: i64,
        time: f64,
        fields: Option<Vec<String>>,
        precision: Option<f64>,
    ) -> PyResult<(Bound<'py, PyBytes>, Vec<String>, Vec<&'static str>)> {
        let format = format::find_by_name(format).ok_or_else(|| invalid(format!("no format \"{format}\"")))?;
        let making = making(n_atoms, fields, precision, None, None, None)?;
        let [positions, velocities, forces] = &vectors;
        let read = |array: &Option<Bound<'py, PyAny>>| array.as_ref().map(Vectors::extract).transpose();
        let arrays = [read(positions)?, read(velocities)?, read(forces)?];
        let mut given = Given::default();
        for (place, array) in given.vectors.iter_mut().zip(&arrays) {
            *place = array.as_ref().map(Vectors::one_frame).transpose()?;
        }
        given.stamps = vec![Stamp { cell: cell_of(&cell)?, step, time, ..Stamp::default() }];
        let made = run_inline(py, |progress| RecordFile::encoded(format, &making, &given, frame, progress))?;
        Ok((PyBytes::new(py, &made.bytes), made.losses, made.stamp_losses))
    }

    #[getter]
    fn fields(&self) -> Option<Vec<&'static str>> {
        self.file().fields().map(|fields| fields.names())
    }

    #[getter]
    fn n_frames(&self) -> u64 {
        self.file().n_frames()
    }

    #[getter]
    fn n_written(&self) -> u64 {
        self.file().n_written()
    }

    #[getter]
    fn n_flushed(&self) -> u64 {
        self.file().n_flushed()
    }

    #[getter]
    fn losses(&self) -> Vec<String> {
        self.file().losses().to_vec()
    }

    #[getter]
    fn has_ended(&self) -> bool {
        self.file().has_ended()
    }

    #[getter]
    fn has_failed(&self) -> bool {
        self.file().has_failed()
    }

    /// Takes frames: positions, velocities, forces (frames, atoms, 3) or None.
    fn add<'py>(
        &self,
        py: Python<'py>,
        vectors: [Option<Bound<'py, PyAny>>; 3],
        cells: PyReadonlyArray3<'_, f64>,
        steps: PyReadonlyArray1<'_, i64>,
        times: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<()> {
        let n_atoms = self.file().n_atoms() as usize;
        let rows = steps.len();
        if times.len() != rows || cells.shape() != [rows, 3, 3] {
            return Err(invalid("steps, times and cells are of different numbers of frames"));
        }
        let [positions, velocities, forces] = &vectors;
        let read = |array: &Option<Bound<'py, PyAny>>| array.as_ref().map(Vectors::extract).transpose();
        let arrays = [read(positions)?, read(velocities)?, read(forces)?];
        let mut given = Given::default();
        for (place, array) in given.vectors.iter_mut().zip(&arrays) {
            *place = array.as_ref().map(|array| array.values(rows, n_atoms)).transpose()?;
        }
        let cells = cells.as_array();
        let stamp = |((row, &step), &time): ((usize, &i64), &f64)| {
            let cell: Cell = std::array::from_fn(|i| std::array::from_fn(|j| cells[[row, i, j]]));
            Stamp { cell, step, time, ..Stamp::default() }
        };
        given.stamps = steps.as_array().iter().enumerate().zip(times.as_array()).map(stamp).collect();
        let few = self.file().only_gathers(&given);
        let work = |progress: &Progress| self.file().add(&given, progress);
        if few { run_inline(py, work) } else { run_interruptible(py, None, rows as u64, work) }
    }

    /// Adds and commits all frames that were taken.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        run_interruptible(py, None, 0, |progress| self.file().flush(progress))
    }

    /// Commits the frames that are written.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        run_interruptible(py, None, 0, |_| self.file().commit())
    }

    /// No frame follows: `losses` is whole.
    fn finish_notes(&self) {
        self.file().finish_notes();
    }

    /// Stores the index of the file, which is at `path` now; returns a note.
    fn store_index(&self, py: Python<'_>, path: PathBuf, write_index: Py<PyAny>) -> PyResult<Option<String>> {
        let write = arguments::index_writer(write_index);
        let (index, format, n_atoms) = {
            // not held while Python is called
            let file = self.file();
            (file.index(), file.format(), file.n_atoms())
        };
        let Some(index) = index else { return Ok(None) };
        run_interruptible(py, None, 0, |_| Ok(save_written(&path, index.clone(), format, n_atoms, &*write)?.1))
    }
}
