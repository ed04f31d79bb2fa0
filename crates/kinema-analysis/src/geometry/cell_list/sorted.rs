//! Points sorted into the cells of a search.

use std::ops::Range;

use kinema_core::Result;

use super::grid::{Grid, Located};
use crate::cpu::Cpu;
use crate::lanes::EIGHT;

/// A point as it was given, and how many times periodic vectors are subtracted from it to be in the cell.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(32))]
pub(super) struct Point {
    pub(super) stored: [f32; 3],
    pub(super) number: u32,
    pub(super) counts: [f32; 3],
}

/// Points cell by cell.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    /// First point of each cell, and the number of points.
    starts: Vec<u32>,
    pub(super) points: Vec<Point>,
    /// Coordinates in the cell, in single precision; with more after the end that are far away.
    pub(super) coordinates: [Vec<f32>; 3],
    /// Numbers of the points; with as many after the end.
    pub(super) numbers: Vec<u32>,
    /// Cells with points.
    occupied: Vec<u32>,
    located: Located,
    kept: Vec<u32>,
}

impl Sorted {
    /// Sorts the points: all of them, or those in cells that are `near`.
    /// Errors: `Corrupt` for a point that is not finite or too far outside of the cell, wherever it is.
    pub(super) fn sort(&mut self, cpu: Cpu, grid: &Grid, points: &[f32], near: Option<&[bool]>) -> Result<()> {
        let points = points.as_chunks::<3>().0;
        grid.locate(cpu, points, &mut self.located)?;
        match near {
            None => self.fill(grid, points, 0..points.len()),
            Some(near) => {
                let mut kept = std::mem::take(&mut self.kept);
                kept.resize(points.len(), 0);
                let mut n = 0;
                for (number, cell) in self.located.cells[..points.len()].iter().enumerate() {
                    kept[n] = number as u32;
                    n += usize::from(near[*cell as usize]);
                }
                self.fill(grid, points, kept[..n].iter().map(|number| *number as usize));
                self.kept = kept;
            }
        }
        Ok(())
    }

    fn fill(&mut self, grid: &Grid, points: &[[f32; 3]], wanted: impl ExactSizeIterator<Item = usize> + Clone) {
        let n = wanted.len();
        let Self { starts, located, .. } = self;
        // one number more: that of a cell first counts its points, then is where the next of them goes
        starts.clear();
        starts.resize(grid.n_cells() + 2, 0);
        for number in wanted.clone() {
            starts[located.cells[number] as usize + 2] += 1;
        }
        self.occupied.clear();
        for cell in 1..=grid.n_cells() {
            if starts[cell + 1] > 0 {
                self.occupied.push(cell as u32 - 1);
            }
            starts[cell + 1] += starts[cell];
        }
        self.points.resize(n, Point { stored: [0.0; 3], number: 0, counts: [0.0; 3] });
        self.numbers.resize(n + EIGHT, 0);
        for coordinates in &mut self.coordinates {
            coordinates.resize(n + EIGHT, 0.0);
            coordinates[n..].fill(f32::INFINITY);
        }
        let [xs, ys, zs] = &mut self.coordinates;
        for number in wanted {
            let next = &mut starts[located.cells[number] as usize + 1];
            let at = *next as usize;
            *next += 1;
            let counts = [located.counts[0][number], located.counts[1][number], located.counts[2][number]];
            let stored = points[number];
            self.points[at] = Point { stored, number: number as u32, counts };
            self.numbers[at] = number as u32;
            [xs[at], ys[at], zs[at]] = if counts == [0.0; 3] { stored } else { grid.in_cell(stored, counts) };
        }
        starts.truncate(grid.n_cells() + 1);
    }

    /// Cells with points.
    pub(super) fn occupied(&self) -> &[u32] {
        &self.occupied
    }

    pub(super) fn in_cell(&self, cell: usize) -> Range<usize> {
        self.in_cells(cell..cell + 1)
    }

    /// Points of cells that follow each other.
    #[inline(always)]
    pub(super) fn in_cells(&self, cells: Range<usize>) -> Range<usize> {
        self.starts[cells.start] as usize..self.starts[cells.end] as usize
    }

    pub(super) fn number(&self, point: usize) -> u32 {
        self.points[point].number
    }

    /// The place of a point in the cell, with a shift subtracted.
    #[inline(always)]
    pub(super) fn position(&self, point: usize, shift: [f32; 3]) -> [f32; 3] {
        let [x, y, z] = &self.coordinates;
        [x[point] - shift[0], y[point] - shift[1], z[point] - shift[2]]
    }

    /// Eight coordinates from `at` on; there are as many after the last point.
    #[inline(always)]
    pub(super) fn eight(&self, at: usize) -> [&[f32; EIGHT]; 3] {
        let far = &[f32::INFINITY; EIGHT];
        self.coordinates.each_ref().map(|coordinates| coordinates[at..].first_chunk().unwrap_or(far))
    }
}

impl Grid {
    /// The coordinates of a point in the cell.
    #[inline]
    fn in_cell(&self, stored: [f32; 3], counts: [f32; 3]) -> [f32; 3] {
        let mut place = [f64::from(stored[0]), f64::from(stored[1]), f64::from(stored[2])];
        for (count, vector) in counts.iter().zip(&self.basis) {
            for (x, of_vector) in place.iter_mut().zip(vector) {
                *x -= f64::from(*count) * of_vector;
            }
        }
        [place[0] as f32, place[1] as f32, place[2] as f32]
    }
}
