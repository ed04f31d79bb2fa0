//! Shares of contacts that are formed: pairs of atoms, each of which is in contact up to a distance of its own.
//!
//! A contact of distance r counts 1 if `r <= limit`, else 0; or, softly, `1 / (1 + exp(beta (r - middle)))`. Nearest
//! images in any lattice, in double precision of single-precision positions.

use kinema_core::Result;
use kinema_core::frame::Lattice;

use super::bonds::Results;
use super::distances::distances;
use super::nearest_images::{AlongAxes, General, Images, Open};
use super::points::{Column, Points};
use super::vectors::difference;
use crate::cpu::{Cpu, dispatch};
use crate::lanes::Quad;

/// What a contact counts by its distance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ContactRule {
    /// 1 up to the limit of the pair, angstrom, itself included.
    Hard,
    /// 1/2 at the middle of the pair, angstrom; `beta`, per angstrom, is four times the slope there.
    Soft {
        /// Above 0.
        beta: f64,
    },
}

/// Groups of contacts, each of which gives one share.
#[derive(Debug, Clone)]
pub struct ContactGroups {
    rule: ContactRule,
    /// First and second atoms. Each group is filled up to a multiple of four by contacts that count 0.
    pairs: [Column; 2],
    /// Soft: the middle of each pair. Hard: the least square that exceeds its limit.
    limits: Vec<[f64; 4]>,
    /// End of each group in `limits`, and its number of contacts.
    groups: Vec<(usize, f64)>,
}

