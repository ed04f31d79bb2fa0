//! `Trajectory`: opening, scanning, reading arrays.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kinema_core::bulk::{self, Arrays, BulkRequest, Vectors};
use kinema_core::engine::Watch;
use kinema_core::format::{self, ReadStructure};
use kinema_core::frame::Fields;
use kinema_core::join::Overlap;
use kinema_core::selection::AtomSelection;
use kinema_core::source::ReadLog;
use kinema_core::trajectory::{IndexOrigin, IndexPolicy, OnTruncated, OpenOptions, Scanned, Trajectory};
use numpy::ndarray::Array;
use numpy::{Element, IntoPyArray, PyArray1, PyArray3, PyArrayMethods, PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::arguments::{self, choice};
use crate::errors::{invalid, to_python};
use crate::h5md::Describe;
use crate::signals::{at_once, watched};

/// One frame of so many atoms is read on the calling thread: random access would wait for threads more than for frames.
const BRIEF_ATOMS: u32 = 1 << 18;

/// Offsets and lengths.
type PyExtents<'py> = (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<u64>>);

/// Files as one trajectory.
#[pyclass(name = "Trajectory", module = "kinema._core", frozen)]
pub struct PyTrajectory {
    pub(crate) inner: Arc<Trajectory>,
    stated_format: Option<&'static str>,
    overlap: String,
    on_truncated: String,
    max_open_files: usize,
    describe: Option<Py<PyAny>>,
    log: Option<ReadLog>,
}

impl PyTrajectory {
    /// The parts and their join, scanned now if they have not been.
    pub(crate) fn scanned(&self, py: Python<'_>) -> PyResult<&Scanned> {
        if self.inner.scanned().is_none() {
            self.scan(py, 0, None)?;
        }
        self.inner.scanned().ok_or_else(|| invalid("the trajectory has not been scanned"))
    }
}

#[pymethods]
impl PyTrajectory {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python class")]
    #[pyo3(signature = (paths, *, format=None, overlap="last", on_truncated="error", index="auto", max_open_files=64,
        index_folder=None, describe=None, known=None, record_reads=false))]
    fn new(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        format: Option<&str>,
        overlap: &str,
        on_truncated: &str,
        index: &str,
        max_open_files: usize,
        index_folder: Option<PathBuf>,
        describe: Option<Py<PyAny>>,
        known: Option<PyReadonlyArray1<'_, u8>>,
        record_reads: bool,
    ) -> PyResult<Self> {
        let format = format
            .map(|name| {
                format::by_name(name).ok_or_else(|| {
                    let known: Vec<&str> = format::FORMATS.iter().map(|format| format.info().name).collect();
                    invalid(format!("no format \"{name}\"; Kinema reads {}", known.join(", ")))
                })
            })
            .transpose()?;
        let log = record_reads.then(ReadLog::default);
        let options = OpenOptions {
            structure: describe
                .as_ref()
                .map(|function| Arc::new(Describe(function.clone_ref(py))) as Arc<dyn ReadStructure>),
            log: log.clone(),
            format,
            overlap: choice(
                "overlap",
                overlap,
                &[("last", Overlap::Last), ("first", Overlap::First), ("all", Overlap::All)],
            )?,
            on_truncated: choice(
                "on_truncated",
                on_truncated,
                &[("error", OnTruncated::Error), ("drop", OnTruncated::Drop)],
            )?,
            index: choice(
                "index",
                index,
                &[("auto", IndexPolicy::Auto), ("memory", IndexPolicy::Memory), ("rebuild", IndexPolicy::Rebuild)],
            )?,
            index_folder,
            max_open_files,
        };
        let known = known.as_ref().map(|array| array.as_slice()).transpose()?;
        let inner = watched(py, None, 0, |_| match known {
            Some(bytes) => Trajectory::open_known(paths, options, bytes),
            None => Trajectory::open(paths, options),
        })?;
        Ok(Self {
            inner: Arc::new(inner),
            stated_format: format.map(|format| format.info().name),
            overlap: overlap.to_owned(),
            on_truncated: on_truncated.to_owned(),
            max_open_files,
            describe,
            log,
        })
    }

    /// What was read since the last call, where `record_reads` was asked for: path, offset, length.
    fn take_reads(&self) -> PyResult<Vec<(String, u64, u64)>> {
        let log = self.log.as_ref().ok_or_else(|| invalid("reads are recorded only with record_reads=True"))?;
        let reads = log.take().into_iter();
        Ok(reads.map(|(path, extent)| (path.display().to_string(), extent.offset, extent.len)).collect())
    }

    /// The files opened since the last call, where `record_reads` was asked for.
    fn take_opens(&self) -> PyResult<Vec<String>> {
        let log = self.log.as_ref().ok_or_else(|| invalid("opens are recorded only with record_reads=True"))?;
        Ok(log.take_opens().iter().map(|path| path.display().to_string()).collect())
    }

    /// The parts whose frames must be searched: number, first byte, the byte after the last.
    fn unindexed(&self, py: Python<'_>) -> PyResult<Vec<(usize, u64, u64)>> {
        let found = py.detach(|| self.inner.unindexed()).map_err(|error| to_python(&error))?;
        Ok(found.into_iter().map(|(part, range)| (part, range.start, range.end)).collect())
    }

    /// The frames of a part that start in a byte range, for `add_ranges` in another process.
    #[pyo3(signature = (part, start, stop, progress=None))]
    fn scan_range<'py>(
        &self,
        py: Python<'py>,
        part: usize,
        start: u64,
        stop: u64,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let found = watched(py, progress, stop.saturating_sub(start), |watch: &Watch| {
            self.inner.scan_range(part, start..stop, &|bytes| {
                watch.check()?;
                watch.done.store(bytes, Ordering::Relaxed);
                Ok(())
            })
        })?;
        Ok(PyBytes::new(py, &found))
    }

    /// What was found in byte ranges of a part, in order, for the next `scan`.
    fn add_ranges(&self, py: Python<'_>, part: usize, found: Vec<Vec<u8>>) -> PyResult<()> {
        py.detach(|| self.inner.add_ranges(part, &found)).map_err(|error| to_python(&error))
    }

    /// Where a frame is: path, number of the frame in that file, offset and length in bytes.
    fn locate(&self, py: Python<'_>, frame: u64) -> PyResult<(String, u64, u64, u64)> {
        let scanned = self.scanned(py)?;
        if frame >= scanned.joined.n_frames {
            let known = scanned.joined.n_frames;
            return Err(invalid(format!("frame {frame} of a trajectory of {known} frames")));
        }
        let piece = scanned.joined.piece_of(frame);
        let part = &scanned.parts[piece.part];
        let own = piece.kept.start + (frame - piece.first_frame);
        let extent = part.index.extent(own);
        Ok((part.path.display().to_string(), own, extent.offset, extent.len))
    }

    /// What is known of the files, for `known` in other processes.
    fn pack<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u8>>> {
        self.scanned(py)?;
        let bytes = py.detach(|| self.inner.pack()).map_err(|error| to_python(&error))?;
        Ok(bytes.into_pyarray(py))
    }

    /// The arguments with which another process opens the same trajectory.
    fn recipe<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let recipe = PyDict::new(py);
        recipe.set_item("paths", self.paths())?;
        // every part of a trajectory with a stated format has that one; without, each is looked at again
        recipe.set_item("format", self.stated_format)?;
        recipe.set_item("overlap", &self.overlap)?;
        recipe.set_item("on_truncated", &self.on_truncated)?;
        recipe.set_item("max_open_files", self.max_open_files)?;
        recipe.set_item("describe", &self.describe)?;
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

    #[getter]
    fn fields(&self) -> Vec<&'static str> {
        self.inner.header().fields.names()
    }

    #[getter]
    fn paths(&self) -> Vec<String> {
        self.inner.paths().iter().map(|path| path.display().to_string()).collect()
    }

    #[getter]
    #[pyo3(name = "scanned")]
    fn scanned_already(&self) -> bool {
        self.inner.scanned().is_some()
    }

    #[getter]
    fn n_frames(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.scanned(py)?.joined.n_frames)
    }

    fn store_indices(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        self.scanned(py)?;
        py.detach(|| self.inner.store_indices(&folder)).map_err(|error| to_python(&error))
    }

    #[pyo3(signature = (workers=0, progress=None))]
    fn scan(&self, py: Python<'_>, workers: usize, progress: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let workers = arguments::workers(workers);
        // sizes are for the progress bar only: a file that cannot be asked is reported by the scan itself
        let total = match progress {
            Some(_) => self.inner.paths().iter().filter_map(|path| path.metadata().ok()).map(|meta| meta.len()).sum(),
            None => 0,
        };
        watched(py, progress, total, |watch: &Watch| {
            let before = AtomicU64::new(0);
            self.inner
                .scan(workers, &|bytes| {
                    watch.check()?;
                    before.fetch_add(bytes, Ordering::Relaxed);
                    watch.done.fetch_add(bytes, Ordering::Relaxed);
                    Ok(())
                })
                .map(|_| ())
        })
    }

    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let scanned = self.scanned(py)?;
        let list = PyList::empty(py);
        for (number, part) in scanned.parts.iter().enumerate() {
            let row = PyDict::new(py);
            let header = part.header();
            let n_frames = part.index.n_frames();
            let ends = (n_frames > 0).then(|| (0, n_frames - 1));
            let step = |frame| part.index.step(frame);
            let time = |frame| part.index.time(frame).map(|time| time * part.scales().time);
            let piece = scanned.joined.pieces.iter().find(|piece| piece.part == number);
            let origin = match part.origin {
                IndexOrigin::Arithmetic => "arithmetic",
                IndexOrigin::Structure => "structure",
                IndexOrigin::Stored => "stored",
                IndexOrigin::Extended => "extended",
                IndexOrigin::Built => "built",
            };
            row.set_item("path", part.path.display().to_string())?;
            row.set_item("format", part.format.info().name)?;
            row.set_item("variant", &header.variant)?;
            row.set_item("remarks", &header.remarks)?;
            row.set_item("warnings", &header.warnings)?;
            row.set_item("size", part.size)?;
            row.set_item("fields", header.fields.names())?;
            row.set_item("file_frames", n_frames)?;
            row.set_item("kept", piece.map_or((0, 0), |piece| (piece.kept.start, piece.kept.end)))?;
            row.set_item("first_frame", piece.map_or(0, |piece| piece.first_frame))?;
            row.set_item("first_step", ends.and_then(|(first, _)| step(first)))?;
            row.set_item("last_step", ends.and_then(|(_, last)| step(last)))?;
            row.set_item("first_time", ends.and_then(|(first, _)| time(first)))?;
            row.set_item("last_time", ends.and_then(|(_, last)| time(last)))?;
            row.set_item("fingerprint", part.fingerprint.to_hex())?;
            row.set_item("index", origin)?;
            row.set_item("index_path", part.index_path.as_ref().map(|path| path.display().to_string()))?;
            row.set_item("index_note", &part.index_note)?;
            row.set_item("truncation", part.truncation.as_ref().map(ToString::to_string))?;
            list.append(row)?;
        }
        Ok(list)
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

    fn gaps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        let scanned = self.scanned(py)?;
        for gap in &scanned.joined.gaps {
            let row = PyDict::new(py);
            let scale = scanned.parts[gap.part].scales().time;
            row.set_item("part", gap.part)?;
            row.set_item("frame", gap.frame)?;
            row.set_item("time_before", gap.times.map(|(before, _)| before * scale))?;
            row.set_item("time_after", gap.times.map(|(_, after)| after * scale))?;
            row.set_item("step_before", gap.steps.map(|(before, _)| before))?;
            row.set_item("step_after", gap.steps.map(|(_, after)| after))?;
            list.append(row)?;
        }
        Ok(list)
    }

    fn times<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray1<f64>>>> {
        let scanned = self.scanned(py)?;
        Ok(py
            .detach(|| column(scanned, |part, frame| Some(part.index.time(frame)? * part.scales().time)))
            .map(|times| times.into_pyarray(py)))
    }

    fn steps<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray1<i64>>>> {
        let scanned = self.scanned(py)?;
        Ok(py.detach(|| column(scanned, |part, frame| part.index.step(frame))).map(|steps| steps.into_pyarray(py)))
    }

    #[pyo3(signature = (
        frames, *, atoms=None, fields=vec!["positions".to_owned()], dtype="float32", out=None, workers=0, memory=0,
        native=false
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
    ) -> PyResult<Bound<'py, PyDict>> {
        let wide = choice("dtype", dtype, &[("float32", false), ("float64", true)])?;
        self.scanned(py)?;
        let (set, columns) = match atoms {
            None => (AtomSelection::all(self.inner.n_atoms()), None),
            Some(indices) => arguments::columns(indices, self.inner.n_atoms())?,
        };
        let n_columns = columns.as_ref().map_or(set.len(), Vec::len);
        let request = BulkRequest {
            frames: arguments::frames(frames)?,
            atoms: set,
            columns,
            native,
            workers: arguments::workers(workers),
            memory,
        };
        request.frames.check(self.scanned(py)?.joined.n_frames).map_err(|error| to_python(&error))?;
        let asked = arguments::fields(&fields)?;
        let fill = Fill { trajectory: &self.inner, request: &request, asked, n_columns, out };
        if wide {
            fill.read::<f64>(py, |values| Vectors::F64(values))
        } else {
            fill.read::<f32>(py, |values| Vectors::F32(values))
        }
    }
}

