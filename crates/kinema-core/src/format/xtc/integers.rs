//! XTC coordinates as the integers that they are in a file, for frames that are encoded again without rounding.
//!
//! It reads whole frames and makes no positions: [`super::coordinates`] does.

use super::header::{FrameHeader, MAGIC_LONG, Packing};
use super::radix::{Full, FullCoordinate, LOAD_REACH, Small, load};
use super::{NAME, full_coordinate, wrong_frame_len};
use crate::error::{Error, Result};
use crate::format::scan::{HeaderFault, ends_early};
use crate::selection::AtomSelection;

/// What [`decode_integers`] finds beside the integers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrameIntegers {
    /// Number of the step.
    pub step: i32,
    /// ps
    pub time: f32,
    /// Row vectors, nm.
    pub cell: [[f32; 3]; 3],
    /// Integers in a nm; `None` for a frame of up to nine atoms: these are plain floats, and there are no integers.
    pub precision: Option<f32>,
    /// Whether the frame has magic 2023.
    pub long: bool,
}

/// Reads the integers of some atoms of the frame `bytes`, which lies at `offset` in its file, into `integers`.
///
/// `room` is memory that is used again from frame to frame.
///
/// # Errors
/// `Corrupt`, `Truncated` or `Unsupported` with the byte; `Corrupt` too where `atoms` is of another number of atoms.
pub fn decode_integers(
    bytes: &[u8],
    offset: u64,
    atoms: &AtomSelection,
    room: &mut Vec<u8>,
    integers: &mut Vec<[i32; 3]>,
) -> Result<FrameIntegers> {
    integers.clear();
    frame(bytes, offset, atoms, room, integers).map_err(|error| error.in_format(NAME))
}

/// Checks the header of the frame `bytes`, which lies at `offset` in its file: that it is a frame of so many atoms and bytes.
///
/// # Errors
/// As [`decode_integers`], but for the coordinates.
pub fn is_whole_frame(bytes: &[u8], offset: u64, n_atoms: u32) -> Result<()> {
    let header = whole_header(bytes, offset, n_atoms).map_err(|error| error.in_format(NAME))?;
    header.packing.map_or(Ok(()), |packing| packing.check(offset)).map_err(|error| error.in_format(NAME))
}

fn whole_header(bytes: &[u8], offset: u64, n_atoms: u32) -> Result<FrameHeader> {
    let len = bytes.len() as u64;
    let header = FrameHeader::parse(bytes, offset, Some(n_atoms)).map_err(|fault| match fault {
        HeaderFault::Wrong(error) => error,
        HeaderFault::Short(needs) => ends_early(offset, needs as u64, offset.saturating_add(len)),
    })?;
    if header.frame_len() != len {
        return Err(wrong_frame_len(offset, len, header.frame_len()));
    }
    Ok(header)
}

fn frame(
    bytes: &[u8],
    offset: u64,
    atoms: &AtomSelection,
    room: &mut Vec<u8>,
    integers: &mut Vec<[i32; 3]>,
) -> Result<FrameIntegers> {
    let header = whole_header(bytes, offset, atoms.n_atoms())?;
    if let Some(packing) = header.packing {
        packing.check(offset)?;
        // loads may reach beyond the stream
        room.clear();
        room.extend_from_slice(&bytes[header.len()..][..packing.n_bytes as usize]);
        room.resize(room.len() + LOAD_REACH, 0);
        let full = full_coordinate(packing).ok_or_else(|| {
            let found = format!("{:?} to {:?}", packing.min, packing.max);
            Error::corrupt("wrong range of the coordinates", "below 2^32", found).at_byte(offset.saturating_add(60))
        })?;
        let stream = Stream { packing, n_atoms: header.n_atoms as usize, data: room };
        let fault = |(bit, what): (u64, Fault)| {
            what.error(header.n_atoms).at_byte(offset.saturating_add(header.len() as u64).saturating_add(bit / 8))
        };
        match full {
            FullCoordinate::Narrow(full) => stream.unpack(full, atoms, integers),
            FullCoordinate::Wide(full) => stream.unpack(full, atoms, integers),
            FullCoordinate::Separate(full) => stream.unpack(full, atoms, integers),
        }
        .map_err(fault)?;
    }
    Ok(FrameIntegers {
        step: header.step,
        time: header.time,
        cell: header.cell,
        precision: header.packing.map(|packing| packing.precision),
        long: header.magic == MAGIC_LONG,
    })
}

