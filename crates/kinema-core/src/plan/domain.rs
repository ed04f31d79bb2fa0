//! Domains: the items that a run is divided over, in a fixed order that is cut into leaves.
//!
//! Work is divided, merged and saved by the numbers of leaves alone ([`super::Partition`],
//! [`crate::reduce::MergeTree`], checkpoints). Only the plan, and the pipeline that reads the items, know what an item
//! is.

use std::ops::Range;

use crate::selection::FrameSelection;

/// Items in a fixed order; every leaf but the last is a run of the same number of them.
pub trait Domain {
    /// Name of the items, in the plural: a checkpoint of one domain does not fit another.
    const ITEMS: &'static str;

    /// Number of items.
    fn len(&self) -> u64;

    /// Items of every leaf but the last.
    fn leaf_len(&self) -> u64;

    /// Whether there are no items.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of leaves.
    fn n_leaves(&self) -> u64 {
        self.len().div_ceil(self.leaf_len())
    }

    /// The items of a leaf, as positions in their order.
    fn leaf(&self, leaf: u64) -> Range<u64> {
        let start = leaf * self.leaf_len();
        start..(start + self.leaf_len()).min(self.len())
    }
}

/// The selected frames.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameDomain {
    /// The frames, in the order of the results.
    pub frames: FrameSelection,
    /// Frames of every leaf but the last: the longest leaf length of all kernels.
    pub leaf_frames: u64,
}

impl Domain for FrameDomain {
    const ITEMS: &'static str = "frames";

    fn len(&self) -> u64 {
        self.frames.len()
    }

    fn leaf_len(&self) -> u64 {
        self.leaf_frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A domain of another kind, as `n` atoms are.
    struct Atoms(u64);

    impl Domain for Atoms {
        const ITEMS: &'static str = "atoms";

        fn len(&self) -> u64 {
            self.0
        }

        fn leaf_len(&self) -> u64 {
            4
        }
    }

    fn covered(domain: &impl Domain) -> Vec<u64> {
        (0..domain.n_leaves()).flat_map(|leaf| domain.leaf(leaf)).collect()
    }

    #[test]
    fn leaves_cover_every_item_once_in_order() {
        for n in 1..30 {
            assert_eq!(covered(&Atoms(n)), (0..n).collect::<Vec<_>>(), "{n}");
            for leaf_frames in [1, 2, 8] {
                let frames = FrameSelection::Stride { start: 5, step: 3, count: n };
                let domain = FrameDomain { frames, leaf_frames };
                assert_eq!(covered(&domain), (0..n).collect::<Vec<_>>(), "{n} {leaf_frames}");
                assert!((0..domain.n_leaves() - 1).all(|leaf| domain.leaf(leaf).count() as u64 == leaf_frames));
            }
        }
        assert!(Atoms(0).is_empty() && Atoms(0).n_leaves() == 0);
    }
}
