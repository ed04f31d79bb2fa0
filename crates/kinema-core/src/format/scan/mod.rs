//! Scan of files of consecutive frames, each with a header that states its length: the scan hops from header to header
//! and does not read coordinates. In text, it counts the lines of each frame.
//!
//! Large files are divided into byte ranges that are scanned in parallel: each scan begins at the first header in its
//! range and ends at the first header of the next. If two scans do not meet, the second range is scanned again from
//! where the scan before ended. So the index equals that of a scan from the start, whatever the bytes.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Scan, ScanOptions};
use crate::container::text::lines::lines_len;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Index, TableBuilder, TableIndex};
use crate::source::Source;

mod by_headers;
mod compare;
mod resync;
pub(super) mod uniform;

pub use by_headers::HeaderScan;
use compare::compare_frame;
pub use uniform::{FrameStamp, FrameStamps, ReadStamp, UniformFrames};

/// Why a header could not be had; byte numbers count from the start of the frame.
#[derive(Debug, Clone)]
pub(super) enum HeaderFault {
    /// The given bytes are sound as far as they go, but this many are needed.
    Short(usize),
    /// The bytes contradict the format.
    Wrong(Error),
}

impl HeaderFault {
    /// At byte `at` of a frame that lies at `frame_offset`.
    pub fn wrong(error: Error, at: usize, frame_offset: u64) -> Self {
        Self::Wrong(error.with_byte(frame_offset.saturating_add(at as u64)))
    }
}

/// Facts of a frame that a scan learns from its header.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameHead {
    /// Bytes from the start of the frame to its body.
    pub len: usize,
    /// Bytes of the whole frame, or of its header if its lines must be counted.
    pub frame_len: u64,
    /// Number of lines after the header, in text; 0 if the header states the frame's length.
    pub lines: u64,
    pub step: i64,
    /// ps
    pub time: f64,
}

/// The headers of one file.
pub(super) trait FrameHeaders: Sync {
    /// A header that was parsed and checked.
    type Header: Copy;

    /// The format, for messages.
    const NAME: &'static str;
    /// Bytes that hold any header whole.
    const LONGEST: usize;
    /// Bytes that [`FrameHeaders::resembles`] looks at.
    const RECOGNISED: usize;
    /// Whether what parses as a header is one beyond doubt, whatever follows the frame: numbers do not look like it.
    const UNMISTAKABLE: bool = false;
    /// Whether files are text: frames consist of lines, begin at the start of a line, and may have any number of bytes.
    const LINES: bool = false;

    /// Where the first frame begins.
    fn first(&self) -> u64 {
        0
    }

    /// Bytes that [`FrameHeaders::further_lines`] looks at, of text whose headers do not say all lines; 0 if they do.
    const FURTHER: usize = 0;

    /// Number of lines that follow the lines counted by the header, if the text continues with `next`.
    ///
    /// # Errors
    /// `Corrupt` if nothing of a frame begins so.
    fn further_lines(&self, next: &[u8]) -> Result<u64> {
        let _ = next;
        Ok(0)
    }

    /// Parses the header at the start of `bytes`, which lie at `offset` in the file. A header of another number of atoms than
    /// the file's is wrong, or refused.
    fn parse(&self, bytes: &[u8], offset: u64) -> std::result::Result<Self::Header, HeaderFault>;

    /// Contents of a header.
    fn head(&self, header: &Self::Header) -> FrameHead;

    /// Why a sound frame is none of this file, so that it is not opened: its number of atoms.
    fn refused(&self, header: &Self::Header, offset: u64) -> Option<Error> {
        let _ = (header, offset);
        None
    }

    /// Whether there may be a header at byte `at` of `bytes`; quick.
    fn resembles(&self, bytes: &[u8], at: usize) -> bool;

    /// A frame whose header, at `offset`, claims more than the `most` bytes before the next frame, at `next`.
    fn overlong(&self, offset: u64, header: &Self::Header, most: u64, next: u64) -> Error;

