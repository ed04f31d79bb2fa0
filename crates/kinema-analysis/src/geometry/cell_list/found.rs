//! Results of a search: pairs of points and their images.

use kinema_core::frame::Lattice;

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

/// The nearest pair of two sets, and how many are near each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeastDistance {
    /// The first pair with the least distance.
    pub nearest: FoundPair,
    /// Pairs at most the cutoff apart.
    pub n_pairs: u64,
    /// Points of both sets in these.
    pub n_points: u64,
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
    pub(super) counts: [i64; 3],
}

impl Near {
    pub(super) fn exchanged(self) -> Self {
        Self {
            first: self.second,
            second: self.first,
            distance: self.distance,
            counts: self.counts.map(|count| -count),
        }
    }

    pub(super) fn with_edges(self, of_edges: &[[i64; 3]; 3]) -> FoundPair {
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
    pub(super) fn exchanged(self) -> Self {
        let shift = self.shift.map(|count| -count);
        Self { first: self.second, second: self.first, distance: self.distance, shift }
    }

    pub(super) fn order(&self) -> (u32, u32, [i32; 3]) {
        (self.first, self.second, self.shift)
    }
}

/// Whether at most one image of a pair can be within the cutoff.
pub fn has_one_image(lattice: &Lattice, cutoff: f64) -> bool {
    // two images of a point within the cutoff are at most twice as far apart
    cutoff * cutoff < 0.999 * lattice.sure()
}

/// Keeps the nearest image of each pair, if several can be within the cutoff.
pub(super) fn keep_images(lattice: &Lattice, cutoff: f64, images: PairImages, found: &mut Vec<FoundPair>) {
    if images == PairImages::All || has_one_image(lattice, cutoff) {
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
