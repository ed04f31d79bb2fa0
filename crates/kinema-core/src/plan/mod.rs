//! The plan of a run: frames, atoms and fields to read, leaves, blocks, memory and workers.
//!
//! A plan is a recipe of a few kilobytes without handles or indices; the pipeline carries it out.

mod access;
mod domain;
mod leaves;
mod memory;
mod partition;
mod reading;

use std::fmt::Write as _;
use std::ops::Range;

pub use self::access::Access;
use self::access::{Load, LoadCost};
pub use self::domain::{Domain, FrameDomain};
pub use self::leaves::leaf_frames;
use self::memory::Budget;
pub use self::memory::DEFAULT_MEMORY;
pub(crate) use self::memory::{BATCH_BYTES, row_bytes};
pub(crate) use self::memory::{transform_room, transform_rows};
pub(crate) use self::partition::redecoded_frames;
pub use self::partition::{Partition, TaskRequest};
use crate::error::{Error, ErrorKind, Result, printed};
use crate::format::FrameCoupling;
use crate::frame::Fields;
use crate::reduce::{AnyKernel, Needs, Stack};
use crate::selection::{AtomSelection, FrameSelection};
use crate::trajectory::{Scanned, Trajectory, not_scanned};

/// A kernel, and the transforms of frames before it sees them.
pub struct Job {
    /// The analysis.
    pub kernel: std::sync::Arc<dyn AnyKernel>,
    /// Applied after the transforms of the trajectory, to each frame by itself.
    pub stack: Stack,
}

impl Job {
    /// Atoms and fields that must be read, but for the trajectory's transforms.
    fn needs(&self, n_atoms: u32) -> Result<(AtomSelection, Fields)> {
        let only_of_trajectory = if self.stack.looks_back() {
            Some("must see other frames first")
        } else {
            self.stack.grouping().map(|_| "makes other positions than those of atoms")
        };
        if let Some(why) = only_of_trajectory {
            let what = format!(
                "{} {why}: it is a transform of the trajectory, not of a single analysis",
                self.stack.labels().join(", ")
            );
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let Needs { fields, atom_sets } = self.kernel.needs();
        if let Some(other) = atom_sets.iter().find(|set| set.n_atoms() != n_atoms) {
            let what = "the selection is of another number of atoms than the trajectory";
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("{what}, expected {n_atoms}, found {}", other.n_atoms()),
            ));
        }
        self.stack.united(&AtomSelection::union(n_atoms, &atom_sets), fields)
    }
}

/// Jobs with the same stack, by their numbers, each group once.
pub(crate) fn grouped(jobs: &[Job]) -> Vec<(&Stack, Vec<usize>)> {
    let mut groups: Vec<(&Stack, Vec<usize>)> = Vec::new();
    for (number, job) in jobs.iter().enumerate() {
        match groups.iter_mut().find(|(stack, _)| **stack == job.stack) {
            Some((_, members)) => members.push(number),
            None => groups.push((&job.stack, vec![number])),
        }
    }
    groups
}

/// Frames, atoms and fields to read, divided into units of work.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The frames and their leaves.
    pub domain: FrameDomain,
    /// All atoms that some kernel or transform needs.
    pub atoms: AtomSelection,
    /// How frames are read.
    pub access: Access,
    /// The atoms that are decoded: those that are needed, or all.
    pub read_atoms: AtomSelection,
    /// Fields to decode.
    pub fields: Fields,
    /// Frames of the leaves of each kernel; the domain's leaf length is a multiple of each.
    pub kernel_leaf_frames: Vec<u64>,
    /// Frames of a block: read and decoded in one batch. It may hold several leaves, or a part of one.
    pub block_frames: u64,
    /// Frames that are decoded as one unit because they share a compressed chunk: blocks end with a chunk. 1 if every
    /// frame is decoded alone.
    pub coupled_frames: u64,
    /// Leaves of a task: several if a block holds several, and if frames are coupled, so that few chunks are split;
    /// tasks end with a chunk.
    pub task_leaves: u64,
    /// Selected frames that are decoded a second time because chunks lie across the boundaries of the workers' tasks.
    pub redecoded_frames: u64,
    /// Threads that the memory limit, the number of leaves and the caller leave.
    pub workers: usize,
    /// Working memory in bytes that the run keeps to. Results do not count, except rows of lists.
    pub memory: u64,
    /// Bytes of it that partials of constant size take.
    pub partial_bytes: u64,
    /// Bytes read from files for each byte of vectors that kernels use, in the first frames; 0 if they use no vectors.
    pub read_per_useful: f64,
    /// The kernels' names and versions.
    pub kernels: Vec<String>,
    /// In words: transforms of all frames, then transforms for some jobs.
    pub transforms: [Vec<String>; 2],
    /// In words: requests that the plan could not fulfil.
    pub notes: Vec<String>,
}

