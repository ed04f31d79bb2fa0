//! Fingerprint of a file's content: size, both ends, and the heads of a few frames.
//!
//! Hashing a whole trajectory would cost as much as analysing it; modification times differ between nodes and copies.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::Index;
use crate::error::Result;
use crate::source::Source;

/// Bytes hashed at each end.
const END_BYTES: u64 = 64 * 1024;
/// Frames whose heads are hashed.
const SAMPLES: u64 = 16;
/// Bytes hashed of each of them: magic number, atom count, step, time and cell of an XTC frame.
const SAMPLE_BYTES: u64 = 64;

/// Bytes of a piece of content: what the operating system reads at least.
const CONTENT_BYTES: u64 = 4096;
/// Pieces of one frame at most, where there are fewer frames than places.
const CONTENT_OF_A_FRAME: u64 = 64;

/// Identity of a file when it had `size` bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    /// Size in bytes.
    pub size: u64,
    /// xxh3 of the first 64 KiB.
    pub head: u64,
    /// xxh3 of the last 64 KiB.
    pub tail: u64,
    /// xxh3 of the first 64 bytes of 16 frames.
    pub samples: u64,
}

impl Fingerprint {
    /// Bytes of [`Fingerprint::to_bytes`].
    pub const LEN: usize = 32;

    /// The fingerprint of the first `size` bytes of a source: of the file as it is, or as it was before it grew.
    ///
    /// # Errors
    /// Those of the source; `Truncated` when it is shorter than `size`.
    pub fn of(source: &dyn Source, size: u64, index: &Index) -> Result<Self> {
        let end = size.min(END_BYTES);
        let mut bytes = vec![0; end as usize];
        source.read_exact_at(0, &mut bytes)?;
        let head = xxh3_64(&bytes);
        source.read_exact_at(size - end, &mut bytes)?;
        let tail = xxh3_64(&bytes);
        let mut samples = Xxh3::new();
        let n = index.n_frames();
        for i in 0..n.min(SAMPLES) {
            let extent = index.sample((u128::from(i) * u128::from(n) / u128::from(n.min(SAMPLES))) as u64);
            let len = extent.len.min(SAMPLE_BYTES).min(bytes.len() as u64) as usize;
            source.read_exact_at(extent.offset, &mut bytes[..len])?;
            samples.update(&bytes[..len]);
        }
        Ok(Self { size, head, tail, samples: samples.digest() })
    }

    /// xxh3 of bytes throughout the frames of a file: pieces of 4 KiB from up to `places` frames spread evenly, each
    /// at another place of its frame. It sees coordinates that were rewritten, where a fingerprint sees heads of frames
    /// only; what lies between the pieces it does not see.
    ///
    /// # Errors
    /// Those of the source.
    pub fn of_content(source: &dyn Source, index: &Index, places: u64) -> Result<u64> {
        let mut content = Xxh3::new();
        let mut bytes = [0; CONTENT_BYTES as usize];
        let n = index.n_frames();
        let places = places.min(n.saturating_mul(CONTENT_OF_A_FRAME));
        for i in 0..places {
            let frame = (u128::from(i) * u128::from(n) / u128::from(places)) as u64;
            let extent = index.sample(frame);
            let len = extent.len.min(CONTENT_BYTES);
            // multiples of the golden ratio fall into every part of a frame alike
            let share = u128::from(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let within = ((share * u128::from(extent.len - len + 1)) >> 64) as u64;
            let piece = &mut bytes[..len as usize];
            source.read_exact_at(extent.offset + within, piece)?;
            content.update(piece);
        }
        Ok(content.digest())
    }

    /// 32 bytes, little-endian.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        for (place, value) in bytes.chunks_exact_mut(8).zip([self.size, self.head, self.tail, self.samples]) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// Back from [`Fingerprint::to_bytes`].
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        let mut values = bytes.chunks_exact(8).map(|word| {
            let mut value = [0; 8];
            value.copy_from_slice(word);
            u64::from_le_bytes(value)
        });
        let mut next = || values.next().unwrap_or_default();
        Self { size: next(), head: next(), tail: next(), samples: next() }
    }

    /// For people: 16 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        format!("{:016x}", xxh3_64(&self.to_bytes()))
    }
}
