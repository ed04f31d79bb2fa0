//! Bodies of the fuzz targets; the replay tests of the crates include the same files.
//!
//! A body returns nothing: a broken law panics, and the panic is the finding.

pub mod append;
pub mod files;
pub mod hdf5_chunks;
pub mod hdf5_filters;
pub mod mutate;
pub mod partials;
pub mod peers;
pub mod records;
pub mod snapshot;
pub mod stored_index;
pub mod text_numbers;
pub mod xtc_frames;