impl Plan {
    /// Plans `jobs` over `frames` of a scanned trajectory, read directly; `memory` 0 means [`DEFAULT_MEMORY`].
    ///
    /// # Errors
    /// Errors of [`Plan::with_access`].
    pub fn new(
        trajectory: &Trajectory,
        frames: FrameSelection,
        jobs: &[Job],
        workers: usize,
        memory: u64,
    ) -> Result<Self> {
        Self::with_access(trajectory, frames, jobs, workers, memory, Access::Direct)
    }

    /// As [`Plan::new`], with any access mode.
    ///
    /// # Errors
    /// `OutOfRange` for a frame that does not exist; `MemoryLimit` if one frame does not fit, or not all that is to be
    /// loaded; `InvalidArgument` without frames or jobs.
    pub fn with_access(
        trajectory: &Trajectory,
        frames: FrameSelection,
        jobs: &[Job],
        workers: usize,
        memory: u64,
        access: Access,
    ) -> Result<Self> {
        let scanned = trajectory.scanned().ok_or_else(not_scanned)?;
        let (atoms, fields) = united_needs(trajectory, scanned, &frames, jobs)?;
        let row = row_bytes(atoms.len(), fields);
        let mut kernel_leaf_frames: Vec<u64> =
            jobs.iter().map(|job| leaves::kernel_leaf_frames(frames.len(), &*job.kernel)).collect();
        let leaf_frames = kernel_leaf_frames.iter().copied().max().unwrap_or(1);
        // exact partials are not merged within a leaf
        let exact = jobs.iter().zip(&mut kernel_leaf_frames).filter(|(job, _)| job.kernel.is_exact());
        exact.for_each(|(_, own)| *own = leaf_frames);
        let (largest, coupling) = trajectory_coupling(scanned, fields);
        // in memory are all atoms of a frame, and kernels must not change them there
        let is_made = trajectory.made_positions().is_some();
        let read_atoms = if is_made { AtomSelection::all(trajectory.n_atoms()) } else { access.atoms(&atoms) };
        let read_row = row_bytes(read_atoms.len(), fields);
        let groups = grouped(jobs);
        let transforms = groups.iter().flat_map(|(stack, _)| stack.labels()).collect();
        // a single stack is applied in place to the decoded frames
        let is_copied = groups.len() > 1 || read_atoms != atoms || is_made;
        let copies =
            u64::from(read_atoms != atoms) + u64::from(is_copied && groups.iter().any(|(stack, _)| !stack.is_empty()));
        let mut plan = Self {
            atoms,
            access,
            read_atoms,
            fields,
            kernel_leaf_frames,
            block_frames: 1,
            coupled_frames: if coupling.decoded_whole && access == Access::Direct { coupling.frames } else { 1 },
            task_leaves: 1,
            redecoded_frames: 0,
            workers: 1,
            memory: if memory == 0 { DEFAULT_MEMORY } else { memory },
            partial_bytes: 0,
            read_per_useful: 0.0,
            kernels: jobs.iter().map(|job| job.kernel.id().to_owned()).collect(),
            transforms: [trajectory.stack().labels(), transforms],
            notes: Vec::new(),
            domain: FrameDomain { frames, leaf_frames },
        };
        plan.read_per_useful = reading::bytes_per_useful_byte(
            scanned,
            &plan.domain.frames,
            &trajectory.stack().united(&plan.read_atoms, fields)?.0,
            &plan.atoms,
            fields,
            coupling.frames,
        )?;
        let (n_leaves, frame) = (plan.n_leaves(), read_row + copies * row);
        let mut budget = Budget::new(jobs, &plan.kernel_leaf_frames, leaf_frames, n_leaves, frame, largest);
        let stack = trajectory.stack();
        let rooms = u64::from(stack.looks_back()) + u64::from(stack.grouping().is_some());
        if rooms > 0 {
            // frames that transforms must see first, and frames with the atoms of groups
            let (decoded, fields) = stack.united(&plan.read_atoms, fields)?;
            budget.reading += transform_room(scanned, &decoded, fields, rooms);
        }
        let scratch = jobs.iter().map(|job| job.kernel.scratch_bytes()).fold(0, u64::saturating_add);
        budget.reading = budget.reading.saturating_add(scratch);
        // the second copy is made when the results are put together
        let kept = jobs.iter().map(|job| job.kernel.kept_bytes()).fold(0, u64::saturating_add);
        budget.tree = budget.tree.saturating_add(kept.saturating_mul(2));
        let wanted = plan.useful_workers(scanned, workers);
        plan.share_memory(&budget, wanted)?;
        if kept >= 1 << 20 {
            plan.notes.push(format!("{} MiB of results come together in memory", kept >> 20));
        }
        if let Access::InMemory { pieces } = access {
            let leaf = leaf_frames * copies * row;
            let beside = budget.reading + budget.partials;
            let cost = LoadCost { row: read_row, leaf, beside, shared: budget.tree };
            let load = Load::new(pieces, plan.workers, plan.n_leaves(), leaf_frames, plan.domain.len());
            load.check(&cost, plan.workers, plan.memory, trajectory.n_atoms())?;
            (plan.block_frames, plan.task_leaves) = (load.frames, load.leaves);
        }
        if access == Access::Direct {
            plan.size_blocks(&budget, coupling.frames);
        }
        if plan.coupled_frames > 1 && plan.partition_matters() {
            let partition = plan.partition(trajectory)?;
            let tasks = plan.tasks(&partition, std::slice::from_ref(&(0..plan.n_leaves())));
            plan.redecoded_frames = tasks.iter().map(|task| partition.cost(task.end)).sum();
        }
        Ok(plan)
    }

