//! The blocks of the first frame, which all other frames share.

use super::NAME;
use super::head_of;
use crate::container::text::lines::{line_len, lines_len};
use crate::container::text::{Words, parse_f64, parse_i64};
use crate::error::{Error, ErrorKind, Result};
use crate::format::lines::{TextFrames, TextHead, shown};
use crate::format::scan::HeaderFault;
use crate::source::Source;

pub(super) const TITLE: &[u8] = b"TITLE";
pub(super) const TIMESTEP: &[u8] = b"TIMESTEP";
/// Beginnings of the names of blocks; RED follows in names of blocks without columns of the atoms.
pub(super) const POSITION: &[u8] = b"POSITION";
pub(super) const VELOCITY: &[u8] = b"VELOCITY";
pub(super) const BOX: &[u8] = b"BOX";
pub(super) const END: &[u8] = b"END";
/// Lines of the block of the cell.
const BOX_LINES: u64 = 3;
/// Characters of a column of a number.
pub(super) const COLUMN: usize = 15;
/// Bytes of a file that are read at a time when it is opened.
const WINDOW: u64 = 256 << 10;

/// The lines of each frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub n_atoms: u32,
    /// Lines of vectors between the name of a block and its end: one an atom, and comments.
    pub lines: u64,
    /// Whether the first frame has velocities.
    pub velocities: bool,
    /// Whether each frame ends with a block of the cell.
    pub cell: bool,
    /// Whether the first frame has a block of step and time.
    pub timed: bool,
}

/// A line without its end and the blanks before it.
pub(super) fn trimmed(line: &[u8]) -> &[u8] {
    line.trim_ascii_end()
}

/// Whether a file that begins so may be one.
pub(super) fn sniff(head: &[u8]) -> bool {
    let mut lines = head.split_inclusive(|&byte| byte == b'\n').map(trimmed);
    match lines.next() {
        Some(TITLE) => {
            let mut behind = lines.skip_while(|line| *line != END).skip(1);
            // a title may be longer than the bytes that are looked at
            behind.next().is_none_or(|line| {
                [TIMESTEP, POSITION].into_iter().any(|name| line.starts_with(name) || name.starts_with(line))
            })
        }
        Some(TIMESTEP) => lines.nth(1) == Some(END),
        _ => false,
    }
}

impl TextFrames for Shape {
    const NAME: &'static str = NAME;
    const BEGINS: &'static [&'static [u8]] = &[TITLE, TIMESTEP];
    const HEAD_LINES: usize = 3;
    const FURTHER: usize = VELOCITY.len();

    fn first(&self) -> u64 {
        0
    }

    fn n_atoms(&self) -> Option<u32> {
        // heads do not say it
        None
    }

    fn head_len(&self, bytes: &[u8]) -> std::result::Result<usize, usize> {
        let (mut at, mut n_lines) = (0, 0);
        for name in [TITLE, TIMESTEP] {
            let whole = |at: usize, n_lines: usize| line_len(&bytes[at..]).ok_or(n_lines);
            let mut len = whole(at, n_lines)?;
            if !bytes[at..].starts_with(name) {
                continue;
            }
            while trimmed(&bytes[at..at + len]) != END {
                (at, n_lines) = (at + len, n_lines + 1);
                len = whole(at, n_lines)?;
            }
            (at, n_lines) = (at + len, n_lines + 1);
        }
        Ok(at)
    }

    fn further_lines(&self, next: &[u8]) -> Result<u64> {
        let may_be = |name: &[u8]| next.starts_with(name) || name.starts_with(next);
        match () {
            () if !self.cell => Ok(0),
            () if may_be(BOX) => Ok(BOX_LINES),
            () if may_be(VELOCITY) => Ok(self.block_lines() + BOX_LINES),
            () => {
                let what = format!("block after {} lines of positions", self.lines);
                Err(Error::corrupt(&what, "VELOCITYRED or BOX", shown(next)))
            }
        }
    }

    fn head(&self, lines: &[u8], at: u64) -> Result<TextHead> {
        let mut rest = lines;
        let mut next = || {
            let (line, behind) = rest.split_at(line_len(rest).unwrap_or(rest.len()));
            rest = behind;
            trimmed(line)
        };
        let wrong =
            |what: &str, expected: &str, found: &[u8]| Error::corrupt(what, expected, shown(found)).with_byte(at);
        let mut name = next();
        if name.starts_with(TITLE) {
            if name != TITLE {
                return Err(wrong("what a frame begins with", "TITLE", name));
            }
            // each line has a byte at least
            if !(0..lines.len()).any(|_| next() == END) {
                return Err(wrong("end of TITLE", "END", b""));
            }
            name = next();
        }
        let vectors = if self.velocities && !self.cell { 2 } else { 1 };
        let head = TextHead {
            n_atoms: u64::from(self.n_atoms),
            lines: self.block_lines().saturating_mul(vectors),
            step: 0,
            time: f64::NAN,
        };
        if name.is_empty() {
            return Ok(head);
        }
        if name != TIMESTEP {
            return Err(wrong("block of a frame", "TIMESTEP", name));
        }
        let numbers = next();
        let (step, time) = step_and_time(numbers).ok_or_else(|| wrong("TIMESTEP", "step and time", numbers))?;
        let end = next();
        if end != END {
            return Err(wrong("end of TIMESTEP", "END", end));
        }
        Ok(TextHead { step, time, ..head })
    }
}

