//! Arbitrary bytes as a NetCDF file: what is read of it, and written again, is read with the same values.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| kinema_fuzz::records::reencode(&kinema_core::format::netcdf::Netcdf, data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    kinema_fuzz::mutate::change(Some(&kinema_core::format::netcdf::Netcdf), data, size, max_size, seed, fuzzer_mutate)
});
