//! The index of frames in chunks of an HDF5 file: steps and times, and sampled addresses for identities of files.
//!
//! The decoder knows which chunk holds which frame; this index is never stored beside the file.

use std::sync::Arc;

use crate::source::Extent;

/// Frames in chunks.
#[derive(Debug, Clone, PartialEq)]
pub struct ChunkedIndex {
    /// Number of frames.
    pub n_frames: u64,
    /// Bytes of a frame, of all fields, as they would be without filters.
    pub frame_bytes: u64,
    /// For each run of `frames_per_sample` frames the bytes of one of its chunks: read by identities of files.
    pub samples: Arc<[Extent]>,
    /// See `samples`.
    pub frames_per_sample: u64,
    /// Step of each frame, if the file has steps.
    pub steps: Option<Arc<[i64]>>,
    /// Time of each frame in the file's unit, if the file has times.
    pub times: Option<Arc<[f64]>>,
}

impl ChunkedIndex {
    /// An address of the frame, and its size; its bytes need not be there side by side.
    pub fn extent(&self, frame: u64) -> Extent {
        Extent { len: self.frame_bytes, ..self.sample(frame) }
    }

    /// Bytes that hold some of the frame; none if addresses are unknown.
    pub fn sample(&self, frame: u64) -> Extent {
        let at = frame / self.frames_per_sample.max(1);
        self.samples.get(at as usize).or(self.samples.last()).copied().unwrap_or_default()
    }
}
