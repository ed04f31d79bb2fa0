//! Arbitrary bytes as a DCD file: every way to scan them finds the same frames.
#![no_main]

use kinema_core::format::dcd;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| kinema_fuzz::files::scan(&dcd::Dcd, data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    kinema_fuzz::mutate::change(Some(&dcd::Dcd), data, size, max_size, seed, fuzzer_mutate)
});
