//! Frame reader of one worker: segments, coalesced reads and decoding into a block.
//!
//! It starts no threads and schedules nothing: the ends of the pipeline do.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use super::absent::Held;
use super::applied::Applied;
use crate::clock::{Meter, Phases, Work};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Decoded, Request, Segment, SegmentBytes, Wanted};
use crate::frame::{BlockMut, Fields, Real, RowsMut, Scales, Units, VectorsMut};
use crate::plan::BATCH_BYTES;
use crate::selection::AtomSelection;
use crate::source::{Extent, MAX_GAP, Source};
use crate::trajectory::{Absent, FrameFault, Part, ReaderBuffers, Scanned, Trajectory, check_stamp, not_scanned};

/// Reads frames for one worker, with the buffers of the last reader of the trajectory.
pub struct Reader<'a> {
    pub(super) trajectory: &'a Trajectory,
    pub(super) scanned: &'a Scanned,
    /// Decoded atoms and fields, including all that the trajectory's transforms need.
    pub(super) request: Request,
    pub(super) units: Units,
    /// Whether frames are transformed before they are handed on, and by what; `applied` is `None` while it is at work.
    is_transformed: bool,
    applied: Option<Box<Applied>>,
    /// Time that this took.
    pub(super) transforming: Duration,
    pub(super) buffers: ReaderBuffers,
    /// Values of fields that frames lack.
    pub(super) absent: Absent,
    pub(super) held: [Held; 3],
}

/// Segments whose bytes go to neighbouring rows as they are.
struct InPlace {
    segments: Range<usize>,
    extent: Extent,
    /// Number of the vectors in the block.
    vectors: usize,
    factor: f64,
    /// First row.
    row: usize,
    n_rows: usize,
}

impl InPlace {
    /// Whether the rows of a block lie as the bytes do.
    fn fits(&self, out: &BlockMut<'_>) -> bool {
        let len = 3 * out.n_selected;
        let rows_fit = match &out.vectors[self.vectors] {
            VectorsMut::F32(RowsMut::Adjacent(_, width)) => *width == len,
            VectorsMut::F32(RowsMut::Scattered(_)) => self.n_rows == 1,
            _ => false,
        };
        rows_fit && self.extent.len == (self.n_rows * len * size_of::<f32>()) as u64
    }
}

impl<'a> Reader<'a> {
    /// A reader of these fields and atoms, as the transforms of the trajectory change them.
    ///
    /// # Errors
    /// `InvalidArgument` if the trajectory has not been scanned, a part lacks a field, or transforms cannot be applied.
    pub fn new(trajectory: &'a Trajectory, fields: Fields, atoms: AtomSelection, units: Units) -> Result<Self> {
        let scanned = trajectory.scanned().ok_or_else(not_scanned)?;
        let applied = Applied::bind(trajectory, scanned, &atoms, fields)?;
        let (atoms, fields) = applied.as_ref().map_or((atoms, fields), |applied| applied.decoded());
        for span in &scanned.concatenation.spans {
            let part = &scanned.parts[span.part];
            let absent = fields - part.header().fields - Fields::CELL - Fields::STEP - Fields::TIME;
            if !absent.is_empty() {
                let what = format!(
                    "no {} in this file, it holds {}",
                    absent.names().join(", "),
                    part.header().fields.names().join(", ")
                );
                let error = Error::new(ErrorKind::InvalidArgument, what);
                return Err(error.with_format(part.format.info().name).with_path(&part.path));
            }
        }
        let mut buffers = trajectory.threads.take_buffers();
        buffers.scratch.meter = Meter::default();
        Ok(Self {
            trajectory,
            scanned,
            request: Request { fields, atoms, scales: Scales::NATIVE },
            units,
            is_transformed: applied.is_some(),
            applied,
            transforming: Duration::ZERO,
            buffers,
            absent: trajectory.absent(),
            held: Default::default(),
        })
    }

    /// The same reader, except that fields that frames lack are NaN and marked as absent, whatever the trajectory's
    /// rule.
    #[must_use]
    pub fn with_absent_marked(mut self) -> Self {
        self.absent = Absent::Nan;
        self
    }

    /// Work that this reader has done so far.
    pub fn phases(&self) -> Phases {
        self.buffers.scratch.meter.phases
    }

    /// Its stopwatch and phases, for callers that continue the measurement.
    pub(super) fn meter(&mut self) -> &mut Meter {
        &mut self.buffers.scratch.meter
    }

    /// Time in transforms since the last call, for the ends' timings.
    pub(super) fn take_transforming(&mut self) -> Duration {
        std::mem::take(&mut self.transforming)
    }

