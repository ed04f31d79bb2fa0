//! Estimates of distances in single precision, eight at a time: which points of a run may be within the cutoff, and in
//! which bins their distances are.

use std::ops::Range;

use super::grid::{Grid, LANES, Run, Sorted};
use crate::bins::Bins;
use crate::cpu::Cpu;

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
    /// Whether all pairs count in the same bins.
    pub(super) is_plain: bool,
    pub(super) unsure: Vec<[u32; 2]>,
    pub(super) near: NearPairs,
}

/// Pairs of a run that may be within the cutoff: squared distances, homes and points. There is room for more.
#[derive(Debug, Default)]
pub(super) struct NearPairs {
    squares: Vec<f32>,
    homes: Vec<u32>,
    points: Vec<u32>,
}

impl NearPairs {
    fn make_room(&mut self, n: usize) {
        if self.squares.len() < n {
            self.squares.resize(n, 0.0);
            self.homes.resize(n, 0);
            self.points.resize(n, 0);
        }
    }
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
            let squares = wide_squares(scan, at, place);
            let near = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(squares, limit)) as u32;
            let mut near = near & lanes_before(points.end - at);
            while near != 0 {
                found.push([home as u32, at as u32 + near.trailing_zeros()]);
                near &= near - 1;
            }
        }
    })
}

/// For each set of lanes, their numbers one after another.
#[cfg(target_arch = "x86_64")]
static PACKED: [[u32; LANES]; 1 << LANES] = {
    let mut all = [[0; LANES]; 1 << LANES];
    let mut set = 0;
    while set < all.len() {
        let (mut lane, mut n) = (0, 0);
        while lane < LANES {
            if set >> lane & 1 == 1 {
                all[set][n] = lane as u32;
                n += 1;
            }
            lane += 1;
        }
        set += 1;
    }
    all
};

/// Packs the pairs that are near, without a branch, then counts them, all lanes full.
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
    let mut near = std::mem::take(&mut found.near);
    near.make_room(homes.len() * run.points.len() + LANES);
    let mut n = 0;
    let examined = scan.visit(homes, run, &|_| true, |home, place, points| {
        n = wide_near(scan, home, place, points, &mut near, n);
    });
    for at in (0..n).step_by(LANES) {
        wide_bins(scan, binning, &near, at..n.min(at + LANES), row, found);
    }
    found.near = near;
    examined
}

/// Appends the points that are near a home to the first `n` pairs. Returns how many there are then.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn wide_near(
    scan: &Scan<'_>,
    home: usize,
    place: [f32; 3],
    points: Range<usize>,
    near: &mut NearPairs,
    mut n: usize,
) -> usize {
    use std::arch::x86_64::{
        _CMP_LE_OQ, _mm256_add_epi32, _mm256_cmp_ps, _mm256_loadu_si256, _mm256_movemask_ps, _mm256_permutevar8x32_ps,
        _mm256_set1_epi32, _mm256_set1_ps, _mm256_storeu_ps, _mm256_storeu_si256,
    };
    let place = place.map(|x| _mm256_set1_ps(x));
    let (limit, of_home) = (_mm256_set1_ps(scan.limit), _mm256_set1_epi32(home as i32));
    for at in points.clone().step_by(LANES) {
        let squares = wide_squares(scan, at, place);
        let is_near = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(squares, limit)) as u32;
        let is_near = is_near & lanes_before(points.end - at);
        let room = n..n + LANES;
        let (Some(to_squares), Some(to_homes), Some(to_points)) =
            (near.squares.get_mut(room.clone()), near.homes.get_mut(room.clone()), near.points.get_mut(room))
        else {
            break;
        };
        // SAFETY: eight numbers of an array are read, eight of each slice are written, at any alignment.
        unsafe {
            let lanes = _mm256_loadu_si256(PACKED[is_near as usize & 0xff].as_ptr().cast());
            _mm256_storeu_ps(to_squares.as_mut_ptr(), _mm256_permutevar8x32_ps(squares, lanes));
            _mm256_storeu_si256(to_homes.as_mut_ptr().cast(), of_home);
            let points = _mm256_add_epi32(_mm256_set1_epi32(at as i32), lanes);
            _mm256_storeu_si256(to_points.as_mut_ptr().cast(), points);
        }
        n += is_near.count_ones() as usize;
    }
    n
}

