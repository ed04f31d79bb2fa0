//! Neighbours of each point, by ascending places.

use std::ops::Range;

use super::scan::Hits;
use crate::lanes::EIGHT;

/// Up to this number of neighbours are sorted by counting the lower ones of each.
const FEW: usize = 2 * EIGHT;
/// Bits of a word.
const WORD: usize = 64;

/// Neighbours of points that are found in any order.
#[derive(Debug, Default)]
pub(super) struct Ordered {
    seconds: Vec<u32>,
    distances: Vec<f64>,
    /// The range of the neighbours of each point.
    ranges: Vec<(usize, usize)>,
    sorter: Sorter,
}

impl Ordered {
    /// Forgets all neighbours, and expects neighbours of some points among others.
    pub(super) fn clear(&mut self, n_first: usize, n_second: usize) {
        self.seconds.clear();
        self.distances.clear();
        self.ranges.clear();
        self.ranges.resize(n_first, (0, 0));
        self.sorter.expect(n_second);
    }

    /// Adds all neighbours of a point, each with its nearest image; `is_one_image` says that none has several.
    pub(super) fn add(
        &mut self,
        first: u32,
        (hits, range, is_one_image): (&Hits, Range<usize>, bool),
        numbers: &[u32],
    ) {
        let begin = self.seconds.len();
        let (points, distances) = (&hits.points[range.clone()], &hits.distances[range]);
        let found = points.iter().map(|point| numbers[*point as usize]).zip(distances.iter().copied());
        if is_one_image && points.len() <= FEW {
            self.add_few(found);
        } else {
            self.sorter.sort(found, (&mut self.seconds, &mut self.distances));
        }
        self.ranges[first as usize] = (begin, self.seconds.len());
    }

    /// Adds distinct numbers in order, without a branch: the place of each is how many are lower.
    #[inline(always)]
    fn add_few(&mut self, found: impl ExactSizeIterator<Item = (u32, f64)>) {
        let (begin, n) = (self.seconds.len(), found.len());
        let (mut all, mut values) = ([u32::MAX; FEW], [0.0; FEW]);
        for ((number, value), found) in all.iter_mut().zip(&mut values).zip(found) {
            (*number, *value) = found;
        }
        self.seconds.resize(begin + n, 0);
        self.distances.resize(begin + n, 0.0);
        let (seconds, distances) = (&mut self.seconds[begin..], &mut self.distances[begin..]);
        let blocks = all.as_chunks::<EIGHT>().0;
        let blocks = &blocks[..n.div_ceil(EIGHT)];
        for (number, value) in all.iter().zip(values).take(n) {
            let lower = |block: &[u32; EIGHT]| block.iter().map(|other| u32::from(other < number)).sum::<u32>();
            let at = blocks.iter().map(lower).sum::<u32>() as usize;
            (seconds[at], distances[at]) = (*number, value);
        }
    }

    /// Calls `see` with each point that has neighbours, these, and their distances.
    pub(super) fn visit(&self, mut see: impl FnMut(u32, &[u32], &[f64])) {
        for (first, &(begin, end)) in (0..).zip(&self.ranges) {
            if begin < end {
                see(first, &self.seconds[begin..end], &self.distances[begin..end]);
            }
        }
    }
}

/// Sorts distinct numbers by setting bits: of the numbers, and of words of these.
#[derive(Debug, Default)]
struct Sorter {
    words: Vec<u64>,
    of_words: Vec<u64>,
    values: Vec<f64>,
}

impl Sorter {
    fn expect(&mut self, n: usize) {
        self.words.resize(n.div_ceil(WORD), 0);
        self.of_words.resize(n.div_ceil(WORD * WORD), 0);
        self.values.resize(n, 0.0);
    }

    /// Appends the numbers in order, each with its least value.
    fn sort(&mut self, given: impl ExactSizeIterator<Item = (u32, f64)>, to: (&mut Vec<u32>, &mut Vec<f64>)) {
        let (numbers, values) = to;
        numbers.reserve(given.len());
        values.reserve(given.len());
        for (number, value) in given {
            let number = number as usize;
            let (word, bit) = (number / WORD, 1 << (number % WORD));
            let before = if self.words[word] & bit == 0 { f64::INFINITY } else { self.values[number] };
            self.values[number] = value.min(before);
            self.words[word] |= bit;
            self.of_words[word / WORD] |= 1 << (word % WORD);
        }
        for (at, of_words) in self.of_words.iter_mut().enumerate() {
            for word in set_bits(std::mem::take(of_words)) {
                let word = at * WORD + word;
                for bit in set_bits(std::mem::take(&mut self.words[word])) {
                    let number = word * WORD + bit;
                    numbers.push(number as u32);
                    values.push(self.values[number]);
                }
            }
        }
    }
}

/// The places of the bits that are set.
#[inline(always)]
fn set_bits(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (bits != 0).then(|| {
            let bit = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            bit
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_sorted_with_their_least_values() {
        for n in [10, 70, 5000, 300_000] {
            let mut sorter = Sorter::default();
            sorter.expect(n);
            for step in [7, 1, 99_991] {
                let numbers: Vec<u32> = (0..n.min(900)).map(|i| ((i * step + 3) % n) as u32).collect();
                let mut given: Vec<_> = numbers.iter().map(|i| (*i, f64::from(*i) + 0.5)).collect();
                given.push((numbers[0], 0.25));
                let (mut found, mut values) = (vec![], vec![]);
                sorter.sort(given.into_iter(), (&mut found, &mut values));
                let mut expected = numbers.clone();
                expected.sort_unstable();
                expected.dedup();
                assert_eq!(found, expected);
                let value = |i: &u32| if *i == numbers[0] { 0.25 } else { f64::from(*i) + 0.5 };
                assert_eq!(values, expected.iter().map(value).collect::<Vec<_>>());
            }
        }
    }
}
