//! GROMOS-96 text as GROMACS writes it: blocks TITLE, TIMESTEP, POSITION or POSITIONRED, VELOCITY or VELOCITYRED, BOX.
//!
//! A frame begins with TITLE, or with TIMESTEP if the file has only one title. The first frame shows which blocks
//! follow and how many lines they have; velocities may be in some frames only, if frames end with BOX.

mod encode;
mod shape;

use std::sync::Arc;

use self::shape::{BOX, COLUMN, END, POSITION, Shape, VELOCITY, skipped, trimmed};
use super::lines::{TextHeads, head_of, shown};
use super::scan::HeaderFault;
use super::{Arrangement, Decoded, Decoder, Encoder, Facts, Format, FormatInfo, Header, Making};
use super::{Request, Scratch, Segment, SegmentBytes, Wanted};
use crate::container::text::lines::line_len;
use crate::container::text::{parse_f64, parse_reals};
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{BlockMut, Cell, Fields, NO_CELL, Real, Scales, Stamp, VectorsMut};
use crate::index::Index;
use crate::source::{Extent, Source};

/// The name in messages.
const NAME: &str = "G96";
/// Bytes that are read of any frame: they hold its head if the head has the usual length.
const FRAME_HEAD: u64 = 512;
/// Bytes at the end of a frame that hold its cell.
const TAIL: u64 = 512;
/// Columns before the vectors of POSITION and VELOCITY: residue, name and number of the atom.
const LABELS: usize = 24;

static INFO: FormatInfo = FormatInfo {
    name: NAME,
    extensions: &["g96"],
    file_names: &[],
    description: "GROMOS-96 text of GROMACS: positions, velocities, cell, step, time; 9 decimals",
    reads: true,
    writes: true,
    encodes: true,
    places_atoms: false,
    fields: Fields::POSITIONS.union(Fields::VELOCITIES).union(Fields::CELL).union(Fields::STEP).union(Fields::TIME),
    length_unit: "nm",
    time_unit: "ps",
    scales: Scales { length: 10.0, velocity: 10.0, force: 0.1, time: 1.0 },
    reference: "GROMACS manual, file format g96",
};

/// The G96 format.
#[derive(Debug, Clone, Copy)]
pub struct G96;

impl Format for G96 {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn sniff(&self, head: &[u8]) -> bool {
        shape::sniff(head)
    }

    // trajectories of GROMOS11, with the block GENBOX
    fn has_foreign_variants(&self) -> bool {
        true
    }

    fn open(&self, source: &dyn Source) -> Result<Arc<dyn Decoder>> {
        let (shape, title) = Shape::read(source)?;
        let velocities = if shape.velocities { Fields::VELOCITIES } else { Fields::NONE };
        let cell = if shape.cell { Fields::CELL } else { Fields::NONE };
        let vectors = Fields::POSITIONS | velocities;
        let blocks = [("positions", true), ("velocities", shape.velocities), ("box", shape.cell)];
        let blocks: Vec<&str> = blocks.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect();
        let comments = if shape.has_comments() { ", with comments" } else { "" };
        let header = Header {
            n_atoms: shape.n_atoms,
            fields: vectors | cell | Fields::STEP | Fields::TIME,
            remarks: Some(title).filter(|title| !title.is_empty()).into_iter().collect(),
            variant: format!("{}{comments}", blocks.join(", ")),
            warnings: Vec::new(),
        };
        // 9 decimals are more than float32 has
        let facts = Facts { wide_fields: vectors, may_lack_fields: shape.velocities, ..Facts::PLAIN };
        Ok(Arc::new(G96Decoder { header, facts, heads: TextHeads(shape) }))
    }

    fn encoder(&self, making: &Making) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(encode::G96Encoder::new(making)?))
    }

    fn resume(&self, source: &dyn Source, _: &Index, making: &Making) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(encode::G96Encoder::resume(&Shape::read(source)?.0, making)?))
    }
}

