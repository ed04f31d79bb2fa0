//! Blocks of frames: row-major buffers that decoders fill and kernels read.

use super::{Cell, Fields};
use crate::error::{Error, ErrorKind, Result};

/// Where a decoder puts the frames of one block: row-major `rows x atoms x 3` buffers of the caller.
///
/// Every row must be written by a decoder that returns success.
#[derive(Debug)]
pub struct BlockMut<'a> {
    /// Number of selected atoms (the middle dimension).
    pub n_selected: usize,
    /// Positions, `rows * n_selected * 3` values; empty when not wanted.
    pub positions: &'a mut [f32],
    /// Velocities, likewise.
    pub velocities: &'a mut [f32],
    /// Forces, likewise.
    pub forces: &'a mut [f32],
    /// Positions, velocities, forces in float64, instead of those above, from decoders that say they are
    /// [`wide`](crate::format::Decoder::wide); empty where not wanted.
    pub wide: [&'a mut [f64]; 3],
    /// One cell a row.
    pub cells: &'a mut [Cell],
    /// One step a row.
    pub steps: &'a mut [i64],
    /// One time a row.
    pub times: &'a mut [f64],
}

impl BlockMut<'_> {
    /// The positions of row `row`: `n_selected * 3` values.
    pub fn positions_of(&mut self, row: usize) -> &mut [f32] {
        let width = self.n_selected * 3;
        &mut self.positions[row * width..(row + 1) * width]
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
    /// one a row
    pub cells: Vec<Cell>,
    /// one a row
    pub steps: Vec<i64>,
    /// one a row
    pub times: Vec<f64>,
}

impl Block {
    /// Makes room for these frames; buffers keep their capacity, and old values may remain in them.
    pub fn reset(&mut self, frames: impl IntoIterator<Item = u64>, n_selected: usize, fields: Fields) {
        self.n_selected = n_selected;
        self.frames.clear();
        self.frames.extend(frames);
        let rows = self.frames.len();
        let size = |field| if fields.contains(field) { rows * n_selected * 3 } else { 0 };
        self.positions.resize(size(Fields::POSITIONS), 0.0);
        self.velocities.resize(size(Fields::VELOCITIES), 0.0);
        self.forces.resize(size(Fields::FORCES), 0.0);
        self.cells.resize(rows, [[0.0; 3]; 3]);
        self.steps.resize(rows, 0);
        self.times.resize(rows, 0.0);
    }

    /// Room for so many frames at once.
    ///
    /// # Errors
    /// `MemoryLimit` where the system has not so much memory.
    pub fn reserve(&mut self, rows: usize, n_selected: usize, fields: Fields) -> Result<()> {
        let vectors = [
            (Fields::POSITIONS, &mut self.positions),
            (Fields::VELOCITIES, &mut self.velocities),
            (Fields::FORCES, &mut self.forces),
        ];
        for (field, values) in vectors {
            let size = if fields.contains(field) { rows.saturating_mul(3 * n_selected) } else { 0 };
            values.try_reserve_exact(size.saturating_sub(values.len())).map_err(|_| {
                let what = format!("the system has no memory for {rows} frames of {n_selected} atoms at once");
                Error::new(ErrorKind::MemoryLimit, what)
            })?;
        }
        Ok(())
    }

    /// Number of frames.
    pub fn rows(&self) -> usize {
        self.frames.len()
    }

    /// The block as a decoder sees it.
    pub fn as_mut(&mut self) -> BlockMut<'_> {
        BlockMut {
            n_selected: self.n_selected,
            positions: &mut self.positions,
            velocities: &mut self.velocities,
            forces: &mut self.forces,
            wide: [&mut [], &mut [], &mut []],
            cells: &mut self.cells,
            steps: &mut self.steps,
            times: &mut self.times,
        }
    }

    /// The block as a kernel sees it.
    pub fn view(&self) -> BlockView<'_> {
        BlockView {
            n_selected: self.n_selected,
            frames: &self.frames,
            positions: &self.positions,
            velocities: &self.velocities,
            forces: &self.forces,
            cells: &self.cells,
            steps: &self.steps,
            times: &self.times,
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
    /// Cells, one a row.
    pub cells: &'a [Cell],
    /// Steps, one a row.
    pub steps: &'a [i64],
    /// Times, one a row, ps.
    pub times: &'a [f64],
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
        let vectors = |values: &'a [f32]| match values {
            [] => values,
            values => &values[rows.start * width..rows.end * width],
        };
        Self {
            n_selected: self.n_selected,
            frames: &self.frames[rows.clone()],
            positions: vectors(self.positions),
            velocities: vectors(self.velocities),
            forces: vectors(self.forces),
            cells: &self.cells[rows.clone()],
            steps: &self.steps[rows.clone()],
            times: &self.times[rows],
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
        let error = Block::default().reserve(usize::MAX / 16, 1000, Fields::POSITIONS).err();
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::MemoryLimit));
    }
}
