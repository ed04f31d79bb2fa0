//! Arbitrary bytes as what a peer says to a server, and to a client.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| kinema_fuzz::peers::speak(data));
