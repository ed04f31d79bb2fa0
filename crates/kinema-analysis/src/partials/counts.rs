//! Partials of kernels that count: how many times each bin was hit. Sums of whole numbers are exact in any order.
//!
//! Few hits are kept as a list of bins, so that a partial is no larger than its counts require; the bytes depend on the
//! counts alone.

use kinema_core::Result;

use super::bytes::{Reader, Writer};

/// How many times each of a number of bins was hit, in how many frames.
#[derive(Debug, Default, Clone)]
pub struct Counts {
    n_frames: u64,
    hits: Hits,
}

#[derive(Debug, Clone)]
enum Hits {
    /// Bins, one entry a hit, in any order.
    Listed(Vec<u32>),
    /// The count of each bin.
    Counted(Vec<u64>),
}

impl Default for Hits {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

/// Entries of a list that take as much room as the counts.
fn most_listed(n_bins: usize) -> usize {
    2 * n_bins
}

/// Bytes of a bin with its count, and of a count alone.
const PAIR_BYTES: usize = 12;
const COUNT_BYTES: usize = 8;

impl Counts {
    /// Adds a frame with the bins that were hit in it, each below `n_bins`.
    pub(crate) fn add_frame(&mut self, n_bins: usize, bins: &[u32]) {
        self.n_frames = self.n_frames.saturating_add(1);
        match &mut self.hits {
            Hits::Listed(listed) if listed.len() + bins.len() <= most_listed(n_bins) => listed.extend_from_slice(bins),
            _ => {
                let counts = self.counted(n_bins);
                for &bin in bins {
                    counts[bin as usize] += 1;
                }
            }
        }
    }

    /// The count of each bin.
    fn counted(&mut self, n_bins: usize) -> &mut [u64] {
        if let Hits::Listed(listed) = &self.hits {
            let mut counts = vec![0; n_bins];
            for &bin in listed {
                counts[bin as usize] += 1;
            }
            self.hits = Hits::Counted(counts);
        }
        match &mut self.hits {
            Hits::Counted(counts) => counts,
            Hits::Listed(_) => &mut [],
        }
    }

    /// Adds other frames.
    pub(crate) fn merge(&mut self, n_bins: usize, right: Self) {
        self.n_frames = self.n_frames.saturating_add(right.n_frames);
        match (&mut self.hits, right.hits) {
            (Hits::Listed(left), Hits::Listed(right)) if left.len() + right.len() <= most_listed(n_bins) => {
                left.extend_from_slice(&right);
            }
            (Hits::Listed(left), Hits::Counted(mut counts)) => {
                left.iter().for_each(|&bin| counts[bin as usize] = counts[bin as usize].saturating_add(1));
                self.hits = Hits::Counted(counts);
            }
            (_, Hits::Listed(right)) => {
                let counts = self.counted(n_bins);
                right.iter().for_each(|&bin| counts[bin as usize] = counts[bin as usize].saturating_add(1));
            }
            (_, Hits::Counted(right)) => {
                for (count, right) in self.counted(n_bins).iter_mut().zip(right) {
                    *count = count.saturating_add(right);
                }
            }
        }
    }

    /// Number of frames, and the count of each bin.
    pub(crate) fn into_counts(mut self, n_bins: usize) -> (u64, Vec<u64>) {
        self.counted(n_bins);
        match self.hits {
            Hits::Counted(counts) => (self.n_frames, counts),
            Hits::Listed(_) => (self.n_frames, Vec::new()),
        }
    }

    /// Bins that were hit with their counts, ascending.
    fn pairs(&self) -> (Vec<u32>, Vec<u64>) {
        match &self.hits {
            Hits::Listed(listed) => {
                let mut sorted = listed.clone();
                sorted.sort_unstable();
                sorted.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u64)).unzip()
            }
            Hits::Counted(counts) => (0..).zip(counts.iter().copied()).filter(|(_, count)| *count > 0).unzip(),
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
    ///
    /// # Errors
    /// `Corrupt` if the bytes are not of this kernel, version and number of bins, or do not have the form in which they
    /// are written.
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
                frames.iter().for_each(|bins| counts.add_frame(N, bins));
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
    fn a_partial_of_few_hits_is_small_whatever_the_number_of_bins() {
        let mut counts = Counts::default();
        counts.add_frame(1 << 30, &[5, 1 << 29]);
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
