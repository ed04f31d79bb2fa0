//! Records of one width: columns of numbers in them, and the block of atoms that HISTORY and CONFIG files share.

use std::ops::Range;

use super::shown;
use crate::container::text::{parse_f64, parse_i64};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Request;
use crate::frame::{BlockMut, Real, VectorsMut};

/// Width of a column of a vector.
const COLUMN: usize = 20;
/// The columns of a record with three numbers.
const THREE: [Range<usize>; 3] = [0..COLUMN, COLUMN..2 * COLUMN, 2 * COLUMN..3 * COLUMN];
/// The columns of a record of a compressed file: name, positions, displacement.
const COMPRESSED: [Range<usize>; 3] = [6..13, 13..20, 20..27];

/// Characters of a record, and of one of a compressed file.
pub(super) const RECORD: usize = 72;
pub(super) const SHORT_RECORD: usize = 34;

/// Columns of a record, without blanks at both ends.
pub(super) fn column(record: &[u8], columns: Range<usize>) -> &[u8] {
    record.get(columns).unwrap_or_default().trim_ascii()
}

/// A whole number in columns of a record that begins at byte `at`.
pub(super) fn integer(record: &[u8], columns: Range<usize>, what: &str, at: u64) -> Result<i64> {
    let word = column(record, columns.clone());
    parse_i64(word).ok_or_else(|| {
        Error::corrupt(what, "a whole number", shown(word)).with_byte(at.saturating_add(columns.start as u64))
    })
}

/// A real number in columns of a record that begins at byte `at`.
pub(super) fn real(record: &[u8], columns: Range<usize>, what: &str, at: u64) -> Result<f64> {
    number(record.get(columns.clone()).unwrap_or_default()).ok_or_else(|| {
        let found = shown(column(record, columns.clone()));
        Error::corrupt(what, "a number", found).with_byte(at.saturating_add(columns.start as u64))
    })
}

/// The number in a column.
#[inline]
fn number(column: &[u8]) -> Option<f64> {
    parse_f64(column.trim_ascii())
}

/// How the records of a file end and how wide they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lines {
    /// Characters of a record without its end.
    pub text: usize,
    /// Bytes of its end: a line feed, after a carriage return in copies made on Windows.
    pub end: usize,
}

impl Lines {
    /// The records of a file that begins so, if its first two have the same width, and DL_POLY writes this width.
    pub fn from_head(head: &[u8]) -> Option<Self> {
        let first = head.iter().position(|&byte| byte == b'\n')?;
        let end = if first > 0 && head[first - 1] == b'\r' { 2 } else { 1 };
        let lines = Self { text: (first + 1).checked_sub(end)?, end };
        let known = lines.text == RECORD || lines.text == SHORT_RECORD;
        (known && lines.ends_at(head, lines.width())).then_some(lines)
    }

    /// Bytes of a record.
    pub fn width(self) -> usize {
        self.text + self.end
    }

    /// Whether the record that begins at a place ends where it should.
    #[inline]
    pub fn ends_at(self, bytes: &[u8], start: usize) -> bool {
        let end = bytes.get(start + self.text..start + self.width());
        end.is_some_and(|end| if self.end == 1 { end == b"\n" } else { end == b"\r\n" })
    }

    /// Record `number` of the bytes, which begin at byte `at` of the file; without its end.
    ///
    /// # Errors
    /// `Corrupt` if it does not end where it should.
    pub fn record(self, bytes: &[u8], number: usize, at: u64) -> Result<&[u8]> {
        let start = number * self.width();
        if !self.ends_at(bytes, start) {
            return Err(self.broken(bytes, start, at));
        }
        Ok(&bytes[start..start + self.text])
    }

