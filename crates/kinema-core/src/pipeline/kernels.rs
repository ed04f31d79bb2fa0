//! The pipeline's end for kernels: threads read, decode, transform and accumulate the leaves of a plan.
//!
//! Results have the same bits for any number of them: see `reduce`.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::clock::{BlockTiming, RunTimings, Stopwatch, Work, WorkerTiming, thread_cpu_time};
use crate::error::{Error, Result};
use crate::frame::{AtomGather, Block, BlockView, Fields, Units};
use crate::pipeline::absent::lacks;
use crate::pipeline::pool::{Pool, Progress};
use crate::pipeline::reader::Reader;
use crate::plan::redecoded_frames;
use crate::plan::{Job, Plan};
use crate::reduce::{AnyKernel, AtomMap, BoundKernel, Lattices, LeafPartial, MergeTree, Needs, Node};
use crate::trace;
use crate::trace::activity::{COMPUTE, MERGE, TRANSFORM};
use crate::trajectory::Trajectory;

/// What a run of some leaves gives.
pub struct Outcome {
    /// Merged nodes of the tree: the root alone when all leaves were run.
    pub nodes: Vec<Node>,
    /// Where the time went.
    pub timings: RunTimings,
}

/// Runs the leaves `leaves` of a plan.
///
/// # Errors
/// Those of [`run_into`].
pub fn run(
    trajectory: &Trajectory,
    plan: &Plan,
    jobs: &[Job],
    leaves: Range<u64>,
    progress: &Progress,
) -> Result<Outcome> {
    let tree = MergeTree::new(plan.n_leaves());
    let kernels: Vec<&dyn AnyKernel> = jobs.iter().map(|job| &*job.kernel).collect();
    let timings = run_into(trajectory, plan, jobs, &[leaves], &|node| tree.insert(&kernels, node), progress)?;
    Ok(Outcome { nodes: tree.into_nodes(), timings })
}

/// Receives a leaf as soon as it is done; called by all workers. Leaves that were not finished are never delivered.
pub type Deliver<'a> = dyn Fn(Node) -> Result<()> + Sync + 'a;

/// Runs leaves of a plan, range after range, and delivers each.
///
/// # Errors
/// The first error of any worker or of `deliver`; the others stop at their next block.
pub fn run_into(
    trajectory: &Trajectory,
    plan: &Plan,
    jobs: &[Job],
    leaves: &[Range<u64>],
    deliver: &Deliver<'_>,
    progress: &Progress,
) -> Result<RunTimings> {
    let start = Instant::now();
    // one leaf, or one load at a time, where nothing is gained by other ends
    let (left, task_leaves) = match plan.partition_matters() {
        true => (plan.tasks(&plan.partition(trajectory)?, leaves), u64::MAX),
        false => (leaves.to_vec(), plan.task_leaves),
    };
    let pool = Pool::new(left, progress);
    let shared = Shared { trajectory, plan, jobs, start, pool: &pool, task_leaves, deliver };
    let records = pool.run(&trajectory.threads, plan.workers, |number| shared.work(number))?;
    // a worker process may be ended before it can do that itself
    trace::flush();
    let (workers, blocks): (Vec<_>, Vec<_>) = records.into_iter().unzip();
    Ok(RunTimings { blocks: blocks.into_iter().flatten().collect(), ..RunTimings::of_workers(start, workers) })
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
    deliver: &'a Deliver<'a>,
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
        // to give back the room of many frames takes some time, too
        worker.reader.meter().watch.restart();
        worker.block = Block::default();
        worker.reader.meter().decoded(Work::default());
        record.0.phases = worker.reader.phases();
        (record.0.wait, record.0.thread) = (timing.wait, timing.thread);
        record.0.cpu = thread_cpu_time().saturating_sub(cpu);
        record.0.total = self.start.elapsed();
        Ok(record)
    }
}

/// A job bound to the atoms of the worker's blocks.
struct Bound<'a> {
    job: &'a Job,
    kernel: BoundKernel<'a>,
    transform_maps: Vec<Vec<AtomMap>>,
}

/// The leaf that a worker accumulates.
struct OpenLeaf {
    number: u64,
    /// One a kernel.
    partials: Vec<LeafPartial>,
}

