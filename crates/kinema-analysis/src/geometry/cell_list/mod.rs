//! Pairs of points within a cutoff, in any lattice: points are sorted into cells, and near cells are compared.
//!
//! The lattice may have any shape, and one, two or three of its edges may be open. The cutoff may be of any size: beyond
//! half of the shortest lattice vector, a pair has several images. Distances are estimated in single precision, eight at
//! a time; every pair that may be within the cutoff is then decided in double precision, so that the pairs are those of
//! brute force: `displacement - sum count * basis vector`, counts subtracted one basis vector after the other.

mod binning;
mod bounds;
mod found;
mod grid;
mod least;
mod neighbors;
mod ordered;
mod scan;
mod sorted;
mod stencil;
#[cfg(test)]
mod tests;
mod vicinity;

use kinema_core::frame::Lattice;
use kinema_core::{Error, ErrorKind, Result};

use crate::cpu::Cpu;
use crate::lanes::EIGHT;
use binning::NearPairs;
use found::keep_images;
pub use found::{FoundPair, LeastDistance, Near, PairImages, has_one_image};
use grid::{Cells, Grid};
use least::PairSummary;
pub(crate) use neighbors::Neighbors;
use ordered::Ordered;
use scan::{Hits, Scan};
use sorted::Sorted;
use stencil::{Run, Stencil};
use vicinity::Vicinity;

/// If a set is this many times larger than the other one, its far points are not sorted.
const MUCH_LARGER: usize = 2;

/// Buffers for the search, which a worker keeps from frame to frame.
#[derive(Debug, Default)]
pub struct CellList {
    grid: Grid,
    first: Sorted,
    second: Sorted,
    stencil: Stencil,
    runs: Vec<Run>,
    vicinity: Vicinity,
    hits: Hits,
    ordered: Ordered,
    summary: PairSummary,
    neighbors: Neighbors,
    /// Places of a home and of a point of a run whose bin is not sure.
    unsure: Vec<[u32; 2]>,
    near_pairs: NearPairs,
    near_cells: Vec<bool>,
    /// Which points of a vicinity are near a home, eight at a time.
    marks: Vec<u8>,
    unsorted: Vec<FoundPair>,
    starts: Vec<u32>,
    /// Pairs whose distance was estimated, without the vicinities'.
    examined: u64,
    /// Loops of the baseline build, whatever the processor has.
    is_plain: bool,
}

/// The points from whose cells a search starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Homes {
    First,
    Second,
    /// The second set, which is compared with itself.
    Both,
}

