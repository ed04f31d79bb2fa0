//! The backbone of a protein in one frame, and its hydrogen bonds by electrostatic energy.
//!
//! `E = 0.42 x 0.20 x 332 (1/r_ON + 1/r_CH - 1/r_OH - 1/r_CN)` kcal/mol, distances in angstrom; a bond is below -0.5.
//! Each N-H keeps its two bonds of lowest energy, as the program DSSP does.

use kinema_core::frame::lattice::Lattice;

type Vector = [f64; 3];

/// Charges of C=O and N-H, 0.42 and 0.20 e, times the factor that gives kcal/mol.
const FACTOR: f64 = 0.42 * 0.20 * 332.0;
/// Energy of a bond, kcal/mol, at most.
const BOND: f64 = -0.5;
/// C-alphas that are farther apart, angstrom, have no bond between their residues.
const NEAR: f64 = 9.0;
/// A longer bond of C and the next N, angstrom, is a chain break.
const PEPTIDE_BOND: f64 = 2.5;
/// Length of N-H, angstrom.
const N_H: f64 = 1.0;
/// At shorter distances, angstrom, the energy is that of the strongest bond.
const TOO_NEAR: f64 = 0.5;
const STRONGEST: f64 = -9.9;

/// Atoms of a residue, angstrom.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Residue {
    pub(crate) n: Vector,
    pub(crate) ca: Vector,
    pub(crate) c: Vector,
    pub(crate) o: Vector,
    /// The hydrogen of N; `None` if it has none, such as in proline.
    pub(crate) h: Option<Vector>,
}

/// The bonds of an N-H: residues of their acceptors and energies, the lowest first.
type Acceptors = [(u32, f64); 2];
const NO_BOND: (u32, f64) = (u32::MAX, 0.0);

/// Residues in the order of the chain, with their bonds.
#[derive(Debug, Default)]
pub(crate) struct Backbone {
    pub(crate) residues: Vec<Residue>,
    /// Whether the next residue follows in the chain; false for the last one.
    linked: Vec<bool>,
    acceptors: Vec<Acceptors>,
    /// Squared distances from one residue to the later ones.
    squares: Vec<f64>,
}

impl Backbone {
    /// Number of residues.
    pub(crate) fn len(&self) -> usize {
        self.residues.len()
    }

    /// Whether each residue from `first` to `last` follows the one before.
    pub(crate) fn is_unbroken(&self, first: usize, last: usize) -> bool {
        last < self.len() && self.linked[first..last].iter().all(|linked| *linked)
    }

    /// Whether the N-H of `donor` is bonded to the C=O of `acceptor`.
    #[inline(always)]
    pub(crate) fn is_bonded(&self, donor: usize, acceptor: usize) -> bool {
        self.acceptors[donor].iter().any(|(residue, energy)| *residue as usize == acceptor && *energy < BOND)
    }

    /// All bonds: residues of donor and acceptor.
    pub(crate) fn bonds(&self) -> impl Iterator<Item = (usize, usize)> {
        self.acceptors.iter().enumerate().flat_map(|(donor, acceptors)| {
            let bonded = acceptors.iter().filter(|(_, energy)| *energy < BOND);
            bonded.map(move |(residue, _)| (donor, *residue as usize))
        })
    }

    /// The angle of the C-alphas two before, at and two after a residue, as the cosine of the turn of the chain.
    /// `None` next to ends of the chain.
    pub(crate) fn cosine_of_turn(&self, residue: usize) -> Option<f64> {
        if residue < 2 || !self.is_unbroken(residue - 2, residue + 2) {
            return None;
        }
        let [before, here, after] = [residue - 2, residue, residue + 2].map(|at| self.residues[at].ca);
        let (u, v) = (minus(here, before), minus(after, here));
        Some(dot(u, v) / (dot(u, u) * dot(v, v)).sqrt())
    }