/// Words, or columns if one number fills its own.
fn step_and_time(line: &[u8]) -> Option<(i64, f64)> {
    let parsed = |step: &[u8], time: &[u8]| Some((parse_i64(step)?, parse_f64(time)?));
    let words: Vec<&[u8]> = Words::new(line).map(|(_, word)| word).collect();
    let found = match words[..] {
        [step, time] => parsed(step, time),
        _ => {
            let (step, time) = line.split_at_checked(COLUMN)?;
            parsed(step.trim_ascii(), time.trim_ascii())
        }
    };
    found.filter(|(_, time)| !time.is_infinite())
}

impl Shape {
    /// A frame of which nothing is known yet.
    const UNKNOWN: Self = Self { n_atoms: 0, lines: 0, velocities: false, cell: false, timed: true };

    /// Lines of a block of vectors with its name and end.
    pub fn block_lines(&self) -> u64 {
        self.lines.saturating_add(2)
    }

    /// Whether there are comments among the lines of atoms.
    pub fn has_comments(&self) -> bool {
        self.lines != u64::from(self.n_atoms)
    }

    /// The shape of the first frame, and its title.
    ///
    /// # Errors
    /// `Truncated` if the file ends before that frame does; `Corrupt` and `Unsupported` with the byte for other blocks.
    pub fn read(source: &dyn Source) -> Result<(Self, String)> {
        let place = |error: Error| error.with_frame(0).with_format(NAME).with_path(source.path());
        Text::new(source).and_then(|mut text| text.first_frame()).map_err(place)
    }
}

/// The lines of a file, one after the other.
struct Text<'a> {
    source: &'a dyn Source,
    len: u64,
    /// Where the bytes begin, and the line among them.
    start: u64,
    at: usize,
    bytes: Vec<u8>,
}

impl<'a> Text<'a> {
    fn new(source: &'a dyn Source) -> Result<Self> {
        let mut text = Self { source, len: source.len()?, start: 0, at: 0, bytes: Vec::new() };
        text.fill()?;
        Ok(text)
    }

    fn byte(&self) -> u64 {
        self.start + self.at as u64
    }

    /// Reads on from the line.
    fn fill(&mut self) -> Result<()> {
        (self.start, self.at) = (self.byte(), 0);
        self.bytes.resize((self.len - self.start).min(WINDOW) as usize, 0);
        self.source.read_exact_at(self.start, &mut self.bytes)
    }

    /// The next line; `None` at the end of the file and of a line that is not whole.
    fn line(&mut self) -> Result<Option<&[u8]>> {
        if line_len(&self.bytes[self.at..]).is_none() {
            self.fill()?;
        }
        let at = self.at;
        let Some(len) = line_len(&self.bytes[at..]) else {
            let is_end = self.start + self.bytes.len() as u64 == self.len;
            return if is_end { Ok(None) } else { Err(Error::corrupt("length of a line", "less", WINDOW)) };
        };
        self.at += len;
        Ok(Some(trimmed(&self.bytes[at..at + len])))
    }

