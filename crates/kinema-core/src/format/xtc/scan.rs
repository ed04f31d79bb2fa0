//! XTC scan: finds the frames of a file by hopping from header to header, without reading coordinates.
//!
//! Large files are divided into byte ranges that are scanned in parallel: each scan begins at the first header in its
//! range and ends at the first header of the next. Where two scans do not meet, that range is scanned again from where
//! the one before ended, so that the index is that of a scan from the start whatever the bytes.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::header::{FrameHeader, HeaderFault, LONGEST_HEADER};
use super::{NAME, ends_early};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Scan, ScanOptions};
use crate::index::{Index, TableBuilder, TableIndex};
use crate::source::Source;

/// From this many bytes on a scan with several workers is done in ranges: below, starting threads costs more.
pub(super) const PARALLEL_FROM: u64 = 64 << 20;
/// Frames up to this size are read with all that is between their headers: cheaper than a call for each.
const SMALL_FRAME: u64 = 8 << 10;
/// Bytes read at once where frames are small or a header is searched.
pub(super) const WINDOW: u64 = 256 << 10;
/// Frames between two reports of progress.
const REPORT_EVERY: u64 = 4096;

/// Finds all frames; files of `parallel_from` bytes or more on several threads.
pub(super) fn scan(source: &dyn Source, n_atoms: u32, options: &ScanOptions<'_>, parallel_from: u64) -> Result<Scan> {
    finished(source, n_atoms, options, |file, frames, report| {
        let todo = frames.builder.end()..file.len;
        if options.workers > 1 && todo.end - todo.start >= parallel_from.max(1) {
            file.walk_in_ranges(frames, todo, options.workers, report)
        } else {
            file.walk(frames, file.len, report)
        }
    })
}

