//! AMBER's NetCDF trajectories and restarts in the classic formats (CDF-1, CDF-2, CDF-5): frames are records at computed
//! places.
//!
//! NetCDF-4 files are HDF5: Python describes their structure, and `H5mdDecoder` reads them. The convention has no steps: frames are counted from 0.

mod encode;
mod layout;

use std::ops::Range;
use std::sync::Arc;

use self::layout::{Column, KILOCALORIE, Layout};
use super::cells::{cosine_of_degrees, degrees_of_cosine, from_lengths, lengths_and_cosines};
use super::numbers::BigEndianVectors;
use super::scan::uniform::lacks_frames;
use super::{Arrangement, Decoded, Decoder, Encoder, Facts, Format, FormatInfo, Header, Making, ReadStructure};
use super::{FrameStamp, FrameStamps, Request, Scratch, Segment, SegmentBytes, UniformFrames, Wanted};
use crate::container::hdf5;
use crate::container::netcdf3::{self, text};
use crate::container::xdr;
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{BlockMut, Cell, Fields, NO_CELL, NOT_A_CELL, Scales, Stamp, StatedUnits};
use crate::index::{Index, UniformIndex};
use crate::source::{Extent, MAX_GAP, Source};

/// The name in messages.
const NAME: &str = "NetCDF";

/// In AMBER's unit of velocity: angstrom in 1/20.455 ps.
const VELOCITY: f64 = 20.455;

static INFO: FormatInfo = FormatInfo {
    name: NAME,
    extensions: &["nc", "ncdf", "netcdf", "ncrst"],
    file_names: &[],
    description: "AMBER's NetCDF trajectory and restart (CDF-1, CDF-2, CDF-5, NetCDF-4) and DL_POLY's NetCDF history (NetCDF-4): \
        positions, velocities, forces, cell, time; steps of DL_POLY",
    reads: true,
    writes: true,
    encodes: true,
    places_atoms: true,
    fields: Fields::POSITIONS.union(Fields::VELOCITIES).union(Fields::FORCES).union(Fields::CELL).union(Fields::TIME),
    length_unit: "angstrom",
    time_unit: "ps (velocities are in angstrom/ps divided by 20.455, forces in kcal/(mol angstrom))",
    scales: Scales { length: 1.0, velocity: VELOCITY, force: KILOCALORIE, time: 1.0 },
    reference: "AMBER NetCDF Trajectory Convention 1.0 rev. C; DL_POLY 4.10, source/netcdf.F90; NetCDF Users' Guide",
};

/// Contents of a segment.
mod part {
    /// Positions; velocities and forces follow.
    pub const VECTORS: u32 = 0;
    /// The time.
    pub const TIME: u32 = 3;
    /// Lengths and angles of the cell, and the bytes between them.
    pub const CELL: u32 = 4;
}

/// The NetCDF format.
#[derive(Debug, Clone, Copy)]
pub struct Netcdf;

impl Format for Netcdf {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn sniff(&self, head: &[u8]) -> bool {
        netcdf3::Header::sniff(head)
    }

    fn open(&self, source: &dyn Source) -> Result<Arc<dyn Decoder>> {
        self.open_with(source, None, &StatedUnits::default())
    }

    fn open_with(
        &self,
        source: &dyn Source,
        structure: Option<&dyn ReadStructure>,
        stated: &StatedUnits,
    ) -> Result<Arc<dyn Decoder>> {
        if let Some(structure) = structure
            && hdf5::is_hdf5(source)?
        {
            return structure.open(source.path());
        }
        let place = |error: Error| error.with_format(NAME).with_path(source.path());
        let header = netcdf3::Header::read(source).map_err(|error| error.with_format(NAME))?;
        let layout = Layout::from_header(&header, stated).map_err(place)?;
        let decoder = NetcdfDecoder::new(&header, layout, source.len()?);
        Ok(Arc::new(decoder))
    }

