//! The 4x4 key matrix of a superposition: its largest eigenvalue, and the rotation of its eigenvector.
//!
//! It sees inner products only, never coordinates. Sources: Horn 1987 (J Opt Soc Am A 4:629) for the matrix, Theobald
//! 2005 (Acta Cryst A61:478) for Newton's method on its characteristic polynomial, Liu, Agrafiotis and Theobald 2010
//! (J Comput Chem 31:1561) for the eigenvector as a column of the adjoint matrix.

use crate::symmetric_matrix::eigenvalues_and_vectors;

/// A 3x3 matrix of rows.
pub type Matrix3 = [[f64; 3]; 3];

/// Newton's method is trusted if `P'(l) > SEPARATED * l^3`: the root is then simple enough for its error to stay below
/// about `f64::EPSILON / SEPARATED`, and the adjoint matrix holds its eigenvector as exactly.
pub(super) const SEPARATED: f64 = 1e-3;

/// Steps after which Newton's method is given up; well-separated roots take four to eight.
pub(super) const MAX_STEPS: usize = 40;

/// The identity rotation.
pub const IDENTITY: Matrix3 = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

/// Upper triangle of the symmetric, traceless key matrix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyMatrix {
    d: [f64; 4],
    k01: f64,
    k02: f64,
    k03: f64,
    k12: f64,
    k13: f64,
    k23: f64,
}

impl KeyMatrix {
    /// From the inner products `m[a][b] = sum w x_a y_b` of mobile x and reference y, both centred.
    #[inline(always)]
    pub(crate) fn new(m: &Matrix3) -> Self {
        let [[xx, xy, xz], [yx, yy, yz], [zx, zy, zz]] = *m;
        Self {
            d: [xx + yy + zz, xx - yy - zz, yy - xx - zz, zz - xx - yy],
            k01: yz - zy,
            k02: zx - xz,
            k03: xy - yx,
            k12: xy + yx,
            k13: zx + xz,
            k23: yz + zy,
        }
    }

    /// The largest eigenvalue; `bound` is an upper bound of it (half the sum of both norms).
    #[inline(always)]
    pub(crate) fn largest_eigenvalue(&self, m: &Matrix3, bound: f64) -> f64 {
        match self.newton(m, bound) {
            Some(eigenvalue) => eigenvalue,
            None => self.jacobi().0,
        }
    }

    /// Newton's method from above: it descends monotonically to the largest root, as all roots are real.
    #[inline(always)]
    pub(super) fn newton(&self, m: &Matrix3, bound: f64) -> Option<f64> {
        let mut c2 = 0.0;
        for value in m.as_flattened() {
            c2 = value.mul_add(*value, c2);
        }
        let c2 = -2.0 * c2;
        let c1 = -8.0 * determinant3(m);
        let c0 = self.determinant(0.0);
        let mut l = bound;
        for _ in 0..MAX_STEPS {
            let square = l * l;
            let b = square + c2;
            let a = b.mul_add(l, c1);
            let value = a.mul_add(l, c0);
            let slope = (2.0 * square).mul_add(l, b.mul_add(l, a));
            let step = value / slope;
            l -= step;
            // The next step would be of the order of the square of this one.
            if step.abs() <= 1e-10 * l.abs() {
                return (slope > SEPARATED * (l * l * l) && l > 0.0).then_some(l);
            }
            if !step.is_finite() {
                return None;
            }
        }
        None
    }

    /// Minors of the two upper and the two lower rows of `K - l`, in the column pairs 01 02 03 12 13 23.
    #[inline(always)]
    fn minors(&self, l: f64) -> ([f64; 4], [f64; 6], [f64; 6]) {
        let d = [self.d[0] - l, self.d[1] - l, self.d[2] - l, self.d[3] - l];
        let minor = |a: f64, b: f64, c: f64, e: f64| a.mul_add(e, -(b * c));
        let upper = [
            minor(d[0], self.k01, self.k01, d[1]),
            minor(d[0], self.k02, self.k01, self.k12),
            minor(d[0], self.k03, self.k01, self.k13),
            minor(self.k01, self.k02, d[1], self.k12),
            minor(self.k01, self.k03, d[1], self.k13),
            minor(self.k02, self.k03, self.k12, self.k13),
        ];
        let lower = [
            minor(self.k02, self.k12, self.k03, self.k13),
            minor(self.k02, d[2], self.k03, self.k23),
            minor(self.k02, self.k23, self.k03, d[3]),
            minor(self.k12, d[2], self.k13, self.k23),
            minor(self.k12, self.k23, self.k13, d[3]),
            minor(d[2], self.k23, self.k23, d[3]),
        ];
        (d, upper, lower)
    }

    /// `det(K - l)`, by Laplace expansion along the two upper rows.
    #[inline(always)]
    fn determinant(&self, l: f64) -> f64 {
        let (_, u, v) = self.minors(l);
        let first = u[0].mul_add(v[5], u[5] * v[0]) - u[1].mul_add(v[4], u[4] * v[1]);
        first + u[2].mul_add(v[3], u[3] * v[2])
    }

    /// The rotation (mobile onto reference, determinant 1) that belongs to the largest eigenvalue.
    ///
    /// If several rotations are equally good (collinear atoms, mirror images), it is one of them.
    #[inline(always)]
    pub(crate) fn rotation(&self, m: &Matrix3, bound: f64) -> (f64, Matrix3) {
        match self.newton(m, bound) {
            Some(eigenvalue) => (eigenvalue, rotation_of(self.adjoint_column(eigenvalue))),
            None => {
                let (eigenvalue, quaternion) = self.jacobi();
                (eigenvalue, rotation_of(quaternion))
            }
        }
    }

