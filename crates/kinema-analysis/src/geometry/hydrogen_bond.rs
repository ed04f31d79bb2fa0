//! Criteria of hydrogen bonds D-H...A: pure functions of the positions of donor, hydrogen and acceptor.
//!
//! Lengths in angstrom, angles in degrees; D-H-A is the angle at the hydrogen, H-D-A the angle at the donor, 0 for a
//! straight bond. Sources: MDAnalysis' `HydrogenBondAnalysis` and `WaterBridgeAnalysis`, `gmx hbond`; E. N. Baker,
//! R. E. Hubbard, Prog. Biophys. Mol. Biol. 44, 97 (1984); P. Wernet et al., Science 304, 995 (2004).

use kinema_core::frame::Lattice;

use super::arc_tangent::atan2;
use super::cell_list::Neighbors;
use super::vectors::{Vectors, all, cross, difference, dot, length};
use crate::cpu::{Cpu, dispatch};
use crate::lanes::{EIGHT, Eight, Quad, lanes_before};

/// D-A distances up to this one are of atoms in one place.
const LEAST: f64 = 1.0;
const ORIGIN: [f64; 3] = [0.0; 3];
/// By how much estimates in single precision may differ, relative to the length of vectors.
const SLACK: f64 = 1e-5;

/// The form of a criterion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// `1 < D-A <= distance` and `D-H-A > angle`: MDAnalysis' `HydrogenBondAnalysis`.
    DistanceAngle,
    /// `D-A <= distance` and `H-D-A <= angle`: `gmx hbond`.
    Gromacs,
    /// `H-A < distance` and `D-H-A > angle`.
    BakerHubbard,
    /// `D-A < distance - 0.00044 (H-D-A)^2`, of any angle.
    WernetNilsson,
    /// `H-A <= distance` and `D-H-A >= angle`: MDAnalysis' `WaterBridgeAnalysis`.
    Hydrogen,
    /// `D-A <= distance` and `D-H-A >= angle`: the same with `distance_type="heavy"`.
    Heavy,
}

/// A definition of hydrogen bonds: a rule and its limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Criterion {
    rule: Rule,
    distance: f64,
    angle: f64,
    cosine: f64,
}

/// A hydrogen bond's numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bond {
    /// D-A, angstrom.
    pub donor_acceptor: f64,
    /// H-A, angstrom.
    pub hydrogen_acceptor: f64,
    /// D-H-A, degrees.
    pub angle: f64,
}

impl Criterion {
    /// Factor of the squared angle of [`Rule::WernetNilsson`], angstrom per square degree.
    pub const CONE: f64 = 0.00044;

    /// A rule with its limits, angstrom and degrees.
    pub fn new(rule: Rule, distance: f64, angle: f64) -> Self {
        Self { rule, distance, angle, cosine: angle.to_radians().cos() }
    }

    /// The greatest limited distance, angstrom.
    pub fn reach(&self) -> f64 {
        self.distance
    }

    /// Whether the limited distance is the acceptor's from the hydrogen; if not, from the donor.
    pub fn is_of_hydrogens(&self) -> bool {
        matches!(self.rule, Rule::BakerHubbard | Rule::Hydrogen)
    }

