//! Counts of pairs in bins of their distance, which are estimated eight at a time.

use std::ops::Range;

use kinema_core::Result;
use kinema_core::frame::Lattice;

use super::bounds::of_difference;
use super::grid::{Cells, Grid};
use super::scan::Scan;
use super::sorted::Sorted;
use super::stencil::Run;
use super::{CellList, Homes};
use crate::bins::Bins;
use crate::cpu::Cpu;
use crate::lanes::EIGHT;
#[cfg(target_arch = "x86_64")]
use crate::lanes::{PLACES, lanes_before};

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

/// Pairs of a run that may be within the cutoff, home by home: squared distances and points. There is room for more.
#[derive(Debug, Default)]
pub(super) struct NearPairs {
    squares: Vec<f32>,
    points: Vec<u32>,
    /// The first pair of each home.
    starts: Vec<usize>,
    n: usize,
}

impl NearPairs {
    /// Empties it, and makes room for `n` pairs.
    fn clear(&mut self, n: usize) {
        self.n = 0;
        self.starts.clear();
        if self.squares.len() < n {
            self.squares.resize(n, 0.0);
            self.points.resize(n, 0);
        }
    }
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

impl CellList {
    /// Counts the pairs of a point of `first` and one of `second`, and each of their images, in bins of their distance.
    /// `row` is where the bins of a pair begin in `counts`, given the places of both points; `None` if it does not count.
    /// Without it all pairs count in the same bins.
    /// Errors as [`CellList::between`].
    pub(crate) fn count_between(
        &mut self,
        lattice: &Lattice,
        [first, second]: [&[f32]; 2],
        bins: &Bins,
        row: Option<impl Fn(u32, u32) -> Option<usize>>,
        counts: &mut [u64],
    ) -> Result<()> {
        if first.is_empty() || second.is_empty() {
            return Ok(());
        }
        self.sort_both(lattice, [first, second], bins.edge(bins.len()), Cells::Rows)?;
        self.count(bins, Homes::First, row, counts);
        Ok(())
    }

    /// Counts the pairs of two of `points`, each once, as [`CellList::count_between`]; also a point with its own images.
    /// Errors as [`CellList::between`].
    pub(crate) fn count_within(
        &mut self,
        lattice: &Lattice,
        points: &[f32],
        bins: &Bins,
        row: Option<impl Fn(u32, u32) -> Option<usize>>,
        counts: &mut [u64],
    ) -> Result<()> {
        if points.is_empty() {
            return Ok(());
        }
        self.grid.set(lattice, bins.edge(bins.len()), [points, &[]], Cells::Rows)?;
        self.second.sort(self.cpu(), &self.grid, points, None)?;
        self.stencil.set(&self.grid, true);
        self.count(bins, Homes::Both, row, counts);
        Ok(())
    }