/// Contents of a segment.
mod part {
    /// A frame, or the first bytes of one.
    pub const FRAME: u32 = 0;
    /// The last bytes of one, with its cell.
    pub const TAIL: u32 = 1;
}

/// Finds and decodes the frames of one file.
#[derive(Debug)]
struct G96Decoder {
    header: Header,
    facts: Facts,
    heads: TextHeads<Shape>,
}

impl Decoder for G96Decoder {
    fn header(&self) -> &Header {
        &self.header
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn arrangement(&self) -> Arrangement<'_> {
        Arrangement::Headers(&self.heads)
    }

    fn segments(&self, index: &Index, wanted: &[Wanted], request: &Request, segments: &mut Vec<Segment>) -> Result<()> {
        let shape = &self.heads.0;
        let wants = |field| request.fields.contains(field);
        let last =
            if wants(Fields::POSITIONS) { request.atoms.last().map_or(0, |last| u64::from(last) + 1) } else { 0 };
        for (i, one) in (0_u32..).zip(wanted) {
            one.check_indexed(index, NAME)?;
            let whole = index.extent(one.frame);
            let mut push = |part: u32, extent: Extent, whole: Extent| {
                segments.push(Segment { wanted: i..i + 1, atoms: 0..shape.n_atoms, part, extent, whole });
            };
            // lines have about the same length; a guess that is too short is read again
            let guess = FRAME_HEAD + (u128::from(whole.len) * u128::from(last) / u128::from(shape.n_atoms)) as u64;
            // a frame without a time may come from a scan over damage: all of it is checked
            let is_checked = matches!(index, Index::Table(table) if table.time(one.frame).is_nan());
            if is_checked || wants(Fields::VELOCITIES) && shape.velocities || guess + TAIL > whole.len / 10 * 9 {
                push(part::FRAME, whole, whole);
                continue;
            }
            push(part::FRAME, Extent { offset: whole.offset, len: guess }, whole);
            if shape.cell {
                let tail = Extent { offset: whole.end() - TAIL, len: TAIL };
                push(part::TAIL, tail, tail);
            }
        }
        Ok(())
    }

    fn decode(&self, given: SegmentBytes<'_>, out: &mut BlockMut<'_>, _: &mut Scratch) -> Result<Decoded> {
        let SegmentBytes { segment, bytes, request, .. } = given;
        let one = given.first_wanted(NAME)?;
        let row = one.row as usize;
        let decoded = if segment.part == part::TAIL {
            cell_of(bytes, segment.extent.offset).and_then(|(cell, _)| {
                let stamp = out.stamp(row)?;
                stamp.cell = cell.map(|vector| vector.map(|value| value * request.scales.length));
                if cell != NO_CELL {
                    stamp.present = stamp.present | Fields::CELL;
                }
                Ok(Decoded::Done)
            })
        } else {
            Frame { shape: &self.heads.0, bytes, whole: segment.whole }.decode(row, request, out)
        };
        decoded.map_err(|error| error.with_byte(segment.extent.offset).with_frame(one.frame).with_format(NAME))
    }
}

/// The bytes of a frame, or the first of them.
struct Frame<'a> {
    shape: &'a Shape,
    bytes: &'a [u8],
    whole: Extent,
}

