//! Text of numbers beside gfortran's: every field of the golden file, written and read.

#[path = "common/fortran_values.rs"]
mod fortran_values;

use fortran_values::{FORMATS, format_of, integer, put, value};
use kinema_core::container::text::{parse_f64, parse_i64};

/// The fields that gfortran has written; `tests/data/fortran/PROVENANCE.md`.
fn golden() -> Vec<u8> {
    let packed = include_bytes!("data/fortran/fields.txt.gz");
    // the last four bytes of a gzip file are the size of its content
    let size = u32::from_le_bytes(*packed.last_chunk().unwrap()) as usize;
    let mut text = vec![0; size];
    let len = libdeflater::Decompressor::new().gzip_decompress(packed, &mut text).unwrap();
    text.truncate(len);
    text
}

fn fields(text: &[u8]) -> impl Iterator<Item = (u64, &'static str, u64, &str)> {
    let lines = std::str::from_utf8(text).unwrap().lines();
    (0..).zip(lines).map(|(number, line)| (number, format_of(number), value(1, number), line))
}

#[test]
fn every_field_has_the_bytes_of_gfortran() {
    let text = golden();
    let mut counts = FORMATS.map(|_| 0);
    for (number, format, bits, line) in fields(&text) {
        let mut field = b"before".to_vec();
        put(&mut field, bits, format);
        let ours = std::str::from_utf8(&field[6..]).unwrap();
        assert_eq!(ours, line, "value {number}, {:e} as {format}", f64::from_bits(bits));
        counts[FORMATS.iter().position(|&one| one == format).unwrap()] += 1;
    }
    assert_eq!(counts.iter().sum::<u32>(), 100_000);
    assert_eq!(counts.iter().filter(|&&count| count > 8000).count(), 9, "fields of each format");
}

#[test]
fn every_field_is_read_as_the_nearest_value() {
    let text = golden();
    let (mut numbers, mut overflows) = (0, 0);
    for (number, format, bits, line) in fields(&text) {
        let word = line.trim();
        if format == "a8" {
            continue;
        }
        if format == "i10" {
            let expected = (!word.contains('*')).then(|| integer(bits));
            assert_eq!(parse_i64(word.as_bytes()), expected, "value {number}");
            continue;
        }
        let found = parse_f64(word.as_bytes());
        if word.contains('*') {
            assert_eq!(found, None);
        } else if word == "NaN" {
            assert!(found.is_some_and(f64::is_nan));
        } else {
            let expected = with_letter(word).parse::<f64>().unwrap();
            let expected = (expected.is_finite() || word.contains("Inf")).then_some(expected);
            assert_eq!(found.map(f64::to_bits), expected.map(f64::to_bits), "value {number}: {word}");
            numbers += 1;
            // the largest float64, rounded up
            overflows += u32::from(expected.is_none());
        }
    }
    assert!(numbers > 60_000 && overflows > 0, "{numbers} {overflows}");
}

/// As the standard library reads it: with the letter that three digits of an exponent leave no room for.
fn with_letter(word: &str) -> String {
    let sign = word.rfind(['+', '-']).filter(|&at| at > 0 && !word.contains('E'));
    sign.map_or(word.to_owned(), |at| format!("{}E{}", &word[..at], &word[at..]))
}
