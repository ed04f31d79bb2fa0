//! Partials of kernels that count, or add weights in fixed point: the sum of each bin, which is exact in any order.
//!
//! Few hits are kept as a list of bins, so that a partial is no larger than its counts require; the bytes depend on the
//! sums alone.

use kinema_core::Result;

use super::bytes::{Reader, Writer};

/// How many times each of a number of bins was hit, or what its weights add up to, in how many frames.
#[derive(Debug, Default, Clone)]
pub struct Counts {
    n_frames: u64,
    hits: Hits,
}

#[derive(Debug, Clone)]
enum Hits {
    /// Bins, one entry a hit, in any order.
    Listed(List),
    /// The count of each of many bins, without weights.
    Narrow(Narrow),
    /// The count of each bin; of weights, the bits of the signed sum.
    Counted(Vec<u64>),
}

#[derive(Debug, Default, Clone)]
struct List {
    bins: Vec<u32>,
    /// One for each hit, or empty: 1 each.
    weights: Vec<i64>,
}

/// Counts of 16 bits, a quarter of the memory, so that more of them stay in the cache.
#[derive(Debug, Clone)]
struct Narrow {
    counts: Vec<u16>,
    /// Bins, one entry each time that 2^16 hits of it are in no count.
    carried: Vec<u32>,
}

impl Narrow {
    fn new(n_bins: usize) -> Self {
        Self { counts: vec![0; n_bins], carried: vec![] }
    }

    fn add(&mut self, bins: &[u32]) {
        for &bin in bins {
            let count = &mut self.counts[bin as usize];
            *count = count.wrapping_add(1);
            if *count == 0 {
                self.carried.push(bin);
            }
        }
    }

    /// Adds the hits of other frames.
    fn merge(&mut self, right: &Self) {
        for ((bin, count), right) in (0..).zip(&mut self.counts).zip(&right.counts) {
            let (sum, is_above) = count.overflowing_add(*right);
            *count = sum;
            if is_above {
                self.carried.push(bin);
            }
        }
        self.carried.extend_from_slice(&right.carried);
    }

    /// Whether what is carried takes half of the memory of the counts at most.
    fn is_small(&self) -> bool {
        self.carried.len() <= self.counts.len() / 4
    }

    /// The count of each bin.
    fn wide(&self) -> Vec<u64> {
        let mut counts: Vec<u64> = self.counts.iter().map(|count| u64::from(*count)).collect();
        self.carried.iter().for_each(|&bin| counts[bin as usize] += 1 << u16::BITS);
        counts
    }
}

impl Hits {
    fn into_counts(self, n_bins: usize) -> Vec<u64> {
        match self {
            Self::Counted(counts) => counts,
            Self::Narrow(narrow) => narrow.wide(),
            Self::Listed(list) => {
                let mut counts = vec![0; n_bins];
                add_to(&mut counts, &list.bins, &list.weights);
                counts
            }
        }
    }
}

impl Default for Hits {
    fn default() -> Self {
        Self::Listed(List::default())
    }
}

/// Adds hits to counts. Signed sums, which never overflow (`FixedPoint`), have the bits of unsigned ones.
fn add_to(counts: &mut [u64], bins: &[u32], weights: &[i64]) {
    if weights.is_empty() {
        bins.iter().for_each(|&bin| counts[bin as usize] = counts[bin as usize].wrapping_add(1));
    } else {
        for (&bin, weight) in bins.iter().zip(weights) {
            let sum = &mut counts[bin as usize];
            *sum = sum.wrapping_add(weight.cast_unsigned());
        }
    }
}

/// Entries of a list that take as much room as the counts.
fn most_listed(n_bins: usize, has_weights: bool) -> usize {
    n_bins * COUNT_BYTES / entry_bytes(has_weights)
}

/// Bytes of an entry of a list.
fn entry_bytes(has_weights: bool) -> usize {
    size_of::<u32>() + if has_weights { size_of::<i64>() } else { 0 }
}

/// Bins from which on counts are narrow: fewer are in the cache in any case.
const NARROW_FROM: usize = 1 << 16;

/// Bytes of a bin with its count, and of a count alone.
const PAIR_BYTES: usize = 12;
const COUNT_BYTES: usize = 8;

impl Counts {
    /// The most bytes that a number of hits take: a list, which may have grown to twice its length, or all counts.
    pub(crate) fn most_bytes(n_bins: usize, n_hits: u64, has_weights: bool) -> u64 {
        let all = (COUNT_BYTES * n_bins) as u64;
        all.min(n_hits.saturating_mul(2 * entry_bytes(has_weights) as u64))
    }

