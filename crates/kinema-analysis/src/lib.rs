//! Analysis kernels of Kinema: one file a quantity, no input or output.
//!
//! Each kernel states its formula, units and source; none knows a path, a thread or a Python object.

pub mod cpu;
mod key_matrix;
mod lanes;
pub mod qcp;
mod weights;

pub use cpu::Cpu;
pub use key_matrix::Matrix3;
