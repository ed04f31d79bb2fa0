//! Estimates of the bins in which distances are, eight at a time.

use std::ops::Range;

use super::bounds::of_difference;
use super::grid::Grid;
use super::sorted::Sorted;
use super::stencil::Run;
use crate::bins::Bins;
use crate::cpu::Cpu;
use crate::lanes::EIGHT;

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
pub(super) struct BinScan<'a> {
    pub(super) cpu: Cpu,
    pub(super) homes: &'a Sorted,
    pub(super) others: &'a Sorted,
    /// See [`super::bounds::most`].
    pub(super) limit: f32,
}

impl BinScan<'_> {
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
        self.visit(homes, run, |home, place, points| {
            for at in points.clone().step_by(EIGHT) {
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
    fn squares(&self, at: usize, place: [f32; 3]) -> [f32; EIGHT] {
        let [x, y, z] = self.others.eight(at);
        std::array::from_fn(|i| {
            let apart = [x[i] - place[0], y[i] - place[1], z[i] - place[2]];
            apart[0] * apart[0] + apart[1] * apart[1] + apart[2] * apart[2]
        })
    }

    /// Calls `see` with each home, its place as seen from the run, and the points to compare it with.
    #[inline(always)]
    fn visit(&self, homes: Range<usize>, run: &Run, mut see: impl FnMut(usize, [f32; 3], Range<usize>)) -> u64 {
        let mut examined = 0;
        for home in homes {
            // of the cell itself only the points after this one
            let first = if run.is_home { home + 1 } else { run.points.start };
            examined += (run.points.end - first) as u64;
            see(home, self.homes.position(home, run.shift), first..run.points.end);
        }
        examined
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn wide_count(
    scan: &BinScan<'_>,
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
    scan.visit(homes, run, |home, place, points| {
        let place = place.map(|x| _mm256_set1_ps(x));
        for at in points.clone().step_by(EIGHT) {
            let squares = wide_squares(scan, at, place);
            let near = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(squares, limit)) as u32;
            let mut near = near & lanes_before(points.end - at);
            if near == 0 {
                continue;
            }
            let of_bins = _mm256_mul_ps(_mm256_sub_ps(_mm256_sqrt_ps(squares), least), scale);
            let edges = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(of_bins);
            let apart = _mm256_andnot_ps(sign, _mm256_sub_ps(of_bins, edges));
            let is_unsure = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(apart, error)) as u32;
            let mut estimates = [0.0_f32; EIGHT];
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
    if n < EIGHT { (1 << n) - 1 } else { (1 << EIGHT) - 1 }
}

/// The same as [`BinScan::squares`].
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn wide_squares(scan: &BinScan<'_>, at: usize, [x, y, z]: [std::arch::x86_64::__m256; 3]) -> std::arch::x86_64::__m256 {
    use std::arch::x86_64::{_mm256_add_ps, _mm256_loadu_ps, _mm256_mul_ps, _mm256_sub_ps};
    let [xs, ys, zs] = scan.others.eight(at).map(|eight| eight.as_ptr());
    // SAFETY: eight numbers of an array are read, at any alignment.
    let [xs, ys, zs] = unsafe { [_mm256_loadu_ps(xs), _mm256_loadu_ps(ys), _mm256_loadu_ps(zs)] };
    let (dx, dy, dz) = (_mm256_sub_ps(xs, x), _mm256_sub_ps(ys, y), _mm256_sub_ps(zs, z));
    let squares = _mm256_add_ps(_mm256_mul_ps(dx, dx), _mm256_mul_ps(dy, dy));
    _mm256_add_ps(squares, _mm256_mul_ps(dz, dz))
}
