//! Cells as lengths and angles, as several formats have them, and as row vectors.

use crate::frame::Cell;

/// A height up to this share of its edge is none: rounding to 2^-53 in the cosines, which no two mathematics libraries
/// do alike, leaves a root of about 1e-8 where there should be zero.
const FLAT: f64 = 1e-7;

/// Row vectors with the first along x and the second in the xy plane.
pub(super) fn from_lengths([a, b, c]: [f64; 3], [cos_alpha, cos_beta, cos_gamma]: [f64; 3]) -> Option<Cell> {
    let sin_gamma = (1.0 - cos_gamma * cos_gamma).sqrt();
    if sin_gamma <= FLAT {
        return None;
    }
    let (bx, by) = (b * cos_gamma, b * sin_gamma);
    let (cx, cy) = (c * cos_beta, c * (cos_alpha - cos_beta * cos_gamma) / sin_gamma);
    let cz = (c * c - cx * cx - cy * cy).sqrt();
    // a flat cell has no volume, and angles that no cell can have give NaN
    if cz.is_nan() || cz <= FLAT * c {
        return None;
    }
    finite([[a, 0.0, 0.0], [bx, by, 0.0], [cx, cy, cz]])
}

/// `None` for a cell beyond single precision, in which positions are.
pub(super) fn finite(cell: Cell) -> Option<Cell> {
    cell.iter().flatten().all(|value| (*value as f32).is_finite()).then_some(cell)
}

/// The cosine of an angle in degrees; exact for right angles, which cos(pi / 2) is not.
pub(super) fn cosine_of_degrees(angle: f64) -> f64 {
    if angle == 90.0 { 0.0 } else { angle.to_radians().cos() }
}

/// The angle in degrees; exact for right angles.
pub(super) fn degrees_of_cosine(cosine: f64) -> f64 {
    if cosine == 0.0 { 90.0 } else { cosine.acos().to_degrees() }
}

/// Lengths of the vectors, and cosines of alpha (between the second and third), beta and gamma.
pub(super) fn lengths_and_cosines(cell: &Cell) -> ([f64; 3], [f64; 3]) {
    let dot = |u: &[f64; 3], v: &[f64; 3]| u.iter().zip(v).map(|(u, v)| u * v).sum::<f64>();
    // exact for vectors along an axis, which a square root of a square is not
    let length = |v: &[f64; 3]| match v.iter().filter(|value| **value != 0.0).count() {
        0 | 1 => v.iter().map(|value| value.abs()).sum(),
        _ => dot(v, v).sqrt(),
    };
    let lengths = [0, 1, 2].map(|i| length(&cell[i]));
    let cosine = |u: usize, v: usize| match dot(&cell[u], &cell[v]) {
        0.0 => 0.0,
        dot => (dot / (lengths[u] * lengths[v])).clamp(-1.0, 1.0),
    };
    (lengths, [cosine(1, 2), cosine(0, 2), cosine(0, 1)])
}

/// Whether the first vector lies along x and the second in the xy plane: lengths and angles say no more.
pub(super) fn is_lower(cell: &Cell) -> bool {
    cell[0][1] == 0.0 && cell[0][2] == 0.0 && cell[1][2] == 0.0
}
