//! Optimal superposition of a frame on a reference in one pass over its atoms: RMSD, rotation and translation.
//!
//! It reads rows of coordinates only: atom sets, frames and results belong to the kernels. Sources: Theobald 2005 (Acta
//! Cryst A61:478); Liu, Agrafiotis and Theobald 2010 (J Comput Chem 31:1561).
//!
//! Coordinates are taken relative to the frame's first atom, in `f64`, in which the difference of two `f32` of similar
//! size is exact. The accuracy therefore does not depend on how far the molecule is from the origin. Centroid, norm and
//! the nine inner products are gathered together; the reference is centred and weighted beforehand and repeated in the
//! lanes' pattern.

use kinema_core::{Error, ErrorKind, Result};

use super::key_matrix::{IDENTITY, KeyMatrix, Matrix3};
use crate::cpu::{Cpu, dispatch};
use crate::lanes::{ATOMS, Lanes, Quad, Registers, fill_up};
use crate::weights::{reference_atoms, relative_to_mean};

/// Below this share of the norms, a squared deviation is summed up atom by atom, as the difference of the norms and the
/// eigenvalue would have lost half of its digits.
pub(super) const CANCELLED: f64 = 1e-6;

/// A rigid motion of a frame: `x -> rotation (x - from) + to`, angstrom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Motion {
    /// Rows of the rotation matrix; it acts on column vectors and has determinant 1.
    pub rotation: Matrix3,
    /// Centre of the frame's atoms.
    pub from: [f64; 3],
    /// Centre of the reference.
    pub to: [f64; 3],
}

impl Motion {
    /// The motion that leaves everything in its place.
    pub const NONE: Self = Self { rotation: IDENTITY, from: [0.0; 3], to: [0.0; 3] };

    /// The place to which the motion brings a position.
    #[inline(always)]
    pub fn apply(&self, position: [f64; 3]) -> [f64; 3] {
        let d = [position[0] - self.from[0], position[1] - self.from[1], position[2] - self.from[2]];
        let [a, b, c] = &self.rotation;
        [
            a[0] * d[0] + a[1] * d[1] + a[2] * d[2] + self.to[0],
            b[0] * d[0] + b[1] * d[1] + b[2] * d[2] + self.to[1],
            c[0] * d[0] + c[1] * d[1] + c[2] * d[2] + self.to[2],
        ]
    }

    /// How the motion turns a vector that has no place.
    #[inline(always)]
    pub fn turn(&self, vector: [f64; 3]) -> [f64; 3] {
        self.rotation.map(|row| row[0] * vector[0] + row[1] * vector[1] + row[2] * vector[2])
    }
}

/// Sums from one pass over a frame's atoms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pass {
    /// Weighted centre, angstrom.
    centre: [f64; 3],
    /// `sum w |x - centre|^2`
    norm: f64,
    /// `inner[a][b] = sum w x_a y_b`, y being the centred reference.
    inner: Matrix3,
}

/// A reference structure, prepared for superposing any number of frames on it.
#[derive(Debug, Clone)]
pub struct Reference {
    cpu: Cpu,
    centre: [f64; 3],
    norm: f64,
    /// Number of atoms, which is also the sum of the weights.
    total: f64,
    /// Atoms relative to `centre`.
    centred: Vec<[f64; 3]>,
    weights: Option<Vec<f64>>,
    /// For each four atoms the weighted, centred x, y and z, each repeated for the three lanes of its atom.
    repeated: Vec<[Lanes; 3]>,
    /// The weights in lanes; empty without weights.
    weight_lanes: Vec<Lanes>,
}

impl Reference {
    /// A reference of `coordinates.len() / 3` atoms (row-major `atoms x 3`, angstrom).
    ///
    /// Weights are divided by their mean, as in MDAnalysis.analysis.rms.rmsd.
    ///
    /// # Errors
    /// `InvalidArgument` for no atoms, values that are not finite, weights that are negative or all zero, and a wrong
    /// number of weights.
    pub fn new(coordinates: &[f64], weights: Option<&[f64]>) -> Result<Self> {
        Self::with_build(Cpu::detect(), coordinates, weights)
    }

