//! Arbitrary bytes as a TRR file: its records are encoded again as they are, and so are its values.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    kinema_fuzz::records::recode(&kinema_core::format::trr::Trr, data);
    kinema_fuzz::records::reencode(&kinema_core::format::trr::Trr, data);
});
