//! XTC coordinates: unpacks the bit stream of one frame into scaled positions, all or selected; it parses no header.
//!
//! The stream is a row of groups: a full coordinate, a flag, and a run of up to ten small differences. A group needs
//! nothing of the one before but the run length and the width of the differences, so that groups without selected
//! atoms are stepped over by reading their flag alone.

use super::batch::{Batch, Picked};
use super::header::Packing;
use super::radix::{Full, FullCoordinate, LOAD_REACH, Small, load};

/// Bytes at the end of the data that are unpacked from a padded copy: a whole group (96 + 6 + 10 * 72 bits) and
/// what its loads reach beyond it.
const TAIL: usize = 160;
/// Atoms that are converted from integers at once, while they are in the nearest cache.
const CONVERT_ATOMS: usize = 512;
/// Where more than this many of the next [`OF_ATOMS`] atoms are selected, all are unpacked and the selected ones picked.
const MANY: usize = 24;
const OF_ATOMS: usize = 128;

/// Which instructions to use; the results are the same to the bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cpu {
    /// Those that every machine of this architecture has.
    Baseline,
    /// AVX2 and BMI2 as well; only [`Cpu::detect`] makes this.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2Proof),
}

/// Evidence that the instructions were found on this machine.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Avx2Proof(());

impl Cpu {
    /// The best for this machine.
    #[inline]
    pub fn detect() -> Self {
        // the macro keeps its findings: this is a load and a test
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("bmi1")
            && std::arch::is_x86_feature_detected!("bmi2")
            && std::arch::is_x86_feature_detected!("lzcnt")
        {
            return Self::Avx2(Avx2Proof(()));
        }
        Self::Baseline
    }
}

/// What is to be unpacked, and how.
pub(super) struct Job<'a> {
    pub packing: Packing,
    pub full: FullCoordinate,
    pub n_atoms: usize,
    /// The bit stream, or a part of it.
    pub data: &'a [u8],
    /// The group to start at, its bit counted in `data`.
    pub start: UnpackState,
    /// The atoms wanted, ascending, none before `start`; `None` for all, from the first on.
    pub selected: Option<&'a [u32]>,
    /// Factor from nm.
    pub length: f32,
}

/// From integers to floats as libxdrf does: the single nearest to the integer, times the single nearest to 1 / precision;
/// then the wanted unit.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    inverse: f32,
    length: f32,
}

impl Scale {
    #[inline(always)]
    pub fn of(job: &Job<'_>) -> Self {
        Self { inverse: 1.0 / job.packing.precision, length: job.length }
    }

    #[inline(always)]
    pub fn float(self, integer: i32) -> f32 {
        integer as f32 * self.inverse * self.length
    }
}

/// How far unpacking came: what is carried from group to group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnpackState {
    /// Bit of the stream at which the next group starts.
    pub bit: u64,
    /// First atom of the next group.
    pub atom: usize,
    /// Selected atoms written so far.
    pub written: usize,
    /// Width of the differences, a place in their table.
    pub small: i32,
    /// Differences in a group that does not say how many.
    pub run: usize,
}

/// Why unpacking ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// All that is wanted is written.
    Done,
    /// The given data end before it.
    Short,
    /// A run goes beyond the last atom of the frame by this many.
    RunTooLong(usize),
    /// This place of the table of small differences does not exist.
    NoSuchSmall(i32),
}

