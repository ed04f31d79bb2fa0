//! Blocks of frames: row-major buffers that decoders fill and kernels read.

use super::{Fields, Real, RowsMut, Stamp, VectorsMut};
use crate::error::{Error, ErrorKind, Result};

/// Where a decoder puts the frames of one block: rows of the caller, `n_selected x 3` values each.
///
/// Every row must be written by a decoder that returns success.
#[derive(Debug)]
pub struct BlockMut<'a> {
    /// Number of selected atoms; rows may have room for more.
    pub n_selected: usize,
    /// Positions, velocities, forces.
    pub vectors: [VectorsMut<'a>; 3],
    /// One stamp a row.
    pub stamps: RowsMut<'a, Stamp>,
}

/// Numbers that are compared at a time, without a branch for each.
const AT_A_TIME: usize = 256;

fn cleared<R: Real + Into<f64>>(values: &mut [R], fills: &[f64], factor: f64, rounding: f64) -> Option<bool> {
    let (mut any, mut all) = (false, true);
    for fill in fills {
        let fill = fill * factor;
        let room = rounding * fill.abs();
        // what a type does not hold is infinite in it
        let beyond = R::scaled(fill, 1.0).into();
        let is_fill = |value: R| ((value.into() - fill).abs() <= room) | (value.into() == beyond);
        for some in values.chunks_mut(AT_A_TIME) {
            if some.iter().fold(false, |any, value| any | is_fill(*value)) {
                any = true;
                some.iter_mut().filter(|value| is_fill(**value)).for_each(|value| *value = R::NAN);
            }
        }
    }
    if any {
        all = values.iter().all(|value| Into::<f64>::into(*value).is_nan());
    }
    any.then_some(all)
}

impl<'a> BlockMut<'a> {
    /// The stamp of a row.
    ///
    /// # Errors
    /// `Internal` if there is no such row.
    pub fn stamp(&mut self, row: usize) -> Result<&mut Stamp> {
        Ok(&mut self.stamps.row(row, 1)?[0])
    }

    /// Replaces the numbers of a row that stand for numbers never written, `factor` times `fills`, by NaN. Returns
    /// whether the row had only such numbers; `None` if it had none.
    ///
    /// # Errors
    /// `Internal` if there is no such row.
    pub fn clear_fills(&mut self, row: usize, vectors: usize, fills: &[f64], factor: f64) -> Result<Option<bool>> {
        let len = 3 * self.n_selected;
        // a product may be rounded on its way
        match self.vectors.get_mut(vectors) {
            None | Some(VectorsMut::Absent) => Ok(None),
            Some(VectorsMut::F32(rows)) => {
                Ok(cleared(rows.row(row, len)?, fills, factor, 2.0 * f64::from(f32::EPSILON)))
            }
            Some(VectorsMut::F64(rows)) => Ok(cleared(rows.row(row, len)?, fills, factor, 2.0 * f64::EPSILON)),
        }
    }

    /// Whether positions of a row lie farther apart than `length` along an axis.
    ///
    /// # Errors
    /// `Internal` if there is no such row.
    pub fn extends_beyond(&mut self, row: usize, length: f64) -> Result<bool> {
        fn widest<R: Copy + Into<f64>>(values: &[R]) -> f64 {
            let mut ends = [[f64::INFINITY; 3], [f64::NEG_INFINITY; 3]];
            for atom in values.as_chunks::<3>().0 {
                for axis in 0..3 {
                    ends[0][axis] = ends[0][axis].min(atom[axis].into());
                    ends[1][axis] = ends[1][axis].max(atom[axis].into());
                }
            }
            (0..3).map(|axis| ends[1][axis] - ends[0][axis]).fold(0.0, f64::max)
        }
        let len = 3 * self.n_selected;
        let found = match &mut self.vectors[0] {
            VectorsMut::Absent => return Ok(false),
            VectorsMut::F32(rows) => widest(rows.row(row, len)?),
            VectorsMut::F64(rows) => widest(rows.row(row, len)?),
        };
        Ok(found > length)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.stamps.len()
    }

