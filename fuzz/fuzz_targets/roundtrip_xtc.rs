//! Arbitrary bytes as coordinates or frames of XTC: integers that are encoded come back, and records are copied.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    kinema_fuzz::xtc_frames::round_trip(data);
    kinema_fuzz::records::recode(&kinema_core::format::xtc::Xtc, data);
});
