//! What to read, in which units of work: leaves of frames, the union of atoms, fields, memory.
//!
//! A plan is a recipe of a few kilobytes without handles or indices; the engine carries it out.

mod access;

use std::fmt::Write as _;
use std::ops::Range;

pub use self::access::Access;
use self::access::{Load, LoadCost};
use crate::cuts::{Cuts, span};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Grain;
use crate::frame::Fields;
use crate::index::fingerprint::Fingerprint;
use crate::kernel::{AnyKernel, Needs, Transform};
use crate::reader::BATCH_BYTES;
use crate::selection::{AtomSelection, FrameSelection};
use crate::trajectory::{Scanned, Trajectory, not_scanned};

/// A kernel and what is done to the frames before it sees them.
pub struct Job {
    /// The analysis.
    pub kernel: std::sync::Arc<dyn AnyKernel>,
    /// Applied in this order.
    pub transforms: Vec<std::sync::Arc<dyn Transform>>,
}

impl Job {
    fn needs(&self) -> impl Iterator<Item = Needs> + '_ {
        std::iter::once(self.kernel.needs()).chain(self.transforms.iter().map(|transform| transform.needs()))
    }
}

/// Working memory of a run unless stated otherwise.
pub const DEFAULT_MEMORY: u64 = 64 << 20;

/// Decoded bytes of a leaf at the most: a leaf is the unit of hand-out, so it should take some milliseconds.
const LEAF_BYTES: u64 = 4 << 20;
/// Frames of a leaf at the most.
const MAX_LEAF_FRAMES: u64 = 1024;
/// A short selection is cut into about this many leaves, so that many workers find work.
const WANTED_LEAVES: u64 = 256;
/// Decoded bytes of a block where memory allows: more would only leave the cache.
const BLOCK_BYTES: u64 = 1 << 20;

/// What to read, in which units of work.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The frames, in the order of the results.
    pub frames: FrameSelection,
    /// All atoms that some kernel or transform needs.
    pub atoms: AtomSelection,
    /// How frames come to the kernels.
    pub access: Access,
    /// The atoms that are decoded: those that are needed, or all.
    pub read_atoms: AtomSelection,
    /// Fields to decode.
    pub fields: Fields,
    /// Frames of every leaf but the last.
    pub leaf_frames: u64,
    /// Frames read and decoded together.
    pub block_frames: u64,
    /// Frames of a file that are decoded together whatever is wanted of them (chunks that are compressed): blocks end where
    /// such a run ends. 1 where every frame is decoded alone.
    pub band: u64,
    /// Leaves that a worker takes at a time, so that it meets the ends of few bands; cuts are moved to where these end.
    pub task_leaves: u64,
    /// Selected frames that are decoded twice where bands lie across the cuts between the workers' tasks.
    pub decoded_twice: u64,
    /// Threads that the memory limit, the number of leaves and the caller leave.
    pub workers: usize,
    /// Working memory in bytes that the run keeps to, results not counted.
    pub memory: u64,
    /// The parts' identities.
    pub fingerprints: Vec<Fingerprint>,
    /// The kernels' names and versions.
    pub kernels: Vec<String>,
    /// What the plan could not give, in words.
    pub notes: Vec<String>,
}

impl Plan {
    /// Plans `jobs` over `frames` of a scanned trajectory, read directly; `memory` 0 means [`DEFAULT_MEMORY`].
    ///
    /// # Errors
    /// Those of [`Plan::with_access`].
    pub fn new(
        trajectory: &Trajectory,
        frames: FrameSelection,
        jobs: &[Job],
        workers: usize,
        memory: u64,
    ) -> Result<Self> {
        Self::with_access(trajectory, frames, jobs, workers, memory, Access::Direct)
    }

