//! Estimates of distances in single precision, eight at a time: which points of a run may be within the cutoff, and in
//! which bins their distances are.

use std::ops::Range;

use super::grid::{Grid, LANES, Run, Sorted};
use super::neighbors::Neighbors;
use crate::bins::Bins;
use crate::cpu::Cpu;

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__m256 as Wide;

/// The greatest estimate of a squared distance that can be one within the cutoff.
///
/// Coordinates and shifts are rounded to single precision, and so are their differences and the sum of the squares.
pub(super) fn estimate(grid: &Grid, cutoff: f64) -> f32 {
    let half_unit = f64::from(f32::EPSILON) / 2.0;
    let of_one = of_difference(grid, cutoff);
    let squared = cutoff * cutoff + 2.0 * 3_f64.sqrt() * cutoff * of_one + 3.0 * of_one * of_one;
    (squared * (1.0 + 8.0 * half_unit)) as f32 * (1.0 + f32::EPSILON) + f32::MIN_POSITIVE
}

/// The greatest error of the difference of two coordinates: three rounded numbers of the size of the cell, and the
/// difference itself.
fn of_difference(grid: &Grid, cutoff: f64) -> f64 {
    f64::from(f32::EPSILON) / 2.0 * (4.0 * grid.largest + cutoff)
}

/// Estimates of the bins of distances.
#[derive(Debug, Clone, Copy)]
pub(super) struct Binning {
    least: f32,
    /// Bins for one angstrom.
    scale: f32,
    /// An estimate, in bins, that is farther than this from each edge is in the right bin.
    error: f32,
}

impl Binning {
    pub(super) fn new(grid: &Grid, bins: &Bins) -> Self {
        let [least, most] = [bins.edge(0), bins.edge(bins.len())];
        let scale = bins.len() as f64 / (most - least);
        let unit = f64::from(f32::EPSILON);
        // the error of a distance is that of a vector, whatever its length; then the square, the root and the bin round
        let of_distance = 3_f64.sqrt() * of_difference(grid, most) + 8.0 * unit * (most + least.abs());
        let error = (1.01 * of_distance * scale + 8.0 * unit * bins.len() as f64) as f32;
        Self { least: least as f32, scale: scale as f32, error: error + f32::EPSILON }
    }
}

/// Counts of bins, and the pairs of a run that are too close to an edge of a bin to be sure.
#[derive(Debug)]
pub(super) struct PairCounts<'a> {
    pub(super) counts: &'a mut [u64],
    pub(super) unsure: Vec<[u32; 2]>,
}

/// Sorted points that are compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scan<'a> {
    pub(super) cpu: Cpu,
    pub(super) homes: &'a Sorted,
    pub(super) others: &'a Sorted,
    /// See [`estimate`].
    pub(super) limit: f32,
}

