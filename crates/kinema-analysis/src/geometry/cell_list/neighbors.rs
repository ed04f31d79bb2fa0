//! Points near one point, with their places from it, in rows of single precision.

use super::grid::LANES;

/// Points near one point, or images of points.
#[derive(Debug, Default)]
pub(crate) struct Neighbors {
    /// x, y and z from the one point, angstrom, with the error of single precision in a number of the size of the cell;
    /// with room for [`LANES`] more.
    apart: [Vec<f32>; 3],
    /// Places in the given set.
    numbers: Vec<u32>,
    len: usize,
}

impl Neighbors {
    /// Number of neighbours.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Places in the given set.
    pub(crate) fn numbers(&self) -> &[u32] {
        &self.numbers[..self.len]
    }

    /// x, y and z of eight neighbours from `at` on, and their places in the given set; of those after the last one
    /// anything.
    ///
    /// # Panics
    /// If there is no neighbour at `at`.
    #[inline(always)]
    pub(crate) fn eight(&self, at: usize) -> ([&[f32; LANES]; 3], &[u32; LANES]) {
        assert!(at < self.len, "there is no neighbour {at}");
        let [x, y, z] = &self.apart;
        ([first_eight(&x[at..]), first_eight(&y[at..]), first_eight(&z[at..])], first_eight(&self.numbers[at..]))
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Room for eight more.
    #[inline(always)]
    fn reserve(&mut self) {
        if self.numbers.len() < self.len + LANES {
            let most = 2 * self.len + 8 * LANES;
            self.apart.iter_mut().for_each(|row| row.resize(most, 0.0));
            self.numbers.resize(most, 0);
        }
    }

    /// Adds a point.
    #[inline(always)]
    pub(super) fn push(&mut self, apart: [f32; 3], number: u32) {
        self.reserve();
        for (row, x) in self.apart.iter_mut().zip(apart) {
            row[self.len] = x;
        }
        self.numbers[self.len] = number;
        self.len += 1;
    }

    /// Adds the points of eight whose bit is set in `which`; the last bit is the first point.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn push_of_eight(&mut self, which: u32, apart: [std::arch::x86_64::__m256; 3], numbers: &[u32; LANES]) {
        use std::arch::x86_64::{
            _mm256_loadu_si256, _mm256_permutevar8x32_epi32, _mm256_permutevar8x32_ps, _mm256_storeu_ps,
            _mm256_storeu_si256,
        };
        self.reserve();
        let at = self.len;
        // SAFETY: eight numbers of an array are read, at any alignment.
        let lanes = unsafe { _mm256_loadu_si256(LANES_OF[(which & 0xff) as usize].as_ptr().cast()) };
        for (row, x) in self.apart.iter_mut().zip(apart) {
            let room: &mut [f32] = &mut row[at..at + LANES];
            // SAFETY: eight numbers of a slice of eight are written, at any alignment.
            unsafe { _mm256_storeu_ps(room.as_mut_ptr(), _mm256_permutevar8x32_ps(x, lanes)) };
        }
        let room: &mut [u32] = &mut self.numbers[at..at + LANES];
        // SAFETY: eight numbers of an array are read, and eight of a slice of eight are written, at any alignment.
        unsafe {
            let numbers = _mm256_loadu_si256(numbers.as_ptr().cast());
            _mm256_storeu_si256(room.as_mut_ptr().cast(), _mm256_permutevar8x32_epi32(numbers, lanes));
        }
        self.len += (which & 0xff).count_ones() as usize;
    }
}

#[inline(always)]
fn first_eight<T>(row: &[T]) -> &[T; LANES] {
    row.first_chunk().expect("there is room for eight more")
}

/// The lanes whose bits are set, by all bits of eight.
#[cfg(target_arch = "x86_64")]
static LANES_OF: [[u32; LANES]; 256] = {
    let mut of = [[0; LANES]; 256];
    let mut bits = 0;
    while bits < 256 {
        let (mut lane, mut n) = (0, 0);
        while lane < LANES {
            if bits >> lane & 1 == 1 {
                of[bits][n] = lane as u32;
                n += 1;
            }
            lane += 1;
        }
        bits += 1;
    }
    of
};
