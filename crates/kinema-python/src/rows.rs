//! `FilePool` and `Rows`: samples of archives, read into arrays of the caller.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use kinema_core::container::hdf5::array::Array;
use kinema_core::error::catch_panics;
use kinema_core::pipeline::arrays::moments::NumberType;
use kinema_core::pipeline::arrays::rows::{RowFile, RowStorage, Rows, RowsRead};
use kinema_core::source::{FilePool, FileStatus, Files, OpenSource, ReadLog, Throttle, Throttled, UnchangedFiles};
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments;
use crate::errors::{invalid, to_python};
use crate::h5md;
use crate::node_cache::{PyNodeCache, cached};
use crate::signals::{run_inline, run_interruptible};

/// Up to this many bytes are read on the calling thread: waiting for another thread would take longer.
const BRIEF_BYTES: usize = 64 << 20;

/// A limit in bytes a second that processes share, for programs that write.
#[pyclass(name = "Throttle", module = "kinema._core", frozen)]
pub struct PyThrottle(Throttle);

#[pymethods]
impl PyThrottle {
    #[new]
    fn new(rate: u64, state: PathBuf) -> PyResult<Self> {
        Throttle::new(rate, &state).map(Self).map_err(|error| to_python(&error))
    }

    /// Seconds for which the caller is to sleep.
    fn reserve(&self, n_bytes: u64) -> f64 {
        self.0.reserve(n_bytes).as_secs_f64()
    }
}

/// Open files that trajectories and archives share.
#[pyclass(name = "FilePool", module = "kinema._core", frozen)]
pub struct PyFilePool {
    pub(crate) inner: FilePool,
    log: Option<ReadLog>,
}

#[pymethods]
impl PyFilePool {
    #[new]
    #[pyo3(signature = (most, record_reads=false, node_cache=None, source_rate=None))]
    fn new(
        most: usize,
        record_reads: bool,
        node_cache: Option<&PyNodeCache>,
        source_rate: Option<(u64, PathBuf)>,
    ) -> PyResult<Self> {
        let log = record_reads.then(ReadLog::default);
        let mut files: Arc<dyn OpenSource> = match &log {
            Some(log) => Arc::new(log.clone()),
            None => Arc::new(Files),
        };
        if let Some((rate, state)) = source_rate {
            let throttle = Throttle::new(rate, &state).map_err(|error| to_python(&error))?;
            files = Arc::new(Throttled::new(files, Arc::new(throttle)));
        }
        Ok(Self { inner: FilePool::new(most, cached(files, node_cache)), log })
    }

    /// Files that are open now.
    #[getter]
    fn n_open(&self) -> usize {
        self.inner.n_open()
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
}

/// Files of a data set, as they were when it was made.
#[pyclass(name = "UnchangedFiles", module = "kinema._core", frozen)]
pub struct PyUnchangedFiles(UnchangedFiles);

#[pymethods]
impl PyUnchangedFiles {
    /// `statuses`: of each file, as `file_status` gives it.
    #[new]
    fn new(paths: Vec<PathBuf>, statuses: PyReadonlyArray2<'_, u64>, pool: &PyFilePool) -> PyResult<Self> {
        let words = statuses.as_array();
        let rows = words.rows().into_iter().map(|row| row.iter().copied().collect::<Vec<u64>>().try_into());
        let rows = rows.collect::<Result<Vec<[u64; FileStatus::WORDS]>, _>>();
        match rows {
            Ok(rows) if rows.len() == paths.len() => {
                let statuses = rows.into_iter().map(FileStatus::from_words);
                let sources = paths.iter().map(|path| pool.inner.source(path));
                Ok(Self(UnchangedFiles::new(sources.zip(statuses))))
            }
            _ => Err(invalid(format!("statuses of {} files, expected a row of nine numbers of each", paths.len()))),
        }
    }

    /// Checks some of the files, by their numbers, after they were read: `CorruptFileError` for a file that has
    /// changed.
    fn check(&self, py: Python<'_>, files: PyReadonlyArray1<'_, i64>) -> PyResult<()> {
        let files = numbers(&files)?;
        let checked = py.detach(|| catch_panics(|| self.0.check(files.into_iter().map(|file| file as usize))));
        checked.map_err(|error| to_python(&error))
    }
}

/// Status of a file now, in nine numbers; waits if the file was changed within the last 20 ms.
#[pyfunction]
pub fn file_status(py: Python<'_>, path: PathBuf) -> PyResult<[u64; FileStatus::WORDS]> {
    let status = py.detach(|| FileStatus::settled_of_path(&path)).map_err(|error| to_python(&error))?;
    Ok(status.to_words())
}

/// Rows of equal size in many files.
#[pyclass(name = "Rows", module = "kinema._core", frozen)]
pub struct PyRows {
    inner: Rows,
}

/// Path, number of rows, and either (offset, stride) or a `StoredDataset` of three dimensions.
type Described<'py> = (PathBuf, u64, Bound<'py, PyAny>);

