//! Analysis kernels, one file a quantity; `registry.rs` lists them.

pub mod average;
pub mod close_pairs;
pub mod distance_histogram;
pub mod lists_per_frame;
mod moment_kernel;
mod pair_distances;
pub mod per_frame;
pub mod rgyr;
pub mod rmsd;
pub mod rmsf;
