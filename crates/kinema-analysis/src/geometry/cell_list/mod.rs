//! Pairs of points within a cutoff, in any lattice: points are sorted into cells, and near cells are compared.
//!
//! The lattice may have any shape, and one, two or three of its edges may be open. The cutoff may be of any size: beyond
//! half of the shortest lattice vector, a pair has several images. Distances are estimated in single precision, eight at
//! a time; every pair that may be within the cutoff is then decided in double precision, so that the pairs are those of
//! brute force: `displacement - sum count * basis vector`, counts subtracted one basis vector after the other.

mod grid;
mod neighbors;
mod scan;
#[cfg(test)]
mod tests;

use std::cell::Cell;

use kinema_core::frame::Lattice;
use kinema_core::{Error, ErrorKind, Result};

use crate::bins::Bins;
use crate::cpu::Cpu;
use grid::{Grid, Run, Sorted, Stencil};
pub(crate) use neighbors::Neighbors;
use scan::{Binning, PairCounts, Scan, estimate};

/// Distance within which the search for the nearest pair begins, angstrom.
const FIRST_CUTOFF: f64 = 4.0;

/// A pair of points and one of its images.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FoundPair {
    /// Place of a point of the first set.
    pub first: u32,
    /// Place of a point of the second set, or of the same one.
    pub second: u32,
    /// Angstrom.
    pub distance: f64,
    /// How many times each edge of the cell is added to the second point.
    pub shift: [i32; 3],
}

/// Which images of a pair are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairImages {
    /// The nearest one.
    Minimum,
    /// Each one, also of a point and its own images.
    All,
}

/// Buffers for the search, which a worker keeps from frame to frame.
#[derive(Debug, Default)]
pub struct CellList {
    grid: Grid,
    first: Sorted,
    second: Sorted,
    stencil: Stencil,
    runs: Vec<Run>,
    /// Places of a home and of a point of a run that may be near each other.
    candidates: Vec<[u32; 2]>,
    /// Neighbours of one home.
    neighbors: Neighbors,
    near_cells: Vec<bool>,
    unsorted: Vec<FoundPair>,
    starts: Vec<u32>,
    examined: u64,
    /// Loops of the baseline build, whatever the processor has.
    is_plain: bool,
}

/// The points from whose cells a search starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Homes {
    First,
    Second,
}

impl CellList {
    /// A list whose loops are those of the baseline build.
    #[cfg(test)]
    fn plain() -> Self {
        Self { is_plain: true, ..Self::default() }
    }

    fn cpu(&self) -> Cpu {
        if self.is_plain { Cpu::baseline() } else { Cpu::detect() }
    }

    /// Number of pairs whose distance was estimated, since it was made.
    pub fn examined(&self) -> u64 {
        self.examined
    }

    /// Pairs of a point of `first` and one of `second` (n x 3, angstrom) at most `cutoff` apart, in the order of both.
    ///
    /// # Errors
    /// `Corrupt` for a position that is not finite or too far outside of the cell: [`is_usable`].
    pub fn between(
        &mut self,
        lattice: &Lattice,
        first: &[f32],
        second: &[f32],
        cutoff: f64,
        images: PairImages,
        found: &mut Vec<FoundPair>,
    ) -> Result<()> {
        let mut unsorted = std::mem::take(&mut self.unsorted);
        unsorted.clear();
        let edges = *lattice.of_edges();
        self.visit_between(lattice, first, second, cutoff, |pair| unsorted.push(pair.with_edges(&edges)))?;
        self.sort(&unsorted, first.len() / 3, found);
        self.unsorted = unsorted;
        keep_images(lattice, cutoff, images, found);
        Ok(())
    }

    /// Pairs of two of `points` at most `cutoff` apart, each once with the first place below the second. With all images
    /// also a point with its own images, each of these once.
    ///
    /// # Errors
    /// As [`CellList::between`].
    pub fn within(
        &mut self,
        lattice: &Lattice,
        points: &[f32],
        cutoff: f64,
        images: PairImages,
        found: &mut Vec<FoundPair>,
    ) -> Result<()> {
        let mut unsorted = std::mem::take(&mut self.unsorted);
        unsorted.clear();
        let edges = *lattice.of_edges();
        self.visit_within(lattice, points, cutoff, |pair| {
            let found = pair.with_edges(&edges);
            unsorted.push(if found.first <= found.second { found } else { found.exchanged() });
        })?;
        self.sort(&unsorted, points.len() / 3, found);
        self.unsorted = unsorted;
        keep_images(lattice, cutoff, images, found);
        if images == PairImages::Minimum {
            found.retain(|pair| pair.first != pair.second);
        }
        Ok(())
    }