    /// The rows in another order: row `i` was row `order[i]`. Each number occurs once in `order`.
    #[must_use]
    pub fn into_order(self, order: &[usize]) -> Self {
        let vectors = self.vectors.map(|vectors| vectors.into_order(order));
        Self { vectors, stamps: self.stamps.into_order(order), ..self }
    }

    /// Splits this block into blocks of `lengths` rows, which together are all its rows.
    pub fn split(self, lengths: &[usize]) -> Vec<Self> {
        let [positions, velocities, forces] = self.vectors.map(|vectors| vectors.split(lengths));
        let vectors = positions.into_iter().zip(velocities).zip(forces);
        let blocks = vectors.zip(self.stamps.split(lengths)).map(|(((positions, velocities), forces), stamps)| Self {
            n_selected: self.n_selected,
            vectors: [positions, velocities, forces],
            stamps,
        });
        blocks.collect()
    }
}

/// An owned block: what [`BlockMut`] borrows, reused from block to block by each worker.
#[derive(Debug, Default, Clone)]
pub struct Block {
    n_selected: usize,
    /// The frame numbers of the rows, in the trajectory.
    pub frames: Vec<u64>,
    /// `rows * n_selected * 3`
    pub positions: Vec<f32>,
    /// `rows * n_selected * 3`, or empty
    pub velocities: Vec<f32>,
    /// `rows * n_selected * 3`, or empty
    pub forces: Vec<f32>,
    /// The same in float64, in place of those above, for encoders that take them.
    doubles: [Vec<f64>; 3],
    /// one a row
    pub stamps: Vec<Stamp>,
}

impl Block {
    /// Makes room for these frames; buffers keep their capacity, and old values may remain in them.
    pub fn reset(&mut self, frames: impl IntoIterator<Item = u64>, n_selected: usize, fields: Fields) {
        self.reset_as(false, frames, n_selected, fields);
    }

    /// The same, for values in float64 if `doubles`.
    pub fn reset_as(
        &mut self,
        doubles: bool,
        frames: impl IntoIterator<Item = u64>,
        n_selected: usize,
        fields: Fields,
    ) {
        self.n_selected = n_selected;
        self.frames.clear();
        self.frames.extend(frames);
        let rows = self.frames.len();
        let vectors = [&mut self.positions, &mut self.velocities, &mut self.forces];
        for ((field, single), double) in Fields::VECTORS.into_iter().zip(vectors).zip(&mut self.doubles) {
            let size = if fields.contains(field) { rows * n_selected * 3 } else { 0 };
            single.resize(if doubles { 0 } else { size }, 0.0);
            double.resize(if doubles { size } else { 0 }, 0.0);
        }
        self.stamps.resize(rows, Stamp::default());
    }

    /// Room for `rows` frames at once, with values in float64 if `doubles`.
    ///
    /// # Errors
    /// `MemoryLimit` if the system does not have the memory.
    pub fn reserve(&mut self, doubles: bool, rows: usize, n_selected: usize, fields: Fields) -> Result<()> {
        let vectors = [&mut self.positions, &mut self.velocities, &mut self.forces];
        for ((field, single), double) in Fields::VECTORS.into_iter().zip(vectors).zip(&mut self.doubles) {
            let size = if fields.contains(field) { rows.saturating_mul(3 * n_selected) } else { 0 };
            let room = if doubles {
                double.try_reserve_exact(size.saturating_sub(double.len()))
            } else {
                single.try_reserve_exact(size.saturating_sub(single.len()))
            };
            room.map_err(|_| {
                let what = format!("the system has no memory for {rows} frames of {n_selected} atoms at once");
                Error::new(ErrorKind::MemoryLimit, what)
            })?;
        }
        Ok(())
    }

