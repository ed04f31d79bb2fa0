//! The angle of a point in the plane, four at once, to 2 units in the last place.
//!
//! The lesser of |y| and |x| is divided by the greater. A quotient q above 2/3 is replaced by (q - 1) / (q + 1) and an
//! eighth of a turn, so that one polynomial serves all. It is the best polynomial for the relative error (Remez'
//! algorithm, computed with 300 bits): 2^-59.

use crate::lanes::Quad;

/// Coefficients of `(atan(z) - z) / z^3` in powers of `z^2`, up to `z = 2/3`.
const COEFFICIENTS: [f64; 15] = [
    -0.3333333333333321,
    0.1999999999997048,
    -0.14285714283260714,
    0.11111111007485941,
    -0.09090906476648807,
    0.07692264572813687,
    -0.06666174891724734,
    0.05878331112522218,
    -0.05239006254797093,
    0.046538141046474114,
    -0.039842408775145194,
    0.03076924426414403,
    -0.019285561156962297,
    0.00835006216004656,
    -0.0018084563779154328,
];
const TURNED: f64 = 2.0 / 3.0;
/// An eighth of a turn, and the rest that this number lacks; its last bits are zero, so that up to four times it is
/// exact.
const EIGHTH: f64 = f64::from_bits(std::f64::consts::FRAC_PI_4.to_bits() & !0xff);
const REST: f64 = 2.695_151_429_079_059_5e-15;

/// The angle of `(x, y)` from the x axis, radians from -pi to pi; with y = -0 as with y = 0. NaN for (0, 0), and if x
/// or y is NaN or infinite.
#[inline(always)]
pub(super) fn atan2<Q: Quad>(y: Q, x: Q) -> Q {
    let (zero, one, minus) = (Q::all(0.0), Q::all(1.0), Q::all(-1.0));
    let (height, width) = (y.magnitude(), x.magnitude());
    // the angle is `base` eighths of a turn and `sign` times the arc tangent of a quotient
    let steep = width.less(height);
    let lesser = Q::select(steep, width, height);
    let greater = Q::select(steep, height, width);
    let turned = Q::all(TURNED).multiply(greater).less(lesser);
    let over = Q::select(turned, lesser.subtract(greater), lesser);
    let under = Q::select(turned, lesser.add(greater), greater);
    let tangent = over.divide(under);
    let base = Q::select(turned, one, zero);
    let base = Q::select(steep, Q::all(2.0).subtract(base), base);
    let backward = x.less(zero);
    let base = Q::select(backward, Q::all(4.0).subtract(base), base);
    let sign = Q::select(steep, minus, one).multiply(Q::select(backward, minus, one));
    let part = arc_tangent(tangent).multiply(sign);
    let angle = base.multiply(Q::all(EIGHTH)).add(base.multiply_add(Q::all(REST), part));
    angle.with_sign_of(y.add(zero))
}

/// Arc tangent of a number between -1/5 and 2/3. Even and odd powers are summed side by side.
#[inline(always)]
fn arc_tangent<Q: Quad>(tangent: Q) -> Q {
    let square = tangent.multiply(tangent);
    let fourth = square.multiply(square);
    let (pairs, last) = COEFFICIENTS.as_chunks::<2>();
    let (mut even, mut odd) = (Q::all(last[0]), Q::all(0.0));
    for [of_even, of_odd] in pairs.iter().rev() {
        even = even.multiply_add(fourth, Q::all(*of_even));
        odd = odd.multiply_add(fourth, Q::all(*of_odd));
    }
    let sum = odd.multiply_add(square, even);
    tangent.multiply(square).multiply_add(sum, tangent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{Cpu, dispatch};
    use crate::lanes::Plain;
    use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

    #[inline(always)]
    fn atan2_of_four<Q: Quad>(y: &[f64; 4], x: &[f64; 4]) -> [f64; 4] {
        atan2(Q::load(y), Q::load(x)).store()
    }

    /// Numbers of any sign and of 40 powers of two, the same in every run.
    fn points(count: usize) -> impl Iterator<Item = ([f64; 4], [f64; 4])> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let fraction = (state >> 12) as f64 / (1_u64 << 52) as f64 + 1.0;
            let power = (state % 41) as i32 - 20;
            let size = if state & 64 == 0 { fraction } else { fraction * f64::from(power).exp2() };
            if state & 128 == 0 { size } else { -size }
        };
        (0..count).map(move |_| (std::array::from_fn(|_| next()), std::array::from_fn(|_| next())))
    }

    /// In units of the last place of the second.
    fn apart(found: f64, expected: f64) -> f64 {
        let ulp = f64::from_bits(expected.abs().to_bits() + 1) - expected.abs();
        (found - expected).abs() / ulp
    }

    #[test]
    fn angles_are_those_of_the_library_to_two_units() {
        // the library's are right to less than one unit
        let mut greatest = 0.0_f64;
        for (y, x) in points(200_000) {
            let found = atan2_of_four::<Plain>(&y, &x);
            for i in 0..4 {
                greatest = greatest.max(apart(found[i], y[i].atan2(x[i])));
            }
        }
        println!("greatest difference: {greatest} units");
        assert!(greatest <= 2.0, "{greatest}");
    }

    #[test]
    fn both_builds_give_the_same_bits() {
        for (y, x) in points(20_000) {
            let wide = dispatch!(Cpu::detect(), [f64; 4], atan2_of_four, (y: &[f64; 4] = &y, x: &[f64; 4] = &x));
            assert_eq!(wide.map(f64::to_bits), atan2_of_four::<Plain>(&y, &x).map(f64::to_bits), "{y:?} {x:?}");
        }
    }

    #[test]
    fn axes_and_diagonals_are_exact() {
        let found = atan2_of_four::<Plain>(&[0.0, 3.0, 0.0, -3.0], &[2.0, 0.0, -2.0, 0.0]);
        assert_eq!(found, [0.0, FRAC_PI_2, PI, -FRAC_PI_2]);
        let found = atan2_of_four::<Plain>(&[1.0, 1.0, -1.0, -0.0], &[1.0, -1.0, -1.0, -1.0]);
        assert_eq!(found, [FRAC_PI_4, 3.0 * FRAC_PI_4, -3.0 * FRAC_PI_4, PI]);
        let found = atan2_of_four::<Plain>(&[0.0, f64::NAN, 1.0, 1e-300], &[0.0, 1.0, f64::NAN, -1e300]);
        assert!(found[..3].iter().all(|angle| angle.is_nan()), "{found:?}");
        assert_eq!(found[3], PI);
    }
}
