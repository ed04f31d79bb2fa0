//! Sine and cosine of angles in turns, four at once, to 2 units in the last place.
//!
//! The angle is reduced to an eighth of a turn by exact subtractions, and the series of both are summed there.

use kinema_core::frame::lattice::ROUNDING;

use crate::lanes::Quad;

/// Coefficients of the series of `sin y / y` and of `cos y` in powers of `y^2`: up to pi/4, the next term is below 2^-60.
const SINE: [f64; 9] = series(1);
const COSINE: [f64; 9] = series(0);

/// 1 / first!, -1 / (first + 2)!, 1 / (first + 4)! ...
const fn series(first: u32) -> [f64; 9] {
    let mut terms = [0.0; 9];
    let (mut i, mut sign, mut factorial, mut number) = (0, 1.0, 1.0, first);
    while i < terms.len() {
        terms[i] = sign / factorial;
        factorial *= ((number + 1) * (number + 2)) as f64;
        number += 2;
        sign = -sign;
        i += 1;
    }
    terms
}

/// A number of turns less the nearest whole number: from -1/2 to 1/2.
#[inline(always)]
pub(crate) fn without_whole<Q: Quad>(turns: Q) -> Q {
    let rounding = Q::all(ROUNDING);
    turns.subtract(turns.add(rounding).subtract(rounding))
}

/// Sine and cosine of `2 pi turns`.
#[inline(always)]
pub(crate) fn sine_and_cosine<Q: Quad>(turns: Q) -> [Q; 2] {
    let (quarter, eighth) = (Q::all(0.25), Q::all(0.125));
    let rest = without_whole(turns);
    let size = rest.magnitude();
    let backward = quarter.less(size);
    let size = Q::select(backward, Q::all(0.5).subtract(size), size);
    let steep = eighth.less(size);
    let angle = Q::select(steep, quarter.subtract(size), size).multiply(Q::all(std::f64::consts::TAU));
    let square = angle.multiply(angle);
    let (sine, cosine) = (sum(square, &SINE).multiply(angle), sum(square, &COSINE));
    let (lesser, greater) = (Q::select(steep, cosine, sine), Q::select(steep, sine, cosine));
    let cosine = Q::select(backward, Q::all(0.0).subtract(greater), greater);
    [lesser.with_sign_of(rest), cosine]
}

/// Horner's scheme.
#[inline(always)]
fn sum<Q: Quad>(square: Q, terms: &[f64; 9]) -> Q {
    let [a, b, c, d, e, f, g, h, i] = *terms;
    let mut sum = Q::all(i);
    for term in [h, g, f, e, d, c, b, a] {
        sum = sum.multiply_add(square, Q::all(term));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{Cpu, dispatch};

    #[inline(always)]
    fn of<Q: Quad>(turns: &[f64; 4]) -> [[f64; 4]; 2] {
        sine_and_cosine(Q::load(turns)).map(Q::store)
    }

    #[test]
    fn values_are_those_of_the_standard_library() {
        for i in -4000..4000 {
            let turns: [f64; 4] = std::array::from_fn(|lane| (f64::from(i) + 0.25 * lane as f64) / 1024.0);
            let found = dispatch!(Cpu::detect(), [[f64; 4]; 2], of, (turns: &[f64; 4] = &turns));
            assert_eq!(found, dispatch!(Cpu::baseline(), [[f64; 4]; 2], of, (turns: &[f64; 4] = &turns)));
            for (lane, turns) in turns.iter().enumerate() {
                let angle = std::f64::consts::TAU * (turns - turns.round());
                assert!((found[0][lane] - angle.sin()).abs() < 5e-16, "{turns}");
                assert!((found[1][lane] - angle.cos()).abs() < 5e-16, "{turns}");
            }
        }
    }
}
