//! The backbone of a protein in one frame, and its hydrogen bonds by electrostatic energy.
//!
//! `E = 0.42 x 0.20 x 332 (1/r_ON + 1/r_CH - 1/r_OH - 1/r_CN)` kcal/mol, distances in angstrom; a bond is below -0.5.
//! Each N-H keeps its two bonds of lowest energy, as the program DSSP does.

use kinema_core::frame::lattice::Lattice;

use super::near::{NearPairs, Pair};
use crate::cpu::{Cpu, dispatch};
use crate::geometry::vectors::{Vectors, difference};
use crate::lanes::Fours;

pub(super) type Vector = [f64; 3];

/// Charges of C=O and N-H, 0.42 and 0.20 e, times the factor that gives kcal/mol.
const FACTOR: f64 = 0.42 * 0.20 * 332.0;
/// Energy of a bond, kcal/mol, at most.
const BOND: f64 = -0.5;
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
const NOTHING: u32 = u32::MAX;
const NO_BOND: (u32, f64) = (NOTHING, 0.0);

/// Residues in the order of the chain, with their bonds.
#[derive(Debug, Default)]
pub(crate) struct Backbone {
    pub(crate) residues: Vec<Residue>,
    /// Whether the next residue follows in the chain; false for the last one.
    linked: Vec<bool>,
    acceptors: Vec<Acceptors>,
    /// Residues of the acceptors to which each N-H is bonded, [`NOTHING`] for fewer than two.
    bonded: Vec<[u32; 2]>,
    near: NearPairs,
    atoms: Vec<LoadedAtoms>,
    /// Energies of the pairs that are near.
    energies: Vec<f64>,
}

/// N, H, C and O of a residue, each with a fourth number that is not used.
type LoadedAtoms = [[f64; 4]; 4];
const N: usize = 0;
const H: usize = 1;
const C: usize = 2;
const O: usize = 3;

impl Backbone {
    /// Number of residues.
    pub(crate) fn len(&self) -> usize {
        self.residues.len()
    }

    /// Whether each residue from `first` to `last` follows the one before.
    pub(crate) fn is_unbroken(&self, first: usize, last: usize) -> bool {
        last < self.len() && self.linked[first..last].iter().all(|linked| *linked)
    }

    /// Whether the N-H of `donor` is bonded to the C=O of `acceptor`; false if there is no such donor.
    #[inline(always)]
    pub(crate) fn is_bonded(&self, donor: usize, acceptor: usize) -> bool {
        self.bonded.get(donor).is_some_and(|acceptors| acceptors.contains(&(acceptor as u32)))
    }