    /// One worker, with a note, if files can only be read forward; otherwise the requested workers.
    fn useful_workers(&mut self, scanned: &Scanned, workers: usize) -> usize {
        let Some(part) = scanned.forward_part().filter(|_| workers > 1) else { return workers };
        self.notes.push(format!(
            "1 instead of {workers} workers, as frames of {} are found from its front only ({})",
            printed(&part.path),
            part.decoder.header().variant
        ));
        1
    }

    /// As many of the requested workers as leaves and memory limit allow; access "in-memory" is checked against all of them.
    fn share_memory(&mut self, budget: &Budget, workers: usize) -> Result<()> {
        let wanted = workers.max(1).min(self.n_leaves().try_into().unwrap_or(usize::MAX));
        self.workers = match self.access {
            Access::InMemory { .. } => wanted,
            _ => budget.workers(self.memory, wanted)?,
        };
        self.partial_bytes = budget.partial_bytes(self.workers);
        if self.workers < wanted {
            self.notes.push(format!(
                "{} instead of {wanted} workers, so that the memory limit of {} bytes holds",
                self.workers, self.memory
            ));
        }
        Ok(())
    }

    /// Sets blocks of as many frames as memory and cache allow, and tasks; `coupled` frames of a file share segments.
    fn size_blocks(&mut self, budget: &Budget, coupled: u64) {
        let mut wanted = budget.fast_frames();
        let mut tasks = self.domain.len().div_ceil(wanted);
        if coupled > 1 {
            wanted = wanted.max(2 * coupled);
            tasks = self.domain.frames.reach() / coupled / 8;
        }
        self.block_frames = budget.most_frames(self.memory, self.workers).min(wanted);
        let tasks = match self.workers as u64 {
            1 => 1,
            workers if coupled > 1 => tasks.clamp(workers, 16 * workers),
            workers => tasks.max(16 * workers),
        };
        self.task_leaves = self.n_leaves().div_ceil(tasks);
        if self.block_frames < self.coupled_frames {
            self.notes.push(format!(
                "chunks hold {} frames and are compressed; the memory limit has room for {}, so that each chunk is \
                 decoded about {} times; {:.1} MiB for each worker or `kinema repack` would end that",
                self.coupled_frames,
                self.block_frames,
                self.coupled_frames.div_ceil(self.block_frames),
                budget.worker_bytes(self.coupled_frames) as f64 / (1 << 20) as f64,
            ));
        }
    }

    /// Number of leaves.
    pub fn n_leaves(&self) -> u64 {
        self.domain.n_leaves()
    }

    /// The selected frames of a leaf, as positions in the selection.
    pub fn leaf(&self, leaf: u64) -> Range<u64> {
        self.domain.leaf(leaf)
    }

