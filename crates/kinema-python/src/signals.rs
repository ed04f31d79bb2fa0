//! Interruptible work without the GIL: signals are checked, and a progress callback is called, while it runs.
//!
//! The work runs on a thread of its own; the calling thread wakes about ten times a second and polls Python.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use kinema_core::error::catch_panics;
use kinema_core::pipeline::Progress;
use kinema_core::{Error, ErrorKind, Result};
use pyo3::prelude::*;

use crate::errors::to_python;

/// Whether one of several calls must end: a Python function without arguments that says so in any thread.
#[pyclass(frozen, module = "kinema._core")]
#[derive(Clone, Default)]
pub struct Stops(Arc<Mutex<Vec<Weak<AtomicBool>>>>);

impl Stops {
    /// Asks the function whether the call with this progress must end, while the call lasts.
    pub fn add(&self, progress: &Progress) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.retain(|call| call.strong_count() > 0);
        calls.push(Arc::downgrade(&progress.cancel));
    }
}

#[pymethods]
impl Stops {
    fn __call__(&self) -> bool {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.iter().filter_map(Weak::upgrade).any(|call| call.load(Ordering::Relaxed))
    }
}

const TICK: Duration = Duration::from_millis(100);

/// Runs `work` without the GIL. `callback`, if given, is called with (done, `total`) now and then and at the end;
/// an exception that it or a signal handler raises cancels the work and is passed on.
pub fn run_interruptible<T: Send>(
    py: Python<'_>,
    callback: Option<&Bound<'_, PyAny>>,
    total: u64,
    work: impl FnOnce(&Progress) -> Result<T> + Send,
) -> PyResult<T> {
    let progress = Progress::default();
    let report = callback.map(|callback| callback.clone().unbind());
    let (outcome, raised) = py.detach(|| {
        std::thread::scope(|scope| {
            let (sender, finished) = channel();
            let progress = &progress;
            let worker = scope.spawn(move || {
                let outcome = catch_panics(|| work(progress));
                // the receiver outlives this thread, so sending cannot fail
                let _ = sender.send(());
                outcome
            });
            let mut raised = None;
            while let Err(RecvTimeoutError::Timeout) = finished.recv_timeout(TICK) {
                if raised.is_none() {
                    raised = check_signals(report.as_ref(), progress, total).err();
                    if raised.is_some() {
                        progress.cancel.store(true, Ordering::Relaxed);
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
    if let Some(callback) = callback {
        callback.call1((progress.done.load(Ordering::Relaxed), total))?;
    }
    Ok(value)
}

/// Runs `work` without the GIL on the calling thread, which checks signals only afterwards: for work that takes less
/// time than starting a thread.
pub fn run_inline<T: Send>(py: Python<'_>, work: impl FnOnce(&Progress) -> Result<T> + Send) -> PyResult<T> {
    let progress = Progress::default();
    let outcome = py.detach(|| catch_panics(|| work(&progress)));
    let value = outcome.map_err(|error| to_python(&error))?;
    py.check_signals()?;
    Ok(value)
}

fn check_signals(report: Option<&Py<PyAny>>, progress: &Progress, total: u64) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        if let Some(callback) = report {
            callback.call1(py, (progress.done.load(Ordering::Relaxed), total))?;
        }
        Ok(())
    })
}
