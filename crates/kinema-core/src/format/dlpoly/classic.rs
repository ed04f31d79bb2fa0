//! HISTORY with records of any width, as DL_POLY 2 and DL_POLY Classic write it and as editors leave those of DL_POLY 4.
//!
//! A frame is the line `timestep`, three of the cell or none, and for each atom a line and its vectors. Which of them there are
//! is seen in the first frame: heads of such files are known to disagree with their lines.

use std::sync::Arc;

use super::free::{name_and_index, three};
use super::history::NAME;
use super::layout::TIMESTEP;
use super::{checked_cell, fields_of, shape_of, shown, warning_of};
use crate::container::text::lines::{line_len, lines_len, without_end};
use crate::container::text::{Words, is_blank, parse_f64, parse_i64, parse_three};
use crate::error::{Error, ErrorKind, Result};
use crate::format::lines::{TextFrames, TextHead, TextHeads};
use crate::format::scan::{self, HeaderFault};
use crate::format::{Decoded, Decoder, Header, Request, Scan, ScanOptions, Scratch, Segment, Wanted, lines};
use crate::frame::{BlockMut, Fields, NO_CELL, Real, Stamp, VectorsMut};
use crate::index::{Index, TableIndex};
use crate::source::{Extent, Source};

/// Bytes of the file that hold its two lines, the head of the first frame, its cell and its first atom.
const HEAD: u64 = 16 << 10;
/// Bytes that hold the head of any frame and its cell, and are read in any case.
const FRAME_HEAD: u64 = 1 << 10;

/// What the line `timestep` says.
#[derive(Debug, Clone, Copy)]
struct Timestep {
    step: i64,
    n_atoms: i64,
    keytrj: i64,
    imcon: i64,
    time: f64,
}

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
    /// What the first frame says of itself, as all others must.
    keytrj: i64,
    imcon: i64,
}

/// Whether a file that begins so may be one.
pub(super) fn sniff(head: &[u8]) -> bool {
    let mut lines = head.split_inclusive(|&byte| byte == b'\n');
    let second = lines.nth(1).unwrap_or_default();
    let numbers = Words::new(second).take(3).map_while(|(_, word)| parse_i64(word)).count();
    second.ends_with(b"\n") && numbers >= 2 && lines.next().is_some_and(|line| line.starts_with(TIMESTEP))
}

impl Timestep {
    /// The line that begins at byte `at`.
    fn parse(line: &[u8], at: u64) -> Result<Self> {
        let wrong = || {
            let expected = "timestep, step, atoms, keytrj, imcon, time step";
            Error::corrupt("wrong head of a frame", expected, shown(line)).at_byte(at)
        };
        let numbers = line.strip_prefix(TIMESTEP).ok_or_else(wrong)?;
        let mut words = Words::new(numbers).map(|(_, word)| word);
        let mut integer = || words.next().and_then(parse_i64).ok_or_else(wrong);
        let (step, n_atoms, keytrj, imcon) = (integer()?, integer()?, integer()?, integer()?);
        let between = words.next().and_then(parse_f64).ok_or_else(wrong)?;
        // which DL_POLY 2 and Classic do not write
        let time = words.next().map_or(Some(step as f64 * between), parse_f64).ok_or_else(wrong)?;
        let known = n_atoms >= 0 && (0..=2).contains(&keytrj) && (0..=7).contains(&imcon);
        known.then_some(Self { step, n_atoms, keytrj, imcon, time }).ok_or_else(wrong)
    }
}