    /// The cost of task boundaries between leaves.
    ///
    /// # Errors
    /// `Internal` if the trajectory has not been scanned.
    pub fn partition(&self, trajectory: &Trajectory) -> Result<Partition> {
        let scanned = trajectory.scanned().ok_or_else(not_scanned)?;
        Ok(Partition::from_selection(scanned, &self.domain, self.fields))
    }

    /// Whether tasks end where chunks or files do; otherwise each has `task_leaves` leaves.
    pub(crate) fn partition_matters(&self) -> bool {
        self.workers > 1 && self.access == Access::Direct && (self.coupled_frames > 1 || self.task_leaves > 1)
    }

    /// The tasks of the workers, where [`Plan::partition_matters`].
    pub(crate) fn tasks(&self, partition: &Partition, leaves: &[Range<u64>]) -> Vec<Range<u64>> {
        partition.tasks(leaves, self.task_leaves, self.workers as u64)
    }

    /// The plan in words. `redecoded_frames` is the number of frames that a runner's scheduler decodes a second time,
    /// if its tasks are not those of this plan.
    pub fn explain(&self, redecoded_frames: Option<u64>) -> String {
        let mut text = format!(
            "{}: {} of {} atoms ({}){}, {} frames in {} leaves of {}, blocks of {} frames, {} worker{}, \
             at most {:.1} MiB of working memory{}{}",
            self.kernels.join(", "),
            self.atoms.len(),
            self.atoms.n_atoms(),
            self.fields.names().join(", "),
            self.access.description(),
            self.domain.len(),
            self.n_leaves(),
            self.domain.leaf_frames,
            self.block_frames,
            self.workers,
            if self.workers == 1 { "" } else { "s" },
            self.memory as f64 / (1 << 20) as f64,
            match self.partial_bytes {
                0 => String::new(),
                bytes => format!(", of which {:.1} MiB for partial results", bytes as f64 / (1 << 20) as f64),
            },
            match self.read_per_useful {
                0.0 => String::new(),
                bytes => format!(", {bytes:.2} bytes read for each byte that is used"),
            },
        );
        // writing to a String cannot fail
        for (labels, of) in
            self.transforms.iter().zip(["", " of single analyses"]).filter(|(labels, _)| !labels.is_empty())
        {
            let _ = write!(text, "\ntransforms{of}: {}", labels.join(", then "));
        }
        for note in &self.notes {
            let _ = write!(text, "\nnote: {note}");
        }
        let redecoded = redecoded_frames.unwrap_or(self.redecoded_frames);
        if redecoded > 0 && self.coupled_frames > 1 {
            let _ = write!(
                text,
                "\nnote: compressed chunks of {} frames lie across the leaves at which work is divided; those are \
                 decoded twice, frames {:.2} times on average",
                self.coupled_frames,
                1.0 + redecoded as f64 / self.domain.len() as f64,
            );
        }
        text
    }
}

/// All atoms and fields that some kernel or transform needs.
fn united_needs(
    trajectory: &Trajectory,
    scanned: &Scanned,
    frames: &FrameSelection,
    jobs: &[Job],
) -> Result<(AtomSelection, Fields)> {
    if frames.is_empty() {
        let n_frames = scanned.concatenation.n_frames;
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("no frames selected; the trajectory has {n_frames} frames"),
        ));
    }
    if jobs.is_empty() {
        return Err(Error::new(ErrorKind::InvalidArgument, "no analysis given"));
    }
    frames.check(scanned.concatenation.n_frames)?;
    let mut all: Option<(AtomSelection, Fields)> = None;
    for job in jobs {
        let (atoms, fields) = job.needs(trajectory.n_atoms())?;
        all = Some(match all {
            None => (atoms, fields),
            Some((others, known)) => (AtomSelection::union(trajectory.n_atoms(), [&others, &atoms]), known | fields),
        });
    }
    let (atoms, fields) = all.unwrap_or((AtomSelection::all(0), Fields::NONE));
    trajectory.stack().held(&atoms, fields)
}

/// Bytes of the largest frame of the parts, and the coupling of their frames.
pub(crate) fn trajectory_coupling(scanned: &Scanned, fields: Fields) -> (u64, FrameCoupling) {
    let parts = || scanned.concatenation.spans.iter().map(|span| &scanned.parts[span.part]);
    let coupling = parts().fold(FrameCoupling::INDEPENDENT, |all, part| all.and(part.decoder.coupling(fields)));
    let largest = parts().map(|part| part.index.largest()).max().unwrap_or(0);
    (largest.max(coupling.working_bytes), coupling)
}
