//! Eight lanes of `f32`, for estimates of distances, with a bit for each lane as the answer of a comparison.

use super::Plain;
#[cfg(target_arch = "x86_64")]
use super::Wide;

/// Number of lanes.
pub(crate) const EIGHT: usize = 8;

/// Eight lanes with the few operations that a search needs; the same bits on every processor.
pub(crate) trait Eight: Copy {
    /// One value in all lanes.
    fn all(value: f32) -> Self;
    /// The values as they are.
    fn load(values: &[f32; EIGHT]) -> Self;
    fn add(self, other: Self) -> Self;
    fn subtract(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;
    fn square_root(self) -> Self;
    /// The greater one; `other` if one of them is not a number.
    fn maximum(self, other: Self) -> Self;
    /// A bit for each lane that is at most the other; none for what is not a number.
    fn at_most(self, other: Self) -> u32;
    /// A bit for each of some numbers below 2^31 that is above `number`.
    fn above(numbers: &[u32; EIGHT], number: u32) -> u32;
    /// Writes `first` and the place of each bit that is set, in order, and any numbers after these. Returns how many are set.
    fn put_places(bits: u32, first: u32, to: &mut [u32; EIGHT]) -> usize;
    /// Writes the lanes whose bit is set, in order, and any values after these.
    fn pack(self, bits: u32, to: &mut [f32; EIGHT]);
    /// Writes the numbers whose bit is set, in order, and any numbers after these. Returns how many are set.
    fn pack_numbers(bits: u32, numbers: &[u32; EIGHT], to: &mut [u32; EIGHT]) -> usize;
}

/// The places of the bits of each byte that are set, and how many these are.
pub(crate) static PLACES: [([u8; EIGHT], u8); 256] = places();

const fn places() -> [([u8; EIGHT], u8); 256] {
    let mut all = [([0; EIGHT], 0); 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut n) = (0, 0);
        while bit < EIGHT {
            if byte >> bit & 1 == 1 {
                all[byte].0[n] = bit as u8;
                n += 1;
            }
            bit += 1;
        }
        all[byte].1 = n as u8;
        byte += 1;
    }
    all
}

/// How many bits of a byte are set.
#[inline(always)]
pub(crate) fn count_bits(bits: u32) -> usize {
    PLACES[(bits & 0xff) as usize].1 as usize
}

/// A bit for each of the first lanes, of eight at most.
#[inline(always)]
pub(crate) fn lanes_before(n: usize) -> u32 {
    const LANES: [u32; EIGHT + 1] = [0, 1, 3, 7, 15, 31, 63, 127, 255];
    LANES[n.min(EIGHT)]
}

/// Some values of a row from a place on.
///
/// # Panics
/// If the row has no such place: it is made with room for them.
#[inline(always)]
pub(crate) fn room<const N: usize, T>(row: &mut [T], at: usize) -> &mut [T; N] {
    row[at..].first_chunk_mut().expect("a row has room for some more values than it is filled with")
}

/// Plain Rust, for every processor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlainEight([f32; EIGHT]);

impl Eight for PlainEight {
    #[inline(always)]
    fn all(value: f32) -> Self {
        Self([value; EIGHT])
    }
    #[inline(always)]
    fn load(values: &[f32; EIGHT]) -> Self {
        Self(*values)
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
    fn square_root(self) -> Self {
        Self(self.0.map(f32::sqrt))
    }
    #[inline(always)]
    fn maximum(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| if self.0[i] > other.0[i] { self.0[i] } else { other.0[i] }))
    }
    #[inline(always)]
    fn at_most(self, other: Self) -> u32 {
        let mut bits = 0;
        for i in 0..EIGHT {
            bits |= u32::from(self.0[i] <= other.0[i]) << i;
        }
        bits
    }
    #[inline(always)]
    fn above(numbers: &[u32; EIGHT], number: u32) -> u32 {
        let mut bits = 0;
        for (i, one) in numbers.iter().enumerate() {
            bits |= u32::from(*one > number) << i;
        }
        bits
    }
    #[inline(always)]
    fn put_places(bits: u32, first: u32, to: &mut [u32; EIGHT]) -> usize {
        let (places, n) = &PLACES[(bits & 0xff) as usize];
        *to = places.map(|place| first + u32::from(place));
        *n as usize
    }
    #[inline(always)]
    fn pack(self, bits: u32, to: &mut [f32; EIGHT]) {
        *to = PLACES[(bits & 0xff) as usize].0.map(|place| self.0[usize::from(place)]);
    }
    #[inline(always)]
    fn pack_numbers(bits: u32, numbers: &[u32; EIGHT], to: &mut [u32; EIGHT]) -> usize {
        let (places, n) = &PLACES[(bits & 0xff) as usize];
        *to = places.map(|place| numbers[usize::from(place)]);
        *n as usize
    }
}

