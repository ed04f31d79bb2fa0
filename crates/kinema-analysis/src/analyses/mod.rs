//! Analysis kernels, one file a quantity; `registry.rs` lists them.

pub mod angles;
pub mod average;
pub mod centers;
pub mod close_pairs;
pub mod dihedrals;
pub mod displacements;
pub mod distance_histogram;
pub mod distances;
pub mod gyration;
pub mod jumps;
pub mod lists_per_frame;
mod moment_kernel;
mod of_tuples;
pub mod per_frame;
pub mod rgyr;
pub mod rmsd;
pub mod rmsf;
pub mod rotations;
mod stations;
mod step_sums;
