//! The XTC frame header: parsed and checked up to the compressed bit stream.

use crate::container::xdr;
use crate::error::{Error, ErrorKind, Result};
use crate::format::scan::HeaderFault;

/// First word of a frame whose bit stream is counted in 4 bytes.
pub(super) const MAGIC_CLASSIC: i32 = 1995;
/// First word of a frame whose bit stream is counted in 8 bytes (GROMACS 2023 and later, huge systems).
pub(super) const MAGIC_LONG: i32 = 2023;
/// First word of a TRR frame, named in the message.
const MAGIC_TRR: i32 = 1993;
/// Up to this many atoms the coordinates are plain floats.
pub(super) const MAX_PLAIN_ATOMS: u32 = 9;
/// Bytes of a frame before its coordinates: magic, atoms, step, time, cell, atoms again.
pub(super) const PLAIN_HEADER: usize = 56;
/// Bytes of a frame that hold its time.
pub(super) const TIME: std::ops::Range<usize> = 12..16;
/// Bytes that hold any header whole.
pub(super) const LONGEST_HEADER: usize = 96;

/// Contents of the words before the coordinates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FrameHeader {
    pub magic: i32,
    pub n_atoms: u32,
    pub step: i32,
    /// ps
    pub time: f32,
    /// Row vectors, nm.
    pub cell: [[f32; 3]; 3],
    /// `None` if the coordinates are plain floats.
    pub packing: Option<Packing>,
}

/// How the coordinates of a frame are packed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Packing {
    pub precision: f32,
    pub min: [i32; 3],
    pub max: [i32; 3],
    pub small: i32,
    /// Bytes of the bit stream without padding.
    pub n_bytes: u64,
}

impl FrameHeader {
    /// Parses the header at the start of `bytes`, which lie at `offset` in the file.
    ///
    /// With `expected_atoms`, a frame of another size is refused.
    pub fn parse(bytes: &[u8], offset: u64, expected_atoms: Option<u32>) -> std::result::Result<Self, HeaderFault> {
        let magic = xdr::int(bytes, 0).ok_or(HeaderFault::Short(PLAIN_HEADER))?;
        if magic != MAGIC_CLASSIC && magic != MAGIC_LONG {
            return Err(HeaderFault::wrong(foreign_magic(magic), 0, offset));
        }
        let n_atoms = atoms_at(bytes, 4, offset, expected_atoms)?;
        atoms_at(bytes, 52, offset, Some(n_atoms))?;
        let short = HeaderFault::Short(PLAIN_HEADER);
        let (Some(step), Some(time), Some(cell)) =
            (xdr::int(bytes, 8), xdr::float(bytes, 12), xdr::floats::<9>(bytes, 16))
        else {
            return Err(short);
        };
        let [ax, ay, az, bx, by, bz, cx, cy, cz] = cell;
        let cell = [[ax, ay, az], [bx, by, bz], [cx, cy, cz]];
        let packing = if n_atoms <= MAX_PLAIN_ATOMS { None } else { Some(packing_of(bytes, offset, magic, n_atoms)?) };
        Ok(Self { magic, n_atoms, step, time, cell, packing })
    }

    /// Bytes from the start of the frame to its coordinates.
    pub fn len(&self) -> usize {
        match (self.packing, self.magic) {
            (None, _) => PLAIN_HEADER,
            (Some(_), MAGIC_LONG) => LONGEST_HEADER,
            (Some(_), _) => LONGEST_HEADER - 4,
        }
    }

    /// Bytes of the whole frame.
    pub fn frame_len(&self) -> u64 {
        let body = match self.packing {
            None => u64::from(self.n_atoms) * 12,
            // below 2^63 by packing_of, so that padding cannot overflow
            Some(packing) => packing.n_bytes.next_multiple_of(4),
        };
        self.len() as u64 + body
    }
}

