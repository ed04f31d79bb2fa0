//! Frames of text: each begins with a head of a few lines, which says how many lines follow.
//!
//! A format says how a head begins and what it means ([`TextFrames`]). The scan of [`super::scan`] does the rest, on
//! several threads, across damage and after a previous index. Lines end with LF or CRLF and may have any width; frames
//! may differ in their number of atoms, which a file whose header states one number refuses.

use super::scan::{FrameHead, FrameHeaders, HeaderFault};
use crate::container::text::lines::{lines_len, trim_line_end};
use crate::error::{Error, ErrorKind, Result};

/// Bytes of the longest head.
const LONGEST_HEAD: usize = 4 << 10;
/// Characters of a line that a message shows.
const SHOWN: usize = 40;

/// Contents of a frame's head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TextHead {
    pub n_atoms: u64,
    /// Lines of the frame after its head.
    pub lines: u64,
    pub step: i64,
    /// In the file's unit.
    pub time: f64,
}

/// How the frames of a text format begin.
pub(super) trait TextFrames: Sync {
    /// The format, for messages.
    const NAME: &'static str;
    /// Possible beginnings of the first line of a frame.
    const BEGINS: &'static [&'static [u8]];
    /// Lines of a head; of the shortest if they differ.
    const HEAD_LINES: usize;
    /// Bytes that [`TextFrames::further_lines`] looks at; 0 if heads say all lines.
    const FURTHER: usize = 0;

    /// Where the first frame begins.
    fn first(&self) -> u64;

    /// The number of atoms in every frame of the file; `None` if frames may differ.
    fn n_atoms(&self) -> Option<u32>;

    /// Bytes of the head at the start of `bytes`; if it is incomplete, the number of its whole lines.
    fn head_len(&self, bytes: &[u8]) -> std::result::Result<usize, usize> {
        lines_len(bytes, Self::HEAD_LINES)
    }

    /// Number of lines that follow the lines counted by the head, if the text continues with `next`.
    ///
    /// # Errors
    /// `Corrupt` if nothing of a frame begins so.
    fn further_lines(&self, next: &[u8]) -> Result<u64> {
        let _ = next;
        Ok(0)
    }

    /// Contents of a head, given its lines with their ends; `at` is their offset in the file.
    ///
    /// # Errors
    /// `Corrupt`, with the byte, if the lines are not a head.
    fn head(&self, lines: &[u8], at: u64) -> Result<TextHead>;
}

/// The heads of the frames of one file, for its scan.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextHeads<T>(pub T);

/// A head that was parsed.
#[derive(Debug, Clone, Copy)]
pub(super) struct ParsedHead {
    len: usize,
    head: TextHead,
}

/// The head of the frame whose bytes begin so, and its length. Errors have their place in the file; `offset` is the
/// frame's.
pub(super) fn head_of<T: TextFrames>(
    frames: &T,
    bytes: &[u8],
    offset: u64,
) -> std::result::Result<(TextHead, usize), HeaderFault> {
    let bytes = &bytes[..bytes.len().min(LONGEST_HEAD)];
    let is_blank = bytes.len() < LONGEST_HEAD && bytes.trim_ascii().is_empty();
    if is_blank && !bytes.is_empty() {
        return Err(HeaderFault::Short(bytes.len() + 1));
    }
    if !T::BEGINS.iter().any(|begins| bytes.starts_with(begins)) {
        if T::BEGINS.iter().any(|begins| begins.starts_with(bytes)) {
            return Err(HeaderFault::Short(bytes.len() + 1));
        }
        let expected: Vec<String> = T::BEGINS.iter().map(|begins| shown(begins)).collect();
        let error = Error::corrupt("what a frame begins with", expected.join(" or "), shown(bytes));
        return Err(HeaderFault::wrong(error, 0, offset));
    }
    match frames.head_len(bytes) {
        Ok(len) => {
            let head = frames.head(&bytes[..len], offset);
            head.map(|head| (head, len)).map_err(|error| HeaderFault::wrong(error, 0, offset))
        }
        Err(lines) if bytes.len() == LONGEST_HEAD => {
            let what = format!("wrong head of a frame, expected {} lines in {LONGEST_HEAD} bytes", T::HEAD_LINES);
            let error = Error::new(ErrorKind::Corrupt, format!("{what}, found {lines}"));
            Err(HeaderFault::wrong(error, 0, offset))
        }
        _ => Err(HeaderFault::Short(bytes.len() + 1)),
    }
}

/// The first line of some bytes, for messages.
pub(super) fn shown(bytes: &[u8]) -> String {
    let line = bytes.split_inclusive(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = trim_line_end(line);
    format!("\"{}\"", line[..line.len().min(SHOWN)].trim_ascii_end().escape_ascii())
}

/// Bytes of the longest.
const fn longest(texts: &[&[u8]]) -> usize {
    let (mut most, mut i) = (0, 0);
    while i < texts.len() {
        if texts[i].len() > most {
            most = texts[i].len();
        }
        i += 1;
    }
    most
}

impl<T: TextFrames> FrameHeaders for TextHeads<T> {
    type Header = ParsedHead;

    const NAME: &'static str = T::NAME;
    const LONGEST: usize = LONGEST_HEAD;
    const RECOGNISED: usize = longest(T::BEGINS);
    // a line that begins so, followed by numbers
    const UNMISTAKABLE: bool = true;
    const LINES: bool = true;
    const FURTHER: usize = T::FURTHER;

    fn further_lines(&self, next: &[u8]) -> Result<u64> {
        self.0.further_lines(next)
    }

    fn first(&self) -> u64 {
        self.0.first()
    }

    fn parse(&self, bytes: &[u8], offset: u64) -> std::result::Result<ParsedHead, HeaderFault> {
        head_of(&self.0, bytes, offset).map(|(head, len)| ParsedHead { len, head })
    }

    fn head(&self, &ParsedHead { len, head }: &ParsedHead) -> FrameHead {
        FrameHead { len, frame_len: len as u64, lines: head.lines, step: head.step, time: head.time }
    }

    fn refused(&self, header: &ParsedHead, offset: u64) -> Option<Error> {
        let expected = self.0.n_atoms().filter(|&n| u64::from(n) != header.head.n_atoms)?;
        let found = header.head.n_atoms;
        let what = format!("frames of different numbers of atoms are not read, expected {expected}, found {found}");
        Some(Error::new(ErrorKind::Unsupported, what).with_byte(offset))
    }

    fn resembles(&self, bytes: &[u8], at: usize) -> bool {
        bytes.get(at..).is_some_and(|bytes| T::BEGINS.iter().any(|begins| bytes.starts_with(begins)))
    }

    fn overlong(&self, offset: u64, header: &ParsedHead, most: u64, next: u64) -> Error {
        let expected = format!("{} within {most} bytes, as the next frame is at byte {next}", header.head.lines);
        Error::corrupt("wrong number of lines of a frame", expected, "fewer").with_byte(offset)
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
