//! Frames whose atoms have records of one width: which bytes hold the wanted atoms, and how they are decoded.

use std::ops::Range;

use super::records::AtomBlock;
use crate::error::{Error, Result};
use crate::format::{Decoded, Request, Scratch, Segment, SegmentBytes};
use crate::frame::{BlockMut, Fields};
use crate::source::{Extent, MAX_GAP};

/// Bytes of records that are looked at when a file is opened.
pub(super) const LOOKED_AT: u64 = 64 << 10;

/// Contents of a segment.
mod part {
    /// The records of a frame before its atoms.
    pub const HEAD: u32 = 0;
    /// Records of a run of atoms.
    pub const RUN: u32 = 1;
    /// A frame.
    pub const FRAME: u32 = 2;
}

/// How frames lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fixed {
    /// Bytes of a frame before its atoms.
    pub head_len: u64,
    pub block: AtomBlock,
    /// Whether the first atoms of the first frame are in the order of their indices: then runs of atoms are read alone.
    pub sorted: bool,
}

impl Fixed {
    /// Appends the segments of the frame at `whole`, number `i` of those that are wanted.
    pub fn segments(&self, i: u32, whole: Extent, request: &Request, segments: &mut Vec<Segment>) {
        let block = &self.block;
        let wants_vectors = Fields::VECTORS.into_iter().any(|field| request.fields.contains(field));
        let runs = if wants_vectors { request.atoms.runs((MAX_GAP / block.atom_len()) as u32) } else { Vec::new() };
        let mut push = |part: u32, atoms: Range<u32>, extent: Extent| {
            segments.push(Segment { wanted: i..i + 1, atoms, part, extent, whole });
        };
        let n_read: u64 = runs.iter().map(|run| u64::from(run.end - run.start)).sum();
        if n_read == u64::from(block.n_atoms) || n_read > 0 && !self.sorted {
            push(part::FRAME, 0..block.n_atoms, whole);
            return;
        }
        let head = Extent { offset: whole.offset, len: self.head_len };
        push(part::HEAD, 0..0, head);
        for run in runs {
            let offset = head.end() + u64::from(run.start) * block.atom_len();
            let len = u64::from(run.end - run.start) * block.atom_len();
            push(part::RUN, run, Extent { offset, len });
        }
    }

    /// Decodes the records of a run; `None` for a segment that begins with the head of its frame. A run whose atoms turn out
    /// to be in other places is read again with the whole frame.
    ///
    /// # Errors
    /// `Corrupt` with the byte.
    pub fn decode_run(&self, given: SegmentBytes<'_>, row: usize, out: &mut BlockMut<'_>) -> Result<Option<Decoded>> {
        let SegmentBytes { segment, bytes, request, .. } = given;
        let at = segment.extent.offset;
        if bytes.len() as u64 != segment.extent.len {
            return Err(Error::corrupt("wrong length of a frame", segment.extent.len, bytes.len()));
        }
        if segment.part != part::RUN || segment.extent == segment.whole {
            return Ok(None);
        }
        let in_order = self.block.decode_run(bytes, at, &segment.atoms, request, row, out)?;
        Ok(Some(if in_order { Decoded::Done } else { Decoded::NeedsPrefix(segment.whole.len) }))
    }

    /// Decodes the atoms of a segment that begins with the head of its frame.
    ///
    /// # Errors
    /// `Corrupt` with the byte.
    pub fn decode_frame(
        &self,
        given: SegmentBytes<'_>,
        row: usize,
        out: &mut BlockMut<'_>,
        scratch: &mut Scratch,
    ) -> Result<Decoded> {
        let SegmentBytes { segment, bytes, request, .. } = given;
        if segment.extent == segment.whole {
            let atoms = bytes.get(self.head_len as usize..).unwrap_or_default();
            let at = segment.whole.offset.saturating_add(self.head_len);
            self.block.decode_all(atoms, at, request, row, out, &mut scratch.ints)?;
        }
        Ok(Decoded::Done)
    }
}
