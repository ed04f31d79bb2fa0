//! Sums of weights in slices of the cell along its three axes, for one frame.

use crate::cpu::{Cpu, dispatch};
use crate::geometry::CellAxes;
use crate::geometry::turns::without_whole;
use crate::geometry::vectors::{Vectors, dot};
use crate::lanes::Quad;

/// Up to four weights of a point, in units; or their sums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C, align(32))]
pub(super) struct Four(pub(super) [i64; 4]);

impl Four {
    #[inline(always)]
    pub(super) fn add(&mut self, other: &Self) {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
        // units are such that no sum overflows (`FixedPoint`)
        self.0 = [a.wrapping_add(e), b.wrapping_add(f), c.wrapping_add(g), d.wrapping_add(h)];
    }
}

/// Points to sort into slices.
#[derive(Debug, Clone, Copy)]
pub(super) enum Points<'a> {
    Atoms(&'a [[f32; 3]]),
    Centers(&'a [[f64; 3]]),
}

/// One axis in a frame.
#[derive(Debug, Clone, Copy)]
struct Axis {
    dual: [f64; 3],
    /// Where its first slice begins, as a part of the height.
    origin: f64,
    n_slices: f64,
    last: i32,
    /// The place of its first slice.
    start: i32,
    periodic: bool,
}

/// Sums of slices: slices along x, then a place for points outside along x; the same along y and z.
#[derive(Debug, Default)]
pub(super) struct Slices {
    /// Two copies, for points in turn: sums of neighbours, which are often in one slice, need not wait for each other.
    sums: Vec<Four>,
    outside: u64,
}

impl Slices {
    /// Adds the points of a frame to empty sums; `origins` are parts of the heights. Points lie in the slice that holds one
    /// of their images; along open edges points may be outside. Returns how many are, of all axes.
    pub(super) fn fill(
        &mut self,
        cpu: Cpu,
        points: Points<'_>,
        weights: &[Four],
        cell: &CellAxes,
        n_slices: [usize; 3],
        origins: [f64; 3],
    ) -> u64 {
        let n = places(n_slices);
        self.sums.clear();
        self.sums.resize(2 * n, Four::default());
        self.outside = 0;
        let axes = std::array::from_fn(|axis| Axis {
            dual: cell.dual[axis],
            origin: origins[axis],
            n_slices: n_slices[axis] as f64,
            last: n_slices[axis] as i32 - 1,
            start: start_of(n_slices, axis) as i32,
            periodic: cell.periodic[axis],
        });
        let axes: &[Axis; 3] = &axes;
        let slices = &mut *self;
        match points {
            Points::Atoms(points) => dispatch!(cpu, (), add_atoms, (
                slices: &mut Slices = slices, axes: &[Axis; 3] = axes,
                points: &[[f32; 3]] = points, weights: &[Four] = weights,
            )),
            Points::Centers(points) => dispatch!(cpu, (), add_centers, (
                slices: &mut Slices = slices, axes: &[Axis; 3] = axes,
                points: &[[f64; 3]] = points, weights: &[Four] = weights,
            )),
        }
        let (sums, other) = self.sums.split_at_mut(n);
        sums.iter_mut().zip(other).for_each(|(sum, other)| sum.add(other));
        self.outside
    }

    /// The sums of the slices of an axis.
    pub(super) fn of_axis(&mut self, n_slices: [usize; 3], axis: usize) -> &mut [Four] {
        &mut self.sums[start_of(n_slices, axis)..][..n_slices[axis]]
    }
}

fn start_of(n_slices: [usize; 3], axis: usize) -> usize {
    n_slices[..axis].iter().map(|n| n + 1).sum()
}

fn places(n_slices: [usize; 3]) -> usize {
    start_of(n_slices, 2) + n_slices[2] + 1
}

#[inline(always)]
fn add_atoms<Q: Quad>(slices: &mut Slices, axes: &[Axis; 3], points: &[[f32; 3]], weights: &[Four]) {
    let (fours, rest) = points.as_chunks::<4>();
    let (of_fours, of_rest) = weights.split_at(4 * fours.len());
    for (four, weights) in fours.iter().zip(of_fours.as_chunks::<4>().0) {
        add_four::<Q>(slices, axes, Q::xyz_of_row(four), weights);
    }
    for (point, weight) in rest.iter().zip(of_rest) {
        add_four::<Q>(slices, axes, Q::xyz([point; 4]), std::slice::from_ref(weight));
    }
}

#[inline(always)]
fn add_centers<Q: Quad>(slices: &mut Slices, axes: &[Axis; 3], points: &[[f64; 3]], weights: &[Four]) {
    for (point, weight) in points.iter().zip(weights) {
        let [x, y, z] = *point;
        add_four::<Q>(slices, axes, [Q::all(x), Q::all(y), Q::all(z)], std::slice::from_ref(weight));
    }
}

/// Adds the first of four points, as many as there are weights.
#[inline(always)]
fn add_four<Q: Quad>(slices: &mut Slices, axes: &[Axis; 3], points: Vectors<Q>, weights: &[Four]) {
    let [x, y, z] = axes;
    let places = [places_along(x, points), places_along(y, points), places_along(z, points)];
    for (axis, places) in axes.iter().zip(&places) {
        if !axis.periodic {
            let beyond = axis.start + axis.last;
            slices.outside += places[..weights.len()].iter().filter(|place| **place > beyond).count() as u64;
        }
    }
    let half = slices.sums.len() / 2;
    let (even, odd) = slices.sums.split_at_mut(half);
    let [x, y, z] = places;
    let mut lane = 0;
    while lane < weights.len() {
        let sums = if lane % 2 == 0 { &mut *even } else { &mut *odd };
        sums[x[lane] as usize].add(&weights[lane]);
        sums[y[lane] as usize].add(&weights[lane]);
        sums[z[lane] as usize].add(&weights[lane]);
        lane += 1;
    }
}

/// The places of points along an axis.
#[inline(always)]
fn places_along<Q: Quad>(axis: &Axis, points: Vectors<Q>) -> [i32; 4] {
    let [x, y, z] = axis.dual;
    let part = dot([Q::all(x), Q::all(y), Q::all(z)], points).subtract(Q::all(axis.origin));
    if !axis.periodic {
        return open_places(axis, part.store());
    }
    let rest = without_whole(part);
    let part = Q::select(rest.less(Q::all(0.0)), rest.add(Q::all(1.0)), rest);
    let [a, b, c, d] = part.multiply(Q::all(axis.n_slices)).store_whole();
    // a part just below 0 is rounded to 1, in the last slice
    let last = axis.last;
    let start = axis.start;
    [start + a.min(last), start + b.min(last), start + c.min(last), start + d.min(last)]
}

/// Beyond the last slice for points outside.
fn open_places(axis: &Axis, parts: [f64; 4]) -> [i32; 4] {
    parts.map(|part| {
        let slice = if (0.0..=1.0).contains(&part) { (part * axis.n_slices) as i32 } else { i32::MAX };
        axis.start + if slice == i32::MAX { axis.last + 1 } else { slice.min(axis.last) }
    })
}
