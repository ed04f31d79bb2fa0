//! Rows of equal size, of any type, from any place in many files: sorted, read together if adjacent, on several
//! threads.
//!
//! They are samples of archives for training. Rows lie at equal distances in a file, or in the chunks of an HDF5 data
//! set. Bytes go directly from the file into the caller's rows; a compressed chunk is decoded once a call.

use std::io::IoSliceMut;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::container::hdf5::array::{Array, Chunk, Stored};
use crate::container::hdf5::filters::FilterScratch;
use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::arrays::row_places::{Piece, as_stored, put};
use crate::pipeline::pool::{Pool, Progress};
use crate::source::{Extent, FilePool, Gather, MAX_GAP, ReadList, Source, gathered};
use crate::trace::activity::{DECODE, READING};
use crate::trace::{self, Event, begin, finish};
use crate::trajectory::Threads;

/// Rows that one call to the system reads at most, and the bytes of a call.
const MOST_ROWS: usize = 256;
const MOST_BYTES: u64 = 4 << 20;
/// Least number of bytes of a task, if there are several workers.
const TASK_BYTES: u64 = 256 << 10;
/// Stored bytes of compressed chunks that are read together.
const READ_AT_ONCE: u64 = 1 << 20;

/// How the rows of a file lie.
#[derive(Debug)]
pub enum RowStorage {
    /// One row every `stride` bytes, from byte `offset` on.
    Strided {
        /// Offset of the first row.
        offset: u64,
        /// From a row to the next.
        stride: u64,
    },
    /// In an HDF5 data set.
    Array(Box<Array>),
}

/// The rows of one file.
#[derive(Debug)]
pub struct RowFile {
    /// The file.
    pub path: PathBuf,
    /// Number of rows.
    pub rows: u64,
    /// How and where the rows are stored.
    pub storage: RowStorage,
}

/// Counts of a call: what it has read, or would read.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct RowsRead {
    /// Bytes of the rows, each once.
    pub useful: u64,
    /// Bytes asked of the files.
    pub read: u64,
    /// Bytes of the decoded chunks, and bytes that are read without decoding.
    pub decoded: u64,
    /// Calls to the system.
    pub reads: u64,
    /// Chunks that are decoded.
    pub chunks: u64,
}

impl RowsRead {
    fn add(&mut self, other: Self) {
        self.useful += other.useful;
        self.read += other.read;
        self.decoded += other.decoded;
        self.reads += other.reads;
        self.chunks += other.chunks;
    }
}

/// Rows of many files, numbered through all of them.
pub struct Rows {
    pub(super) files: Vec<(RowFile, Arc<dyn Source>)>,
    /// Number of the first row of each file, and the number of all.
    pub(super) starts: Vec<u64>,
    row_bytes: usize,
    threads: Threads,
    /// Whether reads had to wait for the storage of late.
    waits: Arc<AtomicBool>,
}

/// Rows of one file for one worker, ascending, and their destinations; a row may occur more than once.
pub(super) struct Task<'a> {
    pub(super) file: usize,
    pub(super) rows: Vec<u64>,
    pub(super) places: Vec<&'a mut [u8]>,
}

impl Rows {
    /// Rows of `row_bytes` bytes of these files, which are opened when they are read.
    ///
    /// # Errors
    /// `InvalidArgument` if the rows of a file have a different size.
    pub fn new(files: Vec<RowFile>, row_bytes: usize, pool: &FilePool) -> Result<Self> {
        let mut starts = vec![0];
        for file in &files {
            let fits = match &file.storage {
                RowStorage::Strided { stride, .. } => *stride >= row_bytes as u64,
                RowStorage::Array(array) => array.dense_row_bytes() == row_bytes as u64 && array.n_rows() >= file.rows,
            };
            if !fits || row_bytes == 0 {
                let what = format!("the rows of the file have another size than {row_bytes} bytes");
                return Err(Error::new(ErrorKind::InvalidArgument, what).with_path(&file.path));
            }
            starts.push(starts.last().copied().unwrap_or(0) + file.rows);
        }
        let files = files.into_iter().map(|file| (pool.source(&file.path), file)).map(|(source, file)| (file, source));
        Ok(Self { files: files.collect(), starts, row_bytes, threads: Threads::default(), waits: Arc::default() })
    }

