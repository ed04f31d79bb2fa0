//! Sums over frames for each of many pairs of points: in how many frames they are in contact, and their distances.
//!
//! Pairs lie in runs of one first point and consecutive second ones, so that four are read at once, without a list of
//! atoms. In double precision of single-precision positions, with nearest images in any lattice.

use kinema_core::frame::Lattice;
use kinema_core::{Error, ErrorKind, Result};

use super::nearest_images::{AlongAxes, General, Images, Open};
use super::vectors::{all, difference};
use crate::cpu::{Cpu, dispatch};
use crate::lanes::Quad;

/// Parts of an angstrom in which distances add up: 10^8 frames of 10^3 angstrom fit into 64 bits.
pub const PARTS: f64 = (1 << 24) as f64;
/// Added to a number of parts, it rounds to a whole one, which the last bits then hold.
const WHOLE: f64 = (1_u64 << 52) as f64;
/// Coordinates below it, angstrom, have distances of less than 2^52 parts.
const NEAR: f32 = (1 << 25) as f32;

/// Pairs of points, each of which is one atom.
#[derive(Debug, Clone)]
pub struct PairRuns {
    /// Atom of each point in a row of positions.
    points: Vec<u32>,
    /// Atoms that a row must have.
    reach: usize,
    /// First point, first of the second points, number of these.
    runs: Vec<[usize; 3]>,
}

/// Sums of all frames, one a pair.
#[derive(Debug)]
pub struct ContactSums<'a> {
    /// Frames in contact.
    pub counts: &'a mut [u64],
    /// Distances, [`PARTS`] of an angstrom.
    pub distances: &'a mut [u64],
}

/// Buffers of one worker.
#[derive(Debug, Default)]
pub struct RunScratch {
    /// x, y and z of all points, and some more that are zero.
    placed: [Vec<f64>; 3],
    distances: Vec<[f64; 4]>,
}

impl PairRuns {
    /// Pairs of `points`, by their places among these.
    ///
    /// # Panics
    /// If a pair has a place beyond the points.
    pub fn new(points: Vec<u32>, pairs: &[[u32; 2]]) -> Self {
        let mut runs: Vec<[usize; 3]> = vec![];
        for &[first, second] in pairs {
            let (first, second) = (first as usize, second as usize);
            assert!(first.max(second) < points.len(), "pairs are of points");
            match runs.last_mut() {
                Some([of, start, n]) if *of == first && *start + *n == second => *n += 1,
                _ => runs.push([first, second, 1]),
            }
        }
        let reach = points.iter().max().map_or(0, |&last| last as usize + 1);
        Self { points, reach, runs }
    }

    /// Adds the contacts up to `cutoff`, angstrom, and the distances of a frame; the number of contacts, or nothing if a
    /// position is not finite.
    ///
    /// # Errors
    /// `Internal` if the row lacks an atom, or there are not as many sums as pairs.
    pub fn add(
        &self,
        cpu: Cpu,
        (row, lattice): (&[f32], &Lattice),
        cutoff: f64,
        scratch: &mut RunScratch,
        sums: &mut ContactSums<'_>,
    ) -> Result<Option<u64>> {
        let (found, n) = (row.len() / 3, self.runs.iter().map(|[_, _, n]| n).sum::<usize>());
        if found < self.reach || sums.counts.len() != n || sums.distances.len() != n {
            let what = format!(
                "expected a row of {} atoms and sums of {n} pairs, found {found} and {} and {}",
                self.reach,
                sums.counts.len(),
                sums.distances.len()
            );
            return Err(Error::new(ErrorKind::Internal, what));
        }
        let near = row.iter().fold(true, |near, x| near & (x.abs() < NEAR));
        if !near && !row.iter().all(|x| x.is_finite()) {
            return Ok(None);
        }
        self.place(row, &mut scratch.placed);
        Ok(Some(dispatch!(
            cpu,
            u64,
            add,
            (
                runs: &[[usize; 3]] = &self.runs,
                lattice: &Lattice = lattice,
                limits: (f64, bool) = (cutoff, near),
                scratch: &mut RunScratch = scratch,
                sums: &mut ContactSums<'_> = sums,
            )
        )))
    }

    fn place(&self, row: &[f32], placed: &mut [Vec<f64>; 3]) {
        for (c, to) in placed.iter_mut().enumerate() {
            to.clear();
            to.extend(self.points.iter().map(|atom| f64::from(row[*atom as usize * 3 + c])));
            // four are read from the last one on
            to.extend([0.0; 3]);
        }
    }
}

#[inline(always)]
fn add<Q: Quad>(
    runs: &[[usize; 3]],
    lattice: &Lattice,
    limits: (f64, bool),
    scratch: &mut RunScratch,
    sums: &mut ContactSums<'_>,
) -> u64 {
    if lattice.is_open() {
        add_runs::<Q>(runs, &Open, limits, scratch, sums)
    } else if let Some([edges, inverse]) = lattice.edges_on_axes() {
        add_runs::<Q>(runs, &AlongAxes::new(edges, inverse), limits, scratch, sums)
    } else {
        add_runs::<Q>(runs, &General::new(lattice), limits, scratch, sums)
    }
}