    fn encoder(&self, making: &Making) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(encode::NetcdfEncoder::new(making)?))
    }

    fn resume(&self, source: &dyn Source, _: &Index, making: &Making) -> Result<Box<dyn Encoder>> {
        let header = netcdf3::Header::read(source)?;
        let layout = Layout::from_header(&header, &StatedUnits::default())?;
        Ok(Box::new(encode::NetcdfEncoder::resume(&header, &layout, making)?))
    }
}

/// Facts of a file's header for code that copies records.
#[derive(Debug, Clone)]
pub struct Head {
    /// All bytes before the first frame.
    pub data: Vec<u8>,
    /// Where the first frame begins; beyond `data` in a file that ends before.
    pub first: u64,
    /// Bytes of the number of records, which stands at byte 4: 4 or 8.
    pub count_len: u64,
    /// Bytes from frame to frame; 0 for a restart, whose one frame is not a record.
    pub stride: u64,
    /// Bytes of a frame that must be there.
    pub frame_len: u64,
}

impl Head {
    /// # Errors
    /// Errors of opening the file.
    pub fn read(source: &dyn Source) -> Result<Self> {
        let header = netcdf3::Header::read(source)?;
        let Layout { first, stride, frame_len, .. } = Layout::from_header(&header, &StatedUnits::default())?;
        let mut data = vec![0; first.min(source.len()?) as usize];
        source.read_exact_at(0, &mut data)?;
        let count_len = if header.version == netcdf3::Version::Data64 { 8 } else { 4 };
        Ok(Self { data, first, count_len, stride, frame_len })
    }
}

/// Finds and decodes the frames of one file.
#[derive(Debug)]
struct NetcdfDecoder {
    header: Header,
    facts: Facts,
    layout: Layout,
    /// Records by the header; `None`: by the size of the file.
    records: Option<u64>,
    /// Which of the parts that stamps are made of lies first in a frame.
    first_part: u32,
    /// Offset within a frame and length of the bytes that the cell is read from.
    cell_extent: Extent,
}

impl NetcdfDecoder {
    fn new(header: &netcdf3::Header, layout: Layout, size: u64) -> Self {
        let cell = if layout.cell.is_some() { Fields::CELL } else { Fields::NONE };
        let time = if layout.time.is_some() { Fields::TIME } else { Fields::NONE };
        let attribute = |name: &str| text(&header.attributes, name).unwrap_or_default();
        let version = match header.version {
            netcdf3::Version::Classic => 1,
            netcdf3::Version::Offset64 => 2,
            netcdf3::Version::Data64 => 5,
        };
        let kind = if layout.restart { "restart" } else { "trajectory" };
        let double = layout.vectors.iter().flatten().any(|column| column.double);
        let mut warnings = Vec::new();
        let records = if layout.restart { Some(1) } else { header.records };
        let there = frames_in(&layout, size);
        if let Some(records) = records.filter(|&records| records < there) {
            warnings.push(format!("header says {records} frames, file holds {there}: later frames are not committed"));
        }
        warnings.extend(layout.left_out.iter().cloned());
        let left_out = layout.left_out.iter().any(|why| why.starts_with("variable \"time\""));
        if layout.time.is_none() && header.variable("time").is_some() && !left_out {
            warnings.push("the variable \"time\" has no value for each frame: times are unknown".to_owned());
        }
        let stamps = [(part::TIME, layout.time), (part::CELL, layout.cell.map(|(lengths, _)| lengths))];
        let parts = stamps.into_iter().chain((0..3).map(|i| (part::VECTORS + i as u32, layout.vectors[i])));
        let there = parts.filter_map(|(number, column)| column.map(|column| (column.begin, number)));
        // stamps before vectors: these are not always read
        let stamp_part = there.clone().filter(|(_, number)| *number >= part::TIME).min();
        let first_part = stamp_part.or(there.min()).map_or(part::VECTORS, |(_, number)| number);
        let cell_extent = layout.cell.map_or(Extent::default(), |(lengths, angles)| {
            let start = lengths.begin.min(angles.begin);
            let end = (lengths.begin + 3 * lengths.width()).max(angles.begin + 3 * angles.width());
            Extent { offset: start - layout.first, len: end - start }
        });
        let header = Header {
            n_atoms: layout.n_atoms,
            fields: layout.fields() | cell | time,
            remarks: [attribute("title"), attribute("application"), attribute("program"), attribute("programVersion")]
                .into_iter()
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
                .collect(),
            variant: format!(
                "CDF-{version}, AMBER {kind}, {}",
                if double { "double precision" } else { "single precision" }
            ),
            warnings,
        };
        let facts = facts(&layout);
        Self { header, facts, layout, records, first_part, cell_extent }
    }

