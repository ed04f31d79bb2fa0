//! HISTORY with records of any width, as DL_POLY 2 and DL_POLY Classic write it, and as editors leave the files of
//! DL_POLY 4.
//!
//! A frame is the line `timestep`, three lines of the cell or none, and for each atom a line and its vectors. The first
//! frame shows which of them are present: heads of such files are known to disagree with their lines.

mod frame;

use std::sync::Arc;

use self::frame::Frame;
use super::atoms::AtomNames;
use super::history::NAME;
use super::timestep::{TIMESTEP, Timestep};
use super::{fields_of, shape_of, warning_of};
use crate::container::text::lines::trim_line_end;
use crate::container::text::{Words, is_blank, parse_i64, parse_three};
use crate::error::{Error, ErrorKind, Result};
use crate::format::lines::{TextFrames, TextHead, TextHeads};
use crate::format::{
    Arrangement, Decoded, Decoder, Facts, Header, HeaderScan, Request, Scratch, Segment, SegmentBytes, Wanted,
};
use crate::frame::{BlockMut, Fields};
use crate::index::Index;
use crate::source::{Extent, Source};

/// Bytes of the file that hold its two lines, the head of the first frame, its cell and its first atom.
const HEAD: u64 = 16 << 10;
/// Bytes that hold the head of any frame and its cell, and are read in any case.
const FRAME_HEAD: u64 = 1 << 10;

/// The lines of each frame.
#[derive(Debug, Clone, Copy)]
struct Shape {
    /// Where the first frame begins.
    first: u64,
    n_atoms: u32,
    /// Vectors of an atom.
    levels: usize,
    /// Whether there are lines of the cell.
    cell: bool,
    /// Values in the head of the first frame; all other frames must agree.
    keytrj: i64,
    imcon: i64,
}

/// Contents of a segment.
mod part {
    /// A frame, or the first bytes of one.
    pub const FRAME: u32 = 0;
    /// A frame that a scan over damage has made. It has no time, although it may begin with a sound head.
    pub const DAMAGED: u32 = 1;
}

/// Whether a file that begins so may be one.
pub(super) fn sniff(head: &[u8]) -> bool {
    let mut lines = head.split_inclusive(|&byte| byte == b'\n');
    let second = lines.nth(1).unwrap_or_default();
    let numbers = Words::new(second).take(3).map_while(|(_, word)| parse_i64(word)).count();
    second.ends_with(b"\n") && numbers >= 2 && lines.next().is_some_and(|line| line.starts_with(TIMESTEP))
}

impl TextFrames for Shape {
    const NAME: &'static str = NAME;
    const BEGINS: &'static [&'static [u8]] = &[TIMESTEP];
    const HEAD_LINES: usize = 1;

    fn first(&self) -> u64 {
        self.first
    }

    fn n_atoms(&self) -> Option<u32> {
        Some(self.n_atoms)
    }

    fn head(&self, line: &[u8], at: u64) -> Result<TextHead> {
        let head = self.timestep(line, at)?;
        let lines =
            (head.n_atoms as u64).saturating_mul(1 + self.levels as u64).saturating_add(self.cell_lines() as u64);
        Ok(TextHead { n_atoms: head.n_atoms as u64, lines, step: head.step, time: head.time })
    }
}

impl Shape {
    fn cell_lines(&self) -> usize {
        if self.cell { 3 } else { 0 }
    }

    /// The head of a frame, whose lines are those of the first one.
    fn timestep(&self, line: &[u8], at: u64) -> Result<Timestep> {
        let head = Timestep::parse(line, at)?;
        if head.keytrj != self.keytrj {
            return Err(
                Error::corrupt("keytrj", format!("{} as in the first frame", self.keytrj), head.keytrj).with_byte(at)
            );
        }
        if (head.imcon == 0) != (self.imcon == 0) {
            return Err(
                Error::corrupt("imcon", format!("{} as in the first frame", self.imcon), head.imcon).with_byte(at)
            );
        }
        Ok(head)
    }
}

