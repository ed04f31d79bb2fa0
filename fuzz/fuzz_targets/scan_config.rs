//! Arbitrary bytes as a DL_POLY CONFIG file: every way to scan them finds the same frames.
#![no_main]

use kinema_core::format::dlpoly;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| kinema_fuzz::files::scan(&dlpoly::Config, data));
