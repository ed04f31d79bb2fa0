//! DCD unit cells, in the three conventions that programs write.

use crate::format::cells::{cosine_of_degrees, finite, from_lengths};
use crate::frame::{Cell, NO_CELL};

/// CHARMM's version from which on the six numbers are a symmetric shape matrix.
pub(super) const SHAPE_MATRIX_SINCE: i32 = 25;

/// The cell from the six numbers of a frame, angstrom, in the file's order `A, gamma, B, beta, alpha, C`.
///
/// CHARMM from version 25 on stores `xx, xy, yy, xz, yz, zz` of a symmetric matrix instead, which is kept as it is. Its
/// rows are the cell vectors in the frame of the coordinates: if they are turned so that a lies along x, as MDAnalysis
/// does, periodic images of CHARMM 36's triclinic water overlap. The version alone is not trusted, because other
/// programs copy that number: the matrix must be positive definite, and its three off-diagonal numbers must not all be
/// exactly 90. These are right angles, although edges beyond 90 angstrom make them a positive definite matrix as well.
///
/// Before version 25, and for X-PLOR, angles that all lie in -1..=1 are cosines (NAMD, VMD), and angles in 0..=180 are
/// degrees; a matrix is taken only if they are neither. An edge of length zero is an open direction, and its angles
/// count as right angles; three open directions are not a cell. `None`: none of these.
pub fn cell(numbers: [f64; 6], version: i32) -> Option<Cell> {
    let [a, gamma, b, beta, alpha, c] = numbers;
    if numbers.iter().any(|number| !number.is_finite()) {
        return None;
    }
    if [a, b, c] == [0.0; 3] {
        return Some(NO_CELL);
    }
    let open = [a, b, c].map(|length| length == 0.0);
    let of_open = |i: usize| open[(i + 1) % 3] || open[(i + 2) % 3];
    let angles = [alpha, beta, gamma];
    // of an edge without a length programs leave anything in the angles
    let mut known = angles.iter().enumerate().filter(|(i, _)| !of_open(*i)).map(|(_, angle)| angle);
    let cosines = known.clone().all(|angle| (-1.0..=1.0).contains(angle));
    let degrees = known.all(|angle| (0.0..=180.0).contains(angle));
    let claimed = version >= SHAPE_MATRIX_SINCE && angles != [90.0; 3];
    if (claimed || !(cosines || degrees)) && is_shape(numbers) {
        let [xx, xy, yy, xz, yz, zz] = numbers;
        return finite([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]);
    }
    if !(cosines || degrees) {
        return None;
    }
    from_lengths([a, b, c], if cosines { angles } else { angles.map(cosine_of_degrees) })
}

/// Whether the symmetric matrix `xx, xy, yy, xz, yz, zz` is one of edges: positive definite (Sylvester's criterion), but for
/// open edges, all numbers of which are zero.
fn is_shape([xx, xy, yy, xz, yz, zz]: [f64; 6]) -> bool {
    let edge = |own: f64, others: [f64; 2]| if own == 0.0 && others == [0.0; 2] { 1.0 } else { own };
    let (xx, yy, zz) = (edge(xx, [xy, xz]), edge(yy, [xy, yz]), edge(zz, [xz, yz]));
    let minor = xx * yy - xy * xy;
    let determinant = xx * (yy * zz - yz * yz) - xy * (xy * zz - yz * xz) + xz * (xy * yz - yy * xz);
    xx > 0.0 && minor > 0.0 && determinant > 0.0
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
            let length = |row: [f64; 3]| row.iter().map(|v| v * v).sum::<f64>().sqrt();
            for (row, expected) in rows.into_iter().zip([35.446037_f64, 35.06156, 34.158504]) {
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
        assert_eq!(cell([5.0, 60.0, 5.0, 60.0, 120.0, 5.0], 24), None, "flat");
        // found by Miri, which rounds cosines at random: flat except for the last bits of an angle
        for angle in [120.0_f64.next_down(), 120.0_f64.next_up()] {
            for other in [60.0_f64.next_down(), 60.0, 60.0_f64.next_up()] {
                assert_eq!(cell([5.0, 60.0, 5.0, other, angle, 5.0], 24), None, "flat except for rounding");
            }
        }
        assert_eq!(cell([5.0, 180.0_f64.next_down(), 5.0, 90.0, 90.0, 5.0], 24), None, "flat except for rounding");
        assert_eq!(cell([1e300, 90.0, 1e300, 90.0, 90.0, 1e300], 24), None, "beyond single precision");
    }

    #[test]
    fn right_angles_of_long_edges_are_no_matrix() {
        let expected = [[100.0, 0.0, 0.0], [0.0, 110.0, 0.0], [0.0, 0.0, 120.0]];
        for version in [24, 36] {
            assert_eq!(cell([100.0, 90.0, 110.0, 90.0, 90.0, 120.0], version), Some(expected));
        }
    }

    #[test]
    fn a_small_shear_is_a_cosine_only_before_the_version_that_writes_matrices() {
        let numbers = [50.0, 0.5, 50.0, 0.0, 0.0, 50.0];
        assert_eq!(cell(numbers, 36), Some([[50.0, 0.5, 0.0], [0.5, 50.0, 0.0], [0.0, 0.0, 50.0]]));
        assert_eq!(cell(numbers, 24), Some([[50.0, 0.0, 0.0], [25.0, 43.301_270_189_221_93, 0.0], [0.0, 0.0, 50.0]]));
    }

    #[test]
    fn degrees_and_cosines_give_the_cell_of_mdanalysis() {
        // MDAnalysis 2.11.0: triclinic_vectors([81.1, 82.2, 83.3, 75, 80, 85])
        let expected = [[81.1, 0.0, 0.0], [7.164_202, 81.887_21, 0.0], [14.464_893, 20.376_467, 79.463_554]];
        let cosine = |angle: f64| angle.to_radians().cos();
        for [alpha, beta, gamma] in [[75.0, 80.0, 85.0], [75.0, 80.0, 85.0].map(cosine)] {
            let found = cell([81.1, gamma, 82.2, beta, alpha, 83.3], 24).unwrap();
            for (a, b) in found.iter().flatten().zip(expected.iter().flatten()) {
                assert!((a - b).abs() <= 1e-5_f64, "{found:?}");
            }
        }
    }

    #[test]
    fn a_length_of_zero_is_an_open_edge_whatever_its_angles() {
        assert_eq!(cell([0.0, 90.0, 0.0, 90.0, 90.0, 0.0], 24), Some([[0.0; 3]; 3]));
        let slab = Some([[50.0, 0.0, 0.0], [0.0, 60.0, 0.0], [0.0; 3]]);
        for (angle, gamma) in [(90.0, 90.0), (0.0, 0.0), (0.0, 90.0), (500.0, 90.0), (-7.0, 90.0)] {
            for version in [0, 24, 36] {
                assert_eq!(cell([50.0, gamma, 60.0, angle, angle, 0.0], version), slab, "{angle} {version}");
            }
        }
        assert_eq!(cell([0.0, 3.0, 60.0, 0.0, 0.0, 0.0], 24), Some([[0.0; 3], [0.0, 60.0, 0.0], [0.0; 3]]));
        let sheared = [[50.0, 0.5, 0.0], [0.5, 60.0, 0.0], [0.0; 3]];
        assert_eq!(cell([50.0, 0.5, 60.0, 0.0, 0.0, 0.0], 36), Some(sheared));
        assert_eq!(cell([-50.0, 90.0, 60.0, 90.0, 90.0, 0.0], 24), None);
    }
}
