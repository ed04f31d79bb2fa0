//! Arbitrary bytes as a DL_POLY HISTORY file: what is read of it, and written again, is read with the same values.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| kinema_fuzz::records::reencode(&kinema_core::format::dlpoly::History, data));
