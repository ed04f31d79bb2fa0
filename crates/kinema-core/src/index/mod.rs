//! The index of one file: which bytes hold which frame, and each frame's step and time where known.
//!
//! Storing it beside the file is `store`'s task; building it is the format's.

mod chunked;
pub mod fingerprint;
pub mod store;
mod table;

pub use chunked::ChunkedIndex;
pub use table::{TableBuilder, TableIndex};

use crate::source::Extent;

/// Which extents hold which frames of one file.
#[derive(Debug, Clone, PartialEq)]
pub enum Index {
    /// All frames have one size, or all but the first: nothing is stored, arithmetic finds them.
    Uniform(UniformIndex),
    /// Frames of different sizes, one after the other: found by a scan, worth storing.
    Table(TableIndex),
    /// Frames in the chunks of an HDF5 file, whose structure is read at each opening.
    Chunked(ChunkedIndex),
}

/// Frames of one size; the first may differ (DCD with fixed atoms).
#[derive(Debug, Clone, PartialEq)]
pub struct UniformIndex {
    /// Number of frames.
    pub n_frames: u64,
    /// Where frame 0 is.
    pub first: Extent,
    /// Size of every later frame; they follow frame 0 without gaps.
    pub stride: u64,
    /// Step of frame 0 and distance between frames, where the file states them.
    pub steps: Option<(i64, i64)>,
    /// Time of frame 0 and distance between frames, in the file's own unit, where the file states them.
    pub times: Option<(f64, f64)>,
}

impl Index {
    /// Number of complete frames.
    pub fn n_frames(&self) -> u64 {
        match self {
            Self::Uniform(uniform) => uniform.n_frames,
            Self::Table(table) => table.n_frames(),
            Self::Chunked(chunked) => chunked.n_frames,
        }
    }

    /// Where frame `frame` is; `frame` must be below `n_frames()`.
    pub fn extent(&self, frame: u64) -> Extent {
        match self {
            Self::Uniform(uniform) if frame == 0 => uniform.first,
            Self::Uniform(uniform) => {
                Extent { offset: uniform.first.end() + (frame - 1) * uniform.stride, len: uniform.stride }
            }
            Self::Table(table) => table.extent(frame),
            Self::Chunked(chunked) => chunked.extent(frame),
        }
    }

    /// Bytes that hold some of the frame, by which a file is recognised.
    pub fn sample(&self, frame: u64) -> Extent {
        match self {
            Self::Chunked(chunked) => chunked.sample(frame),
            Self::Uniform(_) | Self::Table(_) => self.extent(frame),
        }
    }

    /// Size of the largest frame in bytes, 0 without frames.
    pub fn largest(&self) -> u64 {
        match self {
            Self::Uniform(uniform) if uniform.n_frames == 0 => 0,
            Self::Uniform(uniform) => uniform.first.len.max(uniform.stride),
            Self::Table(table) => table.largest(),
            Self::Chunked(chunked) => chunked.frame_bytes,
        }
    }

    /// The byte after the last complete frame, or `None` without frames.
    pub fn end(&self) -> Option<u64> {
        self.n_frames().checked_sub(1).map(|last| self.extent(last).end())
    }

    /// Step of a frame, where the index knows it.
    pub fn step(&self, frame: u64) -> Option<i64> {
        match self {
            Self::Uniform(uniform) => {
                uniform.steps.map(|(first, by)| first.wrapping_add(by.wrapping_mul(frame as i64)))
            }
            Self::Table(table) => Some(table.step(frame)),
            Self::Chunked(chunked) => chunked.steps.as_ref()?.get(frame as usize).copied(),
        }
    }

    /// Time of a frame in the file's own unit, where the index knows it.
    pub fn time(&self, frame: u64) -> Option<f64> {
        match self {
            Self::Uniform(uniform) => uniform.times.map(|(first, by)| first + by * frame as f64),
            Self::Table(table) => Some(table.time(frame)),
            Self::Chunked(chunked) => chunked.times.as_ref()?.get(frame as usize).copied(),
        }
    }
}
