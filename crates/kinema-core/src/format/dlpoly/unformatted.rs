//! Unformatted HISTORY, as DL_POLY 2 and DL_POLY Classic write it: Fortran records of float64, one plane a coordinate.
//!
//! Source: the DL_POLY_2 manual, HISTORY file. The head is the title, the number of atoms, and their names, masses and
//! charges; a frame is a record of five numbers, the cell if there is one, and three planes for each vector of an atom.

use std::sync::Arc;

use super::atoms::AtomNames;
use super::history::NAME;
use super::{fields_of, shape_of, warning_of};
use crate::container::fortran::Layout;
use crate::error::{Error, ErrorKind, Result};
use crate::format::planes::{PlaneRuns, gather_run, interleave};
use crate::format::scan::uniform::incomplete;
use crate::format::{Arrangement, Decoded, Decoder, Facts, FrameStamp, FrameStamps, HEAD_BYTES, Header};
use crate::format::{Request, Scratch, Segment, SegmentBytes, UniformFrames, Wanted};
use crate::frame::{BlockMut, Cell, Fields, NO_CELL, Real, Stamp, VectorsMut};
use crate::index::{Index, UniformIndex};
use crate::source::{Extent, Source};

/// Bytes of the title.
const TITLE: u64 = 80;
/// Bytes of the record that begins a frame.
const FRAME_HEAD: u64 = 40;
/// Bytes of the record of the cell.
const CELL: u64 = 72;
/// Numbers beyond which float64 does not hold all whole ones.
const WHOLE: f64 = (1_u64 << 53) as f64;

/// Contents of a segment.
mod part {
    /// A frame, or its first planes.
    pub const FRAME: u32 = 0;
    /// The records before the planes.
    pub const HEAD: u32 = 1;
    /// A run of atoms of the x plane of positions; y and z follow, then the planes of velocities and forces.
    pub const X: u32 = 2;
}

/// Whether a file that begins so is one: a title, and a record of one whole number.
pub(super) fn sniff(head: &[u8]) -> bool {
    Layout::detect(head, TITLE as u32).is_some_and(|layout| {
        let number = layout.payload(head, layout.record_len(TITLE), 8).ok().and_then(<[u8]>::first_chunk);
        layout.payload(head, 0, TITLE).is_ok() && number.is_some_and(|bytes| whole(layout.double(*bytes)).is_some())
    })
}

fn whole(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && value.abs() <= WHOLE).then_some(value as i64)
}

/// The record at byte `at` of `bytes`, which must have `len` bytes; `bytes` begins at byte `base` of the file.
fn record<'b>(layout: Layout, bytes: &'b [u8], base: u64, at: u64, len: u64, name: &str) -> Result<&'b [u8]> {
    layout
        .payload(bytes, at, len)
        .map_err(|(at, found)| wrong_length(name, len, found).with_byte(base.saturating_add(at)))
}

fn wrong_length(name: &str, expected: u64, found: Option<u64>) -> Error {
    let found = found.map_or("none".to_owned(), |found| found.to_string());
    Error::corrupt(&format!("record length of the {name}"), expected, found)
}

/// Contents of the first records of a file and of the head of its first frame.
#[derive(Debug, Clone)]
struct Shape {
    layout: Layout,
    title: String,
    n_atoms: u32,
    keytrj: i64,
    imcon: i64,
    /// Where names, masses and charges are, and the first frame.
    atoms: [u64; 3],
    first: u64,
}

/// Contents of the record that begins a frame.
#[derive(Debug, Clone, Copy)]
struct FrameHead {
    step: i64,
    n_atoms: i64,
    keytrj: i64,
    imcon: i64,
    time: f64,
}

