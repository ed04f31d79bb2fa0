//! Arbitrary bytes as a TRR file: its records are encoded again as they are, and so are its values.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| {
    kinema_fuzz::records::recode(&kinema_core::format::trr::Trr, data);
    kinema_fuzz::records::reencode(&kinema_core::format::trr::Trr, data);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    kinema_fuzz::mutate::change(Some(&kinema_core::format::trr::Trr), data, size, max_size, seed, fuzzer_mutate)
});
