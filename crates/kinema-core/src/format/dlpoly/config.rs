//! CONFIG, REVCON and CFGMIN: one configuration, in words, or in records of one width as DL_POLY_4 writes them.

use std::sync::Arc;

use super::fixed::{Fixed, LOOKED_AT};
use super::free::{self, Atoms};
use super::layout::Layout;
use super::records::{AtomBlock, Lines, RECORD};
use super::{SCALES, TIME_UNIT, encode_config, fields_of, shape_of, warning_of};
use crate::container::text::{Words, parse_f64, parse_i64};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Arrangement, Decoded, Decoder, Encoder, Facts, Format, FormatInfo, Header, Making};
use crate::format::{HEAD_BYTES, Request, Scratch, Segment, SegmentBytes, UniformFrames, Wanted};
use crate::frame::{BlockMut, Cell, Fields, NO_CELL, Real, Stamp, VectorsMut};
use crate::index::{Index, UniformIndex};
use crate::source::{Extent, Source};

/// The name in messages.
pub(super) const NAME: &str = "DL_POLY CONFIG";

/// Bytes of lines that are counted at once.
const COUNTED: u64 = 4 << 20;

static INFO: FormatInfo = FormatInfo {
    name: NAME,
    extensions: &["config", "revcon", "cfgmin"],
    file_names: &["CONFIG", "REVCON", "CFGMIN"],
    description: "DL_POLY configuration (text), one frame: positions, velocities, forces, cell, step, time; the origin is the \
                  cell's centre",
    reads: true,
    writes: true,
    encodes: true,
    places_atoms: true,
    fields: Fields::ALL,
    length_unit: "angstrom",
    time_unit: TIME_UNIT,
    scales: SCALES,
    reference: "DL_POLY_4 manual, CONFIG file",
};

/// DL_POLY's configurations.
#[derive(Debug, Clone, Copy)]
pub struct Config;

impl Format for Config {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn sniff(&self, head: &[u8]) -> bool {
        let Ok(known) = ConfigHead::parse(head) else { return false };
        if Layout::sniff(head) {
            return false;
        }
        let mut lines = free::lines(head.get(known.len as usize..).unwrap_or_default()).map(|(_, line)| line);
        let (Some(first), Some(second)) = (lines.next(), lines.next()) else { return false };
        let words: Vec<&[u8]> = Words::new(first).map(|(_, word)| word).collect();
        let named = words.first().is_some_and(|name| parse_f64(name).is_none() && !name.starts_with(b"timestep"));
        let indexed = words.len() <= 1 || free::name_and_index(first).is_some_and(|(_, index)| index.is_some());
        named && indexed && free::three(second, 0, "").is_ok()
    }

    fn open(&self, source: &dyn Source) -> Result<Arc<dyn Decoder>> {
        let mut head = vec![0; source.len()?.min(HEAD_BYTES) as usize];
        source.read_exact_at(0, &mut head)?;
        if !self.sniff(&head) {
            let error = ConfigHead::parse(&head).err();
            let error = error.unwrap_or_else(|| Error::new(ErrorKind::Corrupt, "no atoms after the head of the file"));
            return Err(error.with_frame(0).with_format(NAME).with_path(source.path()));
        }
        let decoder = ConfigDecoder::read(source);
        Ok(Arc::new(decoder.map_err(|error| error.with_frame(0).with_format(NAME).with_path(source.path()))?))
    }

    fn encoder(&self, making: &Making) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(encode_config::ConfigEncoder::new(making)?))
    }

    fn resume(&self, _: &dyn Source, _: &Index, _: &Making) -> Result<Box<dyn Encoder>> {
        Err(encode_config::one_frame())
    }
}

/// The records before the atoms.
#[derive(Debug, Clone)]
pub(super) struct ConfigHead {
    pub title: String,
    /// Vectors of each atom: levcfg + 1.
    pub levels: usize,
    pub imcon: i64,
    /// Number of atoms, step and time, which DL_POLY_4 writes.
    pub stated: Option<(i64, i64, f64)>,
    pub cell: Cell,
    /// Bytes before the first atom.
    pub len: u64,
}