    /// Bytes of the body according to the header, if the body itself shows whether that is true; else `None`.
    fn stated_body(&self, header: &Self::Header) -> Option<u64> {
        let _ = header;
        None
    }

    /// Bytes that the frame's body takes at the beginning of `body`, if it can be decoded.
    fn found_body(&self, offset: u64, header: &Self::Header, body: &[u8]) -> Option<u64> {
        let _ = (offset, header, body);
        None
    }
}

/// Placeholder at the beginning of a record that several processes are writing (`docs/parallel-writing.md`). The
/// record's first bytes replace it once all of the record is there, so that the remains of a killed run are not taken
/// for damage.
pub(super) const UNFINISHED: &[u8; 4] = b"KINE";

/// The end of a file at [`UNFINISHED`].
pub(super) fn unfinished(offset: u64) -> Error {
    let what = "the frame was not finished, as the processes that wrote it were ended; the file is used up to it";
    Error::new(ErrorKind::Truncated, what).with_byte(offset)
}

/// The error of a frame that should have `needs` bytes from `offset` on, if the file has `len` in all.
pub(super) fn ends_early(offset: u64, needs: u64, len: u64) -> Error {
    let found = len.saturating_sub(offset);
    Error::new(
        ErrorKind::Truncated,
        format!("the file ends in the middle of a frame, expected {needs} bytes, found {found}"),
    )
    .with_byte(offset)
}

/// The error of a frame at `offset` that should have `needs` lines after its header, if the file has fewer.
fn lacks_lines(offset: u64, needs: u64, found: u64) -> Error {
    Error::new(
        ErrorKind::Truncated,
        format!("the file ends in the middle of a frame, expected {needs} lines, found {found}"),
    )
    .with_byte(offset)
}

/// From this many bytes on a scan with several workers is done in ranges: below, starting threads costs more.
pub(super) const PARALLEL_FROM: u64 = 64 << 20;
/// Frames up to this size are read with all that is between their headers: cheaper than a call for each.
const SMALL_FRAME: u64 = 8 << 10;
/// Bytes read at once if frames are small or a header is searched.
pub(super) const WINDOW: u64 = 256 << 10;
/// Frames, or bytes of text, between two reports of progress.
const REPORT_EVERY: u64 = 4096;
const REPORT_TEXT_EVERY: u64 = 64 << 20;

/// Finds all frames; files of `parallel_from` bytes or more on several threads.
pub(super) fn scan<H: FrameHeaders>(
    source: &dyn Source,
    headers: &H,
    options: &ScanOptions<'_>,
    parallel_from: u64,
) -> Result<Scan> {
    finished(source, headers, options, |file, frames, report| {
        let todo = frames.builder.end()..file.len;
        if options.workers > 1 && todo.end - todo.start >= parallel_from.max(1) {
            file.walk_in_ranges(frames, todo, options.workers, report)
        } else {
            file.walk(frames, file.len, report)
        }
    })
}

/// Finds all frames, given the indices of ascending byte ranges; ranges that do not meet are walked again.
pub(super) fn scan_with_ranges<H: FrameHeaders>(
    source: &dyn Source,
    headers: &H,
    options: &ScanOptions<'_>,
    ranges: &[TableIndex],
) -> Result<Scan> {
    finished(source, headers, options, |file, frames, report| {
        for table in ranges.iter().filter(|table| table.n_frames() > 0 && table_end(table) <= file.len) {
            let first = table.extent(0).offset;
            if first >= frames.builder.end() {
                let end = file.walk(frames, first, report)?;
                if !matches!(end, End::Stopped) {
                    return Ok(end);
                }
            }
            if first == frames.builder.end() {
                frames.builder.append(table)?;
            }
        }
        file.walk(frames, file.len, report)
    })
}

