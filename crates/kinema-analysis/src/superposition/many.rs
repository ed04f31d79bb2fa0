//! Many structures of the same atoms, packed for RMSDs of one structure from all others.
//!
//! Inner products of coordinates are a product of matrices, in double precision. Four structures are a panel: for each
//! atom the x of the four, their y, their z. One structure against a panel is nine sums of four lanes, which stay in
//! registers; each sum adds up atom by atom, so that blocks of any size give the same bits. The four lanes are the
//! inner products of four pairs, from which [`super::four_pairs`] has their eigenvalues.

use kinema_core::{Error, ErrorKind, Result};

use super::four_pairs::largest_eigenvalues;
use super::key_matrix::{KeyMatrix, Matrix3};
use super::qcp::CANCELLED;
use crate::cpu::{Cpu, dispatch};
use crate::lanes::{Lanes, Quad};
use crate::weights::relative_to_mean;

/// Structures of a panel.
const PANEL: usize = 4;
/// Structures that use a panel while it is in the first-level cache.
pub(crate) const BATCH: usize = 8;
/// Atoms of a panel that are used at a time, 24 KiB; an even number.
const ATOMS: usize = 256;

/// Sums of four pairs: the inner products of `x_a` and `y_b` at `3 a + b`; without superposition six sums of squares.
type Sums = [[f64; PANEL]; 9];

/// The structures.
#[derive(Debug, Clone)]
pub(crate) struct Structures {
    cpu: Cpu,
    superposed: bool,
    n_structures: usize,
    n_atoms: usize,
    /// Roots of the weights, which are relative to their mean; empty for equal weights.
    roots: Vec<f64>,
    /// Panel by panel, atom by atom; with superposition relative to the centre of each structure, and in any case times
    /// the root of the weight.
    panels: Vec<Lanes>,
    /// `sum w |x - centre|^2` of each structure; 0 without superposition.
    norms: Vec<[f64; PANEL]>,
}

/// A few structures that are compared with many; `Default` has none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Few {
    atoms: Vec<[f64; 3]>,
    norms: Vec<f64>,
    sums: Vec<Sums>,
}

/// Which structures a row of RMSDs is of: `len` structures from `first` on, after the last one again from 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Columns {
    pub(crate) first: usize,
    pub(crate) len: usize,
}

fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, what)
}

impl Structures {
    /// Structures of `n_atoms` atoms each, one after the other (row-major `structures x atoms x 3`, angstrom).
    /// Errors: `InvalidArgument` for no structures, positions that are not finite or too far apart, and useless
    /// weights.
    pub(crate) fn new(
        cpu: Cpu,
        positions: &[f32],
        n_atoms: usize,
        weights: Option<&[f64]>,
        superposed: bool,
    ) -> Result<Self> {
        if n_atoms == 0 || positions.is_empty() || !positions.len().is_multiple_of(3 * n_atoms) {
            return Err(invalid("structures have no atoms, or not all the same, expected x, y and z of each atom"));
        }
        let n_structures = positions.len() / (3 * n_atoms);
        if let Some(at) = positions.iter().position(|x| !x.is_finite()) {
            return Err(invalid(format!("a position of structure {} is not finite", at / (3 * n_atoms))));
        }
        let weights = weights.map(|weights| relative_to_mean(weights, n_atoms)).transpose()?;
        let roots = weights.map(|weights| weights.into_iter().map(f64::sqrt).collect()).unwrap_or_default();
        let n_panels = n_structures.div_ceil(PANEL);
        let mut this = Self {
            cpu,
            superposed,
            n_structures,
            n_atoms,
            roots,
            panels: vec![Lanes([0.0; 12]); n_panels * n_atoms],
            norms: vec![[0.0; PANEL]; n_panels],
        };
        let mut one = Few::default();
        for (at, row) in positions.chunks_exact(3 * n_atoms).enumerate() {
            one.clear();
            this.prepare(row, &mut one)?;
            let (panel, lane) = (at / PANEL, at % PANEL);
            for (lanes, atom) in this.panels[panel * n_atoms..].iter_mut().zip(&one.atoms) {
                for (c, x) in atom.iter().enumerate() {
                    lanes.0[PANEL * c + lane] = *x;
                }
            }
            this.norms[panel][lane] = one.norms.first().copied().unwrap_or_default();
        }
        Ok(this)
    }