impl ConfigHead {
    /// # Errors
    /// `Corrupt` with the byte.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut lines = free::lines(bytes);
        let missing = || Error::new(ErrorKind::Truncated, "the file ends before its atoms");
        let (_, title) = lines.next().ok_or_else(missing)?;
        let (at, second) = lines.next().ok_or_else(missing)?;
        let words: Vec<&[u8]> = Words::new(second).map(|(_, word)| word).collect();
        let whole = |number: usize| words.get(number).and_then(|word| parse_i64(word));
        let (levcfg, imcon) =
            (whole(0).filter(|key| (0..=2).contains(key)), whole(1).filter(|key| (0..=7).contains(key)));
        let (Some(levcfg), Some(imcon)) = (levcfg, imcon) else {
            let error = Error::corrupt("levcfg and imcon", "0 to 2, and 0 to 7", super::shown(second));
            return Err(error.with_byte(at as u64));
        };
        let time = words.get(5).and_then(|word| parse_f64(word));
        let stated = whole(2).zip(whole(3)).zip(time).map(|((n_atoms, step), time)| (n_atoms, step, time));
        let mut cell = NO_CELL;
        for vector in cell.iter_mut().filter(|_| imcon > 0) {
            let (at, line) = lines.next().ok_or_else(missing)?;
            *vector = free::three(line, at as u64, "vector of the cell")?;
        }
        let (body, _) = lines.next().ok_or_else(missing)?;
        let title = String::from_utf8_lossy(title.trim_ascii()).into_owned();
        Ok(Self { title, levels: levcfg as usize + 1, imcon, stated, cell, len: body as u64 })
    }

    /// # Errors
    /// As [`ConfigHead::parse`].
    pub fn read(source: &dyn Source) -> Result<Self> {
        let mut bytes = vec![0; source.len()?.min(HEAD_BYTES) as usize];
        source.read_exact_at(0, &mut bytes)?;
        Self::parse(&bytes)
    }
}

/// Decodes the frame of one file.
#[derive(Debug)]
struct ConfigDecoder {
    header: Header,
    facts: Facts,
    head: ConfigHead,
    size: u64,
    /// The layout if all records have one width.
    fixed: Option<Fixed>,
}

impl ConfigDecoder {
    fn read(source: &dyn Source) -> Result<Self> {
        let (head, size) = (ConfigHead::read(source)?, source.len()?);
        let fixed = fixed(&head, source, size)?;
        let mut warnings: Vec<String> = warning_of(head.imcon).into_iter().collect();
        let n_atoms = match &fixed {
            Some(fixed) => u64::from(fixed.block.n_atoms),
            None => count(&head, source, size)?,
        };
        if fixed.is_none() && !ends_with_line(source, size)? {
            if is_of_records(&head, source)? {
                return Err(Error::new(ErrorKind::Truncated, "the last record has no end").with_byte(size));
            }
            warnings.push("the last line has no end: if the file was cut, its last number is wrong".to_owned());
        }
        if let Some((expected, ..)) = head.stated.filter(|(expected, ..)| *expected > 0 && *expected as u64 != n_atoms)
        {
            let what = format!("number of atoms, expected {expected} as the second record says, found {n_atoms}");
            let kind = if n_atoms < expected as u64 { ErrorKind::Truncated } else { ErrorKind::Corrupt };
            return Err(Error::new(kind, what));
        }
        let n_atoms = u32::try_from(n_atoms).ok().filter(|&n| n > 0);
        let n_atoms = n_atoms.ok_or_else(|| Error::new(ErrorKind::Corrupt, "no atoms, or too many"))?;
        let cell = if head.imcon == 0 { Fields::NONE } else { Fields::CELL };
        let stamps = if head.stated.is_some() { Fields::STEP | Fields::TIME } else { Fields::NONE };
        let width = if fixed.is_some() { "records of one width" } else { "free format" };
        let header = Header {
            n_atoms,
            fields: fields_of(head.levels) | cell | stamps,
            remarks: Some(head.title.clone()).filter(|title| !title.is_empty()).into_iter().collect(),
            variant: format!("levcfg {}, {}, {width}", head.levels - 1, shape_of(head.imcon)),
            warnings,
        };
        let facts = Facts { wide_fields: fields_of(head.levels), ..Facts::PLAIN };
        Ok(Self { header, facts, head, size, fixed })
    }
}

