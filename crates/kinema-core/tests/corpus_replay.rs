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

#[test]
fn scan_xtc() {
    replay::inputs("scan_xtc", |data| files::scan(&xtc::Xtc, data));
}

#[test]
fn scan_dcd() {
    replay::inputs("scan_dcd", |data| files::scan(&dcd::Dcd, data));
}

#[test]
fn decode_xtc() {
    replay::inputs("decode_xtc", |data| files::decode(&xtc::Xtc, data));
}

#[test]
fn decode_dcd() {
    replay::inputs("decode_dcd", |data| files::decode(&dcd::Dcd, data));
}

#[test]
fn load_index() {
    replay::inputs("load_index", stored_index::load);
}

#[test]
fn decode_hdf5_chunks() {
    replay::inputs("decode_hdf5_chunks", hdf5_chunks::decode);
}

#[test]
fn decode_hdf5_filters() {
    replay::inputs("decode_hdf5_filters", hdf5_filters::decode);
}

#[test]
fn roundtrip_hdf5_filters() {
    replay::inputs("roundtrip_hdf5_filters", hdf5_filters::round_trip);
}

#[test]
fn roundtrip_xtc() {
    replay::inputs("roundtrip_xtc", |data| {
        xtc_frames::round_trip(data);
        records::recode(&xtc::Xtc, data);
    });
}

#[test]
fn scan_trr() {
    replay::inputs("scan_trr", |data| files::scan(&trr::Trr, data));
}

#[test]
fn decode_trr() {
    replay::inputs("decode_trr", |data| files::decode(&trr::Trr, data));
}

#[test]
fn roundtrip_trr() {
    replay::inputs("roundtrip_trr", |data| {
        records::recode(&trr::Trr, data);
        records::reencode(&trr::Trr, data);
    });
}

#[test]
fn scan_g96() {
    replay::inputs("scan_g96", |data| files::scan(&g96::G96, data));
}

#[test]
fn decode_g96() {
    replay::inputs("decode_g96", |data| files::decode(&g96::G96, data));
}

#[test]
fn roundtrip_g96() {
    replay::inputs("roundtrip_g96", |data| records::reencode(&g96::G96, data));
}

#[test]
fn scan_netcdf() {
    replay::inputs("scan_netcdf", |data| files::scan(&netcdf::Netcdf, data));
}

#[test]
fn decode_netcdf() {
    replay::inputs("decode_netcdf", |data| files::decode(&netcdf::Netcdf, data));
}

#[test]
fn roundtrip_dcd() {
    replay::inputs("roundtrip_dcd", |data| records::reencode(&dcd::Dcd, data));
}

#[test]
fn roundtrip_netcdf() {
    replay::inputs("roundtrip_netcdf", |data| records::reencode(&netcdf::Netcdf, data));
}

#[test]
fn scan_history() {
    replay::inputs("scan_history", |data| files::scan(&dlpoly::History, data));
}

#[test]
fn decode_history() {
    replay::inputs("decode_history", |data| files::decode(&dlpoly::History, data));
}

#[test]
fn text_numbers() {
    replay::inputs("text_numbers", text_numbers::read_and_write);
}

#[test]
fn roundtrip_history() {
    replay::inputs("roundtrip_history", |data| records::reencode(&dlpoly::History, data));
}

#[test]
fn scan_config() {
    replay::inputs("scan_config", |data| files::scan(&dlpoly::Config, data));
}

#[test]
fn decode_config() {
    replay::inputs("decode_config", |data| files::decode(&dlpoly::Config, data));
}

#[test]
fn roundtrip_config() {
    replay::inputs("roundtrip_config", |data| records::reencode(&dlpoly::Config, data));
}

#[test]
fn append() {
    replay::inputs("append", append::go_on);
}

#[test]
fn snapshot() {
    replay::inputs("snapshot", snapshot::restore);
}
