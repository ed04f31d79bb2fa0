//! XTC coordinates in batches: the packed numbers of some dozens of groups first, then their integers in vectors.
//!
//! Only the flags of groups depend on each other. The numbers that the flags delimit are taken apart side by side, with
//! divisions in double precision that are exact for the widths that are done here.

use super::coordinates::{LONGEST_RUN, UnpackState};
use super::faults::Seen;
use super::header::Packing;
use super::radix::{LANES, Radices};

/// Groups of a batch: little enough that scanning the next overlaps with unpacking this one.
const GROUPS: usize = 32;
/// Differences of a group at most.
pub(super) const MOST_RUN: usize = 10;
/// Differences of a batch, and room for values written beyond them.
const DIFFERENCES: usize = GROUPS * MOST_RUN + LANES + MOST_RUN;
/// Bytes that are there from the first of a group on: it takes at most 50 + 6 + 10 * 50 bits, and a load touches 8 bytes.
const WINDOW: usize = 128 + 8;

/// Some groups, and the integers unpacked from them.
pub(super) struct Batch {
    full: Radices,
    min: [i32; 3],
    n_groups: usize,
    runs: [u8; GROUPS],
    /// Bits from each full coordinate on, topmost first.
    fulls: [u64; GROUPS],
    /// As `fulls`, of differences.
    differences: [u64; DIFFERENCES],
    /// Neighbouring differences of one width: the width and the number up to the last of them.
    streaks: [(i32, usize); GROUPS + 1],
    n_streaks: usize,
    full_integers: [[i32; GROUPS]; 3],
    /// By axis.
    integers: [[i32; DIFFERENCES]; 3],
}

/// The bits of a window from `bit` on, topmost first.
#[inline(always)]
fn load(window: &[u8; WINDOW], bit: u64) -> u64 {
    let byte = (bit >> 3) as usize & (WINDOW - 9);
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&window[byte..byte + 8]);
    u64::from_be_bytes(bytes) << (bit & 7)
}

impl Batch {
    #[inline(always)]
    pub fn new(full: Radices, packing: &Packing) -> Self {
        Self {
            full,
            min: packing.min,
            n_groups: 0,
            runs: [0; GROUPS],
            fulls: [0; GROUPS],
            differences: [0; DIFFERENCES],
            streaks: [(0, 0); GROUPS + 1],
            n_streaks: 0,
            full_integers: [[0; GROUPS]; 3],
            integers: [[0; DIFFERENCES]; 3],
        }
    }

    /// Takes groups from `at` on and moves `at` past them. Ends before a group that is too wide, and before the last
    /// group of the frame or of the data.
    #[inline(always)]
    pub fn fill(&mut self, data: &[u8], limit: u64, at: &mut UnpackState, n_atoms: usize) {
        (self.n_groups, self.n_streaks) = (0, 0);
        let UnpackState { mut bit, mut atom, mut small, mut run, .. } = *at;
        let full_bits = u64::from(self.full.bits);
        let (last_bit, last_atom) = (limit.saturating_sub(8 * WINDOW as u64), n_atoms.saturating_sub(1 + MOST_RUN));
        let (mut n_groups, mut n) = (0, 0);
        while n_groups < GROUPS && atom < last_atom && bit < last_bit && Radices::small(small).is_some() {
            let (window, within) = ((bit >> 3) as usize, bit & 7);
            let Some(window) = data.get(window..).and_then(<[u8]>::first_chunk::<WINDOW>) else { break };
            let six = load(window, within + full_bits) >> 58;
            let (mut change, mut first) = (0, within + full_bits + 1);
            if six >> 5 == 1 {
                let five = six as i32 & 31;
                // 43 / 128 divides 0..32 by 3
                let third = (five * 43) >> 7;
                (run, change, first) = (third as usize, five - 3 * third - 1, first + 5);
            }
            if run > MOST_RUN {
                break;
            }
            self.fulls[n_groups] = load(window, within);
            self.runs[n_groups] = run as u8;
            n_groups += 1;
            let width = u64::from(small as u32);
            let Some(places) = self.differences.get_mut(n..).and_then(<[u64]>::first_chunk_mut::<MOST_RUN>) else {
                break;
            };
            // more than there are, so that the processor need not guess how many
            for (i, place) in places[..3].iter_mut().enumerate() {
                *place = load(window, first + i as u64 * width);
            }
            if run > 3 {
                for (i, place) in places[3..LONGEST_RUN].iter_mut().enumerate() {
                    *place = load(window, first + (3 + i as u64) * width);
                }
                if run > LONGEST_RUN {
                    for (i, place) in places[LONGEST_RUN..].iter_mut().enumerate() {
                        *place = load(window, first + (LONGEST_RUN as u64 + i as u64) * width);
                    }
                }
            }
            n += run;
            atom += 1 + run;
            bit = (bit & !7) + first + run as u64 * width;
            if change != 0 {
                self.streaks[self.n_streaks] = (small, n);
                self.n_streaks += 1;
                small += change;
            }
        }
        self.streaks[self.n_streaks] = (small, n);
        self.n_streaks += 1;
        self.n_groups = n_groups;
        (at.bit, at.atom, at.small, at.run) = (bit, atom, small, run);
    }