/// Whether the last line is a whole one.
fn ends_with_line(source: &dyn Source, size: u64) -> Result<bool> {
    let mut last = [0];
    source.read_exact_at(size - 1, &mut last)?;
    Ok(last == *b"\n")
}

/// Whether all lines before the atoms are records as DL_POLY_4 writes them.
fn is_of_records(head: &ConfigHead, source: &dyn Source) -> Result<bool> {
    let mut start = vec![0; head.len as usize];
    source.read_exact_at(0, &mut start)?;
    Ok(Lines::from_head(&start).is_some_and(|lines| start.len().is_multiple_of(lines.width())))
}

/// The block of atoms of a file whose records have one width and whose first atoms are in order.
fn fixed(head: &ConfigHead, source: &dyn Source, size: u64) -> Result<Option<Fixed>> {
    let mut start = vec![0; head.len as usize];
    source.read_exact_at(0, &mut start)?;
    let Some(lines) = Lines::from_head(&start).filter(|lines| lines.text == RECORD) else { return Ok(None) };
    let records = if head.imcon > 0 { 5 } else { 2 };
    let mut block = AtomBlock { lines, n_atoms: 0, levels: head.levels, compressed: false };
    let (body, len) = (size - head.len, block.atom_len());
    let n_atoms = u32::try_from(body / len).unwrap_or(0);
    if head.len != (records * lines.width()) as u64 || n_atoms == 0 || !body.is_multiple_of(len) {
        return Ok(None);
    }
    block.n_atoms = n_atoms;
    let mut bytes = vec![0; block.len().min((LOOKED_AT / len).max(1) * len) as usize];
    source.read_exact_at(head.len, &mut bytes)?;
    let all_end = (0..bytes.len()).step_by(lines.width()).all(|start| lines.ends_at(&bytes, start));
    let mut last = vec![0; len as usize];
    source.read_exact_at(size - len, &mut last)?;
    let last_ends = (0..last.len()).step_by(lines.width()).all(|start| lines.ends_at(&last, start));
    let is_fixed = all_end && last_ends && block.is_in_order(&bytes);
    Ok(is_fixed.then_some(Fixed { head_len: head.len, block, sorted: true }))
}

/// Atoms of a file in free format.
fn count(head: &ConfigHead, source: &dyn Source, size: u64) -> Result<u64> {
    let (mut n_lines, mut at, mut bytes) = (0_u64, head.len, Vec::new());
    while at < size {
        bytes.resize(COUNTED.min(size - at) as usize, 0);
        source.read_exact_at(at, &mut bytes)?;
        let end = at + bytes.len() as u64;
        // whole lines only, but at the end of the file
        let last = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let whole = if end == size { bytes.len() } else { last };
        if whole == 0 {
            let what = format!("a line of more than {COUNTED} bytes");
            return Err(Error::new(ErrorKind::Corrupt, what).with_byte(at));
        }
        let (there, counted) = (free::lines(&bytes[..whole]).count(), free::count(&bytes[..whole]));
        n_lines += counted as u64;
        at += whole as u64;
        if counted < there {
            break;
        }
    }
    let an_atom = 1 + head.levels as u64;
    if !n_lines.is_multiple_of(an_atom) {
        let what = format!("the file ends within atom {}", n_lines / an_atom + 1);
        return Err(Error::new(ErrorKind::Truncated, what).with_byte(at));
    }
    Ok(n_lines / an_atom)
}

impl UniformFrames for ConfigDecoder {
    fn name(&self) -> &'static str {
        NAME
    }

    fn places(&self, source: &dyn Source) -> Result<(UniformIndex, Option<Error>)> {
        if source.len()? != self.size {
            return Err(Error::new(ErrorKind::Corrupt, "the file has changed while it was opened"));
        }
        let whole = Extent { offset: 0, len: self.size };
        let (steps, times) = self.head.stated.map(|(_, step, time)| (vec![step].into(), vec![time].into())).unzip();
        Ok((UniformIndex { n_frames: 1, first: whole, stride: self.size, spacing: None, steps, times }, None))
    }
}

