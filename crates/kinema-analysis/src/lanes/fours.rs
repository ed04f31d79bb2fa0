//! Four vectors, or four exponents, at once: what loops over picked atoms need beside [`Quad`].

#[cfg(target_arch = "x86_64")]
use super::Wide;
use super::{Plain, Quad};

/// Four vectors in registers of one vector each, and back; and powers of two.
pub(crate) trait Fours: Quad {
    /// x, y and z of four vectors, each of which is x, y, z and any number.
    fn columns(vectors: [Self; 4]) -> [Self; 3];
    /// The numbers whose sign and exponent are the last twelve bits of these, and whose other bits are zero.
    fn last_bits_as_exponent(self) -> Self;
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
}
