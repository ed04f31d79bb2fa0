//! The nearest pair of two sets, and how many pairs and points are near each other, without a list of pairs.

use std::ops::Range;

use super::scan::{Scan, eights, lanes_before, seen_from, squares};
use super::stencil::Run;
use super::{FoundPair, Near, bounds};
use crate::cpu::dispatch;
use crate::lanes::{EIGHT, Eight, Quad, count_bits};

/// Bits of a word.
const WORD: usize = 64;

/// The nearest pair and the counts of two sets so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Pairs at most the cutoff apart, and homes in these.
    pub(super) n_pairs: u64,
    n_homes: u64,
    /// A bit for each other point in these.
    marked: Vec<u64>,
    nearest: Option<Near>,
    /// The greatest estimate of a squared distance that can be the least one.
    limit: f32,
    /// Whether homes are the second set.
    is_exchanged: bool,
    of_edges: [[i64; 3]; 3],
    pub(super) examined: u64,
}

impl Tally {
    /// Forgets everything but the buffer.
    pub(super) fn begin(&mut self, scan: &Scan<'_>, is_exchanged: bool, of_edges: &[[i64; 3]; 3]) {
        let mut marked = std::mem::take(&mut self.marked);
        marked.clear();
        // one more, for bits that are written together
        marked.resize(scan.others.points.len() / WORD + 2, 0);
        *self = Self { marked, limit: scan.limit, is_exchanged, of_edges: *of_edges, ..Self::default() };
    }

    /// The nearest pair; the first such pair if several have its distance.
    pub(super) fn nearest(&self) -> Option<FoundPair> {
        self.nearest.map(|near| near.with_edges(&self.of_edges))
    }

    /// Points of both sets in pairs that are at most the cutoff apart.
    pub(super) fn n_points(&self) -> u64 {
        self.n_homes + self.marked.iter().map(|word| u64::from(word.count_ones())).sum::<u64>()
    }

    /// Takes a pair of a home and another point if it is nearer than the nearest.
    #[inline(always)]
    fn consider(&mut self, scan: &Scan<'_>, near: Near) {
        let near = if self.is_exchanged { near.exchanged() } else { near };
        let is_nearer = self.nearest.is_none_or(|nearest| {
            let order = |near: Near| near.with_edges(&self.of_edges).order();
            near.distance < nearest.distance || (near.distance == nearest.distance && order(near) < order(nearest))
        });
        if is_nearer {
            self.nearest = Some(near);
            self.limit = bounds::most(scan.grid, near.distance).min(scan.limit);
        }
    }
}

impl Scan<'_> {
    /// Adds the pairs of `homes` and the points of the runs; `sure` as [`super::bounds::sure`].
    pub(super) fn tally(&self, homes: Range<usize>, runs: &[Run], sure: f32, tally: &mut Tally) {
        dispatch!(
            self.cpu,
            (),
            add,
            (
                scan: &Scan<'_> = self,
                homes: Range<usize> = homes,
                runs: &[Run] = runs,
                sure: f32 = sure,
                tally: &mut Tally = tally,
            )
        );
    }
}

#[inline(always)]
fn add<Q: Quad>(scan: &Scan<'_>, homes: Range<usize>, runs: &[Run], sure: f32, tally: &mut Tally) {
    let (limit, sure) = (Q::Eight::all(scan.limit), Q::Eight::all(sure));
    for home in homes {
        let mut has_near = false;
        for run in runs {
            let place = seen_from::<Q>(scan.homes, home, run);
            tally.examined += run.points.len() as u64;
            let [x, y, z] = eights(scan.others, run.points.clone());
            for (block, ((x, y), z)) in x.iter().zip(y).zip(z).enumerate() {
                let at = run.points.start + EIGHT * block;
                let squares = squares::<Q>([x, y, z], place);
                let near = squares.at_most(limit) & lanes_before(run.points.end - at);
                if near == 0 {
                    continue;
                }
                let mut inside = near & squares.at_most(sure);
                let mut unsure = near & !inside;
                while unsure != 0 {
                    let lane = unsure.trailing_zeros();
                    let distance = scan.decide(home, at + lane as usize, run.counts).distance;
                    inside |= u32::from(distance <= scan.cutoff) << lane;
                    unsure &= unsure - 1;
                }
                if inside == 0 {
                    continue;
                }
                has_near = true;
                tally.n_pairs += count_bits(inside) as u64;
                let bits = u128::from(inside) << (at % WORD);
                tally.marked[at / WORD] |= bits as u64;
                tally.marked[at / WORD + 1] |= (bits >> WORD) as u64;
                let mut nearer = inside & squares.at_most(Q::Eight::all(tally.limit));
                while nearer != 0 {
                    let lane = nearer.trailing_zeros() as usize;
                    tally.consider(scan, scan.decide(home, at + lane, run.counts));
                    nearer &= nearer - 1;
                }
            }
        }
        tally.n_homes += u64::from(has_near);
    }
}
