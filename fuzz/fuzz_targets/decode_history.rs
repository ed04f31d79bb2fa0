//! Arbitrary bytes as a DL_POLY HISTORY file: what decodes is the same for all atoms and for some.
#![no_main]

use kinema_core::format::dlpoly;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| kinema_fuzz::files::decode(&dlpoly::History, data));
