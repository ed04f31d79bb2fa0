//! Planes of bytes and bits with AVX2, 32 elements (or 32 bytes of each row of bits) at a time.
//!
//! It leaves the rest, and elements of other sizes than 2, 4 and 8 bytes, to the plain code, which is also its twin in
//! the tests: each function returns how many elements (bytes of a row) it has done.
//!
//! Interleaving S planes is log2(S) times the same step: with the bytes of S registers numbered through, unpacking
//! register k with register k + S/2 moves the highest bit of a byte's number to the lowest place.

use std::arch::x86_64::*;

/// Bytes of a register.
const WIDTH: usize = 32;

/// Evidence that AVX2 was found on this machine.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    /// Asks the processor; the answer is kept by the standard library.
    #[inline]
    pub(super) fn detect() -> Option<Self> {
        std::arch::is_x86_feature_detected!("avx2").then_some(Self(()))
    }

    /// Byte planes to elements.
    pub(super) fn unshuffle(self, shuffled: &[u8], element: usize, count: usize, out: &mut [u8]) -> usize {
        // SAFETY: `Avx2` is made by `detect` alone, after it has found AVX2. The safe twin is `plain::unshuffle`.
        unsafe {
            match element {
                2 => unshuffle::<2>(shuffled, count, out),
                4 => unshuffle::<4>(shuffled, count, out),
                8 => unshuffle::<8>(shuffled, count, out),
                _ => 0,
            }
        }
    }

    /// Elements to byte planes.
    pub(super) fn shuffle(self, elements: &[u8], element: usize, count: usize, out: &mut [u8]) -> usize {
        // SAFETY: `Avx2` is made by `detect` alone, after it has found AVX2. The safe twin is `plain::shuffle`.
        unsafe {
            match element {
                2 => shuffle::<2>(elements, count, out),
                4 => shuffle::<4>(elements, count, out),
                8 => shuffle::<8>(elements, count, out),
                _ => 0,
            }
        }
    }

    /// Eight rows of bits to a plane of bytes.
    pub(super) fn bits_to_bytes(self, rows: &[u8], row: usize, out: &mut [u8]) -> usize {
        // SAFETY: `Avx2` is made by `detect` alone, after it has found AVX2. The safe twin is `plain::bits_to_bytes`.
        unsafe { bits_to_bytes(rows, row, out) }
    }

    /// A plane of bytes to eight rows of bits.
    pub(super) fn bytes_to_bits(self, plane: &[u8], row: usize, out: &mut [u8]) -> usize {
        // SAFETY: `Avx2` is made by `detect` alone, after it has found AVX2. The safe twin is `plain::bytes_to_bits`.
        unsafe { bytes_to_bits(plane, row, out) }
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn load(bytes: &[u8; WIDTH]) -> __m256i {
    // SAFETY: the reference is to 32 readable bytes, and this load needs no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn store(register: __m256i, bytes: &mut [u8; WIDTH]) {
    // SAFETY: the reference is to 32 writable bytes that nobody else sees, and this store needs no alignment.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), register) }
}

/// The whole registers of each of S planes of `length` bytes.
fn planes_of<const S: usize>(bytes: &[u8], length: usize) -> [&[[u8; WIDTH]]; S] {
    std::array::from_fn(|j| {
        bytes.get(j * length..(j + 1) * length).map_or_else(Default::default, |plane| plane.as_chunks().0)
    })
}

/// The same for writing; `None` if there are fewer than S planes.
fn planes_of_mut<const S: usize>(bytes: &mut [u8], length: usize) -> Option<[&mut [[u8; WIDTH]]; S]> {
    let mut planes = bytes.chunks_exact_mut(length.max(1)).map(|plane| plane.as_chunks_mut().0);
    let mut all: [&mut [[u8; WIDTH]]; S] = std::array::from_fn(|_| Default::default());
    for place in &mut all {
        *place = planes.next()?;
    }
    Some(all)
}

/// Registers of S planes to S registers of elements, in the order of memory.
#[target_feature(enable = "avx2")]
#[inline]
fn interleave<const S: usize>(mut planes: [__m256i; S]) -> [__m256i; S] {
    for _ in 0..S.trailing_zeros() {
        let before = planes;
        for k in 0..S / 2 {
            planes[2 * k] = _mm256_unpacklo_epi8(before[k], before[k + S / 2]);
            planes[2 * k + 1] = _mm256_unpackhi_epi8(before[k], before[k + S / 2]);
        }
    }
    // unpacking stays within the halves of a register: the lower halves have the first 16 elements
    let mut elements = planes;
    for k in 0..S / 2 {
        elements[k] = _mm256_permute2x128_si256::<0x20>(planes[2 * k], planes[2 * k + 1]);
        elements[k + S / 2] = _mm256_permute2x128_si256::<0x31>(planes[2 * k], planes[2 * k + 1]);
    }
    elements
}

/// The inverse of [`interleave`].
#[target_feature(enable = "avx2")]
#[inline]
fn deinterleave<const S: usize>(elements: [__m256i; S]) -> [__m256i; S] {
    let mut planes = elements;
    for k in 0..S / 2 {
        planes[2 * k] = _mm256_permute2x128_si256::<0x20>(elements[k], elements[k + S / 2]);
        planes[2 * k + 1] = _mm256_permute2x128_si256::<0x31>(elements[k], elements[k + S / 2]);
    }
    let low_bytes = _mm256_set1_epi16(0xff);
    for _ in 0..S.trailing_zeros() {
        let before = planes;
        for k in 0..S / 2 {
            let (first, second) = (before[2 * k], before[2 * k + 1]);
            planes[k] = _mm256_packus_epi16(_mm256_and_si256(first, low_bytes), _mm256_and_si256(second, low_bytes));
            planes[k + S / 2] = _mm256_packus_epi16(_mm256_srli_epi16::<8>(first), _mm256_srli_epi16::<8>(second));
        }
    }
    planes
}

/// Exchanges, in each byte, the bits of `high` from SHIFT on and those of `low` that `mask` selects.
#[target_feature(enable = "avx2")]
#[inline]
fn exchange<const SHIFT: i32>(low: &mut __m256i, high: &mut __m256i, mask: i8) {
    let differing = _mm256_xor_si256(_mm256_srli_epi16::<SHIFT>(*low), *high);
    let differing = _mm256_and_si256(differing, _mm256_set1_epi8(mask));
    *high = _mm256_xor_si256(*high, differing);
    *low = _mm256_xor_si256(*low, _mm256_slli_epi16::<SHIFT>(differing));
}

/// Transposes, for each byte place, the 8 x 8 bits of the eight registers; its own inverse.
#[target_feature(enable = "avx2")]
#[inline]
fn transpose_bits(mut rows: [__m256i; 8]) -> [__m256i; 8] {
    let [a, b, c, d, e, f, g, h] = &mut rows;
    for (low, high) in [(&mut *a, &mut *e), (&mut *b, &mut *f), (&mut *c, &mut *g), (&mut *d, &mut *h)] {
        exchange::<4>(low, high, 0x0f);
    }
    for (low, high) in [(&mut *a, &mut *c), (&mut *b, &mut *d), (&mut *e, &mut *g), (&mut *f, &mut *h)] {
        exchange::<2>(low, high, 0x33);
    }
    for (low, high) in [(a, b), (c, d), (e, f), (g, h)] {
        exchange::<1>(low, high, 0x55);
    }
    rows
}

#[target_feature(enable = "avx2")]
fn unshuffle<const S: usize>(shuffled: &[u8], count: usize, out: &mut [u8]) -> usize {
    let planes = planes_of::<S>(shuffled, count);
    let groups = out.as_chunks_mut::<WIDTH>().0.as_chunks_mut::<S>().0;
    for (i, group) in groups.iter_mut().take(count / WIDTH).enumerate() {
        let elements = interleave(std::array::from_fn::<_, S, _>(|j| load(&planes[j][i])));
        for (place, element) in group.iter_mut().zip(elements) {
            store(element, place);
        }
    }
    count / WIDTH * WIDTH
}

#[target_feature(enable = "avx2")]
fn shuffle<const S: usize>(elements: &[u8], count: usize, out: &mut [u8]) -> usize {
    let Some(mut planes) = planes_of_mut::<S>(out, count) else { return 0 };
    let groups = elements.as_chunks::<WIDTH>().0.as_chunks::<S>().0;
    for (i, group) in groups.iter().take(count / WIDTH).enumerate() {
        let bytes = deinterleave(std::array::from_fn::<_, S, _>(|j| load(&group[j])));
        for (plane, byte) in planes.iter_mut().zip(bytes) {
            store(byte, &mut plane[i]);
        }
    }
    count / WIDTH * WIDTH
}

#[target_feature(enable = "avx2")]
fn bits_to_bytes(rows: &[u8], row: usize, out: &mut [u8]) -> usize {
    let rows = planes_of::<8>(rows, row);
    let groups = out.as_chunks_mut::<WIDTH>().0.as_chunks_mut::<8>().0;
    for (i, group) in groups.iter_mut().take(row / WIDTH).enumerate() {
        let bytes = interleave(transpose_bits(std::array::from_fn::<_, 8, _>(|k| load(&rows[k][i]))));
        for (place, byte) in group.iter_mut().zip(bytes) {
            store(byte, place);
        }
    }
    row / WIDTH * WIDTH
}

#[target_feature(enable = "avx2")]
fn bytes_to_bits(plane: &[u8], row: usize, out: &mut [u8]) -> usize {
    let Some(mut rows) = planes_of_mut::<8>(out, row) else { return 0 };
    let groups = plane.as_chunks::<WIDTH>().0.as_chunks::<8>().0;
    for (i, group) in groups.iter().take(row / WIDTH).enumerate() {
        let bits = transpose_bits(deinterleave(std::array::from_fn::<_, 8, _>(|k| load(&group[k]))));
        for (row, bits) in rows.iter_mut().zip(bits) {
            store(bits, &mut row[i]);
        }
    }
    row / WIDTH * WIDTH
}
