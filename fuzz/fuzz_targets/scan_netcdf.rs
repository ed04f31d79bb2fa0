//! Arbitrary bytes as a NetCDF file: every way to scan them finds the same frames.
#![no_main]

use kinema_core::format::netcdf;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| kinema_fuzz::files::scan(&netcdf::Netcdf, data));
