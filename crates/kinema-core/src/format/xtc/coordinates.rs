//! XTC coordinates: unpacks the bit stream of one frame into scaled positions, all or selected; it parses no header.
//!
//! The stream is a row of groups: a full coordinate, a flag, and a run of up to ten small differences. A group needs
//! nothing of the one before but the run length and the width of the differences, so that groups without selected
//! atoms are stepped over by reading their flag alone.

use super::batch::Batch;
use super::faults::{SIDE_BY_SIDE, Seen, first_fault};
use super::header::Packing;
use super::radix::{Full, FullCoordinate, LOAD_REACH, Small, load};
use super::selected::{is_dense, selected_groups};

/// Bytes at the end of the data that are unpacked from a padded copy: a whole group (96 + 6 + 10 * 72 bits) and
/// what its loads reach beyond it.
const TAIL: usize = 160;
/// Atoms that are converted from integers at once, while they are in the nearest cache.
pub(super) const CONVERT_ATOMS: usize = 512;
/// Which instructions to use; the results are the same to the bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cpu {
    /// The instructions that every machine of this architecture has.
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

/// Packed coordinates to unpack, and how.
#[derive(Clone, Copy)]
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
struct Scale {
    inverse: f32,
    length: f32,
}

impl Scale {
    #[inline(always)]
    pub fn from_job(job: &Job<'_>) -> Self {
        Self { inverse: 1.0 / job.packing.precision, length: job.length }
    }

    #[inline(always)]
    pub fn float(self, integer: i32) -> f32 {
        integer as f32 * self.inverse * self.length
    }
}

/// Progress of unpacking: state that is carried from group to group.
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
    /// A digit of a small difference is not below its radix.
    DigitTooLarge { digit: i32, radix: i32 },
    /// An integer is less than the least, or more than the largest one that the frame states for this axis.
    Outside { atom: usize, axis: usize, integer: i32 },
}

