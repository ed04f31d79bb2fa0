//! Formatted output as gfortran writes it, byte for byte: Fw.d, 1PEw.d, G20.10, Iw, Aw.

use super::decimal::{MOST_DIGITS, digits, scaled, significant};

/// Where G20.10 changes from one number of decimals to the next: the power of ten less what rounds up to it, in the
/// float64 arithmetic of gfortran's library; exact arithmetic differs in the last bit of some.
const G_BORDERS: [f64; 12] = {
    let almost = 1.0 - 0.5 / 1e10;
    let mut borders = [0.1 * almost; 12];
    let (mut ten, mut i) = (1.0, 1);
    while i < borders.len() {
        borders[i] = ten * almost;
        ten *= 10.0;
        i += 1;
    }
    borders
};

/// Appends `value` as Fw.d: `width` characters, `decimals` of them after the point; asterisks if it does not fit.
pub fn put_f(out: &mut Vec<u8>, value: f64, width: usize, decimals: usize) {
    let field = field(out, width);
    if !value.is_finite() {
        return not_finite(field, value);
    }
    let magnitude = value.abs();
    match scaled(magnitude, decimals as i32) {
        Some(integer) if decimals < 20 => fixed(field, value.is_sign_negative(), &digits(integer), decimals),
        _ => {
            let text = format!("{magnitude:.decimals$}").replace('.', "");
            fixed(field, value.is_sign_negative(), text.as_bytes(), decimals);
        }
    }
}

/// Whether the value is that of its text with this number of decimals; true of NaN.
pub fn holds(value: f64, decimals: i32) -> bool {
    let scale = 10_f64.powi(decimals);
    let whole = (value * scale).round();
    value.is_nan() || whole.abs() < 9e15 && whole / scale == value
}

/// Appends `value` as 1PEw.d: one digit before the point, `decimals` (up to 17) after it, and an exponent of two
/// digits, or of three without its letter.
pub fn put_e(out: &mut Vec<u8>, value: f64, width: usize, decimals: usize) {
    debug_assert!(decimals < MOST_DIGITS, "more digits than are counted");
    let field = field(out, width);
    if !value.is_finite() {
        return not_finite(field, value);
    }
    let (integer, power) = significant(value.abs(), decimals + 1);
    scientific(field, value.is_sign_negative(), &digits(integer)[23 - decimals..], 1, power);
}

/// Appends `value` as G20.10: ten significant digits, as F16.d and four blanks from 0.1 to 10^10, else as E20.10.
pub fn put_g20_10(out: &mut Vec<u8>, value: f64) {
    let magnitude = value.abs();
    if (G_BORDERS[0]..G_BORDERS[11]).contains(&magnitude) {
        // digits before the point: at most one more than the binary exponent says
        let binary = (magnitude.to_bits() >> 52) as i32 - 1023;
        let mut whole = ((binary.max(0) * 1233) >> 12) as usize;
        while magnitude >= G_BORDERS[whole + 1] {
            whole += 1;
        }
        put_f(out, value, 16, 10 - whole);
        out.extend(b"    ");
    } else if magnitude == 0.0 {
        put_f(out, value, 16, 9);
        out.extend(b"    ");
    } else {
        let field = field(out, 20);
        if !value.is_finite() {
            return not_finite(field, value);
        }
        let (integer, power) = significant(magnitude, 10);
        scientific(field, value.is_sign_negative(), &digits(integer)[14..], 0, power + 1);
    }
}

/// Appends `value` as Iw.
pub fn put_i(out: &mut Vec<u8>, value: i64, width: usize) {
    let field = field(out, width);
    let digits = digits(value.unsigned_abs());
    let digits = &digits[zeros(&digits).min(23)..];
    let len = digits.len() + usize::from(value < 0);
    let Some(start) = width.checked_sub(len) else { return field.fill(b'*') };
    if value < 0 {
        field[start] = b'-';
    }
    field[width - digits.len()..].copy_from_slice(digits);
}

/// Appends `text` as Aw of a character variable of that length: cut, or padded with blanks.
pub fn put_text(out: &mut Vec<u8>, text: &[u8], width: usize) {
    let field = field(out, width);
    let len = text.len().min(width);
    field[..len].copy_from_slice(&text[..len]);
}

/// `width` blanks at the end of `out`.
fn field(out: &mut Vec<u8>, width: usize) -> &mut [u8] {
    let start = out.len();
    out.resize(start + width, b' ');
    &mut out[start..]
}

/// Zeros at the start of `digits`.
fn zeros(digits: &[u8]) -> usize {
    digits.iter().position(|&digit| digit != b'0').unwrap_or(digits.len())
}

/// The number whose last `decimals` digits follow the point. The zero before the point is left out if it does not fit.
#[inline]
fn fixed(field: &mut [u8], negative: bool, digits: &[u8], decimals: usize) {
    // never empty: there are more digits than decimals
    let whole = digits.len() - decimals;
    let first = zeros(&digits[..whole]).min(whole - 1);
    let len = digits.len() - first + 1 + usize::from(negative);
    let (first, len) = match len.checked_sub(field.len()) {
        Some(1) if decimals > 0 && first == whole - 1 && digits[first] == b'0' => (whole, len - 1),
        Some(1..) => return field.fill(b'*'),
        _ => (first, len),
    };
    let point = field.len() - decimals - 1;
    let start = field.len() - len;
    if negative {
        field[start] = b'-';
    }
    field[point + first - whole..point].copy_from_slice(&digits[first..whole]);
    field[point] = b'.';
    field[point + 1..].copy_from_slice(&digits[whole..]);
}

/// The number of these significant digits, `before` (0 or 1) of them before the point, times 10^`power`.
#[inline]
fn scientific(field: &mut [u8], negative: bool, digits: &[u8], before: usize, power: i32) {
    let len = usize::from(negative) + 1 + 1 + digits.len() - before + 4;
    let Some(start) = field.len().checked_sub(len) else { return field.fill(b'*') };
    let field = &mut field[start..];
    let field = if negative {
        field[0] = b'-';
        &mut field[1..]
    } else {
        field
    };
    field[0] = if before == 1 { digits[0] } else { b'0' };
    field[1] = b'.';
    let exponent = field.len() - 4;
    field[2..exponent].copy_from_slice(&digits[before..]);
    let (sign, size) = (if power < 0 { b'-' } else { b'+' }, power.unsigned_abs());
    let [hundreds, tens, ones] = [size / 100, size / 10 % 10, size % 10].map(|digit| b'0' + digit as u8);
    let exponent = &mut field[exponent..];
    exponent.copy_from_slice(&if size < 100 { [b'E', sign, tens, ones] } else { [sign, hundreds, tens, ones] });
}

/// NaN, or the longest name of infinity that fits.
#[cold]
fn not_finite(field: &mut [u8], value: f64) {
    let negative = value.is_sign_negative();
    let names: &[&[u8]] = match (value.is_nan(), negative) {
        (true, _) => &[b"NaN"],
        (false, true) => &[b"-Infinity", b"-Inf"],
        (false, false) => &[b"Infinity", b"Inf"],
    };
    match names.iter().find(|name| name.len() <= field.len()) {
        Some(name) => {
            let start = field.len() - name.len();
            field[start..].copy_from_slice(name);
        }
        None => field.fill(b'*'),
    }
}
