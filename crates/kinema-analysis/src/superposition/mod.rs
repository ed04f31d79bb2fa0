//! Superposition of a structure on a reference (QCP).

mod atoms_and_reference;
mod four_pairs;
mod key_matrix;
pub(crate) mod many;
pub mod qcp;
pub(crate) mod steps;

pub use self::atoms_and_reference::AtomsAndReference;
pub(crate) use self::key_matrix::IDENTITY;
pub use self::key_matrix::Matrix3;