    /// The same with another way to come by the frames.
    ///
    /// # Errors
    /// `OutOfRange` for a frame that is not there, `MemoryLimit` when one frame does not fit, or not all that is to be
    /// loaded, `InvalidArgument` without frames or jobs.
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
        let leaf_frames = leaf_length(row, frames.len());
        let (largest, grain) = trajectory_grain(scanned, fields);
        let read_atoms = access.atoms(&atoms);
        let read_row = row_bytes(read_atoms.len(), fields);
        let copies = u64::from(read_atoms != atoms) + u64::from(jobs.iter().any(|job| !job.transforms.is_empty()));
        let mut plan = Self {
            atoms,
            access,
            read_atoms,
            fields,
            leaf_frames,
            block_frames: 1,
            band: if grain.whole && access == Access::Direct { grain.frames } else { 1 },
            task_leaves: 1,
            decoded_twice: 0,
            workers: 1,
            memory: if memory == 0 { DEFAULT_MEMORY } else { memory },
            fingerprints: scanned.parts.iter().map(|part| part.fingerprint.clone()).collect(),
            kernels: jobs.iter().map(|job| job.kernel.id().to_owned()).collect(),
            notes: Vec::new(),
            frames,
        };
        let budget = Budget { row: read_row + copies * row, reading: 2 * largest.max(BATCH_BYTES) };
        plan.share_memory(&budget, workers)?;
        if let Access::InMemory { pieces } = access {
            let cost = LoadCost { row: read_row, leaf: leaf_frames * copies * row, reading: budget.reading };
            let load = Load::new(pieces, plan.workers, plan.n_leaves(), leaf_frames, plan.frames.len());
            load.check(&cost, plan.workers, plan.memory, trajectory.n_atoms())?;
            (plan.block_frames, plan.task_leaves) = (load.frames, load.leaves);
        }
        if access == Access::Direct {
            plan.size_blocks(&budget, grain.frames);
        }
        if plan.band > 1 && plan.cuts_matter() {
            let cuts = plan.cuts(trajectory)?;
            let tasks = plan.tasks(&cuts, std::slice::from_ref(&(0..plan.n_leaves())));
            plan.decoded_twice = tasks.iter().map(|task| cuts.cost(task.end)).sum();
        }
        Ok(plan)
    }

    /// As many of the wanted workers as the leaves and the memory limit leave; what is loaded as a whole costs no worker.
    fn share_memory(&mut self, budget: &Budget, workers: usize) -> Result<()> {
        let wanted = workers.max(1).min(self.n_leaves().try_into().unwrap_or(usize::MAX));
        self.workers = match self.access {
            Access::InMemory { .. } => wanted,
            _ => budget.workers(self.memory, wanted)?,
        };
        if self.workers < wanted {
            self.notes.push(format!(
                "{} instead of {wanted} workers, so that the memory limit of {} bytes holds",
                self.workers, self.memory
            ));
        }
        Ok(())
    }

    /// Blocks of as many frames as memory and cache allow, and tasks, where `together` frames of a file share segments.
    fn size_blocks(&mut self, budget: &Budget, together: u64) {
        let room = (self.memory / self.workers as u64).saturating_sub(budget.reading);
        if together == 1 {
            self.block_frames = (room.min(BLOCK_BYTES.max(budget.row)) / budget.row).clamp(1, self.leaf_frames);
        } else {
            // one block may serve several leaves
            let wanted = (BLOCK_BYTES / budget.row).max(2 * together);
            let tasks = match self.workers as u64 {
                1 => 1,
                workers => (span(&self.frames) / together / 8).clamp(workers, 16 * workers),
            };
            self.block_frames = (room / budget.row).clamp(1, wanted);
            self.task_leaves = self.n_leaves().div_ceil(tasks);
        }
        if self.block_frames < self.band {
            self.notes.push(format!(
                "chunks hold {} frames and are compressed; the memory limit has room for {}, so that each chunk is \
                 decoded about {} times; {:.1} MiB for each worker or `kinema repack` would end that",
                self.band,
                self.block_frames,
                self.band.div_ceil(self.block_frames),
                (self.band * budget.row + budget.reading) as f64 / (1 << 20) as f64,
            ));
        }
    }

    /// Number of leaves.
    pub fn n_leaves(&self) -> u64 {
        self.frames.len().div_ceil(self.leaf_frames)
    }

    /// The selected frames of a leaf, as positions in the selection.
    pub fn leaf(&self, leaf: u64) -> Range<u64> {
        let start = leaf * self.leaf_frames;
        start..(start + self.leaf_frames).min(self.frames.len())
    }

    /// What cuts between leaves cost.
    ///
    /// # Errors
    /// `Internal` where the trajectory has not been scanned.
    pub fn cuts(&self, trajectory: &Trajectory) -> Result<Cuts> {
        let scanned = trajectory.scanned().ok_or_else(not_scanned)?;
        Ok(Cuts::of(scanned, &self.frames, self.fields, self.leaf_frames))
    }

    /// Whether the workers' tasks had best end where chunks or files do; else each is of `task_leaves`.
    pub(crate) fn cuts_matter(&self) -> bool {
        self.workers > 1 && self.access == Access::Direct && (self.band > 1 || self.task_leaves > 1)
    }

    /// Leaves as the workers take them, where cuts matter.
    pub(crate) fn tasks(&self, cuts: &Cuts, leaves: &[Range<u64>]) -> Vec<Range<u64>> {
        cuts.pieces(leaves, self.task_leaves, self.workers as u64)
    }

    /// The plan in words; `decoded_twice`: what the hand-out of a runner with workers of other kinds decodes twice.
    pub fn explain(&self, decoded_twice: Option<u64>) -> String {
        let mut text = format!(
            "{}: {} of {} atoms ({}){}, {} frames in {} leaves of {}, blocks of {} frames, {} worker{}, \
             at most {:.1} MiB of working memory",
            self.kernels.join(", "),
            self.atoms.len(),
            self.atoms.n_atoms(),
            self.fields.names().join(", "),
            self.access.in_words(),
            self.frames.len(),
            self.n_leaves(),
            self.leaf_frames,
            self.block_frames,
            self.workers,
            if self.workers == 1 { "" } else { "s" },
            self.memory as f64 / (1 << 20) as f64,
        );
        // writing to a String cannot fail
        for note in &self.notes {
            let _ = write!(text, "\nnote: {note}");
        }
        let twice = decoded_twice.unwrap_or(self.decoded_twice);
        if twice > 0 && self.band > 1 {
            let _ = write!(
                text,
                "\nnote: compressed chunks of {} frames lie across the leaves at which work is divided; those are \
                 decoded twice, frames {:.2} times on average",
                self.band,
                1.0 + twice as f64 / self.frames.len() as f64,
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
        let n_frames = scanned.joined.n_frames;
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("no frames selected; the trajectory has {n_frames} frames"),
        ));
    }
    if jobs.is_empty() {
        return Err(Error::new(ErrorKind::InvalidArgument, "no analysis given"));
    }
    frames.check(scanned.joined.n_frames)?;
    let needs: Vec<Needs> = jobs.iter().flat_map(Job::needs).collect();
    let sets = needs.iter().flat_map(|needs| &needs.atom_sets);
    if let Some(other) = sets.clone().find(|set| set.n_atoms() != trajectory.n_atoms()) {
        let what = "the selection is of another number of atoms than the trajectory";
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("{what}, expected {}, found {}", trajectory.n_atoms(), other.n_atoms()),
        ));
    }
    let fields = needs.iter().fold(Fields::NONE, |all, needs| all | needs.fields);
    Ok((AtomSelection::union(trajectory.n_atoms(), sets), fields))
}

