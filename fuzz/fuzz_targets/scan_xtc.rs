//! Arbitrary bytes as a XTC file: every way to scan them finds the same frames.
#![no_main]

use kinema_core::format::xtc;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| kinema_fuzz::files::scan(&xtc::Xtc, data));
