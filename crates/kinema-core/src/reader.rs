//! Frames of a trajectory into a block: segments, reads, decoding, for one worker.
//!
//! It neither splits work nor runs threads: `engine` does.

use std::ops::Range;
use std::time::Instant;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Decoded, Loaded, Request, Scratch, Segment, Wanted};
use crate::frame::{BlockMut, Fields, Scales};
use crate::selection::AtomSelection;
use crate::source::{Extent, Gather, Source};
use crate::timing::Phases;
use crate::trajectory::{Part, Scanned, Trajectory, not_scanned};

/// Bytes that are read before they are decoded: still in the second-level cache then, and enough that the cost of a
/// call does not count (reading DCD from the page cache in calls of 1 MiB takes 0.7 of the time of 256 KiB).
pub(crate) const BATCH_BYTES: u64 = 1024 * 1024;

/// Reads frames for one worker; keeps its buffers from call to call.
pub struct Reader<'a> {
    trajectory: &'a Trajectory,
    scanned: &'a Scanned,
    request: Request,
    /// The file's own units instead of angstrom and ps.
    native: bool,
    gather: Gather,
    scratch: Scratch,
    /// Frames of one call, by part and frame.
    order: Vec<(u32, Wanted)>,
    wanted: Vec<Wanted>,
    segments: Vec<Segment>,
    /// What this reader has done so far.
    pub phases: Phases,
}

impl<'a> Reader<'a> {
    /// A reader of these fields and atoms.
    ///
    /// # Errors
    /// `InvalidArgument` when the trajectory has not been scanned, or a part lacks a field.
    pub fn new(trajectory: &'a Trajectory, fields: Fields, atoms: AtomSelection, native: bool) -> Result<Self> {
        let scanned = trajectory.scanned().ok_or_else(not_scanned)?;
        for piece in &scanned.joined.pieces {
            let part = &scanned.parts[piece.part];
            let absent = fields - part.header().fields - Fields::CELL - Fields::STEP - Fields::TIME;
            if !absent.is_empty() {
                let what = format!(
                    "no {} in this file, it holds {}",
                    absent.names().join(", "),
                    part.header().fields.names().join(", ")
                );
                let error = Error::new(ErrorKind::InvalidArgument, what);
                return Err(error.in_format(part.format.info().name).at_path(&part.path));
            }
        }
        Ok(Self {
            trajectory,
            scanned,
            request: Request { fields, atoms, scales: Scales::NATIVE },
            native,
            gather: Gather::default(),
            scratch: Scratch::default(),
            order: Vec::new(),
            wanted: Vec::new(),
            segments: Vec::new(),
            phases: Phases::default(),
        })
    }

    /// Reads `frames` (numbers in the trajectory, any order) into the rows of `out`, in the order given.
    ///
    /// # Errors
    /// Of the source and the format, with path, format, frame and byte.
    pub fn read(&mut self, frames: &[u64], out: &mut BlockMut<'_>) -> Result<()> {
        self.order.clear();
        for (row, &frame) in frames.iter().enumerate() {
            let piece = self.scanned.joined.piece_of(frame);
            let frame = piece.kept.start + (frame - piece.first_frame);
            self.order.push((piece.part as u32, Wanted { frame, row: row as u32 }));
        }
        if !self.order.is_sorted_by_key(|(part, wanted)| (*part, wanted.frame)) {
            self.order.sort_unstable_by_key(|(part, wanted)| (*part, wanted.frame, wanted.row));
        }
        let order = std::mem::take(&mut self.order);
        let mut outcome = Ok(());
        for run in order.chunk_by(|a, b| a.0 == b.0) {
            outcome = self.read_part(run, out);
            if outcome.is_err() {
                break;
            }
        }
        self.order = order;
        outcome
    }