/// The frames that start in `range`, up to one that is wrong or incomplete.
pub(super) fn scan_range<H: FrameHeaders>(
    source: &dyn Source,
    headers: &H,
    range: Range<u64>,
    progress: &(dyn Fn(u64) -> Result<()> + Sync),
) -> Result<TableIndex> {
    let file = File { source, headers, len: source.len()?, skip_damaged: false };
    let report = Report { done: AtomicU64::new(0), progress };
    let first = headers.first();
    if range.end.min(file.len) <= first {
        return Ok(TableIndex::default());
    }
    let range = range.start.max(first)..range.end.min(file.len);
    let walked = file.walk_range(range.clone(), range.start == first, &report)?;
    Ok(walked.map(|walked| walked.frames.builder.finish()).unwrap_or_default())
}

/// The scan of a file by `walk`, after its previous index.
fn finished<H: FrameHeaders>(
    source: &dyn Source,
    headers: &H,
    options: &ScanOptions<'_>,
    walk: impl FnOnce(&File<'_, H>, &mut Frames, &Report<'_>) -> Result<End>,
) -> Result<Scan> {
    let len = source.len()?;
    let builder = match &options.previous {
        Some(Index::Table(table)) if table_end(table) <= len => TableBuilder::extend(table.clone()),
        // an index of a file that was longer, or of another kind, is of no use here
        _ => TableBuilder::new(headers.first()),
    };
    let file = File { source, headers, len, skip_damaged: options.skip_damaged };
    let report = Report { done: AtomicU64::new(builder.end()), progress: options.progress };
    let mut frames = Frames { builder, damaged: Vec::new() };
    let end = walk(&file, &mut frames, &report)?;
    let n_frames = frames.builder.n_frames();
    let place = |error: Error| error.with_frame(n_frames).with_format(H::NAME).with_path(source.path());
    let truncation = match end {
        End::Stopped => None,
        End::Truncated(error) => Some(place(error)),
        End::Corrupt(error) | End::Refused(error) => return Err(place(error)),
    };
    (options.progress)(len)?;
    let table = frames.builder.finish();
    let damaged = frames.damaged.iter().filter_map(|&offset| table.frame_at(offset)).collect();
    Ok(Scan { index: Index::Table(table), truncation, damaged, without_time: None })
}

fn table_end(table: &TableIndex) -> u64 {
    table.n_frames().checked_sub(1).map_or(0, |last| table.extent(last).end())
}

/// Why a walk ended; errors lack their frame, which a walk from the middle does not know.
enum End {
    /// The next frame starts at the stop or after it.
    Stopped,
    Truncated(Error),
    Corrupt(Error),
    /// A sound frame that is none of this file.
    Refused(Error),
}

/// Frames that a walk has found.
struct Frames {
    builder: TableBuilder,
    /// First bytes of the damaged stretches among the frames.
    damaged: Vec<u64>,
}

/// Bytes walked by all threads.
struct Report<'a> {
    done: AtomicU64,
    progress: &'a (dyn Fn(u64) -> Result<()> + Sync),
}

impl Report<'_> {
    fn add(&self, bytes: u64) -> Result<()> {
        let before = self.done.fetch_add(bytes, Ordering::Relaxed);
        (self.progress)(before.saturating_add(bytes))
    }
}

/// The frames of one byte range.
struct Walked {
    first: u64,
    frames: Frames,
    end: End,
}

struct File<'a, H> {
    source: &'a dyn Source,
    headers: &'a H,
    len: u64,
    /// Whether a walk continues after damage.
    skip_damaged: bool,
}

