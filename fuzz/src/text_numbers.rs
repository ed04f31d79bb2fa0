//! Bytes as lines of numbers, and as a number that is written. Laws: no panic; values equal those of the standard
//! library; a field has its width and is read back as the nearest value to its digits; lines are counted as if one by
//! one.

use kinema_core::container::text::fortran::{put_e, put_f, put_g20_10, put_i, put_text};
use kinema_core::container::text::lines::{lines_len, trim_line_end};
use kinema_core::container::text::{Words, parse_f64, parse_i64, parse_three};

/// Reads the bytes as text, and writes the first eight of them as a number.
pub fn read_and_write(data: &[u8]) {
    for line in data.split_inclusive(|&byte| byte == b'\n') {
        read(line);
    }
    let whole = data.iter().filter(|&&byte| byte == b'\n').count();
    for n in [0, 1, whole / 2, whole, whole + 1] {
        let naive: usize = data.split_inclusive(|&byte| byte == b'\n').take(n).map(<[u8]>::len).sum();
        assert_eq!(lines_len(data, n), if n <= whole { Ok(naive) } else { Err(whole) });
    }
    if let Some((bits, rest)) = data.split_first_chunk::<8>() {
        write(f64::from_le_bytes(*bits), rest);
    }
}

fn read(line: &[u8]) {
    let words: Vec<(usize, &[u8])> = Words::new(trim_line_end(line)).collect();
    let mut values = Vec::new();
    for &(at, word) in &words {
        assert_eq!(&line[at..at + word.len()], word);
        let value = parse_f64(word);
        values.push(value);
        let text = std::str::from_utf8(word).ok();
        let plain = text.and_then(|text| text.parse::<f64>().ok()).filter(|value| value.is_finite());
        if let Some(expected) = plain {
            assert_eq!(value.map(f64::to_bits), Some(expected.to_bits()), "{text:?}");
        }
        if let Some(integer) = parse_i64(word) {
            assert_eq!(text.and_then(|text| text.parse().ok()), Some(integer), "{text:?}");
        }
    }
    let expected = match values[..] {
        [Some(x), Some(y), Some(z), ..] => Some([x, y, z].map(f64::to_bits)),
        _ => None,
    };
    assert_eq!(parse_three(line).map(|(three, _)| three.map(f64::to_bits)), expected);
}

fn write(value: f64, rest: &[u8]) {
    let (width, decimals) =
        (usize::from(*rest.first().unwrap_or(&9)) % 40, usize::from(*rest.get(1).unwrap_or(&3)) % 30);
    let mut out = Vec::new();
    put_f(&mut out, value, width, decimals);
    check(&out, width);
    out.clear();
    put_e(&mut out, value, width, decimals.min(17));
    check(&out, width);
    out.clear();
    put_i(&mut out, value.to_bits().cast_signed(), width);
    assert_eq!(out.len(), width);
    out.clear();
    put_text(&mut out, rest, width);
    assert_eq!(out.len(), width);
    out.clear();
    put_g20_10(&mut out, value);
    check(&out, 20);
    let read = parse_f64(out.trim_ascii());
    if value.is_nan() {
        assert!(read.is_some_and(f64::is_nan));
    } else if value.abs() < 1.797_693_134e308 && value.abs() > 1e-300 || value == 0.0 {
        let read = read.expect("a number");
        assert!((read - value).abs() <= value.abs() * 0.51e-9 && read.is_sign_negative() == value.is_sign_negative());
    }
}

/// Checks the width, and that a field has asterisks only if it has nothing else.
fn check(field: &[u8], width: usize) {
    assert_eq!(field.len(), width);
    assert!(!field.contains(&b'*') || field.iter().all(|&byte| byte == b'*'));
}