    /// Reads `frames` (numbers in the trajectory, any order) into the rows of `out`, in the order given.
    ///
    /// # Errors
    /// Errors of the source, the format and the trajectory's transforms, with path, format, frame and byte.
    pub fn read(&mut self, frames: &[u64], out: &mut BlockMut<'_>) -> Result<()> {
        let Some(mut applied) = self.applied.take() else { return self.read_stored(frames, out) };
        let outcome = applied.read(self, frames, out);
        self.applied = Some(applied);
        outcome
    }

    /// Same as `read` without transforms: values as decoded, converted to angstrom and ps if they have units.
    pub(super) fn read_stored(&mut self, frames: &[u64], out: &mut BlockMut<'_>) -> Result<()> {
        self.meter().watch.restart();
        self.buffers.order.clear();
        for (row, &frame) in frames.iter().enumerate() {
            let span = self.scanned.concatenation.span_of(frame);
            let frame = span.kept.start + (frame - span.first_frame);
            self.buffers.order.push((span.part as u32, Wanted { frame, row: row as u32 }));
        }
        if !self.buffers.order.is_sorted_by_key(|(part, wanted)| (*part, wanted.frame)) {
            self.buffers.order.sort_unstable_by_key(|(part, wanted)| (*part, wanted.frame, wanted.row));
        }
        let order = std::mem::take(&mut self.buffers.order);
        let mut outcome = Ok(());
        for run in order.chunk_by(|a, b| a.0 == b.0) {
            outcome = self.read_part(run, out);
            if outcome.is_err() {
                break;
            }
        }
        self.buffers.order = order;
        outcome
    }

    fn read_part(&mut self, run: &[(u32, Wanted)], out: &mut BlockMut<'_>) -> Result<()> {
        let number = run[0].0 as usize;
        self.trajectory.read_of(number, |source| self.read_from(&**source, number, run, out))
    }

    fn read_from(
        &mut self,
        source: &dyn Source,
        number: usize,
        run: &[(u32, Wanted)],
        out: &mut BlockMut<'_>,
    ) -> Result<()> {
        let part = &self.scanned.parts[number];
        self.meter().opened(&part.path);
        self.meter().reads_end_with_a_call(|| source.reads_end_with_a_call());
        self.request.scales = match self.units {
            Units::Public => part.scales,
            Units::Native => Scales::NATIVE,
            Units::Of(target) => part.scales.to_units_of(target),
        };
        if self.is_transformed {
            // vectors are given in the reader's units when they have been changed
            self.request.scales = Scales { time: self.request.scales.time, ..part.scales };
        }
        // frames that share segments are read in one batch; otherwise their segments would be read once for each batch
        let coupled = part.decoder.coupling(self.request.fields).frames > 1;
        let mut rest = run;
        while !rest.is_empty() {
            // whole frames are counted even if only some of their bytes are read: the bound holds for any file
            let mut bytes = 0;
            let mut frames = 0;
            while let Some((_, wanted)) = rest.get(frames) {
                bytes += part.index.extent(wanted.frame).len;
                if frames > 0 && bytes > BATCH_BYTES && !coupled {
                    break;
                }
                frames += 1;
            }
            let (batch, later) = rest.split_at(frames);
            self.buffers.wanted.clear();
            self.buffers.wanted.extend(batch.iter().map(|(_, wanted)| *wanted));
            self.read_batch(part, source, out)
                .and_then(|()| self.check_stamps(part, out))
                .and_then(|()| self.settle_absent_in(number, part, source, out))
                .map_err(|error| error.with_format(part.format.info().name).with_path(&part.path))?;
            self.settle_frames(number, part, out)?;
            if self.units != Units::Native && !self.scanned.has_stored_times() {
                for wanted in &self.buffers.wanted {
                    let stamp = out.stamp(wanted.row as usize)?;
                    stamp.time = self.scanned.time_of(number, wanted.frame, stamp.time);
                }
            }
            rest = later;
        }
        Ok(())
    }

    /// Compares steps and times of the frames that were read with the steps and times by which they were chosen.
    fn check_stamps(&self, part: &Part, out: &mut BlockMut<'_>) -> Result<()> {
        for wanted in &self.buffers.wanted {
            check_stamp(part, wanted.frame, out.stamp(wanted.row as usize)?, self.request.scales.time)?;
        }
        Ok(())
    }