/// One AVX register.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct WideEight(std::arch::x86_64::__m256);

/// Like [`Wide`], it is made and used only in bodies that `dispatch!` compiles for AVX2 and FMA, and calls if
/// `Cpu::detect` has found both: therefore each intrinsic below may be called. Its safe twin is [`PlainEight`].
#[cfg(target_arch = "x86_64")]
impl Eight for WideEight {
    #[inline(always)]
    fn all(value: f32) -> Self {
        // SAFETY: AVX is present (see above).
        Self(unsafe { std::arch::x86_64::_mm256_set1_ps(value) })
    }
    #[inline(always)]
    fn load(values: &[f32; EIGHT]) -> Self {
        // SAFETY: AVX is present (see above); the 32 bytes read are those of `values`, of any alignment.
        Self(unsafe { std::arch::x86_64::_mm256_loadu_ps(values.as_ptr()) })
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
    fn square_root(self) -> Self {
        // SAFETY: AVX is present (see above).
        Self(unsafe { std::arch::x86_64::_mm256_sqrt_ps(self.0) })
    }
    #[inline(always)]
    fn maximum(self, other: Self) -> Self {
        // SAFETY: AVX is present (see above).
        Self(unsafe { std::arch::x86_64::_mm256_max_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn at_most(self, other: Self) -> u32 {
        use std::arch::x86_64::{_CMP_LE_OQ, _mm256_cmp_ps, _mm256_movemask_ps};
        // SAFETY: AVX is present (see above).
        unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(self.0, other.0)) as u32 }
    }
    #[inline(always)]
    fn above(numbers: &[u32; EIGHT], number: u32) -> u32 {
        use std::arch::x86_64::{
            _mm256_castsi256_ps, _mm256_cmpgt_epi32, _mm256_loadu_si256, _mm256_movemask_ps, _mm256_set1_epi32,
        };
        // SAFETY: AVX2 is present (see above); the 32 bytes read are those of `numbers`, of any alignment.
        unsafe {
            let numbers = _mm256_loadu_si256(numbers.as_ptr().cast());
            let above = _mm256_cmpgt_epi32(numbers, _mm256_set1_epi32(number as i32));
            _mm256_movemask_ps(_mm256_castsi256_ps(above)) as u32
        }
    }
    #[inline(always)]
    fn put_places(bits: u32, first: u32, to: &mut [u32; EIGHT]) -> usize {
        use std::arch::x86_64::{
            _mm_loadl_epi64, _mm256_add_epi32, _mm256_cvtepu8_epi32, _mm256_set1_epi32, _mm256_storeu_si256,
        };
        let (places, n) = &PLACES[(bits & 0xff) as usize];
        // SAFETY: AVX2 is present (see above); the 8 bytes read are all of `places`, the 32 written are all of `to`, at any
        // alignment.
        unsafe {
            let places = _mm256_cvtepu8_epi32(_mm_loadl_epi64(places.as_ptr().cast()));
            _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm256_add_epi32(places, _mm256_set1_epi32(first as i32)));
        }
        *n as usize
    }
    #[inline(always)]
    fn pack(self, bits: u32, to: &mut [f32; EIGHT]) {
        use std::arch::x86_64::{_mm_loadl_epi64, _mm256_cvtepu8_epi32, _mm256_permutevar8x32_ps, _mm256_storeu_ps};
        let places = &PLACES[(bits & 0xff) as usize].0;
        // SAFETY: AVX2 is present (see above); the 8 bytes read are all of `places`, the 32 written are all of `to`, at any
        // alignment.
        unsafe {
            let places = _mm256_cvtepu8_epi32(_mm_loadl_epi64(places.as_ptr().cast()));
            _mm256_storeu_ps(to.as_mut_ptr(), _mm256_permutevar8x32_ps(self.0, places));
        }
    }
    #[inline(always)]
    fn pack_numbers(bits: u32, numbers: &[u32; EIGHT], to: &mut [u32; EIGHT]) -> usize {
        use std::arch::x86_64::{
            _mm_loadl_epi64, _mm256_cvtepu8_epi32, _mm256_loadu_si256, _mm256_permutevar8x32_epi32, _mm256_storeu_si256,
        };
        let (places, n) = &PLACES[(bits & 0xff) as usize];
        // SAFETY: AVX2 is present (see above); the 8 bytes read are all of `places`, the 32 bytes read are all of
        // `numbers`, and the 32 written are all of `to`, at any alignment.
        unsafe {
            let places = _mm256_cvtepu8_epi32(_mm_loadl_epi64(places.as_ptr().cast()));
            let numbers = _mm256_loadu_si256(numbers.as_ptr().cast());
            _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm256_permutevar8x32_epi32(numbers, places));
        }
        *n as usize
    }
}

