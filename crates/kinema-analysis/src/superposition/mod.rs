//! Superposition of a structure on a reference (QCP).

mod atoms_and_reference;
mod key_matrix;
pub mod qcp;

pub use self::atoms_and_reference::AtomsAndReference;
pub use self::key_matrix::Matrix3;