    /// Lists which of some acceptors may be bonded to a pair of donor and hydrogen: all that are, and few others. `near`
    /// are seen from the hydrogen, or from the donor: [`Criterion::is_of_hydrogens`].
    pub(crate) fn list_likely(
        &self,
        (cpu, lattice): (Cpu, &Lattice),
        (number, [donor, hydrogen]): (u32, [&[f32; 3]; 2]),
        near: &Neighbors,
        likely: &mut Vec<[u32; 2]>,
    ) {
        // the corner of the angle as seen from there, and the greatest cosine of the vectors to the acceptor and from H to D
        let mut to_donor: [f64; 3] = std::array::from_fn(|axis| f64::from(donor[axis]) - f64::from(hydrogen[axis]));
        let square = |vector: [f64; 3]| vector[0] * vector[0] + vector[1] * vector[1] + vector[2] * vector[2];
        // most are their own nearest image
        if square(to_donor) > lattice.sure() {
            to_donor = lattice.nearest(to_donor);
        }
        let (corner, bound) = match self.rule {
            Rule::WernetNilsson => (ORIGIN, f64::INFINITY),
            Rule::Gromacs => (ORIGIN, -self.cosine),
            Rule::DistanceAngle | Rule::Heavy => (to_donor.map(|x| -x), self.cosine),
            Rule::BakerHubbard | Rule::Hydrogen => (ORIGIN, self.cosine),
        };
        let length = square(to_donor).sqrt();
        let angle = LikelyAngle {
            corner: corner.map(|x| x as f32),
            to_donor: to_donor.map(|x| x as f32),
            bound: if bound.is_finite() { ((bound + SLACK) * length) as f32 } else { f32::INFINITY },
            added: (4.0 * near.error() * length) as f32 + f32::MIN_POSITIVE,
            sure: (lattice.sure() * (1.0 - SLACK)) as f32,
        };
        dispatch!(
            cpu,
            (),
            list_likely,
            (angle: &LikelyAngle = &angle, number: u32 = number, near: &Neighbors = near, likely: &mut Vec<[u32; 2]> = likely)
        );
    }

    /// Adds the bonds of likely ones, in their order. The row has the positions that they name, angstrom; bonds have nearest
    /// images.
    pub fn find(
        &self,
        (cpu, lattice): (Cpu, &Lattice),
        row: &[[f32; 3]],
        likely: &[[u32; 3]],
        bonds: &mut Vec<FoundBond>,
    ) {
        dispatch!(
            cpu,
            (),
            find,
            (
                criterion: &Criterion = self,
                lattice: &Lattice = lattice,
                row: &[[f32; 3]] = row,
                likely: &[[u32; 3]] = likely,
                bonds: &mut Vec<FoundBond> = bonds,
            )
        );
    }

    /// Whether atoms with these numbers are bonded; H-D-A in degrees.
    #[inline(always)]
    fn holds(&self, Bond { donor_acceptor, hydrogen_acceptor, angle }: Bond, at_donor: f64) -> bool {
        match self.rule {
            Rule::DistanceAngle => donor_acceptor > LEAST && donor_acceptor <= self.distance && angle > self.angle,
            Rule::Gromacs => donor_acceptor <= self.distance && at_donor <= self.angle,
            Rule::BakerHubbard => hydrogen_acceptor < self.distance && angle > self.angle,
            Rule::WernetNilsson => donor_acceptor < self.distance - Self::CONE * at_donor.powi(2),
            Rule::Hydrogen => hydrogen_acceptor <= self.distance && angle >= self.angle,
            Rule::Heavy => donor_acceptor <= self.distance && angle >= self.angle,
        }
    }
}

/// A hydrogen bond of atoms, which are places in a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FoundBond {
    /// D.
    pub donor: u32,
    /// H.
    pub hydrogen: u32,
    /// A.
    pub acceptor: u32,
    /// Its numbers.
    pub bond: Bond,
}

impl FoundBond {
    /// Its atoms: what bonds are sorted by.
    pub fn key(&self) -> [u32; 3] {
        [self.donor, self.hydrogen, self.acceptor]
    }
}

/// Limits of the angle of a bond, in single precision.
struct LikelyAngle {
    /// Where the angle is, as seen from the point whose neighbours are tried.
    corner: [f32; 3],
    /// From the hydrogen to the donor.
    to_donor: [f32; 3],
    /// The greatest product of the vectors to the acceptor and to the donor, over the length of the first.
    bound: f32,
    /// Added to the product for the errors of coordinates.
    added: f32,
    /// Up to this squared length a vector is that of the nearest image.
    sure: f32,
}

