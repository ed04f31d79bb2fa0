//! Text of numbers: lines, words, and reals and integers as Fortran programs read and write them.
//!
//! Numbers are parsed to the nearest value and written with the bytes of gfortran's formatted output.

mod decimal;
pub mod fortran;
pub mod lines;
mod real;

pub use self::real::{parse_f64, parse_reals, parse_three};

/// The blank-separated words of a line, with their positions in it; a line end counts as a blank.
#[derive(Debug, Clone)]
pub struct Words<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Words<'a> {
    /// Words of `line`.
    pub fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0 }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let left = self.line.get(self.at..)?;
        let start = self.at + left.iter().position(|&byte| !is_blank(byte))?;
        let word = &self.line[start..];
        let len = word.iter().position(|&byte| is_blank(byte)).unwrap_or(word.len());
        self.at = start + len;
        Some((start, &word[..len]))
    }
}

/// Whether a byte separates words: blank, tab, carriage return, line feed.
pub fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// One integer without blanks, with or without a sign; `None` for anything else and for what 64 bits do not hold.
pub fn parse_i64(word: &[u8]) -> Option<i64> {
    let (negative, digits) = match word {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_i64;
    for byte in digits {
        let digit = i64::from(byte.wrapping_sub(b'0'));
        if digit > 9 {
            return None;
        }
        // towards the sign, so that the smallest integer is read too
        value = value.checked_mul(10)?.checked_add(if negative { -digit } else { digit })?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_positions() {
        let words: Vec<_> = Words::new(b"  timestep\t 12 -3\r\n").collect();
        assert_eq!(words, [(2, &b"timestep"[..]), (12, b"12"), (15, b"-3")]);
        assert_eq!(Words::new(b" \r\n").count(), 0);
        assert_eq!(Words::new(b"").count(), 0);
    }

    #[test]
    fn integers_end_where_64_bits_do() {
        for value in [0, 7, -7, 1_000_000_007, i64::MAX, i64::MIN, i64::MIN + 1] {
            assert_eq!(parse_i64(value.to_string().as_bytes()), Some(value));
        }
        assert_eq!(parse_i64(b"+0012"), Some(12));
        for wrong in
            ["", "-", "+", "1.0", "1 ", " 1", "--1", "1e3", "9223372036854775808", "-9223372036854775809", "**"]
        {
            assert_eq!(parse_i64(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
