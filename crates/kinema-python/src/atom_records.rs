//! `AtomRecords`: records of which a process has only some atoms.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use kinema_core::format::{self, AtomNumbers, FrameLayout, Making};
use kinema_core::frame::{Cell, Stamp};
use kinema_core::pipeline::encode::atom_records::AtomRecords;
use kinema_core::sink::FileSink;
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyReadwriteArray1};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arguments;
use crate::errors::{invalid, to_python};
use crate::record_file::Vectors;
use crate::signals::{run_inline, run_interruptible};
use crate::trajectory::PyTrajectory;

/// Encodes the records of one file.
#[pyclass(name = "AtomRecords", module = "kinema._core", frozen)]
pub struct PyAtomRecords {
    inner: RwLock<AtomRecords>,
}

impl PyAtomRecords {
    fn records(&self) -> RwLockReadGuard<'_, AtomRecords> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A cell (3, 3).
///
/// # Errors
/// For another shape.
pub fn cell_of(cell: &PyReadonlyArray2<'_, f64>) -> PyResult<Cell> {
    let cell = cell.as_array();
    if cell.shape() != [3, 3] {
        return Err(invalid(format!("a cell has shape {:?}, expected [3, 3]", cell.shape())));
    }
    Ok(std::array::from_fn(|i| std::array::from_fn(|j| cell[[i, j]])))
}

#[pymethods]
impl PyAtomRecords {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python class")]
    #[pyo3(signature = (format, n_atoms, *, fields, cell=None, wide=None, title=None, dtype=None, kinds=None, codes=None))]
    fn new(
        py: Python<'_>,
        format: &str,
        n_atoms: u32,
        fields: Vec<String>,
        cell: Option<PyReadonlyArray2<'_, f64>>,
        wide: Option<Vec<String>>,
        title: Option<String>,
        dtype: Option<&str>,
        kinds: Option<arguments::Kinds>,
        codes: Option<PyReadonlyArray1<'_, u32>>,
    ) -> PyResult<Self> {
        let format = format::find_by_name(format).ok_or_else(|| invalid(format!("no format \"{format}\"")))?;
        let labels = arguments::labels_of_kinds(kinds, codes)?;
        let making = Making {
            n_atoms,
            fields: Some(arguments::fields(&fields)?),
            wide: arguments::fields(&wide.unwrap_or_default())?,
            double: dtype.map(arguments::is_double).transpose()?,
            cells: cell.as_ref().map(cell_of).transpose()?.into_iter().collect(),
            title,
            labels,
            ..Making::default()
        };
        let made = py.detach(|| AtomRecords::new(format, &making));
        Ok(Self { inner: RwLock::new(made.map_err(|error| to_python(&error))?) })
    }

    /// Extends the file of a trajectory after its first frames; `None` if it has no frames.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python method")]
    #[pyo3(signature = (trajectory, *, n_frames=None, fields=None, wide=None, title=None, dtype=None, kinds=None, codes=None))]
    fn resume(
        py: Python<'_>,
        trajectory: &PyTrajectory,
        n_frames: Option<u64>,
        fields: Option<Vec<String>>,
        wide: Option<Vec<String>>,
        title: Option<String>,
        dtype: Option<&str>,
        kinds: Option<arguments::Kinds>,
        codes: Option<PyReadonlyArray1<'_, u32>>,
    ) -> PyResult<Option<Self>> {
        trajectory.scanned(py)?;
        let trajectory = Arc::clone(&trajectory.inner);
        let making = Making {
            fields: fields.map(|names| arguments::fields(&names)).transpose()?,
            wide: arguments::fields(&wide.unwrap_or_default())?,
            double: dtype.map(arguments::is_double).transpose()?,
            title,
            labels: arguments::labels_of_kinds(kinds, codes)?,
            ..Making::default()
        };
        let made = run_interruptible(py, None, 0, |_| AtomRecords::resume(&trajectory, &making, n_frames))?;
        Ok(made.map(|made| Self { inner: RwLock::new(made) }))
    }

    /// Corrects the count of an extended file, and cuts off everything after the frames that stay.
    fn cut(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        run_interruptible(py, None, 0, |_| self.records().cut(&FileSink::open(&path, &path)?))
    }

    #[getter]
    fn n_atoms(&self) -> u32 {
        self.records().n_atoms()
    }

    #[getter]
    fn n_frames(&self) -> u64 {
        self.records().kept().frames
    }

    #[getter]
    fn end(&self) -> u64 {
        self.records().kept().bytes
    }

    #[getter]
    fn first(&self) -> Vec<(i64, f64)> {
        self.records().first().iter().map(|stamp| (stamp.step, stamp.time)).collect()
    }

    #[getter]
    fn kinds(&self) -> Option<arguments::Kinds> {
        self.records().labels().map(|one| (one.names.clone(), one.masses.clone(), one.charges.clone()))
    }

