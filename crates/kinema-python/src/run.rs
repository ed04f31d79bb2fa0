//! `Plan` and `run`: one round of map-reduce on the threads of this process.

use kinema_core::engine;
use kinema_core::plan::{Job, Plan};
use kinema_core::timing::RunTimings;
use kinema_core::{Error, ErrorKind};
use numpy::PyArray2;
use numpy::ndarray::Array2;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::arguments;
use crate::errors::to_python;
use crate::kernels::{PyKernel, PyPartial, PyTransform};
use crate::signals::watched;
use crate::trajectory::PyTrajectory;

type PyJob<'py> = (PyRef<'py, PyKernel>, Vec<PyRef<'py, PyTransform>>);

fn jobs(jobs: &[PyJob<'_>]) -> Vec<Job> {
    jobs.iter()
        .map(|(kernel, transforms)| Job {
            kernel: kernel.inner.clone(),
            transforms: transforms.iter().map(|transform| transform.inner.clone()).collect(),
        })
        .collect()
}

/// What to read, in which units of work.
#[pyclass(name = "Plan", module = "kinema._core", frozen)]
pub struct PyPlan {
    inner: Plan,
}

#[pymethods]
impl PyPlan {
    #[new]
    #[pyo3(signature = (trajectory, frames, jobs, *, memory=0, workers=0))]
    fn new(
        py: Python<'_>,
        trajectory: &PyTrajectory,
        frames: &Bound<'_, PyAny>,
        jobs: Vec<PyJob<'_>>,
        memory: u64,
        workers: usize,
    ) -> PyResult<Self> {
        trajectory.scanned(py)?;
        let frames = arguments::frames(frames)?;
        let workers = arguments::workers(workers);
        let inner = Plan::new(&trajectory.inner, frames, &self::jobs(&jobs), workers, memory);
        Ok(Self { inner: inner.map_err(|error| to_python(&error))? })
    }

    #[getter]
    fn n_frames(&self) -> u64 {
        self.inner.frames.len()
    }

    #[getter]
    fn n_leaves(&self) -> u64 {
        self.inner.n_leaves()
    }

    #[getter]
    fn leaf_frames(&self) -> u64 {
        self.inner.leaf_frames
    }

    #[getter]
    fn block_frames(&self) -> u64 {
        self.inner.block_frames
    }

    #[getter]
    fn workers(&self) -> usize {
        self.inner.workers
    }

    fn explain(&self) -> String {
        self.inner.explain()
    }
}

/// Maps all leaves of the plan and merges them.
#[pyfunction]
#[pyo3(signature = (trajectory, plan, jobs, *, progress=None))]
pub fn run<'py>(
    py: Python<'py>,
    trajectory: &PyTrajectory,
    plan: &PyPlan,
    jobs: Vec<PyJob<'py>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Vec<PyPartial>, Bound<'py, PyDict>)> {
    let work = self::jobs(&jobs);
    let plan = &plan.inner;
    let names: Vec<&str> = work.iter().map(|job| job.kernel.id()).collect();
    if names != plan.kernels {
        return Err(crate::errors::invalid(format!(
            "these are not the jobs that were planned, expected {}, found {}",
            plan.kernels.join(", "),
            names.join(", ")
        )));
    }
    let inner = &trajectory.inner;
    let outcome =
        watched(py, progress, plan.frames.len(), |watch| engine::run(inner, plan, &work, 0..plan.n_leaves(), watch))?;
    let [root] = <[_; 1]>::try_from(outcome.nodes)
        .map_err(|_| to_python(&Error::new(ErrorKind::Internal, "the leaves did not merge into one root")))?;
    let partials =
        work.into_iter().zip(root.bundle).map(|(job, partial)| PyPartial::new(job.kernel, partial)).collect();
    Ok((partials, timings(py, &outcome.timings)?))
}

fn timings<'py>(py: Python<'py>, timings: &RunTimings) -> PyResult<Bound<'py, PyDict>> {
    let workers = PyList::empty(py);
    for (number, worker) in timings.workers.iter().enumerate() {
        let row = PyDict::new(py);
        row.set_item("worker", number)?;
        row.set_item("open", worker.phases.open.as_secs_f64())?;
        row.set_item("io", worker.phases.io.as_secs_f64())?;
        row.set_item("decode", worker.phases.decode.as_secs_f64())?;
        row.set_item("compute", worker.compute.as_secs_f64())?;
        row.set_item("wait", worker.wait.as_secs_f64())?;
        row.set_item("total", worker.total.as_secs_f64())?;
        row.set_item("cpu", worker.cpu.as_secs_f64())?;
        row.set_item("frames", worker.frames)?;
        row.set_item("blocks", worker.blocks)?;
        row.set_item("bytes_read", worker.phases.bytes_read)?;
        row.set_item("reads", worker.phases.reads)?;
        workers.append(row)?;
    }
    let rows: Vec<[f64; 7]> = timings
        .blocks
        .iter()
        .map(|block| {
            [
                f64::from(block.worker),
                block.leaf as f64,
                f64::from(block.frames),
                block.start.as_secs_f64(),
                block.io.as_secs_f64(),
                block.decode.as_secs_f64(),
                block.compute.as_secs_f64(),
            ]
        })
        .collect();
    let result = PyDict::new(py);
    result.set_item("wall", timings.wall.as_secs_f64())?;
    result.set_item("workers", workers)?;
    result.set_item("blocks", PyArray2::from_owned_array(py, Array2::from(rows)))?;
    Ok(result)
}