    /// As [`Reference::new`], for a stated build of the loops; results are the same bits.
    ///
    /// # Errors
    /// As there.
    pub fn with_build(cpu: Cpu, coordinates: &[f64], weights: Option<&[f64]>) -> Result<Self> {
        let atoms = reference_atoms(coordinates)?;
        let weights = weights.map(|weights| relative_to_mean(weights, atoms.len())).transpose()?;
        Self::weighted(cpu, atoms, weights)
    }

    /// Reference from a row with finite positions, for weights that are relative to their mean.
    /// Errors: `InvalidArgument` for positions that are too far apart.
    pub(crate) fn from_row(cpu: Cpu, row: &[f32], weights: Option<Vec<f64>>) -> Result<Self> {
        let atoms: Vec<[f64; 3]> = row.as_chunks::<3>().0.iter().map(|atom| atom.map(f64::from)).collect();
        Self::weighted(cpu, &atoms, weights)
    }

    fn weighted(cpu: Cpu, atoms: &[[f64; 3]], weights: Option<Vec<f64>>) -> Result<Self> {
        let total = atoms.len() as f64;
        let weight_of = |i: usize| weights.as_ref().and_then(|w| w.get(i)).copied().unwrap_or(1.0);
        let origin = atoms.first().copied().unwrap_or_default();
        let mut sum = [0.0; 3];
        for (i, atom) in atoms.iter().enumerate() {
            for c in 0..3 {
                sum[c] += weight_of(i) * (atom[c] - origin[c]);
            }
        }
        let centre: [f64; 3] = std::array::from_fn(|c| origin[c] + sum[c] / total);
        let centred: Vec<[f64; 3]> =
            atoms.iter().map(|atom| std::array::from_fn(|c| (atom[c] - origin[c]) - sum[c] / total)).collect();
        let mut norm = 0.0;
        for (i, y) in centred.iter().enumerate() {
            norm += weight_of(i) * (y[0] * y[0] + y[1] * y[1] + y[2] * y[2]);
        }
        if !norm.is_finite() {
            return Err(Error::new(ErrorKind::InvalidArgument, "reference positions are too far apart"));
        }
        let repeated = (0..atoms.len().div_ceil(ATOMS))
            .map(|group| {
                let weighted = |i: usize, c: usize| centred.get(i).map_or(0.0, |y| weight_of(i) * y[c]);
                std::array::from_fn(|c| Lanes::each_atom(std::array::from_fn(|i| weighted(group * ATOMS + i, c))))
            })
            .collect();
        let weight_lanes = weights.as_deref().map(crate::lanes::atoms_as_lanes).unwrap_or_default();
        Ok(Self { cpu, centre, norm, total, centred, weights, repeated, weight_lanes })
    }

    /// The build of the loops.
    pub(crate) fn cpu(&self) -> Cpu {
        self.cpu
    }

    /// Weights, relative to their mean.
    pub(crate) fn relative_weights(&self) -> Option<&[f64]> {
        self.weights.as_deref()
    }

    /// Number of atoms.
    pub fn n_atoms(&self) -> usize {
        self.centred.len()
    }

    /// Weighted centre, angstrom.
    pub fn centre(&self) -> [f64; 3] {
        self.centre
    }

    /// The least RMSD, angstrom, that any rigid motion of the row's atoms reaches; `row` is `n_atoms * 3` values.
    ///
    /// # Errors
    /// `InvalidArgument` for a row of another length, `Corrupt` for a position that is not finite.
    pub fn rmsd(&self, row: &[f32]) -> Result<f64> {
        self.check_length(row)?;
        self.least_rmsd(row).ok_or_else(|| not_finite(row))
    }

    /// The least RMSD, angstrom, and the motion that reaches it.
    ///
    /// # Errors
    /// As [`Reference::rmsd`].
    pub fn superpose(&self, row: &[f32]) -> Result<(f64, Motion)> {
        self.check_length(row)?;
        self.least_motion(row).ok_or_else(|| not_finite(row))
    }

    /// The RMSD, angstrom, after a given motion of the row.
    ///
    /// # Errors
    /// As [`Reference::rmsd`].
    pub fn rmsd_after(&self, motion: &Motion, row: &[f32]) -> Result<f64> {
        self.check_length(row)?;
        self.moved_rmsd(motion, row).ok_or_else(|| not_finite(row))
    }

    fn check_length(&self, row: &[f32]) -> Result<()> {
        if row.len() == self.n_atoms() * 3 {
            return Ok(());
        }
        let what = format!("wrong number of coordinates, expected {}, found {}", self.n_atoms() * 3, row.len());
        Err(Error::new(ErrorKind::InvalidArgument, what))
    }

