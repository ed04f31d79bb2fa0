//! A kernel on one worker, bound to the atoms of the worker's blocks.

use super::frames::{AtomSets, Workspace};
use super::{AnyKernel, AnyPartial, AnyScratch};
use crate::error::Result;
use crate::frame::BlockView;
use crate::selection::AtomSelection;

/// A kernel with its atom sets in the blocks of one worker, and with its working state.
pub struct BoundKernel<'a> {
    kernel: &'a dyn AnyKernel,
    sets: AtomSets,
    scratch: AnyScratch,
}

impl<'a> BoundKernel<'a> {
    /// Binds a kernel to blocks that hold `atoms`.
    ///
    /// # Errors
    /// `InvalidArgument` if these lack an atom that the kernel needs.
    pub fn new(kernel: &'a dyn AnyKernel, atoms: &AtomSelection) -> Result<Self> {
        Ok(Self { kernel, sets: AtomSets::new(kernel.needs(), atoms)?, scratch: kernel.scratch() })
    }

    /// The kernel.
    pub fn kernel(&self) -> &'a dyn AnyKernel {
        self.kernel
    }

    /// Adds the frames of a block to a partial, with the worker's `workspace`.
    ///
    /// # Errors
    /// Errors of [`AtomSets::visit`] and of the kernel.
    pub fn accumulate(&mut self, partial: &mut AnyPartial, block: &BlockView<'_>, workspace: &Workspace) -> Result<()> {
        let Self { kernel, sets, scratch } = self;
        sets.visit(block, workspace, |frames| kernel.accumulate(partial, frames, scratch))
    }
}
