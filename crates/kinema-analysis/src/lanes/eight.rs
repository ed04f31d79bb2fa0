//! Eight lanes of `f32`, for estimates that are checked: twice as many at a time as [`super::Quad`] has.

use super::Plain;
#[cfg(target_arch = "x86_64")]
use super::Wide;

/// Eight lanes with the few operations that estimates need. Their last bits depend on the processor.
pub(crate) trait Eight: Copy {
    /// Four lanes of double precision.
    type Quad;
    /// One value in all lanes.
    fn all(value: f32) -> Self;
    fn add(self, other: Self) -> Self;
    fn subtract(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;
    /// `self * factor + sum`, rounded once or twice.
    fn multiply_add(self, factor: Self, sum: Self) -> Self;
    /// The greater one; `other` where one of them is not a number.
    fn maximum(self, other: Self) -> Self;
    /// Without the sign.
    fn magnitude(self) -> Self;
    /// Whether it is less in all lanes; not where one is not a number.
    fn all_less(self, other: Self) -> bool;
    /// The x, the y and the z of eight atoms that follow each other.
    fn xyz_of_row(atoms: &[[f32; 3]; 8]) -> [Self; 3];
    /// Without the sign, with a number below 8 in place of the last three bits: the greatest of some such values says which it is.
    fn numbered(self, number: u32) -> Self;
    /// What a table has for the number that is in the last three bits.
    fn pick(self, table: &[f32; 8]) -> Self;
    /// The first and the last four, converted.
    fn halves(self) -> [Self::Quad; 2];
    /// Two times four, rounded.
    fn joined(halves: [Self::Quad; 2]) -> Self;
}

/// The three last bits.
const NUMBER: u32 = 7;
/// All but these and the sign.
const OTHER_BITS: u32 = 0x7fff_fff8;

/// Plain Rust, for every processor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlainEight([f32; 8]);

impl Eight for PlainEight {
    type Quad = Plain;
    #[inline(always)]
    fn all(value: f32) -> Self {
        Self([value; 8])
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] + other.0[i]))
    }
    #[inline(always)]
    fn subtract(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] - other.0[i]))
    }
    #[inline(always)]
    fn multiply(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] * other.0[i]))
    }
    #[inline(always)]
    fn multiply_add(self, factor: Self, sum: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] * factor.0[i] + sum.0[i]))
    }
    #[inline(always)]
    fn maximum(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| if self.0[i] > other.0[i] { self.0[i] } else { other.0[i] }))
    }
    #[inline(always)]
    fn magnitude(self) -> Self {
        Self(self.0.map(f32::abs))
    }
    #[inline(always)]
    fn all_less(self, other: Self) -> bool {
        (0..8).all(|i| self.0[i] < other.0[i])
    }
    #[inline(always)]
    fn xyz_of_row(atoms: &[[f32; 3]; 8]) -> [Self; 3] {
        std::array::from_fn(|c| Self(atoms.map(|atom| atom[c])))
    }
    #[inline(always)]
    fn numbered(self, number: u32) -> Self {
        Self(self.0.map(|value| f32::from_bits(value.to_bits() & OTHER_BITS | number)))
    }
    #[inline(always)]
    fn pick(self, table: &[f32; 8]) -> Self {
        Self(self.0.map(|value| table[(value.to_bits() & NUMBER) as usize]))
    }
    #[inline(always)]
    fn halves(self) -> [Plain; 2] {
        let [a, b, c, d, e, f, g, h] = self.0.map(f64::from);
        [Plain([a, b, c, d]), Plain([e, f, g, h])]
    }
    #[inline(always)]
    fn joined([first, last]: [Plain; 2]) -> Self {
        Self(std::array::from_fn(|i| if i < 4 { first.0[i] } else { last.0[i - 4] } as f32))
    }
}

/// One AVX register.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct WideEight(std::arch::x86_64::__m256);