#[inline(always)]
fn list_likely<Q: Quad>(angle: &LikelyAngle, number: u32, near: &Neighbors, likely: &mut Vec<[u32; 2]>) {
    let all = Q::Eight::all;
    let [corner_x, corner_y, corner_z] = angle.corner;
    let [donor_x, donor_y, donor_z] = angle.to_donor;
    for at in (0..near.len()).step_by(EIGHT) {
        let ([x, y, z], numbers) = near.eight(at);
        let x = Q::Eight::load(x).subtract(all(corner_x));
        let y = Q::Eight::load(y).subtract(all(corner_y));
        let z = Q::Eight::load(z).subtract(all(corner_z));
        let squared = x.multiply(x).add(y.multiply(y)).add(z.multiply(z));
        let along = x.multiply(all(donor_x)).add(y.multiply(all(donor_y))).add(z.multiply(all(donor_z)));
        let most = squared.square_root().multiply(all(angle.bound)).add(all(angle.added));
        // farther than `sure` there may be a nearer image
        let mut fits = (along.at_most(most) | !squared.at_most(all(angle.sure))) & lanes_before(near.len() - at);
        while fits != 0 {
            likely.push([number, numbers[fits.trailing_zeros() as usize]]);
            fits &= fits - 1;
        }
    }
}

#[inline(always)]
fn find<Q: Quad>(
    criterion: &Criterion,
    lattice: &Lattice,
    row: &[[f32; 3]],
    likely: &[[u32; 3]],
    bonds: &mut Vec<FoundBond>,
) {
    let degrees = Q::all(180.0 / std::f64::consts::PI);
    for four in likely.chunks(4) {
        // after the last one it is repeated
        let atoms: [[u32; 3]; 4] = std::array::from_fn(|lane| four[lane.min(four.len() - 1)]);
        let [donor, hydrogen, acceptor] = positions::<Q>(row, &atoms);
        let to_donor = nearest_of_four(lattice, difference(donor, hydrogen));
        let across = nearest_of_four(lattice, difference(acceptor, donor));
        let to_acceptor = nearest_of_four(lattice, difference(acceptor, hydrogen));
        let at_hydrogen = angle(to_donor, to_acceptor).multiply(degrees).store();
        let at_donor = match criterion.rule {
            Rule::Gromacs | Rule::WernetNilsson => angle(difference(all(ORIGIN), to_donor), across),
            _ => Q::all(0.0),
        };
        let at_donor = at_donor.multiply(degrees).store();
        let (donor_acceptor, hydrogen_acceptor) = (distance(across).store(), distance(to_acceptor).store());
        for (lane, [donor, hydrogen, acceptor]) in four.iter().copied().enumerate() {
            let bond = Bond {
                donor_acceptor: donor_acceptor[lane],
                hydrogen_acceptor: hydrogen_acceptor[lane],
                angle: at_hydrogen[lane],
            };
            if acceptor != donor && acceptor != hydrogen && criterion.holds(bond, at_donor[lane]) {
                bonds.push(FoundBond { donor, hydrogen, acceptor, bond });
            }
        }
    }
}

/// Positions of four donors, hydrogens and acceptors.
#[inline(always)]
fn positions<Q: Quad>(row: &[[f32; 3]], atoms: &[[u32; 3]; 4]) -> [Vectors<Q>; 3] {
    let [a, b, c, d] = atoms;
    let of = |atoms: &[u32; 3]| atoms.map(|atom| &row[atom as usize]);
    let ([a, e, i], [b, f, j], [c, g, k], [d, h, l]) = (of(a), of(b), of(c), of(d));
    [Q::xyz([a, b, c, d]), Q::xyz([e, f, g, h]), Q::xyz([i, j, k, l])]
}