/// A part of the file in memory.
#[derive(Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// The bytes from `offset` on, at least `at_least` of them unless the file ends, else `len` are read.
    fn read_at<'a, H>(&'a mut self, file: &File<'_, H>, offset: u64, at_least: usize, len: u64) -> Result<&'a [u8]> {
        let left = file.len.saturating_sub(offset);
        let at_least = left.min(at_least as u64);
        let end = self.start + self.bytes.len() as u64;
        if offset < self.start || offset.saturating_add(at_least) > end {
            self.bytes.resize(left.min(len.max(at_least)) as usize, 0);
            self.start = offset;
            self.source_read(file)?;
        }
        Ok(self.bytes.get((offset - self.start) as usize..).unwrap_or_default())
    }

    fn source_read<H>(&mut self, file: &File<'_, H>) -> Result<()> {
        let read = file.source.read_exact_at(self.start, &mut self.bytes);
        if read.is_err() {
            // the bytes in the buffer are not the file's: they must not be taken for a window of it
            self.bytes.clear();
        }
        read
    }
}

impl<H: FrameHeaders> File<'_, H> {
    /// Adds the frames that start at the end of `frames` and before `stop`; steps over damage if asked to.
    fn walk(&self, frames: &mut Frames, stop: u64, report: &Report<'_>) -> Result<End> {
        loop {
            let end = self.walk_sound(&mut frames.builder, stop, report)?;
            // if a range begins with damage, the frame before it is unknown
            let unknown = frames.builder.n_frames() == 0 && frames.builder.end() > self.headers.first();
            let stepped = match end {
                End::Corrupt(_) if self.skip_damaged && !unknown => self.step_over(frames, report)?,
                _ => false,
            };
            if !stepped {
                return Ok(end);
            }
        }
    }

    /// As [`File::walk`], up to a frame that is wrong.
    fn walk_sound(&self, builder: &mut TableBuilder, stop: u64, report: &Report<'_>) -> Result<End> {
        let mut window = Window::default();
        let mut frame_len = if H::LINES { SMALL_FRAME } else { 0 };
        let mut reported = builder.end();
        while builder.end() < stop {
            let offset = builder.end();
            let ahead = if frame_len > 0 && frame_len <= SMALL_FRAME { WINDOW } else { H::LONGEST as u64 };
            let bytes = window.read_at(self, offset, H::LONGEST, ahead)?;
            let left = self.len - offset;
            let header = match self.headers.parse(bytes, offset) {
                Ok(header) => header,
                Err(_) if bytes.starts_with(UNFINISHED) => return Ok(End::Truncated(unfinished(offset))),
                Err(HeaderFault::Wrong(error)) => return Ok(End::Corrupt(error)),
                // blank lines at the end of a text
                Err(HeaderFault::Short(_)) if H::LINES && bytes.trim_ascii().is_empty() => break,
                Err(HeaderFault::Short(needs)) => {
                    return Ok(End::Truncated(ends_early(offset, needs as u64, self.len)));
                }
            };
            if let Some(error) = self.headers.refused(&header, offset) {
                let sound = self.is_followed(&mut Window::default(), offset)?;
                return Ok(if sound { End::Refused(error) } else { End::Corrupt(error) });
            }
            let head = self.headers.head(&header);
            let len = match self.frame_len(&mut window, offset, &head)? {
                Ok(len) if len <= left => len,
                Ok(len) => return self.overlong(offset, &header, ends_early(offset, len, self.len), report),
                Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(End::Corrupt(error)),
                Err(error) => return self.overlong(offset, &header, error, report),
            };
            if !H::LINES {
                frame_len = len;
            }
            builder.push(len, head.step, head.time).map_err(|e| self.place(e, offset))?;
            let since = builder.end() - reported;
            if builder.n_frames().is_multiple_of(REPORT_EVERY) || H::LINES && since >= REPORT_TEXT_EVERY {
                report.add(since)?;
                reported = builder.end();
            }
        }
        report.add(builder.end() - reported)?;
        Ok(End::Stopped)
    }

    /// Bytes of the frame at `offset`, or why its lines are not those of a frame: `Truncated` if the file ends before.
    fn frame_len(&self, window: &mut Window, offset: u64, head: &FrameHead) -> Result<Result<u64>> {
        let (mut len, mut needs, mut left) = (head.frame_len, head.lines, head.lines);
        let mut further = H::FURTHER > 0;
        loop {
            while left > 0 {
                let bytes = window.read_at(self, offset.saturating_add(len), 1, WINDOW)?;
                if bytes.is_empty() {
                    return Ok(Err(lacks_lines(offset, needs, needs - left)));
                }
                match lines_len(bytes, usize::try_from(left).unwrap_or(usize::MAX)) {
                    Ok(these) => (len, left) = (len + these as u64, 0),
                    Err(n) => (len, left) = (len + bytes.len() as u64, left - n as u64),
                }
            }
            if !further {
                return Ok(Ok(len));
            }
            further = false;
            let at = offset.saturating_add(len);
            match self.headers.further_lines(window.read_at(self, at, H::FURTHER, WINDOW)?) {
                Ok(lines) => (needs, left) = (needs.saturating_add(lines), lines),
                Err(error) => return Ok(Err(error.with_byte(at))),
            }
        }
    }

    /// The reason why a frame would end after the file does: it is the incomplete last one, unless frames follow it.
    fn overlong(&self, offset: u64, header: &H::Header, truncated: Error, report: &Report<'_>) -> Result<End> {
        let start = offset + self.headers.head(header).len as u64;
        let Some(next) = self.find_frame(&(start..self.len), report)? else {
            return Ok(End::Truncated(truncated));
        };
        Ok(End::Corrupt(self.headers.overlong(offset, header, next - start, next)))
    }

    fn place(&self, error: Error, offset: u64) -> Error {
        error.with_byte(offset).with_format(H::NAME).with_path(self.source.path())
    }

    /// As [`File::walk`], on several threads over ranges of `todo`.
    fn walk_in_ranges(
        &self,
        frames: &mut Frames,
        todo: Range<u64>,
        workers: usize,
        report: &Report<'_>,
    ) -> Result<End> {
        let ranges = cut(&todo, workers);
        let walked: Vec<Result<Option<Walked>>> = std::thread::scope(|scope| {
            let threads: Vec<_> = ranges
                .iter()
                .map(|range| {
                    let first = range.start == todo.start;
                    scope.spawn(move || self.walk_range(range.clone(), first, report))
                })
                .collect();
            let died = |_| Err(Error::new(ErrorKind::Internal, "a thread of the scan died"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(died)).collect()
        });
        for (range, walked) in ranges.into_iter().zip(walked) {
            let end = match walked? {
                Some(walked) if walked.first == frames.builder.end() && walked.frames.builder.n_frames() > 0 => {
                    frames.builder.append(&walked.frames.builder.finish())?;
                    frames.damaged.extend(walked.frames.damaged);
                    walked.end
                }
                _ => self.walk(frames, range.end, report)?,
            };
            if !matches!(end, End::Stopped) {
                return Ok(end);
            }
        }
        Ok(End::Stopped)
    }

    /// Walks the frames that start in `range`; `None` if no header is found in it.
    fn walk_range(&self, range: Range<u64>, with_frame: bool, report: &Report<'_>) -> Result<Option<Walked>> {
        let first = if with_frame { Some(range.start) } else { self.find_header(&range, report)? };
        let Some(first) = first else {
            return Ok(None);
        };
        let mut frames = Frames { builder: TableBuilder::new(first), damaged: Vec::new() };
        let end = self.walk(&mut frames, range.end, report)?;
        Ok(Some(Walked { first, frames, end }))
    }
}

/// `n` neighbouring ranges of about equal length that make up `whole`, the empty ones left out.
pub(super) fn cut(whole: &Range<u64>, n: usize) -> Vec<Range<u64>> {
    let len = u128::from(whole.end - whole.start);
    let border = |i: usize| whole.start + (len * i as u128 / n as u128) as u64;
    (0..n).map(|i| border(i)..border(i + 1)).filter(|range| !range.is_empty()).collect()
}
