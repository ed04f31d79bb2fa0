//! Inflates several zlib streams at once, on one core.
//!
//! It judges no stream: one that it cannot inflate is left to libdeflate, which says what is wrong. Worth its while for
//! bytes that hardly repeat, as those of floats: single streams and such with many matches are libdeflate's as well.

mod code;
mod rounds;
mod stream;
#[cfg(test)]
mod tests;

use stream::Stream;

/// Streams that are inflated at once.
pub(super) const AT_ONCE: usize = 6;
// `Running::advance` has an arm for each number
const _: () = assert!(AT_ONCE == 6);

/// A stream is not what it must be, there is no memory for it, or it holds too many matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Refused;

/// One stream to inflate.
pub(super) struct Job<'a> {
    /// A zlib stream; bytes behind it are ignored.
    pub(super) stream: &'a [u8],
    /// Room for all that comes out.
    pub(super) out: &'a mut [u8],
    /// Whether `out` was filled, no byte more came out, and the checksum fits. Not so for a stream that holds so many
    /// matches that libdeflate is faster.
    pub(super) done: bool,
}

/// Most groups of streams that are left to libdeflate after one with many matches, before the next is tried.
const LONGEST_PAUSE: u32 = 63;

/// Codes and buffers of [`AT_ONCE`] streams.
pub(super) struct Inflater {
    streams: Box<[Stream; AT_ONCE]>,
    /// Groups of streams to leave to libdeflate: those of one data set are alike, and trying costs a tenth.
    pause: u32,
    /// How long the last pause was; 0 where there was no reason for one.
    last_pause: u32,
}

impl Inflater {
    /// Bytes of working memory for each stream and byte that comes out.
    pub(super) const BYTES_FOR_EACH: usize = size_of::<u16>();

    pub(super) fn new() -> Self {
        Self { streams: Box::new(std::array::from_fn(|_| Stream::new())), pause: 0, last_pause: 0 }
    }

    /// One that refuses no stream for its matches.
    #[cfg(test)]
    fn patient() -> Self {
        let mut inflater = Self::new();
        inflater.streams.iter_mut().for_each(|stream| stream.patient = true);
        inflater
    }

    /// Inflates all streams, [`AT_ONCE`] at a time, and marks those that went well.
    pub(super) fn inflate(&mut self, jobs: &mut [Job<'_>]) {
        for jobs in jobs.chunks_mut(AT_ONCE) {
            if self.pause > 0 {
                self.pause -= 1;
                jobs.iter_mut().for_each(|job| job.done = false);
                continue;
            }
            let mut running = Running::begin(&mut self.streams, jobs);
            while running.n > 0 {
                running.advance();
            }
            let in_vain = 2 * running.with_many_matches > running.jobs.len();
            self.last_pause = if in_vain { (2 * self.last_pause + 1).min(LONGEST_PAUSE) } else { 0 };
            self.pause = self.last_pause;
        }
    }
}

/// Streams that have begun: the first `n`, each of them within a block and with its own input.
struct Running<'r, 'a> {
    streams: &'r mut [Stream; AT_ONCE],
    inputs: [&'a [u8]; AT_ONCE],
    /// Which job each is.
    numbers: [usize; AT_ONCE],
    jobs: &'r mut [Job<'a>],
    n: usize,
    /// How many were refused for that.
    with_many_matches: usize,
}

impl<'r, 'a> Running<'r, 'a> {
    fn begin(streams: &'r mut [Stream; AT_ONCE], jobs: &'r mut [Job<'a>]) -> Self {
        let mut running =
            Self { streams, inputs: [&[]; AT_ONCE], numbers: [0; AT_ONCE], jobs, n: 0, with_many_matches: 0 };
        for number in 0..running.jobs.len().min(AT_ONCE) {
            let job = &mut running.jobs[number];
            job.done = false;
            let (k, input) = (running.n, job.stream);
            (running.inputs[k], running.numbers[k]) = (input, number);
            if running.streams[k].begin(input, job.out.len()).is_ok() {
                running.n += 1;
                running.enter_block(k);
            }
        }
        running
    }

    /// Goes on to the next block of a stream, or ends it.
    fn enter_block(&mut self, k: usize) {
        match self.streams[k].next_block(self.inputs[k]) {
            Ok(true) => {}
            Ok(false) => self.end(k, true),
            Err(Refused) => self.end(k, false),
        }
    }

    /// Takes a stream out; the last one comes to its place.
    fn end(&mut self, k: usize, sound: bool) {
        let job = &mut self.jobs[self.numbers[k]];
        job.done = sound && self.streams[k].finish(self.inputs[k], job.out).is_ok();
        self.with_many_matches += usize::from(!sound && self.streams[k].has_many_matches());
        self.n -= 1;
        if k != self.n {
            self.streams.swap(k, self.n);
            self.inputs.swap(k, self.n);
            self.numbers.swap(k, self.n);
        }
    }

    /// Decodes on to where a stream needs something else than symbols, and does that.
    fn advance(&mut self) {
        let stopped = match self.n {
            1 => self.decode::<1>(),
            2 => self.decode::<2>(),
            3 => self.decode::<3>(),
            4 => self.decode::<4>(),
            5 => self.decode::<5>(),
            _ => self.decode::<6>(),
        };
        // from the last one on, as another may come to the place of one that ends
        for k in (0..self.n).rev() {
            if stopped.refused >> k & 1 == 1 {
                self.end(k, false);
            } else if stopped.ended >> k & 1 == 1 {
                self.enter_block(k);
            } else if self.streams[k].rounds(self.inputs[k]) == 0 {
                let outcome = self.streams[k].decode_rest(self.inputs[k]);
                self.end(k, outcome.is_ok());
            }
        }
    }

    fn decode<const K: usize>(&mut self) -> rounds::Stopped {
        match (self.streams.first_chunk_mut::<K>(), self.inputs.first_chunk::<K>()) {
            (Some(streams), Some(inputs)) => rounds::decode(streams, inputs),
            _ => rounds::Stopped::default(),
        }
    }
}
