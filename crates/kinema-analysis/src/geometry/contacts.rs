//! Shares of contacts that are formed: pairs of atoms, each of which is in contact up to a distance of its own.
//!
//! A contact of distance r counts 1 if `r <= limit`, else 0; or, softly, `1 / (1 + exp(beta (r - middle)))`. Nearest
//! images in any lattice, in double precision of single-precision positions.

use kinema_core::frame::Lattice;
use kinema_core::{Error, ErrorKind, Result};

use super::nearest_images::{AlongAxes, General, Images, Open};
use super::vectors::Vectors;
use crate::cpu::{Cpu, dispatch};
use crate::lanes::{Fours, Quad};

/// How a contact is counted by its distance.
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
    /// First and second atoms of four contacts each. Each group is filled up by contacts that count 0.
    pairs: Vec<[[u32; 4]; 2]>,
    /// Atoms that a row must have.
    reach: usize,
    /// Soft: the middle of each pair. Hard: the least square that exceeds its limit.
    limits: Vec<[f64; 4]>,
    /// End of each group in `limits`, and its number of contacts.
    groups: Vec<(usize, f64)>,
}

impl ContactGroups {
    /// Contacts by their atoms and limits; `ends` are the ends of the groups among them, ascending.
    pub fn new(rule: ContactRule, pairs: [&[u32]; 2], limits: &[f64], ends: &[usize]) -> Self {
        let (mut fours, mut four_limits) = (vec![], vec![]);
        let (mut groups, mut start) = (Vec::with_capacity(ends.len()), 0);
        for &end in ends {
            for at in (start..end).step_by(4) {
                // the last contact again, with a limit that no distance is below
                fours.push(pairs.map(|atoms| std::array::from_fn(|i| atoms[(at + i).min(end - 1)])));
                let mut lanes = [f64::NEG_INFINITY; 4];
                for (lane, limit) in lanes.iter_mut().zip(&limits[at..end]) {
                    *lane = if rule == ContactRule::Hard { square_beyond(*limit) } else { *limit };
                }
                four_limits.push(lanes);
            }
            groups.push((fours.len(), (end - start) as f64));
            start = end;
        }
        let reach = pairs.iter().flat_map(|atoms| atoms.iter()).max().map_or(0, |&last| last as usize + 1);
        Self { rule, pairs: fours, reach, limits: four_limits, groups }
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
    pub fn shares(
        &self,
        cpu: Cpu,
        row: &[f32],
        lattice: &Lattice,
        scratch: &mut ContactScratch,
        shares: &mut [f64],
    ) -> Result<bool> {
        let found = row.len() / 3;
        if found < self.reach {
            let what = format!("too few atoms in a row of positions, expected {}, found {found}", self.reach);
            return Err(Error::new(ErrorKind::Internal, what));
        }
        debug_assert_eq!(shares.len(), self.groups.len());
        Ok(dispatch!(
            cpu,
            bool,
            fill,
            (
                contacts: &ContactGroups = self,
                row: &[f32] = row,
                lattice: &Lattice = lattice,
                scratch: &mut ContactScratch = scratch,
                shares: &mut [f64] = shares,
            )
        ))
    }
}

/// Buffers of one worker.
#[derive(Debug, Default)]
pub struct ContactScratch(Vec<Placed>);

/// x, y and z of an atom, and any number; aligned so that it does not straddle a cache line.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(32))]
struct Placed([f64; 4]);

/// Converts all atoms of a row once, as most are in several contacts.
#[inline(always)]
fn place<Q: Quad>(row: &[f32], placed: &mut Vec<Placed>) {
    placed.clear();
    placed.reserve(row.len() / 3);
    for at in (0..row.len() / 3 * 3).step_by(3) {
        placed.push(match row[at..].first_chunk() {
            Some(four) => Placed(Q::widen(four).store()),
            None => Placed([f64::from(row[at]), f64::from(row[at + 1]), f64::from(row[at + 2]), 0.0]),
        });
    }
}

/// The least number that exceeds all squares whose root is at most `limit`; it has the same answer for each root.
pub(super) fn square_beyond(limit: f64) -> f64 {
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
fn fill<Q: Fours>(
    contacts: &ContactGroups,
    row: &[f32],
    lattice: &Lattice,
    scratch: &mut ContactScratch,
    shares: &mut [f64],
) -> bool {
    place::<Q>(row, &mut scratch.0);
    if lattice.is_open() {
        by_rule::<Q>(contacts, &scratch.0, &Open, shares)
    } else if let Some([edges, inverse]) = lattice.edges_on_axes() {
        by_rule::<Q>(contacts, &scratch.0, &AlongAxes::new(edges, inverse), shares)
    } else {
        by_rule::<Q>(contacts, &scratch.0, &General::new(lattice), shares)
    }
}

#[inline(always)]
fn by_rule<Q: Fours>(contacts: &ContactGroups, placed: &[Placed], images: &impl Images<Q>, shares: &mut [f64]) -> bool {
    match contacts.rule {
        ContactRule::Hard => add_up::<Q, _>(contacts, placed, images, Hard, shares),
        ContactRule::Soft { beta } => add_up::<Q, _>(contacts, placed, images, Soft { beta: Q::all(beta) }, shares),
    }
}

#[inline(always)]
fn add_up<Q: Fours, R: Rule<Q>>(
    contacts: &ContactGroups,
    placed: &[Placed],
    images: &impl Images<Q>,
    rule: R,
    shares: &mut [f64],
) -> bool {
    assert!(contacts.reach <= placed.len(), "checked by the caller");
    // zero times a finite number is zero
    let (zero, mut zeros) = (Q::all(0.0), Q::all(0.0));
    let mut start = 0;
    for (&(end, count), share) in contacts.groups.iter().zip(shares) {
        let mut sum = zero;
        for (pairs, limits) in contacts.pairs[start..end].iter().zip(&contacts.limits[start..end]) {
            // SAFETY: no atom is beyond `reach`, which was compared above.
            let squared = images.shortest_squared(unsafe { displacements(placed, pairs) });
            zeros = squared.multiply_add(zero, zeros);
            sum = sum.add(rule.count(squared, Q::load(limits)));
        }
        let [a, b, c, d] = sum.store();
        *share = ((a + b) + (c + d)) / count;
        start = end;
    }
    zeros.store() == [0.0; 4]
}

/// From the first to the second atoms of four pairs.
///
/// # Safety
/// All atoms are in `placed`.
#[inline(always)]
unsafe fn displacements<Q: Fours>(placed: &[Placed], [first, second]: &[[u32; 4]; 2]) -> Vectors<Q> {
    let mut vectors = [Q::all(0.0); 4];
    for (i, vector) in vectors.iter_mut().enumerate() {
        let (from, to) = (first[i] as usize, second[i] as usize);
        debug_assert!(from < placed.len() && to < placed.len());
        // SAFETY: as the caller says.
        let (from, to) = unsafe { (placed.get_unchecked(from), placed.get_unchecked(to)) };
        *vector = Q::load(&to.0).subtract(Q::load(&from.0));
    }
    Q::columns(vectors)
}

/// A trait, as only functions can be marked for inlining: see `BondNumber`.
trait Rule<Q: Quad>: Copy {
    /// How much contacts count, by their squared distances.
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

impl<Q: Fours> Rule<Q> for Soft<Q> {
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
/// 1 / n!
const INVERSE_FACTORIALS: [f64; 12] = [
    1.0,
    1.0,
    0.5,
    1.0 / 6.0,
    1.0 / 24.0,
    1.0 / 120.0,
    1.0 / 720.0,
    1.0 / 5_040.0,
    1.0 / 40_320.0,
    1.0 / 362_880.0,
    1.0 / 3_628_800.0,
    1.0 / 39_916_800.0,
];

/// `exp(x)` to some 1e-14 of it, for `|x| <= MOST_EXPONENT`; any value beyond.
#[inline(always)]
fn exponential<Q: Fours>(x: Q) -> Q {
    // adding it rounds to a whole number, which the last bits then hold, and with it the bias of the exponent
    const WITH_BIAS: f64 = kinema_core::frame::lattice::ROUNDING + 1023.0;
    let biased = x.multiply_add(Q::all(std::f64::consts::LOG2_E), Q::all(WITH_BIAS));
    let whole = biased.subtract(Q::all(WITH_BIAS));
    let rest = whole.multiply_add(Q::all(-LN_2[1]), whole.multiply_add(Q::all(-LN_2[0]), x));
    // pairs of terms, and pairs of these, so that none waits for eleven others
    let squared = rest.multiply(rest);
    let fourth = squared.multiply(squared);
    let first = four_terms(0, rest, squared);
    let middle = four_terms(4, rest, squared).multiply_add(fourth, first);
    let sum = four_terms(8, rest, squared).multiply_add(fourth.multiply(fourth), middle);
    sum.multiply(biased.last_bits_as_exponent())
}

/// Four terms of the series from the power `n`, divided by it.
#[inline(always)]
fn four_terms<Q: Quad>(n: usize, x: Q, squared: Q) -> Q {
    let (a, b) = (Q::all(INVERSE_FACTORIALS[n]), Q::all(INVERSE_FACTORIALS[n + 1]));
    let (c, d) = (Q::all(INVERSE_FACTORIALS[n + 2]), Q::all(INVERSE_FACTORIALS[n + 3]));
    d.multiply_add(x, c).multiply_add(squared, b.multiply_add(x, a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(always)]
    fn exponentials<Q: Fours>(x: &[f64; 4]) -> [f64; 4] {
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
            let mut scratch = ContactScratch::default();
            let finite = contacts.shares(cpu, row, &lattice, &mut scratch, &mut shares).unwrap();
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
    fn far_atoms_count_nothing_and_positions_must_be_finite() {
        let soft = ContactRule::Soft { beta: 5.0 };
        let mut row = [0.0, 0.0, 0.0, 3e6, 0.0, 0.0, 0.0, 3e6, 0.0];
        assert_eq!(shares(soft, [[0.0; 3]; 3], &row, &[9.0; 5]), (vec![0.0, 0.5], true));
        row[4] = f32::NAN;
        assert!(!shares(soft, [[0.0; 3]; 3], &row, &[9.0; 5]).1);
        assert!(!shares(ContactRule::Hard, [[0.0; 3]; 3], &row, &[9.0; 5]).1);
    }
}
