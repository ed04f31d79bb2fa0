//! Jumps of atoms to the other side of the cell, counted from frame to frame; [`crate::transforms::nojump`] begins with
//! them.
//!
//! A jump is the whole number nearest to the step of a reduced coordinate.

use std::sync::Arc;

use kinema_core::frame::Cell;
use kinema_core::frame::lattice::ROUNDING;

use super::stations::LongestStep;
use super::step_sums::{Row, Rows, StepSums, Steps, examples};
use crate::cpu::{Cpu, dispatch};
use crate::geometry::vectors::{Vectors, all, dot};
use crate::lanes::{ATOMS, Quad};
use crate::registry::KernelInfo;
use crate::transforms::displacement::Edges;
use crate::transforms::images::{Fault, MOST_CELLS};

/// Number of groups of four atoms that go through all frames together: their state stays in the first-level cache.
const GROUPS: usize = 16;

/// Arguments and results of [`StepSums`]. Sums are the edges to add to each atom: signed 32-bit integers, passed as
/// unsigned.
pub const KERNEL: KernelInfo = KernelInfo {
    id: Jumps::ID,
    make: |arguments| Ok(Arc::new(StepSums::new(Jumps { cpu: arguments.cpu() }, arguments)?)),
    examples: |n_atoms, _| examples(n_atoms),
};

/// Counts jumps.
struct Jumps {
    cpu: Cpu,
}

/// Values of one frame, four atoms at a time: the longest steps, and the sum of the squares of all reduced coordinates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    longest: [f64; 4],
    squares: [f64; 4],
}

impl Seen {
    const NONE: Self = Self { longest: [0.0; 4], squares: [0.0; 4] };

    /// Whether all coordinates are surely finite and within reach.
    fn are_sure(&self) -> bool {
        self.squares.iter().sum::<f64>() <= (MOST_CELLS * MOST_CELLS) as f64
    }

    fn longest(&self) -> f64 {
        self.longest.iter().copied().fold(0.0, f64::max)
    }
}

/// Four atoms: their reduced coordinates in the frame before, and the edges to add, by coordinate.
#[derive(Debug, Clone, Copy, Default)]
struct Four {
    places: [[f64; 4]; 3],
    counts: [[f64; 4]; 3],
}

/// Adds the jumps to `rows` (frames x atoms x 3), from `before` on and from frame to frame.
#[inline(always)]
fn count<Q: Quad>(rows: &[f32], cells: &[Edges], before: &Row, sums: &mut [u32], steps: &mut [Seen]) {
    let width = before.positions.len();
    let group = 3 * ATOMS * GROUPS;
    for start in (0..width).step_by(group) {
        let end = width.min(start + group);
        let columns = start..end;
        let mut groups = [Four::default(); GROUPS];
        let of_before = before.positions[columns.clone()].as_chunks::<3>().0;
        let dual = all_of::<Q>(&before.cell);
        for (group, atoms) in groups.iter_mut().zip(of_before.chunks(ATOMS)) {
            let points = four::<Q>(atoms);
            group.places = [dot(dual[0], points).store(), dot(dual[1], points).store(), dot(dual[2], points).store()];
        }
        for ((row, cell), steps) in rows.chunks_exact(width).zip(cells).zip(steps.iter_mut()) {
            let atoms = row[columns.clone()].as_chunks::<3>().0;
            let dual = all_of::<Q>(cell);
            let mut seen = [Q::load(&steps.longest), Q::load(&steps.squares)];
            let (fours, rest) = atoms.as_chunks::<ATOMS>();
            for (group, four) in groups.iter_mut().zip(fours) {
                seen = step(group, dual, Q::xyz_of_row(four), seen);
            }
            if !rest.is_empty() {
                seen = step(&mut groups[fours.len()], dual, four(rest), seen);
            }
            *steps = Seen { longest: seen[0].store(), squares: seen[1].store() };
        }
        for (atom, sums) in sums[columns].as_chunks_mut::<3>().0.iter_mut().enumerate() {
            for (sum, counts) in sums.iter_mut().zip(&groups[atom / ATOMS].counts) {
                *sum = sum.wrapping_add(counts[atom % ATOMS] as i32 as u32);
            }
        }
    }
}

#[inline(always)]
fn all_of<Q: Quad>(cell: &Edges) -> [Vectors<Q>; 3] {
    let [a, b, c] = cell.dual;
    [all(a), all(b), all(c)]
}

/// Moves four atoms to their positions in the next frame. `seen`: the longest step and the sum of squares so far.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "functions of iterators are compiled for every processor")]
fn step<Q: Quad>(group: &mut Four, dual: [[Q; 3]; 3], points: [Q; 3], seen: [Q; 2]) -> [Q; 2] {
    let (mut longest, mut squares) = (Q::all(0.0), Q::all(0.0));
    for edge in 0..3 {
        let now = dot(dual[edge], points);
        let by = now.subtract(Q::load(&group.places[edge]));
        let jump = by.add(Q::all(ROUNDING)).subtract(Q::all(ROUNDING));
        group.counts[edge] = Q::load(&group.counts[edge]).subtract(jump).store();
        longest = longest.maximum(by.subtract(jump).magnitude());
        squares = now.multiply_add(now, squares);
        group.places[edge] = now.store();
    }
    [seen[0].maximum(longest), seen[1].add(squares)]
}

/// Up to four atoms: the last of them stands for those that are missing.
#[inline(always)]
fn four<Q: Quad>(atoms: &[[f32; 3]]) -> [Q; 3] {
    let last = atoms.len() - 1;
    Q::xyz([&atoms[0], &atoms[last.min(1)], &atoms[last.min(2)], &atoms[last]])
}

/// The first fault of a row: an atom that is not finite, or too far away for jumps to be counted; `None` if there is
/// none.
#[cold]
fn fault(row: &[f32], dual: &Cell) -> Option<Fault> {
    let reduced =
        |atom: &[f32; 3], dual: &[f64; 3]| -> f64 { atom.iter().zip(dual).map(|(&x, dual)| f64::from(x) * dual).sum() };
    row.as_chunks::<3>().0.iter().zip(0..).find_map(|(atom, column)| {
        if atom.iter().any(|x| !x.is_finite()) {
            return Some(Fault::NotFinite(column));
        }
        let is_far = dual.iter().any(|dual| reduced(atom, dual).abs() > MOST_CELLS as f64);
        is_far.then_some(Fault::TooFar(column))
    })
}

impl Steps for Jumps {
    const ID: &'static str = "jumps/2";
    type Sum = u32;
    type Room = Vec<Seen>;

    fn add(
        &self,
        before: &Row,
        rows: &Rows<'_>,
        sums: &mut [u32],
        longest: &mut LongestStep,
        seen: &mut Vec<Seen>,
    ) -> Result<(), (Fault, u64)> {
        seen.clear();
        seen.resize(rows.cells.len(), Seen::NONE);
        dispatch!(
            self.cpu,
            (),
            count,
            (
                rows: &[f32] = rows.positions,
                cells: &[Edges] = rows.cells,
                before: &Row = before,
                sums: &mut [u32] = sums,
                steps: &mut [Seen] = seen,
            )
        );
        let width = before.positions.len();
        let frames = rows.positions.chunks_exact(width).zip(rows.cells).zip(rows.numbers).zip(seen.iter());
        for (((row, cell), &number), seen) in frames {
            if let Some(fault) = (!seen.are_sure()).then(|| fault(row, &cell.dual)).flatten() {
                return Err((fault, number));
            }
            longest.see(seen.longest(), number);
        }
        Ok(())
    }
}
