//! Cells as lengths and angles, as several formats have them, and as row vectors.

use crate::frame::Cell;

/// A height up to this share of its edge counts as zero: the cosines are rounded to 2^-53, differently by each
/// mathematics library, which leaves a root of about 1e-8 in place of zero.
const FLAT: f64 = 1e-7;

/// Row vectors with the first along x and the second in the xy plane. Edges of length zero stay zero, and their angles count
/// as right ones. `None` for negative lengths and for angles that no cell has.
pub(super) fn from_lengths([a, b, c]: [f64; 3], cosines: [f64; 3]) -> Option<Cell> {
    if [a, b, c].into_iter().any(|length| length.is_nan() || length < 0.0) {
        return None;
    }
    let of = |cosine: f64, one: f64, other: f64| if one == 0.0 || other == 0.0 { 0.0 } else { cosine };
    let [cos_alpha, cos_beta, cos_gamma] = cosines;
    let (cos_alpha, cos_beta, cos_gamma) = (of(cos_alpha, b, c), of(cos_beta, a, c), of(cos_gamma, a, b));
    let sin_gamma = (1.0 - cos_gamma * cos_gamma).sqrt();
    if sin_gamma.is_nan() || sin_gamma <= FLAT {
        return None;
    }
    let (bx, by) = (b * cos_gamma, b * sin_gamma);
    let (cx, cy) = (c * cos_beta, c * (cos_alpha - cos_beta * cos_gamma) / sin_gamma);
    let cz = (c * c - cx * cx - cy * cy).sqrt();
    // a flat cell has no volume, and angles that no cell can have give NaN
    if cz.is_nan() || (c > 0.0 && cz <= FLAT * c) {
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