/// Finds all frames, given the indices of ascending byte ranges; ranges that do not meet are walked again.
pub(super) fn scan_with_ranges(
    source: &dyn Source,
    n_atoms: u32,
    options: &ScanOptions<'_>,
    ranges: &[TableIndex],
) -> Result<Scan> {
    finished(source, n_atoms, options, |file, frames, report| {
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
pub(super) fn scan_range(
    source: &dyn Source,
    n_atoms: u32,
    range: Range<u64>,
    progress: &(dyn Fn(u64) -> Result<()> + Sync),
) -> Result<TableIndex> {
    let file = File { source, n_atoms, len: source.len()?, skip_damaged: false };
    let report = Report { done: AtomicU64::new(0), progress };
    let range = range.start..range.end.min(file.len);
    let walked = file.walk_range(range.clone(), range.start == 0, &report)?;
    Ok(walked.map(|walked| walked.frames.builder.finish()).unwrap_or_default())
}

/// The scan of a file by `walk`, behind its previous index.
fn finished(
    source: &dyn Source,
    n_atoms: u32,
    options: &ScanOptions<'_>,
    walk: impl FnOnce(&File<'_>, &mut Frames, &Report<'_>) -> Result<End>,
) -> Result<Scan> {
    let len = source.len()?;
    let builder = match &options.previous {
        Some(Index::Table(table)) if table_end(table) <= len => TableBuilder::extend(table.clone()),
        // an index of a file that was longer, or of another kind, is of no use here
        _ => TableBuilder::new(0),
    };
    let file = File { source, n_atoms, len, skip_damaged: options.skip_damaged };
    let report = Report { done: AtomicU64::new(builder.end()), progress: options.progress };
    let mut frames = Frames { builder, damaged: Vec::new() };
    let end = walk(&file, &mut frames, &report)?;
    let n_frames = frames.builder.n_frames();
    let place = |error: Error| error.at_frame(n_frames).in_format(NAME).at_path(source.path());
    let truncation = match end {
        End::Stopped => None,
        End::Truncated(error) => Some(place(error)),
        End::Corrupt(error) => return Err(place(error)),
    };
    (options.progress)(len)?;
    let table = frames.builder.finish();
    let damaged = frames.damaged.iter().filter_map(|&offset| table.frame_at(offset)).collect();
    Ok(Scan { index: Index::Table(table), truncation, damaged })
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

/// What a walk has found.
pub(super) struct Frames {
    pub builder: TableBuilder,
    /// First bytes of the damaged stretches among the frames.
    pub damaged: Vec<u64>,
}

/// Bytes walked by all threads.
pub(super) struct Report<'a> {
    done: AtomicU64,
    progress: &'a (dyn Fn(u64) -> Result<()> + Sync),
}

impl Report<'_> {
    pub fn add(&self, bytes: u64) -> Result<()> {
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

pub(super) struct File<'a> {
    pub source: &'a dyn Source,
    pub n_atoms: u32,
    pub len: u64,
    /// Whether a walk goes on behind damage.
    skip_damaged: bool,
}

/// A part of the file in memory.
#[derive(Default)]
pub(super) struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// The bytes from `offset` on, at least `at_least` of them unless the file ends, else `len` are read.
    pub fn at<'a>(&'a mut self, file: &File<'_>, offset: u64, at_least: usize, len: u64) -> Result<&'a [u8]> {
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
    /// Adds the frames that start at the end of `frames` and before `stop`; over damage where that is asked for.
    fn walk(&self, frames: &mut Frames, stop: u64, report: &Report<'_>) -> Result<End> {
        loop {
            let end = self.walk_sound(&mut frames.builder, stop, report)?;
            // where a range begins with damage, the frame before it is not known
            let unknown = frames.builder.n_frames() == 0 && frames.builder.end() > 0;
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
                return self.overlong(offset, &header, report);
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

    /// Why a frame would end behind the file: it is the incomplete last one, unless frames follow it.
    fn overlong(&self, offset: u64, header: &FrameHeader, report: &Report<'_>) -> Result<End> {
        let start = offset + header.len() as u64;
        let Some(next) = self.find_frame(&(start..self.len), report)? else {
            return Ok(End::Truncated(ends_early(offset, header.frame_len(), self.len)));
        };
        let expected = format!("at most {}, as the next frame is at byte {next}", next - start);
        let found = header.packing.map_or(0, |packing| packing.n_bytes);
        let error = Error::corrupt("wrong length of the compressed coordinates", expected, found);
        Ok(End::Corrupt(error.at_byte(offset.saturating_add(88))))
    }

    pub(super) fn place(&self, error: Error, offset: u64) -> Error {
        error.at_byte(offset).in_format(NAME).at_path(self.source.path())
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

    /// Walks the frames that start in `range`; `None` where no header is found in it.
    fn walk_range(&self, range: Range<u64>, at_frame: bool, report: &Report<'_>) -> Result<Option<Walked>> {
        let first = if at_frame { Some(range.start) } else { self.find_header(&range, report)? };
        let Some(first) = first else {
            return Ok(None);
        };
        let mut frames = Frames { builder: TableBuilder::new(first), damaged: Vec::new() };
        let end = self.walk(&mut frames, range.end, report)?;
        Ok(Some(Walked { first, frames, end }))
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

    fn scanned(bytes: &[u8], workers: usize, previous: Option<Index>) -> Result<Scan> {
        let source = MemorySource::new("test.xtc", bytes.to_vec());
        scan(&source, N_ATOMS, &ScanOptions { previous, workers, progress: &|_| Ok(()), skip_damaged: false }, 1)
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
    fn indices_of_ranges_give_the_index_of_a_walk() {
        let whole = MIXED.repeat(5);
        let mut broken = whole.clone();
        broken[2 * MIXED.len() + 4] ^= 0x80;
        for bytes in [&whole[..], &whole[..whole.len() - 9], &broken] {
            let source = MemorySource::new("test.xtc", bytes.to_vec());
            let options = ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged: false };
            let serial = scan(&source, N_ATOMS, &options, u64::MAX);
            for n in [1, 2, 5, 13] {
                let ranges = cut(&(0..bytes.len() as u64), n);
                let mut found: Vec<TableIndex> = ranges
                    .into_iter()
                    .map(|range| scan_range(&source, N_ATOMS, range, &|_| Ok(())).expect("readable"))
                    .collect();
                for lost in 0..=n {
                    let combined = scan_with_ranges(&source, N_ATOMS, &options, &found);
                    match (&serial, combined) {
                        (Ok(one), Ok(other)) => assert_eq!(one.index, other.index),
                        (Err(one), Err(other)) => assert_eq!(one.to_string(), other.to_string()),
                        (one, other) => panic!("{one:?} but combined {other:?}"),
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
            let previous = scanned(&bytes[..cut], 1, None).expect("sound").index;
            let source = RecordingSource::new(MemorySource::new("test.xtc", bytes.clone()));
            let start = previous.end().unwrap_or(0);
            let options =
                ScanOptions { previous: Some(previous), workers: 1, progress: &|_| Ok(()), skip_damaged: false };
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
            let options = ScanOptions { previous: None, workers, progress: &cancel, skip_damaged: false };
            let error = scan(&source, N_ATOMS, &options, 1).expect_err("cancelled");
            assert_eq!(error.kind(), ErrorKind::Cancelled);
        }
    }
}