/// Why unpacking ended early.
enum Fault {
    Short { atom: usize },
    RunTooLong { by: usize },
    NoSuchSmall { place: i32 },
}

impl Fault {
    fn error(&self, n_atoms: u32) -> Error {
        let n_atoms = format!("{n_atoms} atoms");
        match self {
            Self::Short { atom } => Error::corrupt("the compressed coordinates end early", n_atoms, atom),
            Self::RunTooLong { by } => Error::corrupt("a run of atoms is too long", n_atoms, format!("{by} more")),
            Self::NoSuchSmall { place } => Error::corrupt("wrong width of small differences", "9 to 72", place),
        }
    }
}

/// The bit stream of a frame, padded for loads.
struct Stream<'a> {
    packing: Packing,
    n_atoms: usize,
    data: &'a [u8],
}

/// Atoms of a group at most: a full coordinate, and 31 / 3 small differences.
const GROUP: usize = 11;

impl Stream<'_> {
    /// Appends the integers of the atoms; in a fault the bit at which it is found.
    fn unpack<F: Full>(
        &self,
        full: F,
        atoms: &AtomSelection,
        integers: &mut Vec<[i32; 3]>,
    ) -> std::result::Result<(), (u64, Fault)> {
        let limit = (self.data.len() - LOAD_REACH) as u64 * 8;
        let mut selected = atoms.indices().map(|indices| indices.iter().copied().peekable());
        let (mut bit, mut atom, mut run, mut place) = (0, 0, 0, self.packing.small);
        integers.reserve(atoms.len());
        while atom < self.n_atoms {
            if selected.as_mut().is_some_and(|selected| selected.peek().is_none()) {
                break;
            }
            let short = (bit, Fault::Short { atom });
            let flag_at = bit + full.bits();
            let Some(word) = load(self.data, flag_at) else { return Err(short) };
            let five = (word >> 58) as u32 & 31;
            let flagged = word >> 63 == 1;
            let width = u64::from(place.unsigned_abs());
            if flagged {
                run = (five / 3) as usize;
            }
            let differences = flag_at + if flagged { 6 } else { 1 };
            let end = differences + run as u64 * width;
            if differences > limit {
                return Err(short);
            }
            if run >= self.n_atoms - atom {
                return Err((bit, Fault::RunTooLong { by: run - (self.n_atoms - atom - 1) }));
            }
            if run > 0 && !Small::exists(place) {
                return Err((bit, Fault::NoSuchSmall { place }));
            }
            if end > limit {
                return Err(short);
            }
            let wanted = selected.as_mut().is_none_or(|s| s.peek().is_some_and(|&next| next as usize <= atom + run));
            if wanted {
                let mut group = [[0; 3]; GROUP];
                let group = &mut group[..=run];
                self.group(full, bit, differences, place, group).ok_or(short)?;
                match &mut selected {
                    None => integers.extend_from_slice(group),
                    Some(selected) => {
                        while let Some(next) = selected.next_if(|&next| next as usize <= atom + run) {
                            integers.push(group[next as usize - atom]);
                        }
                    }
                }
            }
            bit = end;
            atom += 1 + run;
            if flagged {
                place = place.wrapping_add(five as i32 % 3 - 1);
            }
        }
        Ok(())
    }

    /// The integers of one group; `None` where the data end before it does.
    #[inline(always)]
    fn group<F: Full>(&self, full: F, bit: u64, mut at: u64, place: i32, group: &mut [[i32; 3]]) -> Option<()> {
        let add = |a: [i32; 3], b: [i32; 3]| [0, 1, 2].map(|axis: usize| a[axis].wrapping_add(b[axis]));
        let first = add(full.read(self.data, bit)?, self.packing.min);
        group[0] = first;
        if group.len() == 1 {
            return Some(());
        }
        let (small, half) = Small::at(place)?;
        // the first two atoms of a run are exchanged
        group[1] = first;
        let mut previous = first;
        for i in 0..group.len() - 1 {
            previous = add(add(previous, [-half; 3]), small.read(self.data, at)?);
            group[if i == 0 { 0 } else { i + 1 }] = previous;
            at += u64::from(place.unsigned_abs());
        }
        Some(())
    }
}
