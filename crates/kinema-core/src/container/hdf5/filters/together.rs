//! Decodes several chunks at once, where that is faster than one after the other: deflated ones that are not shuffled.
//!
//! It never says what is wrong with a chunk: those that it leaves undone are [`Pipeline::decode`]'s.

use super::inflate::{self, Inflater, Job};
use super::pipeline::skipped;
use super::{Filter, FilterScratch, Pipeline, deflate, fletcher32, make_room};

/// How many chunks are best decoded together.
pub const TOGETHER: usize = inflate::AT_ONCE;
/// Largest chunk of which several are decoded at once, in bytes: all of them are to stay in the second-level cache.
const LARGEST: usize = 256 << 10;
/// The least part of a chunk's bytes that is stored where it is decoded together with others.
const LEAST_STORED: (usize, usize) = (3, 4);

/// One chunk as it is stored.
#[derive(Debug, Clone, Copy)]
pub struct StoredChunk<'a> {
    /// The filters of its data set.
    pub pipeline: &'a Pipeline,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Bit i: filter i was skipped when it was written.
    pub mask: u32,
}

impl Pipeline {
    /// Whether chunks are a zlib stream each, perhaps with checksums, and small enough.
    fn together(&self) -> bool {
        let sums = |filters: &[Filter]| filters.iter().all(|filter| matches!(filter, Filter::Fletcher32));
        matches!(self.filters.as_slice(), [Filter::Deflate(_), rest @ ..] if sums(rest))
            && self.chunk_bytes() <= LARGEST
    }

    /// Bytes of working memory that [`decode_together`] takes for chunks of this data set, the decoded ones included.
    pub fn together_bytes(&self) -> usize {
        let each = self.chunk_bytes() * (1 + Inflater::BYTES_FOR_EACH);
        if self.together() { TOGETHER * each } else { 0 }
    }

    /// Whether a stored chunk of this length is decoded faster together with others.
    ///
    /// Shuffled bytes are not: the planes of their exponents are matches and those of their mantissas stored blocks,
    /// which libdeflate copies faster. Nor is much that repeats: streams wait for each other at every match.
    pub fn suits_together(&self, stored: usize) -> bool {
        let (part, whole) = LEAST_STORED;
        self.together() && stored / part >= self.chunk_bytes() / whole
    }

    /// The zlib stream in a stored chunk that holds nothing else but checksums, which fit.
    fn zlib_stream<'s>(&self, stored: &'s [u8], mask: u32) -> Option<&'s [u8]> {
        if !self.together() || skipped(mask, 0) {
            return None;
        }
        let mut stream = stored;
        for _ in (1..self.filters.len()).filter(|i| !skipped(mask, *i)) {
            stream = stream.get(..fletcher32::verify(stream).ok()?)?;
        }
        // as many bytes as a chunk has cannot come of fewer
        (self.chunk_bytes() <= stream.len().saturating_mul(deflate::LARGEST_GROWTH)).then_some(stream)
    }
}

/// Decodes chunks, each into the buffer at its place in `out`, as [`Pipeline::decode`] would; which ones it has decoded.
///
/// The others have another kind of filters, or are damaged: [`Pipeline::decode`] decodes them or says what is wrong.
/// [`TOGETHER`] of them are best given at once.
pub fn decode_together(chunks: &[StoredChunk<'_>], out: &mut [Vec<u8>], scratch: &mut FilterScratch) -> Vec<bool> {
    let mut done = vec![false; chunks.len()];
    let mut numbers = Vec::with_capacity(chunks.len());
    let mut jobs = Vec::with_capacity(chunks.len());
    for ((number, chunk), out) in chunks.iter().enumerate().zip(out) {
        let Some(stream) = chunk.pipeline.zlib_stream(chunk.bytes, chunk.mask) else { continue };
        if make_room(out, chunk.pipeline.chunk_bytes()).is_ok() {
            numbers.push(number);
            jobs.push(Job { stream, out, done: false });
        }
    }
    scratch.coders.inflate_together.get_or_insert_with(Inflater::new).inflate(&mut jobs);
    for (number, job) in numbers.into_iter().zip(&jobs) {
        done[number] = job.done;
    }
    done
}
