//! The head of a HISTORY file with records of one width, and the places of its frames.

use super::records::{AtomBlock, Lines, RECORD, column, integer, real};
use super::shown;
use super::timestep::{FrameHeads, TIMESTEP, Timestep};
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{Cell, NO_CELL, Scales};

/// Records of the file before the first frame.
pub(super) const HEAD_RECORDS: usize = 2;
/// Records of a frame before its atoms.
pub(super) const FRAME_RECORDS: usize = 4;

/// Contents of the first two records.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub title: String,
    pub keytrj: i64,
    pub imcon: i64,
    /// Frames by the second record; 0 in files of programs that do not count them.
    pub frames: u64,
    /// Records of the file according to the second record, as written there; empty in files of programs that do not
    /// count.
    records: String,
    pub heads: FrameHeads,
    pub block: AtomBlock,
}

/// Contents of a frame's records before its atoms.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameHead {
    pub step: i64,
    /// ps.
    pub time: f64,
    pub imcon: i64,
    /// Time of a step, ps.
    pub between: f64,
}

impl Layout {
    /// Whether a file that begins so has records of one width.
    pub fn sniff(head: &[u8]) -> bool {
        let Some(lines) = Lines::from_head(head) else { return false };
        let (width, rest) = (lines.width(), head.get(2 * lines.width()..).unwrap_or_default());
        if rest.is_empty() {
            // no frames yet
            return Self::numbers(&head[width..width + lines.text], lines, 0).is_ok();
        }
        rest.starts_with(TIMESTEP)
    }

    /// keytrj, imcon, number of atoms, frames.
    fn numbers(record: &[u8], lines: Lines, at: u64) -> Result<[i64; 4]> {
        let columns = if lines.text == RECORD { [0..10, 10..20, 20..30, 30..51] } else { [0..2, 2..4, 4..14, 14..24] };
        let names = ["keytrj", "imcon", "number of atoms", "number of frames"];
        let mut numbers = [0; 4];
        for ((number, columns), name) in numbers.iter_mut().zip(columns).zip(names) {
            // old files end before the number of frames
            let blank = name == names[3] && column(record, columns.clone()).is_empty();
            *number = if blank { 0 } else { integer(record, columns, name, at)? };
        }
        Ok(numbers)
    }

    /// # Errors
    /// `Corrupt`, `Unsupported`, with the byte.
    pub fn parse(head: &[u8]) -> Result<Self> {
        let lines = Lines::from_head(head).filter(|_| Self::sniff(head)).ok_or_else(|| {
            if head.len() < HEAD_RECORDS * (RECORD + 1) + TIMESTEP.len() {
                return Error::new(ErrorKind::Truncated, "the file ends within its first records");
            }
            Error::new(ErrorKind::Unsupported, "not a HISTORY file with records of one width")
        })?;
        let (title, at) = (lines.record(head, 0, 0)?, lines.width() as u64);
        let [keytrj, imcon, n_atoms, frames] = Self::numbers(lines.record(head, 1, 0)?, lines, at)?;
        let compressed = lines.text != RECORD;
        let known = if compressed { 3..=3 } else { 0..=2 };
        if !known.contains(&keytrj) {
            let expected = if compressed { "3 in records of this width" } else { "0, 1 or 2" };
            return Err(Error::corrupt("keytrj", expected, keytrj).with_byte(at));
        }
        if !(0..=7).contains(&imcon) {
            return Err(Error::corrupt("imcon", "0 to 7", imcon).with_byte(at));
        }
        let n_atoms = u32::try_from(n_atoms).ok().filter(|&n| n > 0);
        let n_atoms = n_atoms.ok_or_else(|| {
            Error::corrupt("number of atoms", "1 to 2^32 - 1", shown(&head[at as usize..])).with_byte(at)
        })?;
        let frames =
            u64::try_from(frames).map_err(|_| Error::corrupt("number of frames", "0 or more", frames).with_byte(at))?;
        let records = column(lines.record(head, 1, 0)?, if compressed { 24..34 } else { 51..72 });
        let records = String::from_utf8_lossy(records).into_owned();
        let levels = if compressed { 1 } else { keytrj as usize + 1 };
        let title = String::from_utf8_lossy(title.trim_ascii_end()).into_owned();
        let first = HEAD_RECORDS * lines.width();
        let heads = FrameHeads::from_record(head.get(first..first + lines.text).unwrap_or_default());
        Ok(Self {
            title,
            keytrj,
            imcon,
            frames,
            records,
            heads,
            block: AtomBlock { lines, n_atoms, levels, compressed },
        })
    }