    fn frame_at(&self, frame: u64) -> u64 {
        self.layout.first.saturating_add(frame.saturating_mul(self.layout.stride))
    }
}

fn facts(layout: &Layout) -> Facts {
    let factor = |i: usize, usual: f64| layout.vectors[i].map_or(usual, |column| column.factor);
    let is_wide = |column: &Option<Column>| column.is_some_and(|column| column.double);
    let wide = Fields::VECTORS.into_iter().zip(&layout.vectors).filter(|(_, column)| is_wide(column));
    Facts {
        scales: Some(Scales {
            length: factor(0, 1.0),
            velocity: factor(1, VELOCITY),
            force: factor(2, KILOCALORIE),
            time: layout.time.map_or(1.0, |column| column.factor),
        }),
        has_stated_units: true,
        fills: layout.vectors.each_ref().map(|column| column.map_or(Vec::new(), |column| column.fills.to_vec())),
        wide_fields: wide.fold(Fields::NONE, |all, (field, _)| all | field),
        ..Facts::PLAIN
    }
}

/// Frames that are whole in a file of `size` bytes.
fn frames_in(layout: &Layout, size: u64) -> u64 {
    match size.checked_sub(layout.first).and_then(|there| there.checked_sub(layout.frame_len)) {
        None => 0,
        Some(_) if layout.stride == 0 => 1,
        // the last may lack what only separates it from the next
        Some(rest) => rest / layout.stride + 1,
    }
}

fn number(bytes: &[u8], at: usize, double: bool) -> f64 {
    let found = if double { xdr::double(bytes, at) } else { xdr::float(bytes, at).map(f64::from) };
    found.unwrap_or(f64::NAN)
}

/// A number, or NaN if it was never written; and whether it was never written.
fn written(bytes: &[u8], at: usize, column: &Column) -> (f64, bool) {
    let found = number(bytes, at, column.double);
    if column.is_fill(found) { (f64::NAN, true) } else { (found, false) }
}

impl UniformFrames for NetcdfDecoder {
    fn name(&self) -> &'static str {
        NAME
    }

    fn places(&self, source: &dyn Source) -> Result<(UniformIndex, Option<Error>)> {
        let size = source.len()?;
        let there = frames_in(&self.layout, size);
        let n_frames = self.records.map_or(there, |records| records.min(there));
        let rest = size.saturating_sub(self.frame_at(there));
        let lacking = self.records.is_some_and(|records| records > there);
        // if only the padding of the last record is missing, the rest is less than a frame too
        let cut = self.records.is_none()
            && rest > 0
            && size > self.frame_at(there.saturating_sub(1)).saturating_add(self.layout.stride);
        let truncation = (lacking || cut).then(|| lacks_frames(self.records, there, self.frame_at(there), rest));
        let Layout { first, frame_len, stride, .. } = self.layout;
        let (first, stride) = (Extent { offset: first, len: frame_len }, stride.max(frame_len));
        Ok((UniformIndex { n_frames, first, stride, spacing: None, steps: None, times: None }, truncation))
    }

    fn stamps(&self) -> Option<FrameStamps<'_>> {
        let column = self.layout.time.as_ref()?;
        let read = |bytes: &[u8], _| {
            let (time, filled) = written(bytes, 0, column);
            Ok(FrameStamp { step: 0, time, is_written: !filled })
        };
        let offset = column.begin - self.layout.first;
        Some(FrameStamps { offset, len: column.width(), has_steps: false, read: Box::new(read) })
    }
}

