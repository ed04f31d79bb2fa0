//! One field of an HDF5 trajectory: its data set (or several, stacked), and which row each frame has.
//!
//! Segments and rows only; what a field means and when it is wanted is `mod`'s task.

use std::ops::Range;
use std::sync::Arc;

use super::external_rows::ReadRows;
use crate::container::hdf5::array::{Array, Chunk, Stored};
use crate::container::hdf5::columns::Columns;
use crate::container::hdf5::filters::FilterScratch;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{FrameCoupling, Segment, Wanted};
use crate::frame::{Real, RowsMut};
use crate::selection::AtomSelection;
use crate::source::{Extent, MAX_GAP};

/// Rows up to this size are read whole: skipping inside them would save no time.
const WHOLE_ROW_BYTES: u64 = 4 * MAX_GAP;
/// Longest run of rows in one read, so that no read needs a large buffer.
const RUN_BYTES: u64 = 1 << 20;

/// Where the rows of a field are.
pub enum Rows {
    /// Data sets with the number of their first row, ascending.
    Stored(Vec<(u64, Array)>),
    /// Rows of an external reader. Data sets, if any, serve only the identities of files.
    External(Arc<dyn ReadRows>, Vec<(u64, Array)>),
}

/// Row number of a frame that the field does not have: NaN is given.
pub const ABSENT: i64 = -1;

/// A field.
pub struct Field {
    /// Name, for messages.
    pub name: &'static str,
    /// Its rows.
    pub rows: Rows,
    /// The row of each frame; `None`: frame i is row i.
    pub row_of: Option<Arc<[i64]>>,
    /// One row serves all frames.
    pub fixed: bool,
    /// Factor to angstrom and ps.
    pub scale: f64,
    /// Whether units of the data set are numbers, not atoms.
    pub flat: bool,
    /// Numbers that mean "never written".
    pub fills: Vec<f64>,
}

impl Field {
    /// The row of a frame; negative if there is none.
    pub fn row(&self, frame: u64) -> i64 {
        match &self.row_of {
            _ if self.fixed => 0,
            None => frame as i64,
            Some(rows) => rows.get(frame as usize).copied().unwrap_or(-2),
        }
    }

    /// Whether a frame lacks the field.
    ///
    /// # Errors
    /// `InvalidArgument` if absent fields were not allowed.
    pub fn absent(&self, frame: u64) -> Result<bool> {
        match self.row(frame) {
            0.. => Ok(false),
            ABSENT => Ok(true),
            _ => {
                let what = format!(
                    "no {} at this step; absent=\"nan\" or absent=\"hold\" opens the file nevertheless, or choose the \
                     frames of that field with axis=",
                    self.name
                );
                Err(Error::new(ErrorKind::InvalidArgument, what).with_frame(frame))
            }
        }
    }

    /// Extents for identities of files, in the order of the rows; empty if addresses are unknown.
    pub fn samples(&self) -> Vec<Extent> {
        let (Rows::Stored(pieces) | Rows::External(_, pieces)) = &self.rows;
        pieces.iter().flat_map(|(_, array)| array.samples()).collect()
    }

    /// Whether some values are of a kind that float32 does not hold.
    pub fn is_wide(&self) -> bool {
        let (Rows::Stored(pieces) | Rows::External(_, pieces)) = &self.rows;
        pieces.iter().any(|(_, array)| array.is_wide())
    }

    /// Decoded bytes of a frame; 0 for external rows.
    pub fn frame_bytes(&self) -> u64 {
        match &self.rows {
            Rows::Stored(pieces) => pieces.first().map_or(0, |(_, array)| {
                let [_, units, components] = array.shape();
                units * components * (array.unit_bytes() / array.chunk_shape()[2])
            }),
            Rows::External(..) => 0,
        }
    }

    /// The coupling of frames by chunks.
    pub fn coupling(&self) -> FrameCoupling {
        let Rows::Stored(pieces) = &self.rows else { return FrameCoupling::INDEPENDENT };
        let mut coupling = FrameCoupling::INDEPENDENT;
        for (_, array) in pieces {
            let [frames, units, components] = array.chunk_shape();
            let split = units < array.shape()[1] || components < array.shape()[2];
            if array.filtered() {
                coupling.decoded_whole |= frames > 1;
                coupling.working_bytes = coupling.working_bytes.max(array.decoding_bytes());
            }
            if !self.fixed && (array.filtered() || split) {
                coupling.frames = coupling.frames.max(frames.min(array.shape()[0]));
            }
        }
        coupling
    }

