//! Pairs of frames whose RMSD is below a cutoff, superposed pair by pair or as they stand.
//!
//! RMSDs are those of [`super::frame_rmsds`]: a frame is compared with those that follow it in a circle, so that each pair
//! is found once. Rows of other frames are not kept.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::reduce::{Frame, Needs, Values};

use super::frame_rmsds::FrameRmsds;
use crate::analyses::lists_per_frame::{ListPerFrame, ListRows};
use crate::analyses::per_frame::PerFrame;
use crate::partials::lists::{ListChunk, ListColumn};
use crate::registry::KernelInfo;
use crate::superposition::many::{BATCH, Few};

/// Arguments are those of [`super::frame_rmsds::KERNEL`], and `cutoff`, angstrom. Columns: "j", the structure with an RMSD
/// below it, counted from 0; "distance".
pub const KERNEL: KernelInfo = KernelInfo {
    id: NearFrames::ID,
    make: |arguments| {
        let (rmsds, cutoff) = (FrameRmsds::new(arguments)?, arguments.positive("cutoff")?);
        Ok(Arc::new(ListRows(NearFrames { rmsds, cutoff })))
    },
    examples: |n_atoms, structure| {
        let of_rmsds = (super::frame_rmsds::KERNEL.examples)(n_atoms, structure).into_iter();
        of_rmsds.map(|one| one.with("cutoff", 0.4)).collect()
    },
};

struct NearFrames {
    rmsds: FrameRmsds,
    cutoff: f64,
}

/// Rows of some frames, and those of them that have been listed.
#[derive(Debug, Default)]
struct Scratch {
    few: Few,
    values: Vec<f64>,
    listed: usize,
}

impl ListPerFrame for NearFrames {
    const ID: &'static str = "near_frames/1";
    const COLUMNS: &'static [ListColumn] = &[("j", Values::U32(Vec::new())), ("distance", Values::F64(Vec::new()))];
    const BATCH: usize = BATCH;
    type Scratch = Scratch;

    fn needs(&self) -> Needs {
        self.rmsds.needs()
    }

    fn kept_bytes(&self) -> u64 {
        self.rmsds.structures.bytes()
    }

    fn prepare(&self, frames: &[Frame<'_>], scratch: &mut Scratch) -> Result<()> {
        scratch.listed = 0;
        scratch.values.resize(frames.len() * self.rmsds.width(), 0.0);
        self.rmsds.fill(frames, &mut scratch.few, &mut scratch.values)
    }

    fn list(&self, frame: &Frame<'_>, scratch: &mut Scratch, rows: &mut ListChunk) -> Result<()> {
        let (width, n) = (self.rmsds.width(), self.rmsds.structures.len());
        let values = &scratch.values[scratch.listed * width..][..width];
        scratch.listed += 1;
        let first = self.rmsds.columns(frame.number).first;
        for (column, distance) in values.iter().enumerate().filter(|(_, distance)| **distance < self.cutoff) {
            rows.column::<u32>(0).push(((first + column) % n) as u32);
            rows.column::<f64>(1).push(*distance);
        }
        Ok(())
    }
}
