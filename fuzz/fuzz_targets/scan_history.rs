//! Arbitrary bytes as a DL_POLY HISTORY file: every way to scan them finds the same frames.
#![no_main]

use kinema_core::format::dlpoly;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| kinema_fuzz::files::scan(&dlpoly::History, data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    kinema_fuzz::mutate::change(Some(&dlpoly::History), data, size, max_size, seed, fuzzer_mutate)
});
