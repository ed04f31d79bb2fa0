//! `Trajectory`: opening, scanning, reading arrays.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kinema_core::frame::{Scales, Units};
use kinema_core::index::identity::FileIdentity;
use kinema_core::pipeline::Progress;
use kinema_core::pipeline::arrays::ArrayRequest;
use kinema_core::selection::AtomSelection;
use kinema_core::source::ReadLog;
use kinema_core::trajectory::{FrameFault, Scanned, StatedTimes, Trajectory};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use crate::arguments;
use crate::errors::{invalid, to_python};
use crate::identity::PyFileIdentity;
use crate::node_cache::PyNodeCache;
use crate::opening::{OpenArguments, Opened, Recipe};
use crate::part_rows;
use crate::read_arrays::Fill;
use crate::rows::PyFilePool;
use crate::signals::{Stops, run_interruptible};
use crate::transforms::{PyTransform, stack_of};

/// Offsets and lengths.
type PyExtents<'py> = (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<u64>>);

/// Files as one trajectory.
#[pyclass(name = "Trajectory", module = "kinema._core", frozen)]
pub struct PyTrajectory {
    pub(crate) inner: Arc<Trajectory>,
    recipe: Arc<Recipe>,
    log: Option<ReadLog>,
    stops: Stops,
    transforms: Py<PyTuple>,
}

impl PyTrajectory {
    /// The parts and their concatenation, scanned now if they have not been.
    pub(crate) fn scanned(&self, py: Python<'_>) -> PyResult<&Scanned> {
        if self.inner.scanned().is_none() {
            self.scan(py, 0, None, false)?;
        }
        self.inner.scanned().ok_or_else(|| invalid("the trajectory has not been scanned"))
    }
}

