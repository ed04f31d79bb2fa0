//! Angles of axes, and the direction in which a set of atoms is longest.

use super::arc_tangent::atan2;
use crate::lanes::{Plain, Quad};
use crate::superposition::Matrix3;
use crate::symmetric_matrix::eigenvalues_and_vectors;

/// Share of the largest moment by which the second must be smaller, so that the longest direction is one.
const APART: f64 = 1e-9;

/// The unit vector in which the gyration tensor is largest, which is the axis of least moment of inertia; its sign is
/// arbitrary. NaN if the two largest moments are equal, or the tensor is not finite.
pub fn longest_direction(tensor: Matrix3) -> [f64; 3] {
    if !tensor.as_flattened().iter().all(|value| value.is_finite()) {
        return [f64::NAN; 3];
    }
    let (moments, vectors) = eigenvalues_and_vectors(tensor);
    let mut order = [0, 1, 2];
    order.sort_unstable_by(|&a, &b| moments[b].total_cmp(&moments[a]));
    let [first, second, _] = order.map(|i| moments[i]);
    if first - second <= APART * first {
        return [f64::NAN; 3];
    }
    vectors.map(|row| row[order[0]])
}

/// The angle of two vectors, radians, from 0 to pi; NaN if one of them is zero.
pub fn angle_of(u: [f64; 3], v: [f64; 3]) -> f64 {
    let is_zero = |w: [f64; 3]| w.iter().all(|x| *x == 0.0);
    if is_zero(u) || is_zero(v) {
        return f64::NAN;
    }
    let product = cross(u, v);
    let length = dot(product, product).sqrt();
    let [angle, ..] = atan2(Plain::all(length), Plain::all(dot(u, v))).store();
    angle
}

/// `u x v`
pub fn cross(u: [f64; 3], v: [f64; 3]) -> [f64; 3] {
    [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]
}

/// `u . v`
fn dot(u: [f64; 3], v: [f64; 3]) -> f64 {
    u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
}

#[cfg(test)]
mod tests {
    use std::f64::consts::{FRAC_PI_2, PI};

    use super::*;

    #[test]
    fn angles_are_exact_where_vectors_are_parallel_or_at_right_angles() {
        assert_eq!(angle_of([0.0, 0.0, 2.0], [0.0, 0.0, 5.0]), 0.0);
        assert!((angle_of([0.0, 0.0, 2.0], [0.0, 0.0, -5.0]) - PI).abs() < 1e-15);
        assert!((angle_of([1.0, 0.0, 0.0], [0.0, -3.0, 0.0]) - FRAC_PI_2).abs() < 1e-15);
        assert!((angle_of([1.0, 0.0, 0.0], [1.0, 1e-9, 0.0]) - 1e-9).abs() < 1e-18);
        assert!(angle_of([0.0; 3], [1.0, 0.0, 0.0]).is_nan());
    }

    #[test]
    fn the_longest_direction_is_undefined_for_a_disc() {
        let diagonal = |a: f64, b: f64, c: f64| [[a, 0.0, 0.0], [0.0, b, 0.0], [0.0, 0.0, c]];
        assert_eq!(longest_direction(diagonal(1.0, 3.0, 2.0)).map(f64::abs), [0.0, 1.0, 0.0]);
        assert!(longest_direction(diagonal(3.0, 3.0, 1.0))[0].is_nan());
        assert!(longest_direction(diagonal(0.0, 0.0, 0.0))[0].is_nan());
        assert!(longest_direction(diagonal(f64::NAN, 1.0, 2.0))[0].is_nan());
    }
}
