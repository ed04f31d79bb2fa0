//! Prefix codes of deflate as tables: from the lengths of the code words to what the next bits stand for.
//!
//! It reads no bits itself. Source: RFC 1951, 3.2.2.

use super::Refused;

/// Longest code word, in bits.
const LONGEST: usize = 15;
/// Most symbols of a code: literals and lengths.
const SYMBOLS: usize = 288;

/// A code by its symbols in the order of their code words: for words that are too long for a table.
pub(super) struct Code {
    /// Number of words of each length.
    counts: [u16; LONGEST + 1],
    symbols: [u16; SYMBOLS],
}

impl Code {
    pub(super) fn new() -> Self {
        Self { counts: [0; LONGEST + 1], symbols: [0; SYMBOLS] }
    }

    /// Takes the code with words of these lengths (0: no word), and fills the table that N bits, the next one lowest,
    /// are looked up in: with what `entry` gives for a symbol and the length of its word, and with `other` where the
    /// word is longer or there is none.
    ///
    /// # Errors
    /// A set of lengths that is no complete code; but no word at all, or one of one bit, may be (RFC 1951, 3.2.7).
    #[inline(always)]
    pub(super) fn set<E: Copy, const N: usize>(
        &mut self,
        lengths: &[u8],
        table: &mut [E; N],
        other: E,
        entry: impl Fn(u16, usize) -> E,
    ) -> Result<(), Refused> {
        let words = self.sort(lengths)?;
        let bits = N.trailing_zeros() as usize;
        if words < 2 {
            table.fill(other);
            if words == 1 {
                table.iter_mut().step_by(2).for_each(|place| *place = entry(self.symbols[0], 1));
            }
            return Ok(());
        }
        // a table of one bit less is the lower half and the upper half of one of one bit more, but for the longer words
        let (mut word, mut filled) = (0_u32, 1);
        let mut rest = self.symbols.as_slice();
        for length in 1..=bits {
            word <<= 1;
            let (symbols, later) = rest.split_at_checked(usize::from(self.counts[length])).ok_or(Refused)?;
            rest = later;
            if symbols.is_empty() && length < bits {
                continue;
            }
            while filled < 1 << length {
                // before the first word there is nothing to double
                if word > 0 {
                    let (lower, upper) = table.split_at_mut_checked(filled).ok_or(Refused)?;
                    upper.iter_mut().zip(lower).for_each(|(upper, lower)| *upper = *lower);
                }
                filled *= 2;
            }
            for symbol in symbols {
                *table.get_mut(reversed(word, length)).ok_or(Refused)? = entry(*symbol, length);
                word += 1;
            }
        }
        while (word as usize) < N {
            *table.get_mut(reversed(word, bits)).ok_or(Refused)? = other;
            word += 1;
        }
        Ok(())
    }

    /// Counts and sorts the words; how many there are.
    #[inline(always)]
    fn sort(&mut self, lengths: &[u8]) -> Result<usize, Refused> {
        // two counts in turn, so that equal neighbours do not wait for each other
        let mut counts = [[0_u16; LONGEST + 1]; 2];
        for pair in lengths.chunks(2) {
            for (counts, length) in counts.iter_mut().zip(pair) {
                counts[usize::from(length & 15)] += 1;
            }
        }
        let [mut counts, others] = counts;
        counts.iter_mut().zip(others).for_each(|(count, other)| *count += other);
        counts[0] = 0;
        let mut starts = [0_u16; LONGEST + 2];
        // how many words of that length are left
        let mut left = 1_i32;
        for (length, &count) in counts.iter().enumerate().skip(1) {
            left = 2 * left - i32::from(count);
            if left < 0 {
                return Err(Refused);
            }
            starts[length + 1] = starts[length] + count;
        }
        let words = starts[LONGEST + 1];
        if left > 0 && !(words == 0 || (words == 1 && counts[1] == 1)) {
            return Err(Refused);
        }
        for (symbol, length) in (0_u16..).zip(lengths) {
            let length = usize::from(length & 15);
            if length > 0 {
                *self.symbols.get_mut(usize::from(starts[length])).ok_or(Refused)? = symbol;
                starts[length] += 1;
            }
        }
        self.counts = counts;
        Ok(usize::from(words))
    }

    /// The symbol that `bits`, the next one lowest, begin with, and the length of its word.
    ///
    /// # Errors
    /// Bits that are no word.
    #[cold]
    pub(super) fn find(&self, bits: u64) -> Result<(usize, u32), Refused> {
        // the first word of each length, and where its symbol is
        let (mut word, mut first, mut place) = (0_u32, 0_u32, 0_u32);
        for (length, &count) in (0_u32..).zip(&self.counts).skip(1) {
            word = word << 1 | (bits >> (length - 1) & 1) as u32;
            first <<= 1;
            if let Some(i) = word.checked_sub(first).filter(|i| *i < u32::from(count)) {
                let symbol = self.symbols.get((place + i) as usize).ok_or(Refused)?;
                return Ok((usize::from(*symbol), length));
            }
            first += u32::from(count);
            place += u32::from(count);
        }
        Err(Refused)
    }
}

/// The lowest bits of a word the other way round, as they are stored.
#[inline(always)]
fn reversed(word: u32, length: usize) -> usize {
    (word.reverse_bits() >> (32 - length)) as usize
}