#[pymethods]
impl PyTrajectory {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python class")]
    #[pyo3(signature = (paths, *, format=None, overlap="last", on_truncated="drop", absent="error", index="auto", max_open_files=64,
        units=None, dt=None, time_offset=None, first_time=None, describe=None, external=None, write_index=None, snapshot=None,
        record_reads=false, pool=None, catalogue=None, node_cache=None, growing=false, settled=false, previous=None, transforms=Vec::new()))]
    fn new(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        format: Option<&str>,
        overlap: &str,
        on_truncated: &str,
        absent: &str,
        index: &str,
        max_open_files: usize,
        units: Option<HashMap<String, f64>>,
        dt: Option<f64>,
        time_offset: Option<f64>,
        first_time: Option<f64>,
        describe: Option<Py<PyAny>>,
        external: Option<Py<PyAny>>,
        write_index: Option<Py<PyAny>>,
        snapshot: Option<PyReadonlyArray1<'_, u8>>,
        record_reads: bool,
        pool: Option<&PyFilePool>,
        catalogue: Option<PathBuf>,
        node_cache: Option<Py<PyNodeCache>>,
        growing: bool,
        settled: bool,
        previous: Option<PyRef<'_, Self>>,
        transforms: Vec<PyRef<'_, PyTransform>>,
    ) -> PyResult<Self> {
        let times = StatedTimes { dt, first: first_time, offset: time_offset };
        let previous = previous.map(|previous| previous.inner.clone());
        let arguments = OpenArguments {
            paths,
            format,
            overlap,
            on_truncated,
            absent,
            index,
            max_open_files,
            units,
            times,
            describe,
            external,
            write_index,
            snapshot,
            record_reads,
            pool,
            catalogue,
            node_cache,
            growing,
            settled,
            previous,
        };
        let Opened { trajectory, recipe, log, stops } = arguments.open(py)?;
        let inner = Arc::new(trajectory.with_stack(stack_of(&transforms)?));
        let transforms = PyTuple::new(py, transforms)?.unbind();
        Ok(Self { inner, recipe: Arc::new(recipe), log, stops, transforms })
    }

    /// The same opened files with these transforms, instead of the present ones.
    fn with_transforms(&self, py: Python<'_>, transforms: Vec<PyRef<'_, PyTransform>>) -> PyResult<Self> {
        Ok(Self {
            inner: Arc::new(self.inner.with_stack(stack_of(&transforms)?)),
            recipe: self.recipe.clone(),
            log: self.log.clone(),
            stops: self.stops.clone(),
            transforms: PyTuple::new(py, transforms)?.unbind(),
        })
    }

    /// Transforms applied to each frame that is read.
    #[getter]
    fn transforms<'py>(&self, py: Python<'py>) -> Bound<'py, PyTuple> {
        self.transforms.bind(py).clone()
    }

    /// Whether both give the same frames: of the same opened files, with the same transforms.
    fn is_same(&self, other: &Self) -> bool {
        self.inner.is_same(&other.inner)
    }

    /// Reads since the last call, if `record_reads` was set: path, offset, length.
    fn take_reads(&self) -> PyResult<Vec<(OsString, u64, u64)>> {
        let log = self.log.as_ref().ok_or_else(|| invalid("reads are recorded only with record_reads=True"))?;
        let reads = log.take().into_iter();
        Ok(reads.map(|(path, extent)| (path.into_os_string(), extent.offset, extent.len)).collect())
    }

    /// The files opened since the last call, if `record_reads` was set.
    fn take_opens(&self) -> PyResult<Vec<OsString>> {
        let log = self.log.as_ref().ok_or_else(|| invalid("opens are recorded only with record_reads=True"))?;
        Ok(log.take_opens().into_iter().map(PathBuf::into_os_string).collect())
    }

    /// The parts that must be scanned: number, first byte, the byte after the last.
    fn unindexed(&self, py: Python<'_>) -> PyResult<Vec<(usize, u64, u64)>> {
        let ranges = py.detach(|| self.inner.unindexed()).map_err(|error| to_python(&error))?;
        Ok(ranges.into_iter().map(|(part, range)| (part, range.start, range.end)).collect())
    }

    /// The frames of a part that start in a byte range, for `add_scanned_ranges` in another process.
    #[pyo3(signature = (part, start, stop, progress=None))]
    fn scan_range<'py>(
        &self,
        py: Python<'py>,
        part: usize,
        start: u64,
        stop: u64,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let index = run_interruptible(py, progress, stop.saturating_sub(start), |progress: &Progress| {
            self.inner.scan_range(part, start..stop, &|bytes| {
                progress.check()?;
                progress.done.store(bytes, Ordering::Relaxed);
                Ok(())
            })
        })?;
        Ok(PyBytes::new(py, &index))
    }

    /// Adds the indices of byte ranges of a part, in order, for the next `scan`.
    fn add_scanned_ranges(&self, py: Python<'_>, part: usize, indices: Vec<Vec<u8>>) -> PyResult<()> {
        py.detach(|| self.inner.add_scanned_ranges(part, &indices)).map_err(|error| to_python(&error))
    }

    /// The place of a frame: path, number of the frame in that file, offset and length in bytes.
    fn locate(&self, py: Python<'_>, frame: u64) -> PyResult<(OsString, u64, u64, u64)> {
        let scanned = self.scanned(py)?;
        if frame >= scanned.concatenation.n_frames {
            let n_frames = scanned.concatenation.n_frames;
            return Err(invalid(format!("frame {frame} of a trajectory of {n_frames} frames")));
        }
        let span = scanned.concatenation.span_of(frame);
        let part = &scanned.parts[span.part];
        let own = span.kept.start + (frame - span.first_frame);
        let extent = part.index.extent(own);
        Ok((part.path.clone().into_os_string(), own, extent.offset, extent.len))
    }

    /// Snapshot of headers, identities and indices, for `snapshot` in other processes.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u8>>> {
        self.scanned(py)?;
        let bytes = py.detach(|| self.inner.snapshot()).map_err(|error| to_python(&error))?;
        Ok(bytes.into_pyarray(py))
    }

    /// Compares all files of a snapshot with their identities now; by content if their status does not decide.
    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        run_interruptible(py, None, 0, |_| self.inner.verify())
    }

    /// The arguments with which another process opens the same trajectory.
    fn recipe<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let recipe = self.recipe.to_dict(py, self.paths())?;
        recipe.set_item("transforms", &self.transforms)?;
        Ok(recipe)
    }

    #[getter]
    fn n_atoms(&self) -> u32 {
        self.inner.n_atoms()
    }

    #[getter]
    fn format(&self) -> &'static str {
        self.inner.format().info().name
    }

    /// Whether frames may lack fields of the file.
    #[getter]
    fn may_lack_fields(&self) -> bool {
        self.inner.may_lack_fields()
    }

    #[getter]
    fn hdf5(&self) -> bool {
        part_rows::is_hdf5(self.inner.format(), self.inner.decoder())
    }

    #[getter]
    fn fields(&self) -> Vec<&'static str> {
        self.inner.header().fields.names()
    }

    /// Whether anything is stored of the files.
    #[getter]
    fn stores(&self) -> bool {
        self.recipe.write_index.is_some()
    }

    #[getter]
    fn paths(&self) -> Vec<OsString> {
        self.inner.paths().iter().map(|path| path.clone().into_os_string()).collect()
    }

    #[getter]
    #[pyo3(name = "scanned")]
    fn scanned_already(&self) -> bool {
        self.inner.scanned().is_some()
    }

    #[getter]
    fn n_frames(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.scanned(py)?.concatenation.n_frames)
    }

    /// Origin and destination of the index: "auto", "memory", "rebuild".
    #[getter]
    fn index(&self) -> &str {
        &self.recipe.index
    }

    #[pyo3(signature = (workers=0, progress=None, skip_damaged=false))]
    fn scan(
        &self,
        py: Python<'_>,
        workers: usize,
        progress: Option<&Bound<'_, PyAny>>,
        skip_damaged: bool,
    ) -> PyResult<()> {
        let workers = arguments::workers(workers);
        // sizes are for the progress bar only: the scan itself reports a file whose size cannot be read
        let total = match progress {
            Some(_) => self.inner.paths().iter().filter_map(|path| path.metadata().ok()).map(|meta| meta.len()).sum(),
            None => 0,
        };
        run_interruptible(py, progress, total, |progress: &Progress| {
            self.stops.add(progress);
            let before = AtomicU64::new(0);
            self.inner
                .scan_with(workers, skip_damaged, &|bytes| {
                    progress.check()?;
                    before.fetch_add(bytes, Ordering::Relaxed);
                    progress.done.fetch_add(bytes, Ordering::Relaxed);
                    Ok(())
                })
                .map(|_| ())
        })
    }

    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        part_rows::parts(py, self.scanned(py)?)
    }

    /// Byte offsets and lengths of the complete frames of a part, in its file.
    fn extents<'py>(&self, py: Python<'py>, part: usize) -> PyResult<PyExtents<'py>> {
        let scanned = self.scanned(py)?;
        let part = scanned.parts.get(part).ok_or_else(|| invalid(format!("there is no part {part}")))?;
        let (offsets, lengths): (Vec<u64>, Vec<u64>) = py.detach(|| {
            let extents = (0..part.index.n_frames()).map(|frame| part.index.extent(frame));
            extents.map(|extent| (extent.offset, extent.len)).unzip()
        });
        Ok((offsets.into_pyarray(py), lengths.into_pyarray(py)))
    }

    /// Identity of a part when it was scanned, with its content sampled now, at `places` places.
    #[pyo3(signature = (part, places=FileIdentity::PLACES))]
    fn identity(&self, py: Python<'_>, part: usize, places: u64) -> PyResult<PyFileIdentity> {
        self.scanned(py)?;
        run_interruptible(py, None, 0, |_| self.inner.identity(part, places)).map(PyFileIdentity)
    }

    fn gaps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        part_rows::gaps(py, self.scanned(py)?)
    }

    /// Faults of the frames that were read, for another process: part, fault, and the first frame of the part's file.
    pub(crate) fn frame_faults(&self) -> Vec<(usize, String, u64)> {
        let found = self.inner.faults().all();
        found.into_iter().map(|(part, fault, frame)| (part, fault.name(), frame)).collect()
    }

    /// Adds what another process that has opened the same files has found.
    fn add_frame_faults(&self, faults: Vec<(usize, String, u64)>) -> PyResult<()> {
        for (part, name, frame) in faults {
            let fault = FrameFault::from_name(&name)
                .ok_or_else(|| PyValueError::new_err(format!("no fault of a frame is called {name}")))?;
            self.inner.faults().add(fault, part, frame);
        }
        Ok(())
    }

    /// Faults of the frames that were read, as notes; `new` selects only faults that no earlier call returned.
    #[pyo3(signature = (*, new=false))]
    fn frame_notes(&self, py: Python<'_>, new: bool) -> PyResult<Vec<String>> {
        let faults = self.inner.faults();
        let found = if new { faults.take_new() } else { faults.all() };
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let parts = &self.scanned(py)?.parts;
        let in_words = found.into_iter().filter_map(|(part, fault, frame)| {
            let part = parts.get(part)?;
            let what = match fault {
                FrameFault::UnusableCell => {
                    "the cell is none (not finite, negative lengths, or angles of no cell) and \
                                             counts as absent; whatever needs it is an error"
                        .to_owned()
                }
                FrameFault::DummyCell => {
                    "the cell of 1 x 1 x 1 angstrom or less is smaller than what is in it, and stands \
                                          for none in some programs; nearest images are taken in it nevertheless"
                        .to_owned()
                }
                FrameFault::Unwritten(field) => {
                    let name = field.names().concat();
                    format!("values of {name} were never written (the file's fill value stands there): NaN is given")
                }
            };
            Some(format!("{}: {} frame {frame}: {what}", part.path.display(), part.format.info().name))
        });
        Ok(in_words.collect())
    }

    fn compare_frames(&self, py: Python<'_>, frames: PyReadonlyArray1<'_, u64>) -> PyResult<()> {
        self.scanned(py)?;
        let frames = frames.as_slice()?.to_vec();
        py.detach(|| self.inner.compare_frames(&frames)).map_err(|error| to_python(&error))
    }

    fn time_shift(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.scanned(py)?.time_shift())
    }

    fn times<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray1<f64>>>> {
        let scanned = self.scanned(py)?;
        let found = py.detach(|| column(scanned, |part, frame| scanned.time(part, frame)));
        Ok(found.map_err(|error| to_python(&error))?.map(|times| times.into_pyarray(py)))
    }

    fn time(&self, py: Python<'_>, frame: u64) -> PyResult<Option<f64>> {
        let scanned = self.scanned(py)?;
        if frame >= scanned.concatenation.n_frames {
            return Ok(None);
        }
        let span = scanned.concatenation.span_of(frame);
        Ok(scanned.time(span.part, span.kept.start + (frame - span.first_frame)))
    }

    fn steps<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray1<i64>>>> {
        let scanned = self.scanned(py)?;
        let found = py.detach(|| column(scanned, |part, frame| scanned.parts[part].index.step(frame)));
        Ok(found.map_err(|error| to_python(&error))?.map(|steps| steps.into_pyarray(py)))
    }

    #[pyo3(signature = (
        frames, *, atoms=None, fields=vec!["positions".to_owned()], dtype="float32", out=None, workers=0, memory=0,
        native=false, scales=None, mark_absent=false, timings=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python method")]
    fn read<'py>(
        &self,
        py: Python<'py>,
        frames: &Bound<'py, PyAny>,
        atoms: Option<&Bound<'py, PyArray1<u32>>>,
        fields: Vec<String>,
        dtype: &str,
        out: Option<&Bound<'py, PyAny>>,
        workers: usize,
        memory: u64,
        native: bool,
        scales: Option<[f64; 4]>,
        mark_absent: bool,
        timings: Option<&Bound<'py, PyList>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let wide = arguments::is_double(dtype)?;
        self.scanned(py)?;
        let atoms = match atoms {
            None => AtomSelection::all(self.inner.n_atoms()),
            Some(indices) => arguments::atoms(indices, self.inner.n_atoms())?,
        };
        let request = ArrayRequest {
            frames: arguments::frames(frames)?,
            atoms,
            units: units_of(native, scales)?,
            mark_absent,
            workers: arguments::workers(workers),
            memory,
        };
        request.frames.check(self.scanned(py)?.concatenation.n_frames).map_err(|error| to_python(&error))?;
        let asked = arguments::fields(&fields)?;
        let fill = Fill { trajectory: &self.inner, request: &request, asked, out, timings };
        if wide { fill.read::<f64>(py) } else { fill.read::<f32>(py) }
    }
}

