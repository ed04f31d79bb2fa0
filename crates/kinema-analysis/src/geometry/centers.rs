//! Centres of a set of atoms: of mass, `sum m r / sum m`, or of geometry, with equal weights, angstrom; and the mean
//! squares of the distances from them along x, y and z.
//!
//! Positions are used as they are: molecules are not made whole. As MDAnalysis' `center`. Sums are taken about the
//! first atom, so that their accuracy does not depend on how far the set is from the origin.

use kinema_core::{Error, ErrorKind, Result};

use crate::cpu::{Cpu, dispatch};
use crate::lanes::{Lanes, Quad, Registers, atoms_as_lanes, fill_up};
use crate::weights::relative_to_mean;

/// Computes the centre of rows of a set of atoms.
#[derive(Debug, Clone)]
pub struct Center {
    cpu: Cpu,
    n_atoms: usize,
    weights: Vec<Lanes>,
}

impl Center {
    /// Centre of mass, with one mass an atom.
    ///
    /// # Errors
    /// `InvalidArgument` for no atoms, and for masses that are negative, not finite or all zero.
    pub fn mass_weighted(cpu: Cpu, masses: &[f64]) -> Result<Self> {
        Ok(Self { cpu, n_atoms: masses.len(), weights: atoms_as_lanes(&relative_to_mean(masses, masses.len())?) })
    }

    /// Centre of geometry of `n_atoms` atoms.
    ///
    /// # Errors
    /// `InvalidArgument` for no atoms.
    pub fn unweighted(cpu: Cpu, n_atoms: usize) -> Result<Self> {
        Self::mass_weighted(cpu, &vec![1.0; n_atoms])
    }

    /// The centre of one row, `atoms x 3`, angstrom; NaN if a position is not finite.
    ///
    /// # Errors
    /// `Internal` for a row with a different number of atoms.
    pub fn compute(&self, row: &[f32]) -> Result<[f64; 3]> {
        check_row(row, self.n_atoms)?;
        let first = row.first_chunk::<3>().copied().unwrap_or_default();
        let sum = dispatch!(
            self.cpu,
            [f64; 3],
            weighted_sum,
            (row: &[f32] = row, first: [f32; 3] = first, weights: &[Lanes] = &self.weights)
        );
        // Weights are relative to their mean: their sum is the number of atoms.
        let mean = sum.map(|sum| sum / self.n_atoms as f64);
        Ok([0, 1, 2].map(|c| f64::from(first[c]) + mean[c]))
    }

    /// Weighted mean squares of x, y and z about the centre, of one row, angstrom^2; NaN if a position is not finite.
    /// Only rounding makes them less than zero.
    ///
    /// # Errors
    /// As [`Center::compute`].
    pub fn mean_squares(&self, row: &[f32]) -> Result<[f64; 3]> {
        check_row(row, self.n_atoms)?;
        let (sum, square) = dispatch!(
            self.cpu,
            ([f64; 3], [f64; 3]),
            sums_and_squares,
            (row: &[f32] = row, weights: &[Lanes] = &self.weights)
        );
        let total = self.n_atoms as f64;
        Ok(std::array::from_fn(|c| (square[c] - sum[c] * (sum[c] / total)) / total))
    }
}

/// Checks that a row holds x, y and z of a number of atoms.
/// Errors: `Internal`.
pub(super) fn check_row(row: &[f32], n_atoms: usize) -> Result<()> {
    if row.len() != n_atoms * 3 {
        let what = format!("wrong number of coordinates in a row, expected {}, found {}", n_atoms * 3, row.len());
        return Err(Error::new(ErrorKind::Internal, what));
    }
    Ok(())
}

/// Weighted sum of positions relative to `first`.
#[inline(always)]
fn weighted_sum<Q: Quad>(row: &[f32], first: [f32; 3], weights: &[Lanes]) -> [f64; 3] {
    let [x, y, z] = first;
    let origin = Registers::<Q>::load(&Lanes::repeat([f64::from(x), f64::from(y), f64::from(z)]));
    let mut sum = Registers::<Q>::zero();
    let (groups, tail) = row.as_chunks::<12>();
    for (group, weights) in groups.iter().zip(weights) {
        sum.add_product(&Registers::relative(group, &origin), &Registers::load(weights));
    }
    if let (false, Some(weights)) = (tail.is_empty(), weights.last()) {
        sum.add_product(&Registers::relative(&fill_up(tail, first), &origin), &Registers::load(weights));
    }
    sum.fold()
}

/// The same, and of their squares.
#[inline(always)]
fn sums_and_squares<Q: Quad>(row: &[f32], weights: &[Lanes]) -> ([f64; 3], [f64; 3]) {
    let first = row.first_chunk::<3>().copied().unwrap_or_default();
    let origin = Registers::<Q>::load(&Lanes::repeat(first.map(f64::from)));
    let mut sums = [Registers::<Q>::zero(); 2];
    let (groups, tail) = row.as_chunks::<12>();
    for (group, weights) in groups.iter().zip(weights) {
        add(&mut sums, group, &origin, weights);
    }
    if let (false, Some(weights)) = (tail.is_empty(), weights.last()) {
        add(&mut sums, &fill_up(tail, first), &origin, weights);
    }
    (sums[0].fold(), sums[1].fold())
}

#[inline(always)]
fn add<Q: Quad>(sums: &mut [Registers<Q>; 2], group: &[f32; 12], origin: &Registers<Q>, weights: &Lanes) {
    let x = Registers::relative(group, origin);
    let weighted = x.times(&Registers::load(weights));
    sums[0].add(&weighted);
    sums[1].add_product(&weighted, &x);
}
