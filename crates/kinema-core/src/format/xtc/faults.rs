//! Faults of XTC coordinates: compares the unpacked values with the frame's own statements, and makes errors of
//! differences.
//!
//! Integers are compared with the least and the largest of each coordinate, the first digit of each difference with its
//! radix (the other two are remainders, and the digits of a full coordinate are integers of the first rule).

use super::batch::MOST_RUN;
use super::coordinates::{Job, Stop, UnpackState, group_at, whole_group};
use super::header::{FrameHeader, Packing};
use super::radix::{Full, FullCoordinate, LANES, LOAD_REACH};
use crate::error::Error;

/// Atoms whose least and largest integers are kept side by side: three vectors of eight.
pub(super) const SIDE_BY_SIDE: usize = 8;

/// Bounds of the unpacked integers. They are compared with the frame's own bounds after all are unpacked, because that
/// is the least work.
pub(super) struct Seen {
    pub least: [i32; 3 * SIDE_BY_SIDE],
    pub largest: [i32; 3 * SIDE_BY_SIDE],
    /// Not zero if the first digit of a difference was not below its radix.
    pub too_large: [i32; LANES],
}

impl Seen {
    pub fn new() -> Self {
        Self { least: [i32::MAX; 3 * SIDE_BY_SIDE], largest: [i32::MIN; 3 * SIDE_BY_SIDE], too_large: [0; LANES] }
    }

    #[inline(always)]
    pub fn is_within(&self, packing: &Packing) -> bool {
        let within = |i: usize| self.least[i] >= packing.min[i % 3] && self.largest[i] <= packing.max[i % 3];
        (0..3 * SIDE_BY_SIDE).fold(self.too_large == [0; LANES], |all, i| all & within(i))
    }
}

/// The first group, up to the end of unpacking, with an atom that is not as the frame states, and the error.
#[cold]
#[inline(never)]
pub(super) fn first_fault(job: &Job<'_>, end: &UnpackState) -> (Stop, UnpackState) {
    let padded = [job.data, &[0; LOAD_REACH]].concat();
    let (mut at, limit) = (job.start, job.data.len() as u64 * 8);
    let stop = match job.full {
        FullCoordinate::Narrow(full) => fault_of_groups(job, full, &padded, limit, &mut at, end.atom),
        FullCoordinate::Wide(full) => fault_of_groups(job, full, &padded, limit, &mut at, end.atom),
        FullCoordinate::Separate(full) => fault_of_groups(job, full, &padded, limit, &mut at, end.atom),
    };
    (stop.err().unwrap_or(Stop::Short), at)
}

fn fault_of_groups<F: Full>(
    job: &Job<'_>,
    full: F,
    data: &[u8],
    limit: u64,
    at: &mut UnpackState,
    end: usize,
) -> Result<(), Stop> {
    let mut places = [[0.0; 3]; 1 + MOST_RUN];
    while at.atom < end {
        let group = group_at(data, limit, full.bits(), at, job.n_atoms)?;
        let atoms = places.get_mut(..1 + group.run).ok_or(Stop::RunTooLong(group.run))?;
        whole_group(job, full, data, limit, at, &group, atoms)?;
        for (i, place) in atoms.iter().enumerate() {
            outside(&job.packing, at.atom + i, place.map(|value| value.to_bits() as i32)).map_or(Ok(()), Err)?;
        }
        at.step_over(&group);
    }
    Ok(())
}

/// The integer of an atom that is outside of what the frame states, if one is.
#[inline(always)]
pub(super) fn outside(packing: &Packing, atom: usize, integers: [i32; 3]) -> Option<Stop> {
    let is_outside = |&axis: &usize| !(packing.min[axis]..=packing.max[axis]).contains(&integers[axis]);
    (0..3).find(is_outside).map(|axis| Stop::Outside { atom, axis, integer: integers[axis] })
}

/// The error, if any, of unpacking that started at byte `at` of the stream and has ended like this.
pub(super) fn fault(
    header: &FrameHeader,
    packing: Packing,
    stop: &Stop,
    state: &UnpackState,
    at: u64,
) -> Option<Error> {
    let n_atoms = || format!("{} atoms", header.n_atoms);
    Some(match *stop {
        Stop::Done if state.atom < header.n_atoms as usize => return None,
        Stop::Done => {
            let end = at.saturating_add(state.bit.div_ceil(8));
            if end == packing.n_bytes {
                return None;
            }
            Error::corrupt("wrong length of the compressed coordinates", packing.n_bytes, end)
        }
        Stop::Short => Error::corrupt("the compressed coordinates end early", n_atoms(), state.atom),
        Stop::RunTooLong(by) => Error::corrupt("a run of atoms is too long", n_atoms(), format!("{by} more")),
        Stop::NoSuchSmall(place) => Error::corrupt("wrong width of small differences", "9 to 72", place),
        Stop::DigitTooLarge { digit, radix } => {
            Error::corrupt("a digit of a small difference is too large", format!("below {radix}"), digit)
        }
        Stop::Outside { atom, axis, integer } => {
            let what = format!("{} of atom {} is not in the range of the frame", ["x", "y", "z"][axis], atom + 1);
            Error::corrupt(&what, format!("{} to {}", packing.min[axis], packing.max[axis]), integer)
        }
    })
}
