//! Eigenvalues and eigenvectors of small symmetric matrices by cyclic Jacobi rotations: slow, and right for every matrix.
//!
//! Golub and Van Loan, Matrix Computations, section 8.5. No difference of nearly equal roots is formed, so that equal
//! eigenvalues and ones of very different size come out to the rounding of the largest.

/// Eigenvalues in no order, and the matrix whose columns are their unit eigenvectors.
pub(crate) fn eigenvalues_and_vectors<const N: usize>(mut a: [[f64; N]; N]) -> ([f64; N], [[f64; N]; N]) {
    let mut vectors = [[0.0; N]; N];
    for (i, row) in vectors.iter_mut().enumerate() {
        row[i] = 1.0;
    }
    // Convergence is quadratic; ten sweeps are more than any 4x4 matrix takes.
    for _ in 0..10 {
        let mut changed = false;
        for p in 0..N {
            for q in p + 1..N {
                changed |= annihilate(&mut a, &mut vectors, p, q);
            }
        }
        if !changed {
            break;
        }
    }
    (std::array::from_fn(|i| a[i][i]), vectors)
}

/// Turns the off-diagonal entry (p, q) to zero; false when it is negligible already.
fn annihilate<const N: usize>(a: &mut [[f64; N]; N], vectors: &mut [[f64; N]; N], p: usize, q: usize) -> bool {
    let off = a[p][q];
    if off == 0.0 || off.abs() <= 1e-18 * (a[p][p].abs() + a[q][q].abs()) {
        a[p][q] = 0.0;
        a[q][p] = 0.0;
        return false;
    }
    let theta = (a[q][q] - a[p][p]) / (2.0 * off);
    let t = theta.signum() / (theta.abs() + theta.hypot(1.0));
    let c = 1.0 / t.hypot(1.0);
    let s = t * c;
    for row in a.iter_mut() {
        (row[p], row[q]) = (c * row[p] - s * row[q], s * row[p] + c * row[q]);
    }
    let (upper, lower) = (a[p], a[q]);
    a[p] = std::array::from_fn(|i| c * upper[i] - s * lower[i]);
    a[q] = std::array::from_fn(|i| s * upper[i] + c * lower[i]);
    a[p][q] = 0.0;
    a[q][p] = 0.0;
    for row in vectors.iter_mut() {
        (row[p], row[q]) = (c * row[p] - s * row[q], s * row[p] + c * row[q]);
    }
    true
}