    /// Number of structures.
    pub(crate) fn len(&self) -> usize {
        self.n_structures
    }

    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> u64 {
        (size_of_val(&*self.panels) + size_of_val(&*self.norms)) as u64
    }

    /// Adds a structure with finite positions to a few.
    /// Errors: `InvalidArgument` for another number of atoms, and positions that are too far apart.
    pub(crate) fn prepare(&self, row: &[f32], few: &mut Few) -> Result<()> {
        let atoms = row.as_chunks::<3>().0;
        if atoms.len() != self.n_atoms {
            let what =
                format!("wrong number of atoms of a structure, expected {}, found {}", self.n_atoms, atoms.len());
            return Err(invalid(what));
        }
        let root = |i: usize| self.roots.get(i).copied().unwrap_or(1.0);
        let (mut origin, mut centre) = ([0.0; 3], [0.0; 3]);
        if self.superposed {
            origin = atoms[0].map(f64::from);
            for (i, atom) in atoms.iter().enumerate() {
                for c in 0..3 {
                    centre[c] += root(i) * root(i) * (f64::from(atom[c]) - origin[c]);
                }
            }
            centre = centre.map(|sum| sum / self.n_atoms as f64);
        }
        let mut norm = 0.0;
        for (i, atom) in atoms.iter().enumerate() {
            let x: [f64; 3] = std::array::from_fn(|c| root(i) * ((f64::from(atom[c]) - origin[c]) - centre[c]));
            norm += x[0] * x[0] + x[1] * x[1] + x[2] * x[2];
            few.atoms.push(x);
        }
        if !norm.is_finite() {
            return Err(invalid("positions of a structure are too far apart"));
        }
        few.norms.push(if self.superposed { norm } else { 0.0 });
        Ok(())
    }

    /// Adds one of these structures to a few.
    pub(crate) fn take(&self, at: usize, few: &mut Few) {
        few.atoms.extend((0..self.n_atoms).map(|atom| self.atom(at, atom)));
        few.norms.push(self.norms[at / PANEL][at % PANEL]);
    }

    /// An atom of one of these structures.
    fn atom(&self, at: usize, atom: usize) -> [f64; 3] {
        let lanes = &self.panels[at / PANEL * self.n_atoms + atom].0;
        std::array::from_fn(|c| lanes[PANEL * c + at % PANEL])
    }

    /// Fills the rows, one for each of a few structures, with RMSDs in angstrom from these structures.
    pub(crate) fn rmsds(&self, few: &mut Few, columns: &[Columns], rows: &mut [&mut [f64]]) {
        let Few { atoms, norms, sums } = few;
        let n = self.n_structures;
        for (panel, norms_of_panel) in self.norms.iter().enumerate() {
            let at = PANEL * panel;
            let n_lanes = PANEL.min(n - at);
            // the column of the panel's first structure; the following ones may begin again at 0
            let begin = |of: &Columns| if at >= of.first { at - of.first } else { at + n - of.first };
            let takes = |of: &Columns| begin(of) < of.len || (begin(of) + n_lanes > n && of.len > 0);
            if !columns.iter().any(takes) {
                continue;
            }
            sums.clear();
            sums.resize(columns.len(), [[0.0; PANEL]; 9]);
            let lanes = &self.panels[panel * self.n_atoms..][..self.n_atoms];
            for (part, lanes) in lanes.chunks(ATOMS).enumerate() {
                for ((x, of), sums) in atoms.chunks_exact(self.n_atoms).zip(columns).zip(sums.iter_mut()) {
                    if takes(of) {
                        self.add(&x[part * ATOMS..][..lanes.len()], lanes, sums);
                    }
                }
            }
            let each = atoms.chunks_exact(self.n_atoms).zip(norms.iter()).zip(columns).zip(sums.iter());
            for ((((x, norm), of), sums), row) in each.zip(rows.iter_mut()).filter(|((((..), of), _), _)| takes(of)) {
                let found = self.rmsds_of_sums(sums, *norm, norms_of_panel);
                for (lane, rmsd) in found.into_iter().take(n_lanes).enumerate() {
                    let column = begin(of) + lane;
                    let column = if column < n { column } else { column - n };
                    if column < of.len {
                        row[column] = if rmsd.is_nan() { self.slow(x, *norm, at + lane, sums) } else { rmsd };
                    }
                }
            }
        }
    }

