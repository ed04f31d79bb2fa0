//! Arbitrary bytes as a TRR file: its records are encoded again as they are.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| kinema_fuzz::records::recode(&kinema_core::format::trr::Trr, data));