/// Unpacks into `out`, which holds one place for each wanted atom.
pub(super) fn unpack(job: &Job<'_>, out: &mut [[f32; 3]], cpu: Cpu) -> (Stop, UnpackState) {
    match cpu {
        Cpu::Baseline => unpack_body(job, out),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Avx2Proof` is made by `Cpu::detect` alone, after it found all of these features.
        // The safe twin is `unpack_body`, to which it is compared in the tests.
        Cpu::Avx2(_) => unsafe { unpack_avx2(job, out) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
fn unpack_avx2(job: &Job<'_>, out: &mut [[f32; 3]]) -> (Stop, UnpackState) {
    unpack_body(job, out)
}

#[inline(always)]
fn unpack_body(job: &Job<'_>, out: &mut [[f32; 3]]) -> (Stop, UnpackState) {
    match job.full {
        FullCoordinate::Narrow(full) => unpack_with(job, full, out),
        FullCoordinate::Wide(full) => unpack_with(job, full, out),
        FullCoordinate::Separate(full) => unpack_with(job, full, out),
    }
}

#[inline(always)]
fn unpack_with<F: Full>(job: &Job<'_>, full: F, out: &mut [[f32; 3]]) -> (Stop, UnpackState) {
    let mut state = job.start;
    // where no load can reach beyond the data, they are used as they are
    let inner_bits = (job.data.len().saturating_sub(LOAD_REACH) as u64) * 8;
    let stop = pass(job, full, job.data, inner_bits, &mut state, out);
    if stop != Stop::Short {
        return (stop, state);
    }
    // ... and the last groups come from a copy that is padded with zeros
    let start = (state.bit / 8) as usize;
    let Some(rest) = job.data.get(start..) else {
        return (Stop::Short, state);
    };
    let mut tail = [0; TAIL + LOAD_REACH];
    let kept = rest.len().min(TAIL);
    let (Some(to), Some(from)) = (tail.get_mut(..kept), rest.get(..kept)) else {
        return (Stop::Short, state);
    };
    to.copy_from_slice(from);
    state.bit %= 8;
    let stop = pass(job, full, &tail, kept as u64 * 8, &mut state, out);
    state.bit += start as u64 * 8;
    (stop, state)
}

#[inline(always)]
fn pass<F: Full>(
    job: &Job<'_>,
    full: F,
    data: &[u8],
    limit: u64,
    state: &mut UnpackState,
    out: &mut [[f32; 3]],
) -> Stop {
    match job.selected {
        None => all_groups(job, full, data, limit, state, out),
        // two copies of one loop: that for few atoms is faster without what it does not need
        Some(selected) if is_dense(selected) => {
            selected_groups::<F, true>(job, full, data, limit, state, selected, out)
        }
        Some(selected) => selected_groups::<F, false>(job, full, data, limit, state, selected, out),
    }
}

/// The flag of a group and what follows from it.
pub(super) struct Group {
    /// Bit at which the differences start.
    pub differences: u64,
    /// Number of differences.
    pub run: usize,
    /// Change of the width for the groups behind.
    change: i32,
}

/// The longest run that libxdrf writes, and the most frequent one of proteins and of three-site water.
const LONGEST_RUN: u32 = 8;

/// The length itself, by a branch for the longest run: a processor that guesses it need not wait for the load of the
/// length before it goes to the next group.
#[inline(always)]
fn run_of(length: u32) -> usize {
    #[cold]
    #[inline(never)]
    fn shorter(length: u32) -> u32 {
        // else the compiler sees that both ways are one
        std::hint::black_box(length)
    }
    if length == LONGEST_RUN { LONGEST_RUN as usize } else { shorter(length) as usize }
}

/// Reads the flag of the group at `state`; every atom of the group lies below `n_atoms`.
#[inline(always)]
pub(super) fn group_at(
    data: &[u8],
    limit: u64,
    full_bits: u64,
    state: &UnpackState,
    n_atoms: usize,
) -> Result<Group, Stop> {
    let flag_at = state.bit + full_bits;
    let six = (load(data, flag_at).ok_or(Stop::Short)? >> 58) as u32;
    let (mut differences, mut run, mut change) = (flag_at + 1, state.run, 0);
    // a branch, not a choice of values: a processor that guesses it need not wait for the load before the next group
    if six >> 5 == 1 {
        let five = six & 31;
        // 43 / 128 divides 0..32 by 3
        let third = (five * 43) >> 7;
        (differences, change) = (differences + 5, five as i32 - 3 * third as i32 - 1);
        run = run_of(third);
    }
    if differences > limit {
        return Err(Stop::Short);
    }
    // the caller goes on only while there are atoms left
    let left = n_atoms - state.atom - 1;
    if run > left {
        return Err(Stop::RunTooLong(run - left));
    }
    Ok(Group { differences, run, change })
}

impl UnpackState {
    /// At the first group of a frame.
    pub fn first(packing: &Packing) -> Self {
        Self { bit: 0, atom: 0, written: 0, small: packing.small, run: 0 }
    }

    #[inline(always)]
    pub fn step_over(&mut self, group: &Group) {
        // not negative: `small` was found in the table, or there is no run
        self.bit = group.differences + group.run as u64 * u64::from(self.small.unsigned_abs());
        self.atom += 1 + group.run;
        self.run = group.run;
        self.small = self.small.wrapping_add(group.change);
    }
}

#[inline(always)]
fn add(a: [i32; 3], b: [i32; 3]) -> [i32; 3] {
    [a[0].wrapping_add(b[0]), a[1].wrapping_add(b[1]), a[2].wrapping_add(b[2])]
}

#[inline(always)]
fn as_floats(integers: [i32; 3]) -> [f32; 3] {
    integers.map(|integer| f32::from_bits(integer as u32))
}

/// Unpacks every atom: integers first, kept in the places of the floats, then converted in large runs.
#[inline(always)]
fn all_groups<F: Full>(
    job: &Job<'_>,
    full: F,
    data: &[u8],
    limit: u64,
    state: &mut UnpackState,
    out: &mut [[f32; 3]],
) -> Stop {
    let mut converted = state.atom;
    let mut at = *state;
    let mut batch = full.radices().map(|radices| Batch::new(radices, &job.packing));
    let stop = loop {
        if at.atom - converted >= CONVERT_ATOMS {
            convert(job, out, converted, at.atom);
            converted = at.atom;
        }
        if at.atom >= job.n_atoms {
            break Stop::Done;
        }
        if let Some(batch) = &mut batch {
            let first = at.atom;
            batch.fill(data, limit, &mut at, job.n_atoms);
            let written = out.get_mut(first..).and_then(|places| batch.unpack(places));
            if written != Some(at.atom - first) {
                break Stop::Short;
            }
            if at.atom > first {
                continue;
            }
        }
        // what no batch takes: the last groups, wide ones, and those that are not sound
        if let Err(stop) = whole_group(job, full, data, limit, &mut at, out) {
            break stop;
        }
    };
    convert(job, out, converted, at.atom);
    at.written = at.atom;
    *state = at;
    stop
}

/// Unpacks the group at `at` as integers in the places of floats, and goes behind it.
#[inline(always)]
fn whole_group<F: Full>(
    job: &Job<'_>,
    full: F,
    data: &[u8],
    limit: u64,
    at: &mut UnpackState,
    out: &mut [[f32; 3]],
) -> Result<(), Stop> {
    let group = group_at(data, limit, full.bits(), at, job.n_atoms)?;
    let first = full.read(data, at.bit).ok_or(Stop::Short)?;
    let first = add(first, job.packing.min);
    if group.run == 0 {
        *out.get_mut(at.atom).ok_or(Stop::Short)? = as_floats(first);
        at.step_over(&group);
        return Ok(());
    }
    let (small, half) = Small::at(at.small).ok_or(Stop::NoSuchSmall(at.small))?;
    let width = u64::from(at.small.unsigned_abs());
    if group.differences + group.run as u64 * width > limit {
        return Err(Stop::Short);
    }
    let places = out.get_mut(at.atom..at.atom + 1 + group.run).ok_or(Stop::Short)?;
    let [place_0, place_1, places @ ..] = places else {
        return Err(Stop::Short);
    };
    let half = [-half; 3];
    let mut previous = add(first, half);
    let mut bit = group.differences;
    // the first two atoms of a run are exchanged, which packs water better
    *place_1 = as_floats(first);
    match small {
        Small::Narrow(narrow) => {
            let second = add(previous, narrow.read(data, bit).ok_or(Stop::Short)?);
            *place_0 = as_floats(second);
            previous = add(second, half);
            for place in places {
                bit += width;
                let next = add(previous, narrow.read(data, bit).ok_or(Stop::Short)?);
                *place = as_floats(next);
                previous = add(next, half);
            }
        }
        Small::Wide(wide) => {
            let second = add(previous, wide.read(data, bit).ok_or(Stop::Short)?);
            *place_0 = as_floats(second);
            previous = add(second, half);
            for place in places {
                bit += width;
                let next = add(previous, wide.read(data, bit).ok_or(Stop::Short)?);
                *place = as_floats(next);
                previous = add(next, half);
            }
        }
    }
    at.step_over(&group);
    Ok(())
}

/// Makes floats of the integers that lie in `out[from..to]`.
#[inline(always)]
fn convert(job: &Job<'_>, out: &mut [[f32; 3]], from: usize, to: usize) {
    let scale = Scale::of(job);
    if let Some(run) = out.get_mut(from..to) {
        for value in run.as_flattened_mut() {
            *value = scale.float(value.to_bits() as i32);
        }
    }
}

/// Whether many of the atoms from the first to the last selected one are.
fn is_dense(selected: &[u32]) -> bool {
    let (Some(first), Some(last)) = (selected.first(), selected.last()) else { return false };
    selected.len() > MANY && selected.len() as u64 * OF_ATOMS as u64 > u64::from(last - first) * MANY as u64
}

/// Unpacks the selected atoms only, and ends behind the last of them.
#[inline(always)]
fn selected_groups<F: Full, const DENSE: bool>(
    job: &Job<'_>,
    full: F,
    data: &[u8],
    limit: u64,
    state: &mut UnpackState,
    selected: &[u32],
    out: &mut [[f32; 3]],
) -> Stop {
    let mut at = *state;
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
        }
        at.step_over(&group);
        while DENSE
            && selected.get(at.written + MANY).is_some_and(|&atom| (atom as usize) < at.atom + OF_ATOMS)
            && let Some(radices) = full.radices()
        {
            let picked = picked.get_or_insert_with(|| Picked::new(radices, &job.packing));
            if picked.groups(job, data, limit, &mut at, selected, out).is_none_or(|n_atoms| n_atoms == 0) {
                break;
            }
        }
    };
    *state = at;
    stop
}

/// Unpacks the group up to its last selected atom; gives the number of selected atoms written so far.
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
    let scale = Scale::of(job);
    let first = add(full.read(data, at.bit).ok_or(Stop::Short)?, job.packing.min);
    let mut written = at.written;
    if group.run == 0 {
        *out.get_mut(written).ok_or(Stop::Short)? = first.map(|integer| scale.float(integer));
        return Ok(written + 1);
    }
    let (small, half) = Small::at(at.small).ok_or(Stop::NoSuchSmall(at.small))?;
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
                previous = add(add(previous, [-half; 3]), difference);
                known += 1;
            }
        }
        *out.get_mut(written).ok_or(Stop::Short)? =
            (if local == 1 { first } else { previous }).map(|integer| scale.float(integer));
        written += 1;
    }
    Ok(written)
}

#[cfg(test)]
mod tests;
