//! Groups of atoms that change with the frame: waters around a protein, atoms above a plane.
//!
//! A group is an expression over sets of atoms, such as `and(name OW, around 3.5 protein)`. Callers of any language give it
//! as nested lists (`expression.rs`): they know the names of atoms and residues, and this module knows numbers alone.
//! A kernel asks [`ChangingGroup`] for the atoms that it needs, and for the members in each frame.

mod cylinder;
mod either;
mod evaluation;
mod expression;
mod group;

pub use either::{AtomsFound, AtomsOfFrame, AtomsScratch};
pub use evaluation::GroupScratch;
pub use group::ChangingGroup;