    fn settle_absent_in(
        &mut self,
        number: usize,
        part: &Part,
        source: &dyn Source,
        out: &mut BlockMut<'_>,
    ) -> Result<()> {
        if self.absent == Absent::Nan || !part.decoder.facts().may_lack_fields {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.buffers.wanted);
        let outcome = self.settle_absent(number, part, source, &batch, out);
        self.buffers.wanted = batch;
        outcome
    }

    /// Applies the rules for unwritten values and for cells to the frames that were read, and keeps the notes about
    /// them.
    fn settle_frames(&mut self, number: usize, part: &Part, out: &mut BlockMut<'_>) -> Result<()> {
        if let Some(frame) = self.buffers.scratch.without_time.take() {
            self.trajectory.faults.add(FrameFault::Unwritten(Fields::TIME), number, frame);
        }
        let Scales { length, velocity, force, .. } = self.request.scales;
        for (vectors, (field, factor)) in Fields::VECTORS.into_iter().zip([length, velocity, force]).enumerate() {
            let fills = part.decoder.facts().fills[vectors].as_slice();
            if fills.is_empty() || !self.request.fields.contains(field) {
                continue;
            }
            for one in &self.buffers.wanted {
                let row = one.row as usize;
                let Some(all) = out.clear_fills(row, vectors, fills, factor)? else { continue };
                self.trajectory.faults.add(FrameFault::Unwritten(field), number, one.frame);
                let stamp = out.stamp(row)?;
                stamp.present = if all { stamp.present - field } else { stamp.present };
            }
        }
        let length = part.scales.length / length;
        for one in &self.buffers.wanted {
            let row = one.row as usize;
            let stamp = out.stamp(row)?;
            let found = if stamp.settle_cell() {
                Some(FrameFault::UnusableCell)
            } else if stamp.has_dummy_cell(length) && out.extends_beyond(row, 1.0 / length)? {
                Some(FrameFault::DummyCell)
            } else {
                None
            };
            if let Some(fault) = found {
                self.trajectory.faults.add(fault, number, one.frame);
            }
        }
        Ok(())
    }

    pub(super) fn read_batch(&mut self, part: &Part, source: &dyn Source, out: &mut BlockMut<'_>) -> Result<()> {
        self.buffers.segments.clear();
        part.decoder.segments(&part.index, &self.buffers.wanted, &self.request, &mut self.buffers.segments)?;
        let mut next = 0;
        while next < self.buffers.segments.len() {
            if let Some(run) = self.run_in_place(part, next, out) {
                next = run.segments.end;
                self.read_in_place(&part.path, source, &run, out)?;
                continue;
            }
            let mut bytes = 0;
            let few = (next..self.buffers.segments.len()).take_while(|&i| {
                bytes += self.buffers.segments[i].extent.len;
                bytes <= BATCH_BYTES && (i == next || self.run_in_place(part, i, out).is_none())
            });
            let end = next + few.count().max(1);
            self.read_segments(part, source, next..end, out)?;
            next = end;
        }
        Ok(())
    }

    /// Finds segments, from number `first` on, whose bytes are plain values and adjacent both in the file and in `out`,
    /// so that they can be read into place. `None` if there are none, or if so few bytes are adjacent that one read of
    /// several segments is faster.
    fn run_in_place(&self, part: &Part, first: usize, out: &BlockMut<'_>) -> Option<InPlace> {
        let buffers = &self.buffers;
        let chunked = part.decoder.chunked()?;
        let of = |segment: &Segment| {
            let (vectors, factor) = chunked.reads_in_place(segment, &buffers.wanted, &self.request)?;
            let rows = buffers.wanted.get(segment.wanted.start as usize..segment.wanted.end as usize)?;
            let row = rows.first()?.row;
            rows.iter().zip(row..).all(|(one, row)| one.row == row).then_some((vectors, factor, row, rows.len()))
        };
        let segment = buffers.segments.get(first)?;
        let (vectors, factor, row, n_rows) = of(segment)?;
        let mut run =
            InPlace { segments: first..first + 1, extent: segment.extent, vectors, factor, row: row as usize, n_rows };
        let adjacent = matches!(&out.vectors[vectors], VectorsMut::F32(RowsMut::Adjacent(..)));
        while let Some(next) = buffers.segments.get(run.segments.end).filter(|_| adjacent) {
            let joins = next.extent.offset == run.extent.end() && run.extent.len + next.extent.len <= BATCH_BYTES;
            match of(next).filter(|_| joins) {
                Some((number, _, row, n_rows)) if number == vectors && row as usize == run.row + run.n_rows => {
                    run.extent.len += next.extent.len;
                    run.n_rows += n_rows;
                    run.segments.end += 1;
                }
                _ => break,
            }
        }
        (run.extent.len >= MAX_GAP && run.fits(out)).then_some(run)
    }

