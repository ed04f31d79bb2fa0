//! Geometry of periodic systems: lattices.

mod lattice;

pub use lattice::{Lattice, REACH};