    /// All bonds: residues of donor and acceptor.
    pub(crate) fn bonds(&self) -> impl Iterator<Item = (usize, usize)> {
        self.bonded.iter().enumerate().flat_map(|(donor, acceptors)| {
            let bonded = acceptors.iter().filter(|residue| **residue != NOTHING);
            bonded.map(move |residue| (donor, *residue as usize))
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
    pub(crate) fn find_bonds(&mut self, cpu: Cpu, lattice: &Lattice, donors: Option<&[bool]>) {
        if !lattice.is_open() {
            self.make_whole(lattice);
        }
        self.linked.clear();
        let breaks =
            self.residues.windows(2).map(|pair| square_of_distance(pair[0].c, pair[1].n).sqrt() <= PEPTIDE_BOND);
        self.linked.extend(breaks);
        self.linked.resize(self.residues.len(), false);
        if let Some(donors) = donors {
            self.place_hydrogens(donors);
        }
        self.acceptors.clear();
        self.acceptors.resize(self.residues.len(), [NO_BOND; 2]);
        let reach = self.reach();
        let Self { residues, acceptors, near, atoms, energies, .. } = self;
        let pairs = near.find(cpu, residues, lattice, reach);
        let load = |[x, y, z]: Vector| [x, y, z, 0.0];
        let loaded = |residue: &Residue| [residue.n, residue.h.unwrap_or_default(), residue.c, residue.o].map(load);
        atoms.clear();
        atoms.extend(residues.iter().map(loaded));
        energies.clear();
        energies.resize(pairs.len().next_multiple_of(4), 0.0);
        dispatch!(cpu, (), fill, (
            pairs: &[Pair] = pairs, atoms: &[LoadedAtoms] = atoms, energies: &mut [f64] = energies,
        ));
        for (pair, energy) in pairs.iter().zip(energies) {
            keep(&mut acceptors[pair.donor as usize], (pair.acceptor, *energy));
        }
        self.keep_bonded();
    }

    /// Takes the bonds of sufficient energy.
    fn keep_bonded(&mut self) {
        let bonded = |(residue, energy): (u32, f64)| if energy < BOND { residue } else { NOTHING };
        self.bonded.clear();
        self.bonded.extend(self.acceptors.iter().map(|[first, second]| [bonded(*first), bonded(*second)]));
    }

    /// The squared distance of the middles of N-H and C=O beyond which no energy is that of a bond.
    fn reach(&self) -> f64 {
        let longest = |square: fn(&Residue) -> f64| self.residues.iter().map(square).fold(0.0, f64::max).sqrt();
        let n_h = longest(|residue| residue.h.map_or(0.0, |h| square_of_distance(residue.n, h)));
        let c_o = longest(|residue| square_of_distance(residue.c, residue.o));
        reach(n_h, c_o).powi(2)
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

/// The distance of the middles of N-H and C=O of these lengths beyond which no energy is that of a bond, or little more.
///
/// At a distance R above half the sum p of both lengths, the energy is a series in solid harmonics of the sum and the
/// difference of both half vectors. A symmetric form on vectors is nowhere larger than on equal ones (S. Banach, Studia
/// Math. 7, 36, 1938), so that no direction gives more than a line: 2 R |NH| |CO| / ((R^2 - p^2) (R^2 - q^2)), with half
/// the difference q.
fn reach(n_h: f64, c_o: f64) -> f64 {
    let least = (2.0 * FACTOR * n_h * c_o / -BOND).cbrt();
    let (p, q) = (0.5 * (n_h + c_o), 0.5 * (n_h - c_o));
    // the solution is `next` of itself; as this falls, it is between any distance and the next one
    let next = |r: f64| least / ((1.0 - (p / r).powi(2)) * (1.0 - (q / r).powi(2))).cbrt();
    let above = least + p;
    let below = next(above);
    let reach = if below > p { next(below) * (1.0 + 1e-9) } else { above };
    // an energy between close atoms is that of the strongest bond, whatever the potential
    reach.max(TOO_NEAR + n_h + c_o)
}

/// Keeps the bond of a donor if it is one of its two best.
fn keep([first, second]: &mut Acceptors, bond: (u32, f64)) {
    if bond.1 < first.1 {
        *second = std::mem::replace(first, bond);
    } else if bond.1 < second.1 {
        *second = bond;
    }
}

/// Fills in the energies of pairs, four at a time.
#[inline(always)]
fn fill<Q: Fours>(pairs: &[Pair], atoms: &[LoadedAtoms], energies: &mut [f64]) {
    for (some, energies) in pairs.chunks(4).zip(energies.as_chunks_mut::<4>().0) {
        let of = |lane: usize| some.get(lane).unwrap_or(&some[0]);
        let four = [of(0), of(1), of(2), of(3)];
        let [n, h] = [placed::<Q>(atoms, four, N), placed::<Q>(atoms, four, H)];
        let [c, o] = [moved::<Q>(atoms, four, C), moved::<Q>(atoms, four, O)];
        *energies = energy(n, h, c, o).store();
    }
}

/// An atom of the donors of four pairs.
#[inline(always)]
fn placed<Q: Fours>(atoms: &[LoadedAtoms], [a, b, c, d]: [&Pair; 4], which: usize) -> Vectors<Q> {
    let of = |pair: &Pair| &atoms[pair.donor as usize][which];
    Q::columns([Q::load(of(a)), Q::load(of(b)), Q::load(of(c)), Q::load(of(d))])
}

/// An atom of the acceptors of four pairs, in the image that is nearest to the donor.
#[inline(always)]
fn moved<Q: Fours>(atoms: &[LoadedAtoms], [a, b, c, d]: [&Pair; 4], which: usize) -> Vectors<Q> {
    let of = |pair: &Pair| {
        let ([x, y, z, _], shift) = (atoms[pair.acceptor as usize][which], pair.shift);
        [x + shift[0], y + shift[1], z + shift[2], 0.0]
    };
    Q::columns([Q::load(&of(a)), Q::load(&of(b)), Q::load(&of(c)), Q::load(&of(d))])
}

/// The energies of four N-H and C=O, kcal/mol.
#[inline(always)]
fn energy<Q: Fours>(n: Vectors<Q>, h: Vectors<Q>, c: Vectors<Q>, o: Vectors<Q>) -> Q {
    let [on, ch, oh, cn] = [distances(o, n), distances(c, h), distances(o, h), distances(c, n)];
    let least = on.minimum(ch).minimum(oh.minimum(cn));
    // one division for four: (1/a + 1/b) = (a + b) / (a b)
    let (attract, repel) = (oh.multiply(cn), on.multiply(ch));
    let sums = on.add(ch).multiply(attract).subtract(oh.add(cn).multiply(repel));
    let energy = Q::all(FACTOR).multiply(sums).divide(attract.multiply(repel));
    Q::select(least.less(Q::all(TOO_NEAR)), Q::all(STRONGEST), energy)
}

#[inline(always)]
fn distances<Q: Fours>(u: Vectors<Q>, v: Vectors<Q>) -> Q {
    let [x, y, z] = difference(u, v);
    x.multiply(x).add(y.multiply(y)).add(z.multiply(z)).square_root()
}

#[inline(always)]
pub(super) fn minus(u: Vector, v: Vector) -> Vector {
    [u[0] - v[0], u[1] - v[1], u[2] - v[2]]
}

#[inline(always)]
pub(super) fn plus(u: Vector, v: Vector) -> Vector {
    [u[0] + v[0], u[1] + v[1], u[2] + v[2]]
}

#[inline(always)]
pub(super) fn dot(u: Vector, v: Vector) -> f64 {
    u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
}

#[inline(always)]
fn square_of_distance(u: Vector, v: Vector) -> f64 {
    let apart = minus(u, v);
    dot(apart, apart)
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
        made.keep_bonded();
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::lanes::{Plain, Quad};

    fn energy_of(n: Vector, h: Vector, c: Vector, o: Vector) -> f64 {
        let [n, h, c, o] = [n, h, c, o].map(|atom| atom.map(Plain::all));
        energy(n, h, c, o).store()[0]
    }

    #[test]
    fn the_energy_is_that_of_the_formula() {
        // N, H, O and C in a line: a bond of 2.9 angstrom
        let line = |x: f64| [x, 0.0, 0.0];
        let found = energy_of(line(0.0), line(1.0), line(4.13), line(2.9));
        let expected = 0.42 * 0.20 * 332.0 * (1.0 / 2.9 + 1.0 / 3.13 - 1.0 / 1.9 - 1.0 / 4.13);
        assert!((found - expected).abs() < 1e-12 && found < -2.5, "{found}");
        assert_eq!(energy_of(line(0.0), line(1.0), line(2.3), line(1.2)), STRONGEST);
    }

    #[test]
    fn a_donor_keeps_its_two_best_bonds() {
        let donor = Residue { h: Some([1.0, 0.0, 0.0]), ..Residue::default() };
        let acceptor = |o: f64| Residue { o: [o, 0.0, 0.0], c: [o + 1.23, 0.0, 0.0], ..Residue::default() };
        let residues = vec![donor, acceptor(3.4), acceptor(2.9), acceptor(3.1)];
        let mut backbone = Backbone { residues, ..Backbone::default() };
        backbone.find_bonds(Cpu::detect(), &Lattice::open(), None);
        assert!(backbone.is_bonded(0, 2) && backbone.is_bonded(0, 3) && !backbone.is_bonded(0, 1));
        assert_eq!(backbone.bonds().collect::<Vec<_>>(), [(0, 2), (0, 3)]);
    }

    #[test]
    fn beyond_the_reach_no_energy_is_that_of_a_bond() {
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / (1 << 24) as f64 - 0.5
        };
        for (n_h, c_o) in [(1.0, 1.23), (1.02, 1.25), (1.0, 30.0), (1.0, 1000.0), (0.0, 1.2)] {
            let reach = reach(n_h, c_o);
            // the middles of N-H and C=O are so far apart, first along one line, which gives the lowest energy
            let lowest = (0..2000).map(|i| {
                let mut vector = |length: f64| {
                    let v = if i == 0 { [1.0, 0.0, 0.0] } else { [0, 1, 2].map(|_| next()) };
                    v.map(|x| x * length / dot(v, v).sqrt())
                };
                let (half_n_h, half_c_o) = (vector(0.5 * n_h), vector(0.5 * c_o));
                let middle = [reach, 0.0, 0.0];
                let (n, h) = (half_n_h.map(|x| -x), half_n_h);
                energy_of(n, h, plus(middle, half_c_o), minus(middle, half_c_o))
            });
            let lowest: Vec<f64> = lowest.collect();
            let found = lowest.iter().copied().fold(0.0, f64::min);
            assert!(found >= BOND, "{found} of {n_h} and {c_o}");
            assert!(c_o > 2.0 || n_h == 0.0 || lowest[0] < 0.99 * BOND, "{lowest:?}");
        }
    }

    /// Residues in a ball of `size` angstrom, every fifth without a hydrogen; each is whole.
    fn residues(n: usize, size: f64) -> Vec<Residue> {
        let mut state = 7_u64;
        let mut next = |size: f64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 40) as f64 / (1 << 24) as f64 - 0.5) * size
        };
        let mut residue = |at: usize| {
            let ca = [0, 1, 2].map(|_| next(size));
            let mut near = |center: Vector, apart: f64| plus(center, [0, 1, 2].map(|_| next(2.0 * apart)));
            let (n, c) = (near(ca, 1.0), near(ca, 1.0));
            let (h, o) = (near(n, 0.7), near(c, 0.8));
            Residue { n, ca, c, o, h: (at % 5 != 2).then_some(h) }
        };
        (0..n).map(&mut residue).collect()
    }

    #[test]
    fn bonds_are_those_of_all_pairs_within_nine_angstrom() {
        let cell = [[26.0, 0.0, 0.0], [4.0, 24.0, 0.0], [-3.0, 5.0, 30.0]];
        for lattice in [Lattice::open(), Lattice::from_cell(&cell).unwrap()] {
            for n in [1, 7, 8, 150] {
                let [wide, plain] = [Cpu::detect(), Cpu::baseline()].map(|cpu| {
                    let mut backbone = Backbone { residues: residues(n, 28.0), ..Backbone::default() };
                    backbone.find_bonds(cpu, &lattice, None);
                    backbone
                });
                assert_eq!(wide.acceptors, plain.acceptors);
                let residues = &wide.residues;
                let mut n_bonds = [0, 0];
                for (donor, of_donor) in residues.iter().enumerate() {
                    let mut expected = [NO_BOND; 2];
                    for (acceptor, of_acceptor) in residues.iter().enumerate() {
                        let Some(h) = of_donor.h.filter(|_| acceptor != donor && acceptor + 1 != donor) else {
                            continue;
                        };
                        let apart = minus(of_acceptor.ca, of_donor.ca);
                        let nearest = lattice.nearest(apart);
                        if dot(nearest, nearest) <= 81.0 {
                            let shift = minus(nearest, apart);
                            let [c, o] = [of_acceptor.c, of_acceptor.o].map(|atom| plus(atom, shift));
                            let energy = energy_of(of_donor.n, h, c, o);
                            if energy < BOND {
                                keep(&mut expected, (acceptor as u32, energy));
                                n_bonds[usize::from(dot(shift, shift) > 1.0)] += 1;
                            }
                        }
                    }
                    let found = wide.acceptors[donor].map(|bond| if bond.1 < BOND { bond } else { NO_BOND });
                    for (found, expected) in found.iter().zip(expected) {
                        assert_eq!(found.0, expected.0, "of {donor}");
                        assert!((found.1 - expected.1).abs() < 1e-9, "of {donor}");
                    }
                }
                assert!(
                    n < 150 || (n_bonds[0] + n_bonds[1] > 30 && (lattice.is_open() || n_bonds[1] > 5)),
                    "{n_bonds:?}"
                );
            }
        }
    }
}