impl FrameHead {
    /// That of the frame whose bytes begin at byte `at` of the file.
    fn parse(layout: Layout, bytes: &[u8], at: u64) -> Result<Self> {
        let record = record(layout, bytes, at, 0, FRAME_HEAD, "head of a frame")?;
        let value = |number: usize| record.as_chunks::<8>().0.get(number).map_or(f64::NAN, |it| layout.double(*it));
        let place = |number: usize| at.saturating_add(layout.marker_len() + 8 * number as u64);
        let integer = |number, name: &str| {
            whole(value(number))
                .ok_or_else(|| Error::corrupt(name, "a whole number", value(number)).with_byte(place(number)))
        };
        let (step, n_atoms) = (integer(0, "step")?, integer(1, "number of atoms")?);
        let (keytrj, imcon) = (integer(2, "keytrj")?, integer(3, "imcon")?);
        if !(0..=2).contains(&keytrj) {
            return Err(Error::corrupt("keytrj", "0 to 2", keytrj).with_byte(place(2)));
        }
        if !(0..=7).contains(&imcon) {
            return Err(Error::corrupt("imcon", "0 to 7", imcon).with_byte(place(3)));
        }
        let time = step as f64 * value(4);
        if !time.is_finite() {
            return Err(Error::corrupt("time step", "a number", value(4)).with_byte(place(4)));
        }
        Ok(Self { step, n_atoms, keytrj, imcon, time })
    }
}

impl Shape {
    fn read(source: &dyn Source) -> Result<Self> {
        let size = source.len()?;
        let mut head = vec![0; size.min(HEAD_BYTES) as usize];
        source.read_exact_at(0, &mut head)?;
        let layout =
            Layout::detect(&head, TITLE as u32).ok_or_else(|| wrong_length("title", TITLE, None).with_byte(0))?;
        let title = record(layout, &head, 0, 0, TITLE, "title")?;
        let second = layout.record_len(TITLE);
        let number = record(layout, &head, 0, second, 8, "number of atoms")?.first_chunk();
        let number = number.map_or(f64::NAN, |bytes| layout.double(*bytes));
        let n_atoms = whole(number).and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 0);
        let n_atoms = n_atoms.ok_or_else(|| {
            let at = second + layout.marker_len();
            Error::corrupt("number of atoms", "1 to 2^32 - 1", number).with_byte(at)
        })?;
        let payload = 8 * u64::from(n_atoms);
        let names = second + layout.record_len(8);
        let atoms = [0, 1, 2].map(|i| names + i * layout.record_len(payload));
        for (at, name) in atoms.into_iter().zip(["names of the atoms", "masses of the atoms", "charges of the atoms"]) {
            for at in [at, at + layout.marker_len() + payload] {
                let mut marker = vec![0; layout.marker_len() as usize];
                Self::read_head(source, size, at, &mut marker)?;
                match layout.marker(&marker) {
                    Some(found) if found == payload => {}
                    found => return Err(wrong_length(name, payload, found).with_byte(at)),
                }
            }
        }
        let first = atoms[2] + layout.record_len(payload);
        let mut bytes = vec![0; layout.record_len(FRAME_HEAD) as usize];
        Self::read_head(source, size, first, &mut bytes).map_err(|error| error.with_frame(0))?;
        let frame = FrameHead::parse(layout, &bytes, first).map_err(|error| error.with_frame(0))?;
        let title = String::from_utf8_lossy(title.trim_ascii()).into_owned();
        let shape = Self { layout, title, n_atoms, keytrj: frame.keytrj, imcon: frame.imcon, atoms, first };
        shape.check(&frame, first).map_err(|error| error.with_frame(0))?;
        Ok(shape)
    }

    /// Reads bytes before the planes of the first frame, which the file must have.
    fn read_head(source: &dyn Source, size: u64, at: u64, bytes: &mut [u8]) -> Result<()> {
        let end = at.saturating_add(bytes.len() as u64);
        if end > size {
            let what = format!("the file ends before its first frame, expected {end} bytes or more, found {size}");
            return Err(Error::new(ErrorKind::Truncated, what).with_byte(at.min(size)));
        }
        source.read_exact_at(at, bytes)
    }

    /// The head of a frame that begins at byte `at`, which must say what the first one does.
    fn frame_head(&self, bytes: &[u8], at: u64) -> Result<FrameHead> {
        let head = FrameHead::parse(self.layout, bytes, at)?;
        self.check(&head, at)?;
        Ok(head)
    }

    fn check(&self, head: &FrameHead, at: u64) -> Result<()> {
        let said = [
            ("number of atoms", "in the file's head", i64::from(self.n_atoms), head.n_atoms),
            ("keytrj", "in the first frame", self.keytrj, head.keytrj),
            ("imcon", "in the first frame", self.imcon, head.imcon),
        ];
        for ((name, place, expected, found), number) in said.into_iter().zip(1..) {
            if found != expected {
                let at = at.saturating_add(self.layout.marker_len() + 8 * number);
                return Err(Error::corrupt(name, format!("{expected} as {place}"), found).with_byte(at));
            }
        }
        Ok(())
    }

    fn levels(&self) -> usize {
        1 + self.keytrj as usize
    }

    /// Bytes of a frame before its planes.
    fn head_len(&self) -> u64 {
        self.layout.record_len(FRAME_HEAD) + if self.imcon > 0 { self.layout.record_len(CELL) } else { 0 }
    }

    fn plane_len(&self) -> u64 {
        self.layout.record_len(8 * u64::from(self.n_atoms))
    }

    /// Bytes of a frame up to the end of the planes of level `levels`.
    fn len_of(&self, levels: usize) -> u64 {
        self.head_len() + 3 * levels as u64 * self.plane_len()
    }

    fn stride(&self) -> u64 {
        self.len_of(self.levels())
    }

    /// The cell of the frame whose bytes begin at byte `at`.
    fn cell(&self, bytes: &[u8], at: u64, factor: f64) -> Result<Cell> {
        if self.imcon == 0 {
            return Ok(NO_CELL);
        }
        let start = self.layout.record_len(FRAME_HEAD);
        let numbers = record(self.layout, bytes, at, start, CELL, "cell")?.as_chunks::<8>().0;
        let mut cell = NO_CELL;
        cell.iter_mut().flatten().zip(numbers).for_each(|(value, bytes)| *value = self.layout.double(*bytes));
        Ok(cell.map(|vector| vector.map(|value| value * factor)))
    }

    /// Checks the record lengths of the planes of a level; its x, y and z planes.
    fn planes<'b>(&self, bytes: &'b [u8], at: u64, level: usize) -> Result<[&'b [[u8; 8]]; 3]> {
        let (of, payload) = (["positions", "velocities", "forces"][level], 8 * u64::from(self.n_atoms));
        let mut planes: [&[[u8; 8]]; 3] = [&[]; 3];
        for (axis, (plane, letter)) in planes.iter_mut().zip(["x", "y", "z"]).enumerate() {
            let start = self.len_of(level) + axis as u64 * self.plane_len();
            let name = format!("{letter} plane of the {of}");
            *plane = record(self.layout, bytes, at, start, payload, &name)?.as_chunks::<8>().0;
        }
        Ok(planes)
    }
}