    /// Rows that are decoded twice if different tasks decode the two frames: the rows of a compressed chunk that both
    /// need. A frame that lacks the field needs none.
    pub fn shared_rows(&self, before: u64, after: u64) -> u64 {
        let [Ok(before), Ok(after)] = [before, after].map(|frame| u64::try_from(self.row(frame))) else { return 0 };
        let (Some((row, array)), Some((other, _))) = (self.piece(before), self.piece(after)) else { return 0 };
        let rows = array.chunk_shape()[0];
        let same = before - row == after - other && row / rows == other / rows;
        if self.fixed || !array.filtered() || !same {
            return 0;
        }
        rows.min(array.shape()[0] - (row / rows * rows).min(array.shape()[0]))
    }

    /// The wanted units as runs: near ones share a run if chunks hold whole frames.
    fn runs(&self, atoms: &AtomSelection) -> Vec<Range<u32>> {
        let Rows::Stored(pieces) = &self.rows else { return Vec::new() };
        let alone = |(_, array): &(u64, Array)| array.chunk_shape()[1] >= array.shape()[1];
        let gap = if pieces.iter().all(alone) { MAX_GAP as u32 / 12 } else { 0 };
        let runs = atoms.runs(gap);
        if !self.flat {
            return runs;
        }
        runs.into_iter().map(|run| run.start.saturating_mul(3)..run.end.saturating_mul(3)).collect()
    }

    fn piece(&self, row: u64) -> Option<(u64, &Array)> {
        let Rows::Stored(pieces) = &self.rows else { return None };
        let after = pieces.partition_point(|(first, _)| *first <= row);
        pieces.get(after.checked_sub(1)?).map(|(first, array)| (row - first, array))
    }

    /// Appends the segments of the wanted frames; `field` is their number in [`Segment::part`].
    ///
    /// # Errors
    /// `Internal` for rows that the data set does not have.
    pub fn segments(
        &self,
        field: u32,
        wanted: &[Wanted],
        atoms: &AtomSelection,
        segments: &mut Vec<Segment>,
    ) -> Result<()> {
        if matches!(self.rows, Rows::External(..)) {
            return Ok(());
        }
        let runs = self.runs(atoms);
        let mut start = 0;
        while start < wanted.len() {
            let row = self.row(wanted[start].frame);
            if row < 0 {
                start += 1;
                continue;
            }
            let beyond = || Error::new(ErrorKind::Internal, format!("{} has no row {row}", self.name));
            let (row, array) = self.piece(row as u64).ok_or_else(beyond)?;
            if row >= array.shape()[0] {
                return Err(beyond());
            }
            let shared = array.chunk_at(row, 0, 0).rows;
            let offset = self.row(wanted[start].frame) as u64 - row;
            let mut end = start + 1;
            while wanted.get(end).is_some_and(|one| {
                let row = self.row(one.frame);
                row < 0 || (row as u64).checked_sub(offset).is_some_and(|row| shared.contains(&row))
            }) {
                end += 1;
            }
            while self.row(wanted[end - 1].frame) < 0 {
                end -= 1;
            }
            let group = Group { field: self, number: field, array, offset, wanted, frames: start..end };
            group.push(row, &runs, segments);
            start = end;
        }
        Ok(())
    }

    /// Whether all chunks of a frame have a place in the file; a frame without the field has none that lack one.
    pub fn is_stored(&self, frame: u64) -> bool {
        let (Ok(row), Rows::Stored(_)) = (u64::try_from(self.row(frame)), &self.rows) else { return true };
        let Some((row, array)) = self.piece(row) else { return false };
        let [rows, units, _] = array.shape();
        let step = array.chunk_shape()[1].max(1);
        let chunks = (0..units)
            .step_by(step as usize)
            .flat_map(|unit| (0..array.component_chunks()).map(move |component| array.chunk_at(row, unit, component)));
        row < rows && chunks.into_iter().all(|chunk| array.stored(&chunk) != Stored::Nowhere)
    }

