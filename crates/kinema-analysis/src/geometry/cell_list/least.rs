//! The nearest pair of two sets, and how many pairs and points are near each other, without a list of pairs.

use std::ops::Range;

use kinema_core::Result;
use kinema_core::frame::Lattice;

use super::scan::{Scan, eights, lanes_before, seen_from, squares};
use super::stencil::Run;
use super::{CellList, FoundPair, Homes, LeastDistance, Near, bounds};
use crate::cpu::dispatch;
use crate::lanes::{EIGHT, Eight, Quad, count_bits};

/// Distance within which the search for the nearest pair begins, angstrom.
const FIRST_CUTOFF: f64 = 4.0;
/// Bits of a word.
const WORD: usize = 64;

/// The nearest pair and the counts of two sets so far.
#[derive(Debug, Default)]
pub(super) struct PairSummary {
    /// Pairs at most the cutoff apart, and homes in these.
    n_pairs: u64,
    n_homes: u64,
    /// A bit for each other point in these.
    marked: Vec<u64>,
    nearest: Option<Near>,
    /// The greatest estimate of a squared distance that can be the least one.
    limit: f32,
    /// Whether homes are the second set.
    is_exchanged: bool,
    of_edges: [[i64; 3]; 3],
    examined: u64,
}

impl PairSummary {
    /// Forgets everything but the buffer.
    fn begin(&mut self, scan: &Scan<'_>, is_exchanged: bool, of_edges: &[[i64; 3]; 3]) {
        let mut marked = std::mem::take(&mut self.marked);
        marked.clear();
        // one more, for bits that are written together
        marked.resize(scan.others.points.len() / WORD + 2, 0);
        *self = Self { marked, limit: scan.limit, is_exchanged, of_edges: *of_edges, ..Self::default() };
    }

    /// The nearest pair; the first such pair if several have its distance.
    fn nearest(&self) -> Option<FoundPair> {
        self.nearest.map(|near| near.with_edges(&self.of_edges))
    }

    /// Points of both sets in pairs that are at most the cutoff apart.
    fn n_points(&self) -> u64 {
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

impl CellList {
    /// The pair of a point of `first` and one of `second` with the least distance; the first such pair if several have
    /// it. `None` if a set is empty.
    ///
    /// # Errors
    /// As [`CellList::between`].
    pub fn nearest(&mut self, lattice: &Lattice, first: &[f32], second: &[f32]) -> Result<Option<FoundPair>> {
        if first.is_empty() || second.is_empty() {
            return Ok(None);
        }
        let mut cutoff = FIRST_CUTOFF;
        loop {
            self.summarise_pairs(lattice, [first, second], cutoff)?;
            if let Some(nearest) = self.summary.nearest() {
                return Ok(Some(nearest));
            }
            cutoff *= 4.0;
        }
    }

    /// The same pair; the number of pairs at most `cutoff` apart, of which each image counts; and the number of points in
    /// these pairs. `None` if a set is empty.
    ///
    /// # Errors
    /// As [`CellList::between`].
    pub fn least(
        &mut self,
        lattice: &Lattice,
        first: &[f32],
        second: &[f32],
        cutoff: f64,
    ) -> Result<Option<LeastDistance>> {
        if first.is_empty() || second.is_empty() {
            return Ok(None);
        }
        self.summarise_pairs(lattice, [first, second], cutoff)?;
        let (n_pairs, n_points) = (self.summary.n_pairs, self.summary.n_points());
        let nearest = match self.summary.nearest() {
            Some(nearest) => Some(nearest),
            None => self.nearest(lattice, first, second)?,
        };
        Ok(nearest.map(|nearest| LeastDistance { nearest, n_pairs, n_points }))
    }

    /// Finds the nearest pair, and counts those at most `cutoff` apart.
    fn summarise_pairs(&mut self, lattice: &Lattice, sets: [&[f32]; 2], cutoff: f64) -> Result<()> {
        self.sort_both(lattice, sets, cutoff)?;
        let is_exchanged = sets[0].len() > sets[1].len();
        let homes = if is_exchanged { Homes::Second } else { Homes::First };
        let cpu = self.cpu();
        let (homes, others) = homes.of(&self.first, &self.second);
        let limit = bounds::most(&self.grid, cutoff);
        let scan = Scan { cpu, grid: &self.grid, homes, others, cutoff, limit };
        let sure = bounds::sure(&self.grid, cutoff);
        self.summary.begin(&scan, is_exchanged, lattice.of_edges());
        for &cell in homes.occupied() {
            let cell = cell as usize;
            self.stencil.find_runs(&self.grid, others, cell, &mut self.runs);
            scan.summarise(homes.in_cell(cell), &self.runs, sure, &mut self.summary);
        }
        self.hits.examined += self.summary.examined;
        Ok(())
    }
}

impl Scan<'_> {
    /// Adds the pairs of `homes` and the points of the runs; `sure` as [`super::bounds::sure`].
    fn summarise(&self, homes: Range<usize>, runs: &[Run], sure: f32, summary: &mut PairSummary) {
        dispatch!(
            self.cpu,
            (),
            add,
            (
                scan: &Scan<'_> = self,
                homes: Range<usize> = homes,
                runs: &[Run] = runs,
                sure: f32 = sure,
                summary: &mut PairSummary = summary,
            )
        );
    }
}

#[inline(always)]
fn add<Q: Quad>(scan: &Scan<'_>, homes: Range<usize>, runs: &[Run], sure: f32, summary: &mut PairSummary) {
    let (limit, sure) = (Q::Eight::all(scan.limit), Q::Eight::all(sure));
    for home in homes {
        let mut has_near = false;
        for run in runs {
            let place = seen_from::<Q>(scan.homes, home, run);
            summary.examined += run.points.len() as u64;
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
                summary.n_pairs += count_bits(inside) as u64;
                let bits = u128::from(inside) << (at % WORD);
                summary.marked[at / WORD] |= bits as u64;
                summary.marked[at / WORD + 1] |= (bits >> WORD) as u64;
                let mut nearer = inside & squares.at_most(Q::Eight::all(summary.limit));
                while nearer != 0 {
                    let lane = nearer.trailing_zeros() as usize;
                    summary.consider(scan, scan.decide(home, at + lane, run.counts));
                    nearer &= nearer - 1;
                }
            }
        }
        summary.n_homes += u64::from(has_near);
    }
}