    /// The column of the adjoint matrix of `K - l` with the largest diagonal entry: a multiple of the eigenvector.
    #[inline(always)]
    fn adjoint_column(&self, l: f64) -> [f64; 4] {
        let (d, u, v) = self.minors(l);
        let (k01, k02, k03, k12, k13, k23) = (self.k01, self.k02, self.k03, self.k12, self.k13, self.k23);
        let columns = [
            [
                d[1] * v[5] - k12 * v[4] + k13 * v[3],
                -k01 * v[5] + k12 * v[2] - k13 * v[1],
                k01 * v[4] - d[1] * v[2] + k13 * v[0],
                -k01 * v[3] + d[1] * v[1] - k12 * v[0],
            ],
            [
                -k01 * v[5] + k02 * v[4] - k03 * v[3],
                d[0] * v[5] - k02 * v[2] + k03 * v[1],
                -d[0] * v[4] + k01 * v[2] - k03 * v[0],
                d[0] * v[3] - k01 * v[1] + k02 * v[0],
            ],
            [
                k13 * u[5] - k23 * u[4] + d[3] * u[3],
                -k03 * u[5] + k23 * u[2] - d[3] * u[1],
                k03 * u[4] - k13 * u[2] + d[3] * u[0],
                -k03 * u[3] + k13 * u[1] - k23 * u[0],
            ],
            [
                -k12 * u[5] + d[2] * u[4] - k23 * u[3],
                k02 * u[5] - d[2] * u[2] + k23 * u[1],
                -k02 * u[4] + k12 * u[2] - k23 * u[0],
                k02 * u[3] - k12 * u[1] + d[2] * u[0],
            ],
        ];
        let mut best = columns[0];
        let mut size = best[0].abs();
        for (i, column) in columns.iter().enumerate().skip(1) {
            if column[i].abs() > size {
                size = column[i].abs();
                best = *column;
            }
        }
        best
    }

    /// Largest eigenvalue and its unit eigenvector by Jacobi rotations: slow, and right for every matrix.
    #[cold]
    fn jacobi(&self) -> (f64, [f64; 4]) {
        let (k01, k02, k03, k12, k13, k23) = (self.k01, self.k02, self.k03, self.k12, self.k13, self.k23);
        let d = self.d;
        let a = [[d[0], k01, k02, k03], [k01, d[1], k12, k13], [k02, k12, d[2], k23], [k03, k13, k23, d[3]]];
        let (values, vectors) = eigenvalues_and_vectors(a);
        let mut best = 0;
        for i in 1..4 {
            if values[i] > values[best] {
                best = i;
            }
        }
        (values[best], [vectors[0][best], vectors[1][best], vectors[2][best], vectors[3][best]])
    }
}

#[inline(always)]
fn determinant3(m: &Matrix3) -> f64 {
    let [a, b, c] = m;
    let first = b[1].mul_add(c[2], -(b[2] * c[1]));
    let second = b[0].mul_add(c[2], -(b[2] * c[0]));
    let third = b[0].mul_add(c[1], -(b[1] * c[0]));
    a[2].mul_add(third, a[0].mul_add(first, -(a[1] * second)))
}

/// The rotation of a quaternion of any length; the identity if it is zero.
fn rotation_of(quaternion: [f64; 4]) -> Matrix3 {
    let largest = quaternion.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    if largest == 0.0 {
        return IDENTITY;
    }
    // Scaling first keeps the squares of very large or small adjoint entries within range.
    let [w, x, y, z] = quaternion.map(|value| value / largest);
    let f = 2.0 / (w * w + x * x + y * y + z * z);
    [
        [1.0 - f * (y * y + z * z), f * (x * y - w * z), f * (x * z + w * y)],
        [f * (x * y + w * z), 1.0 - f * (x * x + z * z), f * (y * z - w * x)],
        [f * (x * z - w * y), f * (y * z + w * x), 1.0 - f * (x * x + y * y)],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn products(seed: u64) -> Matrix3 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
        };
        std::array::from_fn(|_| std::array::from_fn(|_| next()))
    }

    #[test]
    fn newton_agrees_with_jacobi() {
        let mut trusted = 0;
        for seed in 1..2000 {
            let m = products(seed);
            let key = KeyMatrix::new(&m);
            let (eigenvalue, vector) = key.jacobi();
            if let Some(l) = key.newton(&m, 4.0) {
                trusted += 1;
                assert!((l - eigenvalue).abs() < 1e-12 * eigenvalue, "seed {seed}: {l} {eigenvalue}");
                let (a, b) = (rotation_of(key.adjoint_column(l)), rotation_of(vector));
                for (a, b) in a.as_flattened().iter().zip(b.as_flattened()) {
                    assert!((a - b).abs() < 1e-10, "seed {seed}: {a} {b}");
                }
            }
        }
        assert!(trusted > 1900, "{trusted}");
    }

    #[test]
    fn rotations_are_proper_even_for_degenerate_products() {
        let degenerate = [
            [[0.0; 3]; 3],
            [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
            [[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]],
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]],
            [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [3.0, 6.0, 9.0]],
            [[1e80, 0.0, 0.0], [0.0, -1e80, 3e79], [0.0, 0.0, 1e80]],
            [[1e-90, 0.0, 0.0], [0.0, -1e-90, 3e-91], [0.0, 0.0, 1e-90]],
        ];
        for m in degenerate {
            let (eigenvalue, r) = KeyMatrix::new(&m).rotation(&m, m.as_flattened().iter().map(|v| v.abs()).sum());
            assert!(eigenvalue.is_finite() && eigenvalue >= 0.0, "{m:?}: {eigenvalue}");
            assert!((determinant3(&r) - 1.0).abs() < 1e-12, "{m:?}: {r:?}");
        }
    }
}
