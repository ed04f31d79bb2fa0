//! The cells of a search, and points sorted into them.

use std::ops::Range;

use kinema_core::frame::Lattice;
use kinema_core::{Error, ErrorKind, Result};

use super::Near;

type Vector = [f64; 3];

/// The farthest that a point may be from the cell, in cells.
const FARTHEST: f64 = (1_u64 << 30) as f64;
/// Added to the cutoff for the rounding of places in cells.
const ROUNDING: f64 = 1e-6;
/// Cells for each point, at most.
const CELLS_A_POINT: f64 = 4.0;
/// Lanes of the estimates; a run may be read beyond its end by one less.
pub(super) const LANES: usize = 8;

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
    rank: usize,
    basis: [Vector; 3],
    /// Products with it are multiples of the periodic vectors; for open directions, angstrom.
    dual: [Vector; 3],
    /// Least product of a point, for open directions; zero else.
    origin: Vector,
    /// Cells for one of the multiple, by direction.
    scale: Vector,
    n_cells: [usize; 3],
    /// Cells on each side that can have points within the cutoff.
    reach: [usize; 3],
    /// Greatest magnitude of a coordinate in single precision.
    pub(super) largest: f64,
}

impl Grid {
    /// Makes cells of half the cutoff, or of the cutoff or more if there are few points.
    pub(super) fn set(&mut self, lattice: &Lattice, cutoff: f64, sets: [&[f32]; 2]) -> Result<()> {
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
        self.choose_cells(lengths, cutoff, n_points);
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

    fn choose_cells(&mut self, lengths: Vector, cutoff: f64, n_points: usize) {
        let most = CELLS_A_POINT * n_points as f64 + 8.0;
        let half = 0.5 * cutoff * (1.0 + ROUNDING);
        // points of the five cells of a row, which are estimated together
        let in_row = 5.0 * half.powi(3) * n_points as f64 / lengths.iter().product::<f64>();
        let mut width = if in_row >= LANES as f64 { half } else { 2.0 * half };
        let cells = |width: f64| lengths.map(|length| (length / width).floor().clamp(1.0, 1e6));
        while cells(width).iter().product::<f64>() > most {
            width *= 1.26;
        }
        let found = cells(width);
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

    pub(super) fn n_cells(&self) -> usize {
        self.n_cells.iter().product()
    }

    fn cell_at(&self, places: [usize; 3]) -> usize {
        (places[0] * self.n_cells[1] + places[1]) * self.n_cells[2] + places[2]
    }

    fn places_of(&self, cell: usize) -> [usize; 3] {
        let (rest, last) = (cell / self.n_cells[2], cell % self.n_cells[2]);
        [rest / self.n_cells[1], rest % self.n_cells[1], last]
    }

    /// The cell of a point, and how many times each periodic vector is to be subtracted from it.
    #[inline(always)]
    fn locate(&self, point: Vector) -> Result<(usize, [i32; 3])> {
        let mut counts = [0; 3];
        let mut places = [0; 3];
        for direction in 0..3 {
            let mut at = dot(self.dual[direction], point) - self.origin[direction];
            if direction < self.rank {
                if at.is_nan() || at.abs() >= FARTHEST {
                    return Err(unusable());
                }
                let count = at.floor();
                counts[direction] = count as i32;
                at -= count;
            } else if !at.is_finite() {
                return Err(unusable());
            }
            places[direction] = ((at * self.scale[direction]) as usize).min(self.n_cells[direction] - 1);
        }
        Ok((self.cell_at(places), counts))
    }

    /// The distance of two points, the second with the given number of vectors added to its place in the cell.
    #[inline(always)]
    pub(super) fn decide(&self, first: &Sorted, i: usize, second: &Sorted, j: usize, counts: [i32; 3]) -> Near {
        let (u, v) = (first.points[i], second.points[j]);
        let mut apart = [0, 1, 2].map(|axis| f64::from(v.stored[axis]) - f64::from(u.stored[axis]));
        let mut added = [0; 3];
        for direction in 0..self.rank {
            let count = i64::from(v.counts[direction]) - i64::from(u.counts[direction]) - i64::from(counts[direction]);
            added[direction] = -count;
            let vector = self.basis[direction];
            apart = [0, 1, 2].map(|axis| apart[axis] - count as f64 * vector[axis]);
        }
        Near { first: u.number, second: v.number, distance: dot(apart, apart).sqrt(), counts: added }
    }
}

/// A point as it was given, and how many times periodic vectors are subtracted from it to be in the cell.
#[derive(Debug, Clone, Copy)]
struct Point {
    stored: [f32; 3],
    counts: [i32; 3],
    number: u32,
}

/// Points cell by cell.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    /// First point of each cell, and the number of points.
    starts: Vec<u32>,
    points: Vec<Point>,
    /// Their numbers; with more after the end.
    numbers: Vec<u32>,
    /// Coordinates in the cell, in single precision; with more after the end that are far away.
    pub(super) coordinates: [Vec<f32>; 3],
    located: Vec<(u32, Point)>,
}

impl Sorted {
    /// Sorts the points in the cells that are wanted.
    pub(super) fn sort(&mut self, grid: &Grid, points: &[f32], is_wanted: impl Fn(usize) -> bool) -> Result<()> {
        self.located.clear();
        for (number, stored) in points.as_chunks::<3>().0.iter().enumerate() {
            let (cell, counts) = grid.locate(stored.map(f64::from))?;
            if is_wanted(cell) {
                self.located.push((cell as u32, Point { stored: *stored, counts, number: number as u32 }));
            }
        }
        self.fill(grid);
        Ok(())
    }

