//! Content of a file, sampled: both ends, and pieces of 4 KiB at places that follow from the size alone.
//!
//! By it the identity of a file (`index/identity.rs`) and the keys of the node cache know a copy from another content.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::Source;
use crate::error::Result;

/// Places at which content is sampled by default.
pub const CONTENT_PLACES: u64 = 16;
/// Bytes hashed at each end.
const END_BYTES: u64 = 64 * 1024;
/// Bytes of a piece of content: what the operating system reads at least.
pub(crate) const PIECE_BYTES: u64 = 4096;
/// Bytes read at once when all bytes are hashed.
const BLOCK_BYTES: u64 = 1 << 20;

/// xxh3 of the first and the last 64 KiB of the first `size` bytes, and of the pieces.
///
/// # Errors
/// As [`Source::read_exact_at`].
pub fn sampled_content(source: &dyn Source, size: u64, places: u64) -> Result<[u64; 3]> {
    let end = size.min(END_BYTES);
    let mut bytes = vec![0; end as usize];
    source.read_exact_at(0, &mut bytes)?;
    let head = xxh3_64(&bytes);
    source.read_exact_at(size - end, &mut bytes)?;
    let tail = xxh3_64(&bytes);
    let pieces =
        if size <= places.saturating_mul(PIECE_BYTES) { all_of(source, size)? } else { pieces(source, size, places)? };
    Ok([head, tail, pieces])
}

/// Bytes that [`sampled_content`] reads.
pub fn sampled_bytes(size: u64, places: u64) -> u64 {
    2 * size.min(END_BYTES) + size.min(places.saturating_mul(PIECE_BYTES))
}

fn all_of(source: &dyn Source, size: u64) -> Result<u64> {
    let mut digest = Xxh3::new();
    let mut block = vec![0; size.min(BLOCK_BYTES) as usize];
    let mut at = 0;
    while at < size {
        let part = &mut block[..(size - at).min(BLOCK_BYTES) as usize];
        source.read_exact_at(at, part)?;
        digest.update(part);
        at += part.len() as u64;
    }
    Ok(digest.digest())
}

/// One piece in each of `places` parts of equal length, each time at another place within it: a file in which something
/// returns at fixed distances has all of it sampled.
fn pieces(source: &dyn Source, size: u64, places: u64) -> Result<u64> {
    let mut digest = Xxh3::new();
    let mut piece = [0; PIECE_BYTES as usize];
    let border = |i: u64| (u128::from(size) * u128::from(i) / u128::from(places)) as u64;
    for i in 0..places {
        let (start, len) = (border(i), border(i + 1) - border(i));
        // multiples of the golden ratio fall into every part alike
        let share = u128::from(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let within = ((share * u128::from(len - PIECE_BYTES + 1)) >> 64) as u64;
        source.read_exact_at(start + within, &mut piece)?;
        digest.update(&piece);
    }
    Ok(digest.digest())
}