    /// Number of rows.
    pub fn len(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Reads the rows `ids`, in any order, into `out`, one after another.
    ///
    /// # Errors
    /// `OutOfRange`; `InvalidArgument` if `out` has a different size; errors of the files; `Corrupt` if a chunk cannot
    /// be decoded.
    pub fn read(&self, ids: &[u64], out: &mut [u8], workers: usize, progress: &Progress) -> Result<RowsRead> {
        if out.len() != ids.len().saturating_mul(self.row_bytes) {
            let what = format!("{} rows of {} bytes do not fit into {} bytes", ids.len(), self.row_bytes, out.len());
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let order = self.sorted(ids)?;
        let mut places: Vec<&mut [u8]> = out.chunks_exact_mut(self.row_bytes).collect();
        let ranges = self.ranges(ids, &order, workers);
        let workers = workers.clamp(1, ranges.len().max(1));
        let tasks = ranges.into_iter().map(|(file, range)| Task {
            file,
            rows: order[range.clone()].iter().map(|&at| ids[at] - self.starts[file]).collect(),
            places: order[range].iter().map(|&at| std::mem::take(&mut places[at])).collect(),
        });
        let pool = Pool::new(tasks.collect::<Vec<_>>(), progress);
        let results = pool.run(&self.threads, workers, |_| {
            let mut worker = Worker { waits: self.waits.clone(), ..Worker::default() };
            while let Some(task) = pool.next()? {
                let rows = task.rows.len() as u64;
                let (file, source) = &self.files[task.file];
                worker.read(file, &**source, task).map_err(|error| error.with_path(&file.path))?;
                progress.done.fetch_add(rows, Ordering::Relaxed);
            }
            Ok(worker.done)
        })?;
        let mut done = RowsRead::default();
        results.into_iter().for_each(|found| done.add(found));
        Ok(done)
    }

    /// Counts of [`Rows::read`] on one thread. Nothing is read.
    ///
    /// # Errors
    /// `OutOfRange`.
    pub fn plan(&self, ids: &[u64]) -> Result<RowsRead> {
        let order = self.sorted(ids)?;
        let mut all = RowsRead::default();
        for (file, range) in self.ranges(ids, &order, 1) {
            let mut rows: Vec<u64> = order[range].iter().map(|&at| ids[at] - self.starts[file]).collect();
            rows.dedup();
            all.add(planned(&self.files[file].0, &rows, self.row_bytes as u64));
        }
        Ok(all)
    }

    /// The places of `ids` in ascending order of the rows.
    fn sorted(&self, ids: &[u64]) -> Result<Vec<usize>> {
        if let Some(id) = ids.iter().find(|&&id| id >= self.len()) {
            let what = format!("there is no row {id}, expected one below {}", self.len());
            return Err(Error::new(ErrorKind::OutOfRange, what));
        }
        let mut order: Vec<usize> = (0..ids.len()).collect();
        order.sort_by_key(|&at| ids[at]);
        Ok(order)
    }

    /// Divides the sorted rows into tasks: each has rows of one file, and no row and no compressed chunk is in two
    /// tasks.
    fn ranges(&self, ids: &[u64], order: &[usize], workers: usize) -> Vec<(usize, Range<usize>)> {
        let row_bytes = self.row_bytes as u64;
        let most = match workers {
            0 | 1 => u64::MAX,
            n => (order.len() as u64 * row_bytes / (4 * n as u64)).max(TASK_BYTES),
        };
        let mut found: Vec<(usize, Range<usize>)> = Vec::new();
        let mut file = 0;
        for (i, &at) in order.iter().enumerate() {
            let id = ids[at];
            while id >= self.starts[file + 1] {
                file += 1;
            }
            match found.last_mut() {
                Some((current, range)) if *current == file => {
                    let before = ids[order[i - 1]];
                    let full = range.len() as u64 * row_bytes >= most;
                    if full && before != id && !self.share_chunk(file, before, id) {
                        found.push((file, i..i + 1));
                    } else {
                        range.end = i + 1;
                    }
                }
                _ => found.push((file, i..i + 1)),
            }
        }
        found
    }

    fn share_chunk(&self, file: usize, a: u64, b: u64) -> bool {
        let begin = self.starts[file];
        match &self.files[file].0.storage {
            RowStorage::Strided { .. } => false,
            RowStorage::Array(array) => array.filtered() && array.chunk_row(a - begin) == array.chunk_row(b - begin),
        }
    }
}

/// Counts for reading these rows, which ascend without duplicates.
fn planned(file: &RowFile, rows: &[u64], row_bytes: u64) -> RowsRead {
    let mut plan = RowsRead { useful: rows.len() as u64 * row_bytes, ..RowsRead::default() };
    let (mut extents, mut encoded) = (Vec::new(), Vec::new());
    match &file.storage {
        RowStorage::Strided { offset, stride } => {
            extents.extend(rows.iter().map(|row| Extent { offset: offset + row * stride, len: row_bytes }));
        }
        RowStorage::Array(array) => {
            let mut before = None;
            for &row in rows {
                let again = before.replace(array.chunk_row(row)) == Some(array.chunk_row(row));
                for chunk in array.chunks_of_row(row) {
                    match array.stored(&chunk) {
                        Stored::Filtered(_) if again => {}
                        Stored::Filtered(extent) => {
                            encoded.push(extent);
                            plan.decoded += array.chunk_bytes();
                            plan.chunks += 1;
                        }
                        Stored::Plain(address) => {
                            let first = address + array.row_in_chunk(&chunk, row) as u64;
                            extents.extend(
                                array
                                    .parts_of_row(&chunk)
                                    .map(|part| Extent { offset: first + part.in_chunk as u64, len: part.len as u64 }),
                            );
                        }
                        Stored::Inline | Stored::Nowhere => {}
                    }
                }
            }
        }
    }
    encoded.sort_unstable_by_key(|extent: &Extent| extent.offset);
    let mut rest = encoded.as_slice();
    while !rest.is_empty() {
        let (now, later) = rest.split_at(read_at_once(rest.iter().copied()));
        let (bytes, reads) = gathered(now.iter().copied());
        plan.read += bytes;
        plan.reads += reads;
        rest = later;
    }
    extents.sort_unstable_by_key(|extent: &Extent| extent.offset);
    for run in runs(&extents) {
        let bytes = extents[run.end - 1].end() - extents[run.start].offset;
        plan.read += bytes;
        plan.decoded += bytes;
        plan.reads += 1;
    }
    plan
}

/// How many of these chunks are read together.
fn read_at_once(extents: impl Iterator<Item = Extent>) -> usize {
    let mut bytes = 0;
    let fits = |extent: &Extent| {
        bytes += extent.len;
        bytes <= READ_AT_ONCE
    };
    extents.take_while(fits).count().max(1)
}

/// Ascending extents in runs that are read with one call each.
fn runs(extents: &[Extent]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (i, extent) in extents.iter().enumerate() {
        match found.last_mut() {
            Some(run)
                if run.len() < MOST_ROWS
                    && (extents[i - 1].end()..=extents[i - 1].end().saturating_add(MAX_GAP))
                        .contains(&extent.offset)
                    && extent.end() - extents[run.start].offset <= MOST_BYTES =>
            {
                run.end = i + 1;
            }
            _ => found.push(i..i + 1),
        }
    }
    found
}

/// Buffers and counts of one worker.
#[derive(Default)]
pub(super) struct Worker {
    waits: Arc<AtomicBool>,
    gather: Gather,
    chunk: Vec<u8>,
    scratch: FilterScratch,
    /// Bytes between rows that are read with them.
    gaps: Vec<u8>,
    done: RowsRead,
}

impl Worker {
    pub(super) fn read(&mut self, file: &RowFile, source: &dyn Source, task: Task<'_>) -> Result<()> {
        let (mut rows, mut places, mut again) = (Vec::new(), Vec::new(), Vec::new());
        for (row, place) in task.rows.into_iter().zip(task.places) {
            if rows.last() == Some(&row) {
                again.push((rows.len() - 1, place));
            } else {
                rows.push(row);
                places.push(place);
            }
        }
        self.done.useful += places.iter().map(|place| place.len() as u64).sum::<u64>();
        match &file.storage {
            RowStorage::Strided { offset, stride } => {
                let pieces = rows.iter().zip(&mut places);
                let pieces = pieces.map(|(row, place)| Piece { offset: offset + row * stride, place });
                self.read_pieces(source, pieces.collect())?;
            }
            RowStorage::Array(array) => {
                self.decode(array, source, &rows, &mut places)?;
                let pieces = as_stored(array, &rows, &mut places);
                self.read_pieces(source, pieces)?;
            }
        }
        for (first, place) in again {
            place.copy_from_slice(places[first]);
        }
        Ok(())
    }

    /// Reads bytes that are stored as they are; neighbours with one call.
    fn read_pieces(&mut self, source: &dyn Source, mut pieces: Vec<Piece<'_>>) -> Result<()> {
        pieces.sort_by_key(|piece| piece.offset);
        let extent = |piece: &Piece<'_>| Extent { offset: piece.offset, len: piece.place.len() as u64 };
        let extents: Vec<Extent> = pieces.iter().map(extent).collect();
        let mut pieces = pieces.into_iter();
        let runs = runs(&extents);
        let joined = |run: &Range<usize>| Extent {
            len: extents[run.end - 1].end() - extents[run.start].offset,
            ..extents[run.start]
        };
        let whole: Vec<Extent> = runs.iter().map(joined).collect();
        let mut list = ReadList::new(source, &whole, &self.waits);
        for (run, Extent { offset, len }) in runs.into_iter().zip(&whole) {
            let numbers = [*offset as i64, *len as i64, run.len() as i64];
            self.done.read += len;
            self.done.decoded += len;
            self.done.reads += 1;
            if run.len() == 1 {
                if let Some(piece) = pieces.next() {
                    let time = list.read(1, |source| source.read_exact_at(piece.offset, piece.place))?;
                    record_read(source, time, numbers);
                }
                continue;
            }
            let gap = |i: usize| (extents[i].offset - extents[i - 1].end()) as usize;
            let between: usize = (run.start + 1..run.end).map(gap).sum();
            if self.gaps.len() < between {
                self.gaps.resize(between, 0);
            }
            let mut gaps = self.gaps.as_mut_slice();
            let mut buffers = Vec::with_capacity(2 * run.len());
            for (i, piece) in run.clone().zip(pieces.by_ref()) {
                if i > run.start && gap(i) > 0 {
                    let (front, rest) = std::mem::take(&mut gaps).split_at_mut(gap(i));
                    buffers.push(IoSliceMut::new(front));
                    gaps = rest;
                }
                buffers.push(IoSliceMut::new(piece.place));
            }
            let time = list.read(1, |source| source.read_scattered_at(*offset, &mut buffers))?;
            record_read(source, time, numbers);
        }
        Ok(())
    }

    /// Decodes the compressed chunks of these rows, each once.
    fn decode(&mut self, array: &Array, source: &dyn Source, rows: &[u64], places: &mut [&mut [u8]]) -> Result<()> {
        if !array.filtered() {
            return Ok(());
        }
        // chunks with the rows that they have
        let mut wanted: Vec<(Chunk, Extent, Range<usize>)> = Vec::new();
        let mut first = 0;
        while first < rows.len() {
            let same = rows[first..].iter().take_while(|&&row| array.chunk_row(row) == array.chunk_row(rows[first]));
            let end = first + same.count();
            for chunk in array.chunks_of_row(rows[first]) {
                if let Stored::Filtered(extent) = array.stored(&chunk) {
                    wanted.push((chunk, extent, first..end));
                }
            }
            first = end;
        }
        wanted.sort_by_key(|(_, extent, _)| extent.offset);
        let extents: Vec<Extent> = wanted.iter().map(|(_, extent, _)| *extent).collect();
        let mut list = ReadList::new(source, &extents, &self.waits);
        let mut rest = wanted.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(read_at_once(rest.iter().map(|(_, extent, _)| *extent)));
            let time =
                list.read(now.len(), |source| self.gather.read(source, now.iter().map(|(_, extent, _)| *extent)))?;
            self.done.read += self.gather.bytes_read;
            self.done.reads += self.gather.reads;
            let offset = now.first().map_or(0, |(_, extent, _)| extent.offset as i64);
            let rows_of_it = now.iter().map(|(.., range)| range.len() as i64).sum();
            let numbers = [offset, self.gather.bytes_read as i64, rows_of_it];
            record_read(source, time, numbers);
            let start = begin();
            for (i, (chunk, _, range)) in now.iter().enumerate() {
                array.decode(chunk, self.gather.bytes(i), &mut self.chunk, &mut self.scratch)?;
                self.done.decoded += self.chunk.len() as u64;
                self.done.chunks += 1;
                put(array, chunk, &self.chunk, &rows[range.clone()], &mut places[range.clone()])?;
            }
            finish(start, &DECODE, None, numbers);
            rest = later;
        }
        Ok(())
    }
}

fn record_read(source: &dyn Source, (start, duration): (Instant, Duration), values: [i64; 3]) {
    if trace::enabled() {
        trace::record(&Event { activity: &READING, file: Some(source.path()), start, duration, values });
    }
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let first = self.files.first().map_or(Path::new(""), |(file, _)| &file.path);
        write!(f, "Rows({} of {} bytes in {} files, {})", self.len(), self.row_bytes, self.files.len(), first.display())
    }
}