/// The units of arrays: the file's own, units with these factors to angstrom and ps, or angstrom and ps.
fn units_of(native: bool, scales: Option<[f64; 4]>) -> PyResult<Units> {
    match (native, scales) {
        (true, Some(_)) => Err(invalid("native units and scales cannot be combined")),
        (true, None) => Ok(Units::Native),
        (false, None) => Ok(Units::Public),
        (false, Some([length, velocity, force, time])) => {
            let wrong =
                [length, velocity, force, time].into_iter().find(|factor| !(factor.is_finite() && *factor > 0.0));
            if let Some(factor) = wrong {
                return Err(invalid(format!("factors of units must be above 0, found {factor}")));
            }
            Ok(Units::Of(Scales { length, velocity, force, time }))
        }
    }
}

/// A column of the index over all frames of the trajectory; `None` if some part does not have it. `MemoryLimit` if the
/// system has no memory for it: a file with holes may have any number of frames.
fn column<T>(scanned: &Scanned, value: impl Fn(usize, u64) -> Option<T>) -> kinema_core::Result<Option<Vec<T>>> {
    let n_frames = scanned.concatenation.n_frames;
    let mut found = Vec::new();
    found.try_reserve_exact(usize::try_from(n_frames).unwrap_or(usize::MAX)).map_err(|_| {
        let what = format!("the system has no memory for a number for each of {n_frames} frames");
        kinema_core::Error::new(kinema_core::ErrorKind::MemoryLimit, what)
    })?;
    for span in &scanned.concatenation.spans {
        for frame in span.kept.clone() {
            let Some(value) = value(span.part, frame) else { return Ok(None) };
            found.push(value);
        }
    }
    Ok(Some(found))
}