/// Counts up to eight pairs.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn wide_bins(
    scan: &Scan<'_>,
    binning: &Binning,
    near: &NearPairs,
    pairs: Range<usize>,
    row: &impl Fn(u32, u32) -> Option<usize>,
    found: &mut PairCounts<'_>,
) {
    use std::arch::x86_64::{
        _CMP_LE_OQ, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _mm256_andnot_ps, _mm256_cmp_ps, _mm256_cvttps_epi32,
        _mm256_loadu_ps, _mm256_movemask_ps, _mm256_mul_ps, _mm256_round_ps, _mm256_set1_ps, _mm256_sqrt_ps,
        _mm256_storeu_si256, _mm256_sub_ps,
    };
    let Some(squares) = near.squares[pairs.start..].first_chunk::<LANES>() else { return };
    // SAFETY: eight numbers of an array are read, at any alignment.
    let squares = unsafe { _mm256_loadu_ps(squares.as_ptr()) };
    let [least, scale, error, sign] = [binning.least, binning.scale, binning.error, -0.0].map(|x| _mm256_set1_ps(x));
    let bins = _mm256_mul_ps(_mm256_sub_ps(_mm256_sqrt_ps(squares), least), scale);
    let edges = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(bins);
    let apart = _mm256_andnot_ps(sign, _mm256_sub_ps(bins, edges));
    let is_unsure = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(apart, error)) as u32;
    let is_below = _mm256_movemask_ps(bins) as u32;
    let mut numbers = [0_u32; LANES];
    // SAFETY: eight numbers of an array are written, at any alignment.
    unsafe { _mm256_storeu_si256(numbers.as_mut_ptr().cast(), _mm256_cvttps_epi32(bins)) };
    if found.is_plain && (is_unsure | is_below) == 0 && pairs.len() == LANES {
        for bin in numbers {
            if let Some(count) = found.counts.get_mut(bin as usize) {
                *count += 1;
            }
        }
        return;
    }
    for (lane, pair) in pairs.enumerate() {
        let (home, point) = (near.homes[pair] as usize, near.points[pair] as usize);
        if is_unsure >> lane & 1 == 1 {
            found.unsure.push([home as u32, point as u32]);
        } else if is_below >> lane & 1 == 0
            && let Some(row) = row(scan.homes.number(home), scan.others.number(point))
            && let Some(count) = found.counts.get_mut(row + numbers[lane] as usize)
        {
            *count += 1;
        }
    }
}

/// A bit for each of the first lanes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn lanes_before(n: usize) -> u32 {
    if n < LANES { (1 << n) - 1 } else { (1 << LANES) - 1 }
}

/// The same as [`Scan::squares`].
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn wide_squares(scan: &Scan<'_>, at: usize, [x, y, z]: [std::arch::x86_64::__m256; 3]) -> std::arch::x86_64::__m256 {
    use std::arch::x86_64::{_mm256_add_ps, _mm256_loadu_ps, _mm256_mul_ps, _mm256_sub_ps};
    let [xs, ys, zs] = scan.eight(at).map(|eight| eight.as_ptr());
    // SAFETY: eight numbers of an array are read, at any alignment.
    let [xs, ys, zs] = unsafe { [_mm256_loadu_ps(xs), _mm256_loadu_ps(ys), _mm256_loadu_ps(zs)] };
    let (dx, dy, dz) = (_mm256_sub_ps(xs, x), _mm256_sub_ps(ys, y), _mm256_sub_ps(zs, z));
    let squares = _mm256_add_ps(_mm256_mul_ps(dx, dx), _mm256_mul_ps(dy, dy));
    _mm256_add_ps(squares, _mm256_mul_ps(dz, dz))
}
