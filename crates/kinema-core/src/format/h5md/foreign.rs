//! Rows that another library reads: whole frames come back, of which the wanted atoms are taken.
//!
//! It does not know who reads them, nor why Kinema does not.

use std::time::Instant;

use super::{CELL, Field, H5mdDecoder, row_of, vectors_of};
use crate::container::hdf5::number::Real;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Elsewhere, Wanted};
use crate::frame::BlockMut;
use crate::selection::AtomSelection;

/// Gives rows that Rust does not read, or that must be rearranged: h5py, called from a worker.
pub trait ReadRows: Send + Sync {
    /// The values of `rows`, one after the other, in the file's unit: `rows x atoms x 3`.
    ///
    /// # Errors
    /// Whatever the reader meets.
    fn read(&self, rows: &[i64]) -> Result<RowValues>;
}

/// Numbers as a reader of rows has them.
pub enum RowValues {
    /// Where float32 holds them.
    Narrow(Vec<f32>),
    /// Where it does not.
    Wide(Vec<f64>),
}

impl RowValues {
    fn len(&self) -> usize {
        match self {
            Self::Narrow(values) => values.len(),
            Self::Wide(values) => values.len(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Narrow(values) => size_of_val(values.as_slice()),
            Self::Wide(values) => size_of_val(values.as_slice()),
        }
    }
}

/// What is asked of a reader.
pub(super) struct Ask<'a> {
    /// Number of the field among those of the decoder.
    pub(super) number: u32,
    pub(super) field: &'a Field,
    pub(super) wanted: &'a [Wanted],
    pub(super) atoms: &'a AtomSelection,
    pub(super) factor: f64,
}

impl H5mdDecoder {
    /// Puts what the reader gives for the wanted frames into `out`; frames without a row are left as they are.
    pub(super) fn foreign(
        &self,
        reader: &dyn ReadRows,
        ask: &Ask<'_>,
        out: &mut BlockMut<'_>,
        elsewhere: &mut Elsewhere,
    ) -> Result<()> {
        let there = || ask.wanted.iter().filter(|one| ask.field.row(one.frame) >= 0);
        let rows: Vec<i64> = there().map(|one| ask.field.row(one.frame)).collect();
        let Some(first) = there().next() else { return Ok(()) };
        let n_atoms = if ask.number == CELL { 3 } else { self.header.n_atoms as usize };
        let start = Instant::now();
        let values = reader.read(&rows).map_err(|error| error.at_frame(first.frame))?;
        elsewhere.time += start.elapsed();
        elsewhere.bytes += values.bytes() as u64;
        elsewhere.calls += 1;
        if values.len() != rows.len() * n_atoms * 3 {
            let what = format!("values of {} that h5py gave", ask.field.name);
            return Err(Error::new(
                ErrorKind::Internal,
                format!("{what}, expected {}, found {}", rows.len() * n_atoms * 3, values.len()),
            ));
        }
        match values {
            RowValues::Narrow(values) => put(there(), &values, n_atoms, ask, out),
            RowValues::Wide(values) => put(there(), &values, n_atoms, ask, out),
        }
    }
}

/// The frames' values to their places.
fn put<'a, V: Into<f64> + Copy>(
    frames: impl Iterator<Item = &'a Wanted>,
    values: &[V],
    n_atoms: usize,
    ask: &Ask<'_>,
    out: &mut BlockMut<'_>,
) -> Result<()> {
    for (one, values) in frames.zip(values.chunks_exact((n_atoms * 3).max(1))) {
        let row = one.row as usize;
        if ask.number == CELL {
            let cell = &mut out.cells[row];
            cell.iter_mut()
                .flatten()
                .zip(values)
                .for_each(|(out, &value)| *out = f32::scaled(value.into(), ask.factor));
            continue;
        }
        let width = 3 * out.n_selected;
        match vectors_of(out, ask.number as usize) {
            (narrow, []) => pick(values, ask.atoms, ask.factor, row_of(narrow, row, width)?),
            (_, wide) => pick(values, ask.atoms, ask.factor, row_of(wide, row, width)?),
        }
    }
    Ok(())
}

/// The wanted atoms of a whole frame.
fn pick<V: Into<f64> + Copy, R: Real>(values: &[V], atoms: &AtomSelection, factor: f64, out: &mut [R]) {
    for (out, atom) in out.chunks_exact_mut(3).zip(atoms.iter()) {
        let from = values.get(3 * atom as usize..).unwrap_or_default();
        out.iter_mut().zip(from).for_each(|(out, &value)| *out = R::scaled(value.into(), factor));
    }
}