    /// As [`crate::format::Decoder::reads_in_place`].
    pub fn reads_in_place(&self, segment: &Segment, wanted: &[Wanted], atoms: &AtomSelection) -> bool {
        let whole = || {
            let frames = wanted.get(segment.wanted.start as usize..segment.wanted.end as usize)?;
            let first = u64::try_from(self.row(frames.first()?.frame)).ok()?;
            let (row, array) = self.piece(first)?;
            let consecutive = frames.iter().zip(first as i64..).all(|(one, row)| self.row(one.frame) == row);
            let dense = array.is_dense_f32() && segment.extent.len == frames.len() as u64 * array.row_bytes();
            Some(consecutive && dense && matches!(array.stored(&chunk_of(segment, row, array)), Stored::Plain(_)))
        };
        atoms.indices().is_none() && !self.fixed && whole().unwrap_or(false)
    }

    /// Puts the rows of a segment into `out`, `len` numbers each.
    ///
    /// # Errors
    /// Errors of the filters; `Internal` for a segment that does not fit.
    pub fn decode<R: Real>(&self, work: Work<'_>, out: &mut RowsMut<'_, R>, len: usize) -> Result<()> {
        let Work { segment, bytes, wanted, atoms, factor, decoded, scratch } = work;
        let frames = wanted.get(segment.wanted.start as usize..segment.wanted.end as usize).unwrap_or_default();
        let Some(first) = frames.first() else { return Ok(()) };
        let unfit = || Error::new(ErrorKind::Internal, format!("a segment of {} does not fit", self.name));
        let first_row = u64::try_from(self.row(first.frame)).map_err(|_| unfit())?;
        let (row, array) = self.piece(first_row).ok_or_else(unfit)?;
        let offset = first_row - row;
        let chunk = chunk_of(segment, row, array);
        let place = |error: Error| error.with_frame(first.frame).with_byte(segment.extent.offset);
        // the row and unit that the bytes begin with
        let (source, base_row, base_unit): (Option<&[u8]>, u64, u64) = match array.stored(&chunk) {
            Stored::Nowhere => (None, chunk.rows.start, 0),
            Stored::Inline => (Some(array.inline().ok_or_else(unfit)?), chunk.rows.start, 0),
            Stored::Plain(_) => (Some(bytes), row, u64::from(segment.atoms.start)),
            Stored::Filtered(_) => {
                array.decode(&chunk, bytes, decoded, scratch).map_err(place)?;
                (Some(decoded), chunk.rows.start, chunk.units.start)
            }
        };
        let columns = Columns { atoms: atoms.indices(), flat: self.flat };
        for one in frames {
            let Ok(row) = u64::try_from(self.row(one.frame)) else { continue };
            let from = row.checked_sub(offset + base_row).ok_or_else(unfit)? * array.row_bytes();
            let source = match source {
                None => None,
                Some(source) => Some(source.get(from as usize..).ok_or_else(unfit)?),
            };
            let source = source.map(|source| &source[..source.len().min(array.row_bytes() as usize)]);
            let out = out.row(one.row as usize, len)?;
            array.scatter(&chunk, source, base_unit, &columns, factor, out).map_err(place)?;
        }
        Ok(())
    }
}

/// Bits of [`Segment::part`] that hold the field; the others hold the chunk along the components.
pub const PART_BITS: u32 = 3;

/// The chunk of a segment, whose first frame has that row of the data set.
fn chunk_of(segment: &Segment, row: u64, array: &Array) -> Chunk {
    array.chunk_at(row, u64::from(segment.atoms.start), u64::from(segment.part >> PART_BITS))
}

/// Arguments and buffers of [`Field::decode`].
pub struct Work<'a> {
    /// The segment.
    pub segment: &'a Segment,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// All wanted frames.
    pub wanted: &'a [Wanted],
    /// The wanted atoms.
    pub atoms: &'a AtomSelection,
    /// Factor that numbers are multiplied with.
    pub factor: f64,
    /// Room for a decoded chunk.
    pub decoded: &'a mut Vec<u8>,
    /// Room for the filters.
    pub scratch: &'a mut FilterScratch,
}

