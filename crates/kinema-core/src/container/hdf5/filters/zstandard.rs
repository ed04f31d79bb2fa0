//! Zstandard (filter 32015): a chunk is one frame.
//!
//! It does not trust the size that the frame states, and knows no dictionaries. Source: RFC 8878.

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::compress_bound;

use super::{Coders, Size, make_room};
use crate::{Error, ErrorKind, Result};

/// A block of four bytes may stand for 128 KB of equal bytes (RFC 8878, 3.1.1.2).
pub(super) const LARGEST_GROWTH: usize = 128 * 1024;
/// The plugin's level if none is given, and zstd's own default.
const DEFAULT_LEVEL: i32 = 3;

/// Parameters of the filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Zstandard {
    level: i32,
}

impl Zstandard {
    /// From the client values: the level, which decoding does not need. A negative one is stored as its two's complement.
    pub(super) fn new(values: &[u32]) -> Self {
        Self { level: values.first().map_or(DEFAULT_LEVEL, |level| *level as i32) }
    }

    pub(super) fn encode(&self, plain: &[u8], out: &mut Vec<u8>, coders: &mut Coders) -> Result<()> {
        make_room(out, compress_bound(plain.len()))?;
        let length = compress(plain, self.level, out, coders)?;
        out.truncate(length);
        Ok(())
    }
}

pub(super) fn decode(encoded: &[u8], decoded: Size, out: &mut Vec<u8>, coders: &mut Coders) -> Result<()> {
    make_room(out, decoded.bytes)?;
    let length = decompress(encoded, out, coders)?;
    decoded.check("wrong size of a chunk from its zstd frame", length)?;
    out.truncate(length);
    Ok(())
}

/// One frame into `out`, which must have room for zstd's bound; the bytes written.
pub(super) fn compress(plain: &[u8], level: i32, out: &mut [u8], coders: &mut Coders) -> Result<usize> {
    let range = zstd::compression_level_range();
    if !range.contains(&level) {
        let what = format!("zstd level {level} is not one of {} to {}", range.start(), range.end());
        return Err(Error::new(ErrorKind::InvalidArgument, what));
    }
    let failed = |error| Error::io("compressing with zstd", &error);
    let compressor = match &mut coders.zstd_encoder {
        Some((kept, compressor)) if *kept == level => compressor,
        other => &mut other.insert((level, Compressor::new(level).map_err(failed)?)).1,
    };
    compressor.compress_to_buffer(plain, out).map_err(failed)
}

/// The frames of `encoded` into `out`; the bytes written.
pub(super) fn decompress(encoded: &[u8], out: &mut [u8], coders: &mut Coders) -> Result<usize> {
    let decompressor = match &mut coders.zstd_decoder {
        Some(decompressor) => decompressor,
        empty => empty.insert(Decompressor::new().map_err(|error| Error::io("preparing zstd", &error))?),
    };
    let wrong = |error| Error::new(ErrorKind::Corrupt, format!("the zstd frame of a chunk is damaged: {error}"));
    decompressor.decompress_to_buffer(encoded, out).map_err(wrong)
}
