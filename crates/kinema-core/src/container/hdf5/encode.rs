//! Chunk encoder: divides an array on a data set's chunk grid and encodes the chunks on several threads.
//!
//! It writes no file: HDF5's direct-chunk write does.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::filters::{FilterScratch, Pipeline, StoredFilter};
use crate::error::catch_panics;
use crate::{Error, ErrorKind, Result};

/// An array, and the shape of its chunks.
#[derive(Debug, Clone, Copy)]
pub struct ChunkedArray<'a> {
    /// The elements in C order.
    pub bytes: &'a [u8],
    /// Bytes of an element.
    pub element_size: usize,
    /// Elements along each dimension.
    pub shape: &'a [usize],
    /// Elements of a chunk along each dimension.
    pub chunk_shape: &'a [usize],
}

/// A chunk as it is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedChunk {
    /// Element of the array at which the chunk begins, along each dimension.
    pub offset: Vec<usize>,
    /// Bytes after all filters.
    pub bytes: Vec<u8>,
}

impl ChunkedArray<'_> {
    /// Bytes of a decoded chunk.
    fn chunk_bytes(&self) -> Result<usize> {
        let wrong = |what: String| Err(Error::new(ErrorKind::InvalidArgument, what));
        let (shape, chunk) = (self.shape, self.chunk_shape);
        if shape.is_empty() || shape.len() != chunk.len() {
            return wrong(format!(
                "an array of {} dimensions cannot be cut into chunks of {}",
                shape.len(),
                chunk.len()
            ));
        }
        let size = |shape: &[usize]| shape.iter().try_fold(self.element_size, |all, n| all.checked_mul(*n));
        if size(shape) != Some(self.bytes.len()) {
            return wrong(format!("an array of shape {shape:?} does not have {} bytes", self.bytes.len()));
        }
        match size(chunk) {
            Some(bytes) if bytes > 0 => Ok(bytes),
            _ => wrong(format!("a chunk of shape {chunk:?} and elements of {} bytes cannot be", self.element_size)),
        }
    }

    /// Chunks along each dimension.
    fn grid(&self) -> Vec<usize> {
        self.shape.iter().zip(self.chunk_shape).map(|(n, chunk)| n.div_ceil(*chunk)).collect()
    }

    /// First element of the chunk with this number in row-major order.
    fn offset(&self, grid: &[usize], mut number: usize) -> Vec<usize> {
        let mut offset = vec![0; grid.len()];
        for ((place, chunks), length) in offset.iter_mut().zip(grid).zip(self.chunk_shape).rev() {
            *place = number % chunks * length;
            number /= chunks;
        }
        offset
    }

    /// The chunk's bytes if they are in the array in one piece; otherwise copied to `buffer`, with zeros where the
    /// chunk sticks out of the array.
    fn gather<'b>(&'b self, offset: &[usize], buffer: &'b mut Vec<u8>, chunk_bytes: usize) -> Result<&'b [u8]> {
        let inside: Vec<usize> = (self.shape.iter().zip(self.chunk_shape).zip(offset))
            .map(|((n, chunk), start)| (n - start).min(*chunk))
            .collect();
        // a chunk of whole rows is one run of the array
        let whole = inside == self.chunk_shape && self.shape.get(1..) == self.chunk_shape.get(1..);
        let start = self.position(offset, self.shape);
        if whole {
            return self.bytes.get(start..start + chunk_bytes).ok_or_else(|| outside(offset));
        }
        buffer.clear();
        buffer.resize(chunk_bytes, 0);
        let run = inside.last().copied().unwrap_or(0) * self.element_size;
        let outer = inside.split_last().map_or(&[][..], |(_, outer)| outer);
        let mut index = vec![0; inside.len()];
        loop {
            let from = start + self.position(&index, self.shape);
            let to = self.position(&index, self.chunk_shape);
            let (Some(source), Some(place)) = (self.bytes.get(from..from + run), buffer.get_mut(to..to + run)) else {
                return Err(outside(offset));
            };
            place.copy_from_slice(source);
            if !advance(&mut index, outer) {
                return Ok(buffer);
            }
        }
    }

    /// Byte of an element in an array of this shape.
    fn position(&self, index: &[usize], shape: &[usize]) -> usize {
        index.iter().zip(shape).fold(0, |all, (i, n)| all * n + i) * self.element_size
    }
}

