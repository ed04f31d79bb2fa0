//! Destinations of the bytes of chunks: from decoded chunks, and from the file if chunks are stored unfiltered.

use crate::container::hdf5::array::{Array, Chunk, Stored};
use crate::error::{Error, ErrorKind, Result};

/// Bytes of a file, and their destination.
pub(super) struct Piece<'a> {
    pub(super) offset: u64,
    pub(super) place: &'a mut [u8],
}

/// The rows of a decoded chunk into their places.
pub(super) fn put(array: &Array, chunk: &Chunk, bytes: &[u8], rows: &[u64], places: &mut [&mut [u8]]) -> Result<()> {
    let short = || Error::new(ErrorKind::Internal, "a chunk is shorter than planned");
    for (&row, place) in rows.iter().zip(places) {
        let first = array.row_in_chunk(chunk, row);
        for part in array.parts_of_row(chunk) {
            let from = bytes.get(first + part.in_chunk..).and_then(|bytes| bytes.get(..part.len)).ok_or_else(short)?;
            let to = place.get_mut(part.in_row..).and_then(|place| place.get_mut(..part.len)).ok_or_else(short)?;
            to.copy_from_slice(from);
        }
    }
    Ok(())
}

/// Returns the pieces of these rows that are stored unfiltered. Fill values and values inside the description of the
/// data set are put into their places at once.
pub(super) fn as_stored<'a>(array: &Array, rows: &[u64], places: &'a mut [&mut [u8]]) -> Vec<Piece<'a>> {
    let mut pieces = Vec::new();
    let mut parts: Vec<(usize, usize, Option<u64>)> = Vec::new();
    for (&row, place) in rows.iter().zip(places) {
        parts.clear();
        for chunk in array.chunks_of_row(row) {
            let first = array.row_in_chunk(&chunk, row);
            for part in array.parts_of_row(&chunk) {
                let from = first + part.in_chunk;
                match array.stored(&chunk) {
                    Stored::Filtered(_) => parts.push((part.in_row, part.len, None)),
                    Stored::Plain(address) => parts.push((part.in_row, part.len, Some(address + from as u64))),
                    Stored::Nowhere => array.put_fill(&mut place[part.in_row..part.in_row + part.len]),
                    Stored::Inline => {
                        let inline = array.inline().unwrap_or_default();
                        place[part.in_row..part.in_row + part.len].copy_from_slice(&inline[from..from + part.len]);
                    }
                }
            }
        }
        parts.sort_unstable_by_key(|&(at, ..)| at);
        let (mut rest, mut begin) = (&mut **place, 0);
        for &(at, len, offset) in &parts {
            let (place, behind) = rest.split_at_mut(at - begin).1.split_at_mut(len);
            (rest, begin) = (behind, at + len);
            if let Some(offset) = offset {
                pieces.push(Piece { offset, place });
            }
        }
    }
    pieces
}