    fn add(&self, x: &[[f64; 3]], panel: &[Lanes], sums: &mut Sums) {
        if self.superposed {
            dispatch!(self.cpu, (), add_products, (x: &[[f64; 3]] = x, panel: &[Lanes] = panel, sums: &mut Sums = sums));
        } else {
            dispatch!(self.cpu, (), add_squares, (x: &[[f64; 3]] = x, panel: &[Lanes] = panel, sums: &mut Sums = sums));
        }
    }

    /// The RMSDs of four pairs; nan if they need [`Structures::slow`].
    fn rmsds_of_sums(&self, sums: &Sums, norm: f64, norms: &[f64; PANEL]) -> [f64; PANEL] {
        let total = self.n_atoms as f64;
        if !self.superposed {
            let pair = |c: usize, lane: usize| sums[c][lane] + sums[c + 3][lane];
            let square = |lane: usize| pair(0, lane) + pair(1, lane) + pair(2, lane);
            return std::array::from_fn(|lane| (square(lane) / total).sqrt());
        }
        dispatch!(self.cpu, [f64; PANEL], least_rmsds, (
            sums: &Sums = sums,
            norm: f64 = norm,
            norms: &[f64; PANEL] = norms,
            total: f64 = total,
        ))
    }

    /// The RMSD of a pair of almost equal structures, or of structures with several best rotations.
    #[cold]
    fn slow(&self, x: &[[f64; 3]], norm: f64, at: usize, sums: &Sums) -> f64 {
        let (panel, lane) = (at / PANEL, at % PANEL);
        let m: Matrix3 = std::array::from_fn(|a| std::array::from_fn(|b| sums[3 * a + b][lane]));
        let norms = norm + self.norms[panel][lane];
        let (eigenvalue, rotation) = KeyMatrix::new(&m).rotation(&m, 0.5 * norms);
        let mut square = norms - 2.0 * eigenvalue;
        if square < CANCELLED * norms {
            // atom by atom, as the difference has lost half of its digits; exactly 0 for equal structures
            let others = (0..self.n_atoms).map(|atom| self.atom(at, atom));
            let equal = x.iter().zip(others.clone()).all(|(x, y)| *x == y);
            let deviation = |(x, y): (&[f64; 3], [f64; 3])| -> f64 {
                let moved = rotation.map(|row| row[0] * x[0] + row[1] * x[1] + row[2] * x[2]);
                moved.iter().zip(y).map(|(moved, y)| (moved - y).powi(2)).sum()
            };
            square = if equal { 0.0 } else { x.iter().zip(others).map(deviation).sum() };
        }
        (square.max(0.0) / self.n_atoms as f64).sqrt()
    }
}

impl Few {
    /// Removes all.
    pub(crate) fn clear(&mut self) {
        self.atoms.clear();
        self.norms.clear();
    }
}

