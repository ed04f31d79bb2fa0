//! The key matrices of four pairs of structures at once: a lane for each pair.
//!
//! The steps are those of [`KeyMatrix`], in its order, so a lane has the bits of its pair alone. A lane that has converged
//! no longer changes.

use super::key_matrix::{MAX_STEPS, SEPARATED};
use crate::lanes::Quad;

/// A 3x3 matrix of rows for each of four pairs.
pub(crate) type Matrices3<Q> = [[Q; 3]; 3];

/// The largest eigenvalue of each key matrix; nan if Newton's method cannot be trusted, as in `KeyMatrix::newton`.
///
/// `m` has inner products, `bound` an upper bound of each eigenvalue.
#[inline(always)]
pub(crate) fn largest_eigenvalues<Q: Quad>(m: &Matrices3<Q>, bound: Q) -> Q {
    let (zero, one) = (Q::all(0.0), Q::all(1.0));
    let mut squares = zero;
    for value in m.as_flattened() {
        squares = value.multiply_add(*value, squares);
    }
    let c2 = Q::all(-2.0).multiply(squares);
    let c1 = Q::all(-8.0).multiply(determinant3(m));
    let c0 = determinant(m);
    let (mut l, mut active, mut trusted) = (bound, one, zero);
    for _ in 0..MAX_STEPS {
        let square = l.multiply(l);
        let b = square.add(c2);
        let a = b.multiply_add(l, c1);
        let value = a.multiply_add(l, c0);
        let slope = Q::all(2.0).multiply(square).multiply_add(l, b.multiply_add(l, a));
        let step = value.divide(slope);
        let changes = zero.less(active);
        l = Q::select(changes, l.subtract(step), l);
        let cube = l.multiply(l).multiply(l);
        let simple = Q::select(Q::all(SEPARATED).multiply(cube).less(slope), one, zero);
        let simple = Q::select(zero.less(l), simple, zero);
        trusted = Q::select(changes, simple, trusted);
        let goes_on = Q::select(Q::all(1e-10).multiply(l.magnitude()).less(step.magnitude()), one, zero);
        active = Q::select(changes, goes_on, zero);
        if !Q::any(zero.less(active)) {
            break;
        }
    }
    // a lane that has not converged is not trusted
    trusted = Q::select(zero.less(active), zero, trusted);
    Q::select(zero.less(trusted), l, Q::all(f64::NAN))
}

#[inline(always)]
fn negative<Q: Quad>(value: Q) -> Q {
    Q::all(0.0).subtract(value)
}

/// The determinant of each key matrix, by Laplace expansion along the two upper rows.
#[inline(always)]
fn determinant<Q: Quad>(m: &Matrices3<Q>) -> Q {
    let [[xx, xy, xz], [yx, yy, yz], [zx, zy, zz]] = *m;
    let d =
        [xx.add(yy).add(zz), xx.subtract(yy).subtract(zz), yy.subtract(xx).subtract(zz), zz.subtract(xx).subtract(yy)];
    let (k01, k02, k03) = (yz.subtract(zy), zx.subtract(xz), xy.subtract(yx));
    let (k12, k13, k23) = (xy.add(yx), zx.add(xz), yz.add(zy));
    let minor = |a: Q, b: Q, c: Q, e: Q| a.multiply_add(e, negative(b.multiply(c)));
    let u = [
        minor(d[0], k01, k01, d[1]),
        minor(d[0], k02, k01, k12),
        minor(d[0], k03, k01, k13),
        minor(k01, k02, d[1], k12),
        minor(k01, k03, d[1], k13),
        minor(k02, k03, k12, k13),
    ];
    let v = [
        minor(k02, k12, k03, k13),
        minor(k02, d[2], k03, k23),
        minor(k02, k23, k03, d[3]),
        minor(k12, d[2], k13, k23),
        minor(k12, k23, k13, d[3]),
        minor(d[2], k23, k23, d[3]),
    ];
    let first = u[0].multiply_add(v[5], u[5].multiply(v[0])).subtract(u[1].multiply_add(v[4], u[4].multiply(v[1])));
    first.add(u[2].multiply_add(v[3], u[3].multiply(v[2])))
}

#[inline(always)]
fn determinant3<Q: Quad>([a, b, c]: &Matrices3<Q>) -> Q {
    let first = b[1].multiply_add(c[2], negative(b[2].multiply(c[1])));
    let second = b[0].multiply_add(c[2], negative(b[2].multiply(c[0])));
    let third = b[0].multiply_add(c[1], negative(b[1].multiply(c[0])));
    a[2].multiply_add(third, a[0].multiply_add(first, negative(a[1].multiply(second))))
}

#[cfg(test)]
mod tests {
    use super::super::key_matrix::{KeyMatrix, Matrix3};
    use super::*;
    use crate::cpu::{Cpu, dispatch};

    #[inline(always)]
    fn found<Q: Quad>(four: &[Matrix3; 4], bound: f64) -> [f64; 4] {
        let m: Matrices3<Q> =
            std::array::from_fn(|a| std::array::from_fn(|b| Q::load(&four.map(|products| products[a][b]))));
        largest_eigenvalues(&m, Q::all(bound)).store()
    }

    #[test]
    fn four_lanes_have_the_bits_of_each_pair_alone() {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
        };
        let mut trusted = 0;
        for round in 0..500 {
            let mut four: [Matrix3; 4] =
                std::array::from_fn(|_| std::array::from_fn(|_| std::array::from_fn(|_| next())));
            // collinear atoms and nothing at all: no simple root
            if round % 3 == 0 {
                four[1] = [[1.0, 0.0, 0.0], [0.0; 3], [0.0; 3]];
                four[3] = [[0.0; 3]; 3];
            }
            for cpu in [Cpu::detect(), Cpu::baseline()] {
                let of_four = dispatch!(cpu, [f64; 4], found, (four: &[Matrix3; 4] = &four, bound: f64 = 4.0));
                for (m, found) in four.iter().zip(of_four) {
                    let alone = KeyMatrix::new(m).newton(m, 4.0);
                    trusted += usize::from(alone.is_some());
                    assert_eq!(alone, (!found.is_nan()).then_some(found), "{m:?}");
                }
            }
        }
        assert!(trusted > 2000, "{trusted}");
    }
}
