//! External rows: frames that another library (h5py, MDAnalysis) reads, and from which the requested atoms are taken.

use super::{CELL, Field, H5mdDecoder};
use crate::clock::{Meter, Work};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Wanted;
use crate::frame::{BlockMut, Real, VectorsMut};
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
    /// If float32 does not.
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

/// Rows requested of an external reader.
pub(super) struct RowRequest<'a> {
    /// Number of the field among the decoder's fields.
    pub(super) number: u32,
    pub(super) field: &'a Field,
    pub(super) wanted: &'a [Wanted],
    pub(super) atoms: &'a AtomSelection,
    pub(super) factor: f64,
}

impl H5mdDecoder {
    /// Reads the wanted frames through the external reader into `out`; frames without a row are left as they are.
    pub(super) fn read_external(
        &self,
        reader: &dyn ReadRows,
        row_request: &RowRequest<'_>,
        out: &mut BlockMut<'_>,
        meter: &mut Meter,
    ) -> Result<()> {
        let there = || row_request.wanted.iter().filter(|one| row_request.field.row(one.frame) >= 0);
        let rows: Vec<i64> = there().map(|one| row_request.field.row(one.frame)).collect();
        let Some(first) = there().next() else { return Ok(()) };
        let n_atoms = if row_request.number == CELL { 3 } else { self.header.n_atoms as usize };
        meter.decoded(Work::default());
        let values = reader.read(&rows).map_err(|error| error.with_frame(first.frame))?;
        meter.read(Work { size: values.bytes() as u64, frames: rows.len() as u64, ..Work::default() }, 1);
        if values.len() != rows.len() * n_atoms * 3 {
            let what = format!("values of {} that the reader gave", row_request.field.name);
            return Err(Error::new(
                ErrorKind::Internal,
                format!("{what}, expected {}, found {}", rows.len() * n_atoms * 3, values.len()),
            ));
        }
        match values {
            RowValues::Narrow(values) => put(there(), &values, n_atoms, row_request, out),
            RowValues::Wide(values) => put(there(), &values, n_atoms, row_request, out),
        }
    }
}

/// The frames' values to their places.
fn put<'a, V: Into<f64> + Copy>(
    frames: impl Iterator<Item = &'a Wanted>,
    values: &[V],
    n_atoms: usize,
    row_request: &RowRequest<'_>,
    out: &mut BlockMut<'_>,
) -> Result<()> {
    for (one, values) in frames.zip(values.chunks_exact((n_atoms * 3).max(1))) {
        let row = one.row as usize;
        if row_request.number == CELL {
            let cell = &mut out.stamp(row)?.cell;
            cell.iter_mut()
                .flatten()
                .zip(values)
                .for_each(|(out, &value)| *out = f64::scaled(value.into(), row_request.factor));
            continue;
        }
        let (len, atoms, factor) = (3 * out.n_selected, row_request.atoms, row_request.factor);
        match &mut out.vectors[row_request.number as usize] {
            VectorsMut::Absent => {}
            VectorsMut::F32(rows) => copy_atoms(values, atoms, factor, rows.row(row, len)?),
            VectorsMut::F64(rows) => copy_atoms(values, atoms, factor, rows.row(row, len)?),
        }
    }
    Ok(())
}

/// The wanted atoms of a whole frame.
fn copy_atoms<V: Into<f64> + Copy, R: Real>(values: &[V], atoms: &AtomSelection, factor: f64, out: &mut [R]) {
    for (out, atom) in out.chunks_exact_mut(3).zip(atoms.iter()) {
        let from = values.get(3 * atom as usize..).unwrap_or_default();
        out.iter_mut().zip(from).for_each(|(out, &value)| *out = R::scaled(value.into(), factor));
    }
}
