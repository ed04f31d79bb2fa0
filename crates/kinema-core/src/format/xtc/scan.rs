//! Finds the frames of an XTC file by hopping from header to header; it reads no coordinates on purpose.
//!
//! Big files are cut into byte ranges that are walked side by side: each walk begins at the first header found in its
//! range and ends at the first header of the next. Where two walks do not meet, that range is walked again from where
//! the one before ended, so that the index is that of a walk from the start whatever the bytes.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::header::{FrameHeader, HeaderFault, LONGEST_HEADER, PLAIN_HEADER};
use super::{NAME, ends_early};
use crate::container::xdr;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Scan, ScanOptions};
use crate::index::{Index, TableBuilder, TableIndex};
use crate::source::Source;

/// From this many bytes on a scan with several workers is done in ranges: below, starting threads costs more.
pub(super) const PARALLEL_FROM: u64 = 64 << 20;
/// Frames up to this size are read with all that is between their headers: cheaper than a call for each.
const SMALL_FRAME: u64 = 8 << 10;
/// Bytes read at once where frames are small or a header is searched.
const WINDOW: u64 = 256 << 10;
/// Frames between two reports of progress.
const REPORT_EVERY: u64 = 4096;
/// Headers that must follow one another for the first to be believed.
const CHAIN: usize = 3;

/// Finds all frames; files of `parallel_from` bytes or more on several threads.
pub(super) fn scan(source: &dyn Source, n_atoms: u32, options: &ScanOptions<'_>, parallel_from: u64) -> Result<Scan> {
    finished(source, n_atoms, options, |file, builder, report| {
        let todo = builder.end()..file.len;
        if options.workers > 1 && todo.end - todo.start >= parallel_from.max(1) {
            file.walk_in_ranges(builder, todo, options.workers, report)
        } else {
            file.walk(builder, file.len, report)
        }
    })
}

/// Finds all frames with those that others have found in ascending byte ranges; what does not meet is walked again.
pub(super) fn scan_with(
    source: &dyn Source,
    n_atoms: u32,
    options: &ScanOptions<'_>,
    found: &[TableIndex],
) -> Result<Scan> {
    finished(source, n_atoms, options, |file, builder, report| {
        for table in found.iter().filter(|table| table.n_frames() > 0 && table_end(table) <= file.len) {
            let first = table.extent(0).offset;
            if first >= builder.end() {
                let end = file.walk(builder, first, report)?;
                if !matches!(end, End::Stopped) {
                    return Ok(end);
                }
            }
            if first == builder.end() {
                builder.append(table)?;
            }
        }
        file.walk(builder, file.len, report)
    })
}

/// The frames that start in `range`, up to one that is wrong or incomplete.
pub(super) fn scan_range(
    source: &dyn Source,
    n_atoms: u32,
    range: Range<u64>,
    progress: &(dyn Fn(u64) -> Result<()> + Sync),
) -> Result<TableIndex> {
    let file = File { source, n_atoms, len: source.len()? };
    let report = Report { done: AtomicU64::new(0), progress };
    let range = range.start..range.end.min(file.len);
    let walked = file.walk_range(range.clone(), range.start == 0, &report)?;
    Ok(walked.map(|walked| walked.builder.finish()).unwrap_or_default())
}

/// What `walk` makes of the file behind the known index.
fn finished(
    source: &dyn Source,
    n_atoms: u32,
    options: &ScanOptions<'_>,
    walk: impl FnOnce(&File<'_>, &mut TableBuilder, &Report<'_>) -> Result<End>,
) -> Result<Scan> {
    let len = source.len()?;
    let mut builder = match &options.known {
        Some(Index::Table(table)) if table_end(table) <= len => TableBuilder::extend(table.clone()),
        // an index of a file that was longer, or of another kind, is of no use here
        _ => TableBuilder::new(0),
    };
    let file = File { source, n_atoms, len };
    let report = Report { done: AtomicU64::new(builder.end()), progress: options.progress };
    let end = walk(&file, &mut builder, &report)?;
    let place = |error: Error, frame| error.at_frame(frame).in_format(NAME).at_path(source.path());
    let truncation = match end {
        End::Stopped => None,
        End::Truncated(error) => Some(place(error, builder.n_frames())),
        End::Corrupt(error) => return Err(place(error, builder.n_frames())),
    };
    (options.progress)(len)?;
    Ok(Scan { index: Index::Table(builder.finish()), truncation })
}

