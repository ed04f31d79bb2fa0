//! Arbitrary bytes as zlib streams: decoded together they are what they are one at a time.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| kinema_fuzz::inflate_twins::decode(data));