/// Opens a file of Fortran records.
pub(super) fn open(source: &dyn Source) -> Result<Arc<dyn Decoder>> {
    let shape = Shape::read(source).map_err(|error| error.with_format(NAME).with_path(source.path()))?;
    let cell = if shape.imcon == 0 { Fields::NONE } else { Fields::CELL };
    let order = if shape.layout.big_endian { "big-endian" } else { "little-endian" };
    let markers = if shape.layout.wide_markers { ", 8-byte record lengths" } else { "" };
    let header = Header {
        n_atoms: shape.n_atoms,
        fields: fields_of(shape.levels()) | cell | Fields::STEP | Fields::TIME,
        remarks: Some(shape.title.clone()).filter(|title| !title.is_empty()).into_iter().collect(),
        variant: format!("unformatted, keytrj {}, {}, {order}{markers}", shape.keytrj, shape_of(shape.imcon)),
        warnings: warning_of(shape.imcon).into_iter().collect(),
    };
    let facts = Facts { wide_fields: fields_of(shape.levels()), ..Facts::PLAIN };
    Ok(Arc::new(UnformattedDecoder { header, facts, shape }))
}

/// Names, masses and charges, which the file's head has.
/// Errors of opening the file.
pub(super) fn read_atoms(source: &dyn Source) -> Result<AtomNames> {
    let read = || -> Result<AtomNames> {
        let shape = Shape::read(source)?;
        let [names, masses, charges] = shape.atoms.map(|at| -> Result<Vec<[u8; 8]>> {
            let mut bytes = vec![0; 8 * shape.n_atoms as usize];
            source.read_exact_at(at + shape.layout.marker_len(), &mut bytes)?;
            Ok(bytes.as_chunks::<8>().0.to_vec())
        });
        let names = names?.iter().map(|name| String::from_utf8_lossy(name.trim_ascii()).into_owned()).collect();
        let numbers = |bytes: Vec<[u8; 8]>| bytes.into_iter().map(|it| shape.layout.double(it)).collect();
        Ok(AtomNames { names, masses: Some(numbers(masses?)), charges: Some(numbers(charges?)) })
    };
    read().map_err(|error| error.with_format(NAME).with_path(source.path()))
}

