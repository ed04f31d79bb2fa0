//! Analysis kernels, one file a quantity.

pub mod average;
pub mod moment_kernel;
pub mod rgyr;
pub mod rmsd;
pub mod rmsf;
