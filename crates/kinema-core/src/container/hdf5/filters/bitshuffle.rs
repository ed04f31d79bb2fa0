//! Bitshuffle (filter 32008): blocks of elements turned into planes of their bits, alone or compressed by LZ4 or zstd.
//!
//! It leaves the last elements, fewer than eight, as they are. Source: K. Masui et al., Astronomy and Computing 12, 181
//! (2015), and the filter's registration: with compression 8 bytes decoded size and 4 bytes block size, then 4 bytes
//! size before the bytes of each block, all words big-endian; without, nothing but the bit planes.

use lz4_flex::block::get_maximum_output_size;
use zstd::zstd_safe::compress_bound;

use super::{Coders, Size, double_word, lz4, make_room, planes, put, word, zstandard};
use crate::{Error, ErrorKind, Result};

/// The plugin's target size of a block, in bytes, if no block size is given.
const DEFAULT_BLOCK_BYTES: usize = 8192;
/// The smallest block that it then takes, in elements.
const SMALLEST_DEFAULT_BLOCK: usize = 128;
/// Elements whose bits fill whole bytes: blocks are multiples of it.
const MULTIPLE: usize = 8;
const DEFAULT_ZSTD_LEVEL: i32 = 3;
const HEAD: usize = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Codec {
    None,
    Lz4,
    Zstd { level: i32 },
}

/// Parameters of the filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bitshuffle {
    /// Bytes of an element.
    element: usize,
    /// Elements of a block.
    block: usize,
    codec: Codec,
}

/// A piece of a chunk.
enum Piece {
    /// This many bytes of bit planes.
    Block(usize),
    /// The last elements, as they are.
    Rest,
}

impl Bitshuffle {
    /// From the client values: two words version, element size, block size in elements (0: default), codec (0 none,
    /// 2 LZ4, 3 zstd), level of zstd.
    pub(super) fn new(values: &[u32]) -> Result<Self> {
        let value = |i: usize| values.get(i).copied().unwrap_or(0);
        let element = value(2) as usize;
        if element == 0 {
            return Err(Error::corrupt("wrong element size of filter bitshuffle", "at least 1", element));
        }
        let codec = match value(4) {
            0 => Codec::None,
            2 => Codec::Lz4,
            3 => Codec::Zstd { level: values.get(5).map_or(DEFAULT_ZSTD_LEVEL, |level| *level as i32) },
            codec => {
                let what = format!("HDF5 filter 32008 (bitshuffle) with codec {codec}, for which Kinema has no code");
                return Err(Error::new(ErrorKind::Unsupported, what));
            }
        };
        let block = match value(3) as usize {
            0 => SMALLEST_DEFAULT_BLOCK.max(DEFAULT_BLOCK_BYTES / element / MULTIPLE * MULTIPLE),
            block => block,
        };
        if !block.is_multiple_of(MULTIPLE) {
            return Err(Error::corrupt("wrong block size of filter bitshuffle", "a multiple of 8", block));
        }
        // the head of a chunk states it in 32 bits
        if block.checked_mul(element).is_none_or(|bytes| u32::try_from(bytes).is_err()) {
            return Err(Error::corrupt("wrong block size of filter bitshuffle", "at most 4 GB", block));
        }
        Ok(Self { element, block, codec })
    }

    pub(super) fn compresses(&self) -> bool {
        self.codec != Codec::None
    }

    pub(super) fn largest_growth(&self) -> usize {
        match self.codec {
            Codec::None => 1,
            Codec::Lz4 => lz4::LARGEST_GROWTH,
            Codec::Zstd { .. } => zstandard::LARGEST_GROWTH,
        }
    }

    pub(super) fn decode(&self, encoded: &[u8], decoded: Size, out: &mut Vec<u8>, coders: &mut Coders) -> Result<()> {
        let (total, block) = match self.codec {
            Codec::None => (encoded.len(), self.block),
            _ => self.head(encoded)?,
        };
        decoded.check("wrong decoded size of a bitshuffle chunk", total)?;
        if !total.is_multiple_of(self.element) {
            let whole = format!("elements of {} bytes", self.element);
            return Err(Error::corrupt("wrong decoded size of a bitshuffle chunk", whole, total));
        }
        make_room(out, total)?;
        let mut buffer = std::mem::take(&mut coders.block);
        let outcome = self.decode_blocks(encoded, block, out, &mut buffer, coders);
        coders.block = buffer;
        outcome
    }

    /// Decoded size in bytes and block size in elements, from the chunk's first bytes.
    fn head(&self, encoded: &[u8]) -> Result<(usize, usize)> {
        let (Some(total), Some(block)) = (double_word(encoded, 0), word(encoded, 8)) else {
            return Err(Error::corrupt("bitshuffle chunk without its head", format!("{HEAD} bytes"), encoded.len()));
        };
        let elements = block / self.element;
        if elements == 0 || !elements.is_multiple_of(MULTIPLE) {
            let what = "wrong block size in the head of a bitshuffle chunk";
            return Err(Error::corrupt(what, format!("a multiple of 8 elements of {} bytes", self.element), block));
        }
        Ok((total, elements))
    }

