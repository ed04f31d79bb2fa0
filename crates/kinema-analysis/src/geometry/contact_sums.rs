//! Sums over frames for each of many pairs of points: in how many frames they are in contact, and their distances.
//!
//! Pairs lie in runs of one first point and consecutive second ones, so that four are read at once, without a list of
//! atoms. In double precision of single-precision positions, with nearest images in any lattice.

use kinema_core::frame::Lattice;
use kinema_core::{Error, ErrorKind, Result};

#[cfg(target_arch = "x86_64")]
use super::contacts::square_beyond;
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
/// Coordinates below it, angstrom, have distances of less than 2^13 angstrom, which AVX-512 adds.
#[cfg(target_arch = "x86_64")]
const NEARER: f32 = (1 << 11) as f32;

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
        #[cfg(target_arch = "x86_64")]
        if cpu.is_wider() && lattice.is_open() && cutoff > wider::NEAREST && row.iter().all(|x| x.abs() < NEARER) {
            // SAFETY: `is_wider` is true only if `Cpu::detect` has found AVX-512 on this processor.
            return Ok(Some(unsafe { wider::add(&self.runs, square_beyond(cutoff), &scratch.placed, sums) }));
        }
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
            *total = total.wrapping_add(parts(*distance, near));
        }
        at += n;
    }
    n_contacts
}

/// A distance in parts, to the nearest one.
#[inline(always)]
fn parts(distance: f64, is_near: bool) -> u64 {
    let parts = distance * PARTS;
    if is_near { (parts + WHOLE).to_bits() - WHOLE.to_bits() } else { (parts + 0.5) as u64 }
}

/// The build for AVX-512, which has no square root of eight numbers that is as fast as a few products.
#[cfg(target_arch = "x86_64")]
mod wider {
    use std::arch::x86_64::{
        __m512d, __m512i, _CMP_LT_OQ, _mm512_add_epi64, _mm512_castpd_si512, _mm512_cmp_pd_mask, _mm512_fmadd_pd,
        _mm512_fnmadd_pd, _mm512_loadu_si512, _mm512_mask_storeu_epi64, _mm512_maskz_loadu_epi64,
        _mm512_maskz_loadu_pd, _mm512_mul_pd, _mm512_rsqrt14_pd, _mm512_set1_epi64, _mm512_set1_pd, _mm512_srli_epi64,
        _mm512_storeu_pd, _mm512_sub_pd, _mm512_test_epi64_mask,
    };

    use super::{ContactSums, PARTS, parts};

    const LANES: usize = 8;
    /// Its square is added to each, as zero has no inverse; no other square of single precision changes. Angstrom.
    pub(super) const NEAREST: f64 = 1e-100;
    /// Bits of a part that are computed, to see whether it is rounded well.
    const BITS: u32 = 12;
    /// Added to a number of parts, it rounds to a multiple of 2^-12, which the last bits then hold.
    const WHOLE: f64 = (1_u64 << (52 - BITS)) as f64;
    const HALF: u64 = 1 << (BITS - 1);

