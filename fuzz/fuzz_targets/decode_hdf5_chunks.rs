//! Arbitrary bytes as the chunk map of an HDF5 data set and the file that it points into: refused, or frames.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| kinema_fuzz::hdf5_chunks::decode(data));
