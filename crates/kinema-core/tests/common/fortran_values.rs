//! Values and formats that gfortran's output is compared with: made by number alone, so that no value is stored.

use kinema_core::container::text::fortran::{put_e, put_f, put_g20_10, put_i, put_text};

/// xorshift64, whose state is the number of the value, mixed.
struct Bits(u64);

impl Bits {
    fn of(seed: u64, number: u64) -> Self {
        // splitmix64: neighbouring numbers give unrelated states
        let mut state =
            seed.wrapping_mul(0xd1b5_4a32_d192_ed03).wrapping_add(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((state ^ (state >> 31)).max(1))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 16) % n
    }
}

/// Bits of the float64 of this number.
pub fn value(seed: u64, number: u64) -> u64 {
    let mut bits = Bits::of(seed, number);
    let sign = bits.next() & 1 << 63;
    let mantissa = bits.next() & ((1 << 52) - 1);
    // 2^-40 to 2^36: what coordinates, velocities and forces are
    let typical = (1023 - 40 + bits.below(76)) << 52;
    let made = match number % 8 {
        // any bits
        0 => bits.next(),
        1 | 2 => typical | mantissa,
        // float32, widened
        3 => typical | mantissa >> 29 << 29,
        // few bits: many ties
        4 => (1023 - 20 + bits.below(50)) << 52 | mantissa >> (30 + bits.below(22)) << 30 & ((1 << 52) - 1),
        // at a power of ten, or at what rounds up to it
        5 => {
            let border = ["1", "9.9999999995", "9.99995", "9.9999995", "9.9995"][bits.below(5) as usize];
            let power = bits.below(2) * bits.below(600);
            let power = if power > 0 { power as i64 - 300 } else { bits.below(18) as i64 - 6 };
            let ten: f64 = format!("{border}e{power}").parse().expect("a number");
            ten.to_bits() + bits.below(7) - 3
        }
        // decimals
        6 => {
            let decimals = 10_f64.powi(bits.below(12) as i32);
            ((bits.next() >> (20 + bits.below(40))) as f64 / decimals).to_bits()
        }
        _ => {
            let special = [0.0, f64::INFINITY, f64::NAN, f64::MIN_POSITIVE, f64::MAX, 5e-324, 1.0, 0.5];
            match bits.below(16) as usize {
                i if i < special.len() => special[i].to_bits(),
                // subnormal
                _ if bits.below(2) == 0 => mantissa >> bits.below(50),
                // near the ends of the range
                _ => (bits.below(2) * 2000 + bits.below(46)) << 52 | mantissa,
            }
        }
    };
    made & !(1 << 63) | sign
}

/// Edit descriptors of `fortran_formats.f90`, in its order; value `number` is written with the `number / 8`-th, in turn.
pub const FORMATS: [&str; 12] =
    ["g20.10", "f20.10", "g20.10", "f12.6", "1pe12.4", "g20.10", "1pe16.7", "f10.3", "g20.10", "f7.1", "i10", "a8"];

/// The format in which value `number` is written.
pub fn format_of(number: u64) -> &'static str {
    FORMATS[(number / 8) as usize % FORMATS.len()]
}

/// The integer that is written for a value's bits: of any size.
pub fn integer(bits: u64) -> i64 {
    bits.cast_signed() >> (bits % 61)
}

/// Appends the field of a value by the code under test.
pub fn put(out: &mut Vec<u8>, bits: u64, format: &str) {
    let value = f64::from_bits(bits);
    match format {
        "g20.10" => put_g20_10(out, value),
        "f20.10" => put_f(out, value, 20, 10),
        "f12.6" => put_f(out, value, 12, 6),
        "f10.3" => put_f(out, value, 10, 3),
        "f7.1" => put_f(out, value, 7, 1),
        "1pe12.4" => put_e(out, value, 12, 4),
        "1pe16.7" => put_e(out, value, 16, 7),
        "i10" => put_i(out, integer(bits), 10),
        // a name of letters and blanks in a character variable of 10, cut to 8
        "a8" => put_text(out, &name(bits), 8),
        other => panic!("no such format: {other}"),
    }
}

/// Letters for the low five bits of each byte, then blanks: up to ten characters.
fn name(bits: u64) -> Vec<u8> {
    let len = bits % 11;
    (0..len).map(|i| b'A' + (bits >> (6 * i) & 15) as u8).collect()
}
