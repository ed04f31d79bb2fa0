//! Table index of frames of different sizes, one after the other: sizes, steps and times in compact columns.

use std::ops::Range;
use std::sync::Arc;

use super::AtomCheckpoints;
use crate::error::{Error, ErrorKind, Result};
use crate::source::Extent;

/// Frames between two anchors: a look-up adds up at most this many sizes.
const FRAMES_PER_ANCHOR: usize = 64;

/// Sizes of frames, an absolute offset every 64 frames, steps and times.
///
/// Sizes are kept in words of four bytes as long as all are such, else (formats of text) in bytes. Steps and times are kept in 4 bytes each (`i32`, `f32`, as XTC has them) as long as that is
/// lossless, else in 8.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TableIndex {
    pub(super) first: u64,
    pub(super) sizes: Sizes,
    pub(super) anchors: Vec<u64>,
    pub(super) steps: Steps,
    pub(super) times: Times,
    /// Where decoding can start within frames, if known.
    pub atom_checkpoints: Option<Arc<AtomCheckpoints>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Sizes {
    /// In words of four bytes.
    Words(Vec<u32>),
    Bytes(Vec<u64>),
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

impl Default for Sizes {
    fn default() -> Self {
        Self::Words(Vec::new())
    }
}

impl Sizes {
    fn len(&self) -> usize {
        match self {
            Self::Words(words) => words.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// Bytes of these frames together.
    fn sum(&self, frames: Range<usize>) -> u64 {
        match self {
            Self::Words(words) => 4 * words[frames].iter().map(|&words| u64::from(words)).sum::<u64>(),
            Self::Bytes(bytes) => bytes[frames].iter().sum(),
        }
    }

    fn largest(&self) -> u64 {
        match self {
            Self::Words(words) => words.iter().max().map_or(0, |&words| 4 * u64::from(words)),
            Self::Bytes(bytes) => bytes.iter().max().copied().unwrap_or(0),
        }
    }

    fn pop(&mut self) {
        match self {
            Self::Words(words) => drop(words.pop()),
            Self::Bytes(bytes) => drop(bytes.pop()),
        }
    }

    fn push(&mut self, len: u64) {
        match self {
            Self::Bytes(bytes) => bytes.push(len),
            Self::Words(words) => match u32::try_from(len / 4) {
                Ok(whole) if len.is_multiple_of(4) => words.push(whole),
                _ => {
                    let mut bytes: Vec<u64> = words.iter().map(|&words| 4 * u64::from(words)).collect();
                    bytes.push(len);
                    *self = Self::Bytes(bytes);
                }
            },
        }
    }
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
        self.sizes.len() as u64
    }

    /// Where a frame is; `frame` must be below `n_frames()`.
    pub fn extent(&self, frame: u64) -> Extent {
        let frame = frame as usize;
        let anchor = frame / FRAMES_PER_ANCHOR;
        let before = self.sizes.sum(anchor * FRAMES_PER_ANCHOR..frame);
        Extent { offset: self.anchors[anchor] + before, len: self.sizes.sum(frame..frame + 1) }
    }

    /// The frame that starts at byte `offset`.
    pub fn frame_at(&self, offset: u64) -> Option<u64> {
        let anchor = self.anchors.partition_point(|&at| at <= offset).checked_sub(1)?;
        let first = anchor * FRAMES_PER_ANCHOR;
        let mut at = self.anchors[anchor];
        for frame in first..self.sizes.len().min(first + FRAMES_PER_ANCHOR) {
            if at == offset {
                return Some(frame as u64);
            }
            at += self.sizes.sum(frame..frame + 1);
        }
        None
    }

    /// Size of the largest frame in bytes, 0 without frames.
    pub fn largest(&self) -> u64 {
        self.sizes.largest()
    }

    /// The byte after the last frame.
    pub fn end(&self) -> u64 {
        self.n_frames().checked_sub(1).map_or(self.first, |last| self.extent(last).end())
    }

    /// Where the first frame begins.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The `n` longest frames, and the `n` shortest; all if there are fewer.
    pub fn extremes(&self, n: usize) -> Vec<u64> {
        match &self.sizes {
            Sizes::Words(words) => extremes(words, n),
            Sizes::Bytes(bytes) => extremes(bytes, n),
        }
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

/// Places of the `n` largest values, and of the `n` smallest.
fn extremes<T: Copy + Ord>(values: &[T], n: usize) -> Vec<u64> {
    let mut found = best(values, n, |one, other| one > other);
    found.extend(best(values, n, |one, other| one < other));
    found
}

/// Values that are compared at once: few runs of this length hold one of the best values.
const RUN: usize = 1024;

/// Places of `n` values that none of the others beats, the first of equal ones.
fn best<T: Copy>(values: &[T], n: usize, beats: impl Fn(T, T) -> bool) -> Vec<u64> {
    let mut places: Vec<usize> = Vec::with_capacity(n + 1);
    for (run, values_of_run) in values.chunks(RUN).enumerate() {
        let worst = if places.len() < n { None } else { places.last().map(|&last| values[last]) };
        let first = values_of_run.iter().copied().reduce(|one, other| if beats(other, one) { other } else { one });
        if worst.zip(first).is_some_and(|(worst, first)| !beats(first, worst)) {
            continue;
        }
        for (i, &value) in values_of_run.iter().enumerate() {
            let before = places.partition_point(|&at| !beats(value, values[at]));
            places.insert(before, run * RUN + i);
            places.truncate(n);
        }
    }
    places.into_iter().map(|place| place as u64).collect()
}

/// Builds a [`TableIndex`] frame by frame, from scratch or from the end of an older one.
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

    /// Continues after the last frame of `table`, for a file that has grown.
    pub fn extend(table: TableIndex) -> Self {
        let end = table.end();
        // either all frames have checkpoints or none has
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
    /// `Unsupported` unless the frame has bytes and ends within 2^64 of them.
    pub fn push(&mut self, len: u64, step: i64, time: f64) -> Result<()> {
        if len == 0 {
            return Err(Error::new(ErrorKind::Unsupported, "frame of 0 bytes, expected at least 1"));
        }
        let Some(end) = self.end.checked_add(len) else {
            return Err(Error::new(ErrorKind::Unsupported, "frame beyond the last byte that 64 bits can number"));
        };
        if self.table.sizes.len().is_multiple_of(FRAMES_PER_ANCHOR) {
            self.table.anchors.push(self.end);
        }
        self.table.sizes.push(len);
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

    /// Removes the last frame, if there is one.
    pub fn pop(&mut self) {
        let Some(last) = self.last() else { return };
        self.end = last.offset;
        self.table.sizes.pop();
        self.table.steps.pop();
        self.table.times.pop();
        self.table.anchors.truncate(self.table.sizes.len().div_ceil(FRAMES_PER_ANCHOR));
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
            self.push(other.extent(frame).len, other.step(frame), other.time(frame))?;
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

    #[test]
    fn frames_of_text_have_exact_bytes() {
        let lengths: Vec<u64> = (0..500).map(|i| if i < 200 { 40 } else { 41 + i % 7 }).chain([5 << 32, 3]).collect();
        let mut builder = TableBuilder::new(5);
        for (frame, &len) in lengths.iter().enumerate() {
            builder.push(len, frame as i64, 0.0).expect("it has bytes");
        }
        let mut at = 5;
        let table = builder.clone().finish();
        for (frame, &len) in lengths.iter().enumerate() {
            assert_eq!(table.extent(frame as u64), Extent { offset: at, len });
            assert_eq!(table.frame_at(at), Some(frame as u64));
            assert_eq!(table.frame_at(at + 1), None);
            at += len;
        }
        assert_eq!((builder.end(), table.largest()), (at, 5 << 32));
        builder.pop();
        assert_eq!(builder.end(), at - 3);
        let mut joined = TableBuilder::new(0);
        joined.push(5, -1, 0.0).expect("it has bytes");
        joined.append(&table).expect("they meet");
        assert_eq!((joined.n_frames(), joined.end()), (503, at));
        assert!(joined.push(0, 0, 0.0).is_err());
    }

    #[test]
    fn the_longest_and_the_shortest_frames_are_found() {
        let mut builder = TableBuilder::new(0);
        for len in [40, 44, 80, 44, 8, 48, 80] {
            builder.push(len, 0, 0.0).expect("it has bytes");
        }
        let mut table = builder.finish();
        for _ in 0..2 {
            assert_eq!(table.extremes(0), [0_u64; 0]);
            assert_eq!(table.extremes(1), [2, 4]);
            assert_eq!(table.extremes(3), [2, 6, 5, 4, 0, 1]);
            assert_eq!(table.extremes(9).len(), 14);
            assert_eq!(best(&(0..5000).collect::<Vec<u32>>(), 2, |one, other| one > other), [4999, 4998]);
            assert_eq!(best(&(0..5000).rev().collect::<Vec<u32>>(), 2, |one, other| one > other), [0, 1]);
            // the same in words and in bytes
            table.sizes = Sizes::Bytes((0..7).map(|frame| table.extent(frame).len).collect());
        }
    }

    /// Found by the fuzz target `load_index`: the sum overflowed, and in a release build wrapped around to zero.
    #[test]
    fn a_frame_beyond_the_last_byte_that_64_bits_can_number_is_refused() {
        let mut builder = TableBuilder::new(u64::MAX - 63);
        builder.push(60, 0, 0.0).expect("it ends within 64 bits");
        let error = builder.push(60, 1, 0.0).expect_err("it does not");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!((builder.n_frames(), builder.end()), (1, u64::MAX - 3));
    }
}
