//! Work without the GIL that still heeds Ctrl-C, SIGTERM handlers and a progress callback.
//!
//! The work runs on threads of its own; the calling thread sleeps, wakes about ten times a second, and asks Python.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use kinema_core::engine::Watch;
use kinema_core::error::catch_panics;
use kinema_core::{Error, ErrorKind, Result};
use pyo3::prelude::*;

use crate::errors::to_python;

const TICK: Duration = Duration::from_millis(100);

/// Runs `work` without the GIL. `progress`, if given, is called with (done, `total`) now and then and at the end;
/// an exception that it or a signal handler raises cancels the work and is passed on.
pub fn watched<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    total: u64,
    work: impl FnOnce(&Watch) -> Result<T> + Send,
) -> PyResult<T> {
    let watch = Watch::default();
    let report = progress.map(|callback| callback.clone().unbind());
    let (outcome, raised) = py.detach(|| {
        std::thread::scope(|scope| {
            let (sender, finished) = channel();
            let watch = &watch;
            let worker = scope.spawn(move || {
                let outcome = catch_panics(|| work(watch));
                // the receiver outlives this thread, so sending cannot fail
                let _ = sender.send(());
                outcome
            });
            let mut raised = None;
            while let Err(RecvTimeoutError::Timeout) = finished.recv_timeout(TICK) {
                if raised.is_none() {
                    raised = ask_python(report.as_ref(), watch, total).err();
                    if raised.is_some() {
                        watch.cancel.store(true, Ordering::Relaxed);
                    }
                }
            }
            let defect = || Err(Error::new(ErrorKind::Internal, "a worker thread died"));
            (worker.join().unwrap_or_else(|_| defect()), raised)
        })
    });
    if let Some(exception) = raised {
        return Err(exception);
    }
    let value = outcome.map_err(|error| to_python(&error))?;
    py.check_signals()?;
    if let Some(callback) = progress {
        callback.call1((watch.done.load(Ordering::Relaxed), total))?;
    }
    Ok(value)
}

/// Runs `work` without the GIL on the calling thread, which asks Python for signals only afterwards: for work that is
/// over sooner than a thread could be started for it several times.
pub fn at_once<T: Send>(py: Python<'_>, work: impl FnOnce(&Watch) -> Result<T> + Send) -> PyResult<T> {
    let watch = Watch::default();
    let outcome = py.detach(|| catch_panics(|| work(&watch)));
    let value = outcome.map_err(|error| to_python(&error))?;
    py.check_signals()?;
    Ok(value)
}

fn ask_python(report: Option<&Py<PyAny>>, watch: &Watch, total: u64) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        if let Some(callback) = report {
            callback.call1(py, (watch.done.load(Ordering::Relaxed), total))?;
        }
        Ok(())
    })
}
