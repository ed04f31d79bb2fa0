//! Lines of text: where they end, and how to step over many of them.

/// Bytes of the line at the start of `bytes`, including its line feed; `None` if there is no line feed.
pub fn line_len(bytes: &[u8]) -> Option<usize> {
    memchr::memchr(b'\n', bytes).map(|at| at + 1)
}

/// Bytes of the first `n` lines of `bytes`, including line feeds; if there are fewer, the number of whole lines.
pub fn lines_len(bytes: &[u8], n: usize) -> Result<usize, usize> {
    let mut left = n;
    let mut at = 0;
    // blocks are counted whole until the last line is in one
    while let Some(block) = bytes.get(at..at + BLOCK) {
        let count = line_feeds(block);
        if count >= left {
            break;
        }
        left -= count;
        at += BLOCK;
    }
    while left > 0 {
        at += line_len(&bytes[at..]).ok_or(n - left)?;
        left -= 1;
    }
    Ok(at)
}

/// A line without its line end, LF or CRLF.
pub fn trim_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Bytes that are counted at once.
const BLOCK: usize = 512;

/// Line feeds in a block.
#[inline]
fn line_feeds(block: &[u8]) -> usize {
    // sums of up to 128 fit into a byte, so that the compiler adds many at once
    block.chunks(128).map(|part| usize::from(part.iter().map(|&byte| u8::from(byte == b'\n')).sum::<u8>())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_any_length() {
        let mut text = Vec::new();
        let mut ends = vec![0];
        for i in 0..2000_usize {
            let len = [0, 1, 72, 5, 700, 0, 0][i * i % 7];
            text.resize(text.len() + len, b'x');
            text.push(b'\n');
            ends.push(text.len());
        }
        text.extend(b"no line");
        for (n, &end) in ends.iter().enumerate() {
            assert_eq!(lines_len(&text, n), Ok(end));
        }
        assert_eq!(lines_len(&text, 2001), Err(2000));
        assert_eq!(lines_len(&text, 5000), Err(2000));
        assert_eq!(lines_len(b"", 0), Ok(0));
        assert_eq!(lines_len(b"", 1), Err(0));
        assert_eq!(line_len(b"ab\ncd"), Some(3));
        assert_eq!(line_len(b"ab"), None);
        assert_eq!(trim_line_end(b"ab\r\n"), b"ab");
        assert_eq!(trim_line_end(b"ab\n"), b"ab");
        assert_eq!(trim_line_end(b"ab"), b"ab");
    }
}