    /// Makes the chain whole, finds its breaks, places hydrogens if `donors` says which residues have one, and finds the
    /// bonds.
    pub(crate) fn find_bonds(&mut self, lattice: &Lattice, donors: Option<&[bool]>) {
        if !lattice.is_open() {
            self.make_whole(lattice);
        }
        self.linked.clear();
        let breaks = self.residues.windows(2).map(|pair| distance(pair[0].c, pair[1].n) <= PEPTIDE_BOND);
        self.linked.extend(breaks);
        self.linked.resize(self.residues.len(), false);
        if let Some(donors) = donors {
            self.place_hydrogens(donors);
        }
        self.acceptors.clear();
        self.acceptors.resize(self.residues.len(), [NO_BOND; 2]);
        let reach = self.reach();
        for i in 0..self.residues.len() {
            self.measure_from(i);
            let squares = std::mem::take(&mut self.squares);
            for (j, &square) in (i + 1..).zip(&squares) {
                if square <= NEAR * NEAR {
                    self.keep_both(i, j, [0.0; 3], reach);
                } else if square > lattice.sure() {
                    let apart = minus(self.residues[j].ca, self.residues[i].ca);
                    let nearest = lattice.nearest(apart);
                    if dot(nearest, nearest) <= NEAR * NEAR {
                        self.keep_both(i, j, minus(nearest, apart), reach);
                    }
                }
            }
            self.squares = squares;
        }
    }

    /// Squared distances of the C-alphas of a residue and of all that follow, as stored.
    fn measure_from(&mut self, first: usize) {
        let here = self.residues[first].ca;
        self.squares.clear();
        self.squares.extend(self.residues[first + 1..].iter().map(|residue| {
            let apart = minus(residue.ca, here);
            dot(apart, apart)
        }));
    }

    /// The squared distance of the middles of N-H and C=O beyond which no energy is that of a bond.
    ///
    /// The energy is the charges' product times the length of N-H times a gradient of the potential of C=O. That is at
    /// most 2 |CO| / r^3, with the least distance r of a point of N-H and a point of C=O.
    fn reach(&self) -> f64 {
        let longest = |length: fn(&Residue) -> f64| self.residues.iter().map(length).fold(0.0, f64::max);
        let (n_h, c_o) = (longest(Residue::length_of_n_h), longest(|residue| distance(residue.c, residue.o)));
        let least = (2.0 * FACTOR * n_h * c_o / -BOND).cbrt();
        let reach = least + 0.5 * (n_h + c_o);
        // an energy between close atoms is that of the strongest bond, whatever the potential
        reach.max(TOO_NEAR + n_h + c_o).powi(2)
    }

    /// Keeps the bonds of both N-H of two residues; the atoms of the second are moved by `shift`.
    fn keep_both(&mut self, i: usize, j: usize, shift: Vector, reach: f64) {
        self.keep(i, j, shift, reach);
        // the C=O before an N-H is bonded to it
        if j != i + 1 {
            self.keep(j, i, shift.map(|x| -x), reach);
        }
    }

    /// Keeps the bond of a donor and an acceptor if it is one of the two best of the donor.
    fn keep(&mut self, at_donor: usize, at_acceptor: usize, shift: Vector, reach: f64) {
        let donor = &self.residues[at_donor];
        let Some(hydrogen) = donor.h else { return };
        let acceptor = &self.residues[at_acceptor];
        let (c, o) = (plus(acceptor.c, shift), plus(acceptor.o, shift));
        let twice = minus(plus(c, o), plus(donor.n, hydrogen));
        if dot(twice, twice) > 4.0 * reach {
            return;
        }
        let energy = energy(donor.n, hydrogen, c, o);
        let [first, second] = &mut self.acceptors[at_donor];
        let bond = (at_acceptor as u32, energy);
        if energy < first.1 {
            *second = std::mem::replace(first, bond);
        } else if energy < second.1 {
            *second = bond;
        }
    }

    /// Moves atoms to the images that are nearest to their C-alpha, and that to the one nearest to the C-alpha before.
    fn make_whole(&mut self, lattice: &Lattice) {
        let mut before = self.residues.first().map_or([0.0; 3], |residue| residue.ca);
        for residue in &mut self.residues {
            let near = |atom: Vector, center: Vector| plus(center, lattice.nearest(minus(atom, center)));
            residue.ca = near(residue.ca, before);
            before = residue.ca;
            for atom in [&mut residue.n, &mut residue.c, &mut residue.o].into_iter().chain(&mut residue.h) {
                *atom = near(*atom, before);
            }
        }
    }

    /// Places the hydrogen of N opposite to the C=O of the residue before, at 1 angstrom.
    fn place_hydrogens(&mut self, donors: &[bool]) {
        for (at, is_donor) in donors.iter().enumerate() {
            let before = at.checked_sub(1).filter(|before| self.linked[*before] && *is_donor);
            self.residues[at].h = before.map(|before| {
                let along = minus(self.residues[before].c, self.residues[before].o);
                let length = dot(along, along).sqrt();
                plus(self.residues[at].n, along.map(|x| N_H * x / length))
            });
        }
    }
}