impl Decoder for NetcdfDecoder {
    fn header(&self) -> &Header {
        &self.header
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn arrangement(&self) -> Arrangement<'_> {
        Arrangement::Uniform(self)
    }

    fn unwritten_numbers(&self, bytes: &[u8]) -> (usize, usize) {
        let (mut unwritten, mut zeros, mut all) = (0, 0, 0);
        for column in self.layout.vectors.iter().flatten() {
            let width = column.width() as usize;
            let start = bytes.len().min((column.begin - self.layout.first) as usize);
            let end = bytes.len().min(start.saturating_add(3 * width * self.layout.n_atoms as usize));
            for bytes in bytes[start..end].chunks_exact(width) {
                all += 1;
                unwritten += usize::from(written(bytes, 0, column).1);
                zeros += usize::from(bytes.iter().all(|&byte| byte == 0));
            }
        }
        // a part of it may be zeros, and a time may stand before them
        (if unwritten + zeros == all { all } else { unwritten }, all)
    }

    fn segments(&self, index: &Index, wanted: &[Wanted], request: &Request, segments: &mut Vec<Segment>) -> Result<()> {
        let runs = request.atoms.runs((MAX_GAP / 12) as u32);
        for (i, one) in wanted.iter().enumerate() {
            one.check_indexed(index, NAME)?;
            let (first, i) = (segments.len(), i as u32);
            let shift = one.frame * self.layout.stride;
            let mut push = |part: u32, atoms: Range<u32>, offset: u64, len: u64| {
                let extent = Extent { offset, len };
                segments.push(Segment { wanted: i..i + 1, atoms, part, extent, whole: extent });
            };
            if let Some(time) = &self.layout.time {
                push(part::TIME, 0..0, time.begin + shift, time.width());
            }
            if self.layout.cell.is_some() {
                push(part::CELL, 0..0, self.frame_at(one.frame) + self.cell_extent.offset, self.cell_extent.len);
            }
            for (number, (field, column)) in Fields::VECTORS.into_iter().zip(&self.layout.vectors).enumerate() {
                let Some(column) = column else { continue };
                let number = number as u32;
                if request.fields.contains(field) {
                    for run in &runs {
                        let offset = column.begin + shift + 3 * column.width() * u64::from(run.start);
                        let len = 3 * column.width() * u64::from(run.end - run.start);
                        push(part::VECTORS + number, run.clone(), offset, len);
                    }
                } else if self.first_part == part::VECTORS + number {
                    // nothing else says that the frame is there
                    push(part::VECTORS + number, 0..0, column.begin + shift, column.width().min(self.layout.frame_len));
                }
            }
            if request.atoms.is_empty() && self.first_part < part::TIME && segments.len() == first {
                let at = self.frame_at(one.frame);
                let extent = Extent { offset: at, len: self.layout.frame_len.min(4) };
                segments.push(Segment { wanted: i..i + 1, atoms: 0..0, part: self.first_part, extent, whole: extent });
            }
            segments[first..].sort_by_key(|segment| segment.extent.offset);
        }
        Ok(())
    }

