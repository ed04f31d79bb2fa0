//! Sums over frames for each of many pairs of points: in how many frames they are in contact, and their distances.
//!
//! Pairs lie in runs of one first point and consecutive second ones, so that four are read at once, without a list of
//! atoms. In double precision of single-precision positions, with nearest images in any lattice. Contacts alone need no
//! square root.

use kinema_core::frame::Lattice;
use kinema_core::{Error, ErrorKind, Result};

use super::contacts::square_beyond;
use super::nearest_images::{AlongAxes, General, Images, Open};
use super::vectors::{all, difference};
use crate::cpu::{Cpu, dispatch};
use crate::lanes::Quad;

/// Parts of an angstrom in which distances add up: 10^8 frames of 10^3 angstrom fit into 64 bits.
pub const PARTS: f64 = (1 << 24) as f64;
/// A contact in a sum of distances and contacts: distances of [`MOST_TOGETHER`] frames, each below 2^13 angstrom, are less.
pub const COUNT: u64 = 1 << 48;
/// Frames of such a sum.
pub const MOST_TOGETHER: u64 = 1 << 10;
/// Added to a number of parts, it rounds to a whole one, which the last bits then hold.
const WHOLE: f64 = (1_u64 << 52) as f64;
/// Places after the last point: eight are read from each place.
const MORE: usize = 7;
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

/// The limit of a contact, and whether distances are added.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// Largest distance of a contact, angstrom.
    pub cutoff: f64,
    /// Without it, sums of distances stay as they are.
    pub distances: bool,
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
    /// x, y and z of all points, and some more that are zero; frame by frame. Angstrom, or parts of one.
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

    /// Adds the contacts and the distances of a frame; the number of contacts, or nothing if a position is not finite.
    ///
    /// # Errors
    /// `Internal` if the row lacks an atom, or there are not as many sums as pairs.
    pub fn add(
        &self,
        cpu: Cpu,
        (row, lattice): (&[f32], &Lattice),
        measured: Measured,
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
        self.place(&[row], 1.0, &mut scratch.placed);
        Ok(Some(dispatch!(
            cpu,
            u64,
            add,
            (
                runs: &[[usize; 3]] = &self.runs,
                lattice: &Lattice = lattice,
                measured: (Measured, bool) = (measured, near),
                scratch: &mut RunScratch = scratch,
                sums: &mut ContactSums<'_> = sums,
            )
        )))
    }

    /// The same of frames without a cell, whose numbers of contacts are added to `contacts`: a few pairs of all frames at a
    /// time. Returns false, and adds nothing, if this processor or these positions require frame by frame. Sums, of at most
    /// [`MOST_TOGETHER`] frames, hold the distance, and [`COUNT`] for each contact.
    pub fn add_together(
        &self,
        cpu: Cpu,
        rows: &[&[f32]],
        Measured { cutoff, distances }: Measured,
        scratch: &mut RunScratch,
        (sums, contacts): (&mut [u64], &mut [u64]),
    ) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            let near = |row: &&[f32]| row.iter().fold(true, |near, x| near & (x.abs() < NEARER));
            let are_whole = rows.iter().all(|row| row.len() / 3 >= self.reach) && contacts.len() == rows.len();
            if cpu.is_wider() && cutoff > wider::NEAREST && are_whole && rows.iter().all(near) {
                self.place(rows, PARTS, &mut scratch.placed);
                let stride = self.points.len() + MORE;
                let add = if distances { wider::add::<true> } else { wider::add::<false> };
                let beyond = square_beyond(cutoff) * PARTS * PARTS;
                // SAFETY: `is_wider` is true only if `Cpu::detect` has found AVX-512 on this processor.
                unsafe { add(&self.runs, beyond, (&scratch.placed, stride), sums, contacts) };
                return true;
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (cpu, rows, cutoff, distances, scratch, sums, contacts);
        false
    }

    /// Writes the coordinates of the points of each frame times a power of two, and [`MORE`] zeros.
    fn place(&self, rows: &[&[f32]], factor: f64, placed: &mut [Vec<f64>; 3]) {
        let stride = self.points.len() + MORE;
        for (c, to) in placed.iter_mut().enumerate() {
            to.resize(rows.len() * stride, 0.0);
            for (row, to) in rows.iter().zip(to.chunks_exact_mut(stride)) {
                let (to, zeros) = to.split_at_mut(self.points.len());
                for (atom, to) in self.points.iter().zip(to) {
                    *to = factor * f64::from(row[*atom as usize * 3 + c]);
                }
                zeros.fill(0.0);
            }
        }
    }
}