impl Frame<'_> {
    /// Puts the requested values of the frame into a row, or asks for all its bytes.
    /// Errors: `Corrupt` with the byte; `Internal` if the block has no such row.
    fn decode(&self, row: usize, request: &Request, out: &mut BlockMut<'_>) -> Result<Decoded> {
        let is_whole = self.bytes.len() as u64 >= self.whole.len;
        let (head, head_len) = match head_of(self.shape, self.bytes, self.whole.offset) {
            Ok(found) => found,
            Err(HeaderFault::Wrong(error)) => return Err(error),
            Err(HeaderFault::Short(_)) if is_whole => return Err(self.ends_early()),
            Err(HeaderFault::Short(_)) => return Ok(Decoded::NeedsPrefix(self.whole.len)),
        };
        if request.atoms.len() != out.n_selected || request.atoms.n_atoms() != self.shape.n_atoms {
            return Err(Error::new(ErrorKind::Internal, "the block is not made for this selection of atoms"));
        }
        let time = head.time * request.scales.time;
        *out.stamp(row)? = Stamp { step: head.step, time, present: Fields::POSITIONS, ..Stamp::default() };
        if !is_whole {
            if !request.fields.contains(Fields::POSITIONS) {
                return Ok(Decoded::Done);
            }
            let put = self.block(head_len, POSITION, request.scales.length, row, request, &mut out.vectors[0])?;
            return Ok(if put.is_some() { Decoded::Done } else { Decoded::NeedsPrefix(self.whole.len) });
        }
        let (length, velocity) = (request.scales.length, request.scales.velocity);
        let put = self.block(head_len, POSITION, length, row, request, &mut out.vectors[0])?;
        let mut at = put.and_then(|lines_at| self.end_of_block(lines_at)).ok_or_else(|| self.ends_early())?;
        let has_velocities = self.bytes[at..].starts_with(VELOCITY);
        if !self.shape.cell && has_velocities != self.shape.velocities {
            return Err(self.other_lines(at));
        }
        if has_velocities {
            let put = self.block(at, VELOCITY, velocity, row, request, &mut out.vectors[1])?;
            at = put.and_then(|lines_at| self.end_of_block(lines_at)).ok_or_else(|| self.ends_early())?;
            let stamp = out.stamp(row)?;
            stamp.present = stamp.present | Fields::VELOCITIES;
        } else {
            out.vectors[1].set_absent(row, 3 * out.n_selected)?;
        }
        if self.shape.cell {
            let (cell, cell_at) = cell_of(self.bytes, self.whole.offset)?;
            if cell_at != at {
                return Err(self.other_lines(at));
            }
            at = self.bytes.len();
            let stamp = out.stamp(row)?;
            stamp.cell = cell.map(|vector| vector.map(|value| value * length));
            stamp.present = stamp.present | if cell == NO_CELL { Fields::NONE } else { Fields::CELL };
        }
        if at == self.bytes.len() { Ok(Decoded::Done) } else { Err(self.other_lines(at)) }
    }

    fn ends_early(&self) -> Error {
        Error::corrupt("wrong number of lines of a frame", "lines of all blocks", "fewer").with_byte(self.whole.offset)
    }

    #[cold]
    fn other_lines(&self, at: usize) -> Error {
        let found = shown(&self.bytes[at..]);
        Error::corrupt("lines of a frame", "as many as the first frame has", found).with_byte(self.byte(at))
    }

    fn byte(&self, at: usize) -> u64 {
        self.whole.offset.saturating_add(at as u64)
    }

    /// Where the end of the block is passed whose lines begin at byte `at` of the frame.
    fn end_of_block(&self, at: usize) -> Option<usize> {
        let end = at + skipped(&self.bytes[at..], self.shape.lines)?;
        let len = line_len(&self.bytes[end..])?;
        (trimmed(&self.bytes[end..end + len]) == END).then_some(end + len)
    }

    /// Puts the selected atoms of the block at byte `at` of the frame. Returns where its lines begin; `None` if the
    /// bytes end before the last of them.
    fn block(
        &self,
        at: usize,
        name: &[u8],
        factor: f64,
        row: usize,
        request: &Request,
        vectors: &mut VectorsMut<'_>,
    ) -> Result<Option<usize>> {
        let Some(len) = line_len(&self.bytes[at..]) else { return Ok(None) };
        let found = trimmed(&self.bytes[at..at + len]);
        let labels = match found.strip_prefix(name) {
            Some(b"") => LABELS,
            Some(b"RED") => 0,
            _ => {
                let expected = String::from_utf8_lossy(name);
                return Err(Error::corrupt("block of a frame", expected, shown(found)).with_byte(self.byte(at)));
            }
        };
        let n = 3 * request.atoms.len();
        let lines_at = at + len;
        let put = match vectors {
            VectorsMut::Absent => true,
            VectorsMut::F32(rows) => self.fill(lines_at, labels, factor, request, rows.row(row, n)?)?,
            VectorsMut::F64(rows) => self.fill(lines_at, labels, factor, request, rows.row(row, n)?)?,
        };
        Ok(put.then_some(lines_at))
    }

    /// Whether all lines that are needed are there.
    fn fill<R: Real>(
        &self,
        mut at: usize,
        labels: usize,
        factor: f64,
        request: &Request,
        values: &mut [R],
    ) -> Result<bool> {
        let (mut next, has_comments) = (0, self.shape.has_comments());
        for (atom, to) in request.atoms.iter().zip(values.as_chunks_mut::<3>().0) {
            loop {
                if !has_comments && atom > next {
                    let Some(len) = skipped(&self.bytes[at..], u64::from(atom - next)) else { return Ok(false) };
                    (at, next) = (at + len, atom);
                }
                let Some(len) = line_len(&self.bytes[at..]) else { return Ok(false) };
                let line = &self.bytes[at..at + len];
                if has_comments && (next < atom || line.starts_with(b"#")) {
                    if trimmed(line) == END {
                        return Err(self.other_lines(at));
                    }
                    next += u32::from(!line.starts_with(b"#"));
                    at += len;
                    continue;
                }
                let Some(vector) = line.get(labels..).and_then(numbers) else {
                    let error = Error::corrupt("vector of an atom", "three numbers", shown(line));
                    return Err(error.with_byte(self.byte(at)));
                };
                *to = vector.map(|value| R::scaled(value, factor));
                (at, next) = (at + len, atom + 1);
                break;
            }
        }
        Ok(true)
    }
}

