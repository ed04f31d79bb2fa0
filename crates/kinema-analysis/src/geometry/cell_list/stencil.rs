//! Neighbouring cells: which points may be within the cutoff of the points of a cell.

use std::ops::Range;

use super::grid::Grid;
use super::sorted::Sorted;

/// Neighbouring cells, in rows along the last direction, near ones first.
#[derive(Debug, Default)]
pub(super) struct Stencil {
    rows: Vec<Row>,
    is_half: bool,
    /// For each place along the first two directions, from the reach before the first on: the place within the lattice,
    /// and how many times it is past it; `None` beyond an open edge.
    wrapped: [Vec<Option<(usize, i32)>>; 2],
}

#[derive(Debug)]
struct Row {
    /// Along the first two directions, with the reach added.
    steps: [usize; 2],
    /// Along the last one.
    range: Range<i64>,
    /// Whether it is the cell itself, in a half of the neighbours.
    is_home: bool,
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
    /// All cells within reach that can have near points, or the half of them of which each pair of cells has one.
    pub(super) fn set(&mut self, grid: &Grid, half: bool) {
        self.is_half = half;
        self.rows.clear();
        let reach = grid.reach.map(|reach| reach as i64);
        for first in -reach[0]..=reach[0] {
            for second in -reach[1]..=reach[1] {
                let steps = [(first + reach[0]) as usize, (second + reach[1]) as usize];
                let mut add = |mut range: Range<i64>, is_home| {
                    while !range.is_empty() && grid.is_beyond([first, second, range.start]) {
                        range.start += 1;
                    }
                    while !range.is_empty() && grid.is_beyond([first, second, range.end - 1]) {
                        range.end -= 1;
                    }
                    if !range.is_empty() {
                        self.rows.push(Row { steps, range, is_home });
                    }
                };
                if !half || [first, second] > [0, 0] {
                    add(-reach[2]..reach[2] + 1, false);
                } else if [first, second] == [0, 0] {
                    add(0..1, true);
                    add(1..reach[2] + 1, false);
                }
            }
        }
        let apart = |step: usize, reach: i64| (step as i64 - reach).unsigned_abs().pow(2);
        self.rows.sort_by_key(|row| apart(row.steps[0], reach[0]) + apart(row.steps[1], reach[1]));
        for (direction, wrapped) in self.wrapped.iter_mut().enumerate() {
            let n = grid.n_cells[direction] as i64;
            let is_periodic = direction < grid.rank;
            let of = |at: i64| {
                let (count, place) = wrap(at, n);
                (is_periodic || count == 0).then_some((place as usize, count as i32))
            };
            wrapped.clear();
            wrapped.extend((-reach[direction]..n + reach[direction]).map(of));
        }
    }

    /// Calls `see` with the cells, the counts of periodic vectors, and whether it is the home cell of a half.
    #[inline(always)]
    fn visit(&self, grid: &Grid, cell: usize, mut see: impl FnMut(Range<usize>, [i32; 3], bool)) {
        let home = grid.places_of(cell);
        let n = grid.n_cells[2] as i64;
        for Row { steps, range, is_home } in &self.rows {
            let wrapped = [self.wrapped[0][home[0] + steps[0]], self.wrapped[1][home[1] + steps[1]]];
            let [Some((first, first_count)), Some((second, second_count))] = wrapped else { continue };
            let start = grid.cell_at([first, second, 0]);
            let (mut at, mut end) = (home[2] as i64 + range.start, home[2] as i64 + range.end);
            if at >= 0 && end <= n {
                see(start + at as usize..start + end as usize, [first_count, second_count, 0], *is_home);
                continue;
            }
            if grid.rank < 3 {
                (at, end) = (at.max(0), end.min(n));
            }
            while at < end {
                let (count, place) = wrap(at, n);
                let until = end.min((count + 1) * n);
                let cells = start + place as usize..start + (place + until - at) as usize;
                see(cells, [first_count, second_count, count as i32], *is_home);
                at = until;
            }
        }
    }

    /// The runs of points near a cell that have points.
    pub(super) fn find_runs(&self, grid: &Grid, sorted: &Sorted, cell: usize, runs: &mut Vec<Run>) {
        runs.clear();
        self.visit(grid, cell, |cells, counts, is_home| {
            let points = sorted.in_cells(cells);
            if !points.is_empty() {
                let shift = if counts == [0; 3] { [0.0; 3] } else { shift(grid, counts) };
                runs.push(Run { points, shift, counts, is_home });
            }
        });
    }

    /// Marks the cells that have points within reach.
    pub(super) fn mark_near(&self, grid: &Grid, sorted: &Sorted, near: &mut Vec<bool>) {
        near.clear();
        near.resize(grid.n_cells(), false);
        for cell in sorted.occupied() {
            self.visit(grid, *cell as usize, |cells, _, _| near[cells].fill(true));
        }
    }
}

fn shift(grid: &Grid, counts: [i32; 3]) -> [f32; 3] {
    let mut shift = [0.0; 3];
    for (count, vector) in counts.iter().zip(&grid.basis) {
        shift = [0, 1, 2].map(|axis: usize| shift[axis] + f64::from(*count) * vector[axis]);
    }
    shift.map(|x| x as f32)
}

/// How many times a place is past the `n` cells of the lattice, and the rest.
#[inline(always)]
fn wrap(at: i64, n: i64) -> (i64, i64) {
    // a division takes longer than the comparison, and most cells are not at a face
    if (0..n).contains(&at) { (0, at) } else { (at.div_euclid(n), at.rem_euclid(n)) }
}
