//! Transforms that make one position of each group of atoms. The last transform of a stack may be one; frames then have
//! one position for each group.
//!
//! Implementations define that position; they live in `kinema-analysis`.

use crate::error::Result;
use crate::frame::Fields;
use crate::selection::AtomSelection;

/// Groups of atoms. Readers select among groups as among atoms.
pub trait Grouping: Send + Sync {
    /// Number of groups.
    fn n_groups(&self) -> u32;

    /// All atoms of some groups.
    ///
    /// # Errors
    /// `InvalidArgument` for a selection from a different number of groups.
    fn members(&self, groups: &AtomSelection) -> Result<AtomSelection>;

    /// Binds to rows of `atoms`, from which rows of `groups` are computed.
    ///
    /// # Errors
    /// `InvalidArgument` if atoms of the groups are missing.
    fn bind(&self, groups: &AtomSelection, atoms: &AtomSelection) -> Result<Box<dyn GroupRows>>;
}

/// Groups made ready for the rows of one worker.
pub trait GroupRows: Send {
    /// Computes the vectors of the groups, groups x 3, from the atoms' vectors, which the frame has.
    ///
    /// # Errors
    /// `Corrupt` for positions that are not finite; frame and file are added.
    fn make(&mut self, field: Fields, row: &[f32], groups: &mut [f32]) -> Result<()>;
}