    /// Calls `see` with every pair of a point of `first` and one of `second` at most `cutoff` apart, and each of its
    /// images, in any order: for counts and least distances.
    ///
    /// # Errors
    /// As [`CellList::between`].
    pub fn visit_between(
        &mut self,
        lattice: &Lattice,
        first: &[f32],
        second: &[f32],
        cutoff: f64,
        mut see: impl FnMut(Near),
    ) -> Result<()> {
        if first.is_empty() || second.is_empty() {
            return Ok(());
        }
        self.grid.set(lattice, cutoff, [first, second])?;
        self.first.sort(&self.grid, first, |_| true)?;
        self.second.sort(&self.grid, second, |_| true)?;
        self.stencil.set(&self.grid, false);
        self.search(cutoff, Homes::First, |_| true, &mut see);
        Ok(())
    }

    /// Calls `see` with every pair of two points at most `cutoff` apart, and each of its images, once, in any order; also
    /// with a point and its own images.
    ///
    /// # Errors
    /// As [`CellList::between`].
    pub fn visit_within(
        &mut self,
        lattice: &Lattice,
        points: &[f32],
        cutoff: f64,
        mut see: impl FnMut(Near),
    ) -> Result<()> {
        if points.is_empty() {
            return Ok(());
        }
        self.grid.set(lattice, cutoff, [points, &[]])?;
        self.second.sort(&self.grid, points, |_| true)?;
        self.stencil.set(&self.grid, true);
        self.search(cutoff, Homes::Second, |_| true, &mut see);
        Ok(())
    }

    /// Calls `see` once with each point of `first`: its place, and the points of `second` near it, each image, in any
    /// order: all that are at most `cutoff` away, and some that are little farther. Points come in any order. A point that
    /// is in both sets is near itself, exactly at its place.
    ///
    /// # Errors
    /// As [`CellList::between`].
    pub(crate) fn visit_each(
        &mut self,
        lattice: &Lattice,
        [first, second]: [&[f32]; 2],
        cutoff: f64,
        mut see: impl FnMut(u32, &Neighbors),
    ) -> Result<()> {
        if first.is_empty() || second.is_empty() {
            return Ok(());
        }
        self.grid.set(lattice, cutoff, [first, second])?;
        self.first.sort(&self.grid, first, |_| true)?;
        self.second.sort(&self.grid, second, |_| true)?;
        self.stencil.set(&self.grid, false);
        let cpu = self.cpu();
        let (homes, others) = (&self.first, &self.second);
        let scan = Scan { cpu, homes, others, limit: estimate(&self.grid, cutoff) };
        for cell in homes.occupied() {
            self.stencil.find_runs(&self.grid, others, cell, &mut self.runs);
            for home in homes.in_cell(cell) {
                self.neighbors.clear();
                for run in &self.runs {
                    self.examined += scan.neighbors(home, run, &mut self.neighbors);
                }
                see(homes.number(home), &self.neighbors);
            }
        }
        Ok(())
    }

    /// Counts the pairs of a point of `first` and one of `second`, and each of their images, in bins of their distance.
    /// `row` is where the bins of a pair begin in `counts`, given the places of both points; `None` if it does not count.
    ///
    /// # Errors
    /// As [`CellList::between`].
    pub(crate) fn count_between(
        &mut self,
        lattice: &Lattice,
        [first, second]: [&[f32]; 2],
        bins: &Bins,
        row: impl Fn(u32, u32) -> Option<usize>,
        counts: &mut [u64],
    ) -> Result<()> {
        if first.is_empty() || second.is_empty() {
            return Ok(());
        }
        self.grid.set(lattice, bins.edge(bins.len()), [first, second])?;
        self.first.sort(&self.grid, first, |_| true)?;
        self.second.sort(&self.grid, second, |_| true)?;
        self.stencil.set(&self.grid, false);
        self.count(bins, Homes::First, row, counts);
        Ok(())
    }

