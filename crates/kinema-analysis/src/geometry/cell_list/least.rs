//! The nearest pair of two sets, and how many pairs and points are near each other, without a list of pairs.

use std::ops::Range;

use kinema_core::Result;
use kinema_core::frame::Lattice;

use super::grid::Cells;
use super::scan::{Scan, squares};
use super::vicinity::{Image, Vicinity, three};
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
}

impl PairSummary {
    /// Forgets everything but the buffer.
    fn begin(&mut self, scan: &Scan<'_>, is_exchanged: bool, of_edges: &[[i64; 3]; 3]) {
        let mut marked = std::mem::take(&mut self.marked);
        marked.clear();
        marked.resize(scan.others.points.len().div_ceil(WORD), 0);
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
        self.sort_both(lattice, sets, cutoff, Cells::Vicinities)?;
        let is_exchanged = sets[0].len() > sets[1].len();
        let homes = if is_exchanged { Homes::Second } else { Homes::First };
        let scan = Scan::new(self.cpu(), &self.grid, homes.of(&self.first, &self.second), cutoff);
        let sure = bounds::sure(&self.grid, cutoff);
        self.summary.begin(&scan, is_exchanged, lattice.of_edges());
        self.vicinity.each(&scan, &self.stencil, &mut self.runs, |homes, vicinity| {
            self.marks.clear();
            self.marks.resize(vicinity.len() / EIGHT, 0);
            scan.summarise(homes, vicinity, sure, (&mut self.marks, &mut self.summary));
            let marked = &mut self.summary.marked;
            vicinity.each_marked(&self.marks, |place, _| marked[place / WORD] |= 1 << (place % WORD));
        });
        Ok(())
    }
}

impl Scan<'_> {
    /// Adds the pairs of `homes` and the points of a vicinity, and marks these points; `sure` as [`super::bounds::sure`].
    fn summarise(
        &self,
        homes: Range<usize>,
        vicinity: &Vicinity,
        sure: f32,
        (marks, summary): (&mut [u8], &mut PairSummary),
    ) {
        dispatch!(
            self.cpu,
            (),
            add,
            (
                scan: &Scan<'_> = self,
                homes: Range<usize> = homes,
                vicinity: &Vicinity = vicinity,
                sure: f32 = sure,
                marks: &mut [u8] = marks,
                summary: &mut PairSummary = summary,
            )
        );
    }

    /// Which points of a block are within the cutoff, of those that are within it or may be; considers the nearer ones.
    #[cold]
    fn look_closer(
        &self,
        (home, image): (usize, &Image),
        places: &[u32; EIGHT],
        [mut inside, unsure, mut nearer]: [u32; 3],
        summary: &mut PairSummary,
    ) -> u32 {
        inside |= self.decide_all((home, image), places, unsure);
        nearer &= inside;
        while nearer != 0 {
            let place = places[nearer.trailing_zeros() as usize] as usize;
            summary.consider(self, self.decide(home, place, image.counts));
            nearer &= nearer - 1;
        }
        inside
    }
}

#[inline(always)]
fn add<Q: Quad>(
    scan: &Scan<'_>,
    homes: Range<usize>,
    vicinity: &Vicinity,
    sure: f32,
    marks: &mut [u8],
    summary: &mut PairSummary,
) {
    let (limit, sure) = (Q::Eight::all(scan.limit), Q::Eight::all(sure));
    let mut least = Q::Eight::all(summary.limit);
    for home in homes {
        let place = three::<Q>(scan.homes.position(home, [0.0; 3]));
        let mut n_near = 0;
        for image in &vicinity.images {
            let ([x, y, z], places) = (vicinity.eights(image), vicinity.places(image));
            let marks = &mut marks[image.points.start / EIGHT..image.points.end / EIGHT];
            for ((((x, y), z), places), mark) in x.iter().zip(y).zip(z).zip(places).zip(marks) {
                let squares = squares::<Q>([x, y, z], place);
                let mut inside = squares.at_most(sure);
                let (unsure, nearer) = (squares.at_most(limit) ^ inside, squares.at_most(least));
                if unsure | nearer != 0 {
                    inside = scan.look_closer((home, image), places, [inside, unsure, nearer], summary);
                    least = Q::Eight::all(summary.limit);
                }
                n_near += count_bits(inside);
                *mark |= inside as u8;
            }
        }
        summary.n_pairs += n_near as u64;
        summary.n_homes += u64::from(n_near > 0);
    }
}