fn row_file((path, rows, place): Described<'_>) -> PyResult<RowFile> {
    let storage = match place.extract::<(u64, u64)>() {
        Ok((offset, stride)) => RowStorage::Strided { offset, stride },
        Err(_) => {
            let array = h5md::array(&place, false, "samples").and_then(|(description, _)| Array::new(description));
            let array = array.map_err(|error| to_python(&error.with_path(&path)))?;
            RowStorage::Array(Box::new(array))
        }
    };
    Ok(RowFile { path, rows, storage })
}

fn counted<'py>(py: Python<'py>, read: &RowsRead) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("useful", read.useful)?;
    dict.set_item("read", read.read)?;
    dict.set_item("decoded", read.decoded)?;
    dict.set_item("reads", read.reads)?;
    dict.set_item("chunks", read.chunks)?;
    Ok(dict)
}

fn numbers(ids: &PyReadonlyArray1<'_, i64>) -> PyResult<Vec<u64>> {
    let negative = |_| invalid("rows are numbered from 0");
    ids.as_array().iter().map(|&id| u64::try_from(id).map_err(negative)).collect()
}

#[pymethods]
impl PyRows {
    #[new]
    fn new(files: Vec<Described<'_>>, row_bytes: usize, pool: &PyFilePool) -> PyResult<Self> {
        let files = files.into_iter().map(row_file).collect::<PyResult<_>>()?;
        let inner = Rows::new(files, row_bytes, &pool.inner).map_err(|error| to_python(&error))?;
        Ok(Self { inner })
    }

    fn __len__(&self) -> usize {
        self.inner.len() as usize
    }

    #[pyo3(signature = (ids, out, workers=0))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        ids: PyReadonlyArray1<'py, i64>,
        out: &Bound<'py, PyArray1<u8>>,
        workers: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let ids = numbers(&ids)?;
        let mut out = out.try_readwrite().map_err(|error| invalid(format!("out cannot be written: {error}")))?;
        let bytes = out.as_slice_mut().map_err(|_| invalid("out must be C-contiguous"))?;
        let brief = bytes.len() <= BRIEF_BYTES;
        let workers = arguments::workers(workers);
        let n = ids.len() as u64;
        let work = |progress: &_| self.inner.read(&ids, bytes, workers, progress);
        let done = if brief { run_inline(py, work)? } else { run_interruptible(py, None, n, work)? };
        counted(py, &done)
    }

    #[pyo3(signature = (ids, dtype, coupled=1, workers=0, progress=None))]
    fn moments<'py>(
        &self,
        py: Python<'py>,
        ids: PyReadonlyArray1<'py, i64>,
        dtype: &str,
        coupled: usize,
        workers: usize,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let number = NumberType::named(dtype).map_err(|error| to_python(&error))?;
        let (ids, workers) = (numbers(&ids)?, arguments::workers(workers));
        let work = |progress: &_| self.inner.moments(&ids, number, coupled, workers, progress);
        let found = run_interruptible(py, progress, ids.len() as u64, work)?;
        crate::moments::arrays(py, found)
    }

    fn plan<'py>(&self, py: Python<'py>, ids: PyReadonlyArray1<'py, i64>) -> PyResult<Bound<'py, PyDict>> {
        let ids = numbers(&ids)?;
        let plan = py.detach(|| self.inner.plan(&ids)).map_err(|error| to_python(&error))?;
        counted(py, &plan)
    }
}

/// A plain loop of positional reads, one a row, for measurements; of the file, or through a node cache.
#[pyfunction]
#[pyo3(name = "_pread_rows", signature = (path, offset, row_bytes, ids, out, node_cache=None))]
pub fn pread_rows(
    py: Python<'_>,
    path: PathBuf,
    offset: u64,
    row_bytes: usize,
    ids: PyReadonlyArray1<'_, i64>,
    out: &Bound<'_, PyArray1<u8>>,
    node_cache: Option<&PyNodeCache>,
) -> PyResult<()> {
    let ids = numbers(&ids)?;
    let mut out = out.try_readwrite().map_err(|error| invalid(format!("out cannot be written: {error}")))?;
    let bytes = out.as_slice_mut().map_err(|_| invalid("out must be C-contiguous"))?;
    if row_bytes == 0 || bytes.len() != ids.len() * row_bytes {
        return Err(invalid("out does not fit the rows"));
    }
    let work = || {
        let file = cached(Arc::new(Files), node_cache).open(&path)?;
        let places = bytes.chunks_exact_mut(row_bytes);
        ids.iter().zip(places).try_for_each(|(id, place)| file.read_exact_at(offset + id * row_bytes as u64, place))
    };
    py.detach(|| catch_panics(work)).map_err(|error| to_python(&error))
}