    fn decode_blocks(
        &self,
        encoded: &[u8],
        block: usize,
        out: &mut [u8],
        buffer: &mut Vec<u8>,
        coders: &mut Coders,
    ) -> Result<()> {
        let mut at = if self.compresses() { HEAD } else { 0 };
        let short = |at| Error::corrupt("a block of a bitshuffle chunk is cut short", "its bytes", encoded.len() - at);
        let mut rest = out;
        while !rest.is_empty() {
            let place = match self.next_piece(rest.len(), block) {
                Piece::Rest => {
                    let raw = encoded.get(at..).and_then(|tail| tail.get(..rest.len())).ok_or_else(|| short(at))?;
                    rest.copy_from_slice(raw);
                    return Ok(());
                }
                Piece::Block(bytes) => rest.split_off_mut(..bytes).unwrap_or_default(),
            };
            let stated = if self.compresses() { word(encoded, at) } else { Some(place.len()) };
            let start = if self.compresses() { at + 4 } else { at };
            let input = stated.and_then(|length| encoded.get(start..)?.get(..length)).ok_or_else(|| short(at))?;
            at = start + input.len();
            let bits = match self.codec {
                Codec::None => input,
                Codec::Lz4 => {
                    make_room(buffer, place.len())?;
                    lz4::decompress(input, buffer)?;
                    &*buffer
                }
                Codec::Zstd { .. } => {
                    make_room(buffer, place.len())?;
                    let length = zstandard::decompress(input, buffer, coders)?;
                    Size { bytes: place.len(), exact: true }
                        .check("wrong size of a block from its zstd frame", length)?;
                    &*buffer
                }
            };
            make_room(&mut coders.planes, place.len())?;
            planes::bits_to_bytes(bits, place.len() / self.element / MULTIPLE, &mut coders.planes);
            planes::unshuffle(&coders.planes, self.element, place);
        }
        Ok(())
    }

    /// The next piece of a chunk of which `bytes` bytes are left, with `block` elements in a block.
    fn next_piece(&self, bytes: usize, block: usize) -> Piece {
        let elements = (bytes / self.element).min(block) / MULTIPLE * MULTIPLE;
        if elements == 0 { Piece::Rest } else { Piece::Block(elements * self.element) }
    }

    pub(super) fn encode(&self, plain: &[u8], out: &mut Vec<u8>, coders: &mut Coders) -> Result<()> {
        if !plain.len().is_multiple_of(self.element) {
            let whole = format!("elements of {} bytes", self.element);
            return Err(Error::corrupt("wrong size of a chunk for filter bitshuffle", whole, plain.len()));
        }
        let block = self.block.saturating_mul(self.element).min(plain.len()).max(1);
        // a full block, a shorter one, and the rest
        make_room(out, HEAD + (plain.len() / block + 1) * self.bound(block) + plain.len() % block)?;
        let mut at = 0;
        if self.compresses() {
            put(&(plain.len() as u64).to_be_bytes(), out, 0);
            put(&((self.block * self.element) as u32).to_be_bytes(), out, 8);
            at = HEAD;
        }
        let mut buffer = std::mem::take(&mut coders.block);
        let outcome = self.encode_blocks(plain, out, at, &mut buffer, coders);
        coders.block = buffer;
        out.truncate(outcome?);
        Ok(())
    }

    /// The most bytes that a block of `bytes` bytes is encoded to.
    fn bound(&self, bytes: usize) -> usize {
        match self.codec {
            Codec::None => bytes,
            Codec::Lz4 => 4 + get_maximum_output_size(bytes),
            Codec::Zstd { .. } => 4 + compress_bound(bytes),
        }
    }

    /// Writes the blocks from byte `at` of `out` on; returns where they end.
    fn encode_blocks(
        &self,
        plain: &[u8],
        out: &mut [u8],
        mut at: usize,
        buffer: &mut Vec<u8>,
        coders: &mut Coders,
    ) -> Result<usize> {
        let mut rest = plain;
        while !rest.is_empty() {
            let Piece::Block(bytes) = self.next_piece(rest.len(), self.block) else {
                put(rest, out, at);
                return Ok(at + rest.len());
            };
            let (elements, tail) = rest.split_at_checked(bytes).unwrap_or_default();
            rest = tail;
            make_room(&mut coders.planes, bytes)?;
            planes::shuffle(elements, self.element, &mut coders.planes);
            make_room(buffer, bytes)?;
            planes::bytes_to_bits(&coders.planes, bytes / self.element / MULTIPLE, buffer);
            let place = out.get_mut(at + 4..).unwrap_or_default();
            let length = match self.codec {
                Codec::None => {
                    put(buffer, out, at);
                    at += bytes;
                    continue;
                }
                Codec::Lz4 => lz4::compress(buffer, place, coders)?,
                Codec::Zstd { level } => zstandard::compress(buffer, level, place, coders)?,
            };
            put(&(length as u32).to_be_bytes(), out, at);
            at += 4 + length;
        }
        Ok(at)
    }
}