/// Whether a line is three numbers and nothing else.
fn is_three(line: &[u8]) -> bool {
    parse_three(line).is_some_and(|(_, end)| line[end..].iter().all(|&byte| is_blank(byte)))
}

/// Opens a file whose records are not of one width.
pub(super) fn open(source: &dyn Source) -> Result<Arc<dyn Decoder>> {
    Ok(Arc::new(ClassicDecoder::new(source)?))
}

/// The atoms as the first frame has them; none if there is no whole frame.
/// Errors of opening the file; `Corrupt` with the byte.
pub(super) fn read_atoms(source: &dyn Source) -> Result<AtomNames> {
    let decoder = ClassicDecoder::new(source)?;
    let first = decoder.shape().first;
    let table = decoder.heads.scan_range(source, first..first + 1, &|_| Ok(()))?;
    if table.n_frames() == 0 {
        return Ok(AtomNames::default());
    }
    let whole = table.extent(0);
    let mut bytes = vec![0; whole.len as usize];
    source.read_exact_at(whole.offset, &mut bytes)?;
    let atoms = Frame { shape: decoder.shape(), bytes: &bytes, whole }.atoms();
    atoms.map_err(|error| error.with_frame(0).with_format(NAME).with_path(source.path()))
}

/// Finds and decodes the frames of one file.
#[derive(Debug)]
struct ClassicDecoder {
    header: Header,
    facts: Facts,
    heads: TextHeads<Shape>,
}

impl ClassicDecoder {
    fn new(source: &dyn Source) -> Result<Self> {
        let mut head = vec![0; source.len()?.min(HEAD) as usize];
        source.read_exact_at(0, &mut head)?;
        Self::from_head(&head).map_err(|error| error.with_format(NAME).with_path(source.path()))
    }

    fn from_head(head: &[u8]) -> Result<Self> {
        let ends_early = |at: usize| {
            let what = "the file ends in the middle of a frame, expected its head and first atom, found less";
            Error::new(ErrorKind::Truncated, what).with_frame(0).with_byte(at as u64)
        };
        let line_at = |at: usize| head[at..].split_inclusive(|&byte| byte == b'\n').next().unwrap_or_default();
        let whole_line_at =
            |at: usize| Some(line_at(at)).filter(|line| line.ends_with(b"\n")).ok_or_else(|| ends_early(at));
        let (title, second_at) = (trim_line_end(line_at(0)), line_at(0).len());
        let second = whole_line_at(second_at)?;
        let first = second_at + second.len();
        let numbers: Vec<i64> = Words::new(second).map_while(|(_, word)| parse_i64(word)).collect();
        let stated = whole_line_at(first)?;
        let timestep = Timestep::parse(trim_line_end(stated), first as u64).map_err(|error| error.with_frame(0))?;
        let n_atoms = u32::try_from(timestep.n_atoms).ok().filter(|&n| n > 0);
        let n_atoms = n_atoms.ok_or_else(|| {
            Error::corrupt("number of atoms", "1 to 2^32 - 1", timestep.n_atoms).with_frame(0).with_byte(first as u64)
        })?;
        let mut at = first + stated.len();
        let cell = is_three(whole_line_at(at)?);
        for _ in 0..if cell { 3 } else { 0 } {
            at += whole_line_at(at)?.len();
        }
        at += whole_line_at(at)?.len();
        let mut levels = 0;
        while levels < 3 && is_three(line_at(at)) {
            at += whole_line_at(at)?.len();
            levels += 1;
        }
        let second_says = numbers.first().copied();
        let agrees = |keytrj: i64| keytrj + 1 == levels as i64;
        if !agrees(timestep.keytrj) && !line_at(at).ends_with(b"\n") {
            return Err(ends_early(at));
        }
        if levels == 0 || !agrees(timestep.keytrj) && !second_says.is_some_and(agrees) {
            let what = format!("{} as keytrj {} says", timestep.keytrj + 1, timestep.keytrj);
            return Err(Error::corrupt("lines of numbers of an atom", what, levels)
                .with_frame(0)
                .with_byte(first as u64));
        }
        let shape =
            Shape { first: first as u64, n_atoms, levels, cell, keytrj: timestep.keytrj, imcon: timestep.imcon };
        let facts = Facts { wide_fields: fields_of(levels), ..Facts::PLAIN };
        Ok(Self { header: Self::header(&shape, title, second_says), facts, heads: TextHeads(shape) })
    }