    /// Counts the pairs of two of `points`, each once, as [`CellList::count_between`]; also a point with its own images.
    ///
    /// # Errors
    /// As [`CellList::between`].
    pub(crate) fn count_within(
        &mut self,
        lattice: &Lattice,
        points: &[f32],
        bins: &Bins,
        row: impl Fn(u32, u32) -> Option<usize>,
        counts: &mut [u64],
    ) -> Result<()> {
        if points.is_empty() {
            return Ok(());
        }
        self.grid.set(lattice, bins.edge(bins.len()), [points, &[]])?;
        self.second.sort(&self.grid, points, |_| true)?;
        self.stencil.set(&self.grid, true);
        self.count(bins, Homes::Second, row, counts);
        Ok(())
    }

    /// Counts the pairs of the sorted points: of a home and one of the second set.
    fn count(&mut self, bins: &Bins, homes: Homes, row: impl Fn(u32, u32) -> Option<usize>, counts: &mut [u64]) {
        let cpu = self.cpu();
        let homes = if homes == Homes::First { &self.first } else { &self.second };
        let limit = estimate(&self.grid, bins.edge(bins.len()));
        let scan = Scan { cpu, homes, others: &self.second, limit };
        let binning = Binning::new(&self.grid, bins);
        let mut found = PairCounts { counts, unsure: std::mem::take(&mut self.candidates) };
        for cell in homes.occupied() {
            self.stencil.find_runs(&self.grid, &self.second, cell, &mut self.runs);
            for run in &self.runs {
                self.examined += scan.count(homes.in_cell(cell), run, &binning, &row, &mut found);
                for &[home, other] in &found.unsure {
                    let near = self.grid.decide(homes, home as usize, &self.second, other as usize, run.counts);
                    if let (Some(bin), Some(row)) = (bins.number(near.distance), row(near.first, near.second)) {
                        found.counts[row + bin as usize] += 1;
                    }
                }
            }
        }
        self.candidates = found.unsure;
    }

    /// Which of `points` have a point of `reference` at most `cutoff` away. A point that is one of the reference has.
    ///
    /// # Errors
    /// As [`CellList::between`]; `Internal` if `near` is not as long as there are points.
    pub fn any_within(
        &mut self,
        lattice: &Lattice,
        reference: &[f32],
        points: &[f32],
        cutoff: f64,
        near: &mut [bool],
    ) -> Result<()> {
        near.fill(false);
        if near.len() != points.len() / 3 {
            return Err(Error::new(ErrorKind::Internal, "as many answers as points are needed"));
        }
        if reference.is_empty() || points.is_empty() {
            return Ok(());
        }
        self.grid.set(lattice, cutoff, [reference, points])?;
        self.second.sort(&self.grid, reference, |_| true)?;
        self.stencil.set(&self.grid, false);
        self.stencil.mark_near(&self.grid, &self.second, &mut self.near_cells);
        // points that are in no cell near the reference are left out
        self.first.sort(&self.grid, points, |cell| self.near_cells[cell])?;
        let near = Cell::from_mut(near).as_slice_of_cells();
        self.search(
            cutoff,
            Homes::First,
            |point| !near[point as usize].get(),
            |pair| near[pair.first as usize].set(true),
        );
        Ok(())
    }

    /// Calls `see` with the pairs of the sorted points at most `cutoff` apart: each of a home and one of the second set.
    /// Homes that are not `wanted` are left out.
    fn search(&mut self, cutoff: f64, homes: Homes, wanted: impl Fn(u32) -> bool, mut see: impl FnMut(Near)) {
        let cpu = self.cpu();
        let homes = if homes == Homes::First { &self.first } else { &self.second };
        let scan = Scan { cpu, homes, others: &self.second, limit: estimate(&self.grid, cutoff) };
        for cell in homes.occupied() {
            self.stencil.find_runs(&self.grid, &self.second, cell, &mut self.runs);
            for run in &self.runs {
                self.examined += scan.candidates(homes.in_cell(cell), run, &wanted, &mut self.candidates);
                for &[home, other] in &self.candidates {
                    let near = self.grid.decide(homes, home as usize, &self.second, other as usize, run.counts);
                    if near.distance <= cutoff {
                        see(near);
                    }
                }
            }
        }
    }