    /// The error of a record at `start` of some bytes that begin at byte `at` of the file.
    #[cold]
    fn broken(self, bytes: &[u8], start: usize, at: u64) -> Error {
        let rest = bytes.get(start..).unwrap_or_default();
        let found = rest.iter().position(|&byte| byte == b'\n').map_or_else(
            || format!("none in {} bytes", rest.len().min(self.width())),
            |found| format!("one of {}", found + 1),
        );
        Error::corrupt("wrong width of a record", format!("{} bytes", self.width()), found)
            .with_byte(at.saturating_add(start as u64))
    }
}

/// The records of the atoms of one frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct AtomBlock {
    pub lines: Lines,
    pub n_atoms: u32,
    /// Vectors that are there: positions, then velocities, then forces.
    pub levels: usize,
    /// Whether the file is compressed: its records have the columns of the name, but no index after it.
    pub compressed: bool,
}

/// Bytes of some records of atoms, and which selected atoms to take from them.
struct Part<'a> {
    block: AtomBlock,
    bytes: &'a [u8],
    /// Where they begin in the file.
    at: u64,
    /// The record that they begin with.
    first: u32,
    /// Places in the row and the records of the atoms that belong there.
    places: Range<usize>,
    atoms: Option<&'a [u32]>,
    /// The record of each atom, where they are in another order.
    order: Option<&'a [i32]>,
}

impl AtomBlock {
    /// Records of an atom.
    pub fn records_an_atom(&self) -> usize {
        if self.compressed { 1 } else { 1 + self.levels }
    }

    /// Bytes of an atom.
    pub fn atom_len(&self) -> u64 {
        (self.lines.width() * self.records_an_atom()) as u64
    }

    /// Bytes of all atoms.
    pub fn len(&self) -> u64 {
        self.atom_len().saturating_mul(u64::from(self.n_atoms))
    }

    /// The index, from 1, in the first record of an atom; in a compressed file, which has no indices, the index of its
    /// place.
    pub fn index(&self, bytes: &[u8], number: usize, at: u64, place: u32) -> Result<i64> {
        if self.compressed {
            return Ok(i64::from(place) + 1);
        }
        let start = number * self.atom_len() as usize;
        if !self.lines.ends_at(bytes, start) {
            return Err(self.lines.broken(bytes, start, at));
        }
        integer(&bytes[start..start + self.lines.text], 8..18, "index of an atom", at.saturating_add(start as u64))
    }

    /// Whether the records of these atoms, which are the first, are in the order of their indices.
    pub fn is_in_order(&self, bytes: &[u8]) -> bool {
        let n = bytes.len() / self.atom_len().max(1) as usize;
        (0..n as u32).all(|i| self.index(bytes, i as usize, 0, i).is_ok_and(|index| index == i64::from(i) + 1))
    }

    /// Finds the record of each atom by the indices. True if the atoms are in order: `order` then stays empty.
    ///
    /// # Errors
    /// `Corrupt` unless the indices are 1 to the number of atoms, each once.
    pub fn order(&self, bytes: &[u8], at: u64, order: &mut Vec<i32>) -> Result<bool> {
        let n = self.n_atoms as usize;
        let mut sorted = true;
        order.clear();
        if self.compressed {
            return Ok(true);
        }
        for number in 0..n {
            let index = self.index(bytes, number, at, number as u32)?;
            sorted = sorted && index == number as i64 + 1;
            if sorted {
                continue;
            }
            if order.is_empty() {
                order.resize(n, -1);
                (0..number).for_each(|before| order[before] = before as i32);
            }
            let wrong = |what: &str| {
                let byte = at.saturating_add((number as u64).saturating_mul(self.atom_len())).saturating_add(8);
                Error::corrupt(what, format!("1 to {n}, each once"), index).with_byte(byte)
            };
            let place = usize::try_from(index - 1).ok().and_then(|place| order.get_mut(place));
            let place = place.ok_or_else(|| wrong("index of an atom"))?;
            if *place >= 0 {
                return Err(wrong("index of an atom that another has"));
            }
            *place = i32::try_from(number).map_err(|_| Error::new(ErrorKind::Unsupported, "too many atoms to sort"))?;
        }
        Ok(sorted)
    }

