//! Sixteen lanes of `f32`, for estimates that are checked: two registers, so that the processor works on one while the
//! other waits.

use super::Plain;
#[cfg(target_arch = "x86_64")]
use super::Wide;

/// Sixteen lanes with the few operations that estimates need. Their last bits depend on the processor.
pub(crate) trait Sixteen: Copy {
    /// Four lanes of double precision.
    type Quad;
    /// One value in all lanes.
    fn all(value: f32) -> Self;
    fn add(self, other: Self) -> Self;
    fn subtract(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;
    /// `self * factor + sum`, rounded once or twice.
    fn multiply_add(self, factor: Self, sum: Self) -> Self;
    /// The greater one; `other` if one of them is not a number.
    fn maximum(self, other: Self) -> Self;
    /// Without the sign.
    fn magnitude(self) -> Self;
    /// The values back.
    fn store(self) -> [f32; 16];
    /// Whether it is less in all lanes; false if a lane is not a number.
    fn all_less(self, other: Self) -> bool;
    /// The x, the y and the z of atoms that follow each other.
    fn xyz_of_row(atoms: &[[f32; 3]; 16]) -> [Self; 3];
    /// Puts them back.
    fn put_xyz(xyz: [Self; 3], atoms: &mut [[f32; 3]; 16]);
    /// Without the sign, and with a number below 8 in place of the last three bits: the greatest of several such values
    /// says which one it is.
    fn numbered(self, number: u32) -> Self;
    /// Looks up a table by the number in the last three bits.
    fn pick(self, table: &[f32; 8]) -> Self;
    /// `zero` in lanes in which all three of `values` are zero, else `other`.
    fn where_zero(values: [Self; 3], zero: Self, other: Self) -> Self;
    /// Four times four, converted.
    fn fours(self) -> [Self::Quad; 4];
    /// The same back, rounded.
    fn from_fours(fours: [Self::Quad; 4]) -> Self;
}

/// The three last bits.
const NUMBER: u32 = 7;
/// All but these and the sign.
const OTHER_BITS: u32 = 0x7fff_fff8;

/// Plain Rust, for every processor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlainSixteen([f32; 16]);

impl Sixteen for PlainSixteen {
    type Quad = Plain;
    #[inline(always)]
    fn all(value: f32) -> Self {
        Self([value; 16])
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
    fn store(self) -> [f32; 16] {
        self.0
    }
    #[inline(always)]
    fn all_less(self, other: Self) -> bool {
        (0..16).all(|i| self.0[i] < other.0[i])
    }
    #[inline(always)]
    fn xyz_of_row(atoms: &[[f32; 3]; 16]) -> [Self; 3] {
        std::array::from_fn(|c| Self(atoms.map(|atom| atom[c])))
    }
    #[inline(always)]
    fn put_xyz([x, y, z]: [Self; 3], atoms: &mut [[f32; 3]; 16]) {
        for (i, atom) in atoms.iter_mut().enumerate() {
            *atom = [x.0[i], y.0[i], z.0[i]];
        }
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
    fn where_zero([a, b, c]: [Self; 3], zero: Self, other: Self) -> Self {
        let are_zero = |i: usize| a.0[i] == 0.0 && b.0[i] == 0.0 && c.0[i] == 0.0;
        Self(std::array::from_fn(|i| if are_zero(i) { zero.0[i] } else { other.0[i] }))
    }
    #[inline(always)]
    fn fours(self) -> [Plain; 4] {
        std::array::from_fn(|four| Plain(std::array::from_fn(|i| f64::from(self.0[4 * four + i]))))
    }
    #[inline(always)]
    fn from_fours(fours: [Plain; 4]) -> Self {
        Self(std::array::from_fn(|i| fours[i / 4].0[i % 4] as f32))
    }
}

/// Two AVX registers.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct WideSixteen([std::arch::x86_64::__m256; 2]);

/// Like [`super::Wide`], it is made and used only in bodies that `dispatch!` compiles for AVX2 and FMA, and calls if
/// `Cpu::detect` has found both: therefore each intrinsic below may be called. Its safe twin is [`PlainSixteen`].
#[cfg(target_arch = "x86_64")]
impl Sixteen for WideSixteen {
    type Quad = Wide;
    #[inline(always)]
    fn all(value: f32) -> Self {
        // SAFETY: AVX is present (see above).
        Self([unsafe { std::arch::x86_64::_mm256_set1_ps(value) }; 2])
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        use std::arch::x86_64::_mm256_add_ps;
        // SAFETY: AVX is present (see above).
        Self(unsafe { [_mm256_add_ps(self.0[0], other.0[0]), _mm256_add_ps(self.0[1], other.0[1])] })
    }
    #[inline(always)]
    fn subtract(self, other: Self) -> Self {
        use std::arch::x86_64::_mm256_sub_ps;
        // SAFETY: AVX is present (see above).
        Self(unsafe { [_mm256_sub_ps(self.0[0], other.0[0]), _mm256_sub_ps(self.0[1], other.0[1])] })
    }
    #[inline(always)]
    fn multiply(self, other: Self) -> Self {
        use std::arch::x86_64::_mm256_mul_ps;
        // SAFETY: AVX is present (see above).
        Self(unsafe { [_mm256_mul_ps(self.0[0], other.0[0]), _mm256_mul_ps(self.0[1], other.0[1])] })
    }
    #[inline(always)]
    fn multiply_add(self, factor: Self, sum: Self) -> Self {
        use std::arch::x86_64::_mm256_fmadd_ps;
        // SAFETY: FMA is present (see above).
        Self(unsafe {
            [_mm256_fmadd_ps(self.0[0], factor.0[0], sum.0[0]), _mm256_fmadd_ps(self.0[1], factor.0[1], sum.0[1])]
        })
    }
    #[inline(always)]
    fn maximum(self, other: Self) -> Self {
        use std::arch::x86_64::_mm256_max_ps;
        // SAFETY: AVX is present (see above).
        Self(unsafe { [_mm256_max_ps(self.0[0], other.0[0]), _mm256_max_ps(self.0[1], other.0[1])] })
    }
    #[inline(always)]
    fn magnitude(self) -> Self {
        use std::arch::x86_64::{_mm256_andnot_ps, _mm256_set1_ps};
        // SAFETY: AVX is present (see above).
        Self(unsafe {
            let sign = _mm256_set1_ps(-0.0);
            [_mm256_andnot_ps(sign, self.0[0]), _mm256_andnot_ps(sign, self.0[1])]
        })
    }
    #[inline(always)]
    fn store(self) -> [f32; 16] {
        let mut values = [0.0; 16];
        let [first, last] = values.as_chunks_mut::<8>().0 else { unreachable!("16 are 2 x 8") };
        // SAFETY: AVX is present (see above); the 32 bytes written each time are those of eight values, of any alignment.
        unsafe {
            std::arch::x86_64::_mm256_storeu_ps(first.as_mut_ptr(), self.0[0]);
            std::arch::x86_64::_mm256_storeu_ps(last.as_mut_ptr(), self.0[1]);
        }
        values
    }
    #[inline(always)]
    fn all_less(self, other: Self) -> bool {
        use std::arch::x86_64::{_CMP_LT_OQ, _mm256_and_ps, _mm256_cmp_ps, _mm256_movemask_ps};
        // SAFETY: AVX is present (see above).
        unsafe {
            let first = _mm256_cmp_ps::<_CMP_LT_OQ>(self.0[0], other.0[0]);
            _mm256_movemask_ps(_mm256_and_ps(first, _mm256_cmp_ps::<_CMP_LT_OQ>(self.0[1], other.0[1]))) == 0xff
        }
    }
    #[inline(always)]
    fn xyz_of_row(atoms: &[[f32; 3]; 16]) -> [Self; 3] {
        let [first, last] = atoms.as_chunks::<8>().0 else { unreachable!("16 are 2 x 8") };
        let ([x, y, z], [x_last, y_last, z_last]) = (xyz_of_eight(first), xyz_of_eight(last));
        [Self([x, x_last]), Self([y, y_last]), Self([z, z_last])]
    }
    #[inline(always)]
    fn put_xyz([x, y, z]: [Self; 3], atoms: &mut [[f32; 3]; 16]) {
        let [first, last] = atoms.as_chunks_mut::<8>().0 else { unreachable!("16 are 2 x 8") };
        put_xyz_of_eight([x.0[0], y.0[0], z.0[0]], first);
        put_xyz_of_eight([x.0[1], y.0[1], z.0[1]], last);
    }
    #[inline(always)]
    fn numbered(self, number: u32) -> Self {
        use std::arch::x86_64::{_mm256_and_ps, _mm256_or_ps, _mm256_set1_ps};
        // SAFETY: AVX is present (see above).
        Self(unsafe {
            let (others, number) = (_mm256_set1_ps(f32::from_bits(OTHER_BITS)), _mm256_set1_ps(f32::from_bits(number)));
            let first = _mm256_or_ps(_mm256_and_ps(self.0[0], others), number);
            [first, _mm256_or_ps(_mm256_and_ps(self.0[1], others), number)]
        })
    }
    #[inline(always)]
    fn pick(self, table: &[f32; 8]) -> Self {
        use std::arch::x86_64::{_mm256_castps_si256, _mm256_loadu_ps, _mm256_permutevar8x32_ps};
        // SAFETY: AVX2 is present (see above); the 32 bytes read are those of `table`, of any alignment; of a number only the
        // last three bits count.
        Self(unsafe {
            let table = _mm256_loadu_ps(table.as_ptr());
            let first = _mm256_permutevar8x32_ps(table, _mm256_castps_si256(self.0[0]));
            [first, _mm256_permutevar8x32_ps(table, _mm256_castps_si256(self.0[1]))]
        })
    }
    #[inline(always)]
    fn where_zero([a, b, c]: [Self; 3], zero: Self, other: Self) -> Self {
        use std::arch::x86_64::{_CMP_NEQ_UQ, _mm256_blendv_ps, _mm256_cmp_ps, _mm256_or_ps, _mm256_setzero_ps};
        // SAFETY: AVX is present (see above).
        Self(unsafe {
            // the bits of several numbers together may form a NaN, which is not zero either
            let first = _mm256_or_ps(_mm256_or_ps(a.0[0], b.0[0]), c.0[0]);
            let last = _mm256_or_ps(_mm256_or_ps(a.0[1], b.0[1]), c.0[1]);
            let first = _mm256_cmp_ps::<_CMP_NEQ_UQ>(first, _mm256_setzero_ps());
            let last = _mm256_cmp_ps::<_CMP_NEQ_UQ>(last, _mm256_setzero_ps());
            [_mm256_blendv_ps(zero.0[0], other.0[0], first), _mm256_blendv_ps(zero.0[1], other.0[1], last)]
        })
    }
    #[inline(always)]
    fn fours(self) -> [Wide; 4] {
        use std::arch::x86_64::{_mm256_castps256_ps128, _mm256_cvtps_pd, _mm256_extractf128_ps};
        let [first, last] = self.0;
        // SAFETY: AVX is present (see above).
        unsafe {
            [
                Wide(_mm256_cvtps_pd(_mm256_castps256_ps128(first))),
                Wide(_mm256_cvtps_pd(_mm256_extractf128_ps::<1>(first))),
                Wide(_mm256_cvtps_pd(_mm256_castps256_ps128(last))),
                Wide(_mm256_cvtps_pd(_mm256_extractf128_ps::<1>(last))),
            ]
        }
    }
    #[inline(always)]
    fn from_fours([a, b, c, d]: [Wide; 4]) -> Self {
        use std::arch::x86_64::{_mm256_cvtpd_ps, _mm256_set_m128};
        // SAFETY: AVX is present (see above).
        Self(unsafe {
            let first = _mm256_set_m128(_mm256_cvtpd_ps(b.0), _mm256_cvtpd_ps(a.0));
            [first, _mm256_set_m128(_mm256_cvtpd_ps(d.0), _mm256_cvtpd_ps(c.0))]
        })
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn xyz_of_eight(atoms: &[[f32; 3]; 8]) -> [std::arch::x86_64::__m256; 3] {
    use std::arch::x86_64::{_mm_loadu_ps, _mm256_set_m128, _mm256_shuffle_ps};
    let at = atoms.as_ptr().cast::<f32>();
    // SAFETY: AVX is present, as with `WideSixteen`; the 6 x 16 bytes read are the 96 of `atoms`, of any alignment.
    unsafe {
        // of the first and the last four atoms: x y z x | y z x y | z x y z
        let a = _mm256_set_m128(_mm_loadu_ps(at.add(12)), _mm_loadu_ps(at));
        let b = _mm256_set_m128(_mm_loadu_ps(at.add(16)), _mm_loadu_ps(at.add(4)));
        let c = _mm256_set_m128(_mm_loadu_ps(at.add(20)), _mm_loadu_ps(at.add(8)));
        let xy_after = _mm256_shuffle_ps::<0b10_01_11_10>(b, c);
        let yz = _mm256_shuffle_ps::<0b01_00_10_01>(a, b);
        [
            _mm256_shuffle_ps::<0b10_00_11_00>(a, xy_after),
            _mm256_shuffle_ps::<0b11_01_10_00>(yz, xy_after),
            _mm256_shuffle_ps::<0b11_00_11_01>(yz, c),
        ]
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn put_xyz_of_eight([x, y, z]: [std::arch::x86_64::__m256; 3], atoms: &mut [[f32; 3]; 8]) {
    use std::arch::x86_64::{_mm_storeu_ps, _mm256_castps256_ps128, _mm256_extractf128_ps, _mm256_shuffle_ps};
    let to = atoms.as_mut_ptr().cast::<f32>();
    // SAFETY: AVX is present, as with `WideSixteen`; the 6 x 16 bytes written are the 96 of `atoms`, of any alignment.
    unsafe {
        // the first and third x and y, the second and fourth y and z, z of the former and x of the latter
        let xy = _mm256_shuffle_ps::<0b10_00_10_00>(x, y);
        let yz = _mm256_shuffle_ps::<0b11_01_11_01>(y, z);
        let zx = _mm256_shuffle_ps::<0b11_01_10_00>(z, x);
        let a = _mm256_shuffle_ps::<0b10_00_10_00>(xy, zx);
        let b = _mm256_shuffle_ps::<0b11_01_10_00>(yz, xy);
        let c = _mm256_shuffle_ps::<0b11_01_11_01>(zx, yz);
        for (i, four) in [a, b, c].into_iter().enumerate() {
            _mm_storeu_ps(to.add(4 * i), _mm256_castps256_ps128(four));
            _mm_storeu_ps(to.add(12 + 4 * i), _mm256_extractf128_ps::<1>(four));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{Cpu, dispatch};
    use crate::lanes::Quad;

    type Found = ([[f64; 4]; 4], [[f64; 4]; 4], [bool; 3], [f32; 16], [[f32; 3]; 16]);

    #[inline(always)]
    fn found<Q: Quad>(atoms: &[[f32; 3]; 16], table: &[f32; 8]) -> Found {
        let stored = |lanes: Q::Sixteen| lanes.fours().map(Quad::store);
        let all = Q::Sixteen::all;
        let [x, y, z] = Q::Sixteen::xyz_of_row(atoms);
        let mut most = all(0.0);
        for (number, value) in [x, y, z].into_iter().enumerate() {
            most = most.maximum(value.numbered(number as u32));
        }
        let less = [x.all_less(all(16.0)), x.all_less(all(15.0)), z.all_less(all(16.0))];
        let mut back = [[0.0; 3]; 16];
        let zero = Q::Sixteen::where_zero([x, y, x], all(-1.0), x);
        Q::Sixteen::put_xyz([x, Q::Sixteen::from_fours(y.fours()), z], &mut back);
        (stored(most.pick(table)), stored(zero), less, x.store(), back)
    }

    #[test]
    fn sixteen_lanes_are_the_same_on_every_processor() {
        let atoms: [[f32; 3]; 16] =
            std::array::from_fn(|i| [i as f32, 4.5 * (i % 3) as f32, if i == 11 { f32::NAN } else { -3.5 }]);
        let table = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0];
        for cpu in [Cpu::detect(), Cpu::baseline()] {
            let (picked, zero, less, found_x, back) =
                dispatch!(cpu, Found, found, (atoms: &[[f32; 3]; 16] = &atoms, table: &[f32; 8] = &table));
            // the greatest of i, 0 or 4.5 or 9, and 3.5
            assert_eq!(picked[0], [30.0, 20.0, 20.0, 30.0]);
            assert_eq!(picked[1][..2], [20.0, 20.0]);
            assert_eq!(picked[3], [10.0; 4]);
            assert_eq!(zero[0], [-1.0, 1.0, 2.0, 3.0]);
            assert_eq!(zero[3], [12.0, 13.0, 14.0, 15.0]);
            assert_eq!(less, [true, false, false]);
            assert_eq!(found_x, std::array::from_fn(|i| i as f32));
            assert_eq!(back.map(|atom| atom.map(f32::to_bits)), atoms.map(|atom| atom.map(f32::to_bits)));
        }
    }
}
