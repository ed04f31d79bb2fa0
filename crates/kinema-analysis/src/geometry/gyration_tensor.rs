//! The gyration tensor of a set of atoms, and its shape.
//!
//! `S = sum m (r - c)(r - c)^T / sum m` with the centre c of the same weights, angstrom^2. From its eigenvalues
//! `l_1 <= l_2 <= l_3` (Theodorou and Suter, Macromolecules 18, 1206, 1985):
//!
//! - squared radius of gyration `l_1 + l_2 + l_3`;
//! - asphericity `b = l_3 - (l_1 + l_2) / 2`;
//! - acylindricity `c = l_2 - l_1`;
//! - relative shape anisotropy `(b^2 + 3/4 c^2) / (l_1 + l_2 + l_3)^2`: 0 for a sphere or a platonic body, 1 for a line.
//!
//! MDTraj's `compute_gyration_tensor`, `asphericity`, `acylindricity` and `relative_shape_antisotropy` are these without
//! weights. MDAnalysis' `gyration_moments` are the eigenvalues with masses; what it calls asphericity (Dima and Thirumalai,
//! J. Phys. Chem. B 108, 6564, 2004) is the relative shape anisotropy.

use kinema_core::Result;

use super::centers::check_row;
use super::points::Points;

use super::vectors::{Vectors, all, difference};
use crate::cpu::{Cpu, dispatch};
use crate::lanes::Quad;
use crate::superposition::Matrix3;
use crate::symmetric_matrix::eigenvalues_and_vectors;
use crate::weights::relative_to_mean;

/// Computes the gyration tensor of rows of a set of atoms.
#[derive(Debug, Clone)]
pub struct Gyration {
    cpu: Cpu,
    n_atoms: usize,
    /// Weights of four atoms each, relative to their mean; zero for missing atoms.
    weights: Vec<[f64; 4]>,
}

/// A gyration tensor and the numbers that follow from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Symmetric, angstrom^2.
    pub tensor: Matrix3,
    /// Eigenvalues of the tensor, the least first, angstrom^2.
    pub moments: [f64; 3],
    /// Angstrom.
    pub radius_of_gyration: f64,
    /// Angstrom^2.
    pub asphericity: f64,
    /// Angstrom^2.
    pub acylindricity: f64,
    /// From 0 to 1; NaN if all atoms are at one place.
    pub anisotropy: f64,
}

impl Gyration {
    /// For a set with one mass an atom.
    ///
    /// # Errors
    /// `InvalidArgument` for no atoms, and for masses that are negative, not finite or all zero.
    pub fn new(cpu: Cpu, masses: &[f64]) -> Result<Self> {
        let mut weights = vec![[0.0; 4]; masses.len().div_ceil(4)];
        let relative = relative_to_mean(masses, masses.len())?;
        for (weight, relative) in weights.as_flattened_mut().iter_mut().zip(relative) {
            *weight = relative;
        }
        Ok(Self { cpu, n_atoms: masses.len(), weights })
    }

    /// For a set of `n_atoms` atoms of equal weight.
    ///
    /// # Errors
    /// `InvalidArgument` for no atoms.
    pub fn unweighted(cpu: Cpu, n_atoms: usize) -> Result<Self> {
        Self::new(cpu, &vec![1.0; n_atoms])
    }

    /// The tensor of one row, `atoms x 3`, angstrom^2; NaN if a position is not finite.
    ///
    /// # Errors
    /// `Internal` for a row with a different number of atoms.
    pub fn tensor(&self, row: &[f32]) -> Result<Matrix3> {
        check_row(row, self.n_atoms)?;
        let first = row.first_chunk::<3>().copied().unwrap_or_default().map(f64::from);
        let sums = dispatch!(
            self.cpu,
            [f64; 9],
            sums,
            (points: Points<'_> = Points::row(row)?, first: [f64; 3] = first, weights: &[[f64; 4]] = &self.weights)
        );
        // Weights are relative to their mean: their sum is the number of atoms.
        let [x, y, z, xx, xy, xz, yy, yz, zz] = sums.map(|sum| sum / self.n_atoms as f64);
        let (xy, xz, yz) = (xy - x * y, xz - x * z, yz - y * z);
        Ok([[xx - x * x, xy, xz], [xy, yy - y * y, yz], [xz, yz, zz - z * z]])
    }

    /// The tensor of one row and its shape.
    ///
    /// # Errors
    /// As [`Gyration::tensor`].
    pub fn shape(&self, row: &[f32]) -> Result<Shape> {
        Ok(Shape::from_tensor(self.tensor(row)?))
    }
}

impl Shape {
    /// Moments of a gyration tensor. Eigenvalues below zero, which a flat set can have by rounding, become zero.
    pub fn from_tensor(tensor: Matrix3) -> Self {
        let mut moments = if tensor.as_flattened().iter().all(|value| value.is_finite()) {
            eigenvalues_and_vectors(tensor).0.map(|value| value.max(0.0))
        } else {
            [f64::NAN; 3]
        };
        moments.sort_unstable_by(f64::total_cmp);
        let [least, middle, most] = moments;
        let square = least + middle + most;
        let asphericity = most - 0.5 * (least + middle);
        let acylindricity = middle - least;
        let anisotropy = (asphericity.powi(2) + 0.75 * acylindricity.powi(2)) / square.powi(2);
        Self { tensor, moments, radius_of_gyration: square.sqrt(), asphericity, acylindricity, anisotropy }
    }
}

/// Weighted sums of x, y, z and of the products xx, xy, xz, yy, yz, zz, relative to the first atom.
#[inline(always)]
fn sums<Q: Quad>(points: Points<'_>, first: [f64; 3], weights: &[[f64; 4]]) -> [f64; 9] {
    let origin: Vectors<Q> = all(first);
    let mut sums = [Q::all(0.0); 9];
    for (group, weights) in weights.iter().enumerate() {
        let [x, y, z] = difference(points.four(4 * group), origin);
        let weight = Q::load(weights);
        let (wx, wy, wz) = (weight.multiply(x), weight.multiply(y), weight.multiply(z));
        for (sum, weighted) in sums.iter_mut().zip([wx, wy, wz]) {
            *sum = sum.add(weighted);
        }
        let factors = [(wx, x), (wx, y), (wx, z), (wy, y), (wy, z), (wz, z)];
        for (sum, (weighted, factor)) in sums[3..].iter_mut().zip(factors) {
            *sum = weighted.multiply_add(factor, *sum);
        }
    }
    let mut folded = [0.0; 9];
    for (folded, sum) in folded.iter_mut().zip(sums) {
        let [a, b, c, d] = sum.store();
        *folded = (a + b) + (c + d);
    }
    folded
}