    /// Writes the atoms of the groups into `out`, as integers in the places of floats; returns their number.
    #[inline(always)]
    pub fn unpack(&mut self, out: &mut [[f32; 3]], seen: &mut Seen) -> Option<usize> {
        take_apart(&self.full, self.min, &self.fulls, &mut self.full_integers, 0, self.n_groups, |_, _| ());
        let mut from = 0;
        let mut too_large = seen.too_large;
        for &(small, to) in self.streaks.get(..self.n_streaks)? {
            if from < to {
                let radices = Radices::small(small)?;
                let (numbers, integers) = (&self.differences, &mut self.integers);
                take_apart(radices, [-radices.half; 3], numbers, integers, from, to, |found, most| {
                    for (i, lane) in too_large.iter_mut().enumerate() {
                        *lane |= -i32::from(found[i] > most[i]);
                    }
                });
            }
            from = to;
        }
        seen.too_large = too_large;
        let (mut atom, mut difference) = (0, 0);
        for (i, &run) in self.runs.get(..self.n_groups)?.iter().enumerate() {
            let first = [0, 1, 2].map(|axis| self.full_integers[axis][i]);
            let run = usize::from(run);
            let places = out.get_mut(atom..)?.first_chunk_mut::<{ 1 + MOST_RUN }>()?;
            let [x, y, z] = &self.integers;
            let x = x.get(difference..)?.first_chunk::<MOST_RUN>()?;
            let y = y.get(difference..)?.first_chunk::<MOST_RUN>()?;
            let z = z.get(difference..)?.first_chunk::<MOST_RUN>()?;
            atom += 1 + run;
            difference += run;
            if run == 0 {
                places[0] = as_floats(first);
                continue;
            }
            // the first two atoms of a run are exchanged, which packs water better
            let mut last = add(first, [x[0], y[0], z[0]]);
            (places[0], places[1]) = (as_floats(last), as_floats(first));
            // values written beyond the group are overwritten by the next
            for i in 1..3 {
                last = add(last, [x[i], y[i], z[i]]);
                places[1 + i] = as_floats(last);
            }
            if run > 3 {
                for i in 3..LONGEST_RUN {
                    last = add(last, [x[i], y[i], z[i]]);
                    places[1 + i] = as_floats(last);
                }
                if run > LONGEST_RUN {
                    for i in LONGEST_RUN..MOST_RUN {
                        last = add(last, [x[i], y[i], z[i]]);
                        places[1 + i] = as_floats(last);
                    }
                }
            }
        }
        Some(atom)
    }
}

/// A batch of which some atoms are wanted.
pub(super) struct Picked {
    batch: Batch,
    /// All atoms of the batch, as integers in the places of floats.
    atoms: [[f32; 3]; (GROUPS + 1) * (1 + MOST_RUN)],
}

impl Picked {
    #[inline(always)]
    pub fn new(full: Radices, packing: &Packing) -> Self {
        Self { batch: Batch::new(full, packing), atoms: [[0.0; 3]; (GROUPS + 1) * (1 + MOST_RUN)] }
    }

    /// Takes groups from `at` on, writes their selected atoms, as integers in the places of floats, and moves `at` past
    /// the groups. Returns their number of atoms.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the state of one loop, in registers")]
    pub fn groups(
        &mut self,
        data: &[u8],
        limit: u64,
        n_atoms: usize,
        at: &mut UnpackState,
        selected: &[u32],
        out: &mut [[f32; 3]],
        seen: &mut Seen,
    ) -> Option<usize> {
        let first = at.atom;
        self.batch.fill(data, limit, at, n_atoms);
        let n_atoms = self.batch.unpack(&mut self.atoms, seen)?;
        let places = out.get_mut(at.written..)?;
        for (&atom, place) in selected.get(at.written..)?.iter().zip(places) {
            let Some(found) = (atom as usize).checked_sub(first).and_then(|i| self.atoms.get(..n_atoms)?.get(i)) else {
                break;
            };
            *place = *found;
            at.written += 1;
        }
        Some(n_atoms)
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

/// The integers of the numbers `from..to`, and of some after them, plus `offset`. `check` gets the integers of the
/// first axis, and, for differences, how large each may be.
#[inline(always)]
fn take_apart<const N: usize, const M: usize>(
    radices: &Radices,
    offset: [i32; 3],
    numbers: &[u64; N],
    integers: &mut [[i32; M]; 3],
    from: usize,
    to: usize,
    mut check: impl FnMut(&[i32; LANES], &[i32; LANES]),
) {
    let mut at = from;
    while at < to {
        let Some(numbers) = numbers.get(at..).and_then(<[u64]>::first_chunk::<LANES>) else { return };
        let Some(most) = radices.most(to - at) else { return };
        let found = radices.take_apart(numbers, offset);
        check(&found[0], most);
        for (of_axis, found) in integers.iter_mut().zip(found) {
            if let Some(places) = of_axis.get_mut(at..at + LANES) {
                places.copy_from_slice(&found);
            }
        }
        at += LANES;
    }
}
