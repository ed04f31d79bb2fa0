//! Analysis kernels of Kinema: one file a quantity, no input or output.
//!
//! Each kernel states its formula, units and source; none knows a path, a thread or a Python object.

pub mod average;
mod blocks;
mod bytes;
pub mod cpu;
mod key_matrix;
mod lanes;
#[doc(hidden)]
pub mod laws;
pub mod moment_kernel;
mod moments;
pub mod qcp;
pub mod rgyr;
pub mod rmsd;
pub mod rmsf;
mod series;
pub mod superpose;
mod weights;

pub use average::Average;
pub use cpu::Cpu;
pub use key_matrix::Matrix3;
pub use moments::{Moments, Order};
pub use rgyr::Rgyr;
pub use rmsd::{AtomsAndReference, Fit, Rmsd};
pub use rmsf::Rmsf;
pub use series::Series;
pub use superpose::Superpose;

/// The how-to page, so that its code is compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/add-a-kernel.md")]
pub struct AddAKernel;
