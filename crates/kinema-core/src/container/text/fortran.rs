//! Numbers as gfortran writes them.

use std::io::Write;

fn put_right(out: &mut Vec<u8>, text: &str, width: usize) {
    if text.len() > width {
        out.resize(out.len() + width, b'*');
    } else {
        out.resize(out.len() + width - text.len(), b' ');
        out.extend_from_slice(text.as_bytes());
    }
}

fn put_no_number(out: &mut Vec<u8>, value: f64, width: usize) {
    let text = match (value.is_nan(), value > 0.0, width >= 8) {
        (true, ..) => "NaN",
        (_, true, true) => "Infinity",
        (_, true, false) => "Inf",
        (_, false, _) if width >= 9 => "-Infinity",
        (..) => "-Inf",
    };
    put_right(out, text, width);
}

/// G20.10.
pub fn put_g20_10(out: &mut Vec<u8>, value: f64) {
    if !value.is_finite() {
        return put_no_number(out, value, 20);
    }
    // rounded to ten digits first: that decides the form
    let rounded = format!("{value:.9e}");
    let (mantissa, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value == 0.0 || (-1..10).contains(&exponent) {
        let decimals = if value == 0.0 { 9 } else { 9 - exponent };
        let text = format!("{value:.*}", decimals as usize);
        let text = if decimals == 0 { format!("{text}.") } else { text };
        put_right(out, &text, 16);
        out.extend_from_slice(b"    ");
        return;
    }
    let (sign, digits) = mantissa.strip_prefix('-').map_or(("", mantissa), |digits| ("-", digits));
    let digits: String = digits.chars().filter(|digit| *digit != '.').collect();
    let exponent = exponent + 1;
    let mark = if exponent < 0 { '-' } else { '+' };
    let text = match exponent.abs() {
        short @ ..100 => format!("{sign}0.{digits}E{mark}{short:02}"),
        long => format!("{sign}0.{digits}{mark}{long:03}"),
    };
    put_right(out, &text, 20);
}

/// Fw.d.
pub fn put_f(out: &mut Vec<u8>, value: f64, width: usize, decimals: usize) {
    if !value.is_finite() {
        return put_no_number(out, value, width);
    }
    let start = out.len();
    // no allocation, and Vec never fails
    let _ = write!(out, "{value:width$.decimals$}");
    if out.len() - start > width {
        out.truncate(start);
        put_right(out, &format!("{value:.decimals$}").replacen("0.", ".", 1), width);
    }
}

/// 1PEw.d.
pub fn put_e(out: &mut Vec<u8>, value: f64, width: usize, decimals: usize) {
    if !value.is_finite() {
        return put_no_number(out, value, width);
    }
    let rounded = format!("{value:.decimals$e}");
    let (mantissa, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let mark = if exponent < 0 { '-' } else { '+' };
    let text = match exponent.abs() {
        short @ ..100 => format!("{mantissa}E{mark}{short:02}"),
        long => format!("{mantissa}{mark}{long:03}"),
    };
    put_right(out, &text, width);
}

/// Iw.
pub fn put_i(out: &mut Vec<u8>, value: i64, width: usize) {
    put_right(out, &value.to_string(), width);
}

/// Aw: cut, or padded with blanks behind.
pub fn put_text(out: &mut Vec<u8>, text: &[u8], width: usize) {
    let text = &text[..text.len().min(width)];
    out.extend_from_slice(text);
    out.resize(out.len() + width - text.len(), b' ');
}