    /// Puts the selected atoms of `run` into a row; `bytes` are the run's records. `false` if they are records of other
    /// atoms: the atoms are in another order.
    ///
    /// # Errors
    /// `Corrupt`, with the byte, for text that is not a number; `Internal` if the block has no such row.
    pub fn decode_run(
        &self,
        bytes: &[u8],
        at: u64,
        run: &Range<u32>,
        request: &Request,
        row: usize,
        out: &mut BlockMut<'_>,
    ) -> Result<bool> {
        let atoms = request.atoms.indices();
        let places = match atoms {
            None => run.start as usize..run.end as usize,
            Some(atoms) => {
                atoms.partition_point(|&atom| atom < run.start)..atoms.partition_point(|&atom| atom < run.end)
            }
        };
        for place in places.clone() {
            let atom = atoms.map_or(place as u32, |atoms| atoms[place]);
            if self.index(bytes, (atom - run.start) as usize, at, atom)? != i64::from(atom) + 1 {
                return Ok(false);
            }
        }
        Part { block: *self, bytes, at, first: run.start, places, atoms, order: None }.put(request, row, out)?;
        Ok(true)
    }

    /// Puts the selected atoms of a frame into a row, whatever their order; `bytes` are all its records.
    ///
    /// # Errors
    /// As [`AtomBlock::decode_run`] and [`AtomBlock::order`].
    pub fn decode_all(
        &self,
        bytes: &[u8],
        at: u64,
        request: &Request,
        row: usize,
        out: &mut BlockMut<'_>,
        order: &mut Vec<i32>,
    ) -> Result<()> {
        let sorted = self.order(bytes, at, order)?;
        let atoms = request.atoms.indices();
        let places = 0..request.atoms.len();
        let order = (!sorted).then_some(order.as_slice());
        Part { block: *self, bytes, at, first: 0, places, atoms, order }.put(request, row, out)
    }
}

impl Part<'_> {
    fn put(&self, request: &Request, row: usize, out: &mut BlockMut<'_>) -> Result<()> {
        let n_selected = request.atoms.len();
        if n_selected != out.n_selected || request.atoms.n_atoms() != self.block.n_atoms {
            return Err(Error::new(ErrorKind::Internal, "the block is not made for this selection of atoms"));
        }
        let factors = [request.scales.length, request.scales.velocity, request.scales.force];
        for (level, (vectors, factor)) in out.vectors.iter_mut().zip(factors).enumerate().take(self.block.levels) {
            match vectors {
                VectorsMut::Absent => {}
                VectorsMut::F32(rows) => self.fill(level, factor, rows.row(row, 3 * n_selected)?)?,
                VectorsMut::F64(rows) => self.fill(level, factor, rows.row(row, 3 * n_selected)?)?,
            }
        }
        Ok(())
    }

    fn fill<R: Real>(&self, level: usize, factor: f64, values: &mut [R]) -> Result<()> {
        let (block, lines) = (self.block, self.block.lines);
        let (columns, record) = if block.compressed { (&COMPRESSED, 0) } else { (&THREE, 1 + level) };
        let (atom_len, inside) = (block.atom_len() as usize, record * lines.width());
        for place in self.places.clone() {
            let atom = self.atoms.map_or(place as u32, |atoms| atoms[place]);
            let number_of = self.order.map_or(atom as usize, |order| order[atom as usize] as usize);
            let start = (number_of - self.first as usize) * atom_len + inside;
            if !lines.ends_at(self.bytes, start) {
                return Err(lines.broken(self.bytes, start, self.at));
            }
            let text = &self.bytes[start..start + lines.text];
            let to = &mut values[3 * place..3 * place + 3];
            for (axis, columns) in columns.iter().enumerate() {
                match number(&text[columns.clone()]) {
                    Some(value) => to[axis] = R::scaled(value, factor),
                    None => {
                        real(text, columns.clone(), "component of a vector", self.at.saturating_add(start as u64))?;
                    }
                }
            }
        }
        Ok(())
    }
}
