//! Carries out a plan on threads: read, decode, transform, accumulate; leaves are handed out as workers come free.
//!
//! Threads belong to the call. Results have the same bits for any number of them: see `merge`.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::cuts::decoded_twice;
use crate::error::{Error, ErrorKind, Result, catch_panics};
use crate::frame::{Block, BlockView, Picked};
use crate::kernel::{AnyKernel, AnyPartial, AtomMap, Buffers, Needs};
use crate::merge::{MergeTree, Node};
use crate::plan::{Job, Plan};
use crate::reader::Reader;
use crate::timing::{BlockTiming, RunTimings, WorkerTiming, lap, thread_cpu_time};
use crate::trajectory::Trajectory;

/// What the caller watches and says while a run goes on.
#[derive(Debug, Default)]
pub struct Watch {
    /// Frames done.
    pub done: AtomicU64,
    /// Set by the caller to end the run.
    pub cancel: AtomicBool,
}

impl Watch {
    /// `Cancelled` once the caller has asked to stop.
    ///
    /// # Errors
    /// As said.
    pub fn check(&self) -> Result<()> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Cancelled, "stopped by the caller"));
        }
        Ok(())
    }
}

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
pub fn run(trajectory: &Trajectory, plan: &Plan, jobs: &[Job], leaves: Range<u64>, watch: &Watch) -> Result<Outcome> {
    let tree = MergeTree::new(plan.n_leaves());
    let kernels: Vec<&dyn AnyKernel> = jobs.iter().map(|job| &*job.kernel).collect();
    let timings = run_into(trajectory, plan, jobs, &[leaves], &|node| tree.insert(&kernels, node), watch)?;
    Ok(Outcome { nodes: tree.into_nodes(), timings })
}

/// Takes in a leaf as soon as it is done; called by all workers. Leaves that were not finished are never delivered.
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
    watch: &Watch,
) -> Result<RunTimings> {
    let start = Instant::now();
    // one leaf, or one load at a time, where nothing is gained by other ends
    let (left, task_leaves) = match plan.cuts_matter() {
        true => (plan.tasks(&plan.cuts(trajectory)?, leaves), u64::MAX),
        false => (leaves.to_vec(), plan.task_leaves),
    };
    let shared = Shared {
        trajectory,
        plan,
        jobs,
        watch,
        start,
        left: Mutex::new(left.into()),
        task_leaves,
        deliver,
        failure: Mutex::new(None),
        stop: AtomicBool::new(false),
    };
    let mut accounts = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.workers as u32)
            .map(|number| {
                let shared = &shared;
                scope.spawn(move || shared.work(number))
            })
            .collect();
        accounts.extend(threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| {
                shared.fail(Error::new(ErrorKind::Internal, "a worker thread died"));
                Account::default()
            })
        }));
    });
    if let Some(error) = shared.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let wall = start.elapsed();
    let mut timings = RunTimings { wall, ..RunTimings::default() };
    for (mut worker, blocks) in accounts {
        worker.wait += wall.saturating_sub(worker.total);
        worker.total = wall;
        timings.workers.push(worker);
        timings.blocks.extend(blocks);
    }
    Ok(timings)
}

/// What all workers of a run see.
struct Shared<'a> {
    trajectory: &'a Trajectory,
    plan: &'a Plan,
    jobs: &'a [Job],
    watch: &'a Watch,
    start: Instant,
    /// Leaves that were not handed out yet.
    left: Mutex<VecDeque<Range<u64>>>,
    /// How many of them a worker takes from such a range.
    task_leaves: u64,
    deliver: &'a Deliver<'a>,
    failure: Mutex<Option<Error>>,
    stop: AtomicBool,
}

type Account = (WorkerTiming, Vec<BlockTiming>);

