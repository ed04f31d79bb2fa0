//! Big-endian vectors as XDR and NetCDF files have them, into rows of either precision.

use crate::error::Result;
use crate::frame::{Real, VectorsMut};

/// Bytes of neighbouring atoms, three numbers each, and which of them are wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct BigEndianVectors<'a> {
    /// The numbers, from those of atom `first` on.
    pub bytes: &'a [u8],
    /// Whether they are float64, not float32.
    pub double: bool,
    /// The atom that the bytes begin with.
    pub first: u32,
    /// Selected atoms of the trajectory, ascending; `None`: all.
    pub atoms: Option<&'a [u32]>,
    /// Factor that they are multiplied by.
    pub factor: f64,
}

impl BigEndianVectors<'_> {
    /// Puts the selected atoms that are in the bytes at their places in a row of `n_selected` atoms.
    ///
    /// # Errors
    /// `Internal` if the block has no such row.
    pub fn put(&self, vectors: &mut VectorsMut<'_>, row: usize, n_selected: usize) -> Result<()> {
        match vectors {
            VectorsMut::Absent => Ok(()),
            VectorsMut::F32(rows) => rows.row(row, 3 * n_selected).map(|values| self.fill(values)),
            VectorsMut::F64(rows) => rows.row(row, 3 * n_selected).map(|values| self.fill(values)),
        }
    }

    fn fill<R: Real>(&self, values: &mut [R]) {
        let (factor, narrow) = (self.factor, self.factor as f32);
        if self.double {
            self.gather(self.bytes.as_chunks::<8>().0, values, |bytes| R::scaled(f64::from_be_bytes(bytes), factor));
        } else if f64::from(narrow) == factor {
            let number = |bytes| R::scaled_narrow(f32::from_be_bytes(bytes), narrow);
            self.gather(self.bytes.as_chunks::<4>().0, values, number);
        } else {
            let number = |bytes| R::scaled_f32(f32::from_be_bytes(bytes), factor);
            self.gather(self.bytes.as_chunks::<4>().0, values, number);
        }
    }

    #[inline(always)]
    fn gather<R, const N: usize>(&self, numbers: &[[u8; N]], values: &mut [R], number: impl Fn([u8; N]) -> R) {
        let Some(atoms) = self.atoms else {
            let values = values.get_mut(3 * self.first as usize..).unwrap_or_default();
            values.iter_mut().zip(numbers).for_each(|(value, &bytes)| *value = number(bytes));
            return;
        };
        let (triples, _) = numbers.as_chunks::<3>();
        let from = atoms.partition_point(|&atom| atom < self.first);
        let places = values.as_chunks_mut::<3>().0.iter_mut().zip(atoms).skip(from);
        for (place, &atom) in places {
            // atoms after these bytes are in other segments
            let Some(triple) = triples.get((atom - self.first) as usize) else { break };
            *place = triple.map(&number);
        }
    }
}