impl Scan<'_> {
    /// Lists the pairs of one of `homes` that is wanted and a point of a run that may be within the cutoff. Returns how many
    /// pairs were estimated.
    pub(super) fn candidates(
        &self,
        homes: Range<usize>,
        run: &Run,
        wanted: &impl Fn(u32) -> bool,
        found: &mut Vec<[u32; 2]>,
    ) -> u64 {
        found.clear();
        #[cfg(target_arch = "x86_64")]
        if self.cpu.is_wide() {
            // SAFETY: `is_wide` is true only if `Cpu::detect` has found AVX2 on this processor.
            return unsafe { wide(self, homes, run, wanted, found) };
        }
        self.visit(homes, run, wanted, |home, place, points| plain(self, home, place, points, found))
    }

    /// Lists the points of a run that may be within the cutoff of a home. Returns how many pairs were estimated.
    pub(super) fn neighbors(&self, home: usize, run: &Run, found: &mut Neighbors) -> u64 {
        let place = self.homes.position(home, run.shift);
        #[cfg(target_arch = "x86_64")]
        if self.cpu.is_wide() {
            // SAFETY: `is_wide` is true only if `Cpu::detect` has found AVX2 on this processor.
            unsafe { wide_neighbors(self, place, run.points.clone(), found) };
            return run.points.len() as u64;
        }
        for at in run.points.clone().step_by(LANES) {
            for (point, square) in (at..run.points.end).zip(self.squares(at, place)) {
                if square <= self.limit {
                    found.push(self.others.position(point, place), self.others.number(point));
                }
            }
        }
        run.points.len() as u64
    }

    /// Adds pairs of one of `homes` and a point of a run to the counts of their bins. `row` is where the bins of a pair
    /// begin, given the numbers of both points; `None` if it does not count. Lists the pairs that are too close to an edge
    /// of a bin to be sure. Returns how many pairs were estimated.
    pub(super) fn count(
        &self,
        homes: Range<usize>,
        run: &Run,
        binning: &Binning,
        row: &impl Fn(u32, u32) -> Option<usize>,
        found: &mut PairCounts<'_>,
    ) -> u64 {
        found.unsure.clear();
        #[cfg(target_arch = "x86_64")]
        if self.cpu.is_wide() {
            // SAFETY: `is_wide` is true only if `Cpu::detect` has found AVX2 on this processor.
            return unsafe { wide_count(self, homes, run, binning, row, found) };
        }
        self.visit(homes, run, &|_| true, |home, place, points| {
            for at in points.clone().step_by(LANES) {
                let squares = self.squares(at, place);
                for (point, square) in (at..points.end).zip(squares).filter(|(_, square)| *square <= self.limit) {
                    let bin = (square.sqrt() - binning.least) * binning.scale;
                    let is_unsure = (bin - bin.round_ties_even()).abs() <= binning.error;
                    self.add([home, point], bin, is_unsure, row, found);
                }
            }
        })
    }

    /// Counts a pair, whose distance is at most the largest, in its estimated bin, or lists it.
    #[inline(always)]
    fn add(
        &self,
        [home, point]: [usize; 2],
        bin: f32,
        is_unsure: bool,
        row: &impl Fn(u32, u32) -> Option<usize>,
        found: &mut PairCounts<'_>,
    ) {
        if is_unsure {
            found.unsure.push([home as u32, point as u32]);
        } else if bin >= 0.0
            && let Some(row) = row(self.homes.number(home), self.others.number(point))
            && let Some(count) = found.counts.get_mut(row + bin as usize)
        {
            *count += 1;
        }
    }

    /// Estimates of the squared distances of eight points from `at` on.
    #[inline(always)]
    fn squares(&self, at: usize, place: [f32; 3]) -> [f32; LANES] {
        let [x, y, z] = self.eight(at);
        std::array::from_fn(|i| {
            let apart = [x[i] - place[0], y[i] - place[1], z[i] - place[2]];
            apart[0] * apart[0] + apart[1] * apart[1] + apart[2] * apart[2]
        })
    }

    /// Calls `see` with each home that is wanted, its place as seen from the run, and the points to compare it with.
    #[inline(always)]
    fn visit(
        &self,
        homes: Range<usize>,
        run: &Run,
        wanted: &impl Fn(u32) -> bool,
        mut see: impl FnMut(usize, [f32; 3], Range<usize>),
    ) -> u64 {
        let mut examined = 0;
        for home in homes.filter(|home| wanted(self.homes.number(*home))) {
            // of the cell itself only the points after this one
            let first = if run.is_home { home + 1 } else { run.points.start };
            examined += (run.points.end - first) as u64;
            see(home, self.homes.position(home, run.shift), first..run.points.end);
        }
        examined
    }

    /// Eight coordinates of the others from `at` on; there are as many after the last point.
    #[inline(always)]
    fn eight(&self, at: usize) -> [&[f32; LANES]; 3] {
        let far = &[f32::INFINITY; LANES];
        self.others.coordinates.each_ref().map(|coordinates| coordinates[at..].first_chunk().unwrap_or(far))
    }
}