impl Shared<'_> {
    /// Keeps the first error and stops all workers at their next block.
    fn fail(&self, error: Error) {
        self.stop.store(true, Ordering::Relaxed);
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// The next leaves that nobody works at; None when all are handed out or the run is to end.
    fn next_leaves(&self) -> Option<Range<u64>> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(range) = left.front_mut() {
            if range.start < range.end {
                let end = range.start.saturating_add(self.task_leaves).min(range.end);
                return Some(std::mem::replace(&mut range.start, end)..end);
            }
            left.pop_front();
        }
        None
    }

    fn work(&self, number: u32) -> Account {
        let mut account = Account::default();
        let cpu = thread_cpu_time();
        // a busy machine lets a new thread wait for a core
        let begun = self.start.elapsed();
        let outcome = catch_panics(|| {
            let mut worker = Worker::new(self, number)?;
            let outcome = worker.run();
            account = std::mem::take(&mut worker.account);
            account.0.phases = worker.reader.phases;
            // to give back the room of many frames takes some time, too
            let mut clock = Instant::now();
            worker.block = Block::default();
            account.0.phases.decode += lap(&mut clock);
            outcome
        });
        if let Err(error) = outcome {
            self.fail(error);
        }
        account.0.wait += begun;
        account.0.cpu = thread_cpu_time().saturating_sub(cpu);
        account.0.total = self.start.elapsed();
        account
    }
}

/// A job with its atom sets found in the block.
struct Bound<'a> {
    job: &'a Job,
    maps: Vec<AtomMap>,
    transform_maps: Vec<Vec<AtomMap>>,
}

/// The leaf that a worker is at.
struct OpenLeaf {
    number: u64,
    partials: Vec<AnyPartial>,
}

