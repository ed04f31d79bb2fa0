//! Arbitrary bytes as the stored index of arbitrary bytes: used only where the index fits.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| kinema_fuzz::stored_index::load(data));