    /// The pair of a point of `first` and one of `second` with the least distance; the first such pair if several have
    /// it. `None` if a set is empty.
    ///
    /// # Errors
    /// As [`CellList::between`].
    pub fn nearest(&mut self, lattice: &Lattice, first: &[f32], second: &[f32]) -> Result<Option<FoundPair>> {
        if first.is_empty() || second.is_empty() {
            return Ok(None);
        }
        let edges = *lattice.of_edges();
        let mut cutoff = FIRST_CUTOFF;
        loop {
            let mut best: Option<FoundPair> = None;
            self.visit_between(lattice, first, second, cutoff, |pair| {
                if best.is_none_or(|best| pair.distance <= best.distance) {
                    let found = pair.with_edges(&edges);
                    let before = |best: FoundPair| found.order().cmp(&best.order()).is_lt();
                    if best.is_none_or(|best| found.distance < best.distance || before(best)) {
                        best = Some(found);
                    }
                }
            })?;
            if best.is_some() {
                return Ok(best);
            }
            cutoff *= 4.0;
        }
    }

    /// Puts pairs in the order of both places and of the image.
    fn sort(&mut self, unsorted: &[FoundPair], n_first: usize, found: &mut Vec<FoundPair>) {
        let starts = &mut self.starts;
        starts.clear();
        starts.resize(n_first + 1, 0);
        for pair in unsorted {
            starts[pair.first as usize + 1] += 1;
        }
        for i in 0..n_first {
            starts[i + 1] += starts[i];
        }
        let empty = FoundPair { first: 0, second: 0, distance: 0.0, shift: [0; 3] };
        found.clear();
        found.resize(unsorted.len(), empty);
        for pair in unsorted {
            let at = &mut starts[pair.first as usize];
            found[*at as usize] = *pair;
            *at += 1;
        }
        let mut start = 0;
        for end in starts.iter().take(n_first).map(|end| *end as usize) {
            found[start..end].sort_unstable_by_key(FoundPair::order);
            start = end;
        }
    }
}

/// A pair as it is found: places in the given sets, distance in angstrom, and how many times each vector of the reduced
/// basis is added to the second point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Near {
    /// Place of a point of the first set.
    pub first: u32,
    /// Place of a point of the second set.
    pub second: u32,
    /// Angstrom.
    pub distance: f64,
    counts: [i64; 3],
}

impl Near {
    fn with_edges(self, of_edges: &[[i64; 3]; 3]) -> FoundPair {
        let mut shift = [0; 3];
        for (count, of_edges) in self.counts.iter().zip(of_edges) {
            for (sum, edge) in shift.iter_mut().zip(of_edges) {
                *sum += (count * edge) as i32;
            }
        }
        FoundPair { first: self.first, second: self.second, distance: self.distance, shift }
    }
}

impl FoundPair {
    fn exchanged(self) -> Self {
        let shift = self.shift.map(|count| -count);
        Self { first: self.second, second: self.first, distance: self.distance, shift }
    }

    fn order(&self) -> (u32, u32, [i32; 3]) {
        (self.first, self.second, self.shift)
    }
}

/// Keeps the nearest image of each pair, if several can be within the cutoff.
fn keep_images(lattice: &Lattice, cutoff: f64, images: PairImages, found: &mut Vec<FoundPair>) {
    // two images of a point within the cutoff are at most twice as far apart
    if images == PairImages::All || cutoff * cutoff < 0.999 * lattice.sure() {
        return;
    }
    found.dedup_by(|later, kept| {
        let same = (later.first, later.second) == (kept.first, kept.second);
        if same && later.distance < kept.distance {
            *kept = *later;
        }
        same
    });
}

/// Whether positions can be used: finite, and within 2^30 cells of the origin.
pub fn is_usable(lattice: &Lattice, positions: &[f32]) -> bool {
    positions.as_chunks::<3>().0.iter().all(|point| grid::is_usable(lattice, point.map(f64::from)))
}
