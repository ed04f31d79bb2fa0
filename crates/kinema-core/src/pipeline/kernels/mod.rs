//! The pipeline's end for kernels: threads read, decode, transform and accumulate the leaves of a plan.
//!
//! Results have the same bits for any number of threads: see `reduce`.

mod job_stacks;

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Instant;

use self::job_stacks::JobStacks;
use crate::clock::{BlockTiming, RunTimings, Work, WorkerTiming, thread_cpu_time};
use crate::error::Result;
use crate::frame::{AtomGather, Block, BlockView, Fields, MadePositions, Units};
use crate::pipeline::absent::lacks;
use crate::pipeline::applied::placed;
use crate::pipeline::pool::{Pool, Progress};
use crate::pipeline::reader::Reader;
use crate::plan::redecoded_frames;
use crate::plan::{Job, Plan};
use crate::reduce::{AnyKernel, BoundKernel, LeafPartial, MergeTree, Node, RunBuffer, Workspace};
use crate::trace;
use crate::trace::activity::{COMPUTE, MERGE, TRANSFORM};
use crate::trajectory::Trajectory;

/// Result of a run of some leaves.
pub struct Outcome {
    /// Merged nodes of the tree: the root alone when all leaves were run.
    pub nodes: Vec<Node>,
    /// Times of the phases.
    pub timings: RunTimings,
}

/// Runs the leaves `leaves` of a plan.
///
/// # Errors
/// Errors of [`run_into`].
pub fn run(
    trajectory: &Trajectory,
    plan: &Plan,
    jobs: &[Job],
    leaves: Range<u64>,
    progress: &Progress,
) -> Result<Outcome> {
    let tree = MergeTree::new(plan.n_leaves());
    let kernels: Vec<&dyn AnyKernel> = jobs.iter().map(|job| &*job.kernel).collect();
    let deliver = Deliver { leaf: &|node| tree.insert(&kernels, node), keeps: true };
    let timings = run_into(trajectory, plan, jobs, &[leaves], deliver, progress)?;
    Ok(Outcome { nodes: tree.into_nodes(&kernels)?, timings })
}

/// Destination of leaves.
#[derive(Clone, Copy)]
pub struct Deliver<'a> {
    /// Receives a leaf as soon as it is done; called by all workers. Leaves that were not finished are never delivered.
    pub leaf: &'a (dyn Fn(Node) -> Result<()> + Sync),
    /// Whether all leaves stay in memory until the end. If so, kernels with a fixed number of values a frame write them
    /// directly into the whole result.
    pub keeps: bool,
}

/// Runs leaves of a plan, range after range, and delivers each.
///
/// # Errors
/// The first error of any worker or of `deliver.leaf`; the other workers stop at their next block.
pub fn run_into(
    trajectory: &Trajectory,
    plan: &Plan,
    jobs: &[Job],
    leaves: &[Range<u64>],
    deliver: Deliver<'_>,
    progress: &Progress,
) -> Result<RunTimings> {
    let start = Instant::now();
    // one leaf, or one load at a time, unless the partition matters
    let (left, task_leaves) = match plan.partition_matters() {
        true => (plan.tasks(&plan.partition(trajectory)?, leaves), u64::MAX),
        false => (leaves.to_vec(), plan.task_leaves),
    };
    let pool = Pool::new(left, progress);
    let buffers = buffers(plan, jobs, leaves, deliver.keeps);
    let shared = Shared { trajectory, plan, jobs, start, pool: &pool, task_leaves, deliver, buffers: &buffers };
    let records = pool.run(&trajectory.threads, plan.workers, |number| shared.work(number))?;
    // a worker process may be ended before it can do that itself
    trace::flush();
    let (workers, blocks): (Vec<_>, Vec<_>) = records.into_iter().unzip();
    Ok(RunTimings { blocks: blocks.into_iter().flatten().collect(), ..RunTimings::from_workers(start, workers) })
}

/// A buffer for the rows of each job, from the first leaf to the last.
fn buffers(plan: &Plan, jobs: &[Job], leaves: &[Range<u64>], keeps: bool) -> Vec<RunBuffer> {
    let leaves = leaves.iter().filter(|range| !range.is_empty());
    let ends = leaves.map(|range| (plan.leaf(range.start).start, plan.leaf(range.end - 1).end));
    let whole = ends.reduce(|all, next| (all.0.min(next.0), all.1.max(next.1))).filter(|_| keeps);
    let buffer =
        |job: &Job| whole.map_or(RunBuffer::none(), |(first, end)| RunBuffer::new(&*job.kernel, &(first..end)));
    jobs.iter().map(buffer).collect()
}

/// State shared by the workers of a run.
struct Shared<'a> {
    trajectory: &'a Trajectory,
    plan: &'a Plan,
    jobs: &'a [Job],
    start: Instant,
    /// Leaves that are not scheduled yet.
    pool: &'a Pool<'a, Range<u64>>,
    /// How many of them a worker takes from such a range.
    task_leaves: u64,
    deliver: Deliver<'a>,
    /// One buffer a job.
    buffers: &'a [RunBuffer],
}