impl Decoder for ConfigDecoder {
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
        for (i, one) in (0_u32..).zip(wanted) {
            if one.frame >= index.n_frames() {
                return Err(Error::new(ErrorKind::Internal, "a frame is not in the index").with_format(NAME));
            }
            let whole = index.extent(one.frame);
            match &self.fixed {
                Some(fixed) => fixed.segments(i, whole, request, segments),
                None => segments.push(Segment {
                    wanted: i..i + 1,
                    atoms: 0..self.header.n_atoms,
                    part: 0,
                    extent: whole,
                    whole,
                }),
            }
        }
        Ok(())
    }

    fn decode(&self, given: SegmentBytes<'_>, out: &mut BlockMut<'_>, scratch: &mut Scratch) -> Result<Decoded> {
        let one = given.first_wanted(NAME)?;
        let decoded = self.part(given, one.row as usize, out, scratch);
        decoded.map_err(|error| error.with_byte(given.segment.extent.offset).with_frame(one.frame).with_format(NAME))
    }
}

impl ConfigDecoder {
    fn part(
        &self,
        given: SegmentBytes<'_>,
        row: usize,
        out: &mut BlockMut<'_>,
        scratch: &mut Scratch,
    ) -> Result<Decoded> {
        let SegmentBytes { segment, bytes, request, .. } = given;
        if let Some(fixed) = &self.fixed
            && let Some(decoded) = fixed.decode_run(given, row, out)?
        {
            return Ok(decoded);
        }
        let head = ConfigHead::parse(&bytes[..bytes.len().min(HEAD_BYTES as usize)]);
        // if a segment holds only the head, it lacks the first atom
        let head = if segment.extent == segment.whole { head? } else { self.head.clone() };
        if (head.levels, head.imcon, head.len) != (self.head.levels, self.head.imcon, self.head.len) {
            return Err(Error::new(ErrorKind::Corrupt, "the head of the file has changed since it was opened"));
        }
        let there = if head.cell == NO_CELL { Fields::NONE } else { Fields::CELL };
        let cell = head.cell.map(|vector| vector.map(|value| value * request.scales.length));
        let (step, time) = head.stated.map_or((0, f64::NAN), |(_, step, time)| (step, time * request.scales.time));
        let (periodic, present) = (super::periodic_of(head.imcon), fields_of(head.levels) | there);
        *out.stamp(row)? = Stamp { cell, periodic, step, time, present };
        match &self.fixed {
            Some(fixed) => fixed.decode_frame(given, row, out, scratch),
            None => self.free(&head, bytes, row, request, out),
        }
    }

    fn free(
        &self,
        head: &ConfigHead,
        bytes: &[u8],
        row: usize,
        request: &Request,
        out: &mut BlockMut<'_>,
    ) -> Result<Decoded> {
        let atoms = Atoms::parse(bytes.get(head.len as usize..).unwrap_or_default(), head.len, head.levels)?;
        if atoms.names.len() != self.header.n_atoms as usize || request.atoms.n_atoms() != self.header.n_atoms {
            return Err(Error::corrupt("number of atoms", self.header.n_atoms, atoms.names.len()));
        }
        let order = atoms.order();
        let factors = [request.scales.length, request.scales.velocity, request.scales.force];
        for ((vectors, out), factor) in atoms.vectors.iter().zip(&mut out.vectors).zip(factors).take(head.levels) {
            let picked = request.atoms.iter().map(|atom| {
                let atom = atom as usize;
                vectors[order.as_ref().map_or(atom, |order| order[atom])]
            });
            let len = 3 * request.atoms.len();
            match out {
                VectorsMut::Absent => {}
                VectorsMut::F32(rows) => put(picked, factor, rows.row(row, len)?),
                VectorsMut::F64(rows) => put(picked, factor, rows.row(row, len)?),
            }
        }
        Ok(Decoded::Done)
    }
}

fn put<R: Real>(picked: impl Iterator<Item = [f64; 3]>, factor: f64, values: &mut [R]) {
    for (to, from) in values.as_chunks_mut::<3>().0.iter_mut().zip(picked) {
        *to = from.map(|value| R::scaled(value, factor));
    }
}
