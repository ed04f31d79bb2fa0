//! The bytes of HDF5 data sets, without libhdf5: chunks and their filters.
//!
//! It does not read the structure of a file (groups, attributes, chunk indices): h5py does.

pub mod encode;
pub mod filters;
