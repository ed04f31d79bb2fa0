//! Arbitrary bytes as client values and a stored chunk of HDF5: refused, or a chunk of the right size.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| kinema_fuzz::hdf5_filters::decode(data));