impl Residue {
    fn length_of_n_h(&self) -> f64 {
        self.h.map_or(0.0, |h| distance(self.n, h))
    }
}

/// The energy of N-H and C=O, kcal/mol.
fn energy(n: Vector, h: Vector, c: Vector, o: Vector) -> f64 {
    let [on, ch, oh, cn] = [(o, n), (c, h), (o, h), (c, n)].map(|(a, b)| distance(a, b));
    if on.min(ch).min(oh).min(cn) < TOO_NEAR {
        return STRONGEST;
    }
    // one division for four: (1/a + 1/b) = (a + b) / (a b)
    let (attract, repel) = (oh * cn, on * ch);
    FACTOR * ((on + ch) * attract - (oh + cn) * repel) / (attract * repel)
}

#[inline(always)]
fn minus(u: Vector, v: Vector) -> Vector {
    [u[0] - v[0], u[1] - v[1], u[2] - v[2]]
}

#[inline(always)]
fn plus(u: Vector, v: Vector) -> Vector {
    [u[0] + v[0], u[1] + v[1], u[2] + v[2]]
}

#[inline(always)]
fn dot(u: Vector, v: Vector) -> f64 {
    u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
}

#[inline(always)]
fn distance(u: Vector, v: Vector) -> f64 {
    let apart = minus(u, v);
    dot(apart, apart).sqrt()
}

#[cfg(test)]
impl Backbone {
    /// A chain of `n` residues in a line with these bonds, pairs of donor and acceptor.
    pub(crate) fn with_bonds(n: usize, bonds: &[(usize, usize)]) -> Self {
        let residues = (0..n).map(|at| Residue { ca: [3.8 * at as f64, 0.0, 0.0], ..Residue::default() }).collect();
        let linked = (0..n).map(|at| at + 1 < n).collect();
        let acceptors = vec![[NO_BOND; 2]; n];
        let mut made = Self { residues, linked, acceptors, ..Self::default() };
        for &(donor, acceptor) in bonds {
            let [first, second] = &mut made.acceptors[donor];
            *if *first == NO_BOND { first } else { second } = (acceptor as u32, -2.0);
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_energy_is_that_of_the_formula() {
        // N, H, O and C in a line: a bond of 2.9 angstrom
        let line = |x: f64| [x, 0.0, 0.0];
        let found = energy(line(0.0), line(1.0), line(4.13), line(2.9));
        let expected = 0.42 * 0.20 * 332.0 * (1.0 / 2.9 + 1.0 / 3.13 - 1.0 / 1.9 - 1.0 / 4.13);
        assert!((found - expected).abs() < 1e-12 && found < -2.5, "{found}");
        assert_eq!(energy(line(0.0), line(1.0), line(2.3), line(1.2)), STRONGEST);
    }

    #[test]
    fn a_donor_keeps_its_two_best_bonds() {
        let donor = Residue { h: Some([1.0, 0.0, 0.0]), ..Residue::default() };
        let acceptor = |o: f64| Residue { o: [o, 0.0, 0.0], c: [o + 1.23, 0.0, 0.0], ..Residue::default() };
        let residues = vec![donor, acceptor(3.4), acceptor(2.9), acceptor(3.1)];
        let mut backbone = Backbone { residues, acceptors: vec![[NO_BOND; 2]; 4], ..Backbone::default() };
        let reach = backbone.reach();
        (1..4).for_each(|at| backbone.keep(0, at, [0.0; 3], reach));
        assert!(backbone.is_bonded(0, 2) && backbone.is_bonded(0, 3) && !backbone.is_bonded(0, 1));
        assert_eq!(backbone.bonds().collect::<Vec<_>>(), [(0, 2), (0, 3)]);
    }

    #[test]
    fn beyond_the_reach_no_energy_is_that_of_a_bond() {
        // the lowest energy of this distance: all atoms in a line
        let donor = Residue { h: Some([1.0, 0.0, 0.0]), ..Residue::default() };
        let of = |o: f64| Residue { o: [o, 0.0, 0.0], c: [o + 1.23, 0.0, 0.0], ..donor };
        let reach = Backbone { residues: vec![of(3.0)], ..Backbone::default() }.reach().sqrt();
        // the middles of N-H and C=O are so far apart
        let farthest = of(reach + 0.5 - 0.615);
        let lowest = energy(donor.n, [1.0, 0.0, 0.0], farthest.c, farthest.o);
        assert!(lowest > BOND && lowest < 0.4 * BOND, "{lowest}");
    }
}
