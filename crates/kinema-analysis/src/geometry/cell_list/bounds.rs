//! How far estimates of distances in single precision may be from the distances.
//!
//! Coordinates and shifts are rounded to single precision, and so are their differences and the sum of the squares.

use super::grid::Grid;

const HALF_UNIT: f64 = f32::EPSILON as f64 / 2.0;

/// The greatest estimate of a squared distance that can be one within the cutoff.
pub(super) fn most(grid: &Grid, cutoff: f64) -> f32 {
    let of_one = of_difference(grid, cutoff);
    let squared = cutoff * cutoff + 2.0 * 3_f64.sqrt() * cutoff * of_one + 3.0 * of_one * of_one;
    (squared * (1.0 + 8.0 * HALF_UNIT)) as f32 * (1.0 + f32::EPSILON) + f32::MIN_POSITIVE
}

/// The greatest estimate of a squared distance that is sure to be one within the cutoff; below zero if none is.
pub(super) fn sure(grid: &Grid, cutoff: f64) -> f32 {
    let rest = cutoff - 3_f64.sqrt() * of_difference(grid, cutoff);
    if rest > 0.0 { (rest * rest * (1.0 - 16.0 * HALF_UNIT)) as f32 * (1.0 - f32::EPSILON) } else { -1.0 }
}

/// The greatest error of the difference of two coordinates: three rounded numbers of the size of the cell, and the
/// difference itself.
pub(super) fn of_difference(grid: &Grid, cutoff: f64) -> f64 {
    HALF_UNIT * (4.0 * grid.largest + cutoff)
}
