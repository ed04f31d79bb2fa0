//! The literals of several streams at once: rounds in which each stream looks up a few, in turn with the others.
//!
//! All that is no literal, heads and ends are `stream`'s task. Looking up a literal takes a processor seven cycles, as each
//! lookup waits for the one before it to know its bits; of several streams it does several in that time.
//!
//! A stream whose next symbol is no literal stays where it is: its entry takes no bits, and what it writes meanwhile
//! is told by the missing flag and overwritten. So a round has no branch but one, on the outcome of the round before.

use super::Refused;
use super::stream::{LITERAL, Next, PRIMARY, Stream};

/// Lookups of each stream in a round: with 7 bits before them they fit 63 bits.
const PER_ROUND: usize = 5;
const _: () = assert!(PER_ROUND * PRIMARY + 7 <= 63);
/// A stream is refused when it has had more matches than this,
const MOST_MATCHES: usize = 32;
/// and more than one in as many bits: the rounds have to be left for each, which takes as long as some 25 literals.
/// Where there are so many, libdeflate is as fast.
const BITS_A_MATCH: usize = 8 * 16;
/// Bytes that a round reads.
const WORD: usize = 8;
/// Ends the bits of a word: zeros above it are bits that were taken.
const MARK: u64 = 1 << 63;

/// One bit for each stream.
pub(super) type Streams = u32;

/// What the rounds have come to.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Stopped {
    /// Streams whose block has ended.
    pub(super) ended: Streams,
    /// Streams to be left to libdeflate.
    pub(super) refused: Streams,
}

impl Stream {
    /// How many rounds are certain to stay within the input and within the room for what comes out.
    #[inline(always)]
    pub(super) fn rounds(&self, input: &[u8]) -> usize {
        // a round reads a word and goes on by up to seven bytes; so 7 (n - 1) + 8 <= 8 n bytes are enough
        let words = input.len().saturating_sub(self.at >> 3) / WORD;
        words.min(self.staged.len().saturating_sub(self.written) / PER_ROUND)
    }

    /// Goes back to the symbol that is no literal, if the stream has come to one, and decodes it.
    ///
    /// `written` counts up to two rounds whose entries are not all literals.
    #[inline(never)]
    fn decode_other(&mut self, input: &[u8]) -> Result<Next, Refused> {
        let start = self.written.saturating_sub(2 * PER_ROUND);
        let last = self.staged.get(start..self.written).unwrap_or_default();
        self.written = start + last.iter().filter(|entry| **entry & LITERAL != 0).count();
        self.matches += 1;
        if self.has_many_matches() {
            return Err(Refused);
        }
        self.symbol(input)
    }

    /// Whether there are so many matches that libdeflate is faster.
    pub(super) fn has_many_matches(&self) -> bool {
        self.matches > MOST_MATCHES + self.at / BITS_A_MATCH && !self.patient
    }

    /// Whether the last entry is no literal.
    #[inline(always)]
    fn waits(&self) -> bool {
        self.written.checked_sub(1).and_then(|last| self.staged.get(last)).is_some_and(|entry| entry & LITERAL == 0)
    }
}

/// Decodes symbols of all streams until a block ends, a stream is refused, or one has no more rounds.
///
/// All streams must be within a block.
#[inline(always)]
pub(super) fn decode_body<const K: usize>(streams: &mut [Stream; K], inputs: &[&[u8]; K]) -> Stopped {
    let mut stopped = Stopped::default();
    let mut left = streams.iter().zip(inputs).map(|(stream, input)| stream.rounds(input)).min().unwrap_or(0);
    let mut at: [usize; K] = std::array::from_fn(|k| streams[k].at);
    let bases: [*const u8; K] = std::array::from_fn(|k| inputs[k].as_ptr());
    let mut places: [*mut u16; K] =
        std::array::from_fn(|k| streams[k].staged.as_mut_ptr().wrapping_add(streams[k].written));
    let mut all = LITERAL;
    while left > 0 && stopped.ended | stopped.refused == 0 {
        left -= 1;
        let before = all;
        let mut last = [0; K];
        // SAFETY: `rounds` of this stream, as it was when `at` was set, has counted this round, so that the word is
        // within the input. The safe twin is `Stream::decode_rest`.
        let mut bits: [u64; K] = std::array::from_fn(|k| unsafe {
            (u64::from_le(bases[k].add(at[k] >> 3).cast::<u64>().read_unaligned()) | MARK) >> (at[k] & 7)
        });
        for i in 0..PER_ROUND {
            for k in 0..K {
                let entry = streams[k].literals[(bits[k] & ((1 << PRIMARY) - 1)) as usize];
                bits[k] >>= entry & 63;
                // SAFETY: as above, the round has room for its entries in `staged`, which is not resized meanwhile.
                unsafe { places[k].add(i).write(entry) };
                last[k] = entry;
            }
        }
        all = LITERAL;
        for k in 0..K {
            at[k] = (at[k] & !7) + bits[k].leading_zeros() as usize;
            places[k] = places[k].wrapping_add(PER_ROUND);
            all &= last[k];
        }
        if before & LITERAL == 0 {
            all = LITERAL;
            for k in 0..K {
                let stream = &mut streams[k];
                if last[k] & LITERAL != 0 {
                    continue;
                }
                let written = (places[k].addr() - stream.staged.as_ptr().addr()) / size_of::<u16>();
                (stream.at, stream.written) = (at[k], written);
                stopped.note(k, stream.decode_other(inputs[k]));
                left = left.min(stream.rounds(inputs[k]));
                (at[k], places[k]) = (stream.at, stream.staged.as_mut_ptr().wrapping_add(stream.written));
            }
        }
    }
    for k in 0..K {
        let stream = &mut streams[k];
        let written = (places[k].addr() - stream.staged.as_ptr().addr()) / size_of::<u16>();
        (stream.at, stream.written) = (at[k], written);
        if stream.waits() {
            stopped.note(k, stream.decode_other(inputs[k]));
        }
    }
    stopped
}

impl Stopped {
    #[inline(always)]
    fn note(&mut self, k: usize, outcome: Result<Next, Refused>) {
        match outcome {
            Ok(Next::Symbols) => {}
            Ok(Next::Block) => self.ended |= 1 << k,
            Err(Refused) => self.refused |= 1 << k,
        }
    }
}

/// The same with shifts that leave the flags alone, and a count of leading zeros.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2,lzcnt")]
fn decode_bmi2<const K: usize>(streams: &mut [Stream; K], inputs: &[&[u8]; K]) -> Stopped {
    decode_body(streams, inputs)
}

/// As [`decode_body`], by the build that fits the processor; both give the same.
pub(super) fn decode<const K: usize>(streams: &mut [Stream; K], inputs: &[&[u8]; K]) -> Stopped {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("bmi1")
        && std::arch::is_x86_feature_detected!("bmi2")
        && std::arch::is_x86_feature_detected!("lzcnt")
    {
        // SAFETY: the processor has what the function is compiled for. The safe twin is `decode_body`.
        return unsafe { decode_bmi2(streams, inputs) };
    }
    decode_body(streams, inputs)
}
