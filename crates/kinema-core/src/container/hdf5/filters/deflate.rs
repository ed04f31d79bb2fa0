//! Deflate in a zlib stream (filter 1), by libdeflate.
//!
//! It never takes more or fewer bytes than the chunk has. Sources: RFC 1950, RFC 1951.

use libdeflater::{CompressionLvl, Compressor, DecompressionError, Decompressor};

use super::{Coders, Size, make_room};
use crate::{Error, ErrorKind, Result};

/// A match of 258 bytes takes two bits at least (RFC 1951), and the stream's head is more than none.
pub(super) const LARGEST_GROWTH: usize = 1032;
/// The level of zlib's "default compression".
const DEFAULT_LEVEL: u32 = 6;
const HIGHEST_LEVEL: u32 = 9;

/// Parameters of the filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Deflate {
    level: u32,
}

impl Deflate {
    /// From the client values: the level, 0 to 9, which decoding does not need.
    pub(super) fn new(values: &[u32]) -> Self {
        Self { level: values.first().copied().unwrap_or(DEFAULT_LEVEL) }
    }

    pub(super) fn encode(&self, plain: &[u8], out: &mut Vec<u8>, coders: &mut Coders) -> Result<()> {
        let compressor = match &mut coders.deflate {
            Some((level, compressor)) if *level == self.level => compressor,
            other => {
                let level = i32::try_from(self.level).ok().filter(|level| *level <= HIGHEST_LEVEL as i32);
                let level = level.and_then(|level| CompressionLvl::new(level).ok()).ok_or_else(|| {
                    let what = format!("deflate level {} is not one of 0 to {HIGHEST_LEVEL}", self.level);
                    Error::new(ErrorKind::InvalidArgument, what)
                })?;
                &mut other.insert((self.level, Compressor::new(level))).1
            }
        };
        make_room(out, compressor.zlib_compress_bound(plain.len()))?;
        let length = compressor
            .zlib_compress(plain, out)
            .map_err(|error| Error::new(ErrorKind::Internal, format!("deflate within its bound: {error}")))?;
        out.truncate(length);
        Ok(())
    }
}

pub(super) fn decode(encoded: &[u8], decoded: Size, out: &mut Vec<u8>, coders: &mut Coders) -> Result<()> {
    let decompressor = coders.inflate.get_or_insert_with(Decompressor::new);
    make_room(out, decoded.bytes)?;
    let length = decompressor.zlib_decompress(encoded, out).map_err(|error| match error {
        DecompressionError::BadData => Error::new(ErrorKind::Corrupt, "the zlib stream of a chunk is damaged"),
        DecompressionError::InsufficientSpace => {
            Error::corrupt("too many bytes in the zlib stream of a chunk", decoded.bytes, "more")
        }
    })?;
    decoded.check("wrong size of an inflated chunk", length)?;
    out.truncate(length);
    Ok(())
}
