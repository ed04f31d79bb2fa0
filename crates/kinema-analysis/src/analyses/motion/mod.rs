//! Motion of atoms and molecules from frame to frame, for transforms that need a first pass.

pub mod displacements;
pub mod jumps;
pub mod rotations;
mod stations;
mod step_sums;
