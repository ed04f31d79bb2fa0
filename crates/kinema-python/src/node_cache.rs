//! `NodeCache` and `CachedFile`: files read through blocks that are kept on this node.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kinema_core::error::catch_panics;
use kinema_core::named::Named;
use kinema_core::source::{Extent, FileStatus, OpenSource, Source, Unchanged};
use kinema_net::cache::{CacheOptions, Counts, NodeCache, Nodes, Prefetch, Verify, counts_of_process, take_troubles};
use kinema_net::peer::{BlockNodes, Key, Node};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::arguments::named;
use crate::block_transfer::PythonNodes;
use crate::errors::{invalid, to_python};
use crate::peer::seconds;
use crate::signals::run_interruptible;

/// A cache of blocks on this node.
#[pyclass(name = "NodeCache", module = "kinema._core", frozen)]
pub struct PyNodeCache {
    pub inner: NodeCache,
}

/// Opens files as `inner` does, through a cache if there is one.
pub fn cached(inner: Arc<dyn OpenSource>, cache: Option<&PyNodeCache>) -> Arc<dyn OpenSource> {
    match cache {
        Some(cache) => Arc::new(cache.inner.wrap(inner)),
        None => inner,
    }
}

#[pymethods]
impl PyNodeCache {
    #[new]
    #[pyo3(signature = (root, limit, block=16 << 20, verify="first", source_rate=None, fuse=false))]
    fn new(
        py: Python<'_>,
        root: PathBuf,
        limit: u64,
        block: u64,
        verify: &str,
        source_rate: Option<u64>,
        fuse: bool,
    ) -> PyResult<Self> {
        let options = CacheOptions { root, limit, block, verify: named(verify)?, fuse, source_rate };
        let inner = py.detach(|| catch_panics(|| NodeCache::open(options))).map_err(|error| to_python(&error))?;
        Ok(Self { inner })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let options = slf.get().inner.options();
        let CacheOptions { limit, block, verify, fuse, source_rate, .. } = options;
        let arguments = (options.root.as_os_str(), limit, block, verify.name(), source_rate, fuse);
        Ok((slf.get_type().into_any(), arguments.into_pyobject(slf.py())?))
    }

    #[getter]
    fn root(&self) -> OsString {
        self.inner.options().root.clone().into_os_string()
    }

    #[getter]
    fn limit(&self) -> u64 {
        self.inner.options().limit
    }

    #[getter]
    fn block(&self) -> u64 {
        self.inner.options().block
    }

