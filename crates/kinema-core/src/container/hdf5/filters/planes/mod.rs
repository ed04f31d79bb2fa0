//! Turns elements into planes of their bytes, or of their bits, and back: the work of shuffle and bitshuffle.
//!
//! It does not compress. On processors with AVX2, found at run time, the same bytes come out faster.
//! Byte planes: byte j of all elements, then byte j + 1 (HDF5 filter 2). Bit planes: bit k of byte j of all elements,
//! eight elements a byte, the first in the lowest bit (K. Masui et al., Astronomy and Computing 12, 181 (2015)).

#[cfg(target_arch = "x86_64")]
mod avx2;
mod plain;

#[cfg(target_arch = "x86_64")]
use avx2::Avx2;

/// Byte planes to elements of `element` bytes; `out` is as long as `shuffled`, bytes of an incomplete element stay.
pub(super) fn unshuffle(shuffled: &[u8], element: usize, out: &mut [u8]) {
    let count = shuffled.len() / element.max(1);
    // without AVX2, or if it has no code for the size: from the first element on
    #[cfg(target_arch = "x86_64")]
    let done = Avx2::detect().map_or(0, |avx2| avx2.unshuffle(shuffled, element, count, out));
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    plain::unshuffle(shuffled, element, count, done, out);
}

/// The inverse of [`unshuffle`].
pub(super) fn shuffle(elements: &[u8], element: usize, out: &mut [u8]) {
    let count = elements.len() / element.max(1);
    #[cfg(target_arch = "x86_64")]
    let done = Avx2::detect().map_or(0, |avx2| avx2.shuffle(elements, element, count, out));
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    plain::shuffle(elements, element, count, done, out);
}

/// Bit planes to byte planes: of eight rows of `row` bytes at a time, `row` * 8 bytes. Both are a multiple of that long.
pub(super) fn bits_to_bytes(rows: &[u8], row: usize, out: &mut [u8]) {
    if row == 0 {
        return;
    }
    for (rows, plane) in rows.chunks_exact(8 * row).zip(out.chunks_exact_mut(8 * row)) {
        #[cfg(target_arch = "x86_64")]
        let done = Avx2::detect().map_or(0, |avx2| avx2.bits_to_bytes(rows, row, plane));
        #[cfg(not(target_arch = "x86_64"))]
        let done = 0;
        plain::bits_to_bytes(rows, row, done, plane);
    }
}

/// The inverse of [`bits_to_bytes`].
pub(super) fn bytes_to_bits(planes: &[u8], row: usize, out: &mut [u8]) {
    if row == 0 {
        return;
    }
    for (plane, rows) in planes.chunks_exact(8 * row).zip(out.chunks_exact_mut(8 * row)) {
        #[cfg(target_arch = "x86_64")]
        let done = Avx2::detect().map_or(0, |avx2| avx2.bytes_to_bits(plane, row, rows));
        #[cfg(not(target_arch = "x86_64"))]
        let done = 0;
        plain::bytes_to_bits(plane, row, done, rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(length: usize) -> Vec<u8> {
        let mut state = 7_u32;
        (0..length)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect()
    }

    #[test]
    fn byte_planes_are_those_of_the_definition_and_come_back() {
        // Miri, which looks at the unsafe code, is slow
        let (elements, counts) = if cfg!(miri) {
            (&[2, 3, 4, 8][..], &[0, 33, 64][..])
        } else {
            (&[1, 2, 3, 4, 5, 7, 8, 12, 16, 24, 300][..], &[0, 1, 7, 31, 32, 33, 64, 100, 1000][..])
        };
        for &element in elements {
            for &count in counts {
                let elements = bytes(count * element + (element - 1).min(3));
                let mut expected = elements.clone();
                for i in 0..count {
                    for j in 0..element {
                        expected[j * count + i] = elements[i * element + j];
                    }
                }
                let (mut shuffled, mut by_hand) = (vec![0; elements.len()], vec![0; elements.len()]);
                shuffle(&elements, element, &mut shuffled);
                plain::shuffle(&elements, element, count, 0, &mut by_hand);
                assert_eq!(shuffled, expected, "{count} elements of {element} bytes");
                assert_eq!(by_hand, expected, "{count} elements of {element} bytes, plain");
                let (mut back, mut plain_back) = (vec![0; elements.len()], vec![0; elements.len()]);
                unshuffle(&shuffled, element, &mut back);
                plain::unshuffle(&shuffled, element, count, 0, &mut plain_back);
                assert_eq!(back, elements, "{count} elements of {element} bytes");
                assert_eq!(plain_back, elements, "{count} elements of {element} bytes, plain");
            }
        }
    }

    #[test]
    fn bit_planes_are_those_of_the_definition_and_come_back() {
        for row in [0, 1, 5, 31, 32, 33, 64, 256] {
            for planes in [1, 2, 4] {
                let data = bytes(planes * 8 * row);
                let mut expected = vec![0; data.len()];
                for plane in 0..planes {
                    for i in 0..8 * row {
                        for k in 0..8 {
                            let bit = data[plane * 8 * row + i] >> k & 1;
                            expected[(plane * 8 + k) * row + i / 8] |= bit << (i % 8);
                        }
                    }
                }
                let (mut bits, mut back) = (vec![0; data.len()], vec![0; data.len()]);
                bytes_to_bits(&data, row, &mut bits);
                assert_eq!(bits, expected, "rows of {row} bytes");
                bits_to_bytes(&bits, row, &mut back);
                assert_eq!(back, data, "rows of {row} bytes");
                let (mut bits, mut back) = (vec![0; data.len()], vec![0; data.len()]);
                for plane in (0..planes).filter(|_| row > 0) {
                    let range = plane * 8 * row..(plane + 1) * 8 * row;
                    plain::bytes_to_bits(&data[range.clone()], row, 0, &mut bits[range.clone()]);
                    plain::bits_to_bytes(&bits[range.clone()], row, 0, &mut back[range]);
                }
                assert_eq!((bits, back), (expected, data), "rows of {row} bytes, plain");
            }
        }
    }
}
