//! XDR items (RFC 4506): big-endian words, opaque data padded to four bytes.
//!
//! The meaning of the items is the format's business; an absent item is `None` rather than an error.

/// The four bytes at `at`.
#[inline]
fn word(bytes: &[u8], at: usize) -> Option<[u8; 4]> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok()
}

/// The signed 32-bit integer at byte `at`; `None` if the bytes end before it does.
#[inline]
pub fn int(bytes: &[u8], at: usize) -> Option<i32> {
    word(bytes, at).map(i32::from_be_bytes)
}

/// The signed 64-bit integer ("hyper") at byte `at`; `None` if the bytes end before it does.
#[inline]
pub fn hyper(bytes: &[u8], at: usize) -> Option<i64> {
    bytes.get(at..at.checked_add(8)?)?.try_into().ok().map(i64::from_be_bytes)
}

/// The IEEE single at byte `at`; `None` if the bytes end before it does.
#[inline]
pub fn float(bytes: &[u8], at: usize) -> Option<f32> {
    word(bytes, at).map(f32::from_be_bytes)
}

/// The IEEE double at byte `at`; `None` if the bytes end before it does.
#[inline]
pub fn double(bytes: &[u8], at: usize) -> Option<f64> {
    hyper(bytes, at).map(|bits| f64::from_bits(bits as u64))
}

/// `N` neighbouring integers from byte `at`.
#[inline]
pub fn ints<const N: usize>(bytes: &[u8], at: usize) -> Option<[i32; N]> {
    let mut values = [0; N];
    let run = bytes.get(at..at.checked_add(N.checked_mul(4)?)?)?;
    for (value, word) in values.iter_mut().zip(run.as_chunks::<4>().0) {
        *value = i32::from_be_bytes(*word);
    }
    Some(values)
}

/// `N` neighbouring singles from byte `at`.
#[inline]
pub fn floats<const N: usize>(bytes: &[u8], at: usize) -> Option<[f32; N]> {
    ints(bytes, at).map(|words: [i32; N]| words.map(|word| f32::from_bits(word as u32)))
}

/// Length of `len` bytes of opaque data with its padding; `None` beyond the range of the type.
#[inline]
pub fn padded(len: u64) -> Option<u64> {
    len.checked_next_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_big_endian_and_none_beyond_the_end() {
        let bytes = [0xff, 0xff, 0xff, 0xfe, 0x3f, 0x80, 0, 0];
        assert_eq!(int(&bytes, 0), Some(-2));
        assert_eq!(float(&bytes, 4), Some(1.0));
        assert_eq!(hyper(&bytes, 0), Some(i64::from_be_bytes(bytes)));
        assert_eq!(ints::<2>(&bytes, 0), Some([-2, 0x3f80_0000]));
        assert_eq!(floats::<1>(&bytes, 4), Some([1.0]));
        for at in [5, 8, 9, usize::MAX, usize::MAX - 2] {
            assert_eq!(int(&bytes, at), None);
            assert_eq!(float(&bytes, at), None);
            assert_eq!(hyper(&bytes, at), None);
            assert_eq!(ints::<2>(&bytes, at), None);
        }
        assert_eq!((padded(0), padded(5), padded(8), padded(u64::MAX)), (Some(0), Some(8), Some(8), None));
    }
}
