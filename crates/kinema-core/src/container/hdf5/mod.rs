//! Bytes of HDF5 data sets: where chunks lie, what filters make of them, which numbers they hold.
//!
//! Structure (groups, attributes, B-trees) is left to libhdf5, which Python calls; no MD words here.

pub mod array;
pub mod encode;
pub mod filters;
pub mod number;
