//! `Plan`, `Partition`, and runs of a plan's leaves on the threads of this process.

use std::ops::Range;

use kinema_core::clock::RunTimings;
use kinema_core::pipeline::kernels;
use kinema_core::plan::{Access, Domain, FrameDomain, Job, Plan};
use kinema_core::plan::{Partition, TaskRequest};
use numpy::PyArray2;
use numpy::ndarray::Array2;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::arguments;
use crate::callback::or_raised;
use crate::errors::{invalid, to_python};
use crate::kernels::PyKernel;
use crate::merge_tree::{PyMergeTree, PyNode, to_python_node};
use crate::signals::run_interruptible;
use crate::trajectory::PyTrajectory;
use crate::transforms::{PyTransform, stack_of};

type PyJob<'py> = (PyRef<'py, PyKernel>, Vec<PyRef<'py, PyTransform>>);

fn jobs(jobs: &[PyJob<'_>]) -> PyResult<Vec<Job>> {
    let job = |(kernel, transforms): &PyJob<'_>| Ok(Job { kernel: kernel.inner.clone(), stack: stack_of(transforms)? });
    jobs.iter().map(job).collect()
}

/// Frames, atoms and fields to read, divided into units of work.
#[pyclass(name = "Plan", module = "kinema._core", frozen)]
pub struct PyPlan {
    inner: Plan,
}

#[pymethods]
impl PyPlan {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python class")]
    #[pyo3(signature = (trajectory, frames, jobs, *, memory=0, workers=0, access="direct", pieces=0))]
    fn new(
        py: Python<'_>,
        trajectory: &PyTrajectory,
        frames: &Bound<'_, PyAny>,
        jobs: Vec<PyJob<'_>>,
        memory: u64,
        workers: usize,
        access: &str,
        pieces: u64,
    ) -> PyResult<Self> {
        let access = match arguments::named(access)? {
            Access::InMemory { .. } => Access::InMemory { pieces },
            other => other,
        };
        trajectory.scanned(py)?;
        let frames = arguments::frames(frames)?;
        let workers = arguments::workers(workers);
        let inner = Plan::with_access(&trajectory.inner, frames, &self::jobs(&jobs)?, workers, memory, access);
        Ok(Self { inner: inner.map_err(|error| to_python(&error))? })
    }

    /// Name of the items that are divided into leaves.
    #[getter]
    fn domain(&self) -> &'static str {
        FrameDomain::ITEMS
    }

    #[getter]
    fn n_frames(&self) -> u64 {
        self.inner.domain.len()
    }

    #[getter]
    fn n_leaves(&self) -> u64 {
        self.inner.n_leaves()
    }

    #[getter]
    fn leaf_frames(&self) -> u64 {
        self.inner.domain.leaf_frames
    }

    #[getter]
    fn workers(&self) -> usize {
        self.inner.workers
    }

    #[getter]
    fn memory(&self) -> u64 {
        self.inner.memory
    }

    /// The selected frames of a leaf, as positions in the selection: start and stop.
    fn leaf(&self, leaf: u64) -> PyResult<(u64, u64)> {
        if leaf >= self.inner.n_leaves() {
            return Err(invalid(format!("leaf {leaf} is not one of the plan's {}", self.inner.n_leaves())));
        }
        let frames = self.inner.leaf(leaf);
        Ok((frames.start, frames.end))
    }

    #[pyo3(signature = (redecoded_frames=None))]
    fn explain(&self, redecoded_frames: Option<u64>) -> String {
        self.inner.explain(redecoded_frames)
    }

    /// The cost of task boundaries between leaves; the trajectory must be the one of the plan.
    fn partition(&self, py: Python<'_>, trajectory: &PyTrajectory) -> PyResult<PyPartition> {
        let partition = py.detach(|| self.inner.partition(&trajectory.inner));
        partition.map(|inner| PyPartition { inner }).map_err(|error| to_python(&error))
    }
}

/// Partition of leaves into tasks.
#[pyclass(name = "Partition", module = "kinema._core", frozen)]
pub struct PyPartition {
    inner: Partition,
}

#[pymethods]
impl PyPartition {
    #[new]
    #[pyo3(signature = (n_leaves=0, leaf_frames=1, costs=Vec::new(), file_starts=Vec::new()))]
    fn new(n_leaves: u64, leaf_frames: u64, costs: Vec<u64>, file_starts: Vec<u64>) -> Self {
        Self { inner: Partition::new(n_leaves, leaf_frames, costs, file_starts) }
    }

    #[getter]
    fn is_uniform(&self) -> bool {
        self.inner.is_uniform()
    }

    #[getter]
    fn has_costs(&self) -> bool {
        self.inner.has_costs()
    }