/// Wanted frames that lie in the same run of chunks.
struct Group<'a> {
    field: &'a Field,
    number: u32,
    array: &'a Array,
    /// Row of the field minus row of the data set.
    offset: u64,
    wanted: &'a [Wanted],
    frames: Range<usize>,
}

impl Group<'_> {
    fn push(&self, row: u64, runs: &[Range<u32>], segments: &mut Vec<Segment>) {
        let [_, units, _] = self.array.shape();
        let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return };
        let step = self.array.chunk_shape()[1];
        let mut unit = u64::from(first.start) / step * step;
        while unit < units.min(u64::from(last.end)) {
            let end = (unit + step).min(units);
            let from = runs.partition_point(|run| u64::from(run.end) <= unit);
            let to = runs.partition_point(|run| u64::from(run.start) < end);
            if let Some(inside) = runs.get(from..to).filter(|inside| !inside.is_empty()) {
                for component_chunk in 0..self.array.component_chunks() {
                    let chunk = self.array.chunk_at(row, unit, component_chunk);
                    self.push_chunk(&chunk, component_chunk as u32, inside, segments);
                }
            }
            unit = end;
        }
    }

    fn push_chunk(&self, chunk: &Chunk, component_chunk: u32, runs: &[Range<u32>], segments: &mut Vec<Segment>) {
        let part = self.number | component_chunk << PART_BITS;
        let units = chunk.units.start as u32..chunk.units.end as u32;
        let mut push = |frames: Range<usize>, atoms: Range<u32>, extent: Extent| {
            let wanted = frames.start as u32..frames.end as u32;
            segments.push(Segment { wanted, atoms, part, extent, whole: extent });
        };
        match self.array.stored(chunk) {
            Stored::Filtered(extent) => push(self.frames.clone(), units, extent),
            Stored::Inline | Stored::Nowhere => push(self.frames.clone(), units, Extent::default()),
            Stored::Plain(address) => {
                let inside = |run: &Range<u32>| run.start.max(units.start)..run.end.min(units.end);
                let covered: u64 = runs.iter().map(inside).map(|run| u64::from(run.end - run.start)).sum();
                let row_bytes = self.array.row_bytes();
                let unit_bytes = self.array.unit_bytes();
                if row_bytes <= WHOLE_ROW_BYTES || 4 * covered > 3 * u64::from(units.end - units.start) {
                    let len = u64::from(units.end - units.start) * unit_bytes;
                    self.whole_rows(chunk, address, len, |frames, extent| push(frames, units.clone(), extent));
                    return;
                }
                for i in self.frames.clone() {
                    let Some(row) = self.row_in(chunk, i) else { continue };
                    for run in runs.iter().map(inside) {
                        let offset = address + row * row_bytes + u64::from(run.start - units.start) * unit_bytes;
                        let len = u64::from(run.end - run.start) * unit_bytes;
                        push(i..i + 1, run, Extent { offset, len });
                    }
                }
            }
        }
    }

    /// Row of a wanted frame within the chunk.
    fn row_in(&self, chunk: &Chunk, i: usize) -> Option<u64> {
        let row = u64::try_from(self.field.row(self.wanted[i].frame)).ok()?;
        Some(row - self.offset - chunk.rows.start)
    }

    /// Runs of whole rows: near ones share a read.
    fn whole_rows(&self, chunk: &Chunk, address: u64, len: u64, mut push: impl FnMut(Range<usize>, Extent)) {
        let row_bytes = self.array.row_bytes();
        let mut run: Option<(Range<usize>, Extent)> = None;
        for i in self.frames.clone() {
            let Some(row) = self.row_in(chunk, i) else { continue };
            let offset = address + row * row_bytes;
            match &mut run {
                Some((frames, extent))
                    if offset >= extent.offset
                        && offset <= extent.end() + MAX_GAP
                        && offset + len - extent.offset <= RUN_BYTES =>
                {
                    frames.end = i + 1;
                    extent.len = extent.len.max(offset + len - extent.offset);
                }
                _ => {
                    if let Some((frames, extent)) = run.replace((i..i + 1, Extent { offset, len })) {
                        push(frames, extent);
                    }
                }
            }
        }
        if let Some((frames, extent)) = run {
            push(frames, extent);
        }
    }
}