    fn fill(&mut self, grid: &Grid) {
        let n = self.located.len();
        // one number more: that of a cell first counts its points, then is where the next of them goes
        self.starts.clear();
        self.starts.resize(grid.n_cells() + 2, 0);
        for (cell, _) in &self.located {
            self.starts[*cell as usize + 2] += 1;
        }
        for cell in 1..=grid.n_cells() {
            self.starts[cell + 1] += self.starts[cell];
        }
        self.points.resize(n, Point { stored: [0.0; 3], counts: [0; 3], number: 0 });
        self.numbers.resize(n + LANES, 0);
        for coordinates in &mut self.coordinates {
            coordinates.clear();
            coordinates.resize(n + LANES, f32::INFINITY);
        }
        for (cell, point) in &self.located {
            let next = &mut self.starts[*cell as usize + 1];
            let at = *next as usize;
            *next += 1;
            self.points[at] = *point;
            self.numbers[at] = point.number;
            let place = grid.in_cell(point);
            for (coordinates, x) in self.coordinates.iter_mut().zip(place) {
                coordinates[at] = x as f32;
            }
        }
        self.starts.truncate(grid.n_cells() + 1);
    }

    /// Cells with points.
    pub(super) fn occupied(&self) -> impl Iterator<Item = usize> {
        let bounds = self.starts.windows(2).enumerate();
        bounds.filter(|(_, bounds)| bounds[0] < bounds[1]).map(|(cell, _)| cell)
    }

    pub(super) fn in_cell(&self, cell: usize) -> Range<usize> {
        self.starts[cell] as usize..self.starts[cell + 1] as usize
    }

    pub(super) fn number(&self, point: usize) -> u32 {
        self.numbers[point]
    }

    /// The numbers of eight points from `at` on; there are as many after the last point.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn numbers(&self, at: usize) -> &[u32; LANES] {
        self.numbers[at..].first_chunk().unwrap_or(&[0; LANES])
    }

    /// The place of a point in the cell, with a shift subtracted.
    #[inline(always)]
    pub(super) fn position(&self, point: usize, shift: [f32; 3]) -> [f32; 3] {
        [0, 1, 2].map(|axis| self.coordinates[axis][point] - shift[axis])
    }
}

impl Grid {
    /// The coordinates of a point in the cell.
    #[inline(always)]
    fn in_cell(&self, point: &Point) -> Vector {
        let mut place = point.stored.map(f64::from);
        for direction in 0..self.rank {
            let (count, vector) = (f64::from(point.counts[direction]), self.basis[direction]);
            place = [0, 1, 2].map(|axis| place[axis] - count * vector[axis]);
        }
        place
    }
}

/// Neighbouring cells, in rows along the last direction.
#[derive(Debug, Default)]
pub(super) struct Stencil {
    /// Steps along the first two directions, and the range of steps along the last one.
    rows: Vec<([i64; 2], Range<i64>)>,
    is_half: bool,
}