#[cold]
fn outside(offset: &[usize]) -> Error {
    Error::new(ErrorKind::Internal, format!("the chunk at {offset:?} lies outside its array"))
}

/// The next index in row-major order over `lengths`, which has a dimension less; false after the last.
fn advance(index: &mut [usize], lengths: &[usize]) -> bool {
    for (place, length) in index.iter_mut().zip(lengths).rev() {
        *place += 1;
        if *place < *length {
            return true;
        }
        *place = 0;
    }
    false
}

/// Encodes all chunks of an array on `workers` threads, in row-major order of their offsets.
///
/// Chunks that stick out of the array are padded with zeros to their full shape, as HDF5 stores them. The whole encoded
/// array is held in memory. `cancel` is checked before each chunk.
///
/// # Errors
/// `InvalidArgument` if array and chunks do not fit; as [`Pipeline::new`] and [`Pipeline::encode`]; `Cancelled` once
/// `cancel` is set.
pub fn encode_chunks(
    array: ChunkedArray<'_>,
    filters: &[StoredFilter],
    workers: usize,
    cancel: &AtomicBool,
) -> Result<Vec<EncodedChunk>> {
    let chunk_bytes = array.chunk_bytes()?;
    let pipeline = Pipeline::new(filters, array.element_size, chunk_bytes)?;
    let grid = array.grid();
    let count: usize = grid.iter().product();
    let work = Work { array, pipeline, grid, count, next: AtomicUsize::new(0), failed: AtomicBool::new(false), cancel };
    let gathered = Mutex::new(Vec::with_capacity(count));
    thread::scope(|scope| {
        let run = || {
            let outcome = catch_panics(|| work.encode_some());
            if outcome.is_err() {
                work.failed.store(true, Ordering::Relaxed);
            }
            outcome.map(|chunks| gathered.lock().unwrap_or_else(|poison| poison.into_inner()).extend(chunks))
        };
        let others: Vec<_> = (1..workers.min(count)).map(|_| scope.spawn(run)).collect();
        let mut outcome = run();
        for other in others {
            let died = || Err(Error::new(ErrorKind::Internal, "a thread that encodes chunks died"));
            outcome = outcome.and(other.join().unwrap_or_else(|_| died()));
        }
        outcome
    })?;
    let mut chunks = gathered.into_inner().unwrap_or_else(|poison| poison.into_inner());
    chunks.sort_unstable_by_key(|(number, _)| *number);
    Ok(chunks.into_iter().map(|(_, chunk)| chunk).collect())
}

/// Work that the threads share.
struct Work<'a> {
    array: ChunkedArray<'a>,
    pipeline: Pipeline,
    grid: Vec<usize>,
    count: usize,
    next: AtomicUsize,
    failed: AtomicBool,
    cancel: &'a AtomicBool,
}

impl Work<'_> {
    /// Takes chunk after chunk until there is none, or another thread has failed.
    fn encode_some(&self) -> Result<Vec<(usize, EncodedChunk)>> {
        let (mut buffer, mut encoded, mut scratch) = (Vec::new(), Vec::new(), FilterScratch::default());
        let mut chunks = Vec::new();
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.count || self.failed.load(Ordering::Relaxed) {
                return Ok(chunks);
            }
            if self.cancel.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::Cancelled, "stopped by the caller"));
            }
            let offset = self.array.offset(&self.grid, number);
            let raw = self.array.gather(&offset, &mut buffer, self.pipeline.chunk_bytes())?;
            self.pipeline.encode(raw, &mut encoded, &mut scratch)?;
            chunks.push((number, EncodedChunk { offset, bytes: encoded.as_slice().to_vec() }));
        }
    }
}
