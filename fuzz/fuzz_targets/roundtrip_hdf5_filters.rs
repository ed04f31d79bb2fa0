//! Arbitrary bytes as a chunk of HDF5: what any filters encode is decoded to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| kinema_fuzz::hdf5_filters::round_trip(data));