/// A column of the index over all frames of the trajectory; `None` if some part has none.
fn column<T>(scanned: &Scanned, value: impl Fn(&kinema_core::trajectory::Part, u64) -> Option<T>) -> Option<Vec<T>> {
    let frames = scanned.joined.pieces.iter().flat_map(|piece| piece.kept.clone().map(move |frame| (piece, frame)));
    frames.map(|(piece, frame)| value(&scanned.parts[piece.part], frame)).collect()
}

struct Fill<'a, 'py> {
    trajectory: &'a Trajectory,
    request: &'a BulkRequest,
    asked: Fields,
    n_columns: usize,
    out: Option<&'a Bound<'py, PyAny>>,
}

impl<'py> Fill<'_, 'py> {
    fn read<T: Element + Default>(
        self,
        py: Python<'py>,
        wrap: for<'b> fn(&'b mut [T]) -> Vectors<'b>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let rows = usize::try_from(self.request.frames.len()).map_err(|_| invalid("too many frames"))?;
        let shape = [rows, self.n_columns, 3];
        let names = [Fields::POSITIONS, Fields::VELOCITIES, Fields::FORCES];
        let mut out = self.out;
        let arrays: Vec<Option<Bound<'py, PyArray3<T>>>> = names
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
        let mut cells = vec![[[0_f32; 3]; 3]; rows];
        let mut steps = vec![0_i64; rows];
        let mut times = vec![0_f64; rows];
        {
            let mut guards = arrays
                .iter()
                .map(|array| array.as_ref().map(|array| array.try_readwrite()).transpose())
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| invalid(format!("out cannot be written: {error}")))?;
            let mut vectors = [Vectors::Absent, Vectors::Absent, Vectors::Absent];
            for (vectors, guard) in vectors.iter_mut().zip(&mut guards) {
                if let Some(guard) = guard {
                    *vectors = wrap(guard.as_slice_mut().map_err(|_| invalid("out must be C-contiguous"))?);
                }
            }
            let arrays = Arrays { vectors, cells: &mut cells, steps: &mut steps, times: &mut times };
            let (trajectory, request) = (self.trajectory, self.request);
            let work = move |watch: &Watch| bulk::read(trajectory, request, arrays, watch);
            if rows <= 1 && trajectory.n_atoms() <= BRIEF_ATOMS {
                at_once(py, work)?;
            } else {
                watched(py, None, rows as u64, work)?;
            }
        }
        let result = PyDict::new(py);
        for (array, field) in arrays.into_iter().zip(names) {
            if let Some(array) = array {
                result.set_item(field.names()[0], array)?;
            }
        }
        let cells: Vec<f32> = cells.into_iter().flatten().flatten().collect();
        let cells = Array::from_shape_vec((rows, 3, 3), cells).map_err(|error| invalid(error.to_string()))?;
        result.set_item("cells", cells.into_pyarray(py))?;
        result.set_item("steps", steps.into_pyarray(py))?;
        result.set_item("times", times.into_pyarray(py))?;
        let frames: Vec<u64> = (0..rows as u64).map(|row| self.request.frames.get(row)).collect();
        result.set_item("frames", frames.into_pyarray(py))?;
        Ok(result)
    }
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