/// As [`super::Wide`] it is made and used only in bodies that `dispatch!` compiles for AVX2 and FMA, and calls where
/// `Cpu::detect` has found both: the reason why each intrinsic below may be called. Its safe twin is [`PlainEight`].
#[cfg(target_arch = "x86_64")]
impl Eight for WideEight {
    type Quad = Wide;
    #[inline(always)]
    fn all(value: f32) -> Self {
        // SAFETY: AVX is present (see above).
        Self(unsafe { std::arch::x86_64::_mm256_set1_ps(value) })
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: AVX is present (see above).
        Self(unsafe { std::arch::x86_64::_mm256_add_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn subtract(self, other: Self) -> Self {
        // SAFETY: AVX is present (see above).
        Self(unsafe { std::arch::x86_64::_mm256_sub_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn multiply(self, other: Self) -> Self {
        // SAFETY: AVX is present (see above).
        Self(unsafe { std::arch::x86_64::_mm256_mul_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn multiply_add(self, factor: Self, sum: Self) -> Self {
        // SAFETY: FMA is present (see above).
        Self(unsafe { std::arch::x86_64::_mm256_fmadd_ps(self.0, factor.0, sum.0) })
    }
    #[inline(always)]
    fn maximum(self, other: Self) -> Self {
        // SAFETY: AVX is present (see above).
        Self(unsafe { std::arch::x86_64::_mm256_max_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn magnitude(self) -> Self {
        use std::arch::x86_64::{_mm256_andnot_ps, _mm256_set1_ps};
        // SAFETY: AVX is present (see above).
        Self(unsafe { _mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0) })
    }
    #[inline(always)]
    fn all_less(self, other: Self) -> bool {
        use std::arch::x86_64::{_CMP_LT_OQ, _mm256_cmp_ps, _mm256_movemask_ps};
        // SAFETY: AVX is present (see above).
        unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LT_OQ>(self.0, other.0)) == 0xff }
    }
    #[inline(always)]
    fn xyz_of_row(atoms: &[[f32; 3]; 8]) -> [Self; 3] {
        use std::arch::x86_64::{_mm_loadu_ps, _mm256_castps128_ps256, _mm256_insertf128_ps, _mm256_shuffle_ps};
        let at = atoms.as_ptr().cast::<f32>();
        // SAFETY: AVX is present (see above); the 6 x 16 bytes read are the 96 of `atoms`, of any alignment.
        unsafe {
            // of the first and the last four atoms: x y z x | y z x y | z x y z
            let (a, b, c) = (_mm_loadu_ps(at), _mm_loadu_ps(at.add(4)), _mm_loadu_ps(at.add(8)));
            let a = _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(a), _mm_loadu_ps(at.add(12)));
            let b = _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(b), _mm_loadu_ps(at.add(16)));
            let c = _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(c), _mm_loadu_ps(at.add(20)));
            let xy_after = _mm256_shuffle_ps::<0b10_01_11_10>(b, c);
            let yz = _mm256_shuffle_ps::<0b01_00_10_01>(a, b);
            [
                Self(_mm256_shuffle_ps::<0b10_00_11_00>(a, xy_after)),
                Self(_mm256_shuffle_ps::<0b11_01_10_00>(yz, xy_after)),
                Self(_mm256_shuffle_ps::<0b11_00_11_01>(yz, c)),
            ]
        }
    }
    #[inline(always)]
    fn numbered(self, number: u32) -> Self {
        use std::arch::x86_64::{_mm256_and_ps, _mm256_or_ps, _mm256_set1_ps};
        // SAFETY: AVX is present (see above).
        Self(unsafe {
            let other = _mm256_and_ps(self.0, _mm256_set1_ps(f32::from_bits(OTHER_BITS)));
            _mm256_or_ps(other, _mm256_set1_ps(f32::from_bits(number)))
        })
    }
    #[inline(always)]
    fn pick(self, table: &[f32; 8]) -> Self {
        use std::arch::x86_64::{_mm256_castps_si256, _mm256_loadu_ps, _mm256_permutevar8x32_ps};
        // SAFETY: AVX2 is present (see above); the 32 bytes read are those of `table`, of any alignment; of a number only the
        // last three bits count.
        Self(unsafe { _mm256_permutevar8x32_ps(_mm256_loadu_ps(table.as_ptr()), _mm256_castps_si256(self.0)) })
    }
    #[inline(always)]
    fn halves(self) -> [Wide; 2] {
        use std::arch::x86_64::{_mm256_castps256_ps128, _mm256_cvtps_pd, _mm256_extractf128_ps};
        // SAFETY: AVX is present (see above).
        unsafe {
            let (first, last) = (_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            [Wide(_mm256_cvtps_pd(first)), Wide(_mm256_cvtps_pd(last))]
        }
    }
    #[inline(always)]
    fn joined([first, last]: [Wide; 2]) -> Self {
        use std::arch::x86_64::{_mm256_castps128_ps256, _mm256_cvtpd_ps, _mm256_insertf128_ps};
        // SAFETY: AVX is present (see above).
        Self(unsafe {
            let first = _mm256_castps128_ps256(_mm256_cvtpd_ps(first.0));
            _mm256_insertf128_ps::<1>(first, _mm256_cvtpd_ps(last.0))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{Cpu, dispatch};
    use crate::lanes::Quad;

    type Found = ([[f64; 4]; 2], [[f64; 4]; 6], [bool; 3]);

    #[inline(always)]
    fn found<Q: Quad>(atoms: &[[f32; 3]; 8], table: &[f32; 8]) -> Found {
        let stored = |lanes: Q::Eight| lanes.halves().map(Quad::store);
        let [x, y, z] = Q::Eight::xyz_of_row(atoms);
        let ([a, b], [c, d], [e, f]) = (stored(x), stored(y), stored(z));
        let mut most = Q::Eight::all(0.0);
        for (number, value) in [x, y, z].into_iter().enumerate() {
            most = most.maximum(value.numbered(number as u32));
        }
        let less =
            [x.all_less(Q::Eight::all(8.0)), x.all_less(Q::Eight::all(7.0)), Q::Eight::joined(z.halves()).all_less(z)];
        (stored(most.pick(table)), [a, b, c, d, e, f], less)
    }

    #[test]
    fn eight_lanes_are_the_same_on_every_processor() {
        let atoms: [[f32; 3]; 8] =
            std::array::from_fn(|i| [i as f32, 9.0 - 2.0 * i as f32, if i == 3 { f32::NAN } else { -3.5 }]);
        let table = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0];
        for cpu in [Cpu::detect(), Cpu::baseline()] {
            let (picked, xyz, less) =
                dispatch!(cpu, Found, found, (atoms: &[[f32; 3]; 8] = &atoms, table: &[f32; 8] = &table));
            assert_eq!(
                xyz[..4],
                [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0], [9.0, 7.0, 5.0, 3.0], [1.0, -1.0, -3.0, -5.0]]
            );
            assert!(xyz[4][3].is_nan() && xyz[5] == [-3.5; 4]);
            assert_eq!(less, [true, false, false]);
            // the greatest of 0 9 3.5, 1 7 3.5, 2 5 3.5, (not a number), 4 1 3.5, 5 1 3.5, 6 3 3.5, 7 5 3.5
            assert_eq!(picked[0][..3], [20.0, 20.0, 20.0]);
            assert_eq!(picked[1], [10.0, 10.0, 10.0, 10.0]);
        }
    }
}
