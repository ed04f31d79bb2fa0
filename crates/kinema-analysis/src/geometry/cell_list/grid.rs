//! The cells of a search.

use kinema_core::frame::Lattice;
use kinema_core::{Error, ErrorKind, Result};

use crate::cpu::{Cpu, dispatch};
use crate::geometry::nearest_images::whole;
use crate::geometry::vectors::{Vectors, all};
use crate::lanes::{EIGHT, Quad};

pub(super) type Vector = [f64; 3];

/// The farthest that a point may be from the cell, in cells: whole numbers of single precision.
const FARTHEST: f64 = (1_u64 << 23) as f64;
/// Added to the cutoff for the rounding of places in cells.
const ROUNDING: f64 = 1e-6;
/// Added to the size of a cell for the same, in cells, where cells are left out.
const SLACK: f64 = 1e-3;
/// Cells for each point, at most.
const CELLS_A_POINT: f64 = 4.0;

/// Points of a cell with which most searches are fastest.
const POINTS_A_CELL: f64 = 6.0;
/// The greatest width of such a cell, in cutoffs: points may be denser than in the whole box.
const MOST_CUTOFFS: f64 = 1.75;

/// How near points are compared, which says how large cells should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cells {
    /// As they lie, row by row: cells of half the cutoff, or of the cutoff or more if there are few points.
    Rows,
    /// Copied for each cell ([`super::vicinity`]): cells of the cutoff, or larger ones if there are few points.
    Vicinities,
}

/// Whether a point is finite and near enough to the cell for whole numbers of cells.
pub(super) fn is_usable(lattice: &Lattice, point: Vector) -> bool {
    point.iter().all(|x| x.is_finite()) && lattice.dual().iter().all(|dual| dot(*dual, point).abs() < FARTHEST)
}

fn unusable() -> Error {
    Error::new(ErrorKind::Corrupt, "a position is not finite, or is too far outside of the cell")
}

/// Cells along three directions: vectors of the reduced basis, and directions across these if edges are open.
#[derive(Debug, Default, Clone)]
pub(super) struct Grid {
    pub(super) rank: usize,
    pub(super) basis: [Vector; 3],
    /// Products with it are multiples of the periodic vectors; for open directions, angstrom.
    dual: [Vector; 3],
    /// Least product of a point, for open directions; zero else.
    origin: Vector,
    /// Cells for one of the multiple, by direction.
    scale: Vector,
    pub(super) n_cells: [usize; 3],
    /// Cells on each side that can have points within the cutoff.
    pub(super) reach: [usize; 3],
    /// Edges of one cell.
    edges: [Vector; 3],
    cutoff: f64,
    /// Greatest magnitude of a coordinate in single precision.
    pub(super) largest: f64,
}

impl Grid {
    /// Makes cells for a search.
    /// Errors: `Corrupt` for a position along an open edge that is not finite.
    pub(super) fn set(&mut self, lattice: &Lattice, cutoff: f64, sets: [&[f32]; 2], cells: Cells) -> Result<()> {
        self.basis = *lattice.basis();
        self.rank = self.basis.iter().filter(|vector| **vector != [0.0; 3]).count();
        self.dual = *lattice.dual();
        self.complete_dual();
        let mut range = [[f64::INFINITY, f64::NEG_INFINITY]; 3];
        if self.rank < 3 {
            for point in sets.iter().flat_map(|set| set.as_chunks::<3>().0) {
                for (range, dual) in range.iter_mut().zip(&self.dual).skip(self.rank) {
                    let at = dot(*dual, point.map(f64::from));
                    *range = [range[0].min(at), range[1].max(at)];
                }
            }
        }
        let n_points = sets[0].len().max(sets[1].len()) / 3;
        let mut lengths = [0.0; 3];
        for direction in 0..3 {
            let dual = self.dual[direction];
            let [least, most] = range[direction];
            if direction < self.rank {
                (self.origin[direction], lengths[direction]) = (0.0, 1.0 / dot(dual, dual).sqrt());
            } else {
                (self.origin[direction], lengths[direction]) = (least, most - least);
            }
            if !lengths[direction].is_finite() {
                return Err(unusable());
            }
        }
        self.choose_cells(lengths, cutoff, n_points, cells);
        self.cutoff = cutoff;
        for (direction, length) in lengths.into_iter().enumerate() {
            let n = self.n_cells[direction] as f64;
            self.edges[direction] = if direction < self.rank {
                self.basis[direction].map(|x| x / n)
            } else {
                self.dual[direction].map(|x| x * length / n)
            };
        }
        let extent: f64 = (0..3)
            .map(|i| if i < self.rank { dot(self.basis[i], self.basis[i]).sqrt() } else { most_of(range[i]) })
            .sum();
        self.largest = extent + cutoff;
        Ok(())
    }

