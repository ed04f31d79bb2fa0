//! Access modes: frames in blocks, one by one, or all frames of a task loaded before the first is computed.
//!
//! Sizes and memory only; nothing is read here. Results are the same to the bit in every mode.

use crate::error::{Error, ErrorKind, Result};
use crate::named::Named;
use crate::selection::AtomSelection;

/// How frames are read for the kernels.
///
/// All modes except `Direct` are those that the publications on parallel MDAnalysis compare: Jakupovic and Beckstein,
/// Proc. SciPy (2021), doi 10.25080/majora-1b6fd038-005.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// As many frames at a time as memory and cache allow, and only their needed atoms.
    #[default]
    Direct,
    /// One frame at a time with all of its atoms; the needed atoms are then gathered.
    Frame,
    /// One frame at a time; only the needed atoms are read if the format allows that.
    Subset,
    /// All frames of a piece with all of their atoms, before the first of them is computed.
    InMemory {
        /// Number of pieces in which all leaves are loaded; 0: one for each worker.
        pieces: u64,
    },
}

impl Named for Access {
    const OPTION: &'static str = "access";
    const ALL: &'static [(&'static str, Self)] = &[
        ("direct", Self::Direct),
        ("frame", Self::Frame),
        ("subset", Self::Subset),
        ("in-memory", Self::InMemory { pieces: 0 }),
    ];
}

impl Access {
    /// The atoms that are decoded where these are needed.
    pub(super) fn atoms(self, needed: &AtomSelection) -> AtomSelection {
        match self {
            Self::Direct | Self::Subset => needed.clone(),
            Self::Frame | Self::InMemory { .. } => AtomSelection::all(needed.n_atoms()),
        }
    }

    /// For [`super::Plan::explain`]; empty for the default.
    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Direct => "",
            Self::Frame => ", read frame by frame with all atoms (access \"frame\")",
            Self::Subset => ", read frame by frame (access \"subset\")",
            Self::InMemory { .. } => ", loaded with all atoms before it is computed (access \"in-memory\")",
        }
    }
}

/// Size of a piece that `Access::InMemory` loads at a time.
pub(super) struct Load {
    /// Leaves of a piece.
    pub leaves: u64,
    /// Frames of a piece.
    pub frames: u64,
}

/// Bytes that one worker needs besides the loaded frames, and bytes of a loaded frame.
pub(super) struct LoadCost {
    /// Bytes of a frame as it is loaded.
    pub row: u64,
    /// Bytes of the needed atoms of a leaf, gathered and transformed.
    pub leaf: u64,
    /// Bytes of the buffers that encoded frames are read into, and of partials.
    pub beside: u64,
    /// Bytes of all workers together.
    pub shared: u64,
}

impl Load {
    /// The piece of a worker when all leaves are loaded in `pieces` pieces.
    pub(super) fn new(pieces: u64, workers: usize, n_leaves: u64, leaf_frames: u64, n_frames: u64) -> Self {
        let pieces = if pieces == 0 { workers as u64 } else { pieces };
        let leaves = n_leaves.div_ceil(pieces.max(1));
        Self { leaves, frames: leaves.saturating_mul(leaf_frames).min(n_frames) }
    }

    /// Checks that the pieces of all workers fit into the memory limit.
    /// Errors: `MemoryLimit`, with the memory that is needed.
    pub(super) fn check(&self, cost: &LoadCost, workers: usize, memory: u64, n_atoms: u32) -> Result<()> {
        let each = self.frames.saturating_mul(cost.row).saturating_add(cost.leaf + cost.beside);
        let needed = each.saturating_mul(workers as u64).saturating_add(cost.shared);
        if needed <= memory {
            return Ok(());
        }
        let mebibytes = needed.div_ceil(1 << 20);
        Err(Error::new(
            ErrorKind::MemoryLimit,
            format!(
                "access \"in-memory\" holds {} frames of {n_atoms} atoms for each of {workers} worker{}, expected a \
                 memory limit of at least {needed} bytes ({mebibytes} MiB), found {memory}; raise it, choose \
                 fewer frames, have processes or ranks load several pieces (oversubscribe), or use access \"subset\"",
                self.frames,
                if workers == 1 { "" } else { "s" },
            ),
        ))
    }
}
