//! Criteria of hydrogen bonds D-H...A: pure functions of the positions of donor, hydrogen and acceptor.
//!
//! Lengths in angstrom, angles in degrees; D-H-A is the angle at the hydrogen, H-D-A the angle at the donor, 0 for a
//! straight bond. Sources: MDAnalysis' `HydrogenBondAnalysis` and `WaterBridgeAnalysis`, `gmx hbond`; E. N. Baker,
//! R. E. Hubbard, Prog. Biophys. Mol. Biol. 44, 97 (1984); P. Wernet et al., Science 304, 995 (2004).

use kinema_core::frame::Lattice;

use super::vectors::{self, Vectors, all, difference};
use crate::cpu::{Cpu, dispatch};
use crate::lanes::Quad;

type Vector = [f64; 3];

/// D-A distances up to this one are of atoms in one place.
const LEAST: f64 = 1.0;
/// By how much cosines may differ from those of the library's angles.
const ROUNDING: f64 = 1e-9;

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

    /// Lists which of some acceptors may have a fitting angle, by their places in `near`: all that have, and few others.
    /// `near` are places in `acceptors`, positions in angstrom; `to_donor` as for [`Criterion::bond`].
    pub(crate) fn candidates(
        &self,
        (cpu, lattice): (Cpu, &Lattice),
        [donor, hydrogen]: [&[f32; 3]; 2],
        to_donor: Vector,
        (acceptors, near): (&[[f32; 3]], &[u32]),
        found: &mut Vec<u32>,
    ) {
        let (from, bound) = match self.rule {
            Rule::WernetNilsson => {
                found.clear();
                return found.extend(0..near.len() as u32);
            }
            Rule::Gromacs => (donor, 2.0 * ROUNDING - self.cosine),
            _ => (hydrogen, self.cosine + 2.0 * ROUNDING),
        };
        dispatch!(
            cpu,
            (),
            list_candidates,
            (
                from: &[f32; 3] = from,
                to_donor: Vector = to_donor,
                acceptors: &[[f32; 3]] = acceptors,
                near: &[u32] = near,
                limits: [f64; 2] = [bound, lattice.sure()],
                found: &mut Vec<u32> = found,
            )
        );
    }

    /// The bond of atoms whose limited distance, `distance`, is within the reach; `None` if they have none.
    ///
    /// Vectors are nearest images: from the hydrogen to its donor, from the donor to the acceptor, from the hydrogen to
    /// the acceptor.
    #[inline]
    pub fn bond(
        &self,
        distance: f64,
        to_donor: Vector,
        across: impl Fn() -> Vector,
        to_acceptor: Vector,
    ) -> Option<Bond> {
        if !self.has_angle_near(to_donor, &across, to_acceptor) {
            return None;
        }
        let found = angle(to_donor, to_acceptor);
        let at_donor = || angle(to_donor.map(|x| -x), across());
        let holds = match self.rule {
            Rule::DistanceAngle => distance > LEAST && found > self.angle,
            Rule::Gromacs => at_donor() <= self.angle,
            Rule::BakerHubbard => distance < self.distance && found > self.angle,
            Rule::WernetNilsson => distance < self.distance - Self::CONE * at_donor().powi(2),
            Rule::Hydrogen | Rule::Heavy => found >= self.angle,
        };
        holds.then(|| {
            let of_hydrogens = self.is_of_hydrogens();
            Bond {
                donor_acceptor: if of_hydrogens { length(across()) } else { distance },
                hydrogen_acceptor: if of_hydrogens { distance } else { length(to_acceptor) },
                angle: found,
            }
        })
    }

    /// Whether the angle fits within rounding: most candidates are refused here, without an arc tangent.
    #[inline]
    fn has_angle_near(&self, to_donor: Vector, across: &impl Fn() -> Vector, to_acceptor: Vector) -> bool {
        match self.rule {
            Rule::WernetNilsson => true,
            Rule::Gromacs => {
                let across = across();
                let scale = (dot(to_donor, to_donor) * dot(across, across)).sqrt();
                -dot(to_donor, across) >= scale * (self.cosine - ROUNDING)
            }
            _ => {
                let scale = (dot(to_donor, to_donor) * dot(to_acceptor, to_acceptor)).sqrt();
                dot(to_donor, to_acceptor) <= scale * (self.cosine + ROUNDING)
            }
        }
    }
}

/// Lists the places of atoms whose vectors from a point have a cosine with `to_donor` up to the first limit, and those
/// farther away than the second one, squared, which may have a nearer image.
#[inline(always)]
fn list_candidates<Q: Quad>(
    from: &[f32; 3],
    to_donor: Vector,
    acceptors: &[[f32; 3]],
    near: &[u32],
    [bound, sure]: [f64; 2],
    found: &mut Vec<u32>,
) {
    found.clear();
    found.resize(near.len().next_multiple_of(4), 0);
    let scale = bound * dot(to_donor, to_donor).sqrt();
    let from: Vectors<Q> = all([f64::from(from[0]), f64::from(from[1]), f64::from(from[2])]);
    let (to_donor, scale, sure): (Vectors<Q>, Q, Q) = (all(to_donor), Q::all(scale), Q::all(sure));
    let (zero, one) = (Q::all(0.0), Q::all(1.0));
    let mut n = 0;
    for at in (0..near.len()).step_by(4) {
        let atom = |lane: usize| &acceptors[near[(at + lane).min(near.len() - 1)] as usize];
        let apart = difference(Q::xyz([atom(0), atom(1), atom(2), atom(3)]), from);
        let (squared, along) = (vectors::dot(apart, apart), vectors::dot(apart, to_donor));
        let fails = Q::select(squared.square_root().multiply(scale).less(along), one, zero);
        let fails = Q::select(sure.less(squared), zero, fails).store();
        for (lane, fails) in fails.iter().enumerate().take(near.len() - at) {
            found[n] = (at + lane) as u32;
            n += usize::from(*fails == 0.0);
        }
    }
    found.truncate(n);
}