/// Adds the inner products of a structure and four others, atom by atom.
#[inline(always)]
fn add_products<Q: Quad>(x: &[[f64; 3]], panel: &[Lanes], sums: &mut Sums) {
    let mut kept: [Q; 9] = std::array::from_fn(|i| Q::load(&sums[i]));
    for (x, lanes) in x.iter().zip(panel) {
        let (y, _) = lanes.0.as_chunks::<PANEL>();
        let y = [Q::load(&y[0]), Q::load(&y[1]), Q::load(&y[2])];
        for a in 0..3 {
            let x = Q::all(x[a]);
            for b in 0..3 {
                kept[3 * a + b] = x.multiply_add(y[b], kept[3 * a + b]);
            }
        }
    }
    for (sum, kept) in sums.iter_mut().zip(kept) {
        *sum = kept.store();
    }
}

/// Adds the squares of differences along x, y and z, of atoms at even places, then of those at odd ones.
#[inline(always)]
fn add_squares<Q: Quad>(x: &[[f64; 3]], panel: &[Lanes], sums: &mut Sums) {
    let mut kept: [Q; 6] = std::array::from_fn(|i| Q::load(&sums[i]));
    let ((two_atoms, last_atom), (two_lanes, last_lanes)) = (x.as_chunks::<2>(), panel.as_chunks::<2>());
    for (x, lanes) in two_atoms.iter().zip(two_lanes) {
        for parity in 0..2 {
            add_square(&x[parity], &lanes[parity], &mut kept, 3 * parity);
        }
    }
    for (x, lanes) in last_atom.iter().zip(last_lanes) {
        add_square(x, lanes, &mut kept, 0);
    }
    for (sum, kept) in sums.iter_mut().zip(kept) {
        *sum = kept.store();
    }
}

#[inline(always)]
fn add_square<Q: Quad>(x: &[f64; 3], lanes: &Lanes, kept: &mut [Q; 6], first: usize) {
    let (y, _) = lanes.0.as_chunks::<PANEL>();
    for c in 0..3 {
        let apart = Q::all(x[c]).subtract(Q::load(&y[c]));
        kept[first + c] = apart.multiply_add(apart, kept[first + c]);
    }
}