    fn ends_early(&self) -> Error {
        let what = "the file ends in the middle of its first frame, expected the lines of its blocks, found fewer";
        Error::new(ErrorKind::Truncated, what).with_byte(self.len)
    }

    fn first_frame(&mut self) -> Result<(Shape, String)> {
        let (_, head_len) = head_of(&Shape::UNKNOWN, &self.bytes, 0).map_err(|fault| match fault {
            HeaderFault::Wrong(error) => error,
            HeaderFault::Short(_) => self.ends_early(),
        })?;
        let head = &self.bytes[..head_len];
        let lines = || head.split_inclusive(|&byte| byte == b'\n').map(trimmed);
        let title = lines().skip(1).take_while(|line| head.starts_with(TITLE) && *line != END);
        // GROMACS writes arbitrary bytes if it has no title
        let title: Vec<&str> = title.map(|line| std::str::from_utf8(line).map_or("", str::trim)).collect();
        let title = title.join(" ").replace(|c: char| c.is_control(), "");
        let timed = lines().skip_while(|line| *line != END).nth(1) == Some(TIMESTEP) || head.starts_with(TIMESTEP);
        self.at = head_len;
        let positions = self.byte();
        let name = self.line()?.map(<[u8]>::to_vec).ok_or_else(|| self.ends_early())?;
        if !name.starts_with(POSITION) {
            return Err(unread(&name, "POSITION or POSITIONRED").with_byte(positions));
        }
        let (lines, comments) = self.block()?;
        let n_atoms = u32::try_from(lines - comments)
            .ok()
            .filter(|&n| n > 0)
            .ok_or_else(|| Error::corrupt("number of atoms", "1 to 2^32 - 1", lines - comments).with_byte(positions))?;
        let mut shape = Shape { n_atoms, lines, velocities: false, cell: false, timed };
        let mut byte = self.byte();
        let mut next = self.line()?.map(<[u8]>::to_vec);
        if next.as_deref().is_some_and(|name| name.starts_with(VELOCITY)) {
            let found = self.block()?;
            if found != (lines, comments) {
                return Err(Error::corrupt("lines of velocities", lines, found.0).with_byte(byte));
            }
            shape.velocities = true;
            byte = self.byte();
            next = self.line()?.map(<[u8]>::to_vec);
        }
        match next {
            // a BOX may be to come: without one, another frame shows that there is none
            None => return Err(self.ends_early()),
            Some(name) if name == BOX => {
                let found = self.block()?.0;
                if found != BOX_LINES - 2 {
                    return Err(Error::corrupt("lines of the cell", BOX_LINES - 2, found).with_byte(byte));
                }
                shape.cell = true;
            }
            Some(name) if name != TITLE && name != TIMESTEP && !name.is_empty() => {
                return Err(unread(&name, "VELOCITY, VELOCITYRED, BOX, TITLE or TIMESTEP").with_byte(byte));
            }
            _ => {}
        }
        Ok((shape, title.trim().to_owned()))
    }

    /// Steps over the lines of a block and its end; returns the number of lines, and how many of them are comments.
    fn block(&mut self) -> Result<(u64, u64)> {
        let (mut lines, mut comments) = (0, 0);
        loop {
            let Some(line) = self.line()? else { return Err(self.ends_early()) };
            if line == END {
                return Ok((lines, comments));
            }
            lines += 1;
            comments += u64::from(line.starts_with(b"#"));
        }
    }
}

fn unread(name: &[u8], expected: &str) -> Error {
    let what = format!("block of a frame that is not read, expected {expected}, found {}", shown(name));
    Error::new(ErrorKind::Unsupported, what)
}

/// Bytes of this number of lines at the start of `bytes`.
pub(super) fn skipped(bytes: &[u8], lines: u64) -> Option<usize> {
    lines_len(bytes, usize::try_from(lines).ok()?).ok()
}
