//! Replays the corpora of the fuzz targets, and every finding, on the stable toolchain.
//!
//! It searches nothing: `fuzz/run.sh` does.

#[path = "../../../fuzz/src/append.rs"]
mod append;
#[path = "../../../fuzz/src/hdf5_chunks.rs"]
mod hdf5_chunks;
#[path = "../../../fuzz/src/hdf5_filters.rs"]
mod hdf5_filters;
#[path = "../../../fuzz/src/records.rs"]
mod records;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../fuzz/src/snapshot.rs"]
mod snapshot;
#[path = "../../../fuzz/src/stored_index.rs"]
mod stored_index;
#[path = "../../../fuzz/src/text_numbers.rs"]
mod text_numbers;
#[path = "../../../fuzz/src/xtc_frames.rs"]
mod xtc_frames;

use crate::files;
use kinema_core::format::{dcd, dlpoly, g96, netcdf, trr, xtc};

/// A test for each target: its name, and the function that takes an input.
macro_rules! replayed {
    ($($target:ident: $take:expr;)*) => {$(
        #[test]
        fn $target() {
            replay::inputs(stringify!($target), $take);
        }
    )*};
}

replayed! {
    scan_xtc: |data| files::scan(&xtc::Xtc, data);
    scan_dcd: |data| files::scan(&dcd::Dcd, data);
    decode_xtc: |data| files::decode(&xtc::Xtc, data);
    decode_dcd: |data| files::decode(&dcd::Dcd, data);
    load_index: stored_index::load;
    decode_hdf5_chunks: hdf5_chunks::decode;
    decode_hdf5_filters: hdf5_filters::decode;
    roundtrip_hdf5_filters: hdf5_filters::round_trip;
    roundtrip_xtc: |data| { xtc_frames::round_trip(data); records::recode(&xtc::Xtc, data) };
    scan_trr: |data| files::scan(&trr::Trr, data);
    decode_trr: |data| files::decode(&trr::Trr, data);
    roundtrip_trr: |data| { records::recode(&trr::Trr, data); records::reencode(&trr::Trr, data) };
    scan_g96: |data| files::scan(&g96::G96, data);
    decode_g96: |data| files::decode(&g96::G96, data);
    roundtrip_g96: |data| records::reencode(&g96::G96, data);
    scan_netcdf: |data| files::scan(&netcdf::Netcdf, data);
    decode_netcdf: |data| files::decode(&netcdf::Netcdf, data);
    roundtrip_dcd: |data| records::reencode(&dcd::Dcd, data);
    roundtrip_netcdf: |data| records::reencode(&netcdf::Netcdf, data);
    scan_history: |data| files::scan(&dlpoly::History, data);
    decode_history: |data| files::decode(&dlpoly::History, data);
    text_numbers: text_numbers::read_and_write;
    roundtrip_history: |data| records::reencode(&dlpoly::History, data);
    scan_config: |data| files::scan(&dlpoly::Config, data);
    decode_config: |data| files::decode(&dlpoly::Config, data);
    roundtrip_config: |data| records::reencode(&dlpoly::Config, data);
    append: append::go_on;
    snapshot: snapshot::restore;
}