    /// A message if the numbers of frames and records in the second record contradict each other.
    pub fn miscounted(&self) -> Option<String> {
        let width = self.block.lines.width() as u64;
        let expected = (HEAD_RECORDS as u64).saturating_add(self.frames.saturating_mul(self.stride() / width));
        let uncounted = self.frames == 0 || self.records.is_empty();
        let fits = uncounted || self.records.parse() == Ok(expected);
        (!fits).then(|| {
            let Self { frames, records, .. } = self;
            format!("header says {frames} frames and {records:?} lines, expected {expected} lines for these frames")
        })
    }

    /// Bytes before the first frame.
    pub fn head_len(&self) -> u64 {
        (HEAD_RECORDS * self.block.lines.width()) as u64
    }

    /// Bytes of a frame before its atoms.
    pub fn frame_head_len(&self) -> u64 {
        (FRAME_RECORDS * self.block.lines.width()) as u64
    }

    /// Bytes of a frame.
    pub fn stride(&self) -> u64 {
        self.frame_head_len().saturating_add(self.block.len())
    }

    /// Where a frame begins.
    pub fn frame_at(&self, frame: u64) -> u64 {
        self.head_len().saturating_add(frame.saturating_mul(self.stride()))
    }

    /// Whole frames in a file of `size` bytes.
    pub fn frames_in(&self, size: u64) -> u64 {
        size.saturating_sub(self.head_len()) / self.stride()
    }

    /// The first record of a frame, which begins at byte `at`.
    ///
    /// # Errors
    /// `Corrupt` with the byte.
    pub fn frame_head(&self, bytes: &[u8], at: u64) -> Result<FrameHead> {
        let record = self.block.lines.record(bytes, 0, at)?;
        if !record.starts_with(TIMESTEP) {
            let found = shown(&record[..TIMESTEP.len()]);
            return Err(Error::corrupt("what a frame begins with", "timestep", found).with_byte(at));
        }
        if self.block.compressed {
            let step = integer(record, 8..14, "step", at)?;
            let time = real(record, 22..34, "time", at)?;
            return Ok(FrameHead { step, time, imcon: self.imcon, between: 0.0 });
        }
        let Timestep { step, n_atoms, keytrj, imcon, between, time } = self.heads.parse(record, at)?;
        let [atoms_at, keytrj_at, imcon_at] = self.heads.places().map(|place| at.saturating_add(place as u64));
        for (what, byte, expected, found) in [
            ("number of atoms", atoms_at, i64::from(self.block.n_atoms), n_atoms),
            ("keytrj", keytrj_at, self.keytrj, keytrj),
        ] {
            if found != expected {
                let error = Error::corrupt(what, format!("{expected} as in the second record"), found);
                return Err(error.with_byte(byte));
            }
        }
        if !(0..=7).contains(&imcon) {
            return Err(Error::corrupt("imcon", "0 to 7", imcon).with_byte(imcon_at));
        }
        Ok(FrameHead { step, time, imcon, between })
    }

    /// The cell of a frame, whose records before its atoms are given.
    ///
    /// # Errors
    /// `Corrupt` with the byte.
    pub fn cell(&self, bytes: &[u8], head: &FrameHead, at: u64, scales: &Scales) -> Result<Cell> {
        if head.imcon == 0 {
            return Ok(NO_CELL);
        }
        let width = if self.block.compressed { 10 } else { 20 };
        let mut cell = NO_CELL;
        for (number, vector) in cell.iter_mut().enumerate() {
            let record = self.block.lines.record(bytes, 1 + number, at)?;
            let at = at + ((1 + number) * self.block.lines.width()) as u64;
            for (axis, value) in vector.iter_mut().enumerate() {
                *value = real(record, width * axis..width * (axis + 1), "vector of the cell", at)?;
            }
        }
        Ok(cell.map(|vector| vector.map(|value| value * scales.length)))
    }
}
