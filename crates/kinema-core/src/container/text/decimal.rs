//! Decimal digits of float64 values, rounded as exact arithmetic does: to the nearest, ties to even.

/// Powers of five that 64 bits hold.
const FIVES: [u64; 28] = {
    let mut fives = [1; 28];
    let mut i = 1;
    while i < fives.len() {
        fives[i] = 5 * fives[i - 1];
        i += 1;
    }
    fives
};
/// Powers of ten that 64 bits hold.
pub(super) const TENS: [u64; 20] = {
    let mut tens = [1; 20];
    let mut i = 1;
    while i < tens.len() {
        tens[i] = 10 * tens[i - 1];
        i += 1;
    }
    tens
};
/// Most significant digits that [`Digits`] holds.
pub(super) const MOST_DIGITS: usize = 18;

/// `value` times 10^`power`, rounded to an integer; `None` if it does not fit in 64 bits, or its computation in 128
/// bits.
///
/// `value` is neither negative nor infinite nor NaN.
#[inline]
pub(super) fn scaled(value: f64, power: i32) -> Option<u64> {
    let bits = value.to_bits();
    let (fraction, biased) = (bits & ((1 << 52) - 1), (bits >> 52) as i32);
    // value = mantissa * 2^exponent
    let (mantissa, exponent) = if biased == 0 { (fraction, -1074) } else { (fraction | 1 << 52, biased - 1075) };
    if power < 0 {
        return divided(mantissa, exponent, power.unsigned_abs());
    }
    let product = u128::from(mantissa) * u128::from(*FIVES.get(power as usize)?);
    let shift = exponent + power;
    if shift >= 0 {
        let fits = shift < 64 && product >> (64 - shift) == 0;
        return fits.then(|| (product as u64) << shift);
    }
    let shift = shift.unsigned_abs();
    if shift > 120 {
        // the product has less than 117 bits
        return Some(0);
    }
    let whole = u64::try_from(product >> shift).ok()?;
    let (rest, half) = (product & ((1 << shift) - 1), 1 << (shift - 1));
    whole.checked_add(u64::from(rest > half || rest == half && whole & 1 == 1))
}

/// `mantissa` times 2^`exponent`, divided by 10^`power` and rounded.
fn divided(mantissa: u64, exponent: i32, power: u32) -> Option<u64> {
    let five = u128::from(*FIVES.get(power as usize)?);
    let shift = exponent - power as i32;
    let (above, below) = if shift >= 0 {
        if shift > 64 + 10 {
            return None;
        }
        (u128::from(mantissa) << shift, five)
    } else {
        if shift < -62 {
            return None;
        }
        (u128::from(mantissa), five << shift.unsigned_abs())
    };
    let whole = u64::try_from(above / below).ok()?;
    let (rest, half) = (above % below, below / 2);
    // an odd divisor has no ties: there `half` is less than its half
    let up = if below % 2 == 1 { rest > half } else { rest > half || rest == half && whole & 1 == 1 };
    whole.checked_add(u64::from(up))
}

/// `value` rounded to `n` significant digits (1 to [`MOST_DIGITS`]): an integer of `n` digits, and the power of ten of
/// the first of them. (0, 0) for zero.
#[inline]
pub(super) fn significant(value: f64, n: usize) -> (u64, i32) {
    if value == 0.0 {
        return (0, 0);
    }
    // 1233 / 4096 is log10(2); one too small at most
    let binary = (value.to_bits() >> 52) as i32 - 1023;
    let mut power = (binary * 1233) >> 12;
    for _ in 0..3 {
        let Some(digits) = scaled(value, n as i32 - 1 - power) else { break };
        if digits >= TENS[n] {
            power += 1;
        } else if digits < TENS[n - 1] {
            power -= 1;
        } else {
            return (digits, power);
        }
    }
    significant_of_text(value, n)
}

/// The same by the exact arithmetic of the standard library.
#[cold]
fn significant_of_text(value: f64, n: usize) -> (u64, i32) {
    let text = format!("{value:.*e}", n - 1);
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = digits.bytes().filter(u8::is_ascii_digit).fold(0, |sum, byte| 10 * sum + u64::from(byte - b'0'));
    (digits, power.parse().unwrap_or(0))
}

/// The last 24 decimal digits of an integer, zeros in front.
#[inline]
pub(super) fn digits(value: u64) -> [u8; 24] {
    let mut out = [0; 24];
    let (high, low) = (value / 100_000_000, (value % 100_000_000) as u32);
    let (top, middle) = ((high / 100_000_000) as u32, (high % 100_000_000) as u32);
    out[..8].copy_from_slice(&eight(top));
    out[8..16].copy_from_slice(&eight(middle));
    out[16..].copy_from_slice(&eight(low));
    out
}

/// The eight digits of an integer below 10^8.
#[inline]
fn eight(value: u32) -> [u8; 8] {
    // fours in two lanes of 32 bits, pairs in four of 16, digits in eight of 8; the divisions are exact in these ranges
    let fours = u64::from(value / 10_000) | u64::from(value % 10_000) << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | (fours - 100 * hundreds) << 16;
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    let digits = tens | (pairs - 10 * tens) << 8;
    (digits | 0x3030_3030_3030_3030).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_all_lengths() {
        for value in
            (0..20_000).chain((0..64).map(|i| 1 << i)).chain(TENS).chain(TENS.map(|ten| ten - 1)).chain([u64::MAX])
        {
            assert_eq!(String::from_utf8_lossy(&digits(value)), format!("{value:024}"));
        }
        for value in (0..100_000_000).step_by(9973) {
            assert_eq!(String::from_utf8_lossy(&eight(value)), format!("{value:08}"));
        }
    }

    /// Values near powers of ten, ties, and any bits, beside the standard library's exact arithmetic.
    #[test]
    fn integers_and_significant_digits_are_those_of_exact_arithmetic() {
        let mut state = 1_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut values = vec![0.5, 1.5, 2.5, 0.125, 0.375, 5e-324, f64::MAX, 1e22, 1e23, 9_999_999_999.5];
        for power in -320..308 {
            let ten: f64 = format!("1e{power}").parse().unwrap();
            values.extend((0..3).flat_map(|i| [f64::from_bits(ten.to_bits() + i), f64::from_bits(ten.to_bits() - i)]));
        }
        for _ in 0..60_000 {
            values.push(f64::from_bits(random() & !(1 << 63)));
            // ties: few bits after the point
            values.push((random() >> (20 + random() % 40)) as f64 / (1_u64 << (random() % 24)) as f64);
            values.push(f64::from((random() >> 40) as f32 / 4096.0));
        }
        for value in values.into_iter().filter(|value| value.is_finite()) {
            let n = 1 + (random() % MOST_DIGITS as u64) as usize;
            assert_eq!(
                significant(value, n),
                if value == 0.0 { (0, 0) } else { significant_of_text(value, n) },
                "{value:e} {n}"
            );
            let decimals = (random() % 20) as usize;
            let exact = format!("{value:.decimals$}").replace('.', "");
            if let Some(integer) = scaled(value, decimals as i32) {
                assert_eq!(Ok(integer), exact.parse(), "{value:e} {decimals}");
            } else {
                assert!(exact.parse::<u64>().is_err(), "{value:e} {decimals}");
            }
        }
    }
}
