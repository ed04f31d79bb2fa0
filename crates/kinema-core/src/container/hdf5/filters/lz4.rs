//! LZ4 (filter 32004): a chunk in blocks, each with its compressed size before it.
//!
//! It is not the LZ4 frame format, only its block format in a framing of HDF5's own. Sources: "HDF5_LZ4.pdf" of the
//! filter's registration (8 bytes decoded size, 4 bytes block size, then for each block 4 bytes size and the bytes, all
//! words big-endian; a block as large as its decoded form is stored as it is); `lz4_Block_format.md`.

use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};

use super::{Coders, Size, double_word, make_room, put, word};
use crate::{Error, ErrorKind, Result};

/// A byte of a match's length stands for 255 bytes at most.
pub(super) const LARGEST_GROWTH: usize = 256;
/// Block size of the plugin if the client values give none.
const DEFAULT_BLOCK: usize = 1 << 30;
/// The largest input of LZ4 (`LZ4_MAX_INPUT_SIZE`).
const LARGEST_BLOCK: usize = 0x7e00_0000;
const HEAD: usize = 12;

/// Parameters of the filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lz4 {
    block: usize,
}

impl Lz4 {
    /// From the client values: the block size in bytes, zero or absent for the default, which decoding does not need.
    pub(super) fn new(values: &[u32]) -> Self {
        let block = values.first().map_or(0, |block| *block as usize);
        Self { block: if block == 0 { DEFAULT_BLOCK } else { block.min(LARGEST_BLOCK) } }
    }

    pub(super) fn encode(&self, plain: &[u8], out: &mut Vec<u8>, coders: &mut Coders) -> Result<()> {
        let block = self.block.min(plain.len()).max(1);
        let bound = |bytes| 4 + get_maximum_output_size(bytes);
        make_room(out, HEAD + plain.len() / block * bound(block) + bound(plain.len() % block))?;
        put(&(plain.len() as u64).to_be_bytes(), out, 0);
        put(&(block as u32).to_be_bytes(), out, 8);
        let mut at = HEAD;
        for piece in plain.chunks(block) {
            let mut length = compress(piece, out.get_mut(at + 4..).unwrap_or_default(), coders)?;
            if length >= piece.len() {
                length = piece.len();
                put(piece, out, at + 4);
            }
            put(&(length as u32).to_be_bytes(), out, at);
            at += 4 + length;
        }
        out.truncate(at);
        Ok(())
    }
}

pub(super) fn decode(encoded: &[u8], decoded: Size, out: &mut Vec<u8>) -> Result<()> {
    let (Some(total), Some(block)) = (double_word(encoded, 0), word(encoded, 8)) else {
        return Err(Error::corrupt("lz4 chunk without its head", format!("{HEAD} bytes"), encoded.len()));
    };
    decoded.check("wrong decoded size in the head of a lz4 chunk", total)?;
    if block == 0 && total > 0 {
        return Err(Error::corrupt("wrong block size in the head of a lz4 chunk", "at least 1", block));
    }
    make_room(out, total)?;
    let mut at = HEAD;
    for piece in out.chunks_mut(block.max(1)) {
        let input = word(encoded, at).and_then(|length| encoded.get(at + 4..)?.get(..length));
        let Some(input) = input else {
            return Err(Error::corrupt("a block of a lz4 chunk is cut short", "its bytes", encoded.len() - at));
        };
        if input.len() == piece.len() {
            piece.copy_from_slice(input);
        } else {
            decompress(input, piece)?;
        }
        at += 4 + input.len();
    }
    Ok(())
}

/// One block into `out`, which must have room for LZ4's bound; the bytes written.
pub(super) fn compress(plain: &[u8], out: &mut [u8], coders: &mut Coders) -> Result<usize> {
    let table = coders.lz4_table.get_or_insert_with(CompressTable::small);
    compress_into_with_table(plain, out, table)
        .map_err(|error| Error::new(ErrorKind::Internal, format!("lz4 within its bound: {error}")))
}

/// Decodes one block, which must fill `out`.
pub(super) fn decompress(encoded: &[u8], out: &mut [u8]) -> Result<()> {
    let wrong = |error| Error::new(ErrorKind::Corrupt, format!("a lz4 block of a chunk is damaged: {error}"));
    let length = decompress_into(encoded, out).map_err(wrong)?;
    if length != out.len() {
        return Err(Error::corrupt("wrong decoded size of a lz4 block", out.len(), length));
    }
    Ok(())
}