impl ContactGroups {
    /// Contacts by their atoms and limits; `ends` are the ends of the groups among them, ascending.
    pub fn new(rule: ContactRule, pairs: [&[u32]; 2], limits: &[f64], ends: &[usize]) -> Self {
        let (mut padded, mut padded_limits) = ([vec![], vec![]], vec![]);
        let (mut groups, mut start) = (Vec::with_capacity(ends.len()), 0);
        for &end in ends {
            for (padded, atoms) in padded.iter_mut().zip(pairs) {
                padded.extend_from_slice(&atoms[start..end]);
                // the last contact again, with a limit that no distance is below
                padded.resize(padded.len().next_multiple_of(4), atoms[end - 1]);
            }
            for four in limits[start..end].chunks(4) {
                let mut lanes = [f64::NEG_INFINITY; 4];
                for (lane, limit) in lanes.iter_mut().zip(four) {
                    *lane = if rule == ContactRule::Hard { square_beyond(*limit) } else { *limit };
                }
                padded_limits.push(lanes);
            }
            groups.push((padded_limits.len(), (end - start) as f64));
            start = end;
        }
        Self { rule, pairs: padded.map(Column::new), limits: padded_limits, groups }
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there is no group.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The share of each group, from a row of positions (`atoms x 3`, angstrom). Returns whether all positions of its
    /// atoms are finite.
    ///
    /// # Errors
    /// `Internal` if the row lacks an atom, or there are not as many shares as groups.
    pub fn shares(&self, cpu: Cpu, row: &[f32], lattice: &Lattice, shares: &mut [f64]) -> Result<bool> {
        let [first, second] = &self.pairs;
        let points = [Points::picked(row, first)?, Points::picked(row, second)?];
        debug_assert_eq!(shares.len(), self.groups.len());
        Ok(dispatch!(
            cpu,
            bool,
            fill,
            (
                contacts: &ContactGroups = self,
                points: [Points<'_>; 2] = points,
                lattice: &Lattice = lattice,
                shares: &mut [f64] = shares,
            )
        ))
    }
}

/// Pairs of an atom of `first` and one of `second` (`atoms x 3`, angstrom) that are at most `cutoff` apart, ascending, and
/// their distances, as [`ContactGroups`] computes them. Distances that are not finite are none.
///
/// # Errors
/// `Internal` if the number of coordinates is not a multiple of 3.
pub fn near_pairs(
    cpu: Cpu,
    [first, second]: [&[f32]; 2],
    lattice: &Lattice,
    cutoff: f64,
) -> Result<(Vec<[u32; 2]>, Vec<f64>)> {
    let (firsts, n_second) = (first.as_chunks::<3>().0, (second.len() / 3) as u32);
    let mut apart = vec![0.0; n_second as usize];
    let (mut pairs, mut found) = (vec![], vec![]);
    let column = Column::new(vec![0; apart.len()]);
    for (i, one) in (0..).zip(firsts) {
        distances(cpu, [Points::picked(one, &column)?, Points::row(second)?], lattice, Results::Double(&mut apart))?;
        for (j, distance) in (0..n_second).zip(&apart).filter(|(_, distance)| **distance <= cutoff) {
            pairs.push([i, j]);
            found.push(*distance);
        }
    }
    Ok((pairs, found))
}

/// The least number that exceeds all squares whose root is at most `limit`; it has the same answer for each root.
fn square_beyond(limit: f64) -> f64 {
    let mut square = limit * limit;
    while square.sqrt() > limit {
        square = square.next_down();
    }
    while square.sqrt() <= limit && square.is_finite() {
        square = square.next_up();
    }
    square
}

#[inline(always)]
fn fill<Q: Quad>(contacts: &ContactGroups, points: [Points<'_>; 2], lattice: &Lattice, shares: &mut [f64]) -> bool {
    if lattice.is_open() {
        by_rule::<Q>(contacts, points, &Open, shares)
    } else if let Some([edges, inverse]) = lattice.edges_on_axes() {
        by_rule::<Q>(contacts, points, &AlongAxes::new(edges, inverse), shares)
    } else {
        by_rule::<Q>(contacts, points, &General::new(lattice), shares)
    }
}

#[inline(always)]
fn by_rule<Q: Quad>(
    contacts: &ContactGroups,
    points: [Points<'_>; 2],
    images: &impl Images<Q>,
    shares: &mut [f64],
) -> bool {
    match contacts.rule {
        ContactRule::Hard => add_up::<Q, _>(contacts, points, images, Hard, shares),
        ContactRule::Soft { beta } => add_up::<Q, _>(contacts, points, images, Soft { beta: Q::all(beta) }, shares),
    }
}

#[inline(always)]
fn add_up<Q: Quad, R: Rule<Q>>(
    contacts: &ContactGroups,
    [first, second]: [Points<'_>; 2],
    images: &impl Images<Q>,
    rule: R,
    shares: &mut [f64],
) -> bool {
    // zero times a finite number is zero
    let (zero, mut zeros) = (Q::all(0.0), Q::all(0.0));
    let mut start = 0;
    for (&(end, count), share) in contacts.groups.iter().zip(shares) {
        let mut sum = zero;
        for (at, limits) in (4 * start..).step_by(4).zip(&contacts.limits[start..end]) {
            let squared = images.shortest_squared(difference(second.four::<Q>(at), first.four(at)));
            zeros = squared.multiply_add(zero, zeros);
            sum = sum.add(rule.count(squared, Q::load(limits)));
        }
        let [a, b, c, d] = sum.store();
        *share = ((a + b) + (c + d)) / count;
        start = end;
    }
    zeros.store() == [0.0; 4]
}

/// A trait, as only functions can be marked for inlining: see `BondNumber`.
trait Rule<Q: Quad>: Copy {
    /// What contacts count by their squared distances.
    fn count(self, squared: Q, limit: Q) -> Q;
}

#[derive(Clone, Copy)]
struct Hard;

impl<Q: Quad> Rule<Q> for Hard {
    #[inline(always)]
    fn count(self, squared: Q, limit: Q) -> Q {
        Q::select(squared.less(limit), Q::all(1.0), Q::all(0.0))
    }
}

#[derive(Clone, Copy)]
struct Soft<Q> {
    beta: Q,
}

impl<Q: Quad> Rule<Q> for Soft<Q> {
    #[inline(always)]
    fn count(self, squared: Q, limit: Q) -> Q {
        let exponent = self.beta.multiply(squared.square_root().subtract(limit));
        let one = Q::all(1.0);
        let share = one.divide(one.add(exponential(exponent.maximum(Q::all(-MOST_EXPONENT)))));
        Q::select(exponent.less(Q::all(MOST_EXPONENT)), share, Q::all(0.0))
    }
}

/// The exponential is computed up to this exponent, with either sign.
const MOST_EXPONENT: f64 = 700.0;
/// ln 2 in two parts, of which whole multiples up to 2^11 of the first are exact.
const LN_2: [f64; 2] = [0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10];
/// 1 / n!, the last first.
const INVERSE_FACTORIALS: [f64; 12] = [
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
    1.0,
    1.0,
];

/// `exp(x)` to some 1e-14 of it, for `|x| <= MOST_EXPONENT`; any value beyond.
#[inline(always)]
fn exponential<Q: Quad>(x: Q) -> Q {
    // adding it rounds to a whole number, which the last bits then hold, and with it the bias of the exponent
    const WITH_BIAS: f64 = kinema_core::frame::lattice::ROUNDING + 1023.0;
    let biased = x.multiply_add(Q::all(std::f64::consts::LOG2_E), Q::all(WITH_BIAS));
    let whole = biased.subtract(Q::all(WITH_BIAS));
    let rest = whole.multiply_add(Q::all(-LN_2[1]), whole.multiply_add(Q::all(-LN_2[0]), x));
    let mut sum = Q::all(INVERSE_FACTORIALS[0]);
    for coefficient in &INVERSE_FACTORIALS[1..] {
        sum = sum.multiply_add(rest, Q::all(*coefficient));
    }
    sum.multiply(Q::load(&biased.store().map(|biased| f64::from_bits(biased.to_bits() << 52))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(always)]
    fn exponentials<Q: Quad>(x: &[f64; 4]) -> [f64; 4] {
        exponential(Q::load(x)).store()
    }

    #[test]
    fn the_exponential_is_right_to_some_14_digits() {
        for cpu in [Cpu::detect(), Cpu::baseline()] {
            for i in 0..2801 {
                let x = f64::from(i) * 0.5 - 700.0 + 0.013 * f64::from(i % 17);
                let four = [x.clamp(-700.0, 700.0), 0.0, -0.1, 0.34657];
                let found = dispatch!(cpu, [f64; 4], exponentials, (x: &[f64; 4] = &four));
                for (found, x) in found.iter().zip(four) {
                    assert!((found / x.exp() - 1.0).abs() < 5e-14, "{x}: {found}");
                }
            }
        }
    }

    #[test]
    fn a_distance_that_equals_the_limit_is_a_contact() {
        for limit in [0.0, 1.0, 4.5, 0.1, 3.3, 2_f64.sqrt(), 1e-160, 7.123_456_789] {
            let beyond = square_beyond(limit);
            assert!(beyond.sqrt() > limit && beyond.next_down().sqrt() <= limit, "{limit}");
        }
    }

    fn shares(rule: ContactRule, cell: [[f64; 3]; 3], row: &[f32], limits: &[f64]) -> (Vec<f64>, bool) {
        let lattice = Lattice::from_cell(&cell).unwrap();
        let contacts = ContactGroups::new(rule, [&[0, 0, 1, 0, 0], &[1, 2, 2, 1, 0]], limits, &[3, 5]);
        let found = [Cpu::detect(), Cpu::baseline()].map(|cpu| {
            let mut shares = vec![0.0; contacts.len()];
            let finite = contacts.shares(cpu, row, &lattice, &mut shares).unwrap();
            (shares.iter().map(|share| share.to_bits()).collect::<Vec<_>>(), finite)
        });
        assert_eq!(found[0], found[1]);
        (found[0].0.iter().map(|bits| f64::from_bits(*bits)).collect(), found[0].1)
    }

    #[test]
    fn contacts_count_by_the_nearest_image() {
        let row = [0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 9.0];
        let limits = [3.0, 1.0, 3.2, 2.9, 0.0];
        let cells = [
            ([[0.0; 3]; 3], [1.0 / 3.0, 0.5]),
            ([[30.0, 0.0, 0.0], [0.0, 30.0, 0.0], [0.0, 0.0, 10.0]], [1.0, 0.5]),
            ([[30.0, 0.0, 0.0], [3.0, 30.0, 0.0], [0.0, 0.0, 10.0]], [1.0, 0.5]),
        ];
        for (cell, expected) in cells {
            assert_eq!(shares(ContactRule::Hard, cell, &row, &limits), (expected.to_vec(), true));
        }
        let soft = |r: f64, middle: f64| 1.0 / (1.0 + (5.0 * (r - middle)).exp());
        let (found, finite) = shares(ContactRule::Soft { beta: 5.0 }, cells[1].0, &row, &limits);
        let first = (soft(3.0, 3.0) + soft(1.0, 1.0) + soft(10_f64.sqrt(), 3.2)) / 3.0;
        assert!(finite && (found[0] - first).abs() < 1e-14, "{found:?}");
        assert!((found[1] - (soft(3.0, 2.9) + 0.5) / 2.0).abs() < 1e-14, "{found:?}");
    }

    #[test]
    fn near_pairs_are_all_within_the_cutoff() {
        let (first, second) = ([0.0, 0.0, 0.0, 1.0, 2.0, 9.5], [0.0, 0.0, 9.0, 0.0, 2.0, 0.0, 5.0, 5.0, f32::NAN]);
        let lattice = Lattice::from_cell(&[[30.0, 0.0, 0.0], [0.0, 30.0, 0.0], [0.0, 0.0, 10.0]]).unwrap();
        let (pairs, found) = near_pairs(Cpu::detect(), [&first, &second], &lattice, 2.0).unwrap();
        assert_eq!((pairs, found), (vec![[0, 0], [0, 1], [1, 1]], vec![1.0, 2.0, 1.25_f64.sqrt()]));
    }

    #[test]
    fn far_atoms_count_nothing_and_positions_must_be_finite() {
        let soft = ContactRule::Soft { beta: 5.0 };
        let mut row = [0.0, 0.0, 0.0, 3e6, 0.0, 0.0, 0.0, 3e6, 0.0];
        assert_eq!(shares(soft, [[0.0; 3]; 3], &row, &[9.0; 5]), (vec![0.0, 0.5], true));
        row[4] = f32::NAN;
        assert!(!shares(soft, [[0.0; 3]; 3], &row, &[9.0; 5]).1);
        assert!(!shares(ContactRule::Hard, [[0.0; 3]; 3], &row, &[9.0; 5]).1);
    }
}