    /// Adds a frame with the bins that were hit in it, each below `n_bins`, and the weight of each hit; no weights: 1.
    pub(crate) fn add_frame(&mut self, n_bins: usize, bins: &[u32], weights: &[i64]) {
        self.n_frames = self.n_frames.saturating_add(1);
        if let Hits::Listed(list) = &mut self.hits
            && list.bins.len() + bins.len() <= most_listed(n_bins, !weights.is_empty())
        {
            list.bins.extend_from_slice(bins);
            list.weights.extend_from_slice(weights);
        } else {
            self.add_hits(n_bins, bins, weights);
        }
    }

    /// Adds hits to the counts.
    fn add_hits(&mut self, n_bins: usize, bins: &[u32], weights: &[i64]) {
        if let Hits::Listed(list) = &self.hits
            && n_bins >= NARROW_FROM
            && list.weights.is_empty()
            && weights.is_empty()
        {
            let mut narrow = Narrow::new(n_bins);
            narrow.add(&list.bins);
            self.hits = Hits::Narrow(narrow);
        }
        match &mut self.hits {
            Hits::Narrow(narrow) if narrow.is_small() => narrow.add(bins),
            _ => add_to(self.counted(n_bins), bins, weights),
        }
    }

    /// The count of each bin.
    fn counted(&mut self, n_bins: usize) -> &mut [u64] {
        let hits = std::mem::take(&mut self.hits);
        self.hits = Hits::Counted(hits.into_counts(n_bins));
        match &mut self.hits {
            Hits::Counted(counts) => counts,
            _ => &mut [],
        }
    }

    /// Adds other frames.
    pub(crate) fn merge(&mut self, n_bins: usize, right: Self) {
        self.n_frames = self.n_frames.saturating_add(right.n_frames);
        match (&mut self.hits, right.hits) {
            (Hits::Listed(left), Hits::Listed(right))
                if left.bins.len() + right.bins.len() <= most_listed(n_bins, !right.weights.is_empty()) =>
            {
                left.bins.extend_from_slice(&right.bins);
                left.weights.extend_from_slice(&right.weights);
            }
            (_, Hits::Listed(right)) => self.add_hits(n_bins, &right.bins, &right.weights),
            (Hits::Listed(left), right) => {
                let left = std::mem::take(left);
                self.hits = right;
                self.add_hits(n_bins, &left.bins, &left.weights);
            }
            (Hits::Narrow(left), Hits::Narrow(right)) if left.is_small() && right.is_small() => left.merge(&right),
            (_, right) => {
                let right = right.into_counts(n_bins);
                for (count, right) in self.counted(n_bins).iter_mut().zip(right) {
                    *count = count.wrapping_add(right);
                }
            }
        }
    }

    /// Number of frames, and the count of each bin.
    pub(crate) fn into_counts(self, n_bins: usize) -> (u64, Vec<u64>) {
        (self.n_frames, self.hits.into_counts(n_bins))
    }