    #[getter]
    fn verify(&self) -> &'static str {
        Verify::name(self.inner.options().verify)
    }

    #[getter]
    fn fuse(&self) -> bool {
        self.inner.options().fuse
    }

    #[getter]
    fn source_rate(&self) -> Option<u64> {
        self.inner.options().source_rate
    }

    /// Counts of this process's use of the cache through this object.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        counts_dict(py, &self.inner.counts())
    }

    /// The reason why a block last could not be stored, or was damaged, in this process.
    #[getter]
    fn last_error(&self) -> Option<String> {
        self.inner.last_error()
    }

    /// Content of the folder.
    fn stat<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = run_interruptible(py, None, 0, |_| self.inner.stat())?;
        let dict = PyDict::new(py);
        dict.set_item("blocks", found.blocks)?;
        dict.set_item("bytes", found.bytes)?;
        let files = found.files.into_iter().map(|file| (file.path.into_os_string(), file.blocks, file.bytes));
        dict.set_item("files", files.collect::<Vec<_>>())?;
        dict.set_item("temporary", found.temporary)?;
        Ok(dict)
    }

    /// Compares all checksums; damaged blocks are removed and listed: path, offset, reason.
    #[pyo3(signature = (progress=None))]
    fn verify_all(
        &self,
        py: Python<'_>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<(OsString, u64, String)>> {
        let total = py.detach(|| self.inner.stat()).map_err(|error| to_python(&error))?.bytes;
        let damaged = run_interruptible(py, progress, total, |progress| {
            self.inner.verify_all(&|bytes| {
                progress.done.fetch_add(bytes, Ordering::Relaxed);
                progress.check()
            })
        })?;
        Ok(damaged.into_iter().map(|one| (one.path.into_os_string(), one.offset, one.reason)).collect())
    }

    /// Removes all blocks, or those of some files; returns how many, and their bytes.
    #[pyo3(signature = (paths=None))]
    fn clear(&self, py: Python<'_>, paths: Option<Vec<PathBuf>>) -> PyResult<(u64, u64)> {
        run_interruptible(py, None, 0, |_| self.inner.clear(paths.as_deref()))
    }

    /// Fetches whole files.
    #[pyo3(signature = (paths, threads, progress=None))]
    fn fill<'py>(
        &self,
        py: Python<'py>,
        paths: Vec<PathBuf>,
        threads: usize,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        // sizes are for the progress bar only: the call itself reports a file whose size cannot be read
        let total = paths.iter().filter_map(|path| path.metadata().ok()).map(|found| found.len()).sum();
        let filled = run_interruptible(py, progress, total, |progress| {
            self.inner.fill(&paths, threads, &|| progress.check(), &progress.done)
        })?;
        let dict = PyDict::new(py);
        dict.set_item("files", filled.files)?;
        dict.set_item("blocks", filled.blocks)?;
        dict.set_item("bytes", filled.bytes)?;
        dict.set_item("fetched_blocks", filled.fetched_blocks)?;
        dict.set_item("fetched_bytes", filled.fetched_bytes)?;
        dict.set_item("not_stored", filled.not_stored)?;
        Ok(dict)
    }

    /// Fetches in advance for reads in this order: path, offset, length.
    fn prefetch(&self, py: Python<'_>, reads: Vec<(PathBuf, u64, u64)>, ahead: u64) -> PyResult<PyPrefetch> {
        let extent = |(path, offset, len)| (path, Extent { offset, len });
        let reads: Vec<_> = reads.into_iter().map(extent).collect();
        let started = py.detach(|| catch_panics(|| self.inner.prefetch(&reads, ahead)));
        Ok(PyPrefetch(Mutex::new(Some(started.map_err(|error| to_python(&error))?))))
    }

    /// Asks the homes of blocks among nodes (name, host, port) before the source; `own` is this node.
    fn set_nodes(&self, own: String, nodes: Vec<(String, String, u16)>, key: &[u8], step: f64) -> PyResult<()> {
        let key = Key::new(key).map_err(|error| to_python(&error))?;
        let nodes = nodes.into_iter().map(|(name, host, port)| Node { name, host, port }).collect();
        self.inner.set_nodes(Some(Arc::new(BlockNodes::new(own, nodes, key, seconds(step)?))));
        Ok(())
    }

    /// Asks an object for blocks before the source. `fetch(name)` gives the pieces of a block and its checksum, or
    /// `None`; then the result is reported by `stored(name, (path, length, checksum) or None)`. `None`: asks nobody.
    #[pyo3(signature = (transfer))]
    fn set_transfer(&self, transfer: Option<Py<PyAny>>) {
        self.inner.set_nodes(transfer.map(|object| Arc::new(PythonNodes::new(object)) as Arc<dyn Nodes>));
    }

    /// A file through the cache.
    fn open(&self, py: Python<'_>, path: PathBuf) -> PyResult<PyCachedFile> {
        let opened = py.detach(|| {
            catch_panics(|| {
                let source = self.inner.open(&path)?;
                let unchanged = Unchanged::from_status(FileStatus::settled_of(&*source)?);
                Ok(PyCachedFile { source, unchanged })
            })
        });
        opened.map_err(|error| to_python(&error))
    }
}