impl Homes {
    /// The homes, and the points that they are compared with.
    fn of<'a>(self, first: &'a Sorted, second: &'a Sorted) -> (&'a Sorted, &'a Sorted) {
        match self {
            Self::First => (first, second),
            Self::Second => (second, first),
            Self::Both => (second, second),
        }
    }
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
        self.examined + self.vicinity.examined
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
        self.sort_both(lattice, [first, second], cutoff, Cells::Vicinities)?;
        if first.len() <= second.len() {
            self.search(cutoff, Homes::First, &mut see);
        } else {
            self.search(cutoff, Homes::Second, |near| see(near.exchanged()));
        }
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
        self.grid.set(lattice, cutoff, [points, &[]], Cells::Vicinities)?;
        self.second.sort(self.cpu(), &self.grid, points, None)?;
        self.stencil.set(&self.grid, true);
        self.search(cutoff, Homes::Both, &mut see);
        Ok(())
    }

    /// Calls `see` once with each point of `first` that has points of `second` near it: its place, and these, each image, in
    /// any order: all that are at most `cutoff` away, and some that are little farther. Points come in any order; some that
    /// have none come as well. A point that is in both sets is near itself, exactly at its place.
    /// Errors as [`CellList::between`].
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
        let homes = if first == second {
            self.sort_one(lattice, second, cutoff)?;
            Homes::Both
        } else {
            self.sort_both(lattice, [first, second], cutoff, Cells::Vicinities)?;
            Homes::First
        };
        let scan = Scan::new(self.cpu(), &self.grid, homes.of(&self.first, &self.second), cutoff);
        self.neighbors.error = bounds::of_difference(&self.grid, cutoff);
        self.vicinity.each(&scan, &self.stencil, &mut self.runs, |homes, vicinity| {
            for home in homes {
                self.neighbors.find(&scan, home, vicinity);
                see(scan.homes.number(home), &self.neighbors);
            }
        });
        Ok(())
    }

    /// Calls `see` with each point of `first` that has points of `second` at most `cutoff` away, by ascending places: with
    /// its place, with the ascending places of these points, and with the distances of their nearest images.
    ///
    /// # Errors
    /// As [`CellList::between`].
    pub fn neighbors_between(
        &mut self,
        lattice: &Lattice,
        first: &[f32],
        second: &[f32],
        cutoff: f64,
        see: impl FnMut(u32, &[u32], &[f64]),
    ) -> Result<()> {
        if first.is_empty() || second.is_empty() {
            return Ok(());
        }
        if first == second {
            return self.neighbors_of_one(lattice, first, cutoff, false, see);
        }
        self.sort_both(lattice, [first, second], cutoff, Cells::Vicinities)?;
        self.order(cutoff, Homes::First, [first.len() / 3, second.len() / 3], false);
        self.ordered.visit(see);
        Ok(())
    }

    /// The same for pairs of two of `points`: of each pair the lower place is first. Each pair is estimated twice.
    ///
    /// # Errors
    /// As [`CellList::between`].
    pub fn neighbors_within(
        &mut self,
        lattice: &Lattice,
        points: &[f32],
        cutoff: f64,
        see: impl FnMut(u32, &[u32], &[f64]),
    ) -> Result<()> {
        if points.is_empty() {
            return Ok(());
        }
        self.neighbors_of_one(lattice, points, cutoff, true, see)
    }

    fn neighbors_of_one(
        &mut self,
        lattice: &Lattice,
        points: &[f32],
        cutoff: f64,
        only_higher: bool,
        see: impl FnMut(u32, &[u32], &[f64]),
    ) -> Result<()> {
        self.sort_one(lattice, points, cutoff)?;
        self.order(cutoff, Homes::Both, [points.len() / 3; 2], only_higher);
        self.ordered.visit(see);
        Ok(())
    }

    /// Sorts a set that is compared with itself, as the second one.
    fn sort_one(&mut self, lattice: &Lattice, points: &[f32], cutoff: f64) -> Result<()> {
        self.grid.set(lattice, cutoff, [points, &[]], Cells::Vicinities)?;
        self.stencil.set(&self.grid, false);
        self.second.sort(self.cpu(), &self.grid, points, None)
    }

    /// Sorts two sets, of a much larger one only the points in cells near the other.
    fn sort_both(&mut self, lattice: &Lattice, [first, second]: [&[f32]; 2], cutoff: f64, size: Cells) -> Result<()> {
        let cpu = self.cpu();
        let Self { grid, stencil, near_cells, .. } = self;
        grid.set(lattice, cutoff, [first, second], size)?;
        stencil.set(grid, false);
        let (few, many, of_few, of_many) = if first.len() <= second.len() {
            (first, second, &mut self.first, &mut self.second)
        } else {
            (second, first, &mut self.second, &mut self.first)
        };
        of_few.sort(cpu, grid, few, None)?;
        if few.len() > many.len() / MUCH_LARGER {
            return of_many.sort(cpu, grid, many, None);
        }
        stencil.mark_near(grid, of_few, near_cells);
        of_many.sort(cpu, grid, many, Some(near_cells))
    }

    /// Finds all neighbours of homes, or only neighbours of a higher place.
    fn order(&mut self, cutoff: f64, homes: Homes, [n_first, n_second]: [usize; 2], only_higher: bool) {
        self.ordered.clear(n_first, n_second);
        let scan = Scan::new(self.cpu(), &self.grid, homes.of(&self.first, &self.second), cutoff);
        self.vicinity.each(&scan, &self.stencil, &mut self.runs, |homes, vicinity| {
            scan.find(homes, vicinity, only_higher, &mut self.hits);
            for groups in self.hits.groups.chunk_by(|one, other| one.home == other.home) {
                let range = groups[0].hits.start..groups[groups.len() - 1].hits.end;
                let found = (&self.hits, range, groups.len() == 1);
                self.ordered.add(scan.homes.number(groups[0].home as usize), found, &scan.others.numbers);
            }
        });
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
        self.sort_both(lattice, [reference, points], cutoff, Cells::Vicinities)?;
        let scan = Scan::new(self.cpu(), &self.grid, (&self.first, &self.second), cutoff);
        let sure = bounds::sure(&self.grid, cutoff);
        self.vicinity.each(&scan, &self.stencil, &mut self.runs, |homes, vicinity| {
            self.marks.clear();
            self.marks.resize(vicinity.len() / EIGHT, 0);
            scan.mark(homes, vicinity, sure, &mut self.marks);
            vicinity.each_marked(&self.marks, |_, number| near[number] = true);
        });
        Ok(())
    }

    /// Calls `see` with the pairs of the sorted points at most `cutoff` apart: each of a home and one of the other set.
    fn search(&mut self, cutoff: f64, homes: Homes, mut see: impl FnMut(Near)) {
        let scan = Scan::new(self.cpu(), &self.grid, homes.of(&self.first, &self.second), cutoff);
        self.vicinity.each(&scan, &self.stencil, &mut self.runs, |homes, vicinity| {
            scan.find(homes, vicinity, false, &mut self.hits);
            for group in &self.hits.groups {
                for hit in group.hits.clone() {
                    see(scan.pair(group, hit, &self.hits));
                }
            }
        });
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

/// Whether positions can be used: finite, and within 2^23 cells of the origin.
pub fn is_usable(lattice: &Lattice, positions: &[f32]) -> bool {
    positions.as_chunks::<3>().0.iter().all(|point| grid::is_usable(lattice, point.map(f64::from)))
}
