//! Shared parts of the encoders of HISTORY and CONFIG files: records of the cell and of atoms.

use std::ops::Range;
use std::sync::Arc;

pub(super) use crate::container::text::fortran::holds;
use crate::container::text::fortran::{put_f, put_g20_10, put_text};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{AtomLabels, AtomNumbers, AtomPlane, FrameLayout, Making};
use crate::frame::{BlockView, Cell, Fields, NO_CELL};

use super::records::RECORD;
use super::{VECTORS, fields_of};

/// Bytes of a record that is written.
pub(super) const WIDTH: usize = RECORD + 1;

/// Losses.
pub(super) const NO_TIME: &str = "frames without a time have NaN in its place";
pub(super) const CELLS: &str = "cells are rounded to 1e-10 angstrom";

/// DL_POLY's shape of a cell that is periodic in x and y alone.
pub(super) const SLAB: i64 = 6;

/// Longest name of an atom.
const NAME_WIDTH: usize = 8;
/// Columns of its index.
const INDEX_WIDTH: usize = 10;
/// Name of atoms whose names are not known.
const UNKNOWN: &str = "X";

/// The vectors of each atom: the first, the first two, or all.
/// Errors: `InvalidArgument` for others, for vectors that the source lacks, and for a precision.
pub(super) fn levels(making: &Making, losses: &mut Vec<String>) -> Result<usize> {
    if making.precision.is_some() {
        let what = "a file of DL_POLY has 10 digits of each number, which no precision= changes";
        return Err(Error::new(ErrorKind::InvalidArgument, what));
    }
    let mut making = making.clone();
    if making.fields.is_none() && !making.held.contains(Fields::VELOCITIES) {
        making.fields = Some(Fields::POSITIONS);
    }
    let chosen = making.chosen_fields(VECTORS, losses)?;
    let levels = (1..=3).find(|&levels| fields_of(levels) == chosen);
    levels.ok_or_else(|| {
        let expected = "positions, or positions and velocities, or positions, velocities and forces";
        let what = format!("fields of a file of DL_POLY, expected {expected}, found {}", chosen.names().join(", "));
        Error::new(ErrorKind::InvalidArgument, what)
    })
}

/// Appends what `put` does, unless the number has more digits than its columns.
pub(super) fn checked(out: &mut Vec<u8>, what: &str, put: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
    let start = out.len();
    put(out);
    if out[start..].contains(&b'*') {
        let found = out.len() - start;
        let what = format!("{what} that the {found} columns of a file of DL_POLY do not hold");
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    Ok(())
}

/// Fills a record that begins at `start` with blanks, and ends it.
pub(super) fn end_record(out: &mut Vec<u8>, start: usize) {
    out.resize(start + RECORD, b' ');
    out.push(b'\n');
}

/// The least general shape that fits a cell: 0 none, 1 cubic, 2 orthorhombic, 3 any, [`SLAB`] without a third edge.
pub(super) fn imcon_of(cell: &Cell) -> i64 {
    let [[xx, xy, xz], [yx, yy, yz], [zx, zy, zz]] = *cell;
    if *cell == NO_CELL {
        0
    } else if [zx, zy, zz] == [0.0; 3] && [xz, yz] == [0.0; 2] {
        SLAB
    } else if [xy, xz, yx, yz, zx, zy] != [0.0; 6] {
        3
    } else if xx == yy && yy == zz {
        1
    } else {
        2
    }
}

/// The most general shape of these cells; that of a slab if all are slabs, as frames may say otherwise.
pub(super) fn imcon_of_all(cells: &[Cell]) -> i64 {
    let shapes = cells.iter().map(imcon_of);
    let general = shapes.clone().filter(|shape| *shape != SLAB).max().unwrap_or(0);
    if general == 0 { shapes.max().unwrap_or(0) } else { general }
}

/// Whether the records of a cell hold it.
pub(super) fn holds_cell(cell: &Cell) -> bool {
    cell.iter().flatten().all(|&value| holds(value, 10))
}

/// The cell that a reader gets from the written records of `cell`.
pub(super) fn cell_in_columns(cell: &Cell) -> Cell {
    cell.map(|vector| vector.map(|value| (value * 1e10).round() / 1e10))
}

pub(super) fn put_cell(out: &mut Vec<u8>, cell: &Cell) -> Result<()> {
    for vector in cell {
        let start = out.len();
        for &value in vector {
            checked(out, "a cell", |out| put_f(out, value, 20, 10))?;
        }
        end_record(out, start);
    }
    Ok(())
}

/// Which records of an atom's first line there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Name and index.
    Config,
    /// Name, index, mass, charge, and a displacement of 0.
    History,
}