impl TextFrames for Shape {
    const NAME: &'static str = NAME;
    const BEGINS: &'static [u8] = TIMESTEP;
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
                Error::corrupt("keytrj", format!("{} as in the first frame", self.keytrj), head.keytrj).at_byte(at)
            );
        }
        if (head.imcon == 0) != (self.imcon == 0) {
            return Err(
                Error::corrupt("imcon", format!("{} as in the first frame", self.imcon), head.imcon).at_byte(at)
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

/// Finds and decodes the frames of one file.
#[derive(Debug)]
struct ClassicDecoder {
    header: Header,
    shape: Shape,
}

impl ClassicDecoder {
    fn new(source: &dyn Source) -> Result<Self> {
        let mut head = vec![0; source.len()?.min(HEAD) as usize];
        source.read_exact_at(0, &mut head)?;
        Self::of(&head).map_err(|error| error.in_format(NAME).at_path(source.path()))
    }

    fn of(head: &[u8]) -> Result<Self> {
        let ends_early = |at: usize| {
            let what = "the file ends in the middle of a frame, expected its head and first atom, found less";
            Error::new(ErrorKind::Truncated, what).at_frame(0).at_byte(at as u64)
        };
        let line_at = |at: usize| head[at..].split_inclusive(|&byte| byte == b'\n').next().unwrap_or_default();
        let whole_line_at =
            |at: usize| Some(line_at(at)).filter(|line| line.ends_with(b"\n")).ok_or_else(|| ends_early(at));
        let (title, second_at) = (without_end(line_at(0)), line_at(0).len());
        let second = whole_line_at(second_at)?;
        let first = second_at + second.len();
        let numbers: Vec<i64> = Words::new(second).map_while(|(_, word)| parse_i64(word)).collect();
        let stated = whole_line_at(first)?;
        let timestep = Timestep::parse(without_end(stated), first as u64).map_err(|error| error.at_frame(0))?;
        let n_atoms = u32::try_from(timestep.n_atoms).ok().filter(|&n| n > 0);
        let n_atoms = n_atoms.ok_or_else(|| {
            Error::corrupt("number of atoms", "1 to 2^32 - 1", timestep.n_atoms).at_frame(0).at_byte(first as u64)
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
        if levels == 0 || !agrees(timestep.keytrj) && !second_says.is_some_and(agrees) {
            let what = format!("{} as keytrj {} says", timestep.keytrj + 1, timestep.keytrj);
            return Err(Error::corrupt("lines of numbers of an atom", what, levels).at_frame(0).at_byte(first as u64));
        }
        let shape =
            Shape { first: first as u64, n_atoms, levels, cell, keytrj: timestep.keytrj, imcon: timestep.imcon };
        Ok(Self { header: Self::header(&shape, title, second_says), shape })
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

    fn heads(&self) -> TextHeads<Shape> {
        TextHeads(self.shape)
    }
}

impl Decoder for ClassicDecoder {
    fn header(&self) -> &Header {
        &self.header
    }

    fn wide_fields(&self) -> Fields {
        fields_of(self.shape.levels)
    }

    fn scan(&self, source: &dyn Source, options: &ScanOptions<'_>) -> Result<Scan> {
        scan::scan(source, &self.heads(), options, scan::PARALLEL_FROM)
    }

    fn supports_ranged_scan(&self) -> bool {
        true
    }

    fn scan_range(
        &self,
        source: &dyn Source,
        range: std::ops::Range<u64>,
        progress: &(dyn Fn(u64) -> Result<()> + Sync),
    ) -> Result<TableIndex> {
        scan::scan_range(source, &self.heads(), range, progress)
    }

    fn scan_with_ranges(&self, source: &dyn Source, options: &ScanOptions<'_>, ranges: &[TableIndex]) -> Result<Scan> {
        scan::scan_with_ranges(source, &self.heads(), options, ranges)
    }

    fn segments(&self, index: &Index, wanted: &[Wanted], request: &Request, segments: &mut Vec<Segment>) -> Result<()> {
        let wants_vectors = Fields::VECTORS.into_iter().any(|field| request.fields.contains(field));
        let n_atoms = u64::from(self.shape.n_atoms);
        let last = if wants_vectors { request.atoms.iter().last().map_or(0, |atom| u64::from(atom) + 1) } else { 0 };
        for (i, one) in (0_u32..).zip(wanted) {
            if one.frame >= index.n_frames() {
                return Err(Error::new(ErrorKind::Internal, "a frame is not in the index").in_format(NAME));
            }
            let whole = index.extent(one.frame);
            // atoms take about the same number of bytes each; a guess that is too short is read again
            let guess = FRAME_HEAD + (u128::from(whole.len) * u128::from(last) / u128::from(n_atoms)) as u64;
            let len = if guess > whole.len / 10 * 9 { whole.len } else { guess };
            let extent = Extent { offset: whole.offset, len };
            segments.push(Segment { wanted: i..i + 1, atoms: 0..self.shape.n_atoms, part: 0, extent, whole });
        }
        Ok(())
    }

    fn decode(
        &self,
        segment: &Segment,
        bytes: &[u8],
        wanted: &[Wanted],
        request: &Request,
        out: &mut BlockMut<'_>,
        _: &mut Scratch,
    ) -> Result<Decoded> {
        let Some(&one) = wanted.get(segment.wanted.start as usize) else {
            return Err(Error::new(ErrorKind::Internal, "the segment is not of the wanted frames").in_format(NAME));
        };
        let frame = Frame { shape: &self.shape, bytes, whole: segment.whole };
        let decoded = frame.decode(one.row as usize, request, out);
        decoded.map_err(|error| error.at_byte(segment.whole.offset).at_frame(one.frame).in_format(NAME))
    }
}

/// The bytes of a frame, or the first of them.
struct Frame<'a> {
    shape: &'a Shape,
    bytes: &'a [u8],
    whole: Extent,
}

/// Why an atom was not decoded.
enum Stopped {
    /// The bytes end before it, or atoms are not in the order of their indices: all bytes are needed.
    NeedsAll,
    Failed(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Frame<'_> {
    fn decode(&self, row: usize, request: &Request, out: &mut BlockMut<'_>) -> Result<Decoded> {
        let needs_all = Decoded::NeedsPrefix(self.whole.len);
        let is_whole = self.bytes.len() as u64 >= self.whole.len;
        let (head, len) = match lines::head_of(self.shape, self.bytes, self.whole.offset) {
            Ok(_) => {
                let len = line_len(self.bytes).unwrap_or(self.bytes.len());
                (self.shape.timestep(without_end(&self.bytes[..len]), self.whole.offset)?, len)
            }
            Err(HeaderFault::Wrong(error)) => return Err(error),
            Err(_) if !is_whole => return Ok(needs_all),
            Err(_) => return Err(self.ends_early()),
        };
        if head.n_atoms != i64::from(self.shape.n_atoms) {
            return Err(Error::corrupt("number of atoms", self.shape.n_atoms, head.n_atoms));
        }
        let Some((cell, atoms_at)) = self.cell(len, head.imcon, request)? else {
            return if is_whole { Err(self.ends_early()) } else { Ok(needs_all) };
        };
        let there = if cell == NO_CELL { Fields::NONE } else { Fields::CELL };
        let present = fields_of(self.shape.levels) | there;
        *out.stamp(row)? = Stamp { cell, step: head.step, time: head.time * request.scales.time, present };
        if !Fields::VECTORS.into_iter().any(|field| request.fields.contains(field)) {
            return Ok(Decoded::Done);
        }
        match self.in_order(atoms_at, row, request, out) {
            Ok(()) => Ok(Decoded::Done),
            Err(Stopped::Failed(error)) => Err(error),
            Err(Stopped::NeedsAll) if !is_whole => Ok(needs_all),
            Err(Stopped::NeedsAll) => self.by_indices(atoms_at, row, request, out).map(|()| Decoded::Done),
        }
    }

    fn ends_early(&self) -> Error {
        Error::corrupt("wrong number of lines of a frame", "those of its atoms", "fewer").at_byte(self.whole.offset)
    }

    /// The line at byte `at` of the frame, without its end; `None` where the bytes end before it does.
    fn line(&self, at: usize) -> Option<(&[u8], usize)> {
        let left = self.bytes.get(at..)?;
        let len = line_len(left)?;
        Some((without_end(&left[..len]), at + len))
    }

    fn byte(&self, at: usize) -> u64 {
        self.whole.offset.saturating_add(at as u64)
    }

    /// The cell, whose lines begin at byte `at` of the frame, and where those of the atoms begin; `None` where the bytes end
    /// before.
    fn cell(&self, mut at: usize, imcon: i64, request: &Request) -> Result<Option<(crate::frame::Cell, usize)>> {
        let mut cell = NO_CELL;
        for vector in cell.iter_mut().take(self.shape.cell_lines()) {
            let Some((line, next)) = self.line(at) else { return Ok(None) };
            *vector = three(line, self.byte(at), "vector of the cell")?;
            at = next;
        }
        if imcon == 0 {
            return Ok(Some((NO_CELL, at)));
        }
        let cell = checked_cell(cell).map_err(|error| error.at_byte(self.byte(at)))?;
        Ok(Some((cell.map(|vector| vector.map(|value| value * request.scales.length)), at)))
    }

    /// Puts the selected atoms, as long as each has the index of its place or none.
    fn in_order(
        &self,
        at: usize,
        row: usize,
        request: &Request,
        out: &mut BlockMut<'_>,
    ) -> std::result::Result<(), Stopped> {
        let mut rows = Rows::of(self.shape, row, request, out)?;
        let (mut at, mut next) = (at, 0_u32);
        for (place, atom) in request.atoms.iter().enumerate() {
            let skipped = (atom - next) as usize * (1 + self.shape.levels);
            at += lines_len(&self.bytes[at..], skipped).map_err(|_| Stopped::NeedsAll)?;
            let index = self.index(at)?;
            if index.is_some_and(|index| index != i64::from(atom) + 1) {
                return Err(Stopped::NeedsAll);
            }
            at = self.vectors(at, place, &mut rows)?;
            next = atom + 1;
        }
        Ok(())
    }

    /// The index in the first line of an atom, if there is one.
    fn index(&self, at: usize) -> std::result::Result<Option<i64>, Stopped> {
        let (line, _) = self.line(at).ok_or(Stopped::NeedsAll)?;
        let named = name_and_index(line).filter(|_| Timestep::parse(line, 0).is_err());
        let (_, index) = named.ok_or_else(|| {
            Error::corrupt("line of an atom", "its name and index", shown(line)).at_byte(self.byte(at))
        })?;
        Ok(index)
    }

    /// Puts the vectors of the atom whose lines begin at byte `at`; where they end.
    #[inline]
    fn vectors(&self, at: usize, place: usize, rows: &mut Rows<'_>) -> std::result::Result<usize, Stopped> {
        let (_, mut at) = self.line(at).ok_or(Stopped::NeedsAll)?;
        for level in 0..self.shape.levels {
            let (line, next) = self.line(at).ok_or(Stopped::NeedsAll)?;
            if rows.is_wanted(level) {
                let vector = match parse_three(line) {
                    Some((vector, _)) => vector,
                    None => three(line, self.byte(at), "vector of an atom")?,
                };
                rows.put(level, place, vector);
            }
            at = next;
        }
        Ok(at)
    }

    /// Puts the selected atoms of a whole frame by their indices; where two have the same, the file's order counts, as
    /// for DL_POLY.
    fn by_indices(&self, at: usize, row: usize, request: &Request, out: &mut BlockMut<'_>) -> Result<()> {
        let n = self.shape.n_atoms as usize;
        let needs_no_more = |stopped| match stopped {
            Stopped::NeedsAll => self.ends_early(),
            Stopped::Failed(error) => error,
        };
        // bounded by the bytes that are there
        let mut starts = Vec::new();
        let (mut next, mut order, mut distinct) = (at, vec![usize::MAX; n.min(self.bytes.len())], true);
        for number in 0..n {
            starts.push(next);
            let index = self.index(next).map_err(needs_no_more)?;
            let place = index.and_then(|index| usize::try_from(index.checked_sub(1)?).ok()).filter(|&place| place < n);
            let Some(slot) = place.and_then(|place| order.get_mut(place)) else {
                let found = index.map_or("none".to_owned(), |index| index.to_string());
                return Err(Error::corrupt("index of an atom", format!("1 to {n}"), found).at_byte(self.byte(next)));
            };
            distinct = distinct && *slot == usize::MAX;
            *slot = number;
            let len = lines_len(&self.bytes[next..], 1 + self.shape.levels).map_err(|_| self.ends_early())?;
            next += len;
        }
        let mut rows = Rows::of(self.shape, row, request, out)?;
        for (place, atom) in request.atoms.iter().enumerate() {
            let number = if distinct { order[atom as usize] } else { atom as usize };
            self.vectors(starts[number], place, &mut rows).map_err(needs_no_more)?;
        }
        Ok(())
    }
}

/// Where the vectors of a frame go.
struct Rows<'a> {
    levels: [Row<'a>; 3],
}

enum Row<'a> {
    Absent,
    F32(&'a mut [f32], f64),
    F64(&'a mut [f64], f64),
}

impl<'a> Rows<'a> {
    fn of(shape: &Shape, row: usize, request: &Request, out: &'a mut BlockMut<'_>) -> Result<Self> {
        let n = request.atoms.len();
        if n != out.n_selected || request.atoms.n_atoms() != shape.n_atoms {
            return Err(Error::new(ErrorKind::Internal, "the block is not made for this selection of atoms"));
        }
        let factors = [request.scales.length, request.scales.velocity, request.scales.force];
        let mut levels = [Row::Absent, Row::Absent, Row::Absent];
        for (i, vectors) in out.vectors.iter_mut().enumerate().take(shape.levels) {
            levels[i] = match vectors {
                VectorsMut::Absent => Row::Absent,
                VectorsMut::F32(rows) => Row::F32(rows.row(row, 3 * n)?, factors[i]),
                VectorsMut::F64(rows) => Row::F64(rows.row(row, 3 * n)?, factors[i]),
            };
        }
        Ok(Self { levels })
    }

    fn is_wanted(&self, level: usize) -> bool {
        !matches!(self.levels[level], Row::Absent)
    }

    fn put(&mut self, level: usize, place: usize, vector: [f64; 3]) {
        let to = 3 * place..3 * place + 3;
        match &mut self.levels[level] {
            Row::Absent => {}
            Row::F32(values, factor) => {
                values[to].iter_mut().zip(vector).for_each(|(out, value)| *out = Real::scaled(value, *factor));
            }
            Row::F64(values, factor) => {
                values[to].iter_mut().zip(vector).for_each(|(out, value)| *out = Real::scaled(value, *factor));
            }
        }
    }
}
