//! Text files: words of lines, numbers as Fortran reads them.

pub mod fortran;

/// A Fortran real without blanks; `None` for what is none.
pub fn parse_f64(word: &[u8]) -> Option<f64> {
    if let Some(value) = parse_short(word) {
        return Some(value);
    }
    let text = std::str::from_utf8(word).ok()?;
    if !text.ends_with(|last: char| last.is_ascii_alphanumeric() || last == '.') {
        return None;
    }
    let mut plain = text.replace(['d', 'D'], "e");
    if plain.contains(|c: char| c.is_ascii_digit())
        && !plain.contains(['e', 'E'])
        && let Some(at) = plain.rfind(['+', '-']).filter(|&at| at > 0)
    {
        // an exponent of three digits has no letter
        plain.insert(at, 'e');
    }
    plain.parse().ok()
}

/// At most 15 digits and a point: exact as a quotient of two numbers that float64 holds.
fn parse_short(word: &[u8]) -> Option<f64> {
    let (negative, digits) = match word {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let (mut value, mut n_digits, mut decimals) = (0_u64, 0, None);
    for &byte in digits {
        match byte {
            b'0'..=b'9' => {
                value = 10 * value + u64::from(byte - b'0');
                n_digits += 1;
                decimals = decimals.map(|decimals| decimals + 1);
            }
            b'.' if decimals.is_none() => decimals = Some(0),
            _ => return None,
        }
    }
    if n_digits == 0 || n_digits > 15 {
        return None;
    }
    const POWERS: [f64; 16] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    let value = value as f64 / POWERS[decimals.unwrap_or(0)];
    Some(if negative { -value } else { value })
}

/// A whole number without blanks.
pub fn parse_i64(word: &[u8]) -> Option<i64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// The words of a line that blanks separate, each with its first byte in the line.
#[derive(Debug, Clone)]
pub struct Words<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Words<'a> {
    /// The words of this line.
    pub fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0 }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.line.get(self.at..)?;
        let start = self.at + rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
        let word = &self.line[start..];
        let word = &word[..word.iter().position(u8::is_ascii_whitespace).unwrap_or(word.len())];
        self.at = start + word.len();
        Some((start, word))
    }
}