    /// As `rmsd`, for a row of the right length; `None` if a position is not finite.
    #[inline]
    pub(crate) fn least_rmsd(&self, row: &[f32]) -> Option<f64> {
        let pass = self.pass(row);
        if !pass.norm.is_finite() {
            return None;
        }
        let norms = pass.norm + self.norm;
        let eigenvalue = dispatch!(self.cpu, f64, eigenvalue, (m: &Matrix3 = &pass.inner, bound: f64 = 0.5 * norms));
        let square = norms - 2.0 * eigenvalue;
        if square < CANCELLED * norms { self.superposed(&pass, row).map(|(rmsd, _)| rmsd) } else { self.root(square) }
    }

    /// As `superpose`, for a row of the right length; `None` if a position is not finite.
    pub(crate) fn least_motion(&self, row: &[f32]) -> Option<(f64, Motion)> {
        let pass = self.pass(row);
        if pass.norm.is_finite() { self.superposed(&pass, row) } else { None }
    }

    /// As `rmsd_after`, for a row of the right length; `None` if a position is not finite.
    pub(crate) fn moved_rmsd(&self, motion: &Motion, row: &[f32]) -> Option<f64> {
        let pass = self.pass(row);
        if !pass.norm.is_finite() {
            return None;
        }
        // sum w |R x - y|^2 about both centres, plus the distance of the centres.
        let mut overlap = 0.0;
        for (a, products) in pass.inner.iter().enumerate() {
            for (b, product) in products.iter().enumerate() {
                overlap += motion.rotation[b][a] * product;
            }
        }
        let moved = motion.apply(pass.centre);
        let apart: f64 = (0..3).map(|c| (moved[c] - self.centre[c]).powi(2)).sum();
        let norms = pass.norm + self.norm;
        let square = norms - 2.0 * overlap + self.total * apart;
        if square < CANCELLED * norms { self.root(self.summed(motion, row)) } else { self.root(square) }
    }

    /// The best motion alone, likewise.
    pub(crate) fn best_motion(&self, row: &[f32]) -> Option<Motion> {
        let pass = self.pass(row);
        pass.norm.is_finite().then(|| self.superposing(&pass).1)
    }

    /// The motion that shifts the row's centre to the reference's, without a rotation.
    pub(crate) fn centring(&self, row: &[f32]) -> Option<Motion> {
        let pass = self.pass(row);
        pass.norm.is_finite().then_some(Motion { rotation: IDENTITY, from: pass.centre, to: self.centre })
    }

    /// Largest eigenvalue and best motion.
    fn superposing(&self, pass: &Pass) -> (f64, Motion) {
        let bound = 0.5 * (pass.norm + self.norm);
        let (eigenvalue, rotation) =
            dispatch!(self.cpu, (f64, Matrix3), rotation, (m: &Matrix3 = &pass.inner, bound: f64 = bound));
        (eigenvalue, Motion { rotation, from: pass.centre, to: self.centre })
    }

    fn superposed(&self, pass: &Pass, row: &[f32]) -> Option<(f64, Motion)> {
        let norms = pass.norm + self.norm;
        let (eigenvalue, motion) = self.superposing(pass);
        let mut square = norms - 2.0 * eigenvalue;
        if square < CANCELLED * norms {
            square = self.summed(&motion, row);
        }
        Some((self.root(square)?, motion))
    }

    fn root(&self, square: f64) -> Option<f64> {
        Some((square.max(0.0) / self.total).sqrt())
    }

    /// `sum w |R (x - from) + to - y|^2`, atom by atom.
    #[cold]
    fn summed(&self, motion: &Motion, row: &[f32]) -> f64 {
        let relative = Motion { to: std::array::from_fn(|c| motion.to[c] - self.centre[c]), ..*motion };
        let mut sum = 0.0;
        for (i, (x, y)) in row.as_chunks::<3>().0.iter().zip(&self.centred).enumerate() {
            let moved = relative.apply(x.map(f64::from));
            let weight = self.weights.as_ref().and_then(|w| w.get(i)).copied().unwrap_or(1.0);
            sum += weight * ((moved[0] - y[0]).powi(2) + (moved[1] - y[1]).powi(2) + (moved[2] - y[2]).powi(2));
        }
        sum
    }

