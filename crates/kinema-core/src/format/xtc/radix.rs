//! XTC mixed-radix numbers, in which three integers are packed; groups and atoms are unknown here.
//!
//! The numbers are stored lowest byte first inside a bit stream that runs from the most significant bit, so a
//! number of `n` bits is `n / 8` whole bytes, then the `n % 8` highest bits.

use std::array::from_fn;

/// Radices of small differences, `MAGIC_INTS[i] = 2^(i/3)` roughly; constants of the format (GROMACS, libxdrf).
///
/// The first nine are never used.
pub(super) const MAGIC_INTS: [u32; 73] = [
    0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 10, 12, 16, 20, 25, 32, 40, 50, 64, 80, 101, 128, 161, 203, 256, 322, 406, 512, 645,
    812, 1024, 1290, 1625, 2048, 2580, 3250, 4096, 5060, 6501, 8192, 10321, 13003, 16384, 20642, 26007, 32768, 41285,
    52015, 65536, 82570, 104031, 131072, 165140, 208063, 262144, 330280, 416127, 524287, 660561, 832255, 1048576,
    1321122, 1664510, 2097152, 2642245, 3329021, 4194304, 5284491, 6658042, 8388607, 10568983, 13316085, 16777216,
];

/// First usable place in the table of radices.
pub(super) const FIRST_SMALL: usize = 9;

/// Widest field that a single load delivers whatever its first bit is: 64 - 7.
pub(super) const LOAD_BITS: u32 = 57;

/// Bytes beyond the start of a field that a load touches at most: 72 bits and 7 bits of shift.
pub(super) const LOAD_REACH: usize = 16;

/// 57 valid bits (64 for fields at byte borders) from bit `at`, topmost first; `None` beyond the data.
#[inline(always)]
pub(super) fn load(data: &[u8], at: u64) -> Option<u64> {
    let byte = (at >> 3) as usize;
    let bytes: [u8; 8] = data.get(byte..)?.first_chunk().copied()?;
    Some(u64::from_be_bytes(bytes) << (at & 7))
}

/// 121 valid bits from bit `at`, topmost first; `None` beyond the data.
#[inline(always)]
fn load_wide(data: &[u8], at: u64) -> Option<u128> {
    let byte = (at >> 3) as usize;
    let bytes: [u8; 16] = data.get(byte..)?.first_chunk().copied()?;
    Some(u128::from_be_bytes(bytes) << (at & 7))
}

/// Number of bits that hold 0..=size: the format counts the size itself, not the highest value.
pub(super) fn bits_of(size: u128) -> u32 {
    u128::BITS - size.leading_zeros()
}

/// Division by a fixed divisor as a multiplication, exact for dividends below 2^63.
///
/// With `l = ceil(log2 d)` and `m = ceil(2^(63+l) / d)`, `m = (2^(63+l) + e) / d` where `0 <= e < d <= 2^l`, so
/// `v m / 2^(63+l)` exceeds `v / d` by `v e / (d 2^(63+l)) < 1 / d` and has the same whole part
/// (Granlund and Montgomery, PLDI 1994).
#[derive(Debug, Clone, Copy, Default)]
struct Reciprocal {
    factor: u64,
    shift: u32,
}

impl Reciprocal {
    /// `divisor` must be 1..=2^63.
    const fn new(divisor: u64) -> Self {
        let shift = u64::BITS - (divisor - 1).leading_zeros();
        Self { factor: (1_u128 << (63 + shift)).div_ceil(divisor as u128) as u64, shift }
    }

    #[inline(always)]
    fn divide(self, dividend: u64) -> u64 {
        ((u128::from(dividend << 1) * u128::from(self.factor)) >> 64) as u64 >> self.shift
    }
}

/// Three integers packed as one number of at most 57 bits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Narrow {
    bits: u32,
    /// The bits of the number that are whole bytes, as a count and as a mask of the low bits.
    whole: u32,
    whole_mask: u64,
    rest_mask: u64,
    last: u64,
    middle: u64,
    by_last: Reciprocal,
    by_both: Reciprocal,
}

