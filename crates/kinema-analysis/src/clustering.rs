//! Clusters of things whose distances are known: the method of Daura and others, and sums of distances within clusters.
//!
//! Distances are condensed: pairs i < j, row after row. This module knows nothing of frames or structures.

use kinema_core::{Error, ErrorKind, Result};

/// Clusters as the method of Daura and others finds them, the largest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gromos {
    /// The cluster of each thing.
    pub labels: Vec<u32>,
    /// The thing of each cluster that had most neighbours when the cluster was found.
    pub centres: Vec<u32>,
}

/// Rows of bits, one for each pair of things.
struct Neighbors {
    words: usize,
    bits: Vec<u64>,
}

impl Neighbors {
    fn row(&self, thing: usize) -> &[u64] {
        &self.bits[thing * self.words..][..self.words]
    }
}

fn check(condensed: &[f64], n: usize) -> Result<()> {
    let expected = n * n.saturating_sub(1) / 2;
    if u32::try_from(n).is_ok() && condensed.len() == expected {
        return Ok(());
    }
    let what = format!("wrong number of distances of {n} things, expected {expected}, found {}", condensed.len());
    Err(Error::new(ErrorKind::InvalidArgument, what))
}

/// Calls `see` with the place of each bit that is set, ascending.
fn each_bit(words: impl Iterator<Item = u64>, mut see: impl FnMut(usize)) {
    for (word, mut bits) in words.enumerate() {
        while bits != 0 {
            see(64 * word + bits.trailing_zeros() as usize);
            bits &= bits - 1;
        }
    }
}

/// Clusters of `n` things. The thing with most neighbours, whose distance is below `cutoff`, and its neighbours are a
/// cluster and leave; neighbours of the rest are counted again. The first one counts if several have as many.
///
/// X. Daura, K. Gademann, B. Jaun, D. Seebach, W. F. van Gunsteren, A. E. Mark, Angew. Chem. Int. Ed. 38, 236 (1999).
///
/// # Errors
/// `InvalidArgument` for another number of distances.
pub fn gromos(condensed: &[f64], n: usize, cutoff: f64) -> Result<Gromos> {
    check(condensed, n)?;
    let neighbors = neighbors(condensed, n, cutoff);
    let mut counts: Vec<u32> =
        (0..n).map(|thing| neighbors.row(thing).iter().map(|word| word.count_ones()).sum()).collect();
    let mut left = vec![0_u64; neighbors.words];
    (0..n).for_each(|thing| left[thing / 64] |= 1 << (thing % 64));
    let mut found = Gromos { labels: vec![0; n], centres: Vec::new() };
    let mut n_left = n;
    while n_left > 0 {
        let mut centre = None;
        each_bit(left.iter().copied(), |thing| {
            if centre.is_none_or(|best: usize| counts[thing] > counts[best]) {
                centre = Some(thing);
            }
        });
        let Some(centre) = centre else { break };
        let mut members: Vec<u64> = neighbors.row(centre).iter().zip(&left).map(|(near, left)| near & left).collect();
        members[centre / 64] |= 1 << (centre % 64);
        left.iter_mut().zip(&members).for_each(|(left, member)| *left &= !member);
        let label = found.centres.len() as u32;
        found.centres.push(centre as u32);
        each_bit(members.iter().copied(), |member| {
            found.labels[member] = label;
            n_left -= 1;
            let row = neighbors.row(member).iter().zip(&left).map(|(near, left)| near & left);
            each_bit(row, |other| counts[other] -= 1);
        });
    }
    Ok(found)
}

fn neighbors(condensed: &[f64], n: usize, cutoff: f64) -> Neighbors {
    let words = n.div_ceil(64);
    let mut bits = vec![0_u64; n * words];
    let mut begin = 0;
    for i in 0..n {
        let row = &condensed[begin..begin + n - 1 - i];
        begin += row.len();
        let of_row = &mut bits[i * words..][..words];
        for (j, distance) in (i + 1..).zip(row) {
            of_row[j / 64] |= u64::from(*distance < cutoff) << (j % 64);
        }
    }
    for i in 0..n {
        // the pairs of earlier things are there already
        let later: Vec<u64> = bits[i * words..][..words].to_vec();
        each_bit(later.into_iter(), |j| {
            if j > i {
                bits[j * words + i / 64] |= 1 << (i % 64);
            }
        });
    }
    Neighbors { words, bits }
}

