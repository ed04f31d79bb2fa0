//! Sums of weights in slices of the cell along its three axes, for one frame.

use crate::cpu::{Cpu, dispatch};
use crate::geometry::CellAxes;
use crate::geometry::vectors::{Vectors, dot};
use crate::lanes::Fours;

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
    /// Within the last slice: parts that are rounded to 1 belong to it.
    most: f64,
    periodic: bool,
}

/// Sums of slices along x, y and z; after the last slice one for points outside.
#[derive(Debug, Default)]
pub(super) struct Slices {
    /// Two copies, for points in turn: sums of neighbours, which are often in one slice, need not wait for each other.
    sums: [[Vec<Four>; 2]; 3],
}

/// The same, borrowed.
type Sums<'a> = [[&'a mut [Four]; 2]; 3];

impl Slices {
    /// Sets the sums to those of the points of a frame; `origins` are parts of the heights. Points lie in the slice that
    /// holds one of their images; along open edges points may be outside. Returns how many are, along all axes.
    pub(super) fn fill(
        &mut self,
        cpu: Cpu,
        points: Points<'_>,
        weights: &[Four],
        cell: &CellAxes,
        n_slices: [usize; 3],
        origins: [f64; 3],
    ) -> u64 {
        for (copies, n) in self.sums.iter_mut().zip(n_slices) {
            for sums in copies {
                sums.clear();
                sums.resize(n + 1, Four::default());
            }
        }
        let axes = std::array::from_fn(|axis| Axis {
            dual: cell.dual[axis],
            origin: origins[axis],
            n_slices: n_slices[axis] as f64,
            most: n_slices[axis] as f64 - 0.5,
            periodic: cell.periodic[axis],
        });
        let axes: &[Axis; 3] = &axes;
        let sums: Sums<'_> = self.sums.each_mut().map(|copies| copies.each_mut().map(Vec::as_mut_slice));
        let outside = match points {
            Points::Atoms(points) => dispatch!(cpu, u64, add_atoms, (
                sums: Sums<'_> = sums, axes: &[Axis; 3] = axes, points: &[[f32; 3]] = points, weights: &[Four] = weights,
            )),
            Points::Centers(points) => dispatch!(cpu, u64, add_centers, (
                sums: Sums<'_> = sums, axes: &[Axis; 3] = axes, points: &[[f64; 3]] = points, weights: &[Four] = weights,
            )),
        };
        for [sums, others] in &mut self.sums {
            sums.iter_mut().zip(others).for_each(|(sum, other)| sum.add(other));
        }
        outside
    }

    /// The sums of the slices of an axis.
    pub(super) fn of_axis(&self, axis: usize) -> &[Four] {
        let sums = &self.sums[axis][0];
        &sums[..sums.len() - 1]
    }
}

/// Points whose slices are found before their weights are added: places need not wait for sums.
const BLOCK: usize = 64;

/// Slices of the points of a block along each axis, four by four.
type Places = [[[i32; 4]; BLOCK / 4]; 3];

#[inline(always)]
fn add_atoms<Q: Fours>(sums: Sums<'_>, axes: &[Axis; 3], points: &[[f32; 3]], weights: &[Four]) -> u64 {
    add_points(sums, axes, points, weights, Q::xyz_of_row)
}

#[inline(always)]
fn add_centers<Q: Fours>(sums: Sums<'_>, axes: &[Axis; 3], points: &[[f64; 3]], weights: &[Four]) -> u64 {
    let xyz = |four: &[[f64; 3]; 4]| Q::columns(four.map(|[x, y, z]| Q::load(&[x, y, z, 0.0])));
    add_points(sums, axes, points, weights, xyz)
}

/// Adds the weights of points, four of which `xyz` loads, and counts those outside.
#[inline(always)]
fn add_points<Q: Fours, P: Copy>(
    mut sums: Sums<'_>,
    axes: &[Axis; 3],
    points: &[P],
    weights: &[Four],
    xyz: impl Fn(&[P; 4]) -> Vectors<Q>,
) -> u64 {
    let mut outside = 0;
    let mut places: Places = [[[0; 4]; BLOCK / 4]; 3];
    for (points, weights) in points.chunks(BLOCK).zip(weights.chunks(BLOCK)) {
        let (fours, rest) = points.as_chunks::<4>();
        for (at, four) in fours.iter().enumerate() {
            put_places(axes, xyz(four), at, &mut places);
        }
        if let Some(first) = rest.first() {
            let last = std::array::from_fn(|i| *rest.get(i).unwrap_or(first));
            put_places(axes, xyz(&last), fours.len(), &mut places);
        }
        add_block(&mut sums, &places, weights);
        for (axis, places) in axes.iter().zip(&places).filter(|(axis, _)| !axis.periodic) {
            let places = &places.as_flattened()[..points.len()];
            outside += places.iter().filter(|place| f64::from(**place) > axis.most).count() as u64;
        }
    }
    outside
}