/// The largest frame of the parts, and how their frames hang together.
pub(crate) fn trajectory_grain(scanned: &Scanned, fields: Fields) -> (u64, Grain) {
    let parts = || scanned.joined.pieces.iter().map(|piece| &scanned.parts[piece.part]);
    let grain = parts().fold(Grain::FRAME, |all, part| all.and(part.decoder.grain(fields)));
    let largest = parts().map(|part| part.index.largest()).max().unwrap_or(0);
    (largest.max(grain.working), grain)
}

/// What one worker needs.
struct Budget {
    /// Bytes of one decoded frame, copies for transforms included.
    row: u64,
    /// Bytes of the buffers that encoded frames are read into.
    reading: u64,
}

impl Budget {
    fn workers(&self, memory: u64, wanted: usize) -> Result<usize> {
        let each = self.row + self.reading;
        match memory / each {
            0 => Err(Error::new(
                ErrorKind::MemoryLimit,
                format!(
                    "the memory limit is too small for one frame of this selection, expected at least {each} bytes, \
                     found {memory}"
                ),
            )),
            fit => Ok(wanted.min(fit.try_into().unwrap_or(usize::MAX))),
        }
    }
}

/// Bytes of one decoded frame in a block.
pub(crate) fn row_bytes(n_selected: usize, fields: Fields) -> u64 {
    let vectors = [Fields::POSITIONS, Fields::VELOCITIES, Fields::FORCES];
    let n = vectors.into_iter().filter(|&field| fields.contains(field)).count() as u64;
    // cell, step, time, frame number
    n * 12 * n_selected as u64 + 36 + 3 * 8
}

/// Frames of a leaf: a power of two that depends on the selection only, so that results do not depend on the machine.
fn leaf_length(row: u64, n_frames: u64) -> u64 {
    let by_size = (LEAF_BYTES / row.max(1)).clamp(4, MAX_LEAF_FRAMES);
    let by_count = n_frames.div_ceil(WANTED_LEAVES).max(1);
    let power_below = |n: u64| 1 << n.ilog2();
    power_below(by_size).min(by_count.next_power_of_two())
}
