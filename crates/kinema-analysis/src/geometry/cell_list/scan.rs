//! Estimates of distances in single precision, eight at a time: which points of a run may be within the cutoff.

use std::ops::Range;

use super::grid::{Grid, LANES, Run, Sorted};
use crate::cpu::Cpu;

/// The greatest estimate of a squared distance that can be one within the cutoff.
///
/// Coordinates and shifts are rounded to single precision, and so are their differences and the sum of the squares.
pub(super) fn estimate(grid: &Grid, cutoff: f64) -> f32 {
    let half_unit = f64::from(f32::EPSILON) / 2.0;
    // of a difference: three rounded numbers of the size of the cell, and the difference itself
    let of_one = half_unit * (4.0 * grid.largest + cutoff);
    let squared = cutoff * cutoff + 2.0 * 3_f64.sqrt() * cutoff * of_one + 3.0 * of_one * of_one;
    (squared * (1.0 + 8.0 * half_unit)) as f32 * (1.0 + f32::EPSILON) + f32::MIN_POSITIVE
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
        let [x, y, z] = scan.eight(at);
        let squares: [f32; LANES] = std::array::from_fn(|i| {
            let apart = [x[i] - place[0], y[i] - place[1], z[i] - place[2]];
            apart[0] * apart[0] + apart[1] * apart[1] + apart[2] * apart[2]
        });
        let near = (at..points.end).zip(squares).filter(|(_, square)| *square <= scan.limit);
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
    use std::arch::x86_64::{
        _CMP_LE_OQ, _mm256_add_ps, _mm256_cmp_ps, _mm256_loadu_ps, _mm256_movemask_ps, _mm256_mul_ps, _mm256_set1_ps,
        _mm256_sub_ps,
    };
    let limit = _mm256_set1_ps(scan.limit);
    scan.visit(homes, run, wanted, |home, place, points| {
        let [x, y, z] = place.map(|x| _mm256_set1_ps(x));
        for at in points.clone().step_by(LANES) {
            let [xs, ys, zs] = scan.eight(at).map(|eight| eight.as_ptr());
            // SAFETY: eight numbers of an array are read, at any alignment.
            let [xs, ys, zs] = unsafe { [_mm256_loadu_ps(xs), _mm256_loadu_ps(ys), _mm256_loadu_ps(zs)] };
            let (dx, dy, dz) = (_mm256_sub_ps(xs, x), _mm256_sub_ps(ys, y), _mm256_sub_ps(zs, z));
            let squares = _mm256_add_ps(_mm256_mul_ps(dx, dx), _mm256_mul_ps(dy, dy));
            let squares = _mm256_add_ps(squares, _mm256_mul_ps(dz, dz));
            let mut near = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(squares, limit)) as u32;
            let left = points.end - at;
            if left < LANES {
                near &= (1 << left) - 1;
            }
            while near != 0 {
                found.push([home as u32, at as u32 + near.trailing_zeros()]);
                near &= near - 1;
            }
        }
    })
}