#[inline(always)]
fn put_places<Q: Fours>(axes: &[Axis; 3], points: Vectors<Q>, at: usize, places: &mut Places) {
    let [x, y, z] = places;
    x[at] = places_along(&axes[0], points);
    y[at] = places_along(&axes[1], points);
    z[at] = places_along(&axes[2], points);
}

/// Adds the weights of a block of points, to both copies of the sums in turn.
#[inline(always)]
fn add_block(sums: &mut Sums<'_>, [along_x, along_y, along_z]: &Places, weights: &[Four]) {
    let [[x, other_x], [y, other_y], [z, other_z]] = sums;
    let (twos, rest) = weights.as_chunks::<2>();
    let [along_x, along_y, along_z] =
        [along_x, along_y, along_z].map(|places| places.as_flattened().as_chunks::<2>().0);
    let places = along_x.iter().zip(along_y).zip(along_z);
    for (two, ((at_x, at_y), at_z)) in twos.iter().zip(places.clone()) {
        x[at_x[0] as usize].add(&two[0]);
        y[at_y[0] as usize].add(&two[0]);
        z[at_z[0] as usize].add(&two[0]);
        other_x[at_x[1] as usize].add(&two[1]);
        other_y[at_y[1] as usize].add(&two[1]);
        other_z[at_z[1] as usize].add(&two[1]);
    }
    for (weight, ((at_x, at_y), at_z)) in rest.iter().zip(places.skip(twos.len())) {
        x[at_x[0] as usize].add(weight);
        y[at_y[0] as usize].add(weight);
        z[at_z[0] as usize].add(weight);
    }
}

/// The slices of points along an axis.
#[inline(always)]
fn places_along<Q: Fours>(axis: &Axis, points: Vectors<Q>) -> [i32; 4] {
    let [x, y, z] = axis.dual;
    let part = dot([Q::all(x), Q::all(y), Q::all(z)], points).subtract(Q::all(axis.origin));
    if !axis.periodic {
        return open_places(axis, part.store());
    }
    part.fraction().multiply(Q::all(axis.n_slices)).minimum(Q::all(axis.most)).store_whole()
}

/// Slices of points along an open edge; the one after the last for points outside.
fn open_places(axis: &Axis, parts: [f64; 4]) -> [i32; 4] {
    parts.map(|part| {
        let place = if (0.0..=1.0).contains(&part) { (part * axis.n_slices).min(axis.most) } else { axis.n_slices };
        place as i32
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CELL: [[f64; 3]; 3] = [[20.0, 0.0, 0.0], [5.0, 18.0, 0.0], [-4.0, 6.0, 30.0]];

    #[test]
    fn points_are_in_the_slices_of_their_reduced_coordinates() {
        let points: Vec<[f32; 3]> =
            (0..1003).map(|i| [0, 1, 2].map(|x| ((i * 7919 + x * 104_729) % 1013) as f32 * 0.11 - 50.0)).collect();
        let weights: Vec<Four> = (0..1003).map(|i| Four([1, i, -3 * i, i * i])).collect();
        let n_slices = [40, 1, 77];
        for periodic in [[true; 3], [true, false, false]] {
            let cell = CellAxes::new(&CELL, periodic).unwrap();
            let mut expected = n_slices.map(|n| vec![Four::default(); n]);
            let mut outside = 0;
            for (point, weight) in points.iter().zip(&weights) {
                for axis in 0..3 {
                    let dual = cell.dual[axis];
                    let part: f64 = (0..3).map(|x| dual[x] * f64::from(point[x])).sum::<f64>() - 0.3;
                    let part = if periodic[axis] { part.rem_euclid(1.0) } else { part };
                    if (0.0..=1.0).contains(&part) {
                        let place = (part * n_slices[axis] as f64) as usize;
                        expected[axis][place.min(n_slices[axis] - 1)].add(weight);
                    } else {
                        outside += 1;
                    }
                }
            }
            for cpu in [Cpu::detect(), Cpu::baseline()] {
                let mut slices = Slices::default();
                for _ in 0..2 {
                    let found = slices.fill(cpu, Points::Atoms(&points), &weights, &cell, n_slices, [0.3; 3]);
                    assert_eq!(found, outside);
                    (0..3).for_each(|axis| assert_eq!(slices.of_axis(axis), expected[axis]));
                }
            }
            assert_eq!(outside > 0, periodic != [true; 3]);
        }
    }
}
