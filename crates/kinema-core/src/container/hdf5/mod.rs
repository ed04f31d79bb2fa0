//! HDF5 data sets: chunk addresses, filters and number types.
//!
//! Structure (groups, attributes, B-trees) is left to libhdf5, which Python calls.

pub mod array;
pub mod encode;
pub mod filters;
pub mod number;
