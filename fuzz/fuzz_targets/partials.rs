//! Arbitrary bytes as the partial of each kernel: refused, or the partial whose bytes they are.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| kinema_fuzz::partials::load(data));