    fn shape(&self) -> &Shape {
        &self.heads.0
    }

    fn header(shape: &Shape, title: &[u8], second_says: Option<i64>) -> Header {
        let mut warnings: Vec<String> = warning_of(shape.imcon).into_iter().filter(|_| shape.cell).collect();
        let in_lines = shape.levels as i64 - 1;
        if shape.keytrj != in_lines || second_says != Some(in_lines) {
            let second = second_says.map_or("nothing".to_owned(), |says| says.to_string());
            warnings.push(format!(
                "keytrj is {second} in the second line and {} in the first frame; the lines of atoms are those of keytrj {in_lines}",
                shape.keytrj
            ));
        }
        if shape.imcon != 0 && !shape.cell {
            warnings.push(format!("frames say imcon {}, but have no lines of a cell", shape.imcon));
        }
        let has_cell = shape.cell && shape.imcon != 0;
        let cell = if has_cell { Fields::CELL } else { Fields::NONE };
        let title = String::from_utf8_lossy(title.trim_ascii()).into_owned();
        Header {
            n_atoms: shape.n_atoms,
            fields: fields_of(shape.levels) | cell | Fields::STEP | Fields::TIME,
            remarks: Some(title).filter(|title| !title.is_empty()).into_iter().collect(),
            variant: format!(
                "keytrj {in_lines}, {}, records of any width",
                shape_of(if has_cell { shape.imcon } else { 0 })
            ),
            warnings,
        }
    }
}

impl Decoder for ClassicDecoder {
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
        let wants_vectors = Fields::VECTORS.into_iter().any(|field| request.fields.contains(field));
        let n_atoms = u64::from(self.shape().n_atoms);
        let last = if wants_vectors { request.atoms.iter().last().map_or(0, |atom| u64::from(atom) + 1) } else { 0 };
        for (i, one) in (0_u32..).zip(wanted) {
            one.check_indexed(index, NAME)?;
            let whole = index.extent(one.frame);
            // atoms take about the same number of bytes each; a guess that is too short is read again
            let guess = FRAME_HEAD + (u128::from(whole.len) * u128::from(last) / u128::from(n_atoms)) as u64;
            let damaged = matches!(index, Index::Table(table) if table.time(one.frame).is_nan());
            let len = if damaged || guess > whole.len / 10 * 9 { whole.len } else { guess };
            let extent = Extent { offset: whole.offset, len };
            let part = if damaged { part::DAMAGED } else { part::FRAME };
            segments.push(Segment { wanted: i..i + 1, atoms: 0..self.shape().n_atoms, part, extent, whole });
        }
        Ok(())
    }

    fn decode(&self, given: SegmentBytes<'_>, out: &mut BlockMut<'_>, _: &mut Scratch) -> Result<Decoded> {
        let SegmentBytes { segment, bytes, request, .. } = given;
        let one = given.first_wanted(NAME)?;
        let frame = Frame { shape: self.shape(), bytes, whole: segment.whole };
        let checked = if segment.part == part::DAMAGED { frame.check_lines() } else { Ok(()) };
        let decoded = checked.and_then(|()| frame.decode(one.row as usize, request, out));
        decoded.map_err(|error| error.with_byte(segment.whole.offset).with_frame(one.frame).with_format(NAME))
    }
}