/// For each thing the sum of its distances from those with the same label; labels below 0 belong to no cluster.
///
/// # Errors
/// `InvalidArgument` for another number of distances.
pub fn sums_within(condensed: &[f64], labels: &[i64]) -> Result<Vec<f64>> {
    let n = labels.len();
    check(condensed, n)?;
    let (mut sums, mut begin) = (vec![0.0; n], 0);
    for (i, &label) in labels.iter().enumerate() {
        let row = &condensed[begin..begin + n - 1 - i];
        begin += row.len();
        let mut sum = sums[i];
        if label >= 0 {
            for (j, distance) in (i + 1..).zip(row) {
                if labels[j] == label {
                    sum += distance;
                    sums[j] += distance;
                }
            }
        }
        sums[i] = sum;
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Condensed distances of points on a line.
    fn on_a_line(points: &[f64]) -> Vec<f64> {
        let pairs = points.iter().enumerate().flat_map(|(i, a)| points[i + 1..].iter().map(move |b| (a - b).abs()));
        pairs.collect()
    }

    #[test]
    fn six_points_by_hand() {
        // neighbours below 1.5: 0-1, 1-2, 2-3, 4-5; points 1 and 2 have two each: the earlier one wins with 0 and 2; 3
        // is alone then, and 4 comes before it
        let condensed = on_a_line(&[0.0, 1.0, 2.0, 3.0, 10.0, 11.0]);
        let found = gromos(&condensed, 6, 1.5).unwrap();
        assert_eq!(found, Gromos { labels: vec![0, 0, 0, 2, 1, 1], centres: vec![1, 4, 3] });
        // a pair at the cutoff is not a pair of neighbours
        assert_eq!(gromos(&condensed, 6, 1.0).unwrap().centres, [0, 1, 2, 3, 4, 5]);
        assert_eq!(gromos(&condensed, 6, 12.0).unwrap(), Gromos { labels: vec![0; 6], centres: vec![0] });
    }

    #[test]
    fn many_points_are_clustered_as_with_lists() {
        let mut state = 5_u64;
        let points: Vec<f64> = (0..200)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 40) as f64 / 1e5
            })
            .collect();
        let near = |i: usize, j: usize| i != j && (points[i] - points[j]).abs() < 5.0;
        let mut left: Vec<usize> = (0..200).collect();
        let (mut labels, mut centres) = (vec![0; 200], Vec::new());
        while !left.is_empty() {
            let count = |i: &usize| left.iter().filter(|j| near(*i, **j)).count();
            let most = left.iter().map(count).max().unwrap();
            let centre = *left.iter().find(|i| count(i) == most).unwrap();
            let members: Vec<usize> = left.iter().copied().filter(|j| *j == centre || near(centre, *j)).collect();
            members.iter().for_each(|i| labels[*i] = centres.len() as u32);
            left.retain(|i| !members.contains(i));
            centres.push(centre as u32);
        }
        assert!(centres.len() > 5);
        assert_eq!(gromos(&on_a_line(&points), 200, 5.0).unwrap(), Gromos { labels, centres });
    }

    #[test]
    fn sums_are_of_the_same_cluster() {
        let condensed = on_a_line(&[0.0, 1.0, 3.0, 10.0, 12.0]);
        assert_eq!(sums_within(&condensed, &[0, 0, 0, 1, -1]).unwrap(), [4.0, 3.0, 5.0, 0.0, 0.0]);
        assert_eq!(sums_within(&condensed, &[0; 4]).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(gromos(&condensed, 6, 1.0).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(gromos(&[], 0, 1.0).unwrap(), Gromos { labels: vec![], centres: vec![] });
    }
}
