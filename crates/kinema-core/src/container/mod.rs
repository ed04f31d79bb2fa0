//! Containers: the framing of bytes in files (XDR, Fortran records, text, NetCDF classic, HDF5 chunks), independent of molecular dynamics.

pub mod fortran;
pub mod hdf5;
pub mod netcdf3;
pub mod text;
pub mod xdr;
pub mod zstandard;