    /// Unit vectors across the periodic ones, for open directions.
    fn complete_dual(&mut self) {
        let axes = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        match self.rank {
            0 => self.dual = axes,
            1 => {
                let along = self.basis[0];
                let least = (0..3).min_by(|&i, &j| along[i].abs().total_cmp(&along[j].abs())).unwrap_or(0);
                self.dual[1] = unit(cross(along, axes[least]));
                self.dual[2] = unit(cross(along, self.dual[1]));
            }
            2 => self.dual[2] = unit(cross(self.basis[0], self.basis[1])),
            _ => {}
        }
    }

    fn choose_cells(&mut self, lengths: Vector, cutoff: f64, n_points: usize, cells: Cells) {
        let most = (CELLS_A_POINT * n_points as f64 + 8.0).min(f64::from(i32::MAX));
        let for_each = lengths.iter().product::<f64>() / n_points as f64;
        let half = 0.5 * cutoff * (1.0 + ROUNDING);
        // points of the five cells of a row, which are estimated together
        let in_row = 5.0 * half.powi(3) / for_each;
        let mut width = match cells {
            Cells::Rows if in_row >= EIGHT as f64 => half,
            Cells::Rows => 2.0 * half,
            Cells::Vicinities => {
                let least = cutoff * (1.0 + 10.0 * ROUNDING);
                (POINTS_A_CELL * for_each).cbrt().clamp(least, MOST_CUTOFFS * least)
            }
        };
        let fit = |width: f64| lengths.map(|length| (length / width).floor().clamp(1.0, 1e6));
        while fit(width).iter().product::<f64>() > most {
            width *= 1.26;
        }
        let found = fit(width);
        for (direction, length) in lengths.into_iter().enumerate() {
            let n = found[direction];
            self.n_cells[direction] = n as usize;
            let is_periodic = direction < self.rank;
            let one = length / n;
            let reach = if one > 0.0 { (cutoff * (1.0 + ROUNDING) / one + ROUNDING).ceil() } else { 1.0 };
            self.scale[direction] = if is_periodic {
                n
            } else if length > 0.0 {
                n / length
            } else {
                0.0
            };
            self.reach[direction] = if is_periodic { reach as usize } else { reach.min(n - 1.0) as usize };
        }
    }

    /// Whether all points of a cell are farther than the cutoff from all points of the cell that is some steps away.
    ///
    /// The distance of two cells is at least that along any direction. The direction is that of the vector between points
    /// of both that are near each other: from any vector, each edge in turn is added as often as shortens the vector most.
    pub(super) fn is_beyond(&self, steps: [i64; 3]) -> bool {
        let least = steps.map(|step| step as f64 - 1.0 - SLACK);
        let most = steps.map(|step| step as f64 + 1.0 + SLACK);
        let mut apart = [0.0; 3];
        let mut times = [0.0; 3];
        for axis in 0..3 {
            times[axis] = 0_f64.clamp(least[axis], most[axis]);
            apart = plus(apart, times[axis], self.edges[axis]);
        }
        for (axis, edge) in self.edges.into_iter().enumerate() {
            let squared = dot(edge, edge);
            if squared > 0.0 {
                let better = (times[axis] - dot(edge, apart) / squared).clamp(least[axis], most[axis]);
                apart = plus(apart, better - times[axis], edge);
            }
        }
        let along = self.edges.map(|edge| dot(edge, apart));
        let distance: f64 = (0..3).map(|axis| (along[axis] * least[axis]).min(along[axis] * most[axis])).sum();
        distance > self.cutoff * (1.0 + ROUNDING) * dot(apart, apart).sqrt()
    }

    pub(super) fn n_cells(&self) -> usize {
        self.n_cells.iter().product()
    }

    pub(super) fn cell_at(&self, places: [usize; 3]) -> usize {
        (places[0] * self.n_cells[1] + places[1]) * self.n_cells[2] + places[2]
    }