    #[getter]
    fn codes<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<u32>>> {
        self.records().labels().and_then(|labels| labels.codes.as_ref().map(|codes| PyArray1::from_slice(py, codes)))
    }

    #[getter]
    fn format(&self) -> &'static str {
        self.records().format()
    }

    #[getter]
    fn fields(&self) -> Vec<&'static str> {
        self.records().fields().names()
    }

    #[getter]
    fn losses(&self) -> Vec<String> {
        self.records().losses().to_vec()
    }

    #[getter]
    fn head<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.records().head())
    }

    /// Bytes of an atom in each plane.
    #[getter]
    fn widths(&self) -> Vec<usize> {
        self.records().widths().to_vec()
    }

    fn time_by<'py>(&self, py: Python<'py>, steps: Vec<i64>, times: Vec<f64>) -> Option<(u64, Bound<'py, PyBytes>)> {
        let marker = py.detach(|| self.inner.write().unwrap_or_else(PoisonError::into_inner).time_by(&steps, &times));
        marker.map(|marker| (marker.offset, PyBytes::new(py, &marker.bytes)))
    }

    fn marker<'py>(&self, py: Python<'py>, committed: u64) -> Option<(u64, Bound<'py, PyBytes>)> {
        self.records().marker(committed).map(|marker| (marker.offset, PyBytes::new(py, &marker.bytes)))
    }

    fn stamp_losses(
        &self,
        frame: u64,
        step: i64,
        time: f64,
        cell: PyReadonlyArray2<'_, f64>,
    ) -> PyResult<Vec<&'static str>> {
        let stamp = Stamp { step, time, cell: cell_of(&cell)?, ..Stamp::default() };
        Ok(self.records().stamp_losses(&stamp, frame).into_iter().map(|(what, _)| what).collect())
    }

    fn frame(&self, frame: u64, step: i64, time: f64, cell: PyReadonlyArray2<'_, f64>) -> PyResult<PyFrameLayout> {
        let stamp = Stamp { step, time, cell: cell_of(&cell)?, ..Stamp::default() };
        self.records().frame_layout(&stamp, frame).map(PyFrameLayout).map_err(|error| to_python(&error))
    }

    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python method")]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        values: [Option<Bound<'py, PyAny>>; 3],
        start: usize,
        stop: usize,
        ids: Option<PyReadonlyArray1<'py, u32>>,
        first_id: u32,
        out: Vec<Bound<'py, PyArray1<u8>>>,
    ) -> PyResult<()> {
        if stop < start {
            return Err(invalid(format!("atoms {start} to {stop}, of which the end lies before the start")));
        }
        let [positions, velocities, forces] = &values;
        let read = |array: &Option<Bound<'py, PyAny>>| array.as_ref().map(Vectors::extract).transpose();
        let arrays = [read(positions)?, read(velocities)?, read(forces)?];
        let mut vectors = [None; 3];
        for (place, array) in vectors.iter_mut().zip(&arrays) {
            *place = array.as_ref().map(Vectors::one_frame).transpose()?;
        }
        let numbers = match &ids {
            None => AtomNumbers::From(first_id),
            Some(ids) => AtomNumbers::Listed(ids.as_slice().map_err(|_| invalid("ids must be C-contiguous"))?),
        };
        let writable = |array: &Bound<'py, PyArray1<u8>>| {
            array.try_readwrite().map_err(|_| invalid("arrays of bytes must be writable and distinct"))
        };
        let mut out: Vec<PyReadwriteArray1<'_, u8>> = out.iter().map(writable).collect::<PyResult<_>>()?;
        let slices: Result<Vec<&mut [u8]>, _> = out.iter_mut().map(|array| array.as_slice_mut()).collect();
        let mut slices = slices.map_err(|_| invalid("arrays of bytes must be C-contiguous"))?;
        // the lock is taken without the GIL, and its holder never waits for the GIL
        run_inline(py, |_| self.records().encode(vectors, start..stop, numbers, &mut slices))
    }
}

/// A record without its atoms.
#[pyclass(name = "FrameLayout", module = "kinema._core", frozen)]
pub struct PyFrameLayout(FrameLayout);

#[pymethods]
impl PyFrameLayout {
    #[getter]
    fn bytes(&self) -> u64 {
        self.0.bytes
    }

    #[getter]
    fn pieces<'py>(&self, py: Python<'py>) -> Vec<(u64, Bound<'py, PyBytes>)> {
        self.0.pieces.iter().map(|(offset, bytes)| (*offset, PyBytes::new(py, bytes))).collect()
    }

    #[getter]
    fn planes(&self) -> Vec<(u64, u64)> {
        self.0.planes.iter().map(|plane| (plane.offset, plane.width)).collect()
    }
}
