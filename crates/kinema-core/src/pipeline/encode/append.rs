//! Existing files to which frames are added: which of their frames stay, and how everything after these is cut off.

use std::sync::Arc;

use super::resume::Committed;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Encoder, Making};
use crate::frame::Stamp;
use crate::index::{Index, TableBuilder};
use crate::sink::Sink;
use crate::source::Source;
use crate::trajectory::{Trajectory, not_scanned};

/// The frames of a file that stay.
pub struct Existing {
    /// Frames that stay, and the offset of their end.
    pub kept: Committed,
    /// Steps and times (ps) of the first two of them.
    pub first: Vec<Stamp>,
    /// Their index, for files that need one.
    pub index: TableBuilder,
    source: Arc<dyn Source>,
}

impl Existing {
    /// The first `n_frames` of a trajectory of one file, or all its whole frames, with the encoder that extends the
    /// file. `None` if there are no frames.
    ///
    /// # Errors
    /// `InvalidArgument` if `n_frames` is less than one or more than the file has; errors of [`Format::resume`].
    pub fn from_trajectory(
        trajectory: &Trajectory,
        making: &Making,
        n_frames: Option<u64>,
    ) -> Result<Option<(Self, Box<dyn Encoder>)>> {
        let scanned = trajectory.scanned().ok_or_else(not_scanned)?;
        let part = &scanned.parts[0];
        let (format, index) = (part.format, &part.index);
        let source = trajectory.source(0)?;
        let place = |error: Error| error.with_format(format.info().name).with_path(source.path());
        let found = index.n_frames();
        let frames = n_frames.unwrap_or(found);
        if n_frames.is_some_and(|asked| asked == 0 || asked > found) {
            let what = format!("frames of the file that stay, expected 1 to {found}, found {frames}");
            return Err(place(Error::new(ErrorKind::InvalidArgument, what)));
        }
        let Some(end) = index.end() else { return Ok(None) };
        let bytes = if frames < found { index.extent(frames).offset } else { end };
        let n_atoms = trajectory.n_atoms();
        let making =
            Making { n_atoms, source_atoms: n_atoms, held: part.header().fields, open_ended: true, ..making.clone() };
        let encoder = format.resume(&*source, index, &making).map_err(place)?;
        let stamp = |frame| {
            let (step, time) = (index.step(frame).unwrap_or(0), index.time(frame).unwrap_or(f64::NAN));
            Stamp { step, time, ..Stamp::default() }
        };
        let mut table = TableBuilder::new(bytes);
        if let Index::Table(known) = index {
            table = TableBuilder::extend(known.clone());
            (frames..found).for_each(|_| table.pop());
        }
        let first = (0..frames.min(2)).map(stamp).collect();
        Ok(Some((Self { kept: Committed { frames, bytes }, first, index: table, source }, encoder)))
    }

    /// Corrects the count in the header and cuts off everything after the frames that stay; `sink` is the file. After
    /// each step the file can be read, and has at least these frames.
    ///
    /// # Errors
    /// Errors of the sink and of reading.
    pub fn cut(&self, encoder: &dyn Encoder, sink: &dyn Sink) -> Result<()> {
        if let Some(marker) = encoder.marker(self.kept.frames) {
            let mut found = vec![0; marker.bytes.len()];
            self.source.read_exact_at(marker.offset, &mut found)?;
            if found != marker.bytes {
                // a count that was too low: the frames that it counts must be on the storage first
                sink.sync()?;
                sink.write_at(marker.offset, &marker.bytes)?;
            }
        }
        if self.source.len()? > self.kept.bytes {
            // no count is ahead of the records
            sink.sync()?;
            sink.set_len(self.kept.bytes)?;
        }
        sink.sync()
    }
}