    pub(super) fn places_of(&self, cell: usize) -> [usize; 3] {
        let (rest, last) = (cell / self.n_cells[2], cell % self.n_cells[2]);
        [rest / self.n_cells[1], rest % self.n_cells[1], last]
    }

    /// Finds the cell of each point, and how many times each periodic vector is to be subtracted from it.
    /// Errors: `Corrupt` for a point that is not finite or too far outside of the cell.
    pub(super) fn locate(&self, cpu: Cpu, points: &[[f32; 3]], located: &mut Located) -> Result<()> {
        let n = points.len().next_multiple_of(4);
        located.cells.resize(n, 0);
        located.counts.iter_mut().for_each(|counts| counts.resize(n, 0.0));
        let usable = dispatch!(
            cpu,
            bool,
            locate,
            (grid: &Grid = self, points: &[[f32; 3]] = points, located: &mut Located = located)
        );
        if usable { Ok(()) } else { Err(unusable()) }
    }
}

/// Where points are; there may be more after the last one.
#[derive(Debug, Default)]
pub(super) struct Located {
    pub(super) cells: Vec<u32>,
    /// Whole numbers for each vector of the basis.
    pub(super) counts: [Vec<f32>; 3],
}

/// Returns whether all points can be used.
#[inline(always)]
fn locate<Q: Quad>(grid: &Grid, points: &[[f32; 3]], located: &mut Located) -> bool {
    let half = Q::all(0.5);
    let zero = Q::all(0.0);
    // zero times a finite number is zero
    let (mut zeros, mut farthest) = (zero, zero);
    let n_cells = grid.n_cells.map(|n| n as f64);
    let (last, n_cells): (Vectors<Q>, Vectors<Q>) = (all(n_cells.map(|n| n - 1.0)), all(n_cells));
    let dual: [Vectors<Q>; 3] = [all(grid.dual[0]), all(grid.dual[1]), all(grid.dual[2])];
    let (origin, scale): (Vectors<Q>, Vectors<Q>) = (all(grid.origin), all(grid.scale));
    let [first_counts, second_counts, third_counts] = &mut located.counts;
    let counts = first_counts.as_chunks_mut::<4>().0.iter_mut().zip(second_counts.as_chunks_mut::<4>().0);
    let counts = counts.zip(third_counts.as_chunks_mut::<4>().0);
    let places = located.cells.as_chunks_mut::<4>().0.iter_mut().zip(counts);
    for (points, (cells, ((first, second), third))) in points.chunks(4).zip(places) {
        let [x, y, z] = match points.first_chunk::<4>() {
            Some(four) => Q::xyz_of_row(four),
            None => Q::xyz_of_row(&std::array::from_fn(|i| points[i.min(points.len() - 1)])),
        };
        let (mut cell, mut counts) = (zero, [zero; 3]);
        for direction in 0..3 {
            let [a, b, c] = dual[direction];
            let along = a.multiply(x).add(b.multiply(y)).add(c.multiply(z));
            let mut at = along.subtract(origin[direction]);
            zeros = zeros.add(at.multiply(zero));
            if direction < grid.rank {
                farthest = at.magnitude().maximum(farthest);
                counts[direction] = whole(at.subtract(half));
                at = at.subtract(counts[direction]);
            }
            let place = whole(at.multiply(scale[direction]).subtract(half)).maximum(zero);
            let place = Q::select(place.less(last[direction]), place, last[direction]);
            cell = cell.multiply(n_cells[direction]).add(place);
        }
        let [a, b, c, d] = cell.store_whole();
        *cells = [a as u32, b as u32, c as u32, d as u32];
        (*first, *second, *third) = (counts[0].narrow(), counts[1].narrow(), counts[2].narrow());
    }
    zeros.store() == [0.0; 4] && farthest.store().iter().all(|at| *at < FARTHEST)
}

fn most_of(range: [f64; 2]) -> f64 {
    range[0].abs().max(range[1].abs())
}

#[inline(always)]
pub(super) fn dot(u: Vector, v: Vector) -> f64 {
    u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
}

fn plus(u: Vector, times: f64, v: Vector) -> Vector {
    [0, 1, 2].map(|axis| u[axis] + times * v[axis])
}

fn cross(u: Vector, v: Vector) -> Vector {
    [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]
}

fn unit(vector: Vector) -> Vector {
    let length = dot(vector, vector).sqrt();
    vector.map(|x| x / length)
}