/// Finds and decodes the frames of one file.
#[derive(Debug)]
struct UnformattedDecoder {
    header: Header,
    facts: Facts,
    shape: Shape,
}

impl UniformFrames for UnformattedDecoder {
    fn name(&self) -> &'static str {
        NAME
    }

    fn places(&self, source: &dyn Source) -> Result<(UniformIndex, Option<Error>)> {
        let (size, first, stride) = (source.len()?, self.shape.first, self.shape.stride());
        let (n_frames, rest) = (size.saturating_sub(first) / stride, size.saturating_sub(first) % stride);
        let truncation = (rest > 0).then(|| incomplete(n_frames, size - rest, stride, rest));
        let first = Extent { offset: first, len: stride };
        Ok((UniformIndex { n_frames, first, stride, spacing: None, steps: None, times: None }, truncation))
    }

    fn stamps(&self) -> Option<FrameStamps<'_>> {
        let read = |bytes: &[u8], at| {
            let head = self.shape.frame_head(bytes, at)?;
            Ok(FrameStamp { step: head.step, time: head.time, is_written: true })
        };
        let len = self.shape.layout.record_len(FRAME_HEAD);
        Some(FrameStamps { offset: 0, len, has_steps: true, read: Box::new(read) })
    }
}

impl Decoder for UnformattedDecoder {
    fn header(&self) -> &Header {
        &self.header
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn arrangement(&self) -> Arrangement<'_> {
        Arrangement::Uniform(self)
    }

    fn segments(&self, index: &Index, wanted: &[Wanted], request: &Request, segments: &mut Vec<Segment>) -> Result<()> {
        let shape = &self.shape;
        let is_wanted = |level: &usize| request.fields.contains(Fields::VECTORS[*level]);
        let levels: Vec<usize> = (0..shape.levels()).filter(is_wanted).collect();
        let runs = PlaneRuns::new(&request.atoms, 8);
        for (i, one) in (0_u32..).zip(wanted) {
            let frame = index.extent(one.frame);
            if one.frame >= index.n_frames() || frame.len != shape.stride() {
                let what = format!("the index does not fit the file at frame {}", one.frame);
                return Err(Error::new(ErrorKind::Internal, what).with_format(NAME));
            }
            let mut push = |part: u32, atoms: std::ops::Range<u32>, extent: Extent| {
                segments.push(Segment { wanted: i..i + 1, atoms, part, extent, whole: extent });
            };
            let needed = shape.len_of(levels.last().map_or(0, |last| last + 1));
            if !levels.is_empty() && runs.need_whole(needed) {
                push(part::FRAME, 0..shape.n_atoms, Extent { len: needed, ..frame });
                continue;
            }
            push(part::HEAD, 0..0, Extent { len: shape.head_len(), ..frame });
            for plane in levels.iter().flat_map(|level| 3 * level..3 * level + 3) {
                let start = frame.offset + shape.head_len() + plane as u64 * shape.plane_len();
                for (run, extent) in runs.plane_extents(start + shape.layout.marker_len()) {
                    push(part::X + plane as u32, run, extent);
                }
            }
        }
        Ok(())
    }

