//! Reals from text, to the nearest float64.
//!
//! Mantissas and powers of ten that float64 holds exactly, which is what programs print of coordinates, need one
//! multiplication or division: a third faster than the crates that parse all floats. The rest is left to one of these.
//! `examples/text_speed.rs` measures it.

use super::is_blank;

/// Powers of ten that float64 holds exactly.
const EXACT_POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];
/// Integers up to this one are exact in float64.
const EXACT_INTEGERS: u64 = 1 << 53;
/// Digits that always fit into 64 bits.
const SAFE_DIGITS: usize = 19;
/// Exponents are counted up to here: far beyond any value that is neither 0 nor infinite.
const MOST_EXPONENT: i64 = 1 << 40;

/// One Fortran real without blanks: decimal, with an exponent after E, D, Q (or e, d, q) or after its sign alone
/// (`1.5-103`); `NaN`, `Inf` and `Infinity` in any case.
///
/// The value is the nearest float64. `None` for anything else, and for a number beyond the largest float64.
pub fn parse_f64(word: &[u8]) -> Option<f64> {
    let (value, len) = real(word)?;
    (len == word.len()).then_some(value)
}

/// The first three blank-separated reals of a line, and the position after them.
pub fn parse_three(line: &[u8]) -> Option<([f64; 3], usize)> {
    parse_reals(line)
}

/// The first `N` blank-separated reals of a line, and the position after them; `None` if one is missing or is not a
/// real.
#[inline]
pub fn parse_reals<const N: usize>(line: &[u8]) -> Option<([f64; N], usize)> {
    let mut values = [0.0; N];
    let mut at = 0;
    for value in &mut values {
        while is_blank(*line.get(at)?) {
            at += 1;
        }
        let len;
        (*value, len) = real(&line[at..])?;
        at += len;
        if line.get(at).is_some_and(|&byte| !is_blank(byte)) {
            return None;
        }
    }
    Some((values, at))
}

/// A digit's value; more than 9 for other bytes.
fn digit(byte: u8) -> u64 {
    u64::from(byte.wrapping_sub(b'0'))
}

