//! Arbitrary bytes as text of numbers, and as numbers that are written.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| kinema_fuzz::text_numbers::read_and_write(data));
