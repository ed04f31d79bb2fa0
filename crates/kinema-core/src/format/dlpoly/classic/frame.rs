//! One frame of records of any width: its cell and the atoms that are wanted.

use super::super::atoms::AtomNames;
use super::super::free::{name_and_index, three};
use super::super::timestep::Timestep;
use super::super::{fields_of, shown};
use super::Shape;
use crate::container::text::lines::{line_len, lines_len, trim_line_end};
use crate::container::text::{Words, parse_f64, parse_three};
use crate::error::{Error, ErrorKind, Result};
use crate::format::lines::head_of;
use crate::format::scan::HeaderFault;
use crate::format::{Decoded, Request};
use crate::frame::{BlockMut, Cell, Fields, NO_CELL, Real, Stamp, VectorsMut};
use crate::source::Extent;

/// The bytes of a frame, or the first of them.
pub(super) struct Frame<'a> {
    pub shape: &'a Shape,
    pub bytes: &'a [u8],
    pub whole: Extent,
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
    /// Puts the requested values of the frame into a row, or asks for all its bytes.
    ///
    /// # Errors
    /// `Corrupt` with the byte; `Internal` if the block has no such row.
    pub fn decode(&self, row: usize, request: &Request, out: &mut BlockMut<'_>) -> Result<Decoded> {
        let needs_all = Decoded::NeedsPrefix(self.whole.len);
        let is_whole = self.bytes.len() as u64 >= self.whole.len;
        let (head, len) = match head_of(self.shape, self.bytes, self.whole.offset) {
            Ok(_) => {
                let len = line_len(self.bytes).unwrap_or(self.bytes.len());
                (self.shape.timestep(trim_line_end(&self.bytes[..len]), self.whole.offset)?, len)
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
        *out.stamp(row)? = Stamp {
            cell,
            periodic: super::super::periodic_of(head.imcon),
            step: head.step,
            time: head.time * request.scales.time,
            present,
        };
        if !Fields::VECTORS.into_iter().any(|field| request.fields.contains(field)) {
            return Ok(Decoded::Done);
        }
        match self.put_in_order(atoms_at, row, request, out) {
            Ok(()) => Ok(Decoded::Done),
            Err(Stopped::Failed(error)) => Err(error),
            Err(Stopped::NeedsAll) if !is_whole => Ok(needs_all),
            Err(Stopped::NeedsAll) => self.put_by_indices(atoms_at, row, request, out).map(|()| Decoded::Done),
        }
    }

    /// Whether a whole frame has the lines that its head says, and no more.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn check_lines(&self) -> Result<()> {
        let lines = 1 + self.shape.cell_lines() + (1 + self.shape.levels) * self.shape.n_atoms as usize;
        if lines_len(self.bytes, lines) == Ok(self.whole.len as usize) {
            return Ok(());
        }
        let found = self.bytes.iter().filter(|&&byte| byte == b'\n').count();
        Err(Error::corrupt("wrong number of lines of a frame", lines, found).with_byte(self.whole.offset))
    }

    fn ends_early(&self) -> Error {
        Error::corrupt("wrong number of lines of a frame", "lines of all atoms", "fewer").with_byte(self.whole.offset)
    }

    /// The line at byte `at` of the frame, without its end; `None` if the bytes end before the line does.
    fn line(&self, at: usize) -> Option<(&[u8], usize)> {
        let left = self.bytes.get(at..)?;
        let len = line_len(left)?;
        Some((trim_line_end(&left[..len]), at + len))
    }

    fn byte(&self, at: usize) -> u64 {
        self.whole.offset.saturating_add(at as u64)
    }

    /// The cell, whose lines begin at byte `at` of the frame, and the byte at which the atoms' lines begin; `None` if
    /// the bytes end before it.
    fn cell(&self, mut at: usize, imcon: i64, request: &Request) -> Result<Option<(Cell, usize)>> {
        let mut cell = NO_CELL;
        for vector in cell.iter_mut().take(self.shape.cell_lines()) {
            let Some((line, next)) = self.line(at) else { return Ok(None) };
            *vector = three(line, self.byte(at), "vector of the cell")?;
            at = next;
        }
        if imcon == 0 {
            return Ok(Some((NO_CELL, at)));
        }
        Ok(Some((cell.map(|vector| vector.map(|value| value * request.scales.length)), at)))
    }

    /// Puts the selected atoms, as long as each has the index of its place or none.
    fn put_in_order(
        &self,
        at: usize,
        row: usize,
        request: &Request,
        out: &mut BlockMut<'_>,
    ) -> std::result::Result<(), Stopped> {
        let mut rows = Rows::new(self.shape, row, request, out)?;
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
            Error::corrupt("line of an atom", "its name and index", shown(line)).with_byte(self.byte(at))
        })?;
        Ok(index)
    }

    /// Puts the vectors of the atom whose lines begin at byte `at`; returns where they end.
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

    /// Puts the selected atoms of a whole frame by their indices.
    fn put_by_indices(&self, at: usize, row: usize, request: &Request, out: &mut BlockMut<'_>) -> Result<()> {
        let starts = self.starts(at)?;
        let mut rows = Rows::new(self.shape, row, request, out)?;
        for (place, atom) in request.atoms.iter().enumerate() {
            self.vectors(starts[atom as usize], place, &mut rows).map_err(|stopped| self.fault(stopped))?;
        }
        Ok(())
    }

    fn fault(&self, stopped: Stopped) -> Error {
        match stopped {
            Stopped::NeedsAll => self.ends_early(),
            Stopped::Failed(error) => error,
        }
    }

    /// Where the lines of each atom of a whole frame begin, ordered by the atoms' indices. If two indices are the same
    /// or there are none, the file's order counts, as for DL_POLY.
    fn starts(&self, at: usize) -> Result<Vec<usize>> {
        let n = self.shape.n_atoms as usize;
        // no more than the bytes that are there
        let (mut starts, mut order) = (Vec::new(), vec![usize::MAX; n.min(self.bytes.len())]);
        let (mut next, mut distinct) = (at, true);
        for _ in 0..n {
            let index = self.index(next).map_err(|stopped| self.fault(stopped))?;
            match index {
                None => distinct = false,
                Some(index) => {
                    let place = usize::try_from(index.saturating_sub(1)).ok().filter(|&place| place < n);
                    let Some(slot) = place.and_then(|place| order.get_mut(place)) else {
                        let error = Error::corrupt("index of an atom", format!("1 to {n}"), index);
                        return Err(error.with_byte(self.byte(next)));
                    };
                    distinct = distinct && *slot == usize::MAX;
                    *slot = next;
                }
            }
            starts.push(next);
            next += lines_len(&self.bytes[next..], 1 + self.shape.levels).map_err(|_| self.ends_early())?;
        }
        Ok(if distinct { order } else { starts })
    }

    /// Name, mass and charge of each atom of a whole frame, in the order in which they are read.
    ///
    /// # Errors
    /// `Corrupt` with the byte.
    pub fn atoms(&self) -> Result<AtomNames> {
        let len = line_len(self.bytes).ok_or_else(|| self.ends_early())?;
        let after_cell = lines_len(&self.bytes[len..], self.shape.cell_lines()).map_err(|_| self.ends_early())?;
        let (mut names, mut masses, mut charges) = (Vec::new(), Vec::new(), Vec::new());
        for start in self.starts(len + after_cell)? {
            let (line, _) = self.line(start).ok_or_else(|| self.ends_early())?;
            let (name, _) = name_and_index(line).unwrap_or_default();
            names.push(String::from_utf8_lossy(name).into_owned());
            // columns as programs write them, or words of an edited line
            let column = |columns| line.get(columns).and_then(|text: &[u8]| parse_f64(text.trim_ascii()));
            let word = |number| Words::new(line).nth(number).and_then(|(_, word)| parse_f64(word));
            let (mass, charge) = match (column(18..30), column(30..42)) {
                (Some(mass), Some(charge)) => (Some(mass), Some(charge)),
                _ => (word(2), word(3)),
            };
            masses.extend(mass);
            charges.extend(charge);
        }
        let of_all = |values: Vec<f64>| Some(values).filter(|values| values.len() == names.len());
        Ok(AtomNames { masses: of_all(masses), charges: of_all(charges), names })
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
    fn new(shape: &Shape, row: usize, request: &Request, out: &'a mut BlockMut<'_>) -> Result<Self> {
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