    // Inlined into a larger function, the sums would no longer fit in the registers.
    #[inline(never)]
    fn pass(&self, row: &[f32]) -> Pass {
        dispatch!(self.cpu, Pass, gather, (this: &Reference = self, row: &[f32] = row))
    }
}

fn not_finite(row: &[f32]) -> Error {
    let number = first_not_finite(row).unwrap_or_default() + 1;
    Error::new(ErrorKind::Corrupt, format!("position of atom {number} of the set (counted from 1) is not finite"))
}

/// The first atom of a row with a coordinate that is not finite.
pub(crate) fn first_not_finite(row: &[f32]) -> Option<usize> {
    row.iter().position(|value| !value.is_finite()).map(|i| i / 3)
}

/// Generic for `dispatch!` only: it computes without lanes, but with the processor's fused multiplication.
#[inline(always)]
fn eigenvalue<Q: Quad>(m: &Matrix3, bound: f64) -> f64 {
    KeyMatrix::new(m).largest_eigenvalue(m, bound)
}

/// As [`eigenvalue`], with the rotation.
#[inline(always)]
fn rotation<Q: Quad>(m: &Matrix3, bound: f64) -> (f64, Matrix3) {
    KeyMatrix::new(m).rotation(m, bound)
}

/// Sums of one pass, a lane for each coordinate of four atoms.
struct Sums<Q> {
    position: Registers<Q>,
    square: Registers<Q>,
    inner: [Registers<Q>; 3],
}

impl<Q: Quad> Sums<Q> {
    #[inline(always)]
    fn add(&mut self, group: &[f32; 12], origin: &Registers<Q>, y: &[Lanes; 3]) {
        let x = Registers::relative(group, origin);
        self.position.add(&x);
        self.square.add_product(&x, &x);
        for (inner, y) in self.inner.iter_mut().zip(y) {
            inner.add_product(&x, &Registers::load(y));
        }
    }

    #[inline(always)]
    fn add_weighted(&mut self, group: &[f32; 12], origin: &Registers<Q>, y: &[Lanes; 3], weights: &Lanes) {
        let x = Registers::relative(group, origin);
        let weighted = x.times(&Registers::load(weights));
        self.position.add(&weighted);
        self.square.add_product(&weighted, &x);
        for (inner, y) in self.inner.iter_mut().zip(y) {
            inner.add_product(&x, &Registers::load(y));
        }
    }
}

#[inline(always)]
fn gather<Q: Quad>(reference: &Reference, row: &[f32]) -> Pass {
    let first = row.first_chunk::<3>().copied().unwrap_or_default();
    let origin = first.map(f64::from);
    let lanes = Registers::<Q>::load(&Lanes::repeat(origin));
    let (groups, tail) = row.as_chunks::<12>();
    let last = fill_up(tail, first);
    let mut sums = Sums { position: Registers::zero(), square: Registers::zero(), inner: [Registers::zero(); 3] };
    if reference.weights.is_none() {
        for (group, y) in groups.iter().zip(&reference.repeated) {
            sums.add(group, &lanes, y);
        }
        if let (false, Some(y)) = (tail.is_empty(), reference.repeated.last()) {
            sums.add(&last, &lanes, y);
        }
    } else {
        for ((group, y), weights) in groups.iter().zip(&reference.repeated).zip(&reference.weight_lanes) {
            sums.add_weighted(group, &lanes, y, weights);
        }
        if let (false, Some(y), Some(w)) = (tail.is_empty(), reference.repeated.last(), reference.weight_lanes.last()) {
            sums.add_weighted(&last, &lanes, y, w);
        }
    }
    let position = sums.position.fold();
    let square = sums.square.fold();
    let [x, y, z] = [sums.inner[0].fold(), sums.inner[1].fold(), sums.inner[2].fold()];
    let offset = position.map(|sum| sum / reference.total);
    let about_origin = (square[0] + square[1]) + square[2];
    let about_centre = position[0] * offset[0] + position[1] * offset[1] + position[2] * offset[2];
    Pass {
        centre: [origin[0] + offset[0], origin[1] + offset[1], origin[2] + offset[2]],
        norm: about_origin - about_centre,
        inner: [[x[0], y[0], z[0]], [x[1], y[1], z[1]], [x[2], y[2], z[2]]],
    }
}