/// Fetches in advance until it is stopped or given up.
#[pyclass(name = "Prefetch", module = "kinema._core", frozen)]
pub struct PyPrefetch(Mutex<Option<Prefetch>>);

impl PyPrefetch {
    fn held(&self) -> MutexGuard<'_, Option<Prefetch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PyPrefetch {
    /// Says that the first `reads` reads of the list are done.
    fn position(&self, reads: u64) {
        if let Some(prefetch) = &*self.held() {
            prefetch.position(reads);
        }
    }

    /// The last failure, in words.
    #[getter]
    fn failure(&self) -> Option<String> {
        self.held().as_ref().and_then(Prefetch::failure).map(|error| error.to_string())
    }

    /// Ends it.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| drop(self.held().take()));
    }
}

impl Drop for PyPrefetch {
    fn drop(&mut self) {
        // its thread takes Python's lock where blocks come by a transfer in Python
        Python::attach(|py| self.stop(py));
    }
}

/// Notes about all caches of this process since the last call.
#[pyfunction]
pub fn take_node_cache_troubles() -> Vec<String> {
    take_troubles()
}

/// Counts of this process's use of all caches, as `NodeCache.counts`.
#[pyfunction]
pub fn node_cache_counts(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    counts_dict(py, &counts_of_process())
}

fn counts_dict<'py>(py: Python<'py>, counts: &Counts) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, count) in counts.named() {
        dict.set_item(name, count)?;
    }
    Ok(dict)
}

/// A file that is read through a cache.
#[pyclass(name = "CachedFile", module = "kinema._core", frozen)]
pub struct PyCachedFile {
    source: Arc<dyn Source>,
    unchanged: Unchanged,
}

impl PyCachedFile {
    /// Number of bytes available from a position on, at most `len`.
    fn there(&self, offset: u64, len: usize) -> kinema_core::Result<usize> {
        Ok(self.source.len()?.saturating_sub(offset).min(len as u64) as usize)
    }

    /// Fills `bytes` from a file that is unchanged since it was opened.
    fn fill(&self, py: Python<'_>, offset: u64, bytes: &mut [u8]) -> PyResult<()> {
        let read = || {
            let read = self.source.read_exact_at(offset, bytes);
            self.unchanged.check(&*self.source, &|| Ok(Some("it is another file to the cache; open it again")))?;
            read
        };
        py.detach(|| catch_panics(read)).map_err(|error| to_python(&error))
    }
}

#[pymethods]
impl PyCachedFile {
    /// Bytes of the file now.
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| self.source.len()).map_err(|error| to_python(&error))
    }

    #[getter]
    fn path(&self) -> OsString {
        self.source.path().as_os_str().to_owned()
    }

    /// Bytes from a position on; fewer than requested at the end of the file.
    fn read_at<'py>(&self, py: Python<'py>, offset: u64, length: usize) -> PyResult<Bound<'py, PyBytes>> {
        let n = py.detach(|| self.there(offset, length)).map_err(|error| to_python(&error))?;
        PyBytes::new_with(py, n, |bytes| self.fill(py, offset, bytes))
    }

    /// The same into a buffer; returns the number of bytes.
    fn readinto_at(&self, py: Python<'_>, offset: u64, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let buffer = PyBuffer::<u8>::get(buffer)?;
        if buffer.readonly() || !buffer.is_c_contiguous() {
            return Err(invalid("the buffer must be writable, contiguous and of bytes"));
        }
        let n = py.detach(|| self.there(offset, buffer.len_bytes())).map_err(|error| to_python(&error))?;
        if n == 0 {
            return Ok(0);
        }
        // SAFETY: the buffer is exported, writable, contiguous and at least so long for as long as `buffer` lives. Other
        // threads of Python that change it meanwhile get mixed bytes, as with any function that reads into a buffer
        let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.buf_ptr().cast::<u8>(), n) };
        self.fill(py, offset, bytes).map(|()| n)
    }
}
