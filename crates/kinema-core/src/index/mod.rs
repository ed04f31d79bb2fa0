//! The frame index of one file: the bytes of each frame, and steps and times if the format has them.
//!
//! `store` stores it beside the file; the format builds it.

pub mod atom_checkpoints;
mod chunked;
pub mod identity;
pub mod store;
mod table;

pub use atom_checkpoints::AtomCheckpoints;
pub use chunked::ChunkedIndex;
pub use table::{TableBuilder, TableIndex};

use std::sync::Arc;

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
    /// Their steps and times, if the file states them.
    pub spacing: Option<Spacing>,
    /// The step of each frame, if each has one.
    pub steps: Option<Arc<[i64]>>,
    /// The time of each frame in the file's own unit, if each has one.
    pub times: Option<Arc<[f64]>>,
}

/// Steps and times of frames that are evenly spaced, as the header of a file states them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spacing {
    /// Step of frame 0.
    pub first_step: i64,
    /// Steps between frames, at least 1.
    pub steps: i64,
    /// Time between frames in the file's own unit, if it is a number.
    pub time: Option<f64>,
}

impl Spacing {
    /// Step of a frame.
    pub fn step(&self, frame: u64) -> i64 {
        self.first_step.wrapping_add(self.steps.wrapping_mul(frame as i64))
    }

    /// Time of a frame: reckoned from its step, so that a part of a trajectory has the times of the whole to the bit.
    pub fn time(&self, frame: u64) -> Option<f64> {
        self.time.map(|between| self.spacings(frame) * between)
    }

    /// How many times the distance between frames lies between step 0 and a frame.
    pub fn spacings(&self, frame: u64) -> f64 {
        self.step(frame) as f64 / self.steps as f64
    }
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

    /// Whether frames are in the chunks of an HDF5 file.
    pub fn is_chunked(&self) -> bool {
        matches!(self, Self::Chunked(_))
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

    /// Atoms between two atom checkpoints, if the index has any.
    pub fn atoms_per_checkpoint(&self) -> Option<u32> {
        match self {
            Self::Table(table) => table.atom_checkpoints.as_ref().map(|known| known.every()),
            Self::Uniform(_) | Self::Chunked(_) => None,
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

    /// Step of a frame, if the index knows it.
    pub fn step(&self, frame: u64) -> Option<i64> {
        match self {
            Self::Uniform(UniformIndex { steps: Some(steps), .. }) => steps.get(frame as usize).copied(),
            Self::Uniform(uniform) => uniform.spacing.map(|spacing| spacing.step(frame)),
            Self::Table(table) => Some(table.step(frame)),
            Self::Chunked(chunked) => chunked.steps.as_ref()?.get(frame as usize).copied(),
        }
    }

    /// Time of a frame in the file's own unit, if the index knows it.
    pub fn time(&self, frame: u64) -> Option<f64> {
        match self {
            Self::Uniform(UniformIndex { times: Some(times), .. }) => times.get(frame as usize).copied(),
            Self::Uniform(uniform) => uniform.spacing?.time(frame),
            Self::Table(table) => Some(table.time(frame)),
            Self::Chunked(chunked) => chunked.times.as_ref()?.get(frame as usize).copied(),
        }
    }
}
