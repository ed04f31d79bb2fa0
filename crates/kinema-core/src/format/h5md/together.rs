//! Segments of a batch in groups whose chunks are decoded together.
//!
//! It puts no value anywhere: every segment is then decoded in its turn, with its chunk at hand or without.

use super::{H5mdDecoder, PART_BITS};
use crate::container::hdf5::filters::{StoredChunk, TOGETHER, decode_together};
use crate::error::Result;
use crate::format::{Decoded, Loaded, Request, Scratch, Segment, Wanted};
use crate::frame::BlockMut;

/// A segment with its bytes.
pub(super) struct Coming<'a> {
    pub(super) segment: &'a Segment,
    pub(super) bytes: &'a [u8],
    /// Its chunk, where that is decoded already.
    pub(super) ready: Option<&'a [u8]>,
}

impl H5mdDecoder {
    /// The chunk of a segment of positions, velocities or forces, where it is decoded faster together with others.
    fn to_decode_together<'a>(
        &'a self,
        segment: &Segment,
        bytes: &'a [u8],
        wanted: &[Wanted],
    ) -> Option<StoredChunk<'a>> {
        let number = segment.part & ((1 << PART_BITS) - 1);
        let field = self.vectors.get(number as usize)?.as_ref()?;
        field.to_decode_together(segment, bytes, wanted)
    }

    /// Decodes the segments from `first` on in their order; `chunks` are buffers.
    #[expect(clippy::too_many_arguments, reason = "all of them are one batch")]
    pub(super) fn decode_in_groups(
        &self,
        first: usize,
        loaded: Loaded<'_>,
        wanted: &[Wanted],
        request: &Request,
        out: &mut BlockMut<'_>,
        scratch: &mut Scratch,
        chunks: &mut Vec<Vec<u8>>,
    ) -> Result<Option<(usize, u64)>> {
        let mut next = first;
        loop {
            // up to the last of the chunks that go together, or to the end
            let mut numbers = Vec::with_capacity(TOGETHER);
            let mut stored = Vec::with_capacity(TOGETHER);
            let mut end = next;
            for (i, segment, bytes) in loaded.from(next) {
                end = i + 1;
                if let Some(chunk) = self.to_decode_together(segment, bytes, wanted) {
                    numbers.push(i);
                    stored.push(chunk);
                }
                if numbers.len() == TOGETHER {
                    break;
                }
            }
            if end == next {
                return Ok(None);
            }
            let mut done = Vec::new();
            // one alone is not decoded faster
            if stored.len() > 1 {
                chunks.resize_with(TOGETHER, Vec::new);
                done = decode_together(&stored, chunks, &mut scratch.filters);
            }
            let mut ready = numbers.iter().zip(&*chunks).zip(&done).peekable();
            for (i, segment, bytes) in loaded.from(next).take(end - next) {
                let its = ready.next_if(|((number, _), _)| **number == i);
                let ready = its.filter(|(_, done)| **done).map(|((_, chunk), _)| chunk.as_slice());
                let coming = Coming { segment, bytes, ready };
                if let Decoded::NeedsPrefix(len) = self.decode_ready(coming, wanted, request, out, scratch)? {
                    return Ok(Some((i, len)));
                }
            }
            next = end;
        }
    }
}