/// The eight lanes that go with four of double precision.
pub(crate) trait WithEight {
    type Eight: Eight;
}

impl WithEight for Plain {
    type Eight = PlainEight;
}

#[cfg(target_arch = "x86_64")]
impl WithEight for Wide {
    type Eight = WideEight;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{Cpu, dispatch};

    type Found = ([u32; 8], usize, u32, u32, u32, [f32; 8], [u32; 8]);

    #[inline(always)]
    fn found<Q: WithEight>(values: &[f32; 8], numbers: &[u32; 8]) -> Found {
        let lanes = Q::Eight::load(values);
        let bits = lanes.at_most(Q::Eight::all(3.0));
        let (two, four) = (Q::Eight::all(2.0), Q::Eight::all(4.0));
        let mut places = [0; 8];
        let n = Q::Eight::put_places(bits, 100, &mut places);
        places[n..].fill(0);
        let squared = lanes.multiply(lanes).subtract(lanes).add(two).at_most(four);
        let (mut packed, mut chosen) = ([0.0; 8], [0; 8]);
        lanes.multiply(lanes).square_root().maximum(two).pack(bits, &mut packed);
        assert_eq!(Q::Eight::pack_numbers(bits, numbers, &mut chosen), n);
        (places, n, bits, Q::Eight::above(numbers, 4), squared, packed, chosen)
    }

    #[test]
    fn eight_lanes_are_the_same_on_every_processor() {
        let (values, numbers) = ([5.0, 3.0, f32::NAN, 1.5, 3.5, -1.0, f32::INFINITY, 0.1], [9, 4, 5, 0, 3, 7, 8, 1]);
        for cpu in [Cpu::detect(), Cpu::baseline()] {
            let (places, n, bits, above, squared, packed, chosen) =
                dispatch!(cpu, Found, found, (values: &[f32; 8] = &values, numbers: &[u32; 8] = &numbers));
            assert_eq!((&places[..n], bits, count_bits(bits)), (&[101, 103, 105, 107][..], 0b1010_1010, 4));
            // x^2 - x + 2 <= 4 from -1 to 2
            assert_eq!((above, squared), (0b0110_0101, 0b1010_1000));
            assert_eq!((&packed[..n], &chosen[..n]), (&[3.0, 2.0, 2.0, 2.0][..], &[4, 0, 7, 1][..]));
        }
    }
}
