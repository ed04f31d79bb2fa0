//! LZF (filter 32000), which h5py writes for `compression="lzf"`; decoding only.
//!
//! Format, of M. Lehmann's liblzf: a control byte c below 32 is followed by c + 1 literal bytes; any other is a match of
//! 2 + (c >> 5) bytes, where 7 of these three bits means that one more byte is added, at a distance back of
//! 1 + ((c & 31) << 8) + the byte after that.

use super::{Size, make_room};
use crate::{Error, ErrorKind, Result};

/// Three bytes stand for 264 at most.
pub(super) const LARGEST_GROWTH: usize = 88;

pub(super) fn decode(encoded: &[u8], decoded: Size, out: &mut Vec<u8>) -> Result<()> {
    make_room(out, decoded.bytes)?;
    let length = decode_into(encoded, out)
        .ok_or_else(|| Error::new(ErrorKind::Corrupt, "the lzf stream of a chunk is damaged"))?;
    decoded.check("wrong size of a chunk from its lzf stream", length)?;
    out.truncate(length);
    Ok(())
}

/// The bytes written; `None` if the stream ends within an item, goes back beyond its start, or overflows `out`.
fn decode_into(encoded: &[u8], out: &mut [u8]) -> Option<usize> {
    let (mut rest, mut at) = (encoded, 0_usize);
    while let Some((&control, tail)) = rest.split_first() {
        let control = usize::from(control);
        if control < 32 {
            let (literals, tail) = tail.split_at_checked(control + 1)?;
            out.get_mut(at..at + literals.len())?.copy_from_slice(literals);
            at += literals.len();
            rest = tail;
            continue;
        }
        let (more, tail) = if control >> 5 == 7 { tail.split_first()? } else { (&0, tail) };
        let (&low, tail) = tail.split_first()?;
        let length = 2 + (control >> 5) + usize::from(*more);
        let distance = 1 + ((control & 31) << 8) + usize::from(low);
        let from = at.checked_sub(distance)?;
        out.get(at..at + length)?;
        // a match may overlap itself: then it repeats what it has just written
        let mut done = 0;
        while done < length {
            let run = (length - done).min(distance + done);
            out.copy_within(from..from + run, at + done);
            done += run;
        }
        at += length;
        rest = tail;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: fn(usize) -> Size = |bytes| Size { bytes, exact: true };

    #[test]
    fn literals_and_matches_that_overlap_themselves() {
        let mut out = Vec::new();
        // "ab", then 9 bytes from 2 back, then "c"
        decode(&[1, b'a', b'b', 0xe0, 0, 1, 0, b'c'], EXACT(12), &mut out).unwrap();
        assert_eq!(out, b"abababababac");
    }

    #[test]
    fn streams_that_cannot_be_are_corrupt() {
        let mut out = Vec::new();
        for (stream, bytes) in [
            (&[1_u8, b'a'][..], 2),            // a literal is missing
            (&[0x20], 3),                      // the distance is missing
            (&[0xe0, 0], 9),                   // the same of a long match
            (&[0, b'a', 0x20, 1], 4),          // before the beginning
            (&[0, b'a', 0x20, 0, 0, b'b'], 4), // more than fits
            (&[0, b'a', 0x20, 0], 5),          // less than the chunk
        ] {
            let error = decode(stream, EXACT(bytes), &mut out).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{stream:?}");
        }
    }
}
