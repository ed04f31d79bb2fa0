//! Four vectors, exponents or fractions at once: what some loops need beside [`Quad`].

#[cfg(target_arch = "x86_64")]
use super::Wide;
use super::{Plain, Quad};

/// All numbers from here on are whole.
const WHOLE: f64 = (1_u64 << 52) as f64;

/// Four vectors in registers of one vector each, and back; powers of two; parts of whole numbers.
pub(crate) trait Fours: Quad {
    /// x, y and z of four vectors, each of which is x, y, z and any number.
    fn columns(vectors: [Self; 4]) -> [Self; 3];
    /// The numbers whose sign and exponent are the last twelve bits of these, and whose other bits are zero.
    fn last_bits_as_exponent(self) -> Self;
    /// Less the greatest whole number that is not above: from 0 to 1, which a number just below a whole one is rounded to.
    fn fraction(self) -> Self;
    /// The lesser one; `other` if one of them is not a number.
    fn minimum(self, other: Self) -> Self;
}

impl Fours for Plain {
    #[inline(always)]
    fn columns(vectors: [Self; 4]) -> [Self; 3] {
        std::array::from_fn(|c| Self(vectors.map(|vector| vector.0[c])))
    }
    #[inline(always)]
    fn last_bits_as_exponent(self) -> Self {
        Self(self.0.map(|value| f64::from_bits(value.to_bits() << 52)))
    }
    #[inline(always)]
    fn fraction(self) -> Self {
        // `floor` would be a call, as it is not an instruction of every processor
        Self(self.0.map(|value| {
            let size = value.abs();
            let rest = value - ((size + WHOLE) - WHOLE).copysign(value);
            let fraction = rest + if rest < 0.0 { 1.0 } else { 0.0 };
            if size < WHOLE { fraction } else { 0.0 * value + 0.0 }
        }))
    }
    #[inline(always)]
    fn minimum(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| if self.0[i] < other.0[i] { self.0[i] } else { other.0[i] }))
    }
}

/// As for [`Quad`], AVX2 is present wherever a `Wide` is made and used. The safe twin is [`Plain`].
#[cfg(target_arch = "x86_64")]
impl Fours for Wide {
    #[inline(always)]
    fn columns([a, b, c, d]: [Self; 4]) -> [Self; 3] {
        use std::arch::x86_64::{_mm256_permute2f128_pd, _mm256_unpackhi_pd, _mm256_unpacklo_pd};
        // SAFETY: AVX is present (see above).
        unsafe {
            // x of a and b, z of a and b; of c and d
            let (xz, xz_after) = (_mm256_unpacklo_pd(a.0, b.0), _mm256_unpacklo_pd(c.0, d.0));
            let (y, y_after) = (_mm256_unpackhi_pd(a.0, b.0), _mm256_unpackhi_pd(c.0, d.0));
            [
                Self(_mm256_permute2f128_pd::<0x20>(xz, xz_after)),
                Self(_mm256_permute2f128_pd::<0x20>(y, y_after)),
                Self(_mm256_permute2f128_pd::<0x31>(xz, xz_after)),
            ]
        }
    }
    #[inline(always)]
    fn last_bits_as_exponent(self) -> Self {
        use std::arch::x86_64::{_mm256_castpd_si256, _mm256_castsi256_pd, _mm256_slli_epi64};
        // SAFETY: AVX2 is present (see above).
        Self(unsafe { _mm256_castsi256_pd(_mm256_slli_epi64::<52>(_mm256_castpd_si256(self.0))) })
    }
    #[inline(always)]
    fn fraction(self) -> Self {
        use std::arch::x86_64::{_mm256_floor_pd, _mm256_sub_pd};
        // SAFETY: AVX is present (see above).
        Self(unsafe { _mm256_sub_pd(self.0, _mm256_floor_pd(self.0)) })
    }
    #[inline(always)]
    fn minimum(self, other: Self) -> Self {
        // SAFETY: AVX is present (see above).
        Self(unsafe { std::arch::x86_64::_mm256_min_pd(self.0, other.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{Cpu, dispatch};

    #[inline(always)]
    fn found<Q: Fours>(vectors: &[[f64; 4]; 4]) -> ([[f64; 4]; 3], [f64; 4]) {
        let [a, b, c, d] = vectors;
        let [x, y, z] = Q::columns([Q::load(a), Q::load(b), Q::load(c), Q::load(d)]);
        let shift = Q::all(1.5 * (1_u64 << 52) as f64 + 1023.0);
        ([x.store(), y.store(), z.store()], Q::load(a).add(shift).last_bits_as_exponent().store())
    }

    #[test]
    fn vectors_become_columns_and_whole_numbers_powers_of_two() {
        let vectors = [0, 1, 2, 3].map(|i| [0, 1, 2, 3].map(|c| f64::from(10 * c + i)));
        for cpu in [Cpu::detect(), Cpu::baseline()] {
            let (columns, powers) =
                dispatch!(cpu, ([[f64; 4]; 3], [f64; 4]), found, (vectors: &[[f64; 4]; 4] = &vectors));
            assert_eq!(columns, [0, 1, 2].map(|c| [0, 1, 2, 3].map(|i| f64::from(10 * c + i))));
            assert_eq!(powers, [1.0, 2_f64.powi(10), 2_f64.powi(20), 2_f64.powi(30)]);
        }
    }

    #[inline(always)]
    fn least_fraction<Q: Fours>(values: &[f64; 4]) -> [f64; 4] {
        Q::load(values).fraction().minimum(Q::all(0.75)).store()
    }

    #[test]
    fn fractions_are_the_parts_above_the_whole_numbers_below() {
        let large = [0.5 * WHOLE - 0.25, 0.75 * WHOLE + 0.5, 0.5 - WHOLE, 1.5 * WHOLE + 1.0];
        for values in [[0.0, -0.0, 0.25, 7.0], [-0.25, -3.0, 2.5, -2.5], [-1e-20, 1e-20, 0.875, -0.125], large] {
            let expected = values.map(|value: f64| (value - value.floor()).min(0.75).to_bits());
            for cpu in [Cpu::detect(), Cpu::baseline()] {
                let found = dispatch!(cpu, [f64; 4], least_fraction, (values: &[f64; 4] = &values));
                assert_eq!(found.map(f64::to_bits), expected, "{values:?}");
            }
        }
        let nothing = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        for cpu in [Cpu::detect(), Cpu::baseline()] {
            assert_eq!(dispatch!(cpu, [f64; 4], least_fraction, (values: &[f64; 4] = &nothing)), [0.75; 4]);
        }
    }
}