    #[getter]
    fn file_starts(&self) -> Vec<u64> {
        self.inner.file_starts().to_vec()
    }

    fn cost(&self, leaf: u64) -> u64 {
        self.inner.cost(leaf)
    }

    fn share_boundary(&self, wanted: u64, share: u64) -> u64 {
        self.inner.share_boundary(wanted, share)
    }

    #[pyo3(signature = (leaves, *, share, most=None, fair, left, threads=1))]
    fn task_end(
        &self,
        leaves: (u64, u64),
        share: u64,
        most: Option<u64>,
        fair: u64,
        left: u64,
        threads: u64,
    ) -> PyResult<u64> {
        let (first, end) = leaves;
        if first >= end {
            return Err(invalid(format!("a task of the leaves from {first} to {end} has none")));
        }
        Ok(self.inner.task_end(first, end, TaskRequest { share, most: most.unwrap_or(u64::MAX), fair, left, threads }))
    }
}

/// Maps the leaves `start..stop` of the plan and merges them as far as the tree has siblings among them.
#[pyfunction]
#[pyo3(signature = (trajectory, plan, jobs, start, stop, *, progress=None))]
pub fn run_leaves<'py>(
    py: Python<'py>,
    trajectory: &PyTrajectory,
    plan: &PyPlan,
    jobs: Vec<PyJob<'py>>,
    start: u64,
    stop: u64,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Vec<PyNode>, Bound<'py, PyDict>)> {
    let plan = &plan.inner;
    let work = planned(plan, &jobs)?;
    let leaves: Range<u64> = start..stop;
    let frames = frames_of(plan, &leaves)?;
    let inner = &trajectory.inner;
    let outcome =
        run_interruptible(py, progress, frames, |progress| kernels::run(inner, plan, &work, leaves, progress));
    let outcome = or_raised(jobs.iter().filter_map(|(kernel, _)| kernel.adapter.as_deref()), outcome)?;
    let kernels: Vec<_> = work.into_iter().map(|job| job.kernel).collect();
    let nodes = outcome.nodes.into_iter().map(|node| to_python_node(&kernels, node)).collect();
    let timings = timings_dict(py, &outcome.timings)?;
    timings.set_item("faults", trajectory.frame_faults())?;
    Ok((nodes, timings))
}

/// Maps the leaves of some ranges of the plan, and puts each into the tree when it is done.
///
/// After an error the tree holds all leaves that were finished.
#[pyfunction]
#[pyo3(signature = (trajectory, plan, jobs, tree, leaves, *, progress=None))]
pub fn run_into<'py>(
    py: Python<'py>,
    trajectory: &PyTrajectory,
    plan: &PyPlan,
    jobs: Vec<PyJob<'py>>,
    tree: &PyMergeTree,
    leaves: Vec<(u64, u64)>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let plan = &plan.inner;
    let work = planned(plan, &jobs)?;
    let leaves: Vec<Range<u64>> = leaves.into_iter().map(|(start, stop)| start..stop).collect();
    let frames: u64 = leaves.iter().map(|range| frames_of(plan, range)).sum::<PyResult<_>>()?;
    let inner = &trajectory.inner;
    let insert = tree.deliver()?;
    let deliver = kernels::Deliver { leaf: &insert, keeps: tree.keeps_results() };
    let outcome = run_interruptible(py, progress, frames, |progress| {
        kernels::run_into(inner, plan, &work, &leaves, deliver, progress)
    });
    timings_dict(py, &tree.or_raised(outcome)?)
}

/// The jobs, which must be the jobs of the plan.
fn planned(plan: &Plan, jobs: &[PyJob<'_>]) -> PyResult<Vec<Job>> {
    let work = self::jobs(jobs)?;
    let names: Vec<&str> = work.iter().map(|job| job.kernel.id()).collect();
    if names == plan.kernels {
        return Ok(work);
    }
    Err(invalid(format!(
        "these are not the jobs that were planned, expected {}, found {}",
        plan.kernels.join(", "),
        names.join(", ")
    )))
}

fn frames_of(plan: &Plan, leaves: &Range<u64>) -> PyResult<u64> {
    let Range { start, end } = *leaves;
    if start >= end || end > plan.n_leaves() {
        return Err(invalid(format!("leaves {start} to {end} are not some of the plan's {}", plan.n_leaves())));
    }
    Ok(plan.leaf(end - 1).end - plan.leaf(start).start)
}

/// Timings as Python gets them.
pub(crate) fn timings_dict<'py>(py: Python<'py>, timings: &RunTimings) -> PyResult<Bound<'py, PyDict>> {
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
                block.position as f64,
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