impl Narrow {
    /// Radices of the second and third integer; `bits` must be 1..=57 and the radices at least 1.
    const fn new(bits: u32, middle: u64, last: u64) -> Self {
        let whole = bits & !7;
        Self {
            bits,
            whole,
            whole_mask: (1 << whole) - 1,
            rest_mask: (1 << (bits & 7)) - 1,
            last,
            middle,
            by_last: Reciprocal::new(last),
            by_both: Reciprocal::new(last * middle),
        }
    }

    /// The integers from bit `at`.
    #[inline(always)]
    pub fn read(&self, data: &[u8], at: u64) -> Option<[i32; 3]> {
        let top = load(data, at)?;
        let rest = (top >> ((64 - self.bits) & 63)) & self.rest_mask;
        // both masks are below 64 bits: whole is at most 56
        let value = (top.swap_bytes() & self.whole_mask) | (rest << (self.whole & 63));
        let upper = self.by_last.divide(value);
        let first = self.by_both.divide(value);
        let third = value.wrapping_sub(upper.wrapping_mul(self.last));
        let second = upper.wrapping_sub(first.wrapping_mul(self.middle));
        Some([first as i32, second as i32, third as i32])
    }
}

/// Widest number that [`Radices`] takes apart: exact in double precision with two bits to spare.
const RADICES_BITS: u32 = 50;

/// Numbers that [`Radices`] takes apart side by side.
pub(super) const LANES: usize = 8;

/// Three integers packed as one number of at most 50 bits, for many numbers at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Radices {
    pub bits: u32,
    /// Half the radix of a difference.
    pub half: i32,
    whole: u32,
    whole_mask: u64,
    rest_mask: u64,
    last: u32,
    middle: u32,
    by_last: Quotient,
    by_both: Quotient,
    /// The largest first digit of a difference, less half the radix, for each lane; then no limit.
    most: [i32; 2 * LANES],
}

/// Division of integers below 2^50 by a fixed divisor `d`, in double precision.
///
/// `v / d` is rounded down by rounding `(v + 1/2) / d - 1/2` to the nearest integer: it lies at least `1 / 2d` away from
/// half-integers, while the product differs from it by less than `v / d * 2^-51 <= 1 / 2d`.
#[derive(Debug, Clone, Copy)]
struct Quotient {
    inverse: f64,
    shift: f64,
}

/// 1.5 * 2^52: the sum with a small number has the nearest integer in its low bits.
const ROUNDS: f64 = 6_755_399_441_055_744.0;
/// 2^52, whose low bits are those of an integer that is added.
const HOLDS: f64 = 4_503_599_627_370_496.0;

impl Quotient {
    const fn new(divisor: u64) -> Self {
        Self { inverse: 1.0 / divisor as f64, shift: 0.5 - divisor as f64 * 0.5 }
    }

    /// The low 32 bits of the quotient.
    #[inline(always)]
    fn divide(self, dividend: f64) -> u32 {
        ((dividend + self.shift) * self.inverse + ROUNDS).to_bits() as u32
    }
}

impl Radices {
    const fn new(bits: u32, middle: u64, last: u64) -> Self {
        let (whole, half) = (bits & !7, (last / 2) as i32);
        let (top, any) = (last as i32 - 1 - half, i32::MAX);
        Self {
            bits,
            half,
            whole,
            whole_mask: (1 << whole) - 1,
            rest_mask: (1 << (bits & 7)) - 1,
            last: last as u32,
            middle: middle as u32,
            by_last: Quotient::new(last),
            by_both: Quotient::new(last * middle),
            most: [top, top, top, top, top, top, top, top, any, any, any, any, any, any, any, any],
        }
    }