/// The numbers of a line: words, or columns if numbers fill theirs.
fn numbers<const N: usize>(line: &[u8]) -> Option<[f64; N]> {
    let words = parse_reals(line).filter(|&(_, end)| line[end..].trim_ascii().is_empty());
    words.map(|(values, _)| values).or_else(|| {
        let columns = trimmed(line).as_chunks::<COLUMN>();
        let columns: &[[u8; COLUMN]; N] = columns.0.try_into().ok().filter(|_| columns.1.is_empty())?;
        let mut values = [0.0; N];
        for (value, column) in values.iter_mut().zip(columns) {
            *value = parse_f64(column.trim_ascii())?;
        }
        Some(values)
    })
}

/// The cell, in nm, in the last three lines of bytes that begin at byte `at` of the file, and where these begin.
/// Errors: `Corrupt` with the byte.
fn cell_of(bytes: &[u8], at: u64) -> Result<(Cell, usize)> {
    let (mut start, mut lines) = (bytes.len(), [&b""[..]; 3]);
    for line in lines.iter_mut().rev() {
        let end = start;
        start = memchr::memrchr(b'\n', &bytes[..end.saturating_sub(1)]).map_or(0, |feed| feed + 1);
        *line = trimmed(&bytes[start..end]);
    }
    let [name, text, end] = lines;
    let wrong = |what: &str, expected: &str, found: &[u8]| {
        Error::corrupt(what, expected, shown(found)).with_byte(at.saturating_add(start as u64))
    };
    if name != BOX || end != END {
        return Err(wrong("end of a frame", "BOX, a cell and END", name));
    }
    // the diagonal comes first
    let cell = if let Some([xx, yy, zz]) = numbers(text) {
        [[xx, 0.0, 0.0], [0.0, yy, 0.0], [0.0, 0.0, zz]]
    } else if let Some([xx, yy, zz, xy, xz, yx, yz, zx, zy]) = numbers(text) {
        [[xx, xy, xz], [yx, yy, yz], [zx, zy, zz]]
    } else {
        return Err(wrong("cell", "3 or 9 numbers", text));
    };
    if !cell.iter().flatten().all(|&value: &f64| (value as f32).is_finite()) {
        return Err(wrong("cell", "finite numbers", text));
    }
    Ok((cell, start))
}
