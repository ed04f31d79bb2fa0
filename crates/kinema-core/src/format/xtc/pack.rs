//! XTC coordinates, packed: integers become the bit stream of one frame; it writes no header and rounds nothing.
//!
//! The choices (which atoms form a run, when the width of the differences changes) are those of the reference
//! implementation, so that the bytes are the same; they are its heuristics, a reader needs none of them.

use super::coordinates::Cpu;
use super::radix::{FIRST_SMALL, MAGIC_INTS, bits_of};

/// Longest run of small differences.
const LONGEST_RUN: usize = 8;
/// Places by which the width of the differences moves within a frame.
const PLACES: usize = 8;
/// Bytes that a group takes at most (72 + 6 + 8 * 72 bits), and what its last store reaches beyond it.
const GROUP_BYTES: usize = 96;
/// Bytes of room that are made at once.
const ROOM: usize = 2048;
/// Bits that one store takes whatever is held back of the last byte.
const STORE_BITS: u32 = 56;

/// A frame header's description of its packed coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub min: [i32; 3],
    pub max: [i32; 3],
    /// Smallest distance between neighbours (sum over the axes, 32 bits), which decides on the first width.
    nearest: i32,
}

impl Extent {
    /// The extent of at least one atom.
    pub fn measure(integers: &[[i32; 3]], cpu: Cpu) -> Self {
        match cpu {
            Cpu::Baseline => extent_body(integers),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: an `Avx2Proof` is made by `Cpu::detect` alone, after it found all of these features.
            // The safe twin is `extent_body`, to which it is compared in the tests.
            Cpu::Avx2(_) => unsafe { extent_avx2(integers) },
        }
    }

    /// Numbers of integers along each axis; `None` if a coordinate minus the smallest does not fit in 31 bits.
    pub fn sizes(&self) -> Option<[u32; 3]> {
        let mut sizes = [0; 3];
        for (axis, size) in sizes.iter_mut().enumerate() {
            let span = i64::from(self.max[axis]) - i64::from(self.min[axis]);
            *size = i32::try_from(span + 1).ok()?.unsigned_abs();
        }
        Some(sizes)
    }

