//! The three ways in which programs write the unit cell of a DCD frame.

use crate::frame::Cell;

/// CHARMM's version from which on the six numbers are a symmetric shape matrix.
const SHAPE_MATRIX_SINCE: i32 = 25;

/// The cell from the six numbers of a frame, angstrom, in the file's order `A, gamma, B, beta, alpha, C`.
///
/// CHARMM from version 25 on stores `xx, xy, yy, xz, yz, zz` of a symmetric matrix instead, which is kept as it is (its
/// rows are the cell vectors in the frame of the coordinates). Its version is not trusted alone, as other programs
/// copy that number: the matrix must be positive definite, which lengths with angles in degrees are not. Angles that
/// all lie in -1..=1 are cosines (NAMD, VMD). Lengths of zero mean "no cell". `None`: none of these.
pub fn cell(numbers: [f64; 6], version: i32) -> Option<Cell> {
    let [a, gamma, b, beta, alpha, c] = numbers;
    if numbers.iter().any(|number| !number.is_finite()) {
        return None;
    }
    if a == 0.0 && b == 0.0 && c == 0.0 {
        return Some([[0.0; 3]; 3]);
    }
    let angles = [alpha, beta, gamma];
    let cosines = angles.iter().all(|angle| (-1.0..=1.0).contains(angle));
    let degrees = angles.iter().all(|angle| (0.0..=180.0).contains(angle));
    if (version >= SHAPE_MATRIX_SINCE || !(cosines || degrees)) && positive_definite(numbers) {
        let [xx, xy, yy, xz, yz, zz] = numbers.map(|value| value as f32);
        return Some([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]);
    }
    if !(cosines || degrees) || a < 0.0 || b < 0.0 || c < 0.0 {
        return None;
    }
    // exact for right angles, which cos(pi / 2) is not
    let cosine = |angle: f64| match angle {
        _ if cosines => angle,
        90.0 => 0.0,
        _ => angle.to_radians().cos(),
    };
    from_lengths([a, b, c], angles.map(cosine))
}

/// Whether the symmetric matrix `xx, xy, yy, xz, yz, zz` is one (Sylvester's criterion).
fn positive_definite([xx, xy, yy, xz, yz, zz]: [f64; 6]) -> bool {
    let minor = xx * yy - xy * xy;
    let determinant = xx * (yy * zz - yz * yz) - xy * (xy * zz - yz * xz) + xz * (xy * yz - yy * xz);
    xx > 0.0 && minor > 0.0 && determinant > 0.0
}

/// Row vectors with the first along x and the second in the xy plane.
fn from_lengths([a, b, c]: [f64; 3], [cos_alpha, cos_beta, cos_gamma]: [f64; 3]) -> Option<Cell> {
    let sin_gamma = (1.0 - cos_gamma * cos_gamma).sqrt();
    if sin_gamma == 0.0 {
        return None;
    }
    let (bx, by) = (b * cos_gamma, b * sin_gamma);
    let (cx, cy) = (c * cos_beta, c * (cos_alpha - cos_beta * cos_gamma) / sin_gamma);
    let cz = (c * c - cx * cx - cy * cy).sqrt();
    if cz.is_nan() {
        return None;
    }
    Some([[a as f32, 0.0, 0.0], [bx as f32, by as f32, 0.0], [cx as f32, cy as f32, cz as f32]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_angles_in_degrees_and_as_cosines_are_the_same_cell() {
        let expected = [[50.0, 0.0, 0.0], [0.0, 60.0, 0.0], [0.0, 0.0, 70.0]];
        for version in [0, 24, 36] {
            assert_eq!(cell([50.0, 90.0, 60.0, 90.0, 90.0, 70.0], version), Some(expected));
            assert_eq!(cell([50.0, 0.0, 60.0, 0.0, 0.0, 70.0], version), Some(expected));
        }
    }

    #[test]
    fn charmm_36_writes_a_symmetric_matrix() {
        // the first frame of MDAnalysisTests' tip125_tric_C36.dcd; lengths there: 35.446037 35.06156 34.158504
        let numbers = [30.84183587, 14.5786346, 31.78008804, 9.6263226, -2.60815015, 32.67009034];
        for version in [36, 24] {
            let rows = cell(numbers, version).unwrap();
            let length = |row: [f32; 3]| row.iter().map(|v| v * v).sum::<f32>().sqrt();
            for (row, expected) in rows.into_iter().zip([35.446037_f32, 35.06156, 34.158504]) {
                assert!((length(row) - expected).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn nonsense_is_no_cell() {
        assert_eq!(cell([0.0; 6], 24), Some([[0.0; 3]; 3]));
        assert_eq!(cell([f64::NAN, 90.0, 1.0, 90.0, 90.0, 1.0], 24), None);
        assert_eq!(cell([-5.0, 90.0, 5.0, 90.0, 90.0, 5.0], 24), None);
        assert_eq!(cell([5.0, 170.0, 5.0, 20.0, 20.0, 5.0], 24), None);
        assert_eq!(cell([5.0, 500.0, 5.0, 90.0, 90.0, 5.0], 24), None);
    }
}
