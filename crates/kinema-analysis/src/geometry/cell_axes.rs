//! Axes of a cell: the normals of its faces, along which positions are parts of a height.
//!
//! The axis x is the normal of the edges b and c, y that of c and a, z that of a and b: the axes of space in a
//! right-angled cell, and in any cell the only directions along which a profile repeats.

use kinema_core::frame::{Cell, Lattice};
use kinema_core::{Error, ErrorKind, Result};

use super::arc_tangent::atan2;
use super::turns::sine_and_cosine;
use crate::cpu::{Cpu, dispatch};
use crate::lanes::{Plain, Quad};

/// The axes of a cell with a volume.
#[derive(Debug, Clone)]
pub(crate) struct CellAxes {
    /// Products with positions are parts of a height.
    pub(crate) dual: [[f64; 3]; 3],
    /// Distances of opposite faces, angstrom.
    pub(crate) heights: [f64; 3],
    /// angstrom^3
    pub(crate) volume: f64,
    /// Which of the edges are periodic.
    pub(crate) periodic: [bool; 3],
}

impl CellAxes {
    /// The axes of a cell whose edges need not all be periodic.
    /// Errors: `Corrupt` for a cell without a volume.
    pub(crate) fn new(cell: &Cell, periodic: [bool; 3]) -> Result<Self> {
        Self::of_lattice(&Lattice::from_cell(cell)?, periodic)
    }

    /// The same, from the lattice of all three edges.
    /// Errors: `Corrupt` for a lattice with fewer edges.
    pub(crate) fn of_lattice(lattice: &Lattice, periodic: [bool; 3]) -> Result<Self> {
        let dual = lattice.dual_of_edges();
        let [[ax, ay, az], [bx, by, bz], [cx, cy, cz]] = dual;
        let product = ax * (by * cz - bz * cy) + ay * (bz * cx - bx * cz) + az * (bx * cy - by * cx);
        let heights = dual.map(|[x, y, z]| 1.0 / (x * x + y * y + z * z).sqrt());
        let volume = 1.0 / product.abs();
        if heights.iter().chain([&volume]).any(|length| !length.is_finite()) {
            return Err(Error::new(ErrorKind::Corrupt, "the frame has no cell with a volume, expected three edges"));
        }
        Ok(Self { dual, heights, volume, periodic })
    }

    /// The mean of positions along an axis with the images of the cell, as a part of the height from -1/2 to 1/2, and how
    /// sure it is: from 1 for positions in one plane to 0 for such as are spread evenly.
    ///
    /// It is the angle of the sum of unit vectors, `exp(2 pi i part)`.
    pub(crate) fn circular_mean(&self, cpu: Cpu, axis: usize, positions: &[[f32; 3]]) -> [f64; 2] {
        let dual = self.dual[axis];
        let [y, x] = dispatch!(cpu, [f64; 2], sum_on_circle, (dual: [f64; 3] = dual, all: &[[f32; 3]] = positions));
        let [angle, ..] = atan2(Plain::all(y), Plain::all(x)).store();
        let sure = (x * x + y * y).sqrt() / positions.len() as f64;
        [if angle.is_nan() { 0.0 } else { angle / std::f64::consts::TAU }, sure]
    }
}

/// Sums of sines and of cosines.
#[inline(always)]
fn sum_on_circle<Q: Quad>(dual: [f64; 3], positions: &[[f32; 3]]) -> [f64; 2] {
    let [x, y, z] = dual;
    let dual = [Q::all(x), Q::all(y), Q::all(z)];
    let mut sums = [Q::all(0.0); 2];
    let (fours, rest) = positions.as_chunks::<4>();
    for four in fours {
        let found = sine_and_cosine(super::vectors::dot(dual, Q::xyz_of_row(four)));
        sums = [sums[0].add(found[0]), sums[1].add(found[1])];
    }
    let mut totals = sums.map(|sum| {
        let [a, b, c, d] = sum.store();
        (a + b) + (c + d)
    });
    for atom in rest {
        let found = sine_and_cosine(super::vectors::dot(dual, Q::xyz([atom; 4]))).map(Q::store);
        totals = [totals[0] + found[0][0], totals[1] + found[1][0]];
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    const CELL: Cell = [[20.0, 0.0, 0.0], [5.0, 18.0, 0.0], [-4.0, 6.0, 30.0]];

    #[test]
    fn heights_and_volume_of_a_triclinic_cell() {
        let axes = CellAxes::new(&CELL, [true; 3]).unwrap();
        assert!((axes.volume - 20.0 * 18.0 * 30.0).abs() < 1e-9);
        assert!((axes.heights[2] - 30.0).abs() < 1e-12);
        let flat = [[20.0, 0.0, 0.0], [5.0, 18.0, 0.0], [0.0; 3]];
        assert_eq!(CellAxes::new(&flat, [true; 3]).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn a_group_across_the_face_has_its_mean_there() {
        let axes = CellAxes::new(&CELL, [true; 3]).unwrap();
        let positions: Vec<[f32; 3]> = [29.0, 28.0, 1.0, 2.0, 0.5, 29.5].iter().map(|z| [7.0, 3.0, *z]).collect();
        let [mean, sure] = axes.circular_mean(Cpu::detect(), 2, &positions);
        assert!(mean.abs() < 1e-12 && sure > 0.9, "{mean} {sure}");
        assert_eq!([mean, sure], axes.circular_mean(Cpu::baseline(), 2, &positions));
        let moved: Vec<[f32; 3]> = positions.iter().map(|[x, y, z]| [*x, *y, z + 7.5]).collect();
        assert!((axes.circular_mean(Cpu::detect(), 2, &moved)[0] - 0.25).abs() < 1e-12);
    }
}