    fn decode(&self, given: SegmentBytes<'_>, out: &mut BlockMut<'_>, scratch: &mut Scratch) -> Result<Decoded> {
        let SegmentBytes { segment, bytes, request, .. } = given;
        if let Some(longer) = given.whole_needed() {
            return Ok(longer);
        }
        let one = given.first_wanted(NAME)?;
        let row = one.row as usize;
        if segment.part == self.first_part {
            let step = i64::try_from(one.frame).unwrap_or(i64::MAX);
            let cell = if self.layout.unknown_cell { NOT_A_CELL } else { NO_CELL };
            *out.stamp(row)? = Stamp { step, cell, present: self.layout.fields(), ..Stamp::default() };
        }
        match segment.part {
            part::TIME => {
                let (time, filled) = self.layout.time.map_or((f64::NAN, false), |column| written(bytes, 0, &column));
                if filled {
                    scratch.without_time = Some(scratch.without_time.map_or(one.frame, |first| first.min(one.frame)));
                }
                out.stamp(row)?.time = time * request.scales.time;
            }
            part::CELL => {
                let cell = self.cell(bytes, request.scales.length);
                let stamp = out.stamp(row)?;
                stamp.cell = cell;
                if cell != NO_CELL {
                    stamp.present = stamp.present | Fields::CELL;
                }
            }
            part => {
                let number = (part - part::VECTORS) as usize;
                let scales = [request.scales.length, request.scales.velocity, request.scales.force];
                let column = self.layout.vectors.get(number).copied().flatten();
                let Some((column, factor)) = column.zip(scales.get(number).copied()) else {
                    return Err(
                        Error::new(ErrorKind::Internal, "the segment is of no field of the file").with_format(NAME)
                    );
                };
                if request.atoms.n_atoms() != self.layout.n_atoms || request.atoms.len() != out.n_selected {
                    return Err(Error::new(ErrorKind::Internal, "the block is not made for this selection of atoms"));
                }
                if !segment.atoms.is_empty() {
                    let (double, first, atoms) = (column.double, segment.atoms.start, request.atoms.indices());
                    let vectors = BigEndianVectors { bytes, double, first, atoms, factor };
                    vectors.put(&mut out.vectors[number], row, out.n_selected)?;
                }
            }
        }
        Ok(Decoded::Done)
    }
}

impl NetcdfDecoder {
    /// The cell from the bytes of lengths and angles, `length` times that in the unit of positions.
    fn cell(&self, bytes: &[u8], length: f64) -> Cell {
        let Some((lengths, angles)) = &self.layout.cell else { return NO_CELL };
        let start = self.layout.first + self.cell_extent.offset;
        let three = |column: &Column| {
            let at = |i: u64| (column.begin - start + i * column.width()) as usize;
            [0, 1, 2].map(|i| written(bytes, at(i), column).0)
        };
        // a scale factor may be negative, and the numbers with it
        let sizes = three(lengths).map(|size| size * lengths.factor.signum());
        let degrees = three(angles).map(|angle| angle * angles.factor);
        // lengths may have another unit, or factor, than positions
        let of_positions = self.layout.vectors[0].map_or(1.0, |column| column.factor);
        let factor = if lengths.factor == of_positions { length } else { length * (lengths.factor / of_positions) };
        cell_of(sizes, degrees).map(|vector| vector.map(|value| value * factor.abs()))
    }
}

/// The cell of lengths and angles in degrees: [`NO_CELL`] if all lengths are 0, [`NOT_A_CELL`] if there is none of them.
pub fn cell_of(lengths: [f64; 3], degrees: [f64; 3]) -> Cell {
    if lengths == [0.0; 3] {
        return NO_CELL;
    }
    // of an edge without a length programs leave anything in the angles
    let open = lengths.map(|length| length == 0.0);
    let angle = |i: usize| if open[(i + 1) % 3] || open[(i + 2) % 3] { 90.0 } else { degrees[i] };
    let degrees = [0, 1, 2].map(angle);
    let sound = degrees.iter().all(|angle| (0.0..=180.0).contains(angle));
    let cell = if sound { from_lengths(lengths, degrees.map(cosine_of_degrees)) } else { None };
    cell.unwrap_or(NOT_A_CELL)
}

/// Lengths and angles in degrees of a cell, right angles of edges without a length: what [`cell_of`] makes it of.
pub fn lengths_and_degrees(cell: &Cell) -> ([f64; 3], [f64; 3]) {
    let (lengths, cosines) = lengths_and_cosines(cell);
    (lengths, cosines.map(degrees_of_cosine))
}
