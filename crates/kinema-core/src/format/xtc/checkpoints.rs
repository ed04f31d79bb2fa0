//! XTC atom checkpoints: the groups at which decoding may start within a frame, and the segments of a selection there.
//!
//! A group needs nothing of earlier groups except its bit, its first atom, the run length and the width of differences:
//! 52 bits. The other 12 bits of a checkpoint are a check of these and of the 16 bytes from its group on. With the tag,
//! a hash of the frame's header, this check is compared on every use: a frame that was rewritten is an error, not wrong
//! numbers.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use super::coordinates::{Job, UnpackState, group_at};
use super::full_coordinate;
use super::header::{FrameHeader, LONGEST_HEADER};
use super::radix::{Full, FullCoordinate, LOAD_REACH, Small};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Request, Segment};
use crate::frame::Fields;
use crate::index::AtomCheckpoints;
use crate::source::Extent;

/// Bytes from a checkpoint's group on that are checked.
pub(super) const CHECKED_BYTES: usize = 16;
/// Bytes from a checkpoint on that hold its group, which may have atoms before the checkpoint's, and the bytes that
/// loads touch.
const GROUP_BYTES: u64 = 160;

/// `Segment::part`: the header of a frame, perhaps with its first atoms; the low 31 bits are the tag.
const HEAD: u32 = 1 << 31;
/// `Segment::part`: the atoms after a checkpoint.
const RUN: u32 = 1 << 30;

/// Widths of the fields of a checkpoint, from the lowest bit on: bit in the frame, width, run, atoms back, check.
const WIDTHS: [u32; 5] = [37, 7, 4, 4, 12];

/// A group of a frame.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Checkpoint {
    /// Bit of the frame, header included.
    bit: u64,
    small: u64,
    run: u64,
    /// First atom of the group.
    atom: u64,
    check: u64,
}

impl Checkpoint {
    /// `None` if a field is too large, as in a frame of 16 GiB.
    fn to_word(self, of_atom: u64) -> Option<u64> {
        let mut word = 0;
        let mut shift = 0;
        for (value, width) in [self.bit, self.small, self.run, of_atom - self.atom, self.check].into_iter().zip(WIDTHS)
        {
            if value >> width != 0 {
                return None;
            }
            word |= value << shift;
            shift += width;
        }
        Some(word)
    }

    fn from_word(word: u64, of_atom: u64) -> Self {
        let mut shift = 0;
        let [bit, small, run, back, check] = WIDTHS.map(|width| {
            let value = (word >> shift) & ((1 << width) - 1);
            shift += width;
            value
        });
        Self { bit, small, run, atom: of_atom.saturating_sub(back), check }
    }

    /// The check that belongs to the other fields, given the bytes of the frame from the group on.
    fn check_of(&self, bytes: &[u8]) -> u64 {
        let mut checked = [0; CHECKED_BYTES + 16];
        let (content, fields) = checked.split_at_mut(CHECKED_BYTES);
        content.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
        let state = (self.bit | (self.small << 40) | (self.run << 48)).to_le_bytes();
        fields.iter_mut().zip(state.into_iter().chain(self.atom.to_le_bytes())).for_each(|(place, byte)| *place = byte);
        xxh3_64(&checked) >> (u64::BITS - WIDTHS[4])
    }
}

/// 31 bits that change with the header.
fn tag_of(header: &FrameHeader, bytes: &[u8]) -> u32 {
    (xxh3_64(bytes.get(..header.len()).unwrap_or(bytes)) >> 33) as u32
}

/// Writes the checkpoints of a frame into `words`, and returns its tag; none if the frame cannot be decoded that far.
pub(super) fn find(frame: &[u8], n_atoms: u32, every: u32, words: &mut [u64]) -> u32 {
    words.fill(0);
    let Ok(header) = FrameHeader::parse(frame, 0, Some(n_atoms)) else { return 0 };
    let tag = tag_of(&header, frame);
    let packing = header.packing.filter(|packing| packing.check(0).is_ok());
    let Some((packing, full)) = packing.and_then(|packing| Some((packing, full_coordinate(packing)?))) else {
        return tag;
    };
    let stream = frame.get(header.len()..).unwrap_or_default();
    let limit = packing.n_bytes.min(stream.len() as u64) * 8;
    let padded = [stream, &[0; LOAD_REACH]].concat();
    let start = UnpackState::first(&packing);
    let job = Job { packing, full, n_atoms: n_atoms as usize, data: &padded, start, selected: None, length: 1.0 };
    let mut words = words.iter_mut();
    find_groups(&job, limit, every as usize, |of_atom, group| {
        let Some(word) = words.next() else { return };
        let mut checkpoint = Checkpoint {
            bit: group.bit + 8 * header.len() as u64,
            small: u64::from(group.small.unsigned_abs()),
            run: group.run as u64,
            atom: group.atom as u64,
            check: 0,
        };
        checkpoint.check = checkpoint.check_of(frame.get((checkpoint.bit / 8) as usize..).unwrap_or_default());
        *word = checkpoint.to_word(of_atom as u64).unwrap_or(0);
    });
    tag
}

