//! Filters of new data sets, by the name of the compression.
//!
//! It does not encode: the values are what the data set's filter message must say, and what `Pipeline` encodes by.

use super::StoredFilter;
use crate::{Error, ErrorKind, Result};

/// Version of bitshuffle's client values, which its plugin puts before those given.
const BITSHUFFLE_VERSION: [u32; 2] = [0, 4];

/// Levels of a compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Levels {
    /// Fastest.
    pub lowest: u32,
    /// Smallest.
    pub highest: u32,
    /// Unless stated otherwise.
    pub default: u32,
}

/// A compression by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression {
    /// Name, as in arguments.
    pub name: &'static str,
    /// `None`: it has no levels.
    pub levels: Option<Levels>,
}

const fn leveled(name: &'static str, lowest: u32, highest: u32, default: u32) -> Compression {
    Compression { name, levels: Some(Levels { lowest, highest, default }) }
}

const fn plain(name: &'static str) -> Compression {
    Compression { name, levels: None }
}

/// The compressions that Kinema writes.
///
/// "gzip", "zstd" and "lz4" have shuffle before them; every HDF5 library reads "gzip". All but the first two need a
/// plugin (hdf5plugin has them) to be read by libhdf5.
pub const COMPRESSIONS: &[Compression] = &[
    plain("none"),
    leveled("gzip", 0, 9, 4),
    leveled("zstd", 1, 22, 3),
    plain("lz4"),
    plain("bitshuffle"),
    plain("bitshuffle-lz4"),
    leveled("bitshuffle-zstd", 1, 22, 3),
];

/// The filters of one of [`COMPRESSIONS`], in the order of writing. `element_size` in bytes.
///
/// The values are as *stored*. If the filter is set through libhdf5 (`H5Pset_filter`) with bitshuffle's plugin loaded,
/// give only the values from the fourth on (block size, codec, level): the plugin adds the others.
///
/// # Errors
/// `InvalidArgument` for another name, a level out of its range, or a level for a filter without levels.
pub fn creation_filters(name: &str, level: Option<u32>, element_size: usize) -> Result<Vec<StoredFilter>> {
    let invalid = |what: String| Error::new(ErrorKind::InvalidArgument, what);
    let element = u32::try_from(element_size)
        .ok()
        .filter(|element| *element > 0)
        .ok_or_else(|| invalid(format!("an element of {element_size} bytes cannot be compressed")))?;
    let compression = COMPRESSIONS.iter().find(|compression| compression.name == name).ok_or_else(|| {
        let names: Vec<&str> = COMPRESSIONS.iter().map(|compression| compression.name).collect();
        invalid(format!("no compression \"{name}\"; there are {}", names.join(", ")))
    })?;
    let level = match (compression.levels, level) {
        (None, None) => 0,
        (None, Some(_)) => return Err(invalid(format!("compression \"{name}\" has no levels"))),
        (Some(levels), level) => {
            let (Levels { lowest, highest, .. }, level) = (levels, level.unwrap_or(levels.default));
            if !(lowest..=highest).contains(&level) {
                let what = format!("level {level} of compression \"{name}\" is not one of {lowest} to {highest}");
                return Err(invalid(what));
            }
            level
        }
    };
    let filter = |id, values: &[u32]| StoredFilter { id, values: values.to_vec() };
    let [major, minor] = BITSHUFFLE_VERSION;
    let shuffle = filter(2, &[element]);
    Ok(match name {
        "gzip" => vec![shuffle, filter(1, &[level])],
        "zstd" => vec![shuffle, filter(32015, &[level])],
        "lz4" => vec![shuffle, filter(32004, &[0])],
        "bitshuffle" => vec![filter(32008, &[major, minor, element, 0, 0])],
        "bitshuffle-lz4" => vec![filter(32008, &[major, minor, element, 0, 2])],
        "bitshuffle-zstd" => vec![filter(32008, &[major, minor, element, 0, 3, level])],
        // "none"
        _ => vec![],
    })
}
