//! Scale-offset (filter 6): integers as differences from the smallest, floats likewise after scaling by a power of ten;
//! decoding only.
//!
//! It does not read the "E-scale" variant, which libhdf5 does not write either. Source: HDF5 library, "H5Pset_scaleoffset"
//! and the layout of `H5Zscaleoffset.c`: 4 bytes number of bits, 1 byte size of the smallest value, its bytes up to byte
//! 21 (all little-endian), then the values, each in that number of bits, most significant bit first.

use super::{Size, make_room};
use crate::{Error, ErrorKind, Result};

const HEAD: usize = 21;
/// Bytes that libhdf5 may add to the packed values.
const SLACK: usize = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Numbers {
    /// Integers of any sign: the arithmetic wraps.
    Integers,
    /// Scaled by ten to this power.
    Floats { decimals: i32 },
}

/// Parameters of the filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScaleOffset {
    numbers: Numbers,
    count: usize,
    /// Bytes of an element: 1, 2, 4 or 8; floats 4 or 8.
    element: usize,
    big_endian: bool,
    /// The value that a number of all ones stands for.
    fill: Option<u64>,
    /// The values are stored as they are.
    idle: bool,
}

impl ScaleOffset {
    /// From the client values: scale type (0 float D-scale, 1 float E-scale, 2 integer), factor, number of elements,
    /// class (0 integer, 1 float), element size, sign, byte order (0 little), whether there is a fill value, its words.
    pub(super) fn new(values: &[u32]) -> Result<Self> {
        let [scale, factor, count, class, size, _sign, order, fill, words @ ..] = values else {
            return Err(Error::corrupt("too few client values of filter scaleoffset", 8, values.len()));
        };
        let (numbers, sizes) = match (*scale, *class) {
            (0, 1) => (Numbers::Floats { decimals: *factor as i32 }, &[4, 8][..]),
            (2, 0) => (Numbers::Integers, &[1, 2, 4, 8][..]),
            (1, 1) => {
                let what = "HDF5 filter scaleoffset in its E-scale variant, for which Kinema has no code";
                return Err(Error::new(ErrorKind::Unsupported, what));
            }
            other => {
                let what = "wrong scale type and class of filter scaleoffset";
                return Err(Error::corrupt(what, "(0, 1) or (2, 0)", format!("{other:?}")));
            }
        };
        if !sizes.contains(size) {
            return Err(Error::corrupt("wrong element size of filter scaleoffset", format!("one of {sizes:?}"), size));
        }
        let fill = match *fill {
            0 => None,
            _ => {
                let word = |i: usize| u64::from(words.get(i).copied().unwrap_or(0));
                Some(word(0) | word(1) << 32)
            }
        };
        // integers in as many bits as they have are not touched at all
        let idle = numbers == Numbers::Integers && *factor == *size * 8;
        let (count, element) = (*count as usize, *size as usize);
        Ok(Self { numbers, count, element, big_endian: *order == 1, fill, idle })
    }

    /// Size of the encoded form: it is bounded, but hangs on the values.
    pub(super) fn encoded_size(&self, raw: Size) -> Size {
        if self.idle { raw } else { Size { bytes: raw.bytes.saturating_add(HEAD + SLACK), exact: false } }
    }