    fn read_in_place(&mut self, file: &Path, source: &dyn Source, run: &InPlace, out: &mut BlockMut<'_>) -> Result<()> {
        let VectorsMut::F32(rows) = &mut out.vectors[run.vectors] else {
            return Err(Error::new(ErrorKind::Internal, "values are read in place to float32 only"));
        };
        let values = rows.run(run.row, run.n_rows, 3 * out.n_selected);
        let values = values.ok_or_else(|| Error::new(ErrorKind::Internal, "rows are not adjacent"))?;
        // SAFETY: the pointer and length are those of `values`, which is borrowed for as long; any bytes are floats, and a
        // byte needs no alignment
        let bytes = unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast::<u8>(), size_of_val(values)) };
        let frame = self.buffers.wanted[self.buffers.segments[run.segments.start].wanted.start as usize].frame;
        source.read_exact_at(run.extent.offset, bytes).map_err(|error| error.with_frame(frame))?;
        let Extent { offset, len: size } = run.extent;
        let work = Work { file: Some(file), offset, size, frames: run.n_rows as u64 };
        self.meter().read(work, 1);
        if run.factor != 1.0 {
            values.iter_mut().for_each(|value| *value = f32::scaled_f32(*value, run.factor));
            self.meter().decoded(Work { file: None, ..work });
        }
        Ok(())
    }

    /// Reads and decodes some of the segments, no more than can stay in the cache.
    fn read_segments(
        &mut self,
        part: &Part,
        source: &dyn Source,
        segments: Range<usize>,
        out: &mut BlockMut<'_>,
    ) -> Result<()> {
        let chosen = &self.buffers.segments[segments.clone()];
        self.buffers.gather.read(source, chosen.iter().map(|segment| segment.extent)).map_err(|error| match chosen
            .iter()
            .find(|segment| error.offset().is_some_and(|at| segment.extent.end() > at))
        {
            Some(segment) => error.with_frame(self.buffers.wanted[segment.wanted.start as usize].frame),
            None => error,
        })?;
        let offset = chosen.first().map_or(0, |segment| segment.extent.offset);
        let frames = chosen.iter().map(|segment| segment.wanted.end).max().unwrap_or(0)
            - chosen.iter().map(|segment| segment.wanted.start).min().unwrap_or(0);
        let (size, calls) = (self.buffers.gather.bytes_read, self.buffers.gather.reads);
        let work = Work { file: Some(&part.path), offset, size, frames: u64::from(frames) };
        self.meter().read(work, calls);
        for (place, i) in segments.enumerate() {
            let (segment, bytes) = (&self.buffers.segments[i], self.buffers.gather.bytes(place));
            let given = SegmentBytes { segment, bytes, wanted: &self.buffers.wanted, request: &self.request };
            let outcome = part.decoder.decode(given, out, &mut self.buffers.scratch)?;
            if let Decoded::NeedsPrefix(len) = outcome {
                self.read_longer(part, source, i, len, out)?;
            }
        }
        self.meter().decoded(Work { file: None, ..work });
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
        let segment = &self.buffers.segments[i];
        let mut len = len;
        let mut bytes = Vec::new();
        loop {
            // at least doubled, so that there are few attempts whatever length the decoder asks for
            len = len.max(2 * bytes.len() as u64).min(segment.whole.len);
            bytes.resize(len as usize, 0);
            // this read interrupts decoding and is not counted as decoding
            let meter = &mut self.buffers.scratch.meter;
            meter.decoded(Work::default());
            source.read_exact_at(segment.whole.offset, &mut bytes)?;
            meter.read(Work { file: Some(&part.path), offset: segment.whole.offset, size: len, frames: 1 }, 1);
            let longer = Segment { extent: Extent { len, ..segment.whole }, ..segment.clone() };
            let (wanted, request) = (&self.buffers.wanted, &self.request);
            let given = SegmentBytes { segment: &longer, bytes: &bytes, wanted, request };
            match part.decoder.decode(given, out, &mut self.buffers.scratch)? {
                Decoded::Done => return Ok(()),
                Decoded::NeedsPrefix(_) if len == segment.whole.len => {
                    return Err(Error::new(ErrorKind::Internal, "a decoder asked for more than the whole segment"));
                }
                Decoded::NeedsPrefix(more) => len = more,
            }
        }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        if let Some(applied) = self.applied.take() {
            self.trajectory.keep(applied);
        }
        self.trajectory.threads.give_back(std::mem::take(&mut self.buffers));
    }
}

#[cfg(test)]
mod tests;