/// Gives `found` the group that holds each `every`-th atom except the first, as far as the stream is sound; `job.data`
/// has at least [`LOAD_REACH`] bytes beyond the `limit` bits of the stream.
fn find_groups(job: &Job<'_>, limit: u64, every: usize, found: impl FnMut(usize, &UnpackState)) {
    let full_bits = match &job.full {
        FullCoordinate::Narrow(full) => full.bits(),
        FullCoordinate::Wide(full) => full.bits(),
        FullCoordinate::Separate(full) => full.bits(),
    };
    let (mut at, mut next, mut found) = (job.start, every, found);
    while next < job.n_atoms {
        let Ok(group) = group_at(job.data, limit, full_bits, &at, job.n_atoms) else { return };
        if group.run > 0 && !Small::exists(at.small) {
            return;
        }
        while next <= at.atom + group.run {
            found(next, &at);
            next += every;
        }
        at.step_over(&group);
    }
}

/// The contents of a segment.
pub(super) enum SegmentPart {
    Frame,
    /// With the tag of the frame.
    Head(u32),
    Run(Run),
}

pub(super) fn part(segment: &Segment) -> SegmentPart {
    match segment.part {
        0 => SegmentPart::Frame,
        part if part & HEAD != 0 => SegmentPart::Head(part & !HEAD),
        part => SegmentPart::Run(Run(part)),
    }
}

/// A segment that starts at a checkpoint: bit within the first byte, width, run and check, as in `Segment::part`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run(u32);

impl Run {
    fn from_checkpoint(checkpoint: &Checkpoint) -> Self {
        let fields = [checkpoint.bit % 8, checkpoint.small << 3, checkpoint.run << 10, checkpoint.check << 14];
        Self(RUN | fields.iter().fold(0, |all, &field| all | field as u32))
    }

    /// The group that the `bytes` of the segment start with, in a frame that starts at `frame` in the file.
    ///
    /// # Errors
    /// `Corrupt` if the bytes are not the ones for which the checkpoint was made.
    pub fn state(self, segment: &Segment, frame: u64, bytes: &[u8]) -> Result<UnpackState> {
        let [bit, small, run, check] = [(0, 3), (3, 7), (10, 4), (14, 12)]
            .map(|(shift, width): (u32, u32)| u64::from(self.0 >> shift) & ((1 << width) - 1));
        let bit_in_frame = 8 * segment.whole.offset.saturating_sub(frame) + bit;
        let checkpoint = Checkpoint { bit: bit_in_frame, small, run, atom: u64::from(segment.atoms.start), check };
        if checkpoint.check_of(bytes) != check {
            return Err(foreign(segment.whole.offset));
        }
        let atom = segment.atoms.start as usize;
        Ok(UnpackState { bit, atom, written: 0, small: small as i32, run: run as usize })
    }
}

/// Compares the header of a frame with the header for which the checkpoints were made.
/// Errors: `Corrupt` if they differ.
pub(super) fn check_tag(tag: u32, header: &FrameHeader, bytes: &[u8], offset: u64) -> Result<()> {
    if tag_of(header, bytes) == tag { Ok(()) } else { Err(foreign(offset)) }
}

/// The error if the frame is not the one for which the checkpoints were made.
pub(super) fn foreign(offset: u64) -> Error {
    let what = "the frame is not that of which atom checkpoints were made, the file has changed since; \
                `kinema index --rebuild --atom-checkpoints` makes new ones";
    Error::new(ErrorKind::Corrupt, what).with_byte(offset)
}

/// Where the atoms of a selection are: runs of neighbouring checkpoints.
pub(super) struct Runs<'a> {
    known: &'a AtomCheckpoints,
    /// As numbers of checkpoints, 0 being the start of the frame.
    blocks: Vec<Range<u32>>,
}

