//! `NodeCache` and `CachedFile`: files through blocks that are kept on this node.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use kinema_core::error::catch_panics;
use kinema_core::named::Named;
use kinema_core::peer::{BlockNodes, Key, Node};
use kinema_core::source::cache::{CacheOptions, Counts, NodeCache, Verify, counts_of_process};
use kinema_core::source::{OpenSource, Source};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::arguments::named;
use crate::errors::{invalid, to_python};
use crate::peer::seconds;

/// A cache of blocks on this node.
#[pyclass(name = "NodeCache", module = "kinema._core", frozen)]
pub struct PyNodeCache {
    pub inner: NodeCache,
}

/// Opens files as `inner` does, through a cache if there is one.
pub fn cached(inner: Arc<dyn OpenSource>, cache: Option<&PyNodeCache>) -> Arc<dyn OpenSource> {
    match cache {
        Some(cache) => Arc::new(cache.inner.over(inner)),
        None => inner,
    }
}

#[pymethods]
impl PyNodeCache {
    #[new]
    #[pyo3(signature = (root, limit, block=16 << 20, verify="fetch", source_rate=None, fuse=false))]
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
    fn source_rate(&self) -> Option<u64> {
        self.inner.options().source_rate
    }

    /// What this process has had of the cache by this object.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        counts_dict(py, &self.inner.counts())
    }

    /// Why a block could not be stored or was damaged, of the last time in this process.
    #[getter]
    fn last_error(&self) -> Option<String> {
        self.inner.last_error()
    }

    /// Has the homes of blocks among nodes (name, host, port) asked before the source; `own` is this one.
    fn set_nodes(&self, own: String, nodes: Vec<(String, String, u16)>, key: &[u8], step: f64) -> PyResult<()> {
        let key = Key::new(key).map_err(|error| to_python(&error))?;
        let nodes = nodes.into_iter().map(|(name, host, port)| Node { name, host, port }).collect();
        self.inner.set_nodes(Some(Arc::new(BlockNodes::new(own, nodes, key, seconds(step)?))));
        Ok(())
    }

    /// A file through the cache.
    fn open(&self, py: Python<'_>, path: PathBuf) -> PyResult<PyCachedFile> {
        let opened = py.detach(|| catch_panics(|| self.inner.open(&path)));
        Ok(PyCachedFile { source: opened.map_err(|error| to_python(&error))? })
    }
}

/// What this process has had of all caches, as `NodeCache.counts`.
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
}

impl PyCachedFile {
    /// Bytes that are there from a position on, at most `len`.
    fn there(&self, offset: u64, len: usize) -> kinema_core::Result<usize> {
        Ok(self.source.len()?.saturating_sub(offset).min(len as u64) as usize)
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

    /// Bytes from a position on; fewer than asked for at the end of the file.
    fn read_at<'py>(&self, py: Python<'py>, offset: u64, length: usize) -> PyResult<Bound<'py, PyBytes>> {
        let n = py.detach(|| self.there(offset, length)).map_err(|error| to_python(&error))?;
        PyBytes::new_with(py, n, |bytes| {
            let read = py.detach(|| catch_panics(|| self.source.read_exact_at(offset, bytes)));
            read.map_err(|error| to_python(&error))
        })
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
        let read = py.detach(|| catch_panics(|| self.source.read_exact_at(offset, bytes)));
        read.map_err(|error| to_python(&error)).map(|()| n)
    }
}