    /// The same as `super::add`, without images. All coordinates are below [`super::NEARER`]; `beyond` is the least square
    /// beyond the cutoff.
    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) fn add(runs: &[[usize; 3]], beyond: f64, placed: &[Vec<f64>; 3], sums: &mut ContactSums<'_>) -> u64 {
        let (mut at, mut n_contacts) = (0, 0);
        for &[first, start, n] in runs {
            let from = [placed[0][first], placed[1][first], placed[2][first]];
            let points = [&placed[0][start..start + n], &placed[1][start..start + n], &placed[2][start..start + n]];
            let (counts, totals) = (&mut sums.counts[at..at + n], &mut sums.distances[at..at + n]);
            n_contacts += add_run(points, from, beyond, counts, totals);
            at += n;
        }
        n_contacts
    }

    /// Adds the distances of points from one.
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) fn add_run(
        [x, y, z]: [&[f64]; 3],
        from: [f64; 3],
        beyond: f64,
        counts: &mut [u64],
        totals: &mut [u64],
    ) -> u64 {
        let n = x.len();
        assert!(y.len() == n && z.len() == n && counts.len() == n && totals.len() == n, "a number for each point");
        let from = [_mm512_set1_pd(from[0]), _mm512_set1_pd(from[1]), _mm512_set1_pd(from[2])];
        let (least, beyond) = (_mm512_set1_pd(NEAREST * NEAREST), _mm512_set1_pd(beyond));
        // one more than a half, so that all that is too close to the middle of two parts has the same first bits
        let to_parts = _mm512_set1_epi64((HALF + 1).wrapping_sub(WHOLE.to_bits()) as i64);
        let sure = _mm512_set1_epi64((1 << BITS) - 4);
        let mut n_contacts = 0;
        for at in (0..n).step_by(LANES) {
            let lanes = if n - at < LANES { (1 << (n - at)) - 1 } else { u8::MAX };
            // SAFETY: only these lanes are read and written, which lie within the slices of the same length.
            unsafe {
                let x = _mm512_sub_pd(_mm512_maskz_loadu_pd(lanes, x.as_ptr().add(at)), from[0]);
                let y = _mm512_sub_pd(_mm512_maskz_loadu_pd(lanes, y.as_ptr().add(at)), from[1]);
                let z = _mm512_sub_pd(_mm512_maskz_loadu_pd(lanes, z.as_ptr().add(at)), from[2]);
                let square = _mm512_fmadd_pd(z, z, _mm512_fmadd_pd(y, y, _mm512_fmadd_pd(x, x, least)));
                let scaled = _mm512_fmadd_pd(root(square), _mm512_set1_pd(PARTS), _mm512_set1_pd(WHOLE));
                let scaled = _mm512_add_epi64(_mm512_castpd_si512(scaled), to_parts);
                let mut parts = _mm512_srli_epi64::<BITS>(scaled);
                if _mm512_test_epi64_mask(scaled, sure) != u8::MAX {
                    parts = exactly(square);
                }
                let total = totals.as_mut_ptr().add(at).cast();
                let sum = _mm512_add_epi64(_mm512_maskz_loadu_epi64(lanes, total), parts);
                _mm512_mask_storeu_epi64(total, lanes, sum);
                let near = _mm512_cmp_pd_mask::<_CMP_LT_OQ>(square, beyond) & lanes;
                if near != 0 {
                    n_contacts += u64::from(near.count_ones());
                    let count = counts.as_mut_ptr().add(at).cast();
                    let sum = _mm512_add_epi64(_mm512_maskz_loadu_epi64(near, count), _mm512_set1_epi64(1));
                    _mm512_mask_storeu_epi64(count, near, sum);
                }
            }
        }
        n_contacts
    }

    /// The square root, to 2^-51 of it: an estimate of 2^-14, and three terms of the series of its error.
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    fn root(square: __m512d) -> __m512d {
        let inverse = _mm512_rsqrt14_pd(square);
        let root = _mm512_mul_pd(square, inverse);
        let rest = _mm512_fnmadd_pd(root, inverse, _mm512_set1_pd(1.0));
        let terms = _mm512_fmadd_pd(rest, _mm512_set1_pd(5.0 / 16.0), _mm512_set1_pd(3.0 / 8.0));
        let terms = _mm512_fmadd_pd(terms, rest, _mm512_set1_pd(0.5));
        _mm512_fmadd_pd(_mm512_mul_pd(root, rest), terms, root)
    }

    /// The parts of eight distances as other builds compute them, for those near the middle of two parts.
    #[cold]
    #[target_feature(enable = "avx512f,popcnt")]
    fn exactly(square: __m512d) -> __m512i {
        let mut squares = [0.0; LANES];
        // SAFETY: eight numbers are written into an array of eight.
        unsafe { _mm512_storeu_pd(squares.as_mut_ptr(), square) };
        let of_eight = squares.map(|square| parts(square.sqrt(), true));
        // SAFETY: an array of eight is read.
        unsafe { _mm512_loadu_si512(of_eight.as_ptr().cast()) }
    }
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
        let found = [Cpu::detect(), Cpu::detect().narrower(), Cpu::baseline()].map(|cpu| {
            let (mut counts, mut distances) = (vec![0; pairs.len()], vec![0; pairs.len()]);
            let mut sums = ContactSums { counts: &mut counts, distances: &mut distances };
            let contacts = runs.add(cpu, (row, &lattice), cutoff, &mut RunScratch::default(), &mut sums).unwrap();
            contacts.map(|contacts| (contacts, counts, distances))
        });
        assert_eq!(found[0], found[1]);
        assert_eq!(found[1], found[2]);
        let [found, _, _] = found;
        found
    }

    #[test]
    fn each_pair_has_its_distance_in_any_lattice() {
        let row: Vec<f32> = (0..33_u32).map(|i| ((i * 7919 + i * i * 104_729) % 1000) as f32 * 0.011).collect();
        let cells = [
            [[0.0; 3]; 3],
            [[9.0, 0.0, 0.0], [0.0, 8.0, 0.0], [0.0, 0.0, 10.0]],
            [[9.0, 0.0, 0.0], [3.0, 8.0, 0.0], [-2.0, 3.5, 7.0]],
        ];
        // far from the origin, fewer lanes are used
        let far: Vec<f32> = row.iter().map(|x| x + 4096.0).collect();
        for (row, cell) in cells.into_iter().flat_map(|cell| [(&row, cell), (&far, cell)]) {
            let atoms = row.as_chunks::<3>().0;
            let lattice = Lattice::from_cell(&cell).unwrap();
            let (contacts, counts, distances) = sums(row, cell, 4.5).unwrap();
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
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn avx_512_rounds_distances_as_square_roots_do() {
        if !Cpu::detect().is_wider() {
            return;
        }
        for n in 1..60_usize {
            // beside the middle of two parts, on it, far from it, and zero
            let place = |i: usize| {
                let parts = (((n * 7919 + i * 104_729) % 100_000) as f64 * 0.0123 * PARTS).floor();
                let middle = (parts + 0.5) / PARTS;
                [middle, middle.next_up(), middle.next_down(), middle * (1.0 + 1e-13), parts / PARTS, 0.0][i % 6]
            };
            let (x, zeros): (Vec<f64>, _) = ((0..n).map(place).collect(), vec![0.0; n]);
            let (mut counts, mut totals) = (vec![2; n], vec![3; n]);
            let beyond = square_beyond(8.0);
            // SAFETY: AVX-512 has been found on this processor.
            let found = unsafe { wider::add_run([&zeros, &x, &zeros], [0.0; 3], beyond, &mut counts, &mut totals) };
            let roots: Vec<f64> = x.iter().map(|x| (x * x).sqrt()).collect();
            assert_eq!(totals, roots.iter().map(|root| 3 + parts(*root, true)).collect::<Vec<_>>());
            assert_eq!(counts, roots.iter().map(|root| 2 + u64::from(*root <= 8.0)).collect::<Vec<_>>());
            assert_eq!(found + 2 * n as u64, counts.iter().sum());
        }
    }
}