    /// The place of the table of differences; `None` for one that is too wide, or not there.
    #[inline(always)]
    pub fn small(place: i32) -> Option<&'static Self> {
        SMALL_RADICES.get((place as u32).wrapping_sub(FIRST_SMALL as u32) as usize)
    }

    /// The largest first digit of a difference, less half the radix, in each of the first `n` lanes; no limit in the others.
    ///
    /// The comparison loads them, as the loop that it is in has no register left for a mask.
    #[inline(always)]
    pub fn most(&self, n: usize) -> Option<&[i32; LANES]> {
        let others = LANES - n.min(LANES);
        self.most.get(others..)?.first_chunk()
    }

    /// The integers of eight numbers, whose bits are given topmost first, plus `offset`.
    #[inline(always)]
    pub fn take_apart(&self, tops: &[u64; LANES], offset: [i32; 3]) -> [[i32; LANES]; 3] {
        let shift = 64 - self.bits;
        let rest = tops.map(|top| ((top >> shift) & self.rest_mask) << self.whole);
        let values = from_fn(|i| (tops[i].swap_bytes() & self.whole_mask) | rest[i]);
        let numbers = values.map(|value: u64| f64::from_bits(value | HOLDS.to_bits()) - HOLDS);
        let upper = numbers.map(|number| self.by_last.divide(number));
        let first = numbers.map(|number| self.by_both.divide(number));
        let second: [u32; 8] = from_fn(|i| upper[i].wrapping_sub(first[i].wrapping_mul(self.middle)));
        let third: [u32; 8] = from_fn(|i| (values[i] as u32).wrapping_sub(upper[i].wrapping_mul(self.last)));
        let placed = |values: [u32; 8], offset: i32| values.map(|value| (value as i32).wrapping_add(offset));
        [placed(first, offset[0]), placed(second, offset[1]), placed(third, offset[2])]
    }
}

/// Differences of the places 9..=50.
static SMALL_RADICES: [Radices; RADICES_BITS as usize - FIRST_SMALL + 1] = {
    let mut all = [Radices::new(9, 8, 8); RADICES_BITS as usize - FIRST_SMALL + 1];
    let mut i = 0;
    while i < all.len() {
        let radix = MAGIC_INTS[i + FIRST_SMALL] as u64;
        all[i] = Radices::new((i + FIRST_SMALL) as u32, radix, radix);
        i += 1;
    }
    all
};

/// Three integers packed as one number of at most 72 bits; slow, for boxes of more than 200 nm and the like.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wide {
    bits: u32,
    middle: u128,
    last: u128,
}

impl Wide {
    #[inline(always)]
    fn read(&self, data: &[u8], at: u64) -> Option<[i32; 3]> {
        let top = load_wide(data, at)?;
        let whole = self.bits & !7;
        let rest = (top >> (u128::BITS - self.bits)) & ((1 << (self.bits & 7)) - 1);
        let value = (top.swap_bytes() & ((1 << whole) - 1)) | (rest << whole);
        let upper = value / self.last;
        Some([(upper / self.middle) as i32, (upper % self.middle) as i32, (value % self.last) as i32])
    }
}

/// A full coordinate: how its three integers are stored depends on the extent of the frame.
pub(super) trait Full: Copy {
    /// Bits of a full coordinate.
    fn bits(&self) -> u64;
    /// The integers from bit `at`, counted from the frame's smallest.
    fn read(&self, data: &[u8], at: u64) -> Option<[i32; 3]>;
    /// Radices to take many of them apart at once, unless they are too wide.
    fn radices(&self) -> Option<Radices> {
        None
    }
}

impl Full for Narrow {
    #[inline(always)]
    fn bits(&self) -> u64 {
        u64::from(self.bits)
    }
    #[inline(always)]
    fn read(&self, data: &[u8], at: u64) -> Option<[i32; 3]> {
        Narrow::read(self, data, at)
    }
    #[inline(always)]
    fn radices(&self) -> Option<Radices> {
        (self.bits <= RADICES_BITS).then(|| Radices::new(self.bits, self.middle, self.last))
    }
}

impl Full for Wide {
    #[inline(always)]
    fn bits(&self) -> u64 {
        u64::from(self.bits)
    }
    #[inline(always)]
    fn read(&self, data: &[u8], at: u64) -> Option<[i32; 3]> {
        Wide::read(self, data, at)
    }
}

/// Three integers one after the other, each of its own width, highest bit first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Separate {
    widths: [u32; 3],
}

impl Full for Separate {
    #[inline(always)]
    fn bits(&self) -> u64 {
        self.widths.iter().map(|&width| u64::from(width)).sum()
    }
    #[inline(always)]
    fn read(&self, data: &[u8], mut at: u64) -> Option<[i32; 3]> {
        let mut values = [0; 3];
        for (value, width) in values.iter_mut().zip(self.widths) {
            *value = (load(data, at)? >> (64 - width)) as i32;
            at += u64::from(width);
        }
        Some(values)
    }
}

