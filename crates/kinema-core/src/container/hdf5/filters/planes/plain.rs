//! Planes of bytes and bits for every processor and every size of an element.
//!
//! It is the safe twin of the AVX2 code, and does what that leaves over: each function begins at element `done`.

/// Elements that are moved plane by plane, so that bytes written with gaps stay in the first-level cache.
const TILE: usize = 512;

/// Byte planes to elements, from element `done` on, and the bytes after the last element.
pub(super) fn unshuffle(shuffled: &[u8], element: usize, count: usize, done: usize, out: &mut [u8]) {
    let whole = count * element;
    let (Some(planes), Some(elements)) = (shuffled.get(..whole), out.get_mut(..whole)) else { return };
    match element {
        _ if done >= count => {}
        1 => elements.copy_from_slice(planes),
        2 => unshuffle_fixed::<2>(planes, count, done, elements),
        4 => unshuffle_fixed::<4>(planes, count, done, elements),
        8 => unshuffle_fixed::<8>(planes, count, done, elements),
        _ => {
            for (tile, elements) in elements.chunks_mut(TILE * element).enumerate() {
                for (j, plane) in planes.chunks_exact(count).enumerate() {
                    let bytes = plane.get(tile * TILE..).unwrap_or_default();
                    for (byte, element) in bytes.iter().zip(elements.chunks_exact_mut(element)) {
                        if let Some(place) = element.get_mut(j) {
                            *place = *byte;
                        }
                    }
                }
            }
        }
    }
    copy_rest(shuffled, whole, out);
}

fn unshuffle_fixed<const S: usize>(planes: &[u8], count: usize, done: usize, out: &mut [u8]) {
    let planes: [&[u8]; S] = std::array::from_fn(|j| planes.get(j * count + done..(j + 1) * count).unwrap_or_default());
    let elements = out.as_chunks_mut::<S>().0.get_mut(done..).unwrap_or_default();
    for (tile, elements) in elements.chunks_mut(TILE).enumerate() {
        for (j, plane) in planes.iter().enumerate() {
            let bytes = plane.get(tile * TILE..).unwrap_or_default();
            for (byte, element) in bytes.iter().zip(elements.iter_mut()) {
                element[j] = *byte;
            }
        }
    }
}

/// Elements to byte planes, from element `done` on, and the bytes after the last element.
pub(super) fn shuffle(elements: &[u8], element: usize, count: usize, done: usize, out: &mut [u8]) {
    let whole = count * element;
    let (Some(whole_elements), Some(planes)) = (elements.get(..whole), out.get_mut(..whole)) else { return };
    if element == 1 {
        planes.copy_from_slice(whole_elements);
    } else if done < count {
        let remaining = whole_elements.get(done * element..).unwrap_or_default();
        for (tile, elements) in remaining.chunks(TILE * element).enumerate() {
            for (j, plane) in planes.chunks_exact_mut(count).enumerate() {
                let bytes = plane.get_mut(done + tile * TILE..).unwrap_or_default();
                for (byte, element) in bytes.iter_mut().zip(elements.chunks_exact(element)) {
                    if let Some(value) = element.get(j) {
                        *byte = *value;
                    }
                }
            }
        }
    }
    copy_rest(elements, whole, out);
}

/// Bytes of an incomplete element stay where they are.
fn copy_rest(from: &[u8], whole: usize, to: &mut [u8]) {
    if let (Some(from), Some(to)) = (from.get(whole..), to.get_mut(whole..)) {
        to.copy_from_slice(from);
    }
}

/// Eight rows of bits to `row` * 8 bytes, from byte `done` of each row on.
pub(super) fn bits_to_bytes(rows: &[u8], row: usize, done: usize, out: &mut [u8]) {
    let rows: [&[u8]; 8] = std::array::from_fn(|k| rows.get(k * row..(k + 1) * row).unwrap_or_default());
    for (i, group) in out.as_chunks_mut::<8>().0.iter_mut().enumerate().skip(done) {
        let bits = std::array::from_fn(|k| rows[k].get(i).copied().unwrap_or_default());
        *group = transpose(u64::from_le_bytes(bits)).to_le_bytes();
    }
}

/// The inverse of [`bits_to_bytes`].
pub(super) fn bytes_to_bits(plane: &[u8], row: usize, done: usize, out: &mut [u8]) {
    for (i, group) in plane.as_chunks::<8>().0.iter().enumerate().skip(done) {
        let bits = transpose(u64::from_le_bytes(*group)).to_le_bytes();
        for (byte, row) in bits.iter().zip(out.chunks_exact_mut(row)) {
            if let Some(place) = row.get_mut(i) {
                *place = *byte;
            }
        }
    }
}

/// Transposes a matrix of 8 x 8 bits, a row a byte (H. S. Warren, Hacker's Delight, 7-3).
fn transpose(mut x: u64) -> u64 {
    for (distance, mask) in [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)] {
        let swapped = (x ^ x >> distance) & mask;
        x ^= swapped ^ swapped << distance;
    }
    x
}