/// Unpacks into `out`, which holds one place for each wanted atom.
pub(super) fn unpack(job: &Job<'_>, out: &mut [[f32; 3]], cpu: Cpu) -> (Stop, UnpackState) {
    let mut seen = Seen::new();
    let (stop, state) = match cpu {
        Cpu::Baseline => unpack_body(job, out, &mut seen),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Avx2Proof` is made by `Cpu::detect` alone, after it found all of these features.
        // The safe twin is `unpack_body`, to which it is compared in the tests.
        Cpu::Avx2(_) => unsafe { unpack_avx2(job, out, &mut seen) },
    };
    if seen.is_within(&job.packing) { (stop, state) } else { first_fault(job, &state) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
fn unpack_avx2(job: &Job<'_>, out: &mut [[f32; 3]], seen: &mut Seen) -> (Stop, UnpackState) {
    unpack_body(job, out, seen)
}

#[inline(always)]
fn unpack_body(job: &Job<'_>, out: &mut [[f32; 3]], seen: &mut Seen) -> (Stop, UnpackState) {
    match job.full {
        FullCoordinate::Narrow(full) => unpack_with(job, full, out, seen),
        FullCoordinate::Wide(full) => unpack_with(job, full, out, seen),
        FullCoordinate::Separate(full) => unpack_with(job, full, out, seen),
    }
}

#[inline(always)]
fn unpack_with<F: Full>(job: &Job<'_>, full: F, out: &mut [[f32; 3]], seen: &mut Seen) -> (Stop, UnpackState) {
    let mut state = job.start;
    // where no load can reach beyond the data, they are used as they are
    let inner_bits = (job.data.len().saturating_sub(LOAD_REACH) as u64) * 8;
    let stop = pass(job, full, job.data, inner_bits, &mut state, out, seen);
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
    let stop = pass(job, full, &tail, kept as u64 * 8, &mut state, out, seen);
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
    seen: &mut Seen,
) -> Stop {
    match job.selected {
        None => all_groups(job, full, data, limit, state, out, seen),
        // two copies of one loop: that for few atoms is faster without what it does not need
        Some(selected) if is_dense(selected) => {
            selected_groups::<F, true>(job, full, data, limit, state, selected, out, seen)
        }
        Some(selected) => selected_groups::<F, false>(job, full, data, limit, state, selected, out, seen),
    }
}

/// The flag of a group and what follows from it.
pub(super) struct Group {
    /// Bit at which the differences start.
    pub differences: u64,
    /// Number of differences.
    pub run: usize,
    /// Change of the width for the following groups.
    change: i32,
}

/// The longest run that libxdrf writes, and the most frequent one of proteins and of three-site water.
pub(super) const LONGEST_RUN: usize = 8;

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
    if length as usize == LONGEST_RUN { LONGEST_RUN } else { shorter(length) as usize }
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
    // the caller continues only while there are atoms left
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
pub(super) fn add(a: [i32; 3], b: [i32; 3]) -> [i32; 3] {
    [a[0].wrapping_add(b[0]), a[1].wrapping_add(b[1]), a[2].wrapping_add(b[2])]
}

#[inline(always)]
pub(super) fn as_floats(integers: [i32; 3]) -> [f32; 3] {
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
    seen: &mut Seen,
) -> Stop {
    let mut converted = state.atom;
    let mut at = *state;
    let mut batch = full.radices().map(|radices| Batch::new(radices, &job.packing));
    let stop = loop {
        if at.atom - converted >= CONVERT_ATOMS {
            let whole = at.atom - (at.atom - converted) % SIDE_BY_SIDE;
            convert(job, out, converted, whole, seen);
            converted = whole;
        }
        if at.atom >= job.n_atoms {
            break Stop::Done;
        }
        if let Some(batch) = &mut batch {
            let first = at.atom;
            batch.fill(data, limit, &mut at, job.n_atoms);
            let written = out.get_mut(first..).and_then(|places| batch.unpack(places, seen));
            if written != Some(at.atom - first) {
                break Stop::Short;
            }
            if at.atom > first {
                continue;
            }
        }
        // what no batch takes: the last groups, wide ones, and those that are not sound
        let group = match group_at(data, limit, full.bits(), &at, job.n_atoms) {
            Ok(group) => group,
            Err(stop) => break stop,
        };
        let Some(atoms) = out.get_mut(at.atom..=at.atom + group.run) else { break Stop::Short };
        if let Err(stop) = whole_group(job, full, data, limit, &at, &group, atoms) {
            break stop;
        }
        at.step_over(&group);
    };
    convert(job, out, converted, at.atom, seen);
    at.written = at.atom;
    *state = at;
    stop
}

/// Unpacks the group at `at` as integers in the places of floats.
#[inline(always)]
pub(super) fn whole_group<F: Full>(
    job: &Job<'_>,
    full: F,
    data: &[u8],
    limit: u64,
    at: &UnpackState,
    group: &Group,
    atoms: &mut [[f32; 3]],
) -> Result<(), Stop> {
    let first = full.read(data, at.bit).ok_or(Stop::Short)?;
    let first = add(first, job.packing.min);
    if group.run == 0 {
        *atoms.first_mut().ok_or(Stop::Short)? = as_floats(first);
        return Ok(());
    }
    let (small, radix) = Small::get(at.small).ok_or(Stop::NoSuchSmall(at.small))?;
    let width = u64::from(at.small.unsigned_abs());
    if group.differences + group.run as u64 * width > limit {
        return Err(Stop::Short);
    }
    let [place_0, place_1, places @ ..] = atoms else {
        return Err(Stop::Short);
    };
    // the first two atoms of a run are exchanged, which packs water better
    *place_1 = as_floats(first);
    let places = std::iter::once(place_0).chain(places);
    let mut differences = Differences { previous: first, half: [-(radix / 2); 3], bit: group.differences, width };
    let digit = match small {
        Small::Narrow(narrow) => differences.put(places, |bit| narrow.read(data, bit)),
        Small::Wide(wide) => differences.put(places, |bit| wide.read(data, bit)),
    };
    let digit = digit.ok_or(Stop::Short)?;
    if digit >= radix {
        return Err(Stop::DigitTooLarge { digit, radix });
    }
    Ok(())
}

/// The differences of a group, each to the atom before.
struct Differences {
    previous: [i32; 3],
    half: [i32; 3],
    bit: u64,
    width: u64,
}

impl Differences {
    /// Adds them up into the places; the largest of their first digits. `None` if the data end before them.
    #[inline(always)]
    fn put<'p>(
        &mut self,
        places: impl Iterator<Item = &'p mut [f32; 3]>,
        read: impl Fn(u64) -> Option<[i32; 3]>,
    ) -> Option<i32> {
        let mut largest = 0;
        for place in places {
            let difference = read(self.bit)?;
            largest = largest.max(difference[0]);
            self.previous = add(add(self.previous, self.half), difference);
            *place = as_floats(self.previous);
            self.bit += self.width;
        }
        Some(largest)
    }
}

/// Makes floats of the integers that lie in `out[from..to]`.
#[inline(always)]
pub(super) fn convert(job: &Job<'_>, out: &mut [[f32; 3]], from: usize, to: usize, seen: &mut Seen) {
    let (scale, mut least, mut largest) = (Scale::from_job(job), seen.least, seen.largest);
    let mut convert = |i: usize, value: &mut f32| {
        let integer = value.to_bits() as i32;
        (least[i], largest[i]) = (least[i].min(integer), largest[i].max(integer));
        *value = scale.float(integer);
    };
    let Some(run) = out.get_mut(from..to) else { return };
    let (blocks, rest) = run.as_flattened_mut().as_chunks_mut::<{ 3 * SIDE_BY_SIDE }>();
    for block in blocks {
        for (i, value) in block.iter_mut().enumerate() {
            convert(i, value);
        }
    }
    for (i, value) in rest.iter_mut().enumerate() {
        convert(i, value);
    }
    (seen.least, seen.largest) = (least, largest);
}

#[cfg(test)]
mod tests;