    pub(super) fn decode(&self, encoded: &[u8], decoded: Size, out: &mut Vec<u8>) -> Result<()> {
        if self.idle {
            decoded.check("wrong size of a scaleoffset chunk", encoded.len())?;
            make_room(out, encoded.len())?;
            out.copy_from_slice(encoded);
            return Ok(());
        }
        let total = self.count.saturating_mul(self.element);
        decoded.check("wrong number of elements of filter scaleoffset, in bytes", total)?;
        let Some((head, packed)) = encoded.split_at_checked(HEAD) else {
            return Err(Error::corrupt("scaleoffset chunk without its head", format!("{HEAD} bytes"), encoded.len()));
        };
        let (bits, smallest) = read_head(head);
        let width = self.element * 8;
        if bits > width {
            return Err(Error::corrupt(
                "wrong number of bits in a scaleoffset chunk",
                format!("at most {width}"),
                bits,
            ));
        }
        let needed = bits.checked_mul(self.count).map_or(usize::MAX, |bits| bits.div_ceil(8));
        let Some(packed) = packed.get(..needed) else {
            return Err(Error::corrupt("scaleoffset chunk cut short", format!("{needed} bytes"), packed.len()));
        };
        make_room(out, total)?;
        match self.element {
            // values that need all their bits are stored as they are, in the order of the machine that wrote
            _ if bits == width => out.copy_from_slice(packed),
            1 => self.unpack::<1>(packed, bits, smallest, out),
            2 => self.unpack::<2>(packed, bits, smallest, out),
            4 => self.unpack::<4>(packed, bits, smallest, out),
            _ => self.unpack::<8>(packed, bits, smallest, out),
        }
        if self.big_endian {
            out.chunks_exact_mut(self.element).for_each(<[u8]>::reverse);
        }
        Ok(())
    }

    /// Packed values as little-endian elements of S bytes.
    fn unpack<const S: usize>(&self, packed: &[u8], bits: usize, smallest: u64, out: &mut [u8]) {
        let mut source = BitReader::new(packed);
        // the number that stands for the fill value; with no bits, zero
        let all_ones = (1_u64 << bits) - 1;
        for place in out.as_chunks_mut::<S>().0 {
            let value = source.take(bits);
            let value = match self.fill {
                Some(fill) if value == all_ones => fill,
                _ => self.restored::<S>(value, smallest),
            };
            if let Some(bytes) = value.to_le_bytes().first_chunk::<S>() {
                *place = *bytes;
            }
        }
    }

    /// The element of a packed value: its bits, in the lowest S bytes.
    fn restored<const S: usize>(&self, value: u64, smallest: u64) -> u64 {
        match self.numbers {
            Numbers::Integers => value.wrapping_add(smallest),
            // in the precision of the element, as libhdf5 computes it
            Numbers::Floats { decimals } if S == 4 => {
                let scaled = value as i32 as f32 / 10_f32.powf(decimals as f32);
                u64::from((scaled + f32::from_bits(smallest as u32)).to_bits())
            }
            Numbers::Floats { decimals } => {
                let scaled = value as i64 as f64 / 10_f64.powf(f64::from(decimals));
                (scaled + f64::from_bits(smallest)).to_bits()
            }
        }
    }
}

/// Number of bits, and the smallest value.
fn read_head(head: &[u8]) -> (usize, u64) {
    let little_endian =
        |bytes: &[u8]| bytes.iter().take(8).rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    let bits = head.get(..4).map_or(0, little_endian);
    let size = head.get(4).map_or(0, |size| usize::from(*size));
    let smallest = head.get(5..(5 + size).min(HEAD)).map_or(0, little_endian);
    (bits as usize, smallest)
}

/// Takes bits from bytes, the most significant first.
struct BitReader<'a> {
    bytes: &'a [u8],
    /// The lowest `held` bits have not been taken.
    window: u128,
    held: usize,
}

impl<'a> BitReader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, window: 0, held: 0 }
    }

    /// The next `bits` bits (fewer than 64); zeros beyond the end.
    #[inline]
    fn take(&mut self, bits: usize) -> u64 {
        while self.held < bits {
            if let Some((word, rest)) = self.bytes.split_first_chunk::<8>() {
                self.window = self.window << 64 | u128::from(u64::from_be_bytes(*word));
                (self.bytes, self.held) = (rest, self.held + 64);
            } else {
                let (byte, rest) = self.bytes.split_first().unwrap_or((&0, &[]));
                self.window = self.window << 8 | u128::from(*byte);
                (self.bytes, self.held) = (rest, self.held + 8);
            }
        }
        self.held -= bits;
        ((self.window >> self.held) & ((1 << bits) - 1)) as u64
    }
}