    /// Counts the pairs of the sorted points: of a home and one of the second set.
    fn count(
        &mut self,
        bins: &Bins,
        homes: Homes,
        row: Option<impl Fn(u32, u32) -> Option<usize>>,
        counts: &mut [u64],
    ) {
        let (cpu, cutoff) = (self.cpu(), bins.edge(bins.len()));
        let (homes, others) = homes.of(&self.first, &self.second);
        let exact = Scan::new(cpu, &self.grid, (homes, others), cutoff);
        let scan = BinScan { cpu, homes, others, limit: exact.limit };
        let binning = Binning::new(&self.grid, bins);
        let is_plain = row.is_none();
        let row = |first: u32, second: u32| row.as_ref().map_or(Some(0), |row| row(first, second));
        let (unsure, near) = (std::mem::take(&mut self.unsure), std::mem::take(&mut self.near_pairs));
        let mut found = PairCounts { counts, is_plain, unsure, near };
        for &cell in homes.occupied() {
            let cell = cell as usize;
            self.stencil.find_runs(&self.grid, others, cell, &mut self.runs);
            for run in &self.runs {
                self.examined += scan.count(homes.in_cell(cell), run, &binning, &row, &mut found);
                for &[home, other] in &found.unsure {
                    let near = exact.decide(home as usize, other as usize, run.counts);
                    if let (Some(bin), Some(row)) = (bins.number(near.distance), row(near.first, near.second)) {
                        found.counts[row + bin as usize] += 1;
                    }
                }
            }
        }
        (self.unsure, self.near_pairs) = (found.unsure, found.near);
    }
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

/// Packs the pairs that are near, without a branch, then counts them, all lanes full.
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
    let mut near = std::mem::take(&mut found.near);
    near.clear(homes.len() * run.points.len() + EIGHT);
    let first_home = homes.start;
    let examined = scan.visit(homes, run, |_, place, points| wide_near(scan, place, points, &mut near));
    // the home of a pair, as pairs are seen in order
    let mut home = 0;
    for at in (0..near.n).step_by(EIGHT) {
        let pairs = at..near.n.min(at + EIGHT);
        let (bins, is_unsure, is_below) = wide_bins(binning, &near.squares[at..]);
        if found.is_plain && (is_unsure | is_below) == 0 && pairs.len() == EIGHT {
            for bin in bins {
                if let Some(count) = found.counts.get_mut(bin as usize) {
                    *count += 1;
                }
            }
            continue;
        }
        for (lane, pair) in pairs.enumerate() {
            while near.starts.get(home + 1).is_some_and(|start| *start <= pair) {
                home += 1;
            }
            let (home, point) = (first_home + home, near.points[pair] as usize);
            if is_unsure >> lane & 1 == 1 {
                found.unsure.push([home as u32, point as u32]);
            } else if is_below >> lane & 1 == 0
                && let Some(row) = row(scan.homes.number(home), scan.others.number(point))
                && let Some(count) = found.counts.get_mut(row + bins[lane] as usize)
            {
                *count += 1;
            }
        }
    }
    found.near = near;
    examined
}

/// Appends the points that are near a home.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn wide_near(scan: &BinScan<'_>, place: [f32; 3], points: Range<usize>, near: &mut NearPairs) {
    use std::arch::x86_64::{
        _CMP_LE_OQ, _mm_loadl_epi64, _mm256_add_epi32, _mm256_add_ps, _mm256_cmp_ps, _mm256_cvtepu8_epi32,
        _mm256_loadu_ps, _mm256_movemask_ps, _mm256_mul_ps, _mm256_permutevar8x32_ps, _mm256_set1_epi32,
        _mm256_set1_ps, _mm256_storeu_ps, _mm256_storeu_si256, _mm256_sub_ps,
    };
    near.starts.push(near.n);
    let n_points = points.len();
    // one check of all that is read and written
    let [xs, ys, zs] = scan.others.coordinates.each_ref().map(|all| all[points.start..points.end + EIGHT].as_ptr());
    let room = near.n..near.n + n_points + EIGHT;
    let (squares, numbers) = (near.squares[room.clone()].as_mut_ptr(), near.points[room].as_mut_ptr());
    let [x, y, z, limit] = [place[0], place[1], place[2], scan.limit].map(|x| _mm256_set1_ps(x));
    let mut n = 0;
    let mut at = 0;
    while at < n_points {
        // SAFETY: `at` is less than the number of points, after which there are eight more coordinates; no more pairs
        // were found than points were looked at, and there is room for eight more.
        unsafe {
            let dx = _mm256_sub_ps(_mm256_loadu_ps(xs.add(at)), x);
            let dy = _mm256_sub_ps(_mm256_loadu_ps(ys.add(at)), y);
            let dz = _mm256_sub_ps(_mm256_loadu_ps(zs.add(at)), z);
            let of_plane = _mm256_add_ps(_mm256_mul_ps(dx, dx), _mm256_mul_ps(dy, dy));
            let of_all = _mm256_add_ps(of_plane, _mm256_mul_ps(dz, dz));
            let is_near = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(of_all, limit)) as u32;
            let is_near = (is_near & lanes_before(n_points - at)) as usize & 0xff;
            let (lanes, n_near) = &PLACES[is_near];
            let lanes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(lanes.as_ptr().cast()));
            _mm256_storeu_ps(squares.add(n), _mm256_permutevar8x32_ps(of_all, lanes));
            let of_lanes = _mm256_add_epi32(_mm256_set1_epi32((points.start + at) as i32), lanes);
            _mm256_storeu_si256(numbers.add(n).cast(), of_lanes);
            n += *n_near as usize;
        }
        at += EIGHT;
    }
    near.n += n;
}

/// The bins of eight squared distances, which of these are not sure, and which are below the first bin.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn wide_bins(binning: &Binning, squares: &[f32]) -> ([u32; EIGHT], u32, u32) {
    use std::arch::x86_64::{
        _CMP_LE_OQ, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _mm256_andnot_ps, _mm256_cmp_ps, _mm256_cvttps_epi32,
        _mm256_loadu_ps, _mm256_movemask_ps, _mm256_mul_ps, _mm256_round_ps, _mm256_set1_ps, _mm256_sqrt_ps,
        _mm256_storeu_si256, _mm256_sub_ps,
    };
    let mut numbers = [0_u32; EIGHT];
    let Some(squares) = squares.first_chunk::<EIGHT>() else { return (numbers, 0, 0) };
    // SAFETY: eight numbers of an array are read, at any alignment.
    let squares = unsafe { _mm256_loadu_ps(squares.as_ptr()) };
    let [least, scale, error, sign] = [binning.least, binning.scale, binning.error, -0.0].map(|x| _mm256_set1_ps(x));
    let bins = _mm256_mul_ps(_mm256_sub_ps(_mm256_sqrt_ps(squares), least), scale);
    let edges = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(bins);
    let apart = _mm256_andnot_ps(sign, _mm256_sub_ps(bins, edges));
    let is_unsure = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(apart, error)) as u32;
    let is_below = _mm256_movemask_ps(bins) as u32;
    // SAFETY: eight numbers of an array are written, at any alignment.
    unsafe { _mm256_storeu_si256(numbers.as_mut_ptr().cast(), _mm256_cvttps_epi32(bins)) };
    (numbers, is_unsure, is_below)
}