    /// Makes it a copy of a block in float32; buffers keep their capacity.
    pub fn copy_from(&mut self, other: &BlockView<'_>) {
        self.n_selected = other.n_selected;
        let vectors = [
            (&mut self.positions, other.positions),
            (&mut self.velocities, other.velocities),
            (&mut self.forces, other.forces),
        ];
        for (own, values) in vectors {
            own.clear();
            own.extend_from_slice(values);
        }
        self.doubles.iter_mut().for_each(Vec::clear);
        self.frames.clear();
        self.frames.extend_from_slice(other.frames);
        self.stamps.clear();
        self.stamps.extend_from_slice(other.stamps);
    }

    /// Number of frames.
    pub fn rows(&self) -> usize {
        self.frames.len()
    }

    /// Atoms of a row.
    pub fn n_selected(&self) -> usize {
        self.n_selected
    }

    /// The block as a decoder sees it.
    pub fn as_mut(&mut self) -> BlockMut<'_> {
        let width = 3 * self.n_selected;
        let singles = [&mut self.positions, &mut self.velocities, &mut self.forces];
        let mut vectors = singles.map(|values| VectorsMut::from_f32(values, width));
        for (vectors, values) in vectors.iter_mut().zip(&mut self.doubles).filter(|(_, values)| !values.is_empty()) {
            *vectors = VectorsMut::F64(RowsMut::Adjacent(values, width));
        }
        BlockMut { n_selected: self.n_selected, vectors, stamps: RowsMut::Adjacent(&mut self.stamps, 1) }
    }

    /// The block as a kernel sees it.
    pub fn view(&self) -> BlockView<'_> {
        BlockView {
            n_selected: self.n_selected,
            frames: &self.frames,
            positions: &self.positions,
            velocities: &self.velocities,
            forces: &self.forces,
            doubles: self.doubles.each_ref().map(Vec::as_slice),
            stamps: &self.stamps,
        }
    }
}

/// A decoded block, read only: `rows x n_selected x 3`, angstrom and ps.
#[derive(Debug, Clone, Copy)]
pub struct BlockView<'a> {
    /// Number of selected atoms.
    pub n_selected: usize,
    /// Frame numbers in the trajectory, one a row.
    pub frames: &'a [u64],
    /// Positions.
    pub positions: &'a [f32],
    /// Velocities or empty.
    pub velocities: &'a [f32],
    /// Forces or empty.
    pub forces: &'a [f32],
    /// Positions, velocities and forces in float64, in place of those above, for encoders that take them.
    pub doubles: [&'a [f64]; 3],
    /// Cells, steps, times (ps), one a row.
    pub stamps: &'a [Stamp],
}

impl<'a> BlockView<'a> {
    /// Number of frames.
    pub fn rows(&self) -> usize {
        self.frames.len()
    }
    /// Some of the rows.
    #[must_use]
    pub fn rows_in(&self, rows: std::ops::Range<usize>) -> Self {
        let width = 3 * self.n_selected;
        fn vectors<T>(values: &[T], range: std::ops::Range<usize>) -> &[T] {
            if values.is_empty() { values } else { &values[range] }
        }
        let range = rows.start * width..rows.end * width;
        Self {
            n_selected: self.n_selected,
            frames: &self.frames[rows.clone()],
            positions: vectors(self.positions, range.clone()),
            velocities: vectors(self.velocities, range.clone()),
            forces: vectors(self.forces, range.clone()),
            doubles: self.doubles.map(|values| vectors(values, range.clone())),
            stamps: &self.stamps[rows],
        }
    }
    /// The positions of one row: `n_selected * 3` values.
    pub fn positions_of(&self, row: usize) -> &'a [f32] {
        let width = self.n_selected * 3;
        &self.positions[row * width..(row + 1) * width]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_that_no_system_has_is_an_error() {
        let error = Block::default().reserve(false, usize::MAX / 16, 1000, Fields::POSITIONS).err();
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::MemoryLimit));
    }
}