    /// Place in the table of radices at which the frame starts.
    ///
    /// If all neighbours are further apart than the last radix, the reference continues to place 73 of its table of 73
    /// (0 to 72) and reads past the table; here the last place is the last.
    pub fn first_place(&self) -> usize {
        let fits = |&place: &usize| MAGIC_INTS[place] as i32 >= self.nearest;
        (FIRST_SMALL..MAGIC_INTS.len()).find(fits).unwrap_or(MAGIC_INTS.len() - 1)
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
fn extent_avx2(integers: &[[i32; 3]]) -> Extent {
    extent_body(integers)
}

#[inline(always)]
fn extent_body(integers: &[[i32; 3]]) -> Extent {
    /// Atoms that are looked at together: a whole number of vectors.
    const TOGETHER: usize = 8;
    let first = integers.first().copied().unwrap_or_default();
    let mut lowest = [first; TOGETHER];
    let mut highest = lowest;
    let (whole, rest) = integers.as_chunks::<TOGETHER>();
    for atoms in whole {
        for ((low, high), value) in
            lowest.as_flattened_mut().iter_mut().zip(highest.as_flattened_mut()).zip(atoms.as_flattened())
        {
            *low = (*low).min(*value);
            *high = (*high).max(*value);
        }
    }
    let (mut min, mut max) = (first, first);
    for atom in lowest.iter().chain(rest) {
        min = [0, 1, 2].map(|axis| min[axis].min(atom[axis]));
    }
    for atom in highest.iter().chain(rest) {
        max = [0, 1, 2].map(|axis| max[axis].max(atom[axis]));
    }
    Extent { min, max, nearest: nearest_body(integers) }
}

/// Smallest distance of neighbours.
#[inline(always)]
fn nearest_body(integers: &[[i32; 3]]) -> i32 {
    let flat = integers.as_flattened();
    let next = flat.get(3..).unwrap_or_default();
    let (chunks, next_chunks) = (flat.as_chunks::<24>().0, next.as_chunks::<24>().0);
    let mut nearest = [i32::MAX; 8];
    let distance = |a: i32, b: i32| a.wrapping_sub(b).wrapping_abs();
    for (here, next) in chunks.iter().zip(next_chunks) {
        let mut distances = [0; 24];
        for (i, place) in distances.iter_mut().enumerate() {
            *place = distance(here[i], next[i]);
        }
        for (i, place) in nearest.iter_mut().enumerate() {
            let sum = distances[3 * i].wrapping_add(distances[3 * i + 1]).wrapping_add(distances[3 * i + 2]);
            *place = (*place).min(sum);
        }
    }
    let done = next_chunks.len() * 8;
    let rest = integers.iter().zip(integers.iter().skip(1)).skip(done);
    let rest =
        rest.map(|(a, b)| distance(a[0], b[0]).wrapping_add(distance(a[1], b[1])).wrapping_add(distance(a[2], b[2])));
    rest.chain(nearest).min().unwrap_or(i32::MAX)
}

/// Appends the bit stream of `integers`, which lie in `extent` of these `sizes`; whole bytes, without padding.
pub(super) fn pack(integers: &[[i32; 3]], extent: &Extent, sizes: [u32; 3], out: &mut Vec<u8>, cpu: Cpu) {
    match cpu {
        Cpu::Baseline => pack_body(integers, extent, sizes, out),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as in `Extent::measure`; the safe twin is `pack_body`.
        Cpu::Avx2(_) => unsafe { pack_avx2(integers, extent, sizes, out) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
fn pack_avx2(integers: &[[i32; 3]], extent: &Extent, sizes: [u32; 3], out: &mut Vec<u8>) {
    pack_body(integers, extent, sizes, out);
}

#[inline(always)]
fn pack_body(integers: &[[i32; 3]], extent: &Extent, sizes: [u32; 3], out: &mut Vec<u8>) {
    let full = FullField::new(sizes);
    let mut packer = Packer::new(integers, extent, full);
    let mut bits = Bits { at: out.len(), held: 0, pending: 0 };
    while packer.atom < integers.len() {
        out.resize(bits.at + ROOM, 0);
        while packer.atom < integers.len() && bits.at + GROUP_BYTES <= out.len() {
            packer.group(out, &mut bits);
        }
    }
    // the last store has left what it held back of the last byte
    out.truncate(bits.at + usize::from(bits.pending > 0));
}

/// Where the bit stream is written, highest bit first.
struct Bits {
    /// Byte of the output that is not yet full.
    at: usize,
    /// Its bits so far, at the top.
    held: u64,
    /// Number of bits of these, below 8.
    pending: u32,
}

impl Bits {
    /// Appends the `count` lowest bits of `field`, 1 to 56; the others must be zero.
    #[inline(always)]
    fn put(&mut self, out: &mut [u8], count: u32, field: u64) {
        let total = self.pending + count;
        let word = self.held | field << (64 - total);
        out[self.at..self.at + 8].copy_from_slice(&word.to_be_bytes());
        self.at += (total >> 3) as usize;
        self.held = word << (total & 56);
        self.pending = total & 7;
    }
}

/// Three integers as one number of mixed radix: lowest byte first, and the highest bits last.
#[derive(Debug, Clone, Copy)]
struct Together {
    bits: u32,
    middle: u32,
    last: u32,
}

impl Together {
    /// Bits of such a number, as they stand in the stream; it takes at most 56.
    #[inline(always)]
    fn field(self, values: [u32; 3]) -> u64 {
        let [first, second, third] = values.map(u64::from);
        let number = (first * u64::from(self.middle) + second) * u64::from(self.last) + third;
        let whole = self.bits & !7;
        // in two steps, as there may be no whole byte
        let bytes = number.swap_bytes() >> 8 >> (56 - whole);
        bytes << (self.bits & 7) | number >> whole
    }

    #[inline(always)]
    fn put(self, values: [u32; 3], out: &mut [u8], bits: &mut Bits) {
        if self.bits <= STORE_BITS {
            bits.put(out, self.bits, self.field(values));
        } else {
            self.put_wide(values, out, bits);
        }
    }

    /// For numbers of more than 56 bits.
    #[cold]
    fn put_wide(self, values: [u32; 3], out: &mut [u8], bits: &mut Bits) {
        let [first, second, third] = values.map(u128::from);
        let number = (first * u128::from(self.middle) + second) * u128::from(self.last) + third;
        // six whole bytes, lowest first; 9 to 24 bits remain
        bits.put(out, 48, (number as u64).swap_bytes() >> 16);
        let (rest, width) = ((number >> 48) as u64, self.bits - 48);
        let whole = width & !7;
        bits.put(out, width, (rest.swap_bytes() >> (64 - whole)) << (width & 7) | rest >> whole);
    }
}

/// How a full coordinate is stored.
#[derive(Debug, Clone, Copy)]
enum FullField {
    Together(Together),
    /// One after the other, each of its own width.
    Separate([u32; 3]),
}

impl FullField {
    fn new(sizes: [u32; 3]) -> Self {
        if sizes.iter().any(|&size| size > 0xff_ffff) {
            return Self::Separate(sizes.map(|size| bits_of(u128::from(size))));
        }
        let bits = bits_of(sizes.iter().map(|&size| u128::from(size)).product());
        Self::Together(Together { bits, middle: sizes[1], last: sizes[2] })
    }

    #[inline(always)]
    fn put(self, values: [u32; 3], out: &mut [u8], bits: &mut Bits) {
        match self {
            Self::Together(together) => together.put(values, out, bits),
            Self::Separate(widths) => {
                for (value, width) in values.into_iter().zip(widths) {
                    bits.put(out, width, u64::from(value));
                }
            }
        }
    }
}

/// Half of the radix of a place: differences are below it.
fn half_at(place: usize) -> i32 {
    (MAGIC_INTS[place] / 2) as i32
}

#[inline(always)]
fn difference(a: [i32; 3], b: [i32; 3]) -> [i32; 3] {
    [a[0].wrapping_sub(b[0]), a[1].wrapping_sub(b[1]), a[2].wrapping_sub(b[2])]
}

/// Whether all three are between -half and half; both excluded.
#[inline(always)]
fn is_within(difference: [i32; 3], half: i32) -> bool {
    let near = |value: i32| value.wrapping_abs() < half;
    near(difference[0]) & near(difference[1]) & near(difference[2])
}

/// State that is carried from group to group.
struct Packer<'a> {
    integers: &'a [[i32; 3]],
    min: [i32; 3],
    full: FullField,
    /// First atom of the next group.
    atom: usize,
    /// Coordinate that was stored last; of no meaning before the first group.
    previous: [i32; 3],
    /// Place of the small differences in the table of radices, and the bounds within which it moves.
    place: usize,
    places: std::ops::RangeInclusive<usize>,
    /// Differences of neighbours below this make the place go up.
    larger: i32,
    /// Run of the group before; none is as long at first.
    run: usize,
}

impl<'a> Packer<'a> {
    fn new(integers: &'a [[i32; 3]], extent: &Extent, full: FullField) -> Self {
        let place = extent.first_place();
        let highest = (place + PLACES).min(MAGIC_INTS.len() - 1);
        let places = highest - PLACES..=highest;
        let larger = half_at(highest);
        let min = extent.min;
        Self { integers, min, full, atom: 0, previous: [0; 3], place, places, larger, run: usize::MAX }
    }

    /// Appends one group: a full coordinate, a flag, and the run of small differences that follows.
    #[inline(always)]
    fn group(&mut self, out: &mut [u8], bits: &mut Bits) {
        let this = self.integers[self.atom];
        let near_before = self.atom > 0 && is_within(difference(this, self.previous), self.larger);
        let widens = near_before && self.place < *self.places.end();
        let half = half_at(self.place);
        let mut narrows = !widens && self.place > *self.places.start();
        // the reference squares in 32 bits
        let narrow_half = half_at(self.place - 1);
        let narrow_limit = narrow_half.wrapping_mul(narrow_half);
        let mut differences = [[0; 3]; LONGEST_RUN];
        let mut run = 0;
        let mut full = this;
        let mut previous = this;
        if let Some(&next) = self.integers.get(self.atom + 1)
            && is_within(difference(this, next), half)
        {
            // the first two atoms of a run are exchanged, which packs water better
            full = next;
            let mut step = difference(this, next);
            let rest = &self.integers[self.atom + 2..];
            loop {
                let square = |axis: usize| step[axis].wrapping_mul(step[axis]);
                narrows &= square(0).wrapping_add(square(1)).wrapping_add(square(2)) < narrow_limit;
                differences[run] = step.map(|value| (value + half) as u32);
                run += 1;
                let Some(&next) = rest.get(run - 1) else { break };
                step = difference(next, previous);
                if run == LONGEST_RUN || !is_within(step, half) {
                    break;
                }
                previous = next;
            }
        } else {
            narrows = false;
        }
        self.full.put(difference(full, self.min).map(|value| value as u32), out, bits);
        let change = usize::from(widens) + 1 - usize::from(narrows);
        if run != self.run || change != 1 {
            bits.put(out, 6, (32 | (3 * run + change)) as u64);
        } else {
            bits.put(out, 1, 0);
        }
        let radix = MAGIC_INTS[self.place];
        let small = Together { bits: self.place as u32, middle: radix, last: radix };
        for &values in &differences[..run] {
            small.put(values, out, bits);
        }
        self.run = run;
        self.place = self.place + change - 1;
        self.previous = previous;
        self.atom += 1 + run;
    }
}
