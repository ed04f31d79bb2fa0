//! Arbitrary bytes as what a catalogue keeps of a file: refused, or frames that the decoder takes or refuses.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| kinema_fuzz::snapshot::restore(data));