type WorkerRecord = (WorkerTiming, Vec<BlockTiming>);

impl Shared<'_> {
    /// The leaves that a worker takes next.
    fn next_leaves(&self) -> Result<Option<Range<u64>>> {
        self.pool.next_of(|range| {
            let end = range.start.saturating_add(self.task_leaves).min(range.end);
            (range.start < range.end).then(|| std::mem::replace(&mut range.start, end)..end)
        })
    }

    fn work(&self, number: u32) -> Result<WorkerRecord> {
        let cpu = thread_cpu_time();
        // a busy machine lets a new thread wait for a core
        let timing = WorkerTiming::begin(self.start);
        let mut worker = Worker::new(self, number)?;
        worker.run()?;
        let mut record = std::mem::take(&mut worker.record);
        if worker.made.is_none() {
            // to give back the buffer of many frames takes some time, too
            worker.reader.meter().watch.restart();
            worker.block = Block::default();
            worker.reader.meter().decoded(Work::default());
        }
        record.0.phases = worker.reader.phases();
        (record.0.wait, record.0.thread) = (timing.wait, timing.thread);
        // from here on it only waits, for a core too, which the system may take at any call
        record.0.total = worker.reader.meter().watch.begun() - self.start;
        record.0.cpu = thread_cpu_time().saturating_sub(cpu);
        Ok(record)
    }
}

/// The leaf that a worker accumulates.
struct OpenLeaf {
    number: u64,
    /// One partial a kernel.
    partials: Vec<LeafPartial>,
}

struct Worker<'a> {
    shared: &'a Shared<'a>,
    number: u32,
    reader: Reader<'a>,
    /// Kernel of each job.
    kernels: Vec<BoundKernel<'a>>,
    block: Block,
    /// The positions of all frames, if they are in memory: nothing is read.
    made: Option<&'a MadePositions>,
    /// Gathers the needed atoms, where more were read.
    gather: Option<AtomGather>,
    /// Transforms applied to frames for some of the jobs.
    stacks: JobStacks,
    workspace: Workspace,
    record: WorkerRecord,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared<'a>, number: u32) -> Result<Self> {
        let plan = shared.plan;
        let bind = |job: &'a Job| BoundKernel::new(&*job.kernel, &plan.atoms);
        Ok(Self {
            shared,
            number,
            reader: Reader::new(shared.trajectory, plan.fields, plan.read_atoms.clone(), Units::Public)?,
            kernels: shared.jobs.iter().map(bind).collect::<Result<_>>()?,
            block: Block::default(),
            made: shared.trajectory.made_positions(),
            gather: plan.atoms.positions_in(&plan.read_atoms)?.map(AtomGather::new),
            stacks: JobStacks::new(plan, shared.jobs)?,
            workspace: Workspace::default(),
            record: WorkerRecord::default(),
        })
    }

    fn run(&mut self) -> Result<()> {
        while let Some(leaves) = self.shared.next_leaves()? {
            self.run_leaves(leaves)?;
        }
        Ok(())
    }

    /// Reads the frames of neighbouring leaves block by block; a block may end one leaf and begin the next.
    fn run_leaves(&mut self, leaves: Range<u64>) -> Result<()> {
        let plan = self.shared.plan;
        let mut open = OpenLeaf { number: leaves.start, partials: self.empty_partials() };
        let Range { mut start, .. } = plan.leaf(leaves.start);
        let Range { end, .. } = plan.leaf(leaves.end - 1);
        while start < end {
            if self.shared.pool.is_stopped()? {
                return Ok(());
            }
            let stop = self.block_end(start, end);
            self.run_block(start..stop, &mut open)?;
            start = stop;
        }
        Ok(())
    }

    fn empty_partials(&self) -> Vec<LeafPartial> {
        self.kernels.iter().map(|_| LeafPartial::default()).collect()
    }

    /// The end of the block that begins at a position of the selection. If frames share a chunk, it is the end of a
    /// chunk, if one is in reach.
    fn block_end(&self, start: u64, end: u64) -> u64 {
        let plan = self.shared.plan;
        let stop = (start + plan.block_frames).min(end);
        if let Some(made) = self.made {
            return start + made.neighbours((start..stop).map(|position| plan.domain.frames.get(position)));
        }
        if plan.coupled_frames == 1 || stop == end {
            return stop;
        }
        let Some(scanned) = self.shared.trajectory.scanned() else { return stop };
        let mut best = (u64::MAX, stop);
        for position in (start + 1..=stop).rev() {
            let cost = redecoded_frames(scanned, &plan.domain.frames, plan.fields, position);
            if cost < best.0 {
                best = (cost, position);
            }
            if cost == 0 {
                break;
            }
        }
        best.1
    }

    fn run_block(&mut self, positions: Range<u64>, open: &mut OpenLeaf) -> Result<()> {
        let plan = self.shared.plan;
        let first = positions.start;
        let meter = self.reader.meter();
        meter.watch.restart();
        let (begun, before) = (meter.watch.begun() - self.shared.start, meter.phases);
        self.fill_block(positions)?;
        let mut watch = self.reader.meter().watch;
        let mut compute = self.reader.take_transforming();
        let rows = self.block.rows();
        let at = |error| placed(self.shared.trajectory, error);
        if self.made.is_none() && self.gather.is_none() && self.stacks.apply_in_place(&mut self.block).map_err(at)? {
            compute += watch.lap(&TRANSFORM, Work::frames(rows as u64));
        }
        let mut row = 0;
        while row < rows {
            // kernels in Python may take long over a leaf
            if self.shared.pool.is_stopped()? {
                return Ok(());
            }
            let Range { start: begin, end } = plan.leaf(open.number);
            let until = rows.min((end - first) as usize);
            let block = self.block.view();
            let block = match self.made {
                Some(made) => BlockView { positions: made.rows(block.frames[0], rows), ..block },
                None => block,
            };
            let read = block.rows_in(row..until);
            let view = match &mut self.gather {
                Some(gather) => gather.gather(read),
                None => read,
            };
            let before = (first + row as u64 - begin) as usize;
            for group in 0..self.stacks.len() {
                let moved = self.stacks.apply(group, view).map_err(at)?;
                if moved.is_copy {
                    compute += watch.lap(&TRANSFORM, Work::frames(view.rows() as u64));
                }
                for &job in moved.jobs {
                    let (bound, partial) = (&mut self.kernels[job], &mut open.partials[job]);
                    let frames = plan.kernel_leaf_frames[job] as usize;
                    let (kernel, buffer) = (bound.kernel(), &self.shared.buffers[job]);
                    let empty = |frames: Range<usize>| {
                        buffer.empty(kernel, begin + frames.start as u64..end.min(begin + frames.end as u64))
                    };
                    let accumulated =
                        partial.accumulate(kernel, &moved.view, before, frames, empty, |partial, rows| {
                            bound.accumulate(partial, rows, &self.workspace)?;
                            compute += watch.lap(&COMPUTE, Work::frames(rows.frames.len() as u64));
                            Ok(())
                        });
                    accumulated.map_err(at)?;
                }
            }
            if first + until as u64 == end {
                let partials = std::mem::replace(&mut open.partials, self.empty_partials());
                let partials = partials.into_iter().zip(&self.kernels);
                let partials =
                    partials.map(|(partial, bound)| partial.finish(bound.kernel())).collect::<Result<_>>()?;
                (self.shared.deliver.leaf)(Node { level: 0, index: open.number, partials })?;
                open.number += 1;
                compute += watch.lap(&MERGE, Work::frames((until - row) as u64));
            }
            self.shared.pool.progress.done.fetch_add((until - row) as u64, Ordering::Relaxed);
            row = until;
        }
        let after = self.reader.phases();
        let rows = rows as u32;
        let (totals, blocks) = &mut self.record;
        totals.compute += compute;
        totals.frames += u64::from(rows);
        totals.blocks += 1;
        blocks.push(BlockTiming {
            worker: self.number,
            position: first,
            frames: rows,
            start: begun,
            io: after.io + after.open - before.io - before.open,
            decode: after.decode - before.decode,
            compute,
        });
        Ok(())
    }
}