/// The first record of every atom; a file has few kinds.
#[derive(Debug, Default)]
pub(super) struct AtomLines {
    /// One record a kind, with blanks in place of the index.
    kinds: Vec<u8>,
    /// The kind of each atom; one kind for all atoms if nothing is known of them.
    labels: Option<Arc<AtomLabels>>,
}

impl AtomLines {
    /// Adds to `losses` the data of atoms that are not known, or not written.
    ///
    /// # Errors
    /// `InvalidArgument` for labels of other atoms, and for masses and charges beyond their columns.
    pub fn new(making: &Making, kind: Kind, losses: &mut Vec<String>) -> Result<Self> {
        let labels = making.labels.clone().map(|labels| AtomLabels::from_kinds(labels, making.n_atoms)).transpose()?;
        let none = AtomLabels::default();
        let known = labels.as_deref().unwrap_or(&none);
        let mut unknown = Vec::new();
        if known.names.is_none() {
            unknown.push("names");
        }
        if kind == Kind::History && known.masses.is_none() {
            unknown.push("masses");
        }
        if kind == Kind::History && known.charges.is_none() {
            unknown.push("charges");
        }
        if !unknown.is_empty() {
            losses.push(format!("atoms have no known {}: X and 0 are written", unknown.join(", ")));
        }
        let mut changed = false;
        let kinds = records_of_kinds(known, kind, &mut changed)?;
        if changed {
            losses.push(
                "atoms have other names: of 8 characters at most, with _ for those that no word of ASCII has"
                    .to_owned(),
            );
        }
        Ok(Self { kinds, labels })
    }

    /// Names, masses and charges, one a kind.
    pub fn labels(&self) -> Option<&Arc<AtomLabels>> {
        self.labels.as_ref()
    }