    /// Bins that were hit with their counts, ascending.
    fn pairs(&self) -> (Vec<u32>, Vec<u64>) {
        match &self.hits {
            Hits::Listed(list) if list.weights.is_empty() => {
                let mut sorted = list.bins.clone();
                sorted.sort_unstable();
                sorted.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u64)).unzip()
            }
            Hits::Listed(list) => {
                let mut sorted: Vec<_> = list.bins.iter().zip(&list.weights).collect();
                sorted.sort_unstable();
                let sums = sorted.chunk_by(|a, b| a.0 == b.0).map(|run| {
                    let sum = run.iter().fold(0_i64, |sum, (_, weight)| sum.wrapping_add(**weight));
                    (*run[0].0, sum.cast_unsigned())
                });
                // weights may cancel each other
                sums.filter(|(_, sum)| *sum != 0).unzip()
            }
            Hits::Narrow(narrow) => hit((0..).zip(narrow.wide())),
            Hits::Counted(counts) => hit((0..).zip(counts.iter().copied())),
        }
    }

    /// Number of bins, of frames and of bins that were hit; then the hit bins with their counts, or all counts if these
    /// are shorter.
    pub(crate) fn to_bytes(&self, id: &str, n_bins: usize) -> Vec<u8> {
        let (bins, counts) = self.pairs();
        let mut writer = Writer::new(id);
        for number in [n_bins as u64, self.n_frames, bins.len() as u64] {
            writer.u64(number);
        }
        if are_pairs(n_bins, bins.len()) {
            writer.numbers(&bins);
            writer.numbers(&counts);
        } else {
            let mut all = vec![0; n_bins];
            bins.iter().zip(&counts).for_each(|(&bin, &count)| all[bin as usize] = count);
            writer.numbers(&all);
        }
        writer.finish()
    }

    /// Restores the counts.
    /// Errors: `Corrupt` if the bytes are not of this kernel, version and number of bins, or do not have the form in
    /// which they are written.
    pub(crate) fn from_bytes(id: &str, n_bins: usize, bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(id, bytes)?;
        reader.same(n_bins as u64, "number of bins")?;
        let n_frames = reader.u64("number of frames")?;
        let n_hit = reader.u64("number of bins that were hit")?;
        if n_hit > n_bins as u64 {
            return Err(reader.wrong("number of bins that were hit", format!("at most {n_bins}"), n_hit));
        }
        let mut hits = Hits::default();
        if are_pairs(n_bins, n_hit as usize) {
            let bins: Vec<u32> = reader.numbers(n_hit, "bins")?;
            let counts: Vec<u64> = reader.numbers(n_hit, "counts")?;
            if !bins.is_sorted_by(|a, b| a < b) || bins.last().is_some_and(|&last| last as usize >= n_bins) {
                return Err(reader.wrong("order of bins", format!("ascending numbers below {n_bins}"), "others"));
            }
            if counts.contains(&0) {
                return Err(reader.wrong("count of a bin that was hit", "at least 1", 0));
            }
            if !bins.is_empty() {
                let mut all = vec![0; n_bins];
                bins.iter().zip(&counts).for_each(|(&bin, &count)| all[bin as usize] = count);
                hits = Hits::Counted(all);
            }
        } else {
            let all: Vec<u64> = reader.numbers(n_bins as u64, "counts")?;
            let found = all.iter().filter(|count| **count > 0).count() as u64;
            if found != n_hit {
                return Err(reader.wrong("number of bins that were hit", n_hit, found));
            }
            hits = Hits::Counted(all);
        }
        reader.finish()?;
        Ok(Self { n_frames, hits })
    }
}

/// Those with a count.
fn hit(counts: impl Iterator<Item = (u32, u64)>) -> (Vec<u32>, Vec<u64>) {
    counts.filter(|(_, count)| *count > 0).unzip()
}