/// Points of cells that follow each other in memory, seen from a cell.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) points: Range<usize>,
    /// Added to these points.
    pub(super) shift: [f32; 3],
    pub(super) counts: [i32; 3],
    /// Whether it is the cell itself, in a half of the neighbours.
    pub(super) is_home: bool,
}

impl Stencil {
    /// All cells within reach, or the half of them of which each pair of cells has one.
    pub(super) fn set(&mut self, grid: &Grid, half: bool) {
        self.rows.clear();
        let reach = grid.reach.map(|reach| reach as i64);
        for first in -reach[0]..=reach[0] {
            for second in -reach[1]..=reach[1] {
                let steps = [first, second];
                if !half || steps > [0, 0] {
                    self.rows.push((steps, -reach[2]..reach[2] + 1));
                } else if steps == [0, 0] {
                    self.rows.push((steps, 0..1));
                    self.rows.push((steps, 1..reach[2] + 1));
                }
            }
        }
        self.is_half = half;
    }

    /// Calls `see` with the cells, the counts of periodic vectors, and whether it is the home cell of a half.
    fn visit(&self, grid: &Grid, cell: usize, mut see: impl FnMut(Range<usize>, [i32; 3], bool)) {
        let home = grid.places_of(cell).map(|place| place as i64);
        let n = grid.n_cells.map(|n| n as i64);
        for (steps, range) in &self.rows {
            let mut counts = [0; 3];
            let mut places = [0; 3];
            let mut is_there = true;
            for direction in 0..2 {
                let at = home[direction] + steps[direction];
                if direction < grid.rank {
                    let (count, place) = wrapped(at, n[direction]);
                    (counts[direction], places[direction]) = (count as i32, place as usize);
                } else {
                    is_there &= (0..n[direction]).contains(&at);
                    places[direction] = at.max(0) as usize;
                }
            }
            if !is_there {
                continue;
            }
            let is_home = self.is_half && *steps == [0, 0] && *range == (0..1);
            let (mut at, mut end) = (home[2] + range.start, home[2] + range.end);
            if grid.rank < 3 {
                (at, end) = (at.max(0), end.min(n[2]));
            }
            while at < end {
                let (count, place) = wrapped(at, n[2]);
                let until = end.min((count + 1) * n[2]);
                places[2] = place as usize;
                counts[2] = count as i32;
                let first = grid.cell_at(places);
                see(first..first + (until - at) as usize, counts, is_home);
                at = until;
            }
        }
    }

    /// The runs of points near a cell that have points.
    pub(super) fn find_runs(&self, grid: &Grid, sorted: &Sorted, cell: usize, runs: &mut Vec<Run>) {
        runs.clear();
        self.visit(grid, cell, |cells, counts, is_home| {
            let points = sorted.starts[cells.start] as usize..sorted.starts[cells.end] as usize;
            if !points.is_empty() {
                let mut shift = [0.0; 3];
                for (count, vector) in counts.iter().zip(&grid.basis) {
                    shift = [0, 1, 2].map(|axis| shift[axis] + f64::from(*count) * vector[axis]);
                }
                runs.push(Run { points, shift: shift.map(|x| x as f32), counts, is_home });
            }
        });
    }

    /// Marks the cells that have points within reach.
    pub(super) fn mark_near(&self, grid: &Grid, sorted: &Sorted, near: &mut Vec<bool>) {
        near.clear();
        near.resize(grid.n_cells(), false);
        for cell in sorted.occupied() {
            self.visit(grid, cell, |cells, _, _| near[cells].fill(true));
        }
    }
}

/// How many times a place is past the `n` cells of the lattice, and the rest.
#[inline(always)]
fn wrapped(at: i64, n: i64) -> (i64, i64) {
    // a division takes longer than the comparison, and most cells are not at a face
    if (0..n).contains(&at) { (0, at) } else { (at.div_euclid(n), at.rem_euclid(n)) }
}

fn most_of(range: [f64; 2]) -> f64 {
    range[0].abs().max(range[1].abs())
}

#[inline(always)]
pub(super) fn dot(u: Vector, v: Vector) -> f64 {
    u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
}

fn cross(u: Vector, v: Vector) -> Vector {
    [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]
}

fn unit(vector: Vector) -> Vector {
    let length = dot(vector, vector).sqrt();
    vector.map(|x| x / length)
}
