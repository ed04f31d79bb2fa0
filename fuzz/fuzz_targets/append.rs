//! Arbitrary bytes as a file that is extended: its frames stay, and one more frame is read after them.
#![no_main]

use kinema_fuzz::append;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| append::go_on(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if size < 2 || seed % 16 == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let format = append::format_of(data);
    1 + kinema_fuzz::mutate::change(Some(format), &mut data[1..], size - 1, max_size - 1, seed, fuzzer_mutate)
});
