//! Arbitrary bytes as a G96 file: every way to scan them finds the same frames.
#![no_main]

use kinema_core::format::g96;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| kinema_fuzz::files::scan(&g96::G96, data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    kinema_fuzz::mutate::change(Some(&g96::G96), data, size, max_size, seed, fuzzer_mutate)
});