    fn read_part(&mut self, run: &[(u32, Wanted)], out: &mut BlockMut<'_>) -> Result<()> {
        let number = run[0].0 as usize;
        let part = &self.scanned.parts[number];
        let start = Instant::now();
        let source = self.trajectory.source(number)?;
        self.phases.open += start.elapsed();
        self.request.scales = if self.native { Scales::NATIVE } else { part.scales() };
        // frames that share segments are read together, or their segments would be read once for each batch
        let together = part.decoder.grain(self.request.fields).frames > 1;
        let mut rest = run;
        while !rest.is_empty() {
            // whole frames are counted even where only some of their bytes are read: a bound that holds for any file
            let mut bytes = 0;
            let mut frames = 0;
            while let Some((_, wanted)) = rest.get(frames) {
                bytes += part.index.extent(wanted.frame).len;
                if frames > 0 && bytes > BATCH_BYTES && !together {
                    break;
                }
                frames += 1;
            }
            let (batch, later) = rest.split_at(frames);
            self.wanted.clear();
            self.wanted.extend(batch.iter().map(|(_, wanted)| *wanted));
            self.read_batch(part, &*source, out)
                .map_err(|error| error.in_format(part.format.info().name).at_path(&part.path))?;
            rest = later;
        }
        Ok(())
    }

    fn read_batch(&mut self, part: &Part, source: &dyn Source, out: &mut BlockMut<'_>) -> Result<()> {
        let start = Instant::now();
        self.segments.clear();
        part.decoder.segments(&part.index, &self.wanted, &self.request, &mut self.segments)?;
        self.phases.io += start.elapsed();
        let mut next = 0;
        while next < self.segments.len() {
            let mut bytes = 0;
            let few = self.segments[next..].iter().take_while(|segment| {
                bytes += segment.extent.len;
                bytes <= BATCH_BYTES
            });
            let end = next + few.count().max(1);
            self.read_segments(part, source, next..end, out)?;
            next = end;
        }
        Ok(())
    }

    /// Reads and decodes some of the segments, which are no more than can stay in the cache.
    fn read_segments(
        &mut self,
        part: &Part,
        source: &dyn Source,
        segments: Range<usize>,
        out: &mut BlockMut<'_>,
    ) -> Result<()> {
        let start = Instant::now();
        let chosen = &self.segments[segments.clone()];
        self.gather.read(source, chosen.iter().map(|segment| segment.extent)).map_err(|error| {
            match chosen.iter().find(|segment| error.offset().is_some_and(|at| segment.extent.end() > at)) {
                Some(segment) => error.at_frame(self.wanted[segment.wanted.start as usize].frame),
                None => error,
            }
        })?;
        let read = Instant::now();
        self.phases.io += read - start;
        self.phases.bytes_read += self.gather.bytes_read;
        self.phases.reads += self.gather.reads;
        let mut first = 0;
        loop {
            let loaded = Loaded::new(&self.segments[segments.clone()], &self.gather);
            let (wanted, request, scratch) = (&self.wanted, &self.request, &mut self.scratch);
            let Some((i, len)) = part.decoder.decode_from(first, loaded, wanted, request, out, scratch)? else { break };
            self.read_longer(part, source, segments.start + i, len, out)?;
            first = i + 1;
        }
        let elsewhere = std::mem::take(&mut self.scratch.elsewhere);
        self.phases.decode += read.elapsed().saturating_sub(elsewhere.time);
        self.phases.io += elsewhere.time;
        self.phases.bytes_read += elsewhere.bytes;
        self.phases.reads += elsewhere.calls;
        Ok(())
    }

    /// Reads one segment again whose guessed prefix was too short.
    fn read_longer(
        &mut self,
        part: &Part,
        source: &dyn Source,
        i: usize,
        len: u64,
        out: &mut BlockMut<'_>,
    ) -> Result<()> {
        let segment = &self.segments[i];
        let mut len = len;
        let mut bytes = Vec::new();
        loop {
            // at least doubled, so that the number of attempts is small whatever the decoder asks for
            len = len.max(2 * bytes.len() as u64).min(segment.whole.len);
            bytes.resize(len as usize, 0);
            source.read_exact_at(segment.whole.offset, &mut bytes)?;
            self.phases.bytes_read += len;
            self.phases.reads += 1;
            let longer = Segment { extent: Extent { len, ..segment.whole }, ..segment.clone() };
            match part.decoder.decode(&longer, &bytes, &self.wanted, &self.request, out, &mut self.scratch)? {
                Decoded::Done => return Ok(()),
                Decoded::NeedsPrefix(_) if len == segment.whole.len => {
                    return Err(Error::new(ErrorKind::Internal, "a decoder asked for more than the whole segment"));
                }
                Decoded::NeedsPrefix(more) => len = more,
            }
        }
    }
}