fn atoms_at(bytes: &[u8], at: usize, offset: u64, expected: Option<u32>) -> std::result::Result<u32, HeaderFault> {
    let found = xdr::int(bytes, at).ok_or(HeaderFault::Short(PLAIN_HEADER))?;
    match (u32::try_from(found), expected) {
        (Ok(n_atoms @ 1..), None) => Ok(n_atoms),
        (Ok(n_atoms), Some(expected)) if n_atoms == expected => Ok(n_atoms),
        (_, None) => Err(HeaderFault::wrong(Error::corrupt("wrong atom count", "1 or more", found), at, offset)),
        (_, Some(expected)) => Err(HeaderFault::wrong(Error::corrupt("wrong atom count", expected, found), at, offset)),
    }
}

fn packing_of(bytes: &[u8], offset: u64, magic: i32, n_atoms: u32) -> std::result::Result<Packing, HeaderFault> {
    let long = magic == MAGIC_LONG;
    let n_bytes = if long { xdr::hyper(bytes, 88) } else { xdr::int(bytes, 88).map(i64::from) };
    let (Some(precision), Some(min), Some(max), Some(small), Some(n_bytes)) =
        (xdr::float(bytes, 56), xdr::ints(bytes, 60), xdr::ints(bytes, 72), xdr::int(bytes, 84), n_bytes)
    else {
        return Err(HeaderFault::Short(if long { LONGEST_HEADER } else { LONGEST_HEADER - 4 }));
    };
    // the least that an atom can take: one bit of position and the flag of its group
    let least = u64::from(n_atoms).div_ceil(4);
    // the most: three numbers of 32 bits, the flag and the length of a run, which are 102 bits
    let most = u64::from(n_atoms) * 13 + 64;
    match u64::try_from(n_bytes) {
        Ok(found) if found >= least && found <= most => Ok(Packing { precision, min, max, small, n_bytes: found }),
        _ => Err(HeaderFault::wrong(
            Error::corrupt("wrong length of the compressed coordinates", format!("{least} to {most}"), n_bytes),
            88,
            offset,
        )),
    }
}

fn foreign_magic(magic: i32) -> Error {
    if magic == MAGIC_TRR {
        return Error::new(ErrorKind::Unsupported, "the magic number is that of a TRR file, expected 1995 or 2023");
    }
    if matches!(magic.swap_bytes(), MAGIC_CLASSIC | MAGIC_LONG) {
        return Error::new(
            ErrorKind::Unsupported,
            "little-endian XTC, which no known program writes, expected big-endian words",
        );
    }
    Error::corrupt("wrong magic number", "1995 or 2023", magic)
}