/// The nearest images of four displacements; most are their own.
#[inline(always)]
fn nearest_of_four<Q: Quad>(lattice: &Lattice, displacements: Vectors<Q>) -> Vectors<Q> {
    if !Q::any(Q::all(lattice.sure()).less(dot(displacements, displacements))) {
        return displacements;
    }
    let [x, y, z] = displacements;
    let mut rows = [x.store(), y.store(), z.store()];
    for lane in 0..4 {
        let nearest = lattice.nearest(rows.map(|row| row[lane]));
        rows.iter_mut().zip(nearest).for_each(|(row, x)| row[lane] = x);
    }
    [Q::load(&rows[0]), Q::load(&rows[1]), Q::load(&rows[2])]
}

/// Their lengths; nothing is fused, as in the search for pairs.
#[inline(always)]
fn distance<Q: Quad>([x, y, z]: Vectors<Q>) -> Q {
    x.multiply(x).add(y.multiply(y)).add(z.multiply(z)).square_root()
}

/// The angles of vectors, radians; 0 if one is zero.
#[inline(always)]
fn angle<Q: Quad>(u: Vectors<Q>, v: Vectors<Q>) -> Q {
    let (across, along, zero) = (length(cross(u, v)), dot(u, v), Q::all(0.0));
    let exists = zero.less(across.add(along.magnitude()));
    Q::select(exists, atan2(across, along), zero)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::CellList;
    use crate::lanes::Plain;

    type Vector = [f64; 3];

    /// A donor at the origin with its hydrogen at 1 angstrom, and an acceptor at a distance from the donor: `turn` is
    /// H-D-A in degrees.
    fn dimer(criterion: Criterion, d_a: f64, turn: f64) -> Option<Bond> {
        let h_a = (1.0 + d_a * d_a - 2.0 * d_a * turn.to_radians().cos()).sqrt();
        let acceptor = [d_a * turn.to_radians().cos(), d_a * turn.to_radians().sin(), 0.0];
        let to_acceptor = [acceptor[0] - 1.0, acceptor[1], 0.0];
        let of = |u: Vector, v: Vector| {
            let [u, v] = [u, v].map(all::<Plain>);
            angle(u, v).multiply(Plain::all(180.0 / std::f64::consts::PI)).store()[0]
        };
        let angle = of([-1.0, 0.0, 0.0], to_acceptor);
        let bond = Bond { donor_acceptor: d_a, hydrogen_acceptor: h_a, angle };
        criterion.holds(bond, of([1.0, 0.0, 0.0], acceptor)).then_some(bond)
    }

    /// D-H-A of the dimer, degrees: law of sines.
    fn at_hydrogen(d_a: f64, turn: f64) -> f64 {
        let h_a = (1.0 + d_a * d_a - 2.0 * d_a * turn.to_radians().cos()).sqrt();
        (180.0 - (d_a * turn.to_radians().sin() / h_a).asin().to_degrees()).abs()
    }

    #[test]
    fn a_dimer_is_turned_through_the_angle_at_the_hydrogen() {
        for (criterion, least) in [
            (Criterion::new(Rule::DistanceAngle, 3.0, 150.0), 150.0),
            (Criterion::new(Rule::BakerHubbard, 2.5, 120.0), 120.0),
            (Criterion::new(Rule::Hydrogen, 3.0, 120.0), 120.0),
            (Criterion::new(Rule::Heavy, 3.0, 130.0), 130.0),
        ] {
            let mut found = [0, 0];
            for tenth in 0..600 {
                let turn = f64::from(tenth) / 10.0 + 0.05;
                let expected = at_hydrogen(2.9, turn);
                let bond = dimer(criterion, 2.9, turn);
                let within = !criterion.is_of_hydrogens() || {
                    let h_a: f64 = 1.0 + 2.9 * 2.9 - 5.8 * turn.to_radians().cos();
                    h_a.sqrt() < criterion.reach()
                };
                assert_eq!(bond.is_some(), expected > least && within, "{criterion:?} {turn} {expected}");
                found[usize::from(bond.is_some())] += 1;
                if let Some(bond) = bond {
                    assert!((bond.angle - expected).abs() < 1e-9, "{bond:?} {expected}");
                    assert!((bond.donor_acceptor - 2.9).abs() < 1e-12);
                }
            }
            assert!(found[0] > 50 && found[1] > 50, "{found:?}");
        }
    }

    #[test]
    fn a_dimer_is_turned_through_the_angle_at_the_donor() {
        let gromacs = Criterion::new(Rule::Gromacs, 3.5, 30.0);
        let cone = Criterion::new(Rule::WernetNilsson, 3.3, 0.0);
        for tenth in 0..900 {
            let turn = f64::from(tenth) / 10.0 + 0.05;
            assert_eq!(dimer(gromacs, 3.4, turn).is_some(), turn <= 30.0, "{turn}");
            for d_a in [2.6, 2.9, 3.2, 3.29] {
                assert_eq!(dimer(cone, d_a, turn).is_some(), d_a < 3.3 - 0.00044 * turn * turn, "{d_a} {turn}");
            }
        }
    }

    #[test]
    fn a_straight_dimer_is_drawn_apart() {
        let far = |criterion, d_a| dimer(criterion, d_a, 0.0).is_some();
        let default = Criterion::new(Rule::DistanceAngle, 3.0, 150.0);
        assert!(far(default, 3.0) && !far(default, 3.0 + 1e-12));
        // an acceptor at 1 angstrom lies on the hydrogen, and is the donor of somebody
        assert!(!far(default, 1.0));
        let gromacs = Criterion::new(Rule::Gromacs, 3.5, 30.0);
        assert!(far(gromacs, 3.5) && !far(gromacs, 3.5 + 1e-12));
        let baker = Criterion::new(Rule::BakerHubbard, 2.5, 120.0);
        assert!(!far(baker, 3.5) && far(baker, 3.5 - 1e-12));
        let cone = Criterion::new(Rule::WernetNilsson, 3.3, 0.0);
        assert!(!far(cone, 3.3) && far(cone, 3.3 - 1e-12));
        let hydrogen = Criterion::new(Rule::Hydrogen, 3.0, 120.0);
        assert!(far(hydrogen, 4.0) && !far(hydrogen, 4.0 + 1e-12));
    }

    /// The bonds of a donor and a hydrogen, the first two of a row, to atoms near them that may be bonded.
    fn bonds(cpu: Cpu, criterion: Criterion, lattice: &Lattice, row: &[[f32; 3]]) -> Vec<FoundBond> {
        let from = if criterion.is_of_hydrogens() { row[1] } else { row[0] };
        let (mut cells, mut likely) = (CellList::default(), Vec::new());
        let add = |_: u32, near: &Neighbors| {
            criterion.list_likely((cpu, lattice), (0, [&row[0], &row[1]]), near, &mut likely);
        };
        cells.visit_each(lattice, [&from, row.as_flattened()], criterion.reach(), add).unwrap();
        likely.sort_unstable();
        likely.dedup();
        let mut found = Vec::new();
        let atoms: Vec<[u32; 3]> = likely.iter().map(|[_, acceptor]| [0, 1, *acceptor]).collect();
        criterion.find((cpu, lattice), row, &atoms, &mut found);
        found
    }

    #[test]
    fn an_angle_equal_to_the_limit_counts_where_the_criterion_says_so() {
        // right angles are exact
        let open = Lattice::from_cell(&[[0.0; 3]; 3]).unwrap();
        let at = |rule| {
            let row = [[-1.0, 0.0, 0.0], [0.0; 3], [0.0, 2.0, 0.0]];
            let found = bonds(Cpu::detect(), Criterion::new(rule, 3.0, 90.0), &open, &row);
            found.first().map(|found| found.bond.angle)
        };
        assert_eq!([Rule::DistanceAngle, Rule::BakerHubbard].map(at), [None; 2]);
        assert_eq!([Rule::Hydrogen, Rule::Heavy].map(at), [Some(90.0); 2]);
        let straight = Criterion::new(Rule::Gromacs, 3.0, 0.0);
        assert_eq!(bonds(Cpu::detect(), straight, &open, &[[-1.0, 0.0, 0.0], [0.0; 3], [2.0, 0.0, 0.0]]).len(), 1);
    }

    #[test]
    fn bonds_are_those_of_each_acceptor_by_itself() {
        let lattice = Lattice::from_cell(&[[9.0, 0.0, 0.0], [2.0, 9.0, 0.0], [0.0, 3.0, 9.0]]).unwrap();
        let at = |i: u32| [0, 1, 2].map(|x| ((i * (7 + 4 * x) + 3 * x) % 97) as f32 * 0.0917);
        let mut row = vec![[4.0_f32, 4.5, 5.0], [4.6, 5.2, 5.3]];
        row.extend((0..103).map(at));
        let vector = |from: u32, to: u32| {
            let (from, to) = (row[from as usize], row[to as usize]);
            lattice.nearest(std::array::from_fn(|x| f64::from(to[x]) - f64::from(from[x])))
        };
        let length = |v: Vector| v.iter().map(|x| x * x).sum::<f64>().sqrt();
        let degrees = |u: Vector, v: Vector| {
            let along: f64 = u.iter().zip(v).map(|(u, v)| u * v).sum();
            (along / length(u) / length(v)).acos().to_degrees()
        };
        let rules =
            [Rule::DistanceAngle, Rule::Gromacs, Rule::BakerHubbard, Rule::WernetNilsson, Rule::Heavy, Rule::Hydrogen];
        let mut n_found = 0;
        for (rule, limit) in rules.into_iter().flat_map(|rule| [1.0, 20.0, 90.0, 150.0, 179.0].map(|x| (rule, x))) {
            // the last one is beyond half of the cell
            for distance in [2.5, 3.5, 6.0] {
                let criterion = Criterion::new(rule, distance, limit);
                let found = [Cpu::detect(), Cpu::baseline()].map(|cpu| bonds(cpu, criterion, &lattice, &row));
                assert_eq!(found[0], found[1]);
                let expected = (2..row.len() as u32).filter(|&acceptor| {
                    let at_hydrogen = degrees(vector(1, 0), vector(1, acceptor));
                    let at_donor = degrees(vector(0, 1), vector(0, acceptor));
                    let (d_a, h_a) = (length(vector(0, acceptor)), length(vector(1, acceptor)));
                    match rule {
                        Rule::Gromacs => d_a <= distance && at_donor <= limit,
                        Rule::WernetNilsson => d_a < distance - 0.00044 * at_donor * at_donor,
                        Rule::DistanceAngle => d_a > 1.0 && d_a <= distance && at_hydrogen > limit,
                        Rule::Heavy => d_a <= distance && at_hydrogen > limit,
                        Rule::Hydrogen | Rule::BakerHubbard => h_a <= distance && at_hydrogen > limit,
                    }
                });
                let acceptors: Vec<u32> = found[0].iter().map(|found| found.acceptor).collect();
                assert_eq!(acceptors, expected.collect::<Vec<_>>(), "{criterion:?}");
                for FoundBond { acceptor, bond, .. } in &found[0] {
                    let expected = [
                        length(vector(0, *acceptor)),
                        length(vector(1, *acceptor)),
                        degrees(vector(1, 0), vector(1, *acceptor)),
                    ];
                    let numbers = [bond.donor_acceptor, bond.hydrogen_acceptor, bond.angle];
                    for (number, expected) in numbers.into_iter().zip(expected) {
                        assert!((number - expected).abs() < 1e-6, "{bond:?}, {expected}");
                    }
                }
                n_found += acceptors.len();
            }
        }
        assert!(n_found > 1000, "{n_found}");
    }
}
