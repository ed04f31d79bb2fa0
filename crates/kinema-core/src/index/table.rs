//! Table index of frames of different sizes, one after the other: sizes, steps and times in compact columns.

use std::sync::Arc;

use super::AtomCheckpoints;
use crate::error::{Error, ErrorKind, Result};
use crate::source::Extent;

/// Frames between two anchors: a look-up adds up at most this many sizes.
const FRAMES_PER_ANCHOR: usize = 64;

/// Sizes of frames in words of four bytes, an absolute offset every 64 frames, steps and times.
///
/// Steps and times are kept in 4 bytes each (`i32`, `f32`, as XTC has them) as long as that is
/// lossless, else in 8.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TableIndex {
    pub(super) first: u64,
    pub(super) words: Vec<u32>,
    pub(super) anchors: Vec<u64>,
    pub(super) steps: Steps,
    pub(super) times: Times,
    /// Where decoding can start within frames, where that is known.
    pub atom_checkpoints: Option<Arc<AtomCheckpoints>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Steps {
    Narrow(Vec<i32>),
    Wide(Vec<i64>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Times {
    Narrow(Vec<f32>),
    Wide(Vec<f64>),
}

impl Default for Steps {
    fn default() -> Self {
        Self::Narrow(Vec::new())
    }
}

impl Default for Times {
    fn default() -> Self {
        Self::Narrow(Vec::new())
    }
}

impl Steps {
    fn pop(&mut self) {
        match self {
            Self::Narrow(narrow) => drop(narrow.pop()),
            Self::Wide(wide) => drop(wide.pop()),
        }
    }

    fn push(&mut self, step: i64) {
        match self {
            Self::Wide(wide) => wide.push(step),
            Self::Narrow(narrow) => match i32::try_from(step) {
                Ok(step) => narrow.push(step),
                Err(_) => {
                    let mut wide: Vec<i64> = narrow.iter().map(|&s| i64::from(s)).collect();
                    wide.push(step);
                    *self = Self::Wide(wide);
                }
            },
        }
    }
}

impl Times {
    fn pop(&mut self) {
        match self {
            Self::Narrow(narrow) => drop(narrow.pop()),
            Self::Wide(wide) => drop(wide.pop()),
        }
    }

    fn push(&mut self, time: f64) {
        match self {
            Self::Wide(wide) => wide.push(time),
            // compared as bits, so that a NaN stays narrow too
            Self::Narrow(narrow) if f64::from(time as f32).to_bits() == time.to_bits() => narrow.push(time as f32),
            Self::Narrow(narrow) => {
                let mut wide: Vec<f64> = narrow.iter().map(|&t| f64::from(t)).collect();
                wide.push(time);
                *self = Self::Wide(wide);
            }
        }
    }
}

impl TableIndex {
    /// Number of frames.
    pub fn n_frames(&self) -> u64 {
        self.words.len() as u64
    }

    /// Where a frame is; `frame` must be below `n_frames()`.
    pub fn extent(&self, frame: u64) -> Extent {
        let frame = frame as usize;
        let anchor = frame / FRAMES_PER_ANCHOR;
        let before: u64 = self.words[anchor * FRAMES_PER_ANCHOR..frame].iter().map(|&w| u64::from(w)).sum();
        Extent { offset: self.anchors[anchor] + 4 * before, len: 4 * u64::from(self.words[frame]) }
    }

    /// The frame that starts at byte `offset`.
    pub fn frame_at(&self, offset: u64) -> Option<u64> {
        let anchor = self.anchors.partition_point(|&at| at <= offset).checked_sub(1)?;
        let first = anchor * FRAMES_PER_ANCHOR;
        let mut at = self.anchors[anchor];
        for (i, &words) in self.words[first..].iter().take(FRAMES_PER_ANCHOR).enumerate() {
            if at == offset {
                return Some((first + i) as u64);
            }
            at += 4 * u64::from(words);
        }
        None
    }

    /// Size of the largest frame in bytes, 0 without frames.
    pub fn largest(&self) -> u64 {
        self.words.iter().max().map_or(0, |&words| 4 * u64::from(words))
    }

    /// Step of a frame.
    pub fn step(&self, frame: u64) -> i64 {
        match &self.steps {
            Steps::Narrow(steps) => i64::from(steps[frame as usize]),
            Steps::Wide(steps) => steps[frame as usize],
        }
    }

    /// Time of a frame, in the file's own unit.
    pub fn time(&self, frame: u64) -> f64 {
        match &self.times {
            Times::Narrow(times) => f64::from(times[frame as usize]),
            Times::Wide(times) => times[frame as usize],
        }
    }
}

/// Builds a [`TableIndex`] frame by frame, or goes on where an older one ends.
#[derive(Debug, Clone)]
pub struct TableBuilder {
    table: TableIndex,
    end: u64,
}

impl TableBuilder {
    /// Starts with no frames; frame 0 will be at `first`.
    pub fn new(first: u64) -> Self {
        Self { table: TableIndex { first, ..TableIndex::default() }, end: first }
    }

    /// Goes on after the last frame of `table`, for a file that has grown.
    pub fn extend(table: TableIndex) -> Self {
        let end = table.n_frames().checked_sub(1).map_or(table.first, |last| table.extent(last).end());
        // checkpoints are of all frames or of none
        Self { table: TableIndex { atom_checkpoints: None, ..table }, end }
    }

    /// Number of frames so far.
    pub fn n_frames(&self) -> u64 {
        self.table.n_frames()
    }

    /// Where the next frame begins.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Adds a frame of `len` bytes that starts at [`TableBuilder::end`].
    ///
    /// # Errors
    /// `Unsupported` unless `len` is a positive multiple of 4 below 16 GiB, and the frame ends within 2^64 bytes.
    pub fn push(&mut self, len: u64, step: i64, time: f64) -> Result<()> {
        let words =
            u32::try_from(len / 4).ok().filter(|&words| words > 0 && len.is_multiple_of(4)).ok_or_else(|| {
                Error::new(
                    ErrorKind::Unsupported,
                    format!("frame of {len} bytes, expected a multiple of 4 below 16 GiB"),
                )
            })?;
        let Some(end) = self.end.checked_add(len) else {
            return Err(Error::new(ErrorKind::Unsupported, "frame beyond the last byte that 64 bits can number"));
        };
        if self.table.words.len().is_multiple_of(FRAMES_PER_ANCHOR) {
            self.table.anchors.push(self.end);
        }
        self.table.words.push(words);
        self.table.steps.push(step);
        self.table.times.push(time);
        self.end = end;
        Ok(())
    }

    /// Where the last frame is.
    pub fn last(&self) -> Option<Extent> {
        self.n_frames().checked_sub(1).map(|last| self.table.extent(last))
    }

    /// Step of the last frame.
    pub fn last_step(&self) -> Option<i64> {
        self.n_frames().checked_sub(1).map(|last| self.table.step(last))
    }

    /// Removes the last frame, where there is one.
    pub fn pop(&mut self) {
        let Some(last) = self.last() else { return };
        self.end = last.offset;
        self.table.words.pop();
        self.table.steps.pop();
        self.table.times.pop();
        self.table.anchors.truncate(self.table.words.len().div_ceil(FRAMES_PER_ANCHOR));
    }

    /// Adds all frames of `other`, whose first frame must start at [`TableBuilder::end`].
    ///
    /// # Errors
    /// `Internal` when it does not.
    pub fn append(&mut self, other: &TableIndex) -> Result<()> {
        if other.n_frames() > 0 && other.first != self.end {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("index parts do not meet, expected {}, found {}", self.end, other.first),
            ));
        }
        for frame in 0..other.n_frames() {
            self.push(4 * u64::from(other.words[frame as usize]), other.step(frame), other.time(frame))?;
        }
        Ok(())
    }

    /// The finished table.
    pub fn finish(self) -> TableIndex {
        self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by the fuzz target `load_index`: the sum overflowed, and in a release build went on from zero.
    #[test]
    fn a_frame_beyond_the_last_byte_that_64_bits_can_number_is_refused() {
        let mut builder = TableBuilder::new(u64::MAX - 63);
        builder.push(60, 0, 0.0).expect("it ends within 64 bits");
        let error = builder.push(60, 1, 0.0).expect_err("it does not");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!((builder.n_frames(), builder.end()), (1, u64::MAX - 3));
    }
}