/// The three ways to store a full coordinate.
#[derive(Clone, Copy)]
pub(super) enum FullCoordinate {
    Narrow(Narrow),
    Wide(Wide),
    Separate(Separate),
}

impl FullCoordinate {
    /// For integers of 0..size each; `None` if a size is zero or takes more than 32 bits.
    pub fn new(sizes: [u64; 3]) -> Option<Self> {
        if sizes.iter().any(|&size| size == 0 || size > u64::from(u32::MAX)) {
            return None;
        }
        // libxdrf: sizes of more than 24 bits are not packed together
        if sizes.iter().any(|&size| size > 0xff_ffff) {
            return Some(Self::Separate(Separate { widths: sizes.map(|size| bits_of(u128::from(size))) }));
        }
        let bits = bits_of(sizes.iter().map(|&size| u128::from(size)).product());
        Some(if bits <= LOAD_BITS {
            Self::Narrow(Narrow::new(bits, sizes[1], sizes[2]))
        } else {
            Self::Wide(Wide { bits, middle: u128::from(sizes[1]), last: u128::from(sizes[2]) })
        })
    }
}

/// How the small differences of one place in the table are stored.
#[derive(Debug, Clone, Copy)]
pub(super) enum Small {
    Narrow(&'static Narrow),
    Wide(Wide),
}

impl Small {
    /// Whether the table has this place.
    #[inline(always)]
    pub fn exists(place: i32) -> bool {
        (FIRST_SMALL as i32..MAGIC_INTS.len() as i32).contains(&place)
    }

    /// The place `place` of the table, and its radix; `None` outside its usable part, 9..=72.
    #[inline(always)]
    pub fn get(place: i32) -> Option<(Self, i32)> {
        let place = usize::try_from(place).ok()?;
        let radix = *MAGIC_INTS.get(place)?;
        if let Some(narrow) = NARROW_SMALLS.get(place.checked_sub(FIRST_SMALL)?) {
            return Some((Self::Narrow(narrow), radix as i32));
        }
        let radix_wide = u128::from(radix);
        Some((Self::Wide(Wide { bits: place as u32, middle: radix_wide, last: radix_wide }), radix as i32))
    }