/// The value of eight bytes if all are digits.
#[inline]
fn eight_digits(bytes: &[u8]) -> Option<u64> {
    let word = u64::from_le_bytes(*bytes.first_chunk::<8>()?);
    // a byte is a digit if its high half is 3, and still is after 6 is added
    let high = 0xf0f0_f0f0_f0f0_f0f0;
    if word & high != 0x3030_3030_3030_3030 || word.wrapping_add(0x0606_0606_0606_0606) & high != 0x3030_3030_3030_3030
    {
        return None;
    }
    // neighbours are joined: digits to pairs, pairs to fours, fours to all eight
    let digits = word & 0x0f0f_0f0f_0f0f_0f0f;
    let pairs = (digits.wrapping_mul(10).wrapping_add(digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100).wrapping_add(pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some((fours.wrapping_mul(10_000).wrapping_add(fours >> 32)) & 0xffff_ffff)
}

/// The real at the start of `text`, and its length; what follows it is not looked at.
#[inline]
fn real(text: &[u8]) -> Option<(f64, usize)> {
    let first = *text.first()?;
    let negative = first == b'-';
    let start = usize::from(negative || first == b'+');
    let mut at = start;
    let mut mantissa = 0_u64;
    while let Some(value) = text.get(at).map(|&byte| digit(byte)).filter(|&value| value <= 9) {
        mantissa = mantissa.wrapping_mul(10).wrapping_add(value);
        at += 1;
    }
    let mut n_digits = at - start;
    let mut exponent = 0_i64;
    if text.get(at) == Some(&b'.') {
        at += 1;
        let point = at;
        while let Some(eight) = eight_digits(&text[at..]) {
            mantissa = mantissa.wrapping_mul(100_000_000).wrapping_add(eight);
            at += 8;
        }
        while let Some(value) = text.get(at).map(|&byte| digit(byte)).filter(|&value| value <= 9) {
            mantissa = mantissa.wrapping_mul(10).wrapping_add(value);
            at += 1;
        }
        n_digits += at - point;
        exponent = -((at - point) as i64);
    }
    if n_digits == 0 {
        return special(text, start).map(|(value, len)| (if negative { -value } else { value }, len));
    }
    let digits_end = at;
    let mut stated = 0_i64;
    if let Some(&letter) = text.get(at)
        && (matches!(letter, b'+' | b'-') || matches!(letter | 0x20, b'e' | b'd' | b'q'))
    {
        (stated, at) = stated_exponent(text, at)?;
        exponent += stated;
    }
    let scale = EXACT_POWERS.get(exponent.unsigned_abs() as usize);
    let value = match scale {
        // two exact numbers: their quotient or product is rounded once
        Some(power) if n_digits <= SAFE_DIGITS && mantissa <= EXACT_INTEGERS => {
            if exponent < 0 {
                mantissa as f64 / power
            } else {
                mantissa as f64 * power
            }
        }
        _ => rounded(&text[start..at], &text[start..digits_end], stated)?,
    };
    Some((if negative { -value } else { value }, at))
}

/// The exponent at byte `at` of `text`, and the position after it.
#[inline]
fn stated_exponent(text: &[u8], mut at: usize) -> Option<(i64, usize)> {
    if !matches!(text[at], b'+' | b'-') {
        at += 1;
    }
    let negative = text.get(at) == Some(&b'-');
    if negative || text.get(at) == Some(&b'+') {
        at += 1;
    }
    let first = at;
    let mut stated = 0_i64;
    while let Some(value) = text.get(at).map(|&byte| digit(byte)).filter(|&value| value <= 9) {
        stated = (10 * stated + value as i64).min(MOST_EXPONENT);
        at += 1;
    }
    (at > first).then_some((if negative { -stated } else { stated }, at))
}

/// The nearest float64 to a number without a sign, which is `digits` (at least one, and a point or none) times a power of
/// ten. This takes the algorithm of Eisel and Lemire, or all digits.
#[inline(never)]
fn rounded(number: &[u8], digits: &[u8], exponent: i64) -> Option<f64> {
    let is_plain = number.get(digits.len()).is_none_or(|letter| letter | 0x20 == b'e');
    let value: f64 = if is_plain {
        fast_float2::parse(number)
    } else {
        fast_float2::parse(format!("{}e{exponent}", std::str::from_utf8(digits).ok()?))
    }
    .ok()?;
    value.is_finite().then_some(value)
}

/// `NaN`, `NaN(...)`, `Inf` or `Infinity` at byte `at` of `text`, and the position after it.
#[cold]
fn special(text: &[u8], at: usize) -> Option<(f64, usize)> {
    let word = text.get(at..)?;
    let starts = |name: &[u8]| word.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    if starts(b"infinity") {
        return Some((f64::INFINITY, at + 8));
    }
    if starts(b"inf") {
        return Some((f64::INFINITY, at + 3));
    }
    if !starts(b"nan") {
        return None;
    }
    let payload = match word.get(3) {
        Some(b'(') => 1 + word.iter().skip(3).position(|&byte| byte == b')')?,
        _ => 0,
    };
    Some((f64::NAN, at + 3 + payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// xorshift64*
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
        }
    }

    fn same(text: &str, expected: f64) {
        let found = parse_f64(text.as_bytes()).unwrap_or_else(|| panic!("{text} is a real"));
        assert_eq!(found.to_bits(), expected.to_bits(), "{text}: {found} {expected}");
    }

    #[test]
    fn fortran_reals() {
        for (text, value) in [
            ("1.5-103", 1.5e-103),
            ("-1.5+103", -1.5e103),
            ("1.5D-3", 1.5e-3),
            ("1.5d3", 1.5e3),
            (".5E1", 5.0),
            ("5.", 5.0),
            ("+5", 5.0),
            ("-0.0", -0.0),
            ("-0", -0.0),
            ("0E999999999999999999999", 0.0),
            ("1E-999999999999999999999", 0.0),
            ("0.1234567890E-01", 0.012_345_678_9),
            ("0.4940656458-323", 5e-324),
            ("0.1797693134+309", 1.797_693_134e308),
            ("Infinity", f64::INFINITY),
            ("-Inf", f64::NEG_INFINITY),
            ("+infinity", f64::INFINITY),
            ("9007199254740993", 9_007_199_254_740_992.0),
            ("9007199254740993.0000000000000000000000001", 9_007_199_254_740_994.0),
            ("00000000000000000000000000000000000001.5", 1.5),
            ("2.2250738585072011e-308", 2.225_073_858_507_201e-308),
        ] {
            same(text, value);
        }
        assert!(parse_f64(b"NaN").is_some_and(f64::is_nan));
        assert!(parse_f64(b"nan(0x7)").is_some_and(f64::is_nan));
        for wrong in [
            "",
            "-",
            "+",
            ".",
            "E5",
            "*****",
            "1.5E",
            "1.5E+",
            "1.5-",
            "1..5",
            "1.5 ",
            " 1.5",
            "1,5",
            "0x10",
            "1_0",
            "1e400",
            "-1D309",
            "0.1797693135+309",
            "Infinit",
            "NaN(",
            "1.5E5.",
            "--1",
            "1.5e5e5",
            "1:2",
        ] {
            assert_eq!(parse_f64(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn three_of_a_record() {
        let line = b"   12.34567890          0.1234567890E-01   -1.000000000                \n";
        assert_eq!(parse_three(line), Some(([12.345_678_9, 0.012_345_678_9, -1.0], 55)));
        assert_eq!(parse_three(b"1 2 3"), Some(([1.0, 2.0, 3.0], 5)));
        for wrong in [&b"1 2"[..], b"1 2 ", b"1 2 3x", b"1 2 ****", b"", b"\n"] {
            assert_eq!(parse_three(wrong), None);
        }
    }

    #[test]
    fn the_nearest_value_as_the_standard_library_finds_it() {
        let mut random = Random(1);
        for _ in 0..300_000 {
            let value = f64::from_bits(random.next());
            if !value.is_finite() {
                continue;
            }
            let digits = (random.next() % 20) as usize;
            same(&format!("{value:e}"), value);
            let text = format!("{value:.digits$e}");
            let expected: f64 = text.parse().unwrap();
            if expected.is_finite() {
                same(&text, expected);
                same(&text.replace('e', if text.contains("e-") { "" } else { "+" }), expected);
            } else {
                assert_eq!(parse_f64(text.as_bytes()), None);
            }
            let typical = (random.next() >> 11) as f64 / (1_u64 << 33) as f64 - 500_000.0;
            let text = format!("{typical:.digits$}");
            same(&text, text.parse().unwrap());
        }
    }
}