    fn decode(&self, given: SegmentBytes<'_>, out: &mut BlockMut<'_>, _: &mut Scratch) -> Result<Decoded> {
        if let Some(longer) = given.whole_needed() {
            return Ok(longer);
        }
        let one = given.first_wanted(NAME)?;
        let decoded = self.part(given, one.row as usize, out);
        decoded
            .map_err(|error| error.with_byte(given.segment.extent.offset).with_frame(one.frame).with_format(NAME))?;
        Ok(Decoded::Done)
    }
}

/// Bytes of the planes of a frame.
enum Planes<'a> {
    /// x, y and z of all atoms.
    Whole([&'a [[u8; 8]]; 3]),
    /// Some atoms of one plane: their numbers, which plane, and the segment that says which atoms.
    Run(&'a [[u8; 8]], usize, &'a Segment),
}

impl UnformattedDecoder {
    fn part(&self, given: SegmentBytes<'_>, row: usize, out: &mut BlockMut<'_>) -> Result<()> {
        let SegmentBytes { segment, bytes, request, .. } = given;
        let (shape, at) = (&self.shape, segment.extent.offset);
        if let Some(plane) = segment.part.checked_sub(part::X) {
            let (level, axis) = (plane as usize / 3, plane as usize % 3);
            return self.put(level, &Planes::Run(bytes.as_chunks::<8>().0, axis, segment), row, request, out);
        }
        let head = shape.frame_head(bytes, at)?;
        let cell = shape.cell(bytes, at, request.scales.length)?;
        let there = if cell == NO_CELL { Fields::NONE } else { Fields::CELL };
        let present = fields_of(shape.levels()) | there;
        *out.stamp(row)? = Stamp {
            cell,
            periodic: super::periodic_of(shape.imcon),
            step: head.step,
            time: head.time * request.scales.time,
            present,
        };
        if segment.part == part::FRAME {
            for level in (0..shape.levels()).filter(|&level| request.fields.contains(Fields::VECTORS[level])) {
                self.put(level, &Planes::Whole(shape.planes(bytes, at, level)?), row, request, out)?;
            }
        }
        Ok(())
    }

    /// The selected atoms of one level into their row.
    fn put(
        &self,
        level: usize,
        planes: &Planes<'_>,
        row: usize,
        request: &Request,
        out: &mut BlockMut<'_>,
    ) -> Result<()> {
        let n = request.atoms.len();
        if n != out.n_selected || request.atoms.n_atoms() != self.shape.n_atoms {
            return Err(Error::new(ErrorKind::Internal, "the block is not made for this selection of atoms"));
        }
        let factor = [request.scales.length, request.scales.velocity, request.scales.force][level];
        match &mut out.vectors[level] {
            VectorsMut::Absent => {}
            VectorsMut::F32(rows) => self.fill(planes, request, factor, rows.row(row, 3 * n)?),
            VectorsMut::F64(rows) => self.fill(planes, request, factor, rows.row(row, 3 * n)?),
        }
        Ok(())
    }

    fn fill<R: Real>(&self, planes: &Planes<'_>, request: &Request, factor: f64, values: &mut [R]) {
        let values = values.as_chunks_mut::<3>().0;
        let layout = self.shape.layout;
        match *planes {
            Planes::Whole(planes) if layout.big_endian => {
                let number = |bytes| R::scaled(f64::from_be_bytes(bytes), factor);
                interleave(planes, request.atoms.indices(), values, number);
            }
            Planes::Whole(planes) => {
                let number = |bytes| R::scaled(f64::from_le_bytes(bytes), factor);
                interleave(planes, request.atoms.indices(), values, number);
            }
            Planes::Run(plane, axis, segment) => {
                let number = |bytes| R::scaled(layout.double(bytes), factor);
                gather_run(plane, axis, segment, request, values, number);
            }
        }
    }
}