    /// Three differences from bit `at`, not yet centred.
    #[inline(always)]
    pub fn read(&self, data: &[u8], at: u64) -> Option<[i32; 3]> {
        match self {
            Self::Narrow(narrow) => narrow.read(data, at),
            Self::Wide(wide) => wide.read(data, at),
        }
    }
}

/// A difference of place `i` has `i` bits: ready divisors for those that one load delivers.
static NARROW_SMALLS: [Narrow; LOAD_BITS as usize - FIRST_SMALL + 1] = {
    let zero = Reciprocal { factor: 0, shift: 0 };
    let empty =
        Narrow { bits: 0, whole: 0, whole_mask: 0, rest_mask: 0, last: 0, middle: 0, by_last: zero, by_both: zero };
    let mut all = [empty; LOAD_BITS as usize - FIRST_SMALL + 1];
    let mut i = 0;
    while i < all.len() {
        let radix = MAGIC_INTS[i + FIRST_SMALL] as u64;
        all[i] = Narrow::new((i + FIRST_SMALL) as u32, radix, radix);
        i += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocals_divide_exactly() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for round in 0..200_000 {
            let divisor = (random() >> (14 + round % 50)).max(1);
            let reciprocal = Reciprocal::new(divisor);
            let quotient = (random() >> 1) / divisor;
            for value in [random() >> 1, random() >> 20, quotient * divisor, (quotient * divisor).saturating_sub(1)] {
                assert_eq!(reciprocal.divide(value), value / divisor, "{value} / {divisor}");
            }
        }
        for divisor in [1, 2, 3, 8, 1 << 48, (1 << 50) - 1, 1 << 50] {
            assert_eq!(Reciprocal::new(divisor).divide((1 << 63) - 1), ((1 << 63) - 1) / divisor);
        }
    }

    #[test]
    fn narrow_and_wide_agree_at_every_bit() {
        let data: Vec<u8> = (0..64_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for bits in 1..=LOAD_BITS {
            for (middle, last) in [(1, 1), (7, 8), (8191, 513), (0xff_ffff, 0xff_fffe)] {
                let narrow = Narrow::new(bits, middle, last);
                let wide = Wide { bits, middle: u128::from(middle), last: u128::from(last) };
                for at in 0..128 {
                    assert_eq!(narrow.read(&data, at), wide.read(&data, at), "{bits} bits at {at}");
                }
            }
        }
        assert_eq!(load(&data, 56 * 8 + 8), None);
        assert_eq!(load(&data, u64::MAX), None);
    }

    #[test]
    fn numbers_are_taken_apart_at_once_as_one_by_one() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for bits in 1..=RADICES_BITS {
            let mut pairs = vec![(1, 1), (1, 3), (7, 8), (8191, 513), (0xff_ffff, 0xff_fffe)];
            pairs.extend((0..40).map(|_| (1 + (random() >> 40), 1 + (random() >> 40))));
            for (middle, last) in pairs {
                let (narrow, radices) = (Narrow::new(bits, middle, last), Radices::new(bits, middle, last));
                for _ in 0..50 {
                    // anything, and numbers beside multiples of the divisors, as they lie in the stream
                    let divisor = if random() & 1 == 0 { last } else { last * middle };
                    let near = ((random() >> (64 - bits)) / divisor * divisor).wrapping_sub(random() & 1);
                    let bytes = near & ((1 << (bits & !7)) - 1);
                    let near = bytes.swap_bytes() | ((near >> (bits & !7)) << (64 - bits));
                    let tops: [u64; 8] = from_fn(|i| if i % 2 == 0 { random() } else { near });
                    let found = radices.take_apart(&tops, [5, 0, -7]);
                    for (i, top) in tops.into_iter().enumerate() {
                        let data = [top.to_be_bytes(), [0; 8]].concat();
                        let [first, second, third] = narrow.read(&data, 0).expect("there are bytes");
                        let expected = [first.wrapping_add(5), second, third.wrapping_sub(7)];
                        assert_eq!(found.map(|of_axis| of_axis[i]), expected, "{bits} bits, {middle}, {last}");
                    }
                }
            }
        }
        for place in -2..80 {
            let usable = (FIRST_SMALL as i32..=RADICES_BITS as i32).contains(&place);
            assert_eq!(Radices::small(place).is_some(), usable);
            if let (Some(radices), Some((_, radix))) = (Radices::small(place), Small::get(place)) {
                assert_eq!((radices.bits, radices.half), (place as u32, radix / 2));
                for n in 0..2 * LANES {
                    let most = from_fn(|lane| if lane < n { radix - 1 - radix / 2 } else { i32::MAX });
                    assert_eq!(radices.most(n), Some(&most), "{place}, {n} lanes");
                }
            }
        }
    }

    #[test]
    fn widths_follow_the_sizes() {
        let bits = |sizes| match FullCoordinate::new(sizes) {
            Some(FullCoordinate::Narrow(narrow)) => (1, narrow.bits()),
            Some(FullCoordinate::Wide(wide)) => (2, wide.bits()),
            Some(FullCoordinate::Separate(separate)) => (3, separate.bits()),
            None => (0, 0),
        };
        assert_eq!(bits([1, 1, 1]), (1, 1));
        assert_eq!(bits([8, 8, 8]), (1, 10));
        assert_eq!(bits([1 << 19, 1 << 19, 1 << 19]), (2, 58));
        assert_eq!(bits([0xff_ffff; 3]), (2, 72));
        assert_eq!(bits([0x100_0000, 1, 3]), (3, 25 + 1 + 2));
        assert_eq!(bits([u64::from(u32::MAX), 1, 1]), (3, 34));
        assert_eq!(bits([0, 1, 1]).0 + bits([1 << 32, 1, 1]).0, 0);
    }

    #[test]
    fn the_table_of_small_differences_has_its_limits() {
        assert!(Small::get(8).is_none() && Small::get(73).is_none() && Small::get(-1).is_none());
        assert!((-2..80).all(|place| Small::exists(place) == Small::get(place).is_some()));
        assert_eq!(Small::get(9).map(|(_, radix)| radix), Some(8));
        assert_eq!(Small::get(57).map(|(_, radix)| radix), Some(524_287));
        assert_eq!(Small::get(72).map(|(_, radix)| radix), Some(16_777_216));
    }
}
