//! Some atoms of an XTC frame: groups without any are stepped over, and few atoms are unpacked one by one.

use super::batch::Picked;
use super::coordinates::{CONVERT_ATOMS, Group, Job, Stop, UnpackState, add, as_floats, convert, group_at};
use super::faults::{SIDE_BY_SIDE, Seen};
use super::radix::{Full, Small};

/// Where more than this many of the next [`OF_ATOMS`] atoms are selected, all are unpacked and the selected ones picked.
const MANY: usize = 24;
const OF_ATOMS: usize = 128;

/// Whether many of the atoms from the first to the last selected one are.
pub(super) fn is_dense(selected: &[u32]) -> bool {
    let (Some(first), Some(last)) = (selected.first(), selected.last()) else { return false };
    selected.len() > MANY && selected.len() as u64 * OF_ATOMS as u64 > u64::from(last - first) * MANY as u64
}

/// Unpacks only the selected atoms, and stops after the last of them.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the state of one loop, in registers")]
pub(super) fn selected_groups<F: Full, const DENSE: bool>(
    job: &Job<'_>,
    full: F,
    data: &[u8],
    limit: u64,
    state: &mut UnpackState,
    selected: &[u32],
    out: &mut [[f32; 3]],
    seen: &mut Seen,
) -> Stop {
    let (mut at, mut converted) = (*state, state.written);
    let mut picked = None;
    let stop = loop {
        let Some(&next) = selected.get(at.written) else {
            break Stop::Done;
        };
        // beyond the frame: the caller's selection is of another trajectory
        if at.atom >= job.n_atoms {
            break Stop::Short;
        }
        let group = match group_at(data, limit, full.bits(), &at, job.n_atoms) {
            Ok(group) => group,
            Err(stop) => break stop,
        };
        if group.run > 0 && !Small::exists(at.small) {
            break Stop::NoSuchSmall(at.small);
        }
        if (next as usize) <= at.atom + group.run {
            match part_of_group(job, full, data, limit, &at, &group, selected, out) {
                Ok(written) => at.written = written,
                Err(stop) => break stop,
            }
            if DENSE && at.written - converted >= CONVERT_ATOMS {
                let whole = at.written - (at.written - converted) % SIDE_BY_SIDE;
                convert(job, out, converted, whole, seen);
                converted = whole;
            }
        }
        at.step_over(&group);
        while DENSE
            && selected.get(at.written + MANY).is_some_and(|&atom| (atom as usize) < at.atom + OF_ATOMS)
            && let Some(radices) = full.radices()
        {
            let picked = picked.get_or_insert_with(|| Picked::new(radices, &job.packing));
            let taken = picked.groups(data, limit, job.n_atoms, &mut at, selected, out, seen);
            if taken.is_none_or(|n_atoms| n_atoms == 0) {
                break;
            }
        }
    };
    convert(job, out, converted, at.written, seen);
    *state = at;
    stop
}

/// Unpacks the group up to its last selected atom, as integers in the places of floats; gives the number of selected atoms
/// written so far.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the state of one loop, in registers")]
fn part_of_group<F: Full>(
    job: &Job<'_>,
    full: F,
    data: &[u8],
    limit: u64,
    at: &UnpackState,
    group: &Group,
    selected: &[u32],
    out: &mut [[f32; 3]],
) -> Result<usize, Stop> {
    let first = add(full.read(data, at.bit).ok_or(Stop::Short)?, job.packing.min);
    let mut written = at.written;
    if group.run == 0 {
        *out.get_mut(written).ok_or(Stop::Short)? = as_floats(first);
        return Ok(written + 1);
    }
    let (small, radix) = Small::get(at.small).ok_or(Stop::NoSuchSmall(at.small))?;
    let width = u64::from(at.small.unsigned_abs());
    let mut previous = first;
    let mut known = 0;
    while let Some(&atom) = selected.get(written) {
        let local = (atom as usize).wrapping_sub(at.atom);
        if local > group.run {
            break;
        }
        // the first two atoms of a run are exchanged: atom 1 is the full coordinate, atom 0 the first difference
        let differences = if local == 0 { 1 } else { local };
        if local != 1 {
            if group.differences + differences as u64 * width > limit {
                return Err(Stop::Short);
            }
            while known < differences {
                let difference = small.read(data, group.differences + known as u64 * width).ok_or(Stop::Short)?;
                if difference[0] >= radix {
                    return Err(Stop::DigitTooLarge { digit: difference[0], radix });
                }
                previous = add(add(previous, [-(radix / 2); 3]), difference);
                known += 1;
            }
        }
        *out.get_mut(written).ok_or(Stop::Short)? = as_floats(if local == 1 { first } else { previous });
        written += 1;
    }
    Ok(written)
}
