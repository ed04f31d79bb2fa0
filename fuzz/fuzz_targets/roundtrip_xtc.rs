//! Arbitrary bytes as coordinates or frames of XTC: integers that are encoded come back.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| kinema_fuzz::xtc_frames::round_trip(data));