fn plain(scan: &Scan<'_>, home: usize, place: [f32; 3], points: Range<usize>, found: &mut Vec<[u32; 2]>) {
    for at in points.clone().step_by(LANES) {
        let near = (at..points.end).zip(scan.squares(at, place)).filter(|(_, square)| *square <= scan.limit);
        found.extend(near.map(|(point, _)| [home as u32, point as u32]));
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn wide(
    scan: &Scan<'_>,
    homes: Range<usize>,
    run: &Run,
    wanted: &impl Fn(u32) -> bool,
    found: &mut Vec<[u32; 2]>,
) -> u64 {
    use std::arch::x86_64::{_CMP_LE_OQ, _mm256_cmp_ps, _mm256_movemask_ps, _mm256_set1_ps};
    let limit = _mm256_set1_ps(scan.limit);
    scan.visit(homes, run, wanted, |home, place, points| {
        let place = place.map(|x| _mm256_set1_ps(x));
        for at in points.clone().step_by(LANES) {
            let (squares, _) = wide_squares(scan, at, place);
            let near = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(squares, limit)) as u32;
            let mut near = near & lanes_before(points.end - at);
            while near != 0 {
                found.push([home as u32, at as u32 + near.trailing_zeros()]);
                near &= near - 1;
            }
        }
    })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn wide_neighbors(scan: &Scan<'_>, place: [f32; 3], points: Range<usize>, found: &mut Neighbors) {
    use std::arch::x86_64::{_CMP_LE_OQ, _mm256_cmp_ps, _mm256_movemask_ps, _mm256_set1_ps};
    let limit = _mm256_set1_ps(scan.limit);
    let [x, y, z] = place;
    let place = [_mm256_set1_ps(x), _mm256_set1_ps(y), _mm256_set1_ps(z)];
    for at in points.clone().step_by(LANES) {
        let (squares, apart) = wide_squares(scan, at, place);
        let near = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(squares, limit)) as u32;
        found.push_of_eight(near & lanes_before(points.end - at), apart, scan.others.numbers(at));
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn wide_count(
    scan: &Scan<'_>,
    homes: Range<usize>,
    run: &Run,
    binning: &Binning,
    row: &impl Fn(u32, u32) -> Option<usize>,
    found: &mut PairCounts<'_>,
) -> u64 {
    use std::arch::x86_64::{
        _CMP_LE_OQ, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _mm256_andnot_ps, _mm256_cmp_ps, _mm256_movemask_ps,
        _mm256_mul_ps, _mm256_round_ps, _mm256_set1_ps, _mm256_sqrt_ps, _mm256_storeu_ps, _mm256_sub_ps,
    };
    let [limit, least, scale, error, sign] =
        [scan.limit, binning.least, binning.scale, binning.error, -0.0].map(|x| _mm256_set1_ps(x));
    scan.visit(homes, run, &|_| true, |home, place, points| {
        let place = place.map(|x| _mm256_set1_ps(x));
        for at in points.clone().step_by(LANES) {
            let (squares, _) = wide_squares(scan, at, place);
            let near = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(squares, limit)) as u32;
            let mut near = near & lanes_before(points.end - at);
            if near == 0 {
                continue;
            }
            let of_bins = _mm256_mul_ps(_mm256_sub_ps(_mm256_sqrt_ps(squares), least), scale);
            let edges = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(of_bins);
            let apart = _mm256_andnot_ps(sign, _mm256_sub_ps(of_bins, edges));
            let is_unsure = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(apart, error)) as u32;
            let mut estimates = [0.0_f32; LANES];
            // SAFETY: eight numbers of an array are written, at any alignment.
            unsafe { _mm256_storeu_ps(estimates.as_mut_ptr(), of_bins) };
            while near != 0 {
                let lane = near.trailing_zeros() as usize;
                near &= near - 1;
                scan.add([home, at + lane], estimates[lane], is_unsure >> lane & 1 == 1, row, found);
            }
        }
    })
}

/// A bit for each of the first lanes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn lanes_before(n: usize) -> u32 {
    if n < LANES { (1 << n) - 1 } else { (1 << LANES) - 1 }
}

/// The same as [`Scan::squares`], and the differences.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn wide_squares(scan: &Scan<'_>, at: usize, [x, y, z]: [Wide; 3]) -> (Wide, [Wide; 3]) {
    use std::arch::x86_64::{_mm256_add_ps, _mm256_loadu_ps, _mm256_mul_ps, _mm256_sub_ps};
    let [xs, ys, zs] = scan.eight(at).map(|eight| eight.as_ptr());
    // SAFETY: eight numbers of an array are read, at any alignment.
    let [xs, ys, zs] = unsafe { [_mm256_loadu_ps(xs), _mm256_loadu_ps(ys), _mm256_loadu_ps(zs)] };
    let (dx, dy, dz) = (_mm256_sub_ps(xs, x), _mm256_sub_ps(ys, y), _mm256_sub_ps(zs, z));
    let squares = _mm256_add_ps(_mm256_mul_ps(dx, dx), _mm256_mul_ps(dy, dy));
    (_mm256_add_ps(squares, _mm256_mul_ps(dz, dz)), [dx, dy, dz])
}