    /// Appends the first record of an atom.
    #[inline]
    fn put(&self, atom: u32, out: &mut Vec<u8>) -> Result<()> {
        let code = match self.labels.as_deref() {
            Some(AtomLabels { codes: Some(codes), .. }) => codes.get(atom as usize).copied(),
            _ => Some(0),
        };
        let record = code.and_then(|code| self.kinds.as_chunks::<WIDTH>().0.get(code as usize));
        let record = record.ok_or_else(|| Error::new(ErrorKind::Internal, format!("the file has no atom {atom}")))?;
        let start = out.len();
        out.extend_from_slice(record);
        let mut rest = u64::from(atom) + 1;
        for place in out[start + NAME_WIDTH..start + NAME_WIDTH + INDEX_WIDTH].iter_mut().rev() {
            *place = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        Ok(())
    }
}

fn records_of_kinds(labels: &AtomLabels, kind: Kind, changed: &mut bool) -> Result<Vec<u8>> {
    let lens = [
        labels.names.as_ref().map(Vec::len),
        labels.masses.as_ref().map(Vec::len),
        labels.charges.as_ref().map(Vec::len),
    ];
    let n = lens.into_iter().flatten().next().unwrap_or(1);
    let mut out = Vec::new();
    out.try_reserve_exact(n * WIDTH)
        .map_err(|_| Error::new(ErrorKind::MemoryLimit, format!("no memory for the names of {n} atoms")))?;
    for number in 0..n {
        let start = out.len();
        let name = labels.names.as_ref().map_or(UNKNOWN, |names| names[number].as_str());
        put_text(&mut out, name_of(name, changed).as_bytes(), NAME_WIDTH);
        out.resize(start + NAME_WIDTH + INDEX_WIDTH, b' ');
        if kind == Kind::History {
            let value = |column: &Option<Vec<f64>>| column.as_ref().map_or(0.0, |values| values[number]);
            for (what, value) in [("a mass", value(&labels.masses)), ("a charge", value(&labels.charges)), ("", 0.0)] {
                checked(&mut out, what, |out| put_f(out, value, 12, 6))
                    .map_err(|error| Error::new(ErrorKind::InvalidArgument, error.what()))?;
            }
        }
        end_record(&mut out, start);
    }
    Ok(out)
}

/// A name that DL_POLY reads as one word.
fn name_of(name: &str, changed: &mut bool) -> String {
    let kept = |c: char| if c.is_ascii_graphic() { c } else { '_' };
    let made: String = name.chars().take(NAME_WIDTH).map(kept).collect();
    let made = if made.is_empty() { UNKNOWN.to_owned() } else { made };
    *changed = *changed || made != name;
    made
}

/// The atoms of a row: for each its first record, then its vectors.
pub(super) fn put_atoms(
    lines: &AtomLines,
    rows: &BlockView<'_>,
    numbers: AtomNumbers<'_>,
    row: usize,
    levels: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    if rows.doubles.iter().any(|values| !values.is_empty()) {
        put_vectors(lines, rows.doubles, numbers, row * rows.n_selected..(row + 1) * rows.n_selected, levels, out)
    } else {
        let singles = [rows.positions, rows.velocities, rows.forces];
        put_vectors(lines, singles, numbers, row * rows.n_selected..(row + 1) * rows.n_selected, levels, out)
    }
}

fn put_vectors<R: Copy + Into<f64>>(
    lines: &AtomLines,
    values: [&[R]; 3],
    numbers: AtomNumbers<'_>,
    atoms: Range<usize>,
    levels: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut vectors: [&[[R; 3]]; 3] = [&[]; 3];
    for (of_row, values) in vectors.iter_mut().zip(values).take(levels) {
        let values = values.as_chunks::<3>().0.get(atoms.clone());
        *of_row = values.ok_or_else(|| Error::new(ErrorKind::Internal, "the block has other fields than the file"))?;
    }
    for atom in 0..atoms.len() {
        lines.put(numbers.get(atom), out)?;
        for vectors in &vectors[..levels] {
            let start = out.len();
            for value in vectors[atom] {
                put_g20_10(out, value.into());
            }
            end_record(out, start);
        }
    }
    Ok(())
}

/// The plane of a record: the lines of all atoms, which end it.
pub(super) fn layout_of(head: Vec<u8>, n_atoms: u32, levels: usize) -> FrameLayout {
    let (offset, width) = (head.len() as u64, (WIDTH * (1 + levels)) as u64);
    let bytes = offset + u64::from(n_atoms) * width;
    FrameLayout { bytes, pieces: vec![(0, head)], planes: vec![AtomPlane { offset, width }] }
}

/// Whether values are taken in float64: if the source has float64, or may have.
pub(super) fn takes_doubles(making: &Making) -> bool {
    making.open_ended || Fields::VECTORS.into_iter().any(|field| making.wide.contains(field))
}

/// Adds to `losses` that float64 values have 10 digits in the file.
pub(super) fn note_digits(making: &Making, chosen: Fields, losses: &mut Vec<String>) {
    let wide = Fields::VECTORS.into_iter().filter(|&field| chosen.contains(field) && making.wide.contains(field));
    losses.extend(wide.flat_map(Fields::names).map(|name| format!("{name} are rounded from float64 to 10 digits")));
}

/// Whether the block is of the atoms of the file.
pub(super) fn check_rows(rows: &BlockView<'_>, n_atoms: u32) -> Result<()> {
    if rows.n_selected == n_atoms as usize {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Internal, "the block has other atoms than the file"))
}

/// The first record of a file.
pub(super) fn put_title(out: &mut Vec<u8>, making_title: Option<&str>) {
    let title = making_title.unwrap_or("written by Kinema");
    let clean: String = title.chars().map(|c| if c == ' ' || c.is_ascii_graphic() { c } else { '_' }).collect();
    put_text(out, clean.as_bytes(), RECORD);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atoms_of_few_kinds_take_no_record_each() {
        let n_atoms = 100_000;
        let names = Some((0..n_atoms).map(|atom| if atom % 3 == 0 { "O" } else { "H" }.to_owned()).collect());
        let masses = Some((0..n_atoms).map(|atom| if atom % 3 == 0 { 16.0 } else { 1.008 }).collect());
        let labels = AtomLabels { names, masses, ..AtomLabels::default() };
        let making = Making { n_atoms, labels: Some(labels.into()), ..Making::default() };
        let lines = AtomLines::new(&making, Kind::History, &mut Vec::new()).unwrap();
        assert_eq!(lines.kinds.len(), 2 * WIDTH);
        assert_eq!(lines.labels().and_then(|labels| labels.codes.as_ref()).map(Vec::len), Some(n_atoms as usize));
        let mut out = Vec::new();
        for atom in [0, 1, 99_999] {
            lines.put(atom, &mut out).unwrap();
        }
        let lines: Vec<&str> = std::str::from_utf8(&out).unwrap().lines().map(str::trim_end).collect();
        let charge_and_displacement = "    0.000000    0.000000";
        assert_eq!(lines[0], format!("O                1   16.000000{charge_and_displacement}"));
        assert_eq!(lines[1], format!("H                2    1.008000{charge_and_displacement}"));
        assert_eq!(lines[2], format!("O           100000   16.000000{charge_and_displacement}"));
    }
}