#[inline(always)]
fn add<Q: Quad>(
    runs: &[[usize; 3]],
    lattice: &Lattice,
    measured: (Measured, bool),
    scratch: &mut RunScratch,
    sums: &mut ContactSums<'_>,
) -> u64 {
    if lattice.is_open() {
        add_runs::<Q>(runs, &Open, measured, scratch, sums)
    } else if let Some([edges, inverse]) = lattice.edges_on_axes() {
        add_runs::<Q>(runs, &AlongAxes::new(edges, inverse), measured, scratch, sums)
    } else {
        add_runs::<Q>(runs, &General::new(lattice), measured, scratch, sums)
    }
}

#[inline(always)]
fn add_runs<Q: Quad>(
    runs: &[[usize; 3]],
    images: &impl Images<Q>,
    (measured, near): (Measured, bool),
    RunScratch { placed: [x, y, z], distances }: &mut RunScratch,
    sums: &mut ContactSums<'_>,
) -> u64 {
    let (mut at, mut n_contacts) = (0, 0);
    // of distances, or of their squares
    let most = if measured.distances { measured.cutoff } else { square_beyond(measured.cutoff).next_down() };
    for &[first, start, n] in runs {
        let from = all([x[first], y[first], z[first]]);
        distances.resize(n.div_ceil(4), [0.0; 4]);
        let end = start + 4 * distances.len();
        let columns = [&x[start..end], &y[start..end], &z[start..end]].map(|column| column.as_chunks::<4>().0);
        let [x, y, z] = columns;
        for (((x, y), z), to) in x.iter().zip(y).zip(z).zip(&mut *distances) {
            let apart = difference([Q::load(x), Q::load(y), Q::load(z)], from);
            let square = images.shortest_squared(apart);
            *to = if measured.distances { square.square_root() } else { square }.store();
        }
        let (counts, totals) = (&mut sums.counts[at..at + n], &mut sums.distances[at..at + n]);
        let distances = &distances.as_flattened()[..n];
        for (distance, count) in distances.iter().zip(counts) {
            let contact = u64::from(*distance <= most);
            n_contacts += contact;
            *count += contact;
        }
        if measured.distances {
            for (distance, total) in distances.iter().zip(totals) {
                *total = total.wrapping_add(parts(*distance, near));
            }
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
        __m512d, __m512i, _CMP_LT_OQ, _mm512_add_epi64, _mm512_castpd_si512, _mm512_fmadd_pd, _mm512_fnmadd_pd,
        _mm512_loadu_pd, _mm512_loadu_si512, _mm512_mask_add_epi64, _mm512_mask_cmp_pd_mask, _mm512_mask_storeu_epi64,
        _mm512_maskz_loadu_epi64, _mm512_mul_pd, _mm512_rsqrt14_pd, _mm512_set1_epi64, _mm512_set1_pd,
        _mm512_srli_epi64, _mm512_storeu_pd, _mm512_sub_pd, _mm512_testn_epi64_mask,
    };

    use super::{COUNT, MORE, PARTS, parts};

    const LANES: usize = 8;
    /// Its square is added to each, as zero has no inverse; no other square of single precision changes. Angstrom.
    pub(super) const NEAREST: f64 = 1e-100;
    /// Bits of a part that are computed, to see whether it is rounded well.
    const BITS: u32 = 12;
    /// Added to a number of parts, it rounds to a multiple of 2^-12, which the last bits then hold, and adds a half: the bits
    /// before these are the nearest number of parts. It adds one more multiple than a half, so that all that is too close
    /// to the middle of two parts has the same last bits but two.
    const WHOLE: f64 = (1_u64 << (52 - BITS)) as f64 + 0.5 + 1.0 / (1 << BITS) as f64;
    /// The bits of no parts.
    const NONE: u64 = WHOLE.to_bits() >> BITS;

    /// The same as `super::add`, without images, of several frames. Columns of `placed`, in parts of an angstrom, have
    /// `stride` places for each. All coordinates are below [`super::NEARER`]; `beyond` is the least square beyond the cutoff.
    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) fn add<const DISTANCES: bool>(
        runs: &[[usize; 3]],
        beyond: f64,
        (placed, stride): (&[Vec<f64>; 3], usize),
        mut sums: &mut [u64],
        contacts: &mut [u64],
    ) {
        for &[first, start, n] in runs {
            let (of_run, others) = sums.split_at_mut(n);
            add_run::<DISTANCES>(placed, [stride, first, start], beyond, of_run, contacts);
            sums = others;
        }
    }

    /// Adds the distances of points from one, in all frames.
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) fn add_run<const DISTANCES: bool>(
        placed: &[Vec<f64>; 3],
        [stride, first, start]: [usize; 3],
        beyond: f64,
        sums: &mut [u64],
        contacts: &mut [u64],
    ) {
        let n = sums.len();
        assert!(first < stride && start + n + MORE <= stride, "a place for each point");
        assert!(placed.iter().all(|column| column.len() >= stride * contacts.len()), "places in each frame");
        let [x, y, z] = placed.each_ref().map(|column| column.as_ptr());
        let (least, beyond) = (_mm512_set1_pd(NEAREST * NEAREST * PARTS * PARTS), _mm512_set1_pd(beyond));
        let n_added = if DISTANCES { contacts.len() as u64 } else { 0 };
        let none = _mm512_set1_epi64((n_added * NONE).wrapping_neg().cast_signed());
        let sure = _mm512_set1_epi64((1 << BITS) - 4);
        for at in (0..n).step_by(LANES) {
            let lanes = if n - at < LANES { (1 << (n - at)) - 1 } else { u8::MAX };
            // SAFETY: only the lanes of the run are read, which lie within its sums.
            let mut sum =
                _mm512_add_epi64(none, unsafe { _mm512_maskz_loadu_epi64(lanes, sums.as_ptr().add(at).cast()) });
            for (frame, contacts) in contacts.iter_mut().enumerate() {
                let (from, to) = (frame * stride + first, frame * stride + start + at);
                // SAFETY: the eight places from `to` on are at most `MORE` beyond the `n` of the run: within the stride of
                // the frame, which lies within the columns.
                let [x, y, z] = unsafe {
                    [
                        _mm512_sub_pd(_mm512_loadu_pd(x.add(to)), _mm512_set1_pd(*x.add(from))),
                        _mm512_sub_pd(_mm512_loadu_pd(y.add(to)), _mm512_set1_pd(*y.add(from))),
                        _mm512_sub_pd(_mm512_loadu_pd(z.add(to)), _mm512_set1_pd(*z.add(from))),
                    ]
                };
                let square = _mm512_fmadd_pd(z, z, _mm512_fmadd_pd(y, y, _mm512_fmadd_pd(x, x, least)));
                if DISTANCES {
                    let scaled = _mm512_castpd_si512(root_and_whole(square));
                    let mut parts = _mm512_srli_epi64::<BITS>(scaled);
                    if _mm512_testn_epi64_mask(scaled, sure) != 0 {
                        parts = exactly(square);
                    }
                    sum = _mm512_add_epi64(sum, parts);
                }
                let near = _mm512_mask_cmp_pd_mask::<_CMP_LT_OQ>(lanes, square, beyond);
                sum = _mm512_mask_add_epi64(sum, near, sum, _mm512_set1_epi64(COUNT.cast_signed()));
                *contacts += u64::from(near.count_ones());
            }
            // SAFETY: only the lanes of the run are written, which lie within its sums.
            unsafe { _mm512_mask_storeu_epi64(sums.as_mut_ptr().add(at).cast(), lanes, sum) };
        }
    }

    /// The square root, to 2^-51 of it, plus [`WHOLE`]: an estimate of 2^-14, and three terms of the series of its error.
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    fn root_and_whole(square: __m512d) -> __m512d {
        let inverse = _mm512_rsqrt14_pd(square);
        let root = _mm512_mul_pd(square, inverse);
        let rest = _mm512_fnmadd_pd(root, inverse, _mm512_set1_pd(1.0));
        let terms = _mm512_fmadd_pd(rest, _mm512_set1_pd(5.0 / 16.0), _mm512_set1_pd(3.0 / 8.0));
        let terms = _mm512_fmadd_pd(terms, rest, _mm512_set1_pd(0.5));
        _mm512_fmadd_pd(root, _mm512_fmadd_pd(terms, rest, _mm512_set1_pd(1.0)), _mm512_set1_pd(WHOLE))
    }

    /// The parts of eight distances as other builds compute them, for those near the middle of two parts.
    #[cold]
    #[target_feature(enable = "avx512f,popcnt")]
    fn exactly(square: __m512d) -> __m512i {
        let mut squares = [0.0; LANES];
        // SAFETY: eight numbers are written into an array of eight.
        unsafe { _mm512_storeu_pd(squares.as_mut_ptr(), square) };
        let of_eight = squares.map(|square| NONE + parts(square.sqrt() / PARTS, true));
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
            let measured = Measured { cutoff, distances: true };
            let contacts = runs.add(cpu, (row, &lattice), measured, &mut RunScratch::default(), &mut sums).unwrap();
            contacts.map(|contacts| (contacts, counts, distances))
        });
        assert_eq!(found[0], found[1]);
        assert_eq!(found[1], found[2]);
        let [found, _, _] = found;
        if let Some((contacts, counts, _)) = &found {
            // contacts alone
            let (mut alone, mut none) = (vec![0; pairs.len()], vec![0; pairs.len()]);
            let mut sums = ContactSums { counts: &mut alone, distances: &mut none };
            let measured = Measured { cutoff, distances: false };
            let mut scratch = RunScratch::default();
            let of_these = runs.add(Cpu::detect(), (row, &lattice), measured, &mut scratch, &mut sums).unwrap();
            assert_eq!((of_these, &alone, none), (Some(*contacts), counts, vec![0; pairs.len()]));
        }
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
    fn frames_together_are_frames_one_by_one() {
        const N: u32 = 21;
        let frames: Vec<Vec<f32>> =
            (0..5).map(|t| (0..3 * N).map(|i| ((i * 7919 + t * i * i * 31) % 997) as f32 * 0.02).collect()).collect();
        let rows: Vec<&[f32]> = frames.iter().map(Vec::as_slice).collect();
        let pairs: Vec<[u32; 2]> = (0..N).flat_map(|i| (i + 1..N).map(move |j| [i, j])).collect();
        let runs = PairRuns::new((0..N).rev().collect(), &pairs);
        let (cpu, open, mut scratch) = (Cpu::detect(), Lattice::open(), RunScratch::default());
        let (mut sums, mut contacts) = (vec![0; pairs.len()], [0; 5]);
        let [measured, alone] = [true, false].map(|distances| Measured { cutoff: 7.0, distances });
        let is_added = runs.add_together(cpu, &rows, measured, &mut scratch, (&mut sums, &mut contacts));
        assert_eq!(is_added, cpu.is_wider());
        if is_added {
            let (mut counts, mut distances) = (vec![0; pairs.len()], vec![0; pairs.len()]);
            let mut one_by_one = ContactSums { counts: &mut counts, distances: &mut distances };
            for (row, contacts) in rows.iter().zip(contacts) {
                let found = runs.add(cpu.narrower(), (row, &open), measured, &mut scratch, &mut one_by_one).unwrap();
                assert_eq!(found, Some(contacts));
            }
            let expected = counts.iter().zip(distances).map(|(count, distance)| COUNT * count + distance);
            assert_eq!(sums, expected.collect::<Vec<_>>());
            let (mut of_contacts, mut again) = (vec![0; pairs.len()], [0; 5]);
            assert!(runs.add_together(cpu, &rows, alone, &mut scratch, (&mut of_contacts, &mut again)));
            assert_eq!(of_contacts, sums.iter().map(|sum| sum / COUNT * COUNT).collect::<Vec<_>>());
            assert_eq!(again, contacts);
        }
        // frames that are far, not finite, or that lack an atom are not for it
        for row in [&[2100.0; 63][..], &[f32::NAN; 63], &[0.0; 60]] {
            assert!(!runs.add_together(cpu, &[rows[0], row], measured, &mut scratch, (&mut sums, &mut [0; 2])));
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
            let (x, zeros): (Vec<f64>, _) = ((0..n).map(place).chain([0.0; MORE]).collect(), vec![0.0; n + MORE]);
            let mut sums = vec![2 * COUNT + 3; n];
            let beyond = square_beyond(8.0) * PARTS * PARTS;
            let in_parts: Vec<f64> = x.iter().map(|x| x * PARTS).collect();
            let roots: Vec<f64> = x.iter().map(|x| (x * x).sqrt()).collect();
            // the origin is after the points
            let (places, mut found) = ([n + MORE, n, 0], [0]);
            let placed = [zeros.clone(), in_parts, zeros];
            // SAFETY: AVX-512 has been found on this processor.
            unsafe { wider::add_run::<true>(&placed, places, beyond, &mut sums, &mut found) };
            let (counts, totals): (Vec<u64>, Vec<u64>) = sums.iter().map(|sum| (sum / COUNT, sum % COUNT)).unzip();
            assert_eq!(totals, roots[..n].iter().map(|root| 3 + parts(*root, true)).collect::<Vec<_>>());
            assert_eq!(counts, roots[..n].iter().map(|root| 2 + u64::from(*root <= 8.0)).collect::<Vec<_>>());
            assert_eq!(found[0] + 2 * n as u64, counts.iter().sum());
        }
    }
}
