//! What the encoders of HISTORY and CONFIG files share: records of the cell and of atoms.

use crate::container::text::fortran::{put_f, put_g20_10, put_i, put_text};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{AtomLabels, Making};
use crate::frame::{BlockView, Cell, Fields, NO_CELL};

use super::records::RECORD;
use super::{VECTORS, fields_of};

/// Bytes of a record that is written.
pub(super) const WIDTH: usize = RECORD + 1;

/// Losses.
pub(super) const NO_TIME: &str = "frames without a time have NaN in its place";
pub(super) const CELLS: &str = "cells are rounded to 1e-10 angstrom";

/// Longest name of an atom.
const NAME_WIDTH: usize = 8;
/// Of atoms whose names are not known.
const UNKNOWN: &str = "X";

/// The vectors of each atom, of which a file has the first, the first two, or all.
///
/// # Errors
/// `InvalidArgument` for others, those that the source has not, and a precision.
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

/// The shape that a cell has at the least: 0 none, 1 cubic, 2 orthorhombic, 3 any.
pub(super) fn imcon_of(cell: &Cell) -> i64 {
    let [[xx, xy, xz], [yx, yy, yz], [zx, zy, zz]] = *cell;
    if *cell == NO_CELL {
        0
    } else if [xy, xz, yx, yz, zx, zy] != [0.0; 6] {
        3
    } else if xx == yy && yy == zz {
        1
    } else {
        2
    }
}

/// The most general shape of these cells.
pub(super) fn imcon_of_all(cells: &[Cell]) -> i64 {
    cells.iter().map(imcon_of).max().unwrap_or(0)
}

/// Whether so many decimals hold the value.
pub(super) fn holds(value: f64, decimals: i32) -> bool {
    let scale = 10_f64.powi(decimals);
    let whole = (value * scale).round();
    value.is_nan() || whole.abs() < 9e15 && whole / scale == value
}

/// Whether the records of a cell hold it.
pub(super) fn holds_cell(cell: &Cell) -> bool {
    cell.iter().flatten().all(|&value| holds(value, 10))
}

pub(super) fn put_cell(out: &mut Vec<u8>, cell: &Cell) -> Result<()> {
    if *cell != NO_CELL && cell.iter().flatten().all(|value| value.abs() < 1e-10) {
        let what = format!("a cell that 10 decimals hold as none: {cell:?}");
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
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

/// The first record of every atom; what is not known of them, or not written, is added to `losses`.
///
/// # Errors
/// `InvalidArgument` for masses and charges beyond their columns.
pub(super) fn atom_records(making: &Making, kind: Kind, losses: &mut Vec<String>) -> Result<Vec<u8>> {
    let none = AtomLabels::default();
    let labels = making.labels.as_deref().unwrap_or(&none);
    let n = making.n_atoms as usize;
    let fits = |len: Option<usize>| len.is_none_or(|len| len == n);
    if !(fits(labels.names.as_ref().map(Vec::len))
        && fits(labels.masses.as_ref().map(Vec::len))
        && fits(labels.charges.as_ref().map(Vec::len)))
    {
        return Err(Error::new(ErrorKind::InvalidArgument, format!("names and masses are not of {n} atoms")));
    }
    let mut unknown = Vec::new();
    if labels.names.is_none() {
        unknown.push("names");
    }
    if kind == Kind::History && labels.masses.is_none() {
        unknown.push("masses");
    }
    if kind == Kind::History && labels.charges.is_none() {
        unknown.push("charges");
    }
    if !unknown.is_empty() {
        losses.push(format!("atoms have no known {}: X and 0 are written", unknown.join(", ")));
    }
    let mut changed = false;
    let mut out = Vec::new();
    out.try_reserve_exact(n * WIDTH)
        .map_err(|_| Error::new(ErrorKind::MemoryLimit, format!("no memory for the names of {n} atoms")))?;
    for atom in 0..n {
        let start = out.len();
        let name = labels.names.as_ref().map_or(UNKNOWN, |names| names[atom].as_str());
        let name = name_of(name, &mut changed);
        put_text(&mut out, name.as_bytes(), NAME_WIDTH);
        put_i(&mut out, atom as i64 + 1, 10);
        if kind == Kind::History {
            let value = |column: &Option<Vec<f64>>| column.as_ref().map_or(0.0, |values| values[atom]);
            for (what, value) in [("a mass", value(&labels.masses)), ("a charge", value(&labels.charges)), ("", 0.0)] {
                checked(&mut out, what, |out| put_f(out, value, 12, 6))
                    .map_err(|error| Error::new(ErrorKind::InvalidArgument, error.what()))?;
            }
        }
        end_record(&mut out, start);
    }
    if changed {
        losses.push(
            "atoms have other names: of 8 characters at most, with _ for those that no word of ASCII has".to_owned(),
        );
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
    first_records: &[u8],
    rows: &BlockView<'_>,
    row: usize,
    levels: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let width = 3 * rows.n_selected;
    let mut vectors: [&[[f32; 3]]; 3] = [&[]; 3];
    for (of_row, values) in vectors.iter_mut().zip([rows.positions, rows.velocities, rows.forces]).take(levels) {
        let values = values.get(row * width..(row + 1) * width);
        let values =
            values.ok_or_else(|| Error::new(ErrorKind::Internal, "the block has other fields than the file"))?;
        *of_row = values.as_chunks::<3>().0;
    }
    for (atom, record) in first_records.chunks_exact(WIDTH).enumerate() {
        out.extend_from_slice(record);
        for vectors in &vectors[..levels] {
            let start = out.len();
            for value in vectors[atom] {
                put_g20_10(out, f64::from(value));
            }
            end_record(out, start);
        }
    }
    Ok(())
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
