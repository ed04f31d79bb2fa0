//! Working memory of a run: blocks, read buffers and partials in one sum, divided among the workers.

use super::{Job, trajectory_coupling};
use crate::error::{Error, ErrorKind, Result};
use crate::frame::Fields;
use crate::selection::AtomSelection;
use crate::trajectory::Scanned;

/// Working memory if none is stated.
pub const DEFAULT_MEMORY: u64 = 256 << 20;

/// Bytes that are read before they are decoded. They are still in the second-level cache then, and so many that the
/// cost of a call does not count (reading DCD from the page cache in calls of 1 MiB takes 0.7 of the time of 256 KiB).
pub(crate) const BATCH_BYTES: u64 = 1024 * 1024;

/// Decoded bytes of a block if memory allows: more would only leave the cache.
const BLOCK_BYTES: u64 = 1 << 20;

/// Least number of frames of a block if kernels have partials of constant size, which each block goes through once:
/// RMSF of 111,815 atoms from a DCD in memory takes 0.4 of the time of blocks of one frame.
const FRAMES_WITH_PARTIALS: u64 = 8;

/// Least ratio of the bytes of a block to those of partials that it goes through: the covariance of 2,565 coordinates
/// takes 0.8 of the time of blocks of [`BLOCK_BYTES`].
const PARTIALS_TO_BLOCK: u64 = 8;

/// Bytes that a run holds at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    /// For each worker: one decoded frame, copies for transforms included.
    pub row: u64,
    /// For each worker: the buffers that encoded frames are read into.
    pub reading: u64,
    /// For each worker: the partials that it accumulates and merges.
    pub partials: u64,
    /// For all workers together: partials that wait for their neighbours in the merge tree, and exact sums.
    pub tree: u64,
    /// Partials that each block goes through.
    through: u64,
}

impl Budget {
    /// Adds up the memory of these jobs: a decoded frame has `row` bytes, an encoded one at most `largest`.
    pub(super) fn new(
        jobs: &[Job],
        kernel_leaf_frames: &[u64],
        leaf_frames: u64,
        n_leaves: u64,
        row: u64,
        largest: u64,
    ) -> Self {
        let mut partials: u64 = 0;
        let mut one_of_each: u64 = 0;
        let mut sums: u64 = 0;
        for (job, &own) in jobs.iter().zip(kernel_leaf_frames) {
            let bytes = job.kernel.partial_bytes();
            if job.kernel.is_exact() {
                // that of the leaf that is accumulated, and the sum of all leaves
                partials = partials.saturating_add(job.kernel.leaf_bytes(leaf_frames));
                sums = sums.saturating_add(bytes);
                continue;
            }
            // the partial being accumulated, the two being merged, and one for each level within the leaf of the plan
            let levels = u64::from((leaf_frames / own.max(1)).max(1).ilog2());
            partials = partials.saturating_add(bytes.saturating_mul(3 + levels));
            one_of_each = one_of_each.saturating_add(bytes);
        }
        // at most one on each level, where leaves come in order
        let levels = u64::from(n_leaves.max(1).ilog2()) + 1;
        let tree = one_of_each.saturating_mul(levels).saturating_add(sums);
        Self { row, reading: 2 * largest.max(BATCH_BYTES), partials, tree, through: one_of_each }
    }

    /// Bytes of a worker besides its block.
    fn other_bytes(&self) -> u64 {
        self.reading.saturating_add(self.partials)
    }

    /// As many of the wanted workers as `memory` has room for.
    /// Errors: `MemoryLimit` with the smallest limit that would suffice.
    pub(super) fn workers(&self, memory: u64, wanted: usize) -> Result<usize> {
        let each = self.row.saturating_add(self.other_bytes());
        let fit = memory.saturating_sub(self.tree) / each;
        if fit > 0 {
            return Ok(wanted.min(fit.try_into().unwrap_or(usize::MAX)));
        }
        let partials = match self.tree {
            0 => "",
            _ => " and the partial results of the analyses",
        };
        Err(Error::new(
            ErrorKind::MemoryLimit,
            format!(
                "the memory limit is too small for one frame of this selection{partials}, expected at least {} bytes, \
                 found {memory}",
                each.saturating_add(self.tree)
            ),
        ))
    }

    /// Frames of a block if `memory` is shared by `workers` workers.
    pub(super) fn most_frames(&self, memory: u64, workers: usize) -> u64 {
        let room = memory.saturating_sub(self.tree) / workers.max(1) as u64;
        (room.saturating_sub(self.other_bytes()) / self.row).max(1)
    }

    /// Frames of a block that stay in the cache, or are so many that going through the partials costs less.
    pub(super) fn fast_frames(&self) -> u64 {
        let least = if self.tree > 0 { FRAMES_WITH_PARTIALS } else { 1 };
        (BLOCK_BYTES.max(self.through / PARTIALS_TO_BLOCK) / self.row).max(least)
    }

    /// Bytes that one worker uses with a block of `frames` frames.
    pub(super) fn worker_bytes(&self, frames: u64) -> u64 {
        frames.saturating_mul(self.row).saturating_add(self.other_bytes())
    }

    /// Bytes of the partials of `workers` workers and of the tree.
    pub(super) fn partial_bytes(&self, workers: usize) -> u64 {
        self.partials.saturating_mul(workers as u64).saturating_add(self.tree)
    }
}

/// Bytes of one decoded frame in a block.
pub(crate) fn row_bytes(n_selected: usize, fields: Fields) -> u64 {
    let vectors = [Fields::POSITIONS, Fields::VELOCITIES, Fields::FORCES];
    let n = vectors.into_iter().filter(|&field| fields.contains(field)).count() as u64;
    // cell, step, time, frame number
    n * 12 * n_selected as u64 + 36 + 3 * 8
}

/// Decoded bytes of the frames that a trajectory's transforms change together if the caller has no place for them.
const TRANSFORM_BYTES: u64 = 1 << 20;

/// How many frames that are: a few, but no fewer than are decoded as one.
pub(crate) fn transform_rows(scanned: &Scanned, atoms: &AtomSelection, fields: Fields) -> usize {
    let (_, coupling) = trajectory_coupling(scanned, fields);
    (TRANSFORM_BYTES / row_bytes(atoms.len(), fields)).max(coupling.frames).max(1) as usize
}

/// Bytes of `rooms` buffers for these rows.
pub(crate) fn transform_room(scanned: &Scanned, atoms: &AtomSelection, fields: Fields, rooms: u64) -> u64 {
    rooms * transform_rows(scanned, atoms, fields) as u64 * row_bytes(atoms.len(), fields)
}
