//! Arbitrary bytes as client values and a stored chunk of HDF5: refused, or a chunk of the right size.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| kinema_fuzz::hdf5_filters::decode(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    kinema_fuzz::mutate::change_chunk(data, size, max_size, seed, fuzzer_mutate)
});
