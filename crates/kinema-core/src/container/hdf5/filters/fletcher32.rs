//! Fletcher's checksum, which HDF5 appends to the bytes of a chunk (filter 3).
//!
//! It corrects nothing: a chunk whose sum differs is corrupt. Source: HDF5 library, `H5_checksum_fletcher32`; the sums
//! are those of J. G. Fletcher, IEEE Trans. Commun. 30, 247 (1982), modulo 65535 over big-endian 16-bit words.

use super::make_room;
use crate::{Error, Result};

/// Bytes of the checksum, which is stored little-endian.
pub(super) const SUM_BYTES: usize = 4;
/// Words that are summed side by side.
const LANES: usize = 16;
/// Words of a lane whose sum of sums fits in 32 bits: 65535 * (256 * 257 / 2) < 2^32.
const DEEP: usize = 256;
const RUN: usize = LANES * DEEP;
const MODULUS: u64 = 65535;

/// The checksum of `data`.
///
/// The words are summed as little-endian ones: swapping the bytes of a word multiplies it by 256 modulo 65535, so the
/// sums of the big-endian words are these sums with their bytes swapped.
fn checksum(data: &[u8]) -> u32 {
    let (mut first, mut second, mut any) = (0_u64, 0_u64, false);
    let (runs, rest) = data.as_chunks::<{ 2 * RUN }>();
    for run in runs {
        let (sum, sum_of_sums) = sums_of_run(run);
        second = (second + first * RUN as u64 + sum_of_sums) % MODULUS;
        first = (first + sum) % MODULUS;
        any |= sum > 0;
    }
    let (words, last) = rest.as_chunks::<2>();
    // a single last byte is the high one of a word
    let odd = last.first().map(|byte| u64::from(*byte));
    for word in words.iter().map(|word| u64::from(u16::from_le_bytes(*word))).chain(odd) {
        first += word;
        second += first;
        any |= word > 0;
    }
    let low = |sum: u64| match (sum % MODULUS) as u16 {
        // folding with end-around carry gives zero for nothing but zeros
        0 if any => u16::MAX,
        sum => sum.swap_bytes(),
    };
    u32::from(low(second)) << 16 | u32::from(low(first))
}

/// Sum of the words, and sum of all sums on the way there.
///
/// Word i counts RUN - i times in the latter. In lane l that is LANES times what the lane's own sum of sums counts it,
/// less l times: so the lanes need no multiplication before the end.
#[inline]
fn sums_of_run(run: &[u8; 2 * RUN]) -> (u64, u64) {
    let (mut sums, mut sums_of_sums) = ([0_u32; LANES], [0_u32; LANES]);
    for row in run.as_chunks::<{ 2 * LANES }>().0 {
        for ((word, sum), sum_of_sums) in row.as_chunks::<2>().0.iter().zip(&mut sums).zip(&mut sums_of_sums) {
            *sum += u32::from(u16::from_le_bytes(*word));
            *sum_of_sums += *sum;
        }
    }
    let all = |lanes: &[u32; LANES]| lanes.iter().map(|lane| u64::from(*lane)).sum::<u64>();
    let less: u64 = sums.iter().enumerate().map(|(lane, sum)| lane as u64 * u64::from(*sum)).sum();
    (all(&sums), LANES as u64 * all(&sums_of_sums) - less)
}

/// Compares the checksum at the end of `encoded` with the bytes before it, whose number is returned.
///
/// HDF5 1.6.2 and older, on some machines, swapped the bytes of both sums: libhdf5 takes these files, so this does too.
pub(super) fn verify(encoded: &[u8]) -> Result<usize> {
    let Some((data, stored)) = encoded.split_last_chunk::<SUM_BYTES>() else {
        return Err(Error::corrupt("chunk too short for its checksum", format!("{SUM_BYTES} bytes"), encoded.len()));
    };
    let (found, computed) = (u32::from_le_bytes(*stored), checksum(data));
    let swapped = (computed & 0xff00_ff00) >> 8 | (computed & 0x00ff_00ff) << 8;
    if found != computed && found != swapped {
        return Err(Error::corrupt(
            "wrong fletcher32 checksum of a chunk",
            format!("{computed:#010x}"),
            format!("{found:#010x}"),
        ));
    }
    Ok(data.len())
}

/// `plain` and its checksum.
pub(super) fn append(plain: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let sum = checksum(plain).to_le_bytes();
    make_room(out, plain.len() + SUM_BYTES)?;
    if let Some((data, place)) = out.split_last_chunk_mut::<SUM_BYTES>() {
        data.copy_from_slice(plain);
        *place = sum;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, word by word.
    fn plain(data: &[u8]) -> u32 {
        let fold = |sum: u64| if sum == 0 { 0 } else { (sum - 1) % 65535 + 1 };
        let (mut first, mut second) = (0_u64, 0_u64);
        for word in data.chunks(2) {
            let word = u64::from(word[0]) << 8 | word.get(1).map_or(0, |low| u64::from(*low));
            first = fold(first + word);
            second = fold(second + first);
        }
        (second << 16 | first) as u32
    }

    #[test]
    fn runs_give_the_sums_of_the_definition() {
        let mut state = 1_u32;
        for length in (0..100).chain([2 * RUN - 1, 2 * RUN, 2 * RUN + 3, 100_001]) {
            let random: Vec<u8> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 24) as u8
                })
                .collect();
            for data in [random, vec![0; length], vec![0xff; length]] {
                assert_eq!(checksum(&data), plain(&data), "{length} bytes from {:?}", data.first());
            }
        }
    }

    #[test]
    fn sums_with_swapped_bytes_are_those_of_old_libraries() {
        let mut encoded = Vec::new();
        append(b"some bytes", &mut encoded).unwrap();
        assert_eq!(verify(&encoded).unwrap(), 10);
        let n = encoded.len();
        encoded.swap(n - 4, n - 3);
        encoded.swap(n - 2, n - 1);
        assert_eq!(verify(&encoded).unwrap(), 10);
        encoded[0] ^= 1;
        let error = verify(&encoded).unwrap_err();
        assert!(error.what().starts_with("wrong fletcher32 checksum of a chunk, expected 0x"), "{error}");
        assert!(verify(&[1, 2, 3]).is_err());
    }
}
