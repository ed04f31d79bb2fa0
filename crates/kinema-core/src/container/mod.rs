//! How bytes are framed: no word of molecular dynamics in here.

pub mod fortran;
pub mod hdf5;
pub mod xdr;
