//! The partial of one kernel over a leaf of the plan, which may hold several leaves of that kernel.

use std::ops::Range;

use super::{AnyKernel, AnyPartial};
use crate::error::Result;
use crate::frame::BlockView;

/// Partial of a kernel for one leaf of the plan. The kernel's own leaves in it are merged in the order of the merge
/// tree, so that the bits are those of a plan whose leaves are the kernel's.
#[derive(Default)]
pub(crate) struct LeafPartial {
    /// Partial of the leaf that is being accumulated.
    current: Option<AnyPartial>,
    /// Merged leaves before it: complete subtrees, the largest first, each with the number of its leaves.
    subtrees: Vec<(u64, AnyPartial)>,
}

impl LeafPartial {
    /// Adds the rows of a block. `before` is the number of earlier frames in the plan's leaf; the kernel's leaves have
    /// `leaf_frames` frames. `empty` makes the partial of one of these, given its frames in the plan's leaf.
    /// Errors of `accumulate` and [`AnyKernel::merge`].
    pub(crate) fn accumulate(
        &mut self,
        kernel: &dyn AnyKernel,
        block: &BlockView<'_>,
        before: usize,
        leaf_frames: usize,
        empty: impl Fn(Range<usize>) -> AnyPartial,
        mut accumulate: impl FnMut(&mut AnyPartial, &BlockView<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut row = 0;
        while row < block.rows() {
            let left = leaf_frames - (before + row) % leaf_frames;
            let until = block.rows().min(row + left);
            let end = before + row + left;
            let partial = self.current.get_or_insert_with(|| empty(end - leaf_frames..end));
            accumulate(partial, &block.rows_in(row..until))?;
            if until - row == left {
                self.end_leaf(kernel)?;
            }
            row = until;
        }
        Ok(())
    }

    /// Ends a leaf and merges subtrees of one size.
    fn end_leaf(&mut self, kernel: &dyn AnyKernel) -> Result<()> {
        let Some(mut partial) = self.current.take() else { return Ok(()) };
        let mut leaves = 1;
        while let Some((_, mut left)) = self.subtrees.pop_if(|(size, _)| *size == leaves) {
            kernel.merge(&mut left, partial)?;
            partial = left;
            leaves *= 2;
        }
        self.subtrees.push((leaves, partial));
        Ok(())
    }

    /// The merged partial, at the end of the plan's leaf; the last one of a plan may have fewer frames.
    /// Errors of [`AnyKernel::merge`].
    pub(crate) fn finish(mut self, kernel: &dyn AnyKernel) -> Result<AnyPartial> {
        let last = self.current.take().or_else(|| self.subtrees.pop().map(|(_, partial)| partial));
        let mut merged = last.unwrap_or_else(|| kernel.empty());
        while let Some((_, mut left)) = self.subtrees.pop() {
            kernel.merge(&mut left, merged)?;
            merged = left;
        }
        Ok(merged)
    }
}
