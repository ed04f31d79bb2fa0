//! `kinema._core`: checksums of published files, and the server and client between nodes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kinema_core::source::FileSource;
use kinema_net::cache::check_folder;
use kinema_net::peer::{self, Client, Key, Limits, NodeContent, Patience, PublishedFiles, Server};
use pyo3::prelude::*;

use crate::errors::{invalid, to_python};
use crate::node_cache::PyNodeCache;
use crate::signals::run_interruptible;

/// Size of a file in bytes, and the XXH3-64 of its content.
#[pyfunction]
pub fn file_checksum(py: Python<'_>, path: PathBuf) -> PyResult<(u64, u64)> {
    run_interruptible(py, None, 0, |progress| peer::checksum(&FileSource::open(&path)?, progress))
}

/// Raises if a folder cannot keep files of this node.
#[pyfunction]
pub fn check_node_folder(path: PathBuf, fuse: bool) -> PyResult<()> {
    check_folder(&path, fuse).map_err(|error| to_python(&error))
}

/// Fetches a published file into an empty one.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "each is named in Python")]
#[pyo3(signature = (host, port, key, name, size, checksum, target, *, step, timeout, progress=None))]
pub fn fetch_published(
    py: Python<'_>,
    host: &str,
    port: u16,
    key: &[u8],
    name: &[u8],
    size: u64,
    checksum: u64,
    target: PathBuf,
    step: f64,
    timeout: f64,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<()> {
    let key = Key::new(key).map_err(|error| to_python(&error))?;
    let (step, timeout) = (seconds(step)?, seconds(timeout)?);
    run_interruptible(py, progress.as_ref(), size, |progress| {
        let until = Instant::now().checked_add(timeout);
        let patience = Patience { step, until, stop: &progress.cancel };
        let mut client = Client::connect(host, port, &key, &patience)?;
        peer::fetch_file(&mut client, name, (size, checksum), &target, &patience, progress)
    })
}

/// A server of the published files in a folder, and of the blocks of a cache.
#[pyclass(name = "PeerServer", module = "kinema._core", frozen)]
pub struct PyPeerServer(Mutex<Option<Server>>);

#[pymethods]
impl PyPeerServer {
    #[new]
    #[pyo3(signature = (folder, key, host, port=0, *, cache=None, clients=32, strangers=32, step=10.0, idle=30.0))]
    #[expect(clippy::too_many_arguments, reason = "each is named in Python")]
    fn new(
        folder: PathBuf,
        key: &[u8],
        host: &str,
        port: u16,
        cache: Option<&PyNodeCache>,
        clients: usize,
        strangers: usize,
        step: f64,
        idle: f64,
    ) -> PyResult<Self> {
        if clients == 0 || strangers == 0 {
            return Err(invalid("a server takes at least one client and one stranger"));
        }
        let limits = Limits { strangers, clients, step: seconds(step)?, idle: seconds(idle)? };
        let cache = cache.map(|cache| cache.inner.options().clone());
        let content = NodeContent::new(PublishedFiles::new(folder), cache);
        let start = || Server::start(host, port, Key::new(key)?, Arc::new(content), limits);
        Ok(Self(Mutex::new(Some(start().map_err(|error| to_python(&error))?))))
    }

    /// Address and port.
    #[getter]
    fn address(&self) -> PyResult<(String, u16)> {
        self.running(|server| (server.address().ip().to_string(), server.address().port()))
    }

    /// Counts of its work so far.
    fn counts(&self) -> PyResult<BTreeMap<&'static str, u64>> {
        self.running(|server| {
            let counts = server.counts();
            BTreeMap::from([
                ("clients", counts.clients),
                ("strangers", counts.strangers),
                ("requests", counts.requests),
                ("bytes", counts.bytes),
                ("failures", counts.failures),
            ])
        })
    }

    /// Stops to listen.
    fn close(&self, py: Python<'_>) {
        let server = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(server));
    }

    /// For a forked child: closes the socket inherited from the parent, and waits for nothing.
    fn abandon(&self) {
        // the lock may have been held by a thread that the child has not
        let Ok(mut server) = self.0.try_lock() else { return };
        if let Some(server) = server.take() {
            server.abandon();
        }
    }
}

impl PyPeerServer {
    fn running<T>(&self, ask: impl FnOnce(&Server) -> T) -> PyResult<T> {
        let server = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        server.as_ref().map(ask).ok_or_else(|| invalid("the server is closed"))
    }
}

/// A number of seconds from Python.
pub fn seconds(number: f64) -> PyResult<Duration> {
    // beyond any clock, a time means for ever
    const MOST: f64 = 1e9;
    if number.is_nan() || number < 0.0 {
        return Err(invalid(format!("expected a number of seconds from 0, found {number}")));
    }
    Ok(Duration::from_secs_f64(number.min(MOST)))
}