struct Worker<'a> {
    shared: &'a Shared<'a>,
    number: u32,
    reader: Reader<'a>,
    bound: Vec<Bound<'a>>,
    block: Block,
    /// The needed atoms, where more were read.
    picked: Option<Picked>,
    transformed: Vec<f32>,
    buffers: Buffers,
    account: Account,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared<'a>, number: u32) -> Result<Self> {
        let plan = shared.plan;
        let maps = |needs: Needs| -> Result<Vec<AtomMap>> {
            needs.atom_sets.iter().map(|set| AtomMap::new(set, &plan.atoms)).collect()
        };
        let bind = |job: &'a Job| -> Result<Bound<'a>> {
            let transform_maps = job.transforms.iter().map(|t| maps(t.needs())).collect::<Result<_>>()?;
            Ok(Bound { job, maps: maps(job.kernel.needs())?, transform_maps })
        };
        Ok(Self {
            shared,
            number,
            reader: Reader::new(shared.trajectory, plan.fields, plan.read_atoms.clone(), false)?,
            bound: shared.jobs.iter().map(bind).collect::<Result<_>>()?,
            block: Block::default(),
            picked: plan.atoms.positions_in(&plan.read_atoms)?.map(Picked::new),
            transformed: Vec::new(),
            buffers: Buffers::default(),
            account: Account::default(),
        })
    }

    fn run(&mut self) -> Result<()> {
        while let Some(leaves) = self.shared.next_leaves() {
            self.run_leaves(leaves)?;
        }
        Ok(())
    }

    /// Reads the frames of neighbouring leaves block by block; a block may end one leaf and begin the next.
    fn run_leaves(&mut self, leaves: Range<u64>) -> Result<()> {
        let plan = self.shared.plan;
        let mut open = OpenLeaf { number: leaves.start, partials: self.empty() };
        let Range { mut start, .. } = plan.leaf(leaves.start);
        let Range { end, .. } = plan.leaf(leaves.end - 1);
        while start < end {
            if self.shared.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.shared.watch.check()?;
            let stop = self.block_end(start, end);
            self.run_block(start..stop, &mut open)?;
            start = stop;
        }
        Ok(())
    }

    fn empty(&self) -> Vec<AnyPartial> {
        self.bound.iter().map(|bound| bound.job.kernel.empty()).collect()
    }

    /// The end of the block that begins at a position of the selection; where frames are decoded together, not in the
    /// middle of those if it can be helped.
    fn block_end(&self, start: u64, end: u64) -> u64 {
        let plan = self.shared.plan;
        let stop = (start + plan.block_frames).min(end);
        if plan.band == 1 || stop == end {
            return stop;
        }
        let Some(scanned) = self.shared.trajectory.scanned() else { return stop };
        let mut best = (u64::MAX, stop);
        for position in (start + 1..=stop).rev() {
            let cost = decoded_twice(scanned, &plan.frames, plan.fields, position);
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
        let mut clock = Instant::now();
        let begun = clock - self.shared.start;
        let before = self.reader.phases;
        self.block.reserve((positions.end - first) as usize, plan.read_atoms.len(), plan.fields)?;
        self.block.reset(positions.map(|i| plan.frames.get(i)), plan.read_atoms.len(), plan.fields);
        // room for many frames is worth some time: the first to touch it has the system clear it
        self.reader.phases.decode += lap(&mut clock);
        let frames = std::mem::take(&mut self.block.frames);
        let read = self.reader.read(&frames, &mut self.block.as_mut());
        self.block.frames = frames;
        read?;
        lap(&mut clock);
        let leaf = open.number;
        let rows = self.block.rows();
        let mut row = 0;
        while row < rows {
            let end = plan.leaf(open.number).end;
            let until = rows.min((end - first) as usize);
            let read = self.block.view().rows_in(row..until);
            let view = match &mut self.picked {
                Some(picked) => picked.of(read),
                None => read,
            };
            for (bound, partial) in self.bound.iter().zip(&mut open.partials) {
                accumulate(bound, &view, partial, &mut self.transformed, &mut self.buffers)
                    .map_err(|error| place(self.shared.trajectory, error))?;
            }
            if first + until as u64 == end {
                let bundle = std::mem::replace(&mut open.partials, self.empty());
                (self.shared.deliver)(Node { level: 0, index: open.number, bundle })?;
                open.number += 1;
            }
            row = until;
        }
        let compute = lap(&mut clock);
        let after = self.reader.phases;
        let rows = rows as u32;
        let (totals, blocks) = &mut self.account;
        totals.compute += compute;
        totals.frames += u64::from(rows);
        totals.blocks += 1;
        blocks.push(BlockTiming {
            worker: self.number,
            leaf,
            frames: rows,
            start: begun,
            io: after.io + after.open - before.io - before.open,
            decode: after.decode - before.decode,
            compute,
        });
        self.shared.watch.done.fetch_add(u64::from(rows), Ordering::Relaxed);
        Ok(())
    }
}

fn accumulate(
    bound: &Bound<'_>,
    block: &BlockView<'_>,
    partial: &mut AnyPartial,
    transformed: &mut Vec<f32>,
    buffers: &mut Buffers,
) -> Result<()> {
    let kernel = &bound.job.kernel;
    if bound.job.transforms.is_empty() {
        return kernel.accumulate(partial, block, &bound.maps, buffers);
    }
    transformed.clear();
    transformed.extend_from_slice(block.positions);
    let width = block.n_selected * 3;
    for (row, &frame) in transformed.chunks_exact_mut(width.max(1)).zip(block.frames) {
        for (transform, maps) in bound.job.transforms.iter().zip(&bound.transform_maps) {
            transform.apply(row, maps, buffers).map_err(|error| error.at_frame(frame))?;
        }
    }
    kernel.accumulate(partial, &BlockView { positions: transformed, ..*block }, &bound.maps, buffers)
}

/// Turns a trajectory's frame number in a kernel's error into file and frame.
fn place(trajectory: &Trajectory, error: Error) -> Error {
    let (Some(frame), Some(scanned)) = (error.frame(), trajectory.scanned()) else { return error };
    let piece = scanned.joined.piece_of(frame);
    let part = &scanned.parts[piece.part];
    error
        .moved_to_frame(piece.kept.start + (frame - piece.first_frame))
        .in_format(part.format.info().name)
        .at_path(&part.path)
}
