//! Analysis kernels, one file a quantity; `registry.rs` lists them.

pub mod average;
mod moment_kernel;
pub mod per_frame;
pub mod rgyr;
pub mod rmsd;
pub mod rmsf;