#[inline(always)]
fn add_runs<Q: Quad>(
    runs: &[[usize; 3]],
    images: &impl Images<Q>,
    (cutoff, near): (f64, bool),
    RunScratch { placed: [x, y, z], distances }: &mut RunScratch,
    sums: &mut ContactSums<'_>,
) -> u64 {
    let (mut at, mut n_contacts) = (0, 0);
    for &[first, start, n] in runs {
        let from = all([x[first], y[first], z[first]]);
        distances.resize(n.div_ceil(4), [0.0; 4]);
        let end = start + 4 * distances.len();
        let columns = [&x[start..end], &y[start..end], &z[start..end]].map(|column| column.as_chunks::<4>().0);
        let [x, y, z] = columns;
        for (((x, y), z), to) in x.iter().zip(y).zip(z).zip(&mut *distances) {
            let apart = difference([Q::load(x), Q::load(y), Q::load(z)], from);
            *to = images.shortest_squared(apart).square_root().store();
        }
        let (counts, totals) = (&mut sums.counts[at..at + n], &mut sums.distances[at..at + n]);
        let distances = &distances.as_flattened()[..n];
        for (distance, count) in distances.iter().zip(counts) {
            let contact = u64::from(*distance <= cutoff);
            n_contacts += contact;
            *count += contact;
        }
        for (distance, total) in distances.iter().zip(totals) {
            // to the nearest part
            let parts = distance * PARTS;
            let parts = if near { (parts + WHOLE).to_bits() - WHOLE.to_bits() } else { (parts + 0.5) as u64 };
            *total = total.wrapping_add(parts);
        }
        at += n;
    }
    n_contacts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums of one frame of all pairs of points, in each build.
    fn sums(row: &[f32], cell: [[f64; 3]; 3], cutoff: f64) -> Option<(u64, Vec<u64>, Vec<u64>)> {
        let n = row.len() as u32 / 3;
        let pairs: Vec<[u32; 2]> = (0..n).flat_map(|i| (i + 1..n).map(move |j| [i, j])).collect();
        // points in another order than atoms
        let runs = PairRuns::new((0..n).rev().collect(), &pairs);
        let lattice = Lattice::from_cell(&cell).unwrap();
        let found = [Cpu::detect(), Cpu::baseline()].map(|cpu| {
            let (mut counts, mut distances) = (vec![0; pairs.len()], vec![0; pairs.len()]);
            let mut sums = ContactSums { counts: &mut counts, distances: &mut distances };
            let contacts = runs.add(cpu, (row, &lattice), cutoff, &mut RunScratch::default(), &mut sums).unwrap();
            contacts.map(|contacts| (contacts, counts, distances))
        });
        assert_eq!(found[0], found[1]);
        let [found, _] = found;
        found
    }

    #[test]
    fn each_pair_has_its_distance_in_any_lattice() {
        let row: Vec<f32> = (0..33_u32).map(|i| ((i * 7919 + i * i * 104_729) % 1000) as f32 * 0.011).collect();
        let atoms = row.as_chunks::<3>().0;
        let cells = [
            [[0.0; 3]; 3],
            [[9.0, 0.0, 0.0], [0.0, 8.0, 0.0], [0.0, 0.0, 10.0]],
            [[9.0, 0.0, 0.0], [3.0, 8.0, 0.0], [-2.0, 3.5, 7.0]],
        ];
        for cell in cells {
            let lattice = Lattice::from_cell(&cell).unwrap();
            let (contacts, counts, distances) = sums(&row, cell, 4.5).unwrap();
            let mut at = 0;
            for i in (0..11).rev() {
                for j in (0..i).rev() {
                    let apart = std::array::from_fn(|c| f64::from(atoms[j][c]) - f64::from(atoms[i][c]));
                    let expected = lattice.nearest(apart).iter().map(|x| x * x).sum::<f64>().sqrt();
                    assert_eq!(counts[at], u64::from(expected <= 4.5));
                    assert!((distances[at] as f64 / PARTS - expected).abs() < 0.51 / PARTS);
                    at += 1;
                }
            }
            assert!(contacts > 3 && contacts == counts.iter().sum());
        }
    }

    #[test]
    fn far_points_and_those_that_are_not_finite() {
        let mut row = [0.0, 0.0, 0.0, 3e8, 0.0, 0.0, 4.5, 0.0, 0.0];
        let (contacts, counts, distances) = sums(&row, [[0.0; 3]; 3], 4.5).unwrap();
        // a distance that equals the cutoff is a contact
        assert_eq!((contacts, counts), (1, vec![0, 1, 0]));
        assert_eq!(distances[2], 300_000_000 << 24);
        row[4] = f32::NAN;
        assert_eq!(sums(&row, [[0.0; 3]; 3], 4.5), None);
    }
}