impl Worker<'_> {
    /// Reads and decodes the frames at these positions of the selection; of frames in memory, only notes their times.
    fn fill_block(&mut self, positions: Range<u64>) -> Result<()> {
        let plan = self.shared.plan;
        let n_atoms = plan.read_atoms.len();
        let n_frames = (positions.end - positions.start) as usize;
        let numbers = positions.map(|position| plan.domain.frames.get(position));
        if self.made.is_some() {
            self.block.reset(numbers, n_atoms, Fields::NONE);
            self.block.stamps.clear();
            self.block.stamps.extend(self.block.frames.iter().map(|&frame| MadePositions::stamp(frame)));
            return Ok(());
        }
        self.block.reserve(false, n_frames, n_atoms, plan.fields)?;
        self.block.reset(numbers, n_atoms, plan.fields);
        // a buffer for many frames is worth some time: the first to touch it has the system clear it
        self.reader.meter().decoded(Work::default());
        let frames = std::mem::take(&mut self.block.frames);
        let read = self.reader.read(&frames, &mut self.block.as_mut());
        self.block.frames = frames;
        read?;
        self.check_present()
    }

    /// Refuses frames that lack vectors which kernels need.
    fn check_present(&self) -> Result<()> {
        let (trajectory, stamps) = (self.shared.trajectory, &self.block.stamps);
        let vectors = Fields::VECTORS.into_iter().fold(Fields::NONE, |all, field| all | field);
        let needed = vectors - (vectors - self.shared.plan.fields);
        for (stamp, &frame) in
            stamps.iter().zip(&self.block.frames).filter(|(stamp, _)| !stamp.present.contains(needed))
        {
            let Some(scanned) = trajectory.scanned() else { continue };
            if !scanned.parts[scanned.concatenation.span_of(frame).part].decoder.facts().may_lack_fields {
                continue;
            }
            return Err(placed(trajectory, lacks(needed - stamp.present).with_frame(frame)));
        }
        Ok(())
    }
}