struct Worker<'a> {
    shared: &'a Shared<'a>,
    number: u32,
    reader: Reader<'a>,
    bound: Vec<Bound<'a>>,
    block: Block,
    /// Gathers the needed atoms, where more were read.
    gather: Option<AtomGather>,
    transformed: Vec<f32>,
    buffer: Vec<f32>,
    lattices: Lattices,
    record: WorkerRecord,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared<'a>, number: u32) -> Result<Self> {
        let plan = shared.plan;
        let maps = |needs: Needs| -> Result<Vec<AtomMap>> {
            needs.atom_sets.iter().map(|set| AtomMap::new(set, &plan.atoms)).collect()
        };
        let bind = |job: &'a Job| -> Result<Bound<'a>> {
            let transform_maps = job.transforms.iter().map(|t| maps(t.needs())).collect::<Result<_>>()?;
            Ok(Bound { job, kernel: BoundKernel::new(&*job.kernel, &plan.atoms)?, transform_maps })
        };
        Ok(Self {
            shared,
            number,
            reader: Reader::new(shared.trajectory, plan.fields, plan.read_atoms.clone(), Units::Public)?,
            bound: shared.jobs.iter().map(bind).collect::<Result<_>>()?,
            block: Block::default(),
            gather: plan.atoms.positions_in(&plan.read_atoms)?.map(AtomGather::new),
            transformed: Vec::new(),
            buffer: Vec::new(),
            lattices: Lattices::default(),
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
        self.bound.iter().map(|_| LeafPartial::default()).collect()
    }

    /// The end of the block that begins at a position of the selection: where frames share a chunk, at the end of a chunk
    /// if one is in reach.
    fn block_end(&self, start: u64, end: u64) -> u64 {
        let plan = self.shared.plan;
        let stop = (start + plan.block_frames).min(end);
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
        self.block.reserve(false, (positions.end - first) as usize, plan.read_atoms.len(), plan.fields)?;
        self.block.reset(positions.map(|i| plan.domain.frames.get(i)), plan.read_atoms.len(), plan.fields);
        // room for many frames is worth some time: the first to touch it has the system clear it
        self.reader.meter().decoded(Work::default());
        let frames = std::mem::take(&mut self.block.frames);
        let read = self.reader.read(&frames, &mut self.block.as_mut());
        self.block.frames = frames;
        read?;
        self.check_present()?;
        let mut watch = self.reader.meter().watch;
        let mut compute = Duration::ZERO;
        let rows = self.block.rows();
        let mut row = 0;
        while row < rows {
            // kernels in Python may take long over a leaf
            if self.shared.pool.is_stopped()? {
                return Ok(());
            }
            let Range { start: begin, end } = plan.leaf(open.number);
            let until = rows.min((end - first) as usize);
            let read = self.block.view().rows_in(row..until);
            let view = match &mut self.gather {
                Some(gather) => gather.gather(read),
                None => read,
            };
            let before = (first + row as u64 - begin) as usize;
            let bound = self.bound.iter_mut().zip(&mut open.partials);
            for ((bound, partial), &frames) in bound.zip(&plan.kernel_leaf_frames) {
                let (transformed, buffer) = (&mut self.transformed, &mut self.buffer);
                let kernel = &*bound.job.kernel;
                partial
                    .accumulate(kernel, &view, before, frames as usize, |partial, rows| {
                        let rows = transform(bound, rows, transformed, buffer, (&mut watch, &mut compute))?;
                        bound.kernel.accumulate(partial, &rows, &self.lattices)?;
                        compute += watch.lap(&COMPUTE, Work::frames(rows.frames.len() as u64));
                        Ok(())
                    })
                    .map_err(|error| place(self.shared.trajectory, error))?;
            }
            if first + until as u64 == end {
                let partials = std::mem::replace(&mut open.partials, self.empty_partials());
                let partials = partials.into_iter().zip(&self.bound);
                let partials =
                    partials.map(|(partial, bound)| partial.finish(&*bound.job.kernel)).collect::<Result<_>>()?;
                (self.shared.deliver)(Node { level: 0, index: open.number, partials })?;
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
    /// Refuses frames that lack vectors which kernels need.
    fn check_present(&self) -> Result<()> {
        let (trajectory, stamps) = (self.shared.trajectory, &self.block.stamps);
        let vectors = Fields::VECTORS.into_iter().fold(Fields::NONE, |all, field| all | field);
        let needed = vectors - (vectors - self.shared.plan.fields);
        for (stamp, &frame) in
            stamps.iter().zip(&self.block.frames).filter(|(stamp, _)| !stamp.present.contains(needed))
        {
            let Some(scanned) = trajectory.scanned() else { continue };
            if !scanned.parts[scanned.concatenation.span_of(frame).part].decoder.may_lack_fields() {
                continue;
            }
            return Err(place(trajectory, lacks(needed - stamp.present).at_frame(frame)));
        }
        Ok(())
    }
}

/// The block after the job's transforms.
fn transform<'a>(
    bound: &Bound<'_>,
    block: &BlockView<'a>,
    transformed: &'a mut Vec<f32>,
    buffer: &mut Vec<f32>,
    (watch, compute): (&mut Stopwatch, &mut Duration),
) -> Result<BlockView<'a>> {
    if bound.job.transforms.is_empty() {
        return Ok(*block);
    }
    transformed.clear();
    transformed.extend_from_slice(block.positions);
    let width = block.n_selected * 3;
    for (row, &frame) in transformed.chunks_exact_mut(width.max(1)).zip(block.frames) {
        for (transform, maps) in bound.job.transforms.iter().zip(&bound.transform_maps) {
            transform.apply(row, maps, buffer).map_err(|error| error.at_frame(frame))?;
        }
    }
    *compute += watch.lap(&TRANSFORM, Work::frames(block.frames.len() as u64));
    Ok(BlockView { positions: transformed, ..*block })
}

/// Turns a trajectory's frame number in a kernel's error into file and frame.
fn place(trajectory: &Trajectory, error: Error) -> Error {
    let (Some(frame), Some(scanned)) = (error.frame(), trajectory.scanned()) else { return error };
    let span = scanned.concatenation.span_of(frame);
    let part = &scanned.parts[span.part];
    error
        .moved_to_frame(span.kept.start + (frame - span.first_frame))
        .in_format(part.format.info().name)
        .at_path(&part.path)
}
