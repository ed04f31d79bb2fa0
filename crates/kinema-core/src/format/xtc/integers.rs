//! XTC coordinates as the integers that they are in a file, for frames that are encoded again without rounding.
//!
//! It reads whole frames and makes no positions: [`super::coordinates`] does.

use super::batch::MOST_RUN;
use super::coordinates::{Stop, UnpackState, group_at};
use super::faults::{fault, outside};
use super::header::{FrameHeader, MAGIC_LONG, Packing};
use super::radix::{Full, FullCoordinate, LOAD_REACH, Small};
use super::{NAME, full_coordinate, wrong_frame_len};
use crate::error::{Error, Result};
use crate::format::scan::{HeaderFault, ends_early};
use crate::selection::AtomSelection;

/// Values of a frame that [`decode_integers`] returns besides the integers.
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
/// `Corrupt`, `Truncated` or `Unsupported` with the byte; `Corrupt` too if `atoms` is for another number of atoms.
pub fn decode_integers(
    bytes: &[u8],
    offset: u64,
    atoms: &AtomSelection,
    room: &mut Vec<u8>,
    integers: &mut Vec<[i32; 3]>,
) -> Result<FrameIntegers> {
    integers.clear();
    frame(bytes, offset, atoms, room, integers).map_err(|error| error.with_format(NAME))
}

/// Checks the header of the frame `bytes`, which lies at `offset` in its file: it must state `n_atoms` atoms, and the
/// length of `bytes`.
///
/// # Errors
/// As [`decode_integers`], except for errors of the coordinates.
pub fn is_whole_frame(bytes: &[u8], offset: u64, n_atoms: u32) -> Result<()> {
    let header = whole_header(bytes, offset, n_atoms).map_err(|error| error.with_format(NAME))?;
    header.packing.map_or(Ok(()), |packing| packing.check(offset)).map_err(|error| error.with_format(NAME))
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
            Error::corrupt("wrong range of the coordinates", "below 2^32", found).with_byte(offset.saturating_add(60))
        })?;
        let stream = Stream { packing, n_atoms: header.n_atoms as usize, data: room };
        let first = offset.saturating_add(header.len() as u64);
        let (stop, state) = match full {
            FullCoordinate::Narrow(full) => stream.unpack(full, atoms, integers),
            FullCoordinate::Wide(full) => stream.unpack(full, atoms, integers),
            FullCoordinate::Separate(full) => stream.unpack(full, atoms, integers),
        };
        if let Some(error) = fault(&header, packing, &stop, &state, 0) {
            return Err(error.with_byte(first.saturating_add((state.bit / 8).min(packing.n_bytes))));
        }
    }
    Ok(FrameIntegers {
        step: header.step,
        time: header.time,
        cell: header.cell,
        precision: header.packing.map(|packing| packing.precision),
        long: header.magic == MAGIC_LONG,
    })
}

/// The bit stream of a frame, padded for loads.
struct Stream<'a> {
    packing: Packing,
    n_atoms: usize,
    data: &'a [u8],
}

impl Stream<'_> {
    /// Appends the integers of the atoms; how that ended, and at which group.
    fn unpack<F: Full>(&self, full: F, atoms: &AtomSelection, integers: &mut Vec<[i32; 3]>) -> (Stop, UnpackState) {
        let mut at = UnpackState::first(&self.packing);
        integers.reserve(atoms.len());
        let stop = self.groups(full, atoms, integers, &mut at).err().unwrap_or(Stop::Done);
        (stop, at)
    }

    fn groups<F: Full>(
        &self,
        full: F,
        atoms: &AtomSelection,
        integers: &mut Vec<[i32; 3]>,
        at: &mut UnpackState,
    ) -> std::result::Result<(), Stop> {
        let limit = (self.data.len() - LOAD_REACH) as u64 * 8;
        let mut selected = atoms.indices().map(|indices| indices.iter().copied().peekable());
        while at.atom < self.n_atoms {
            if selected.as_mut().is_some_and(|selected| selected.peek().is_none()) {
                break;
            }
            let group = group_at(self.data, limit, full.bits(), at, self.n_atoms)?;
            if group.run > 0 && !Small::exists(at.small) {
                return Err(Stop::NoSuchSmall(at.small));
            }
            if group.differences + group.run as u64 * u64::from(at.small.unsigned_abs()) > limit {
                return Err(Stop::Short);
            }
            let last = at.atom + group.run;
            let wanted = selected.as_mut().is_none_or(|s| s.peek().is_some_and(|&next| next as usize <= last));
            if wanted {
                let mut places = [[0; 3]; 1 + MOST_RUN];
                let places = &mut places[..=group.run];
                self.group(full, at, group.differences, places)?;
                match &mut selected {
                    None => integers.extend_from_slice(places),
                    Some(selected) => {
                        while let Some(next) = selected.next_if(|&next| next as usize <= last) {
                            integers.push(places[next as usize - at.atom]);
                        }
                    }
                }
            }
            at.step_over(&group);
        }
        Ok(())
    }

    /// The integers of one group, whose differences start at bit `bit`.
    #[inline(always)]
    fn group<F: Full>(
        &self,
        full: F,
        at: &UnpackState,
        mut bit: u64,
        places: &mut [[i32; 3]],
    ) -> std::result::Result<(), Stop> {
        let add = |a: [i32; 3], b: [i32; 3]| [0, 1, 2].map(|axis: usize| a[axis].wrapping_add(b[axis]));
        let first = add(full.read(self.data, at.bit).ok_or(Stop::Short)?, self.packing.min);
        places[0] = first;
        if places.len() > 1 {
            let (small, radix) = Small::get(at.small).ok_or(Stop::NoSuchSmall(at.small))?;
            // the first two atoms of a run are exchanged
            places[1] = first;
            let (mut previous, mut digit) = (first, 0);
            for i in 0..places.len() - 1 {
                let difference = small.read(self.data, bit).ok_or(Stop::Short)?;
                digit = digit.max(difference[0]);
                previous = add(add(previous, [-(radix / 2); 3]), difference);
                places[if i == 0 { 0 } else { i + 1 }] = previous;
                bit += u64::from(at.small.unsigned_abs());
            }
            if digit >= radix {
                return Err(Stop::DigitTooLarge { digit, radix });
            }
        }
        let found = places.iter().enumerate().find_map(|(i, place)| outside(&self.packing, at.atom + i, *place));
        found.map_or(Ok(()), Err)
    }
}
