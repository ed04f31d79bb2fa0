//! Eight lanes of `f32`: a vector's product with eight others, and which of these are above a bound.

/// Eight lanes with the few operations that comparisons of dot products need; both builds give the same bits.
pub(crate) trait Eight: Copy {
    /// One value in all lanes.
    fn all(value: f32) -> Self;
    /// The values as they are.
    fn load(values: &[f32; 8]) -> Self;
    fn add(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;
    /// A bit for each lane, the first lane the last bit: whether `self > other`; no if one of them is not a number.
    fn above(self, other: Self) -> u32;
}

/// Plain Rust, for every processor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlainEight([f32; 8]);

impl Eight for PlainEight {
    #[inline(always)]
    fn all(value: f32) -> Self {
        Self([value; 8])
    }
    #[inline(always)]
    fn load(values: &[f32; 8]) -> Self {
        Self(*values)
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] + other.0[i]))
    }
    #[inline(always)]
    fn multiply(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] * other.0[i]))
    }
    #[inline(always)]
    fn above(self, other: Self) -> u32 {
        (0..8).map(|i| u32::from(self.0[i] > other.0[i]) << i).sum()
    }
}

/// One AVX register.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct WideEight(std::arch::x86_64::__m256);

/// Like [`super::Wide`], it is made and used only in bodies that `dispatch!` compiles for AVX2 and FMA, and calls if
/// `Cpu::detect` has found both: therefore each intrinsic below may be called. Its safe twin is [`PlainEight`].
#[cfg(target_arch = "x86_64")]
impl Eight for WideEight {
    #[inline(always)]
    fn all(value: f32) -> Self {
        // SAFETY: AVX is present (see above).
        Self(unsafe { std::arch::x86_64::_mm256_set1_ps(value) })
    }
    #[inline(always)]
    fn load(values: &[f32; 8]) -> Self {
        // SAFETY: AVX is present (see above); the 32 bytes read are those of `values`, of any alignment.
        Self(unsafe { std::arch::x86_64::_mm256_loadu_ps(values.as_ptr()) })
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: AVX is present (see above).
        Self(unsafe { std::arch::x86_64::_mm256_add_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn multiply(self, other: Self) -> Self {
        // SAFETY: AVX is present (see above).
        Self(unsafe { std::arch::x86_64::_mm256_mul_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn above(self, other: Self) -> u32 {
        use std::arch::x86_64::{_CMP_GT_OQ, _mm256_cmp_ps, _mm256_movemask_ps};
        // SAFETY: AVX is present (see above).
        unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(self.0, other.0)) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{Cpu, dispatch};
    use crate::lanes::Quad;

    #[inline(always)]
    fn found<Q: Quad>(values: &[f32; 8]) -> [u32; 3] {
        let values = Q::Eight::load(values);
        let bounds = [values, values.multiply(values), values.add(Q::Eight::all(-0.5))];
        bounds.map(|bound| values.above(bound))
    }

    #[test]
    fn eight_lanes_are_the_same_on_every_processor() {
        let values = [0.0, 0.5, 1.0, 2.0, f32::NAN, -3.0, 0.25, f32::INFINITY];
        for cpu in [Cpu::detect(), Cpu::baseline()] {
            let bits = dispatch!(cpu, [u32; 3], found, (values: &[f32; 8] = &values));
            assert_eq!(bits, [0, 0b0100_0010, 0b0110_1111]);
        }
    }
}
