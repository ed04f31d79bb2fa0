//! Frames encoded into memory, one by one, for files that several processes write.

use std::sync::Arc;

use super::{Given, RecordFile, scaled_cell};
use crate::error::Result;
use crate::format::{Format, Making};
use crate::frame::{Scales, Stamp};
use crate::pipeline::Progress;
use crate::sink::{MemorySink, Sink};

/// A frame that was encoded alone.
#[derive(Debug)]
pub struct EncodedFrame {
    /// Its record.
    pub bytes: Vec<u8>,
    /// Messages for people: data of frames that the file omits or rounds.
    pub losses: Vec<String>,
    /// Parts of this frame's step, time and cell that are not kept.
    pub stamp_losses: Vec<&'static str>,
}

impl RecordFile {
    /// Encodes one frame by itself; `frame` is its number. For formats whose records follow one another.
    ///
    /// # Errors
    /// Errors of [`RecordFile::add`].
    pub fn encoded(
        format: &'static dyn Format,
        making: &Making,
        given: &Given<'_>,
        frame: u64,
        progress: &Progress,
    ) -> Result<EncodedFrame> {
        let sink = Arc::new(MemorySink::new(""));
        let mut file = Self::new(format, making, Arc::clone(&sink) as Arc<dyn Sink>, 1);
        (file.n_written, file.n_flushed) = (frame, frame);
        file.add(given, progress)?;
        file.add_gathered(progress)?;
        let length = Scales::NATIVE.to_units_of(format.info().scales).length;
        let stamps: Vec<Stamp> =
            given.stamps.iter().map(|stamp| Stamp { cell: scaled_cell(&stamp.cell, length), ..*stamp }).collect();
        let encoder = file.encoder.as_deref();
        let found = encoder.map(|encoder| encoder.stamp_losses(&stamps, frame)).unwrap_or_default();
        let stamp_losses = found.into_iter().map(|(what, _)| what).collect();
        Ok(EncodedFrame { bytes: sink.bytes(), losses: file.losses, stamp_losses })
    }
}