fn table_end(table: &TableIndex) -> u64 {
    table.n_frames().checked_sub(1).map_or(0, |last| table.extent(last).end())
}

/// Why a walk ended; errors lack their frame, which a walk from the middle does not know.
enum End {
    /// The next frame starts at or behind the place to stop at.
    Stopped,
    Truncated(Error),
    Corrupt(Error),
}

/// Bytes walked by all threads together.
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
    builder: TableBuilder,
    end: End,
}

struct File<'a> {
    source: &'a dyn Source,
    n_atoms: u32,
    len: u64,
}

/// A part of the file in memory.
#[derive(Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// The bytes from `offset` on, at least `at_least` of them unless the file ends, else `len` are read.
    fn at<'a>(&'a mut self, file: &File<'_>, offset: u64, at_least: usize, len: u64) -> Result<&'a [u8]> {
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

    fn source_read(&mut self, file: &File<'_>) -> Result<()> {
        let read = file.source.read_exact_at(self.start, &mut self.bytes);
        if read.is_err() {
            // what is in the buffer is not of the file: it must not be taken for a window of it
            self.bytes.clear();
        }
        read
    }
}

impl File<'_> {
    /// Adds the frames that start at `builder.end()` and before `stop`.
    fn walk(&self, builder: &mut TableBuilder, stop: u64, report: &Report<'_>) -> Result<End> {
        let mut window = Window::default();
        let mut frame_len = 0;
        let mut reported = builder.end();
        while builder.end() < stop {
            let offset = builder.end();
            let ahead = if frame_len > 0 && frame_len <= SMALL_FRAME { WINDOW } else { LONGEST_HEADER as u64 };
            let bytes = window.at(self, offset, LONGEST_HEADER, ahead)?;
            let left = self.len - offset;
            let header = match FrameHeader::parse(bytes, offset, Some(self.n_atoms)) {
                Ok(header) => header,
                Err(HeaderFault::Wrong(error)) => return Ok(End::Corrupt(error)),
                Err(HeaderFault::Short(needs)) => {
                    return Ok(End::Truncated(ends_early(offset, needs as u64, self.len)));
                }
            };
            frame_len = header.frame_len();
            if frame_len > left {
                return Ok(End::Truncated(ends_early(offset, frame_len, self.len)));
            }
            builder
                .push(frame_len, i64::from(header.step), f64::from(header.time))
                .map_err(|e| self.place(e, offset))?;
            if builder.n_frames().is_multiple_of(REPORT_EVERY) {
                report.add(builder.end() - reported)?;
                reported = builder.end();
            }
        }
        report.add(builder.end() - reported)?;
        Ok(End::Stopped)
    }

    fn place(&self, error: Error, offset: u64) -> Error {
        error.at_byte(offset).in_format(NAME).at_path(self.source.path())
    }

    /// As [`File::walk`], on several threads over ranges of `todo`.
    fn walk_in_ranges(
        &self,
        builder: &mut TableBuilder,
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
                Some(walked) if walked.first == builder.end() => {
                    builder.append(&walked.builder.finish())?;
                    walked.end
                }
                _ => self.walk(builder, range.end, report)?,
            };
            if !matches!(end, End::Stopped) {
                return Ok(end);
            }
        }
        Ok(End::Stopped)
    }

    /// Walks the frames that start in `range`; `None` where no header is found in it.
    fn walk_range(&self, range: Range<u64>, known: bool, report: &Report<'_>) -> Result<Option<Walked>> {
        let first = if known { Some(range.start) } else { self.find_header(&range)? };
        let Some(first) = first else {
            return Ok(None);
        };
        let mut builder = TableBuilder::new(first);
        let end = self.walk(&mut builder, range.end, report)?;
        Ok(Some(Walked { first, builder, end }))
    }

    /// The first place in `range` that looks like a header and is followed by others.
    fn find_header(&self, range: &Range<u64>) -> Result<Option<u64>> {
        let mut window = Window::default();
        let mut probe = Window::default();
        // headers lie at multiples of four bytes, for all items of XDR do
        let mut offset = range.start.next_multiple_of(4);
        while offset < range.end {
            let bytes = window.at(self, offset, PLAIN_HEADER, WINDOW)?;
            if bytes.len() < PLAIN_HEADER {
                return Ok(None);
            }
            let candidates = (bytes.len() - PLAIN_HEADER) / 4 + 1;
            for i in 0..candidates {
                let candidate = offset + 4 * i as u64;
                if candidate >= range.end {
                    return Ok(None);
                }
                if self.looks_like_header(bytes, 4 * i) && self.is_chain(&mut probe, candidate)? {
                    return Ok(Some(candidate));
                }
            }
            offset += 4 * candidates as u64;
        }
        Ok(None)
    }

    fn looks_like_header(&self, bytes: &[u8], at: usize) -> bool {
        let n_atoms = Some(self.n_atoms);
        // the atom count first: it differs from noise more often than the first half of the magic number
        xdr::int(bytes, at + 4).map(|n| n as u32) == n_atoms
            && xdr::int(bytes, at + 52).map(|n| n as u32) == n_atoms
            && matches!(xdr::int(bytes, at), Some(super::MAGIC_CLASSIC | super::MAGIC_LONG))
    }

    /// Whether [`CHAIN`] headers follow each other from `offset`, or as many as fit exactly into the file.
    fn is_chain(&self, probe: &mut Window, mut offset: u64) -> Result<bool> {
        for _ in 0..=CHAIN {
            if offset == self.len {
                return Ok(true);
            }
            let bytes = probe.at(self, offset, LONGEST_HEADER, LONGEST_HEADER as u64)?;
            let Ok(header) = FrameHeader::parse(bytes, offset, Some(self.n_atoms)) else {
                return Ok(false);
            };
            offset = offset.saturating_add(header.frame_len());
            if offset > self.len {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// `n` neighbouring ranges of about equal length that make up `whole`, the empty ones left out.
fn cut(whole: &Range<u64>, n: usize) -> Vec<Range<u64>> {
    let len = u128::from(whole.end - whole.start);
    let border = |i: usize| whole.start + (len * i as u128 / n as u128) as u64;
    (0..n).map(|i| border(i)..border(i + 1)).filter(|range| !range.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{MemorySource, RecordingSource};

    const MIXED: &[u8] = include_bytes!("../../../tests/data/xtc/mixed.xtc");
    const N_ATOMS: u32 = 540;

    fn scanned(bytes: &[u8], workers: usize, known: Option<Index>) -> Result<Scan> {
        let source = MemorySource::new("test.xtc", bytes.to_vec());
        scan(&source, N_ATOMS, &ScanOptions { known, workers, progress: &|_| Ok(()) }, 1)
    }

    /// Both scans have the same index, and end for the same reason at the same place.
    fn same(bytes: &[u8]) {
        let serial = scanned(bytes, 1, None);
        for workers in [2, 3, 7, 40] {
            match (&serial, scanned(bytes, workers, None)) {
                (Ok(serial), Ok(parallel)) => {
                    assert_eq!(serial.index, parallel.index);
                    let texts = [&serial.truncation, &parallel.truncation].map(|e| e.as_ref().map(Error::to_string));
                    assert_eq!(texts[0], texts[1]);
                }
                (Err(serial), Err(parallel)) => assert_eq!(serial.to_string(), parallel.to_string()),
                (serial, parallel) => panic!("{serial:?} but with {workers} workers {parallel:?}"),
            }
        }
    }

    #[test]
    fn ranges_give_the_index_of_a_walk() {
        let bytes = MIXED.repeat(5);
        same(&bytes);
        for cut in [MIXED.len() - 1, bytes.len() - 1, bytes.len() - 2000, MIXED.len() * 4 + 30, 60] {
            same(&bytes[..cut]);
        }
        for broken_at in [MIXED.len(), 2 * MIXED.len() + 4, 4 * MIXED.len() + 88] {
            let mut broken = bytes.clone();
            broken[broken_at] ^= 0x80;
            same(&broken);
            assert!(scanned(&broken, 3, None).is_err());
        }
    }

    #[test]
    fn what_others_have_found_gives_the_index_of_a_walk() {
        let whole = MIXED.repeat(5);
        let mut broken = whole.clone();
        broken[2 * MIXED.len() + 4] ^= 0x80;
        for bytes in [&whole[..], &whole[..whole.len() - 9], &broken] {
            let source = MemorySource::new("test.xtc", bytes.to_vec());
            let options = ScanOptions { known: None, workers: 1, progress: &|_| Ok(()) };
            let serial = scan(&source, N_ATOMS, &options, u64::MAX);
            for n in [1, 2, 5, 13] {
                let ranges = cut(&(0..bytes.len() as u64), n);
                let mut found: Vec<TableIndex> = ranges
                    .into_iter()
                    .map(|range| scan_range(&source, N_ATOMS, range, &|_| Ok(())).expect("readable"))
                    .collect();
                for lost in 0..=n {
                    let together = scan_with(&source, N_ATOMS, &options, &found);
                    match (&serial, together) {
                        (Ok(one), Ok(other)) => assert_eq!(one.index, other.index),
                        (Err(one), Err(other)) => assert_eq!(one.to_string(), other.to_string()),
                        (one, other) => panic!("{one:?} but together {other:?}"),
                    }
                    // nor does it matter whether one is missing
                    if let Some(table) = found.get_mut(lost) {
                        *table = TableIndex::default();
                    }
                }
            }
        }
    }

    #[test]
    fn headers_within_a_frame_do_not_mislead() {
        // a frame whose bit stream is itself a trajectory: a search finds headers there, a walk does not
        let inner = MIXED.repeat(4);
        let mut outer = MIXED[..92].to_vec();
        outer[88..92].copy_from_slice(&(inner.len() as i32).to_be_bytes());
        let bytes = [MIXED, &outer, &inner, MIXED].concat();
        same(&bytes);
        assert_eq!(scanned(&bytes, 4, None).expect("sound").index.n_frames(), 9);
    }

    #[test]
    fn a_known_index_is_extended() {
        let bytes = MIXED.repeat(3);
        let whole = scanned(&bytes, 1, None).expect("sound").index;
        for cut in [0, MIXED.len(), bytes.len() - 5, bytes.len()] {
            let known = scanned(&bytes[..cut], 1, None).expect("sound").index;
            let source = RecordingSource::new(MemorySource::new("test.xtc", bytes.clone()));
            let start = known.end().unwrap_or(0);
            let options = ScanOptions { known: Some(known), workers: 1, progress: &|_| Ok(()) };
            assert_eq!(scan(&source, N_ATOMS, &options, 1).expect("sound").index, whole);
            assert!(source.take().iter().all(|read| read.offset >= start));
        }
        // of no use once the file is shorter
        let shorter = scanned(MIXED, 1, Some(whole)).expect("sound").index;
        assert_eq!(shorter.n_frames(), 4);
    }

    #[test]
    fn an_error_of_progress_ends_the_scan() {
        let source = MemorySource::new("test.xtc", MIXED.repeat(2000));
        let cancel = |_| Err(Error::new(ErrorKind::Cancelled, "cancelled"));
        for workers in [1, 2] {
            let options = ScanOptions { known: None, workers, progress: &cancel };
            let error = scan(&source, N_ATOMS, &options, 1).expect_err("cancelled");
            assert_eq!(error.kind(), ErrorKind::Cancelled);
        }
    }
}
