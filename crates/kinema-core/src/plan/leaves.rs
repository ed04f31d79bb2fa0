//! Leaves: the runs of selected frames whose partials are merged on the fixed tree.
//!
//! Their length decides the bits of results. It depends on the number of selected frames and, for a kernel with a large
//! partial, on that kernel: never on the machine, the workers, or the other kernels of the run.

use super::row_bytes;
use crate::reduce::AnyKernel;
use crate::selection::AtomSelection;

/// Most frames of a leaf.
const MAX_FRAMES: u64 = 256;
/// Least number of leaves of a long selection: from 30,000 frames on, each of 400 workers gets eight or more.
const WANTED: u64 = 4096;
/// Frames of a leaf from which on more leaves are better than longer ones.
const LEAST_FRAMES: u64 = 8;
/// A selection too short for leaves of [`LEAST_FRAMES`] has about this many.
const WANTED_OF_FEW: u64 = 256;
/// Least number of leaves for a kernel with a large partial, if the selection has as many frames.
const FEWEST: u64 = 16;
/// Least ratio of the bytes of a leaf's frames to the bytes of its partial, so that merging costs little in comparison.
const FRAMES_PER_PARTIAL: u64 = 8;

/// Frames of a leaf: a power of two that depends on the number of selected frames alone.
pub fn leaf_frames(n_frames: u64) -> u64 {
    let long = (n_frames / WANTED).max(1).ilog2();
    let short = n_frames.div_ceil(WANTED_OF_FEW).max(1).next_power_of_two();
    (1 << long).clamp(short.min(LEAST_FRAMES), MAX_FRAMES)
}

/// Frames of a leaf of one kernel: [`leaf_frames`], times a power of two if the kernel's partial is large compared with
/// these frames and is not summed up beside the tree.
pub(super) fn kernel_leaf_frames(n_frames: u64, kernel: &dyn AnyKernel) -> u64 {
    let leaf = leaf_frames(n_frames);
    if kernel.is_exact() {
        return leaf;
    }
    let needs = kernel.needs();
    let n_atoms = needs.atom_sets.first().map_or(0, AtomSelection::n_atoms);
    let atoms = AtomSelection::union(n_atoms, &needs.atom_sets).len();
    let wanted = FRAMES_PER_PARTIAL.saturating_mul(kernel.partial_bytes()).div_ceil(row_bytes(atoms, needs.fields));
    // a few workers have work in any case
    let most = 1 << (n_frames / FEWEST).max(1).ilog2();
    wanted.next_power_of_two().clamp(leaf, leaf.max(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_many_enough_for_many_workers_and_long_enough_for_few() {
        for (n_frames, expected) in
            [(0, 1), (1, 1), (98, 1), (256, 1), (257, 2), (1000, 4), (1025, 8), (30_000, 8), (33_000, 8), (100_000, 16)]
        {
            assert_eq!(leaf_frames(n_frames), expected, "{n_frames}");
        }
        assert_eq!(leaf_frames(1 << 20), 256);
        assert_eq!(leaf_frames(u64::MAX), 256);
        for n_frames in (30_000_u64..4_000_000).step_by(997) {
            assert!(n_frames.div_ceil(leaf_frames(n_frames)) >= 8 * 400, "{n_frames}");
        }
    }
}
