//! Estimates of distances in single precision, eight at a time: which points of a run may be within the cutoff.

use std::ops::Range;

use super::grid::{Grid, LANES, Sorted};
use crate::cpu::Cpu;

/// The greatest estimate of a squared distance that can be one within the cutoff.
#[derive(Debug, Clone, Copy)]
pub(super) struct Estimate {
    limit: f32,
}

impl Estimate {
    /// Coordinates and shifts are rounded to single precision, and so are their differences and the sum of the squares.
    pub(super) fn new(grid: &Grid, cutoff: f64) -> Self {
        let half_unit = f64::from(f32::EPSILON) / 2.0;
        // of a difference: three rounded numbers of the size of the cell, and the difference itself
        let of_one = half_unit * (4.0 * grid.largest + cutoff);
        let squared = cutoff * cutoff + 2.0 * 3_f64.sqrt() * cutoff * of_one + 3.0 * of_one * of_one;
        Self { limit: (squared * (1.0 + 8.0 * half_unit)) as f32 * (1.0 + f32::EPSILON) + f32::MIN_POSITIVE }
    }
}

/// Lists the points of a run that may be within the cutoff of a place.
pub(super) fn candidates(
    cpu: Cpu,
    sorted: &Sorted,
    run: Range<usize>,
    place: [f32; 3],
    estimate: &Estimate,
    found: &mut Vec<u32>,
) {
    found.clear();
    if run.is_empty() {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if cpu.is_wide() {
        // SAFETY: `is_wide` is true only if `Cpu::detect` has found AVX2 on this processor.
        unsafe { wide(sorted, run, place, estimate.limit, found) };
        return;
    }
    let _ = cpu;
    plain(sorted, run, place, estimate.limit, found);
}

/// Eight coordinates from `at` on; there are as many after the last point.
fn eight(coordinates: &[f32], at: usize) -> &[f32; LANES] {
    coordinates[at..].first_chunk().unwrap_or(&[f32::INFINITY; LANES])
}

fn plain(sorted: &Sorted, run: Range<usize>, place: [f32; 3], limit: f32, found: &mut Vec<u32>) {
    for at in run.clone().step_by(LANES) {
        let [x, y, z] = sorted.coordinates.each_ref().map(|coordinates| eight(coordinates, at));
        let squares: [f32; LANES] = std::array::from_fn(|i| {
            let apart = [x[i] - place[0], y[i] - place[1], z[i] - place[2]];
            apart[0] * apart[0] + apart[1] * apart[1] + apart[2] * apart[2]
        });
        let near = (at..run.end).zip(squares).filter(|(_, square)| *square <= limit);
        found.extend(near.map(|(point, _)| point as u32));
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn wide(sorted: &Sorted, run: Range<usize>, place: [f32; 3], limit: f32, found: &mut Vec<u32>) {
    use std::arch::x86_64::{
        _CMP_LE_OQ, _mm256_add_ps, _mm256_cmp_ps, _mm256_loadu_ps, _mm256_movemask_ps, _mm256_mul_ps, _mm256_set1_ps,
        _mm256_sub_ps,
    };
    let [x, y, z] = place.map(|x| _mm256_set1_ps(x));
    let limit = _mm256_set1_ps(limit);
    for at in run.clone().step_by(LANES) {
        let [xs, ys, zs] = sorted.coordinates.each_ref().map(|coordinates| eight(coordinates, at).as_ptr());
        // SAFETY: eight numbers of an array are read, at any alignment.
        let [xs, ys, zs] = unsafe { [_mm256_loadu_ps(xs), _mm256_loadu_ps(ys), _mm256_loadu_ps(zs)] };
        let (dx, dy, dz) = (_mm256_sub_ps(xs, x), _mm256_sub_ps(ys, y), _mm256_sub_ps(zs, z));
        let squares = _mm256_add_ps(_mm256_mul_ps(dx, dx), _mm256_mul_ps(dy, dy));
        let squares = _mm256_add_ps(squares, _mm256_mul_ps(dz, dz));
        let mut near = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(squares, limit)) as u32;
        let left = run.end - at;
        if left < LANES {
            near &= (1 << left) - 1;
        }
        while near != 0 {
            found.push(at as u32 + near.trailing_zeros());
            near &= near - 1;
        }
    }
}