fn are_pairs(n_bins: usize, n_hit: usize) -> bool {
    PAIR_BYTES.saturating_mul(n_hit) < COUNT_BYTES.saturating_mul(n_bins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_the_same_however_they_were_gathered() {
        const N: usize = 50;
        for n_hits in [0, 3, 49, 60, 400] {
            let frames: Vec<Vec<u32>> =
                (0..7_u32).map(|frame| (0..n_hits).map(|i| (i * i + frame * 11) % N as u32).collect()).collect();
            let mut expected = vec![0_u64; N];
            frames.iter().flatten().for_each(|&bin| expected[bin as usize] += 1);
            let of = |frames: &[Vec<u32>]| {
                let mut counts = Counts::default();
                frames.iter().for_each(|bins| counts.add_frame(N, bins, &[]));
                counts
            };
            let whole = of(&frames).to_bytes("x/1", N);
            for at in 0..=frames.len() {
                let (early, late) = frames.split_at(at);
                for [first, second] in [[early, late], [late, early]] {
                    let mut left = of(first);
                    left.merge(N, of(second));
                    assert_eq!(left.to_bytes("x/1", N), whole);
                    let mut travelled = Counts::from_bytes("x/1", N, &of(first).to_bytes("x/1", N)).unwrap();
                    travelled.merge(N, Counts::from_bytes("x/1", N, &of(second).to_bytes("x/1", N)).unwrap());
                    assert_eq!(travelled.to_bytes("x/1", N), whole);
                    assert_eq!(travelled.into_counts(N), (7, expected.clone()));
                }
            }
        }
    }

    #[test]
    fn counts_of_many_bins_have_16_bits_and_lose_no_hit() {
        const N: usize = NARROW_FROM + 1;
        let of = |hits: &[u32]| {
            let mut counts = Counts::default();
            counts.add_frame(N, hits, &[]);
            counts
        };
        // the first bin is hit more than 2^17 times, the last one in some frames alone
        let hits: Vec<u32> = (0..4 * N).map(|i| if i % 2 == 0 { 0 } else { (i * i % 7919 * 8 % N) as u32 }).collect();
        let last = [N as u32 - 1; 5];
        let mut expected = vec![0_u64; N];
        hits.iter().chain(&last).for_each(|&bin| expected[bin as usize] += 1);
        let mut narrow = of(&hits);
        assert!(matches!(&narrow.hits, Hits::Narrow(narrow) if narrow.carried.len() == 2));
        narrow.add_frame(N, &last, &[]);
        let travelled = Counts::from_bytes("x/1", N, &narrow.to_bytes("x/1", N)).unwrap();
        let mut listed = of(&last);
        listed.merge(N, of(&hits));
        let twice: Vec<u64> = expected.iter().map(|count| 2 * count).collect();
        for mut counts in [narrow.clone(), travelled, listed] {
            assert_eq!(counts.clone().into_counts(N), (2, expected.clone()));
            counts.merge(N, narrow.clone());
            assert_eq!(
                counts.to_bytes("x/1", N),
                Counts { n_frames: 4, hits: Hits::Counted(twice.clone()) }.to_bytes("x/1", N)
            );
        }
        // counts that are no longer small
        if let Hits::Narrow(narrow) = &mut narrow.hits {
            narrow.carried.resize(N + 1, 7);
        }
        expected[7] += (N as u64 - 1) << 16;
        expected[3] += 1;
        narrow.add_frame(N, &[3], &[]);
        assert!(matches!(narrow.hits, Hits::Counted(_)));
        assert_eq!(narrow.into_counts(N), (3, expected));
    }

    #[test]
    fn sums_of_weights_are_the_same_however_they_were_gathered() {
        const N: usize = 40;
        let frames: Vec<(Vec<u32>, Vec<i64>)> = (0..9_u32)
            .map(|frame| (0..frame * 3).map(|i| ((i * i + frame) % N as u32, 5 - i64::from(i % 11))).unzip())
            .collect();
        let mut expected = vec![0_i64; N];
        let all = frames.iter().flat_map(|(bins, weights)| bins.iter().zip(weights));
        all.for_each(|(&bin, weight)| expected[bin as usize] += weight);
        let of = |frames: &[(Vec<u32>, Vec<i64>)]| {
            let mut counts = Counts::default();
            frames.iter().for_each(|(bins, weights)| counts.add_frame(N, bins, weights));
            counts
        };
        let whole = of(&frames).to_bytes("x/1", N);
        for at in 0..=frames.len() {
            let (early, late) = frames.split_at(at);
            for [first, second] in [[early, late], [late, early]] {
                let mut left = of(first);
                left.merge(N, Counts::from_bytes("x/1", N, &of(second).to_bytes("x/1", N)).unwrap());
                assert_eq!(left.to_bytes("x/1", N), whole);
                let found = left.into_counts(N).1;
                assert_eq!(found.into_iter().map(u64::cast_signed).collect::<Vec<_>>(), expected);
            }
        }
    }

    #[test]
    fn two_to_the_33_hits_of_a_bin_are_counted() {
        let mut counts = Counts::from_bytes("x/1", 2, &{
            let mut writer = Writer::new("x/1");
            [2, 1, 1].into_iter().for_each(|number: u64| writer.u64(number));
            writer.numbers(&[1_u32]);
            writer.numbers(&[(1_u64 << 33) - 1]);
            writer.finish()
        })
        .unwrap();
        counts.add_frame(2, &[1, 0, 1], &[]);
        assert_eq!(counts.into_counts(2), (2, vec![1, (1 << 33) + 1]));
    }

    #[test]
    fn a_partial_of_few_hits_is_small_whatever_the_number_of_bins() {
        let mut counts = Counts::default();
        counts.add_frame(1 << 30, &[5, 1 << 29], &[]);
        assert!(counts.to_bytes("x/1", 1 << 30).len() < 100);
    }

    #[test]
    fn bytes_that_nobody_has_written_are_refused() {
        let bytes = |numbers: &[u64], bins: &[u32], counts: &[u64]| {
            let mut writer = Writer::new("x/1");
            numbers.iter().for_each(|number| writer.u64(*number));
            writer.numbers(bins);
            writer.numbers(counts);
            writer.finish()
        };
        let refused = |bytes: &[u8]| Counts::from_bytes("x/1", 9, bytes).is_err();
        assert!(!refused(&bytes(&[9, 1, 2], &[3, 4], &[1, 7])));
        for bytes in [
            bytes(&[8, 1, 2], &[3, 4], &[1, 7]),
            bytes(&[9, 1, 2], &[4, 3], &[1, 7]),
            bytes(&[9, 1, 2], &[3, 9], &[1, 7]),
            bytes(&[9, 1, 2], &[3, 4], &[1, 0]),
            bytes(&[9, 1, 10], &[3, 4], &[1, 7]),
            // all counts, where pairs are shorter
            bytes(&[9, 1, 2], &[], &[0, 0, 0, 1, 7, 0, 0, 0, 0]),
            bytes(&[9, 1, 7], &[], &[0, 0, 0, 1, 7, 0, 0, 0, 0]),
        ] {
            assert!(refused(&bytes), "{bytes:?}");
        }
    }
}