/// The runs of a request; `None` if checkpoints are of no use to it.
pub(super) fn runs<'a>(known: &'a AtomCheckpoints, request: &Request) -> Option<Runs<'a>> {
    let mut rest = request.atoms.indices().filter(|_| request.fields.contains(Fields::POSITIONS))?;
    let mut blocks: Vec<Range<u32>> = Vec::new();
    while let Some(first) = rest.first() {
        let block = first / known.every();
        match blocks.last_mut() {
            Some(run) if run.end == block => run.end += 1,
            _ => blocks.push(block..block + 1),
        }
        let end = u64::from(block + 1) * u64::from(known.every());
        rest = rest.get(rest.partition_point(|&atom| u64::from(atom) < end)..)?;
    }
    let from_the_start = blocks.len() == 1 && blocks.first().is_some_and(|run| run.start == 0);
    (!from_the_start && !blocks.is_empty()).then_some(Runs { known, blocks })
}

impl Runs<'_> {
    /// Number of runs.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Appends the segments of a frame: its header, with the first atoms where they are wanted, and each run. `false`,
    /// and nothing is appended, for a frame that lacks checkpoints.
    ///
    /// # Errors
    /// `Corrupt` for a checkpoint outside its frame.
    pub fn segments(&self, frame: u64, wanted: u32, whole: Extent, segments: &mut Vec<Segment>) -> Result<bool> {
        let Some((tag, words)) = self.known.of_frame(frame) else { return Ok(false) };
        if words.contains(&0) {
            return Ok(false);
        }
        let every = self.known.every();
        let of_atom = |block: u32| u64::from(block) * u64::from(every);
        // the start of the frame has no checkpoint, nor has its end
        let at = |block: u32| {
            let word = words.get(block.checked_sub(1)? as usize)?;
            Some(Checkpoint::from_word(*word, of_atom(block)))
        };
        let last_atom = |run: &Range<u32>| u32::try_from(of_atom(run.end)).unwrap_or(u32::MAX);
        // the group of the next checkpoint after a run may hold atoms of the run
        let end = |run: &Range<u32>| at(run.end).map_or(whole.len, |next| next.bit / 8 + GROUP_BYTES).min(whole.len);
        let first = self.blocks.first().filter(|run| run.start == 0);
        let wanted = wanted..wanted.saturating_add(1);
        segments.push(Segment {
            wanted: wanted.clone(),
            atoms: 0..first.map_or(0, last_atom),
            part: HEAD | tag,
            extent: Extent { offset: whole.offset, len: first.map_or(LONGEST_HEADER as u64, end).min(whole.len) },
            whole,
        });
        for run in self.blocks.iter().filter(|run| run.start > 0) {
            let Some(checkpoint) = at(run.start).filter(|one| one.bit / 8 < whole.len) else {
                return Err(foreign(whole.offset));
            };
            let byte = checkpoint.bit / 8;
            let rest = Extent { offset: whole.offset + byte, len: whole.len - byte };
            segments.push(Segment {
                wanted: wanted.clone(),
                atoms: checkpoint.atom as u32..last_atom(run),
                part: Run::from_checkpoint(&checkpoint).0,
                extent: Extent { len: end(run).saturating_sub(byte).max(GROUP_BYTES).min(rest.len), ..rest },
                whole: rest,
            });
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Scales;
    use crate::selection::AtomSelection;

    #[test]
    fn neighbouring_blocks_are_one_run_and_one_run_from_the_start_needs_no_checkpoints() {
        let known = AtomCheckpoints::new(95, 10, vec![1; 9], vec![7]).expect("nine checkpoints of one frame");
        let blocks = |atoms: &[u32], fields| {
            let atoms = AtomSelection::from_sorted(atoms.to_vec(), 95).expect("ascending");
            let runs = runs(&known, &Request { fields, atoms, scales: Scales::NATIVE })?;
            Some(runs.blocks.iter().map(|run| (run.start, run.end)).collect::<Vec<_>>())
        };
        for (atoms, expected) in [
            (&[0, 5, 9][..], None),
            (&[], None),
            (&[0, 10], None),
            (&[25, 31, 39, 40], Some(vec![(2, 5)])),
            (&[3, 25, 94], Some(vec![(0, 1), (2, 3), (9, 10)])),
            (&[19, 30], Some(vec![(1, 2), (3, 4)])),
        ] {
            assert_eq!(blocks(atoms, Fields::POSITIONS), expected, "{atoms:?}");
            assert_eq!(blocks(atoms, Fields::CELL), None, "{atoms:?}");
        }
    }
}