/// The RMSDs after superposition; nan where the eigenvalue cannot be trusted or the difference has cancelled.
#[inline(always)]
fn least_rmsds<Q: Quad>(sums: &Sums, norm: f64, norms: &[f64; PANEL], total: f64) -> [f64; PANEL] {
    let m = std::array::from_fn(|a| std::array::from_fn(|b| Q::load(&sums[3 * a + b])));
    let norms = Q::all(norm).add(Q::load(norms));
    let eigenvalues = largest_eigenvalues(&m, Q::all(0.5).multiply(norms));
    let squares = norms.subtract(Q::all(2.0).multiply(eigenvalues));
    let cancelled = squares.less(Q::all(CANCELLED).multiply(norms));
    let rmsds = squares.divide(Q::all(total)).square_root();
    Q::select(cancelled, Q::all(f64::NAN), rmsds).store()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::superposition::qcp::Reference;

    const N_ATOMS: usize = 300;

    /// Structures that differ by noise of several sizes; the last one equals the first.
    fn structures(n: usize) -> Vec<f32> {
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 24) as f32 - 0.5
        };
        let first: Vec<f32> = (0..3 * N_ATOMS).map(|_| 30.0 * next() + 100.0).collect();
        let mut all = first.clone();
        for at in 1..n - 1 {
            let noise = 10.0_f32.powi(2 - at as i32 % 6);
            all.extend(first.iter().map(|x| x + noise * next()));
        }
        all.extend(first);
        all
    }

    fn rows(many: &Structures, positions: &[f32], columns: Columns) -> Vec<Vec<f64>> {
        let mut all = Vec::new();
        for rows in positions.chunks(BATCH * 3 * N_ATOMS) {
            let mut few = Few::default();
            for row in rows.chunks(3 * N_ATOMS) {
                many.prepare(row, &mut few).unwrap();
            }
            let n = rows.len() / (3 * N_ATOMS);
            let mut values = vec![vec![-1.0; columns.len]; n];
            let mut places: Vec<&mut [f64]> = values.iter_mut().map(Vec::as_mut_slice).collect();
            many.rmsds(&mut few, &vec![columns; n], &mut places);
            all.extend(values);
        }
        all
    }

    #[test]
    fn all_pairs_are_those_of_single_superpositions() {
        let (n, positions) = (11, structures(11));
        let weights: Vec<f64> = (0..N_ATOMS).map(|i| 1.0 + (i % 5) as f64).collect();
        for weights in [None, Some(&weights[..])] {
            let [wide, plain] = [Cpu::detect(), Cpu::baseline()].map(|cpu| {
                let many = Structures::new(cpu, &positions, N_ATOMS, weights, true).unwrap();
                rows(&many, &positions, Columns { first: 0, len: n })
            });
            assert_eq!(wide, plain);
            for (i, row) in wide.iter().enumerate() {
                let of = &positions[3 * N_ATOMS * i..][..3 * N_ATOMS];
                let reference = Reference::from_row(
                    Cpu::baseline(),
                    of,
                    weights.map(|weights| relative_to_mean(weights, N_ATOMS).unwrap()),
                );
                let reference = reference.unwrap();
                for (j, found) in row.iter().enumerate() {
                    let alone = reference.rmsd(&positions[3 * N_ATOMS * j..][..3 * N_ATOMS]).unwrap();
                    assert!((found - alone).abs() < 1e-9, "{i} {j}: {found} {alone}");
                    assert!((found - wide[j][i]).abs() < 1e-12, "{i} {j} is not symmetric");
                }
                assert_eq!(row[i], 0.0);
            }
            assert_eq!((wide[0][n - 1], wide[n - 1][0]), (0.0, 0.0));
        }
    }

    #[test]
    fn without_superposition_structures_are_compared_as_they_stand() {
        let (n, positions) = (6, structures(6));
        for cpu in [Cpu::detect(), Cpu::baseline()] {
            let many = Structures::new(cpu, &positions, N_ATOMS, None, false).unwrap();
            for (i, row) in rows(&many, &positions, Columns { first: 0, len: n }).iter().enumerate() {
                for (j, found) in row.iter().enumerate() {
                    let structure = |at: usize| positions[3 * N_ATOMS * at..][..3 * N_ATOMS].iter();
                    let sum: f64 = structure(i).zip(structure(j)).map(|(x, y)| f64::from(x - y).powi(2)).sum();
                    assert!((found - (sum / N_ATOMS as f64).sqrt()).abs() < 1e-5, "{i} {j}");
                }
                assert_eq!(row[i], 0.0);
            }
        }
    }

    #[test]
    fn rows_of_a_part_go_round_the_structures() {
        let (n, positions) = (11, structures(11));
        let many = Structures::new(Cpu::detect(), &positions, N_ATOMS, None, true).unwrap();
        let whole = rows(&many, &positions, Columns { first: 0, len: n });
        for (first, len) in [(3, 4), (9, 5), (10, 11), (0, 1)] {
            for (row, all) in rows(&many, &positions, Columns { first, len }).iter().zip(&whole) {
                let expected: Vec<f64> = (0..len).map(|c| all[(first + c) % n]).collect();
                assert_eq!(*row, expected);
            }
        }
    }

    #[test]
    fn useless_structures_are_refused() {
        let new = |positions: &[f32], n_atoms| Structures::new(Cpu::detect(), positions, n_atoms, None, true);
        for (positions, n_atoms) in [(&[][..], 1), (&[1.0; 4], 1), (&[1.0; 3], 0), (&[1.0, f32::NAN, 2.0], 1)] {
            assert_eq!(new(positions, n_atoms).unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
    }
}