impl Packing {
    /// Checks what decoding needs and a hop from frame to frame does not: precision, first width, range of the integers.
    ///
    /// # Errors
    /// `Corrupt` with the byte offset in the file; `offset` is that of the frame.
    pub fn check(&self, offset: u64) -> Result<()> {
        if !(self.precision > 0.0 && self.precision.is_finite()) {
            let error = Error::corrupt("wrong precision", "a positive number", self.precision);
            return Err(error.with_byte(offset.saturating_add(56)));
        }
        // 73 is one beyond the table: libxdrf can reach it if all atoms are far apart, which is sound without runs
        if !(9..=73).contains(&self.small) {
            let error = Error::corrupt("wrong width of small differences", "9 to 73", self.small);
            return Err(error.with_byte(offset.saturating_add(84)));
        }
        for axis in 0..3 {
            if self.min[axis] > self.max[axis] {
                let at = offset.saturating_add(60 + 4 * axis as u64);
                let what = "wrong range of the coordinates";
                return Err(Error::corrupt(what, format!("at most {}", self.max[axis]), self.min[axis]).with_byte(at));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[i32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn packed(magic: i32, n_atoms: i32, n_bytes: &[i32]) -> Vec<u8> {
        let precision = 1000.0_f32.to_bits() as i32;
        let mut all = vec![magic, n_atoms, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n_atoms, precision, 0, 0, 0, 9, 9, 9, 20];
        all.extend(n_bytes);
        words(&all)
    }

    #[test]
    fn both_magic_numbers_give_the_frame_length() {
        let classic = FrameHeader::parse(&packed(1995, 10, &[61]), 0, None).expect("sound");
        assert_eq!((classic.len(), classic.frame_len(), classic.step), (92, 92 + 64, 5));
        let long = FrameHeader::parse(&packed(2023, 1 << 30, &[1, 61]), 0, Some(1 << 30)).expect("sound");
        assert_eq!((long.len(), long.frame_len()), (96, 96 + (1 << 32) + 64));
    }

    #[test]
    fn every_wrong_word_is_refused_at_its_byte() {
        let at = |bytes: &[u8], atoms| match FrameHeader::parse(bytes, 1000, atoms) {
            Err(HeaderFault::Wrong(error)) => (error.kind(), error.offset()),
            other => panic!("expected a refusal, found {other:?}"),
        };
        use ErrorKind::{Corrupt, Unsupported};
        assert_eq!(at(&packed(7, 10, &[61]), None), (Corrupt, Some(1000)));
        assert_eq!(at(&packed(1993, 10, &[61]), None), (Unsupported, Some(1000)));
        assert_eq!(at(&packed(1995_i32.swap_bytes(), 10, &[61]), None), (Unsupported, Some(1000)));
        assert_eq!(at(&packed(1995, -1, &[61]), None), (Corrupt, Some(1004)));
        assert_eq!(at(&packed(1995, 0, &[]), None), (Corrupt, Some(1004)));
        assert_eq!(at(&packed(1995, 11, &[61]), Some(10)), (Corrupt, Some(1004)));
        assert_eq!(at(&packed(1995, 10, &[-1]), None), (Corrupt, Some(1088)));
        assert_eq!(at(&packed(1995, i32::MAX, &[61]), None), (Corrupt, Some(1088)));
        assert_eq!(at(&packed(1995, 10, &[13 * 10 + 65]), None), (Corrupt, Some(1088)));
        assert!(FrameHeader::parse(&packed(1995, 10, &[13 * 10 + 64]), 0, None).is_ok());
        assert_eq!(at(&packed(2023, 10, &[1, 61]), None), (Corrupt, Some(1088)));
        assert_eq!(at(&packed(2023, 10, &[i32::MAX, -1]), None), (Corrupt, Some(1088)));
        let mut other = packed(1995, 10, &[61]);
        other[55] = 11;
        assert_eq!(at(&other, None), (Corrupt, Some(1052)));
    }

    #[test]
    fn a_short_header_says_how_many_bytes_it_needs() {
        let bytes = packed(2023, 10, &[0, 61]);
        for end in 0..bytes.len() {
            match FrameHeader::parse(&bytes[..end], 0, None) {
                Err(HeaderFault::Short(needs)) => assert_eq!(needs, if end < 56 { 56 } else { 96 }),
                other => panic!("expected a short header, found {other:?}"),
            }
        }
    }

    #[test]
    fn ranges_and_precision_are_checked_for_decoding() {
        let good = Packing { precision: 1.0, min: [-1, 0, 1], max: [-1, 0, 1], small: 9, n_bytes: 4 };
        assert!(good.check(0).is_ok());
        for precision in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert_eq!(Packing { precision, ..good }.check(8).map_err(|e| e.offset()), Err(Some(64)));
        }
        for small in [i32::MIN, -1, 8, 74, i32::MAX] {
            assert_eq!(Packing { small, ..good }.check(8).map_err(|e| e.offset()), Err(Some(92)));
        }
        assert!(Packing { small: 73, ..good }.check(0).is_ok());
        assert_eq!(Packing { max: [-1, -1, 1], ..good }.check(8).map_err(|e| e.offset()), Err(Some(72)));
    }
}
