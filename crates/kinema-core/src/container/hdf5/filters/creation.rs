//! The filters that Kinema writes with, by name.
//!
//! It does not encode: the values are what the data set's filter message must say, and what `Pipeline` encodes by.

use super::StoredFilter;
use crate::{Error, ErrorKind, Result};

/// Version of bitshuffle's client values, which its plugin puts before those given.
const BITSHUFFLE_VERSION: [u32; 2] = [0, 4];

/// The filters of one way to compress, in the order of writing.
///
/// `name` is one of
/// - `"none"`: no filter;
/// - `"gzip"`: shuffle and deflate, levels 0 to 9 (4): every HDF5 library reads it;
/// - `"zstd"`: shuffle and zstd, levels 1 to 22 (3);
/// - `"lz4"`: shuffle and LZ4, no levels;
/// - `"bitshuffle"`, `"bitshuffle-lz4"`, `"bitshuffle-zstd"`: bitshuffle, alone or with a codec; levels as of zstd.
///
/// With `level` `None` it is the one in brackets. `element_size` in bytes. All but the first two need a plugin
/// (hdf5plugin has them) to be read by libhdf5.
///
/// The values are as *stored*. Where the filter is set through libhdf5 (`H5Pset_filter`) with bitshuffle's plugin
/// loaded, only those from the fourth on (block size, codec, level) are given: the plugin adds the others.
///
/// # Errors
/// `InvalidArgument` for another name, a level out of its range, or a level where there is none.
pub fn creation_filters(name: &str, level: Option<u32>, element_size: usize) -> Result<Vec<StoredFilter>> {
    let element = u32::try_from(element_size).ok().filter(|element| *element > 0).ok_or_else(|| {
        Error::new(ErrorKind::InvalidArgument, format!("an element of {element_size} bytes cannot be compressed"))
    })?;
    let levels = match name {
        "gzip" => Some((0, 9, 4)),
        "zstd" | "bitshuffle-zstd" => Some((1, 22, 3)),
        _ => None,
    };
    let level = match (levels, level) {
        (Some((_, _, default)), None) => default,
        (Some((lowest, highest, _)), Some(level)) if (lowest..=highest).contains(&level) => level,
        (Some((lowest, highest, _)), Some(level)) => {
            let what = format!("level {level} of compression \"{name}\" is not one of {lowest} to {highest}");
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        (None, None) => 0,
        (None, Some(_)) => {
            return Err(Error::new(ErrorKind::InvalidArgument, format!("compression \"{name}\" has no levels")));
        }
    };
    let filter = |id, values: &[u32]| StoredFilter { id, values: values.to_vec() };
    let [major, minor] = BITSHUFFLE_VERSION;
    let shuffle = filter(2, &[element]);
    Ok(match name {
        "none" => vec![],
        "gzip" => vec![shuffle, filter(1, &[level])],
        "zstd" => vec![shuffle, filter(32015, &[level])],
        "lz4" => vec![shuffle, filter(32004, &[0])],
        "bitshuffle" => vec![filter(32008, &[major, minor, element, 0, 0])],
        "bitshuffle-lz4" => vec![filter(32008, &[major, minor, element, 0, 2])],
        "bitshuffle-zstd" => vec![filter(32008, &[major, minor, element, 0, 3, level])],
        _ => {
            let what = format!(
                "no compression \"{name}\"; there are none, gzip, zstd, lz4, bitshuffle, bitshuffle-lz4, bitshuffle-zstd"
            );
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
    })
}