/// The nearest image of a displacement; most are their own.
#[inline(always)]
pub fn nearest(lattice: &Lattice, displacement: Vector) -> Vector {
    if dot(displacement, displacement) <= lattice.sure() { displacement } else { lattice.nearest(displacement) }
}

/// The angle of two vectors, degrees; 0 if one is zero.
#[inline]
fn angle(u: Vector, v: Vector) -> f64 {
    let across = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
    length(across).atan2(dot(u, v)).to_degrees()
}

#[inline(always)]
fn dot(u: Vector, v: Vector) -> f64 {
    u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
}

#[inline(always)]
fn length(v: Vector) -> f64 {
    dot(v, v).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A donor at the origin with its hydrogen at 1 angstrom, and an acceptor at a distance from the donor: `turn` is
    /// H-D-A in degrees.
    fn dimer(criterion: Criterion, d_a: f64, turn: f64) -> Option<Bond> {
        let acceptor = [d_a * turn.to_radians().cos(), d_a * turn.to_radians().sin(), 0.0];
        let to_acceptor = [acceptor[0] - 1.0, acceptor[1], 0.0];
        let distance = if criterion.is_of_hydrogens() { length(to_acceptor) } else { d_a };
        if distance > criterion.reach() {
            return None;
        }
        criterion.bond(distance, [-1.0, 0.0, 0.0], || acceptor, to_acceptor)
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

    #[test]
    fn an_angle_equal_to_the_limit_counts_where_the_criterion_says_so() {
        // right angles are exact
        let at = |criterion: Criterion| criterion.bond(2.0, [-1.0, 0.0, 0.0], || [1.0, 2.0, 0.0], [0.0, 2.0, 0.0]);
        assert_eq!(at(Criterion::new(Rule::DistanceAngle, 3.0, 90.0)), None);
        assert_eq!(at(Criterion::new(Rule::BakerHubbard, 3.0, 90.0)), None);
        assert_eq!(at(Criterion::new(Rule::Hydrogen, 3.0, 90.0)).map(|bond| bond.angle), Some(90.0));
        assert_eq!(at(Criterion::new(Rule::Heavy, 3.0, 90.0)).map(|bond| bond.angle), Some(90.0));
        let straight = Criterion::new(Rule::Gromacs, 3.0, 0.0);
        assert!(straight.bond(3.0, [-1.0, 0.0, 0.0], || [3.0, 0.0, 0.0], [2.0, 0.0, 0.0]).is_some());
    }

    #[test]
    fn candidates_are_all_acceptors_that_have_bonds() {
        let lattice = Lattice::from_cell(&[[9.0, 0.0, 0.0], [2.0, 9.0, 0.0], [0.0, 3.0, 9.0]]).unwrap();
        let at = |i: u32| [0, 1, 2].map(|x| ((i * (7 + 4 * x) + 3 * x) % 97) as f32 * 0.0917);
        let acceptors: Vec<[f32; 3]> = (0..103).map(at).collect();
        let near: Vec<u32> = (0..103).filter(|i| i % 4 != 1).collect();
        let [donor, hydrogen] = [[4.0_f32, 4.5, 5.0], [4.6, 5.2, 5.3]];
        let apart = |from: [f32; 3], to: [f32; 3]| {
            nearest(&lattice, std::array::from_fn(|x| f64::from(to[x]) - f64::from(from[x])))
        };
        let to_donor = apart(hydrogen, donor);
        for rule in [Rule::DistanceAngle, Rule::Gromacs, Rule::WernetNilsson, Rule::Heavy] {
            for angle in [0.0, 20.0, 90.0, 150.0, 180.0] {
                let criterion = Criterion::new(rule, 8.0, angle);
                let lists = [Cpu::detect(), Cpu::baseline()].map(|cpu| {
                    let mut found = Vec::new();
                    let places = (&acceptors[..], &near[..]);
                    criterion.candidates((cpu, &lattice), [&donor, &hydrogen], to_donor, places, &mut found);
                    found
                });
                assert_eq!(lists[0], lists[1]);
                for (place, acceptor) in (0..).zip(near.iter().map(|i| acceptors[*i as usize])) {
                    let across = apart(donor, acceptor);
                    let bond = criterion.bond(length(across), to_donor, || across, apart(hydrogen, acceptor));
                    assert!(bond.is_none() || lists[0].contains(&place), "{rule:?}, {angle}, {place}");
                }
            }
        }
    }
}
