//! Making atom checkpoints of a trajectory's files.

use std::ffi::OsString;
use std::sync::atomic::Ordering;

use kinema_core::index::atom_checkpoints::ATOMS_PER_CHECKPOINT;
use kinema_core::pipeline::Progress;
use pyo3::prelude::*;

use crate::arguments;
use crate::signals::run_interruptible;
use crate::trajectory::PyTrajectory;

/// Path, number of checkpoints and note of each part; None for a part that cannot use them.
type Made = Vec<Option<(OsString, u64, Option<String>)>>;

/// Makes and stores the atom checkpoints of all parts, for trajectories that are opened later.
#[pyfunction]
#[pyo3(signature = (trajectory, every=ATOMS_PER_CHECKPOINT, workers=0, progress=None))]
pub fn store_atom_checkpoints(
    py: Python<'_>,
    trajectory: &Bound<'_, PyTrajectory>,
    every: u32,
    workers: usize,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Made> {
    let trajectory = trajectory.get();
    let total = trajectory.scanned(py)?.parts.iter().map(|part| part.size).sum();
    let workers = arguments::workers(workers);
    let made = run_interruptible(py, progress, total, |progress: &Progress| {
        trajectory.inner.store_atom_checkpoints(every, workers, &|bytes| {
            progress.check()?;
            progress.done.fetch_add(bytes, Ordering::Relaxed);
            Ok(())
        })
    })?;
    Ok(made.into_iter().map(|one| one.map(|one| (one.path.into_os_string(), one.number, one.note))).collect())
}
