//! Clusters of things: the method of Daura and others from pairs of neighbours, and sums of distances within clusters.
//!
//! Distances are condensed: pairs i < j, row after row. This module knows nothing of frames or structures.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use kinema_core::{Error, ErrorKind, Result};

/// Clusters as the method of Daura and others finds them, the largest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gromos {
    /// The cluster of each thing.
    pub labels: Vec<u32>,
    /// The thing of each cluster that had most neighbours when the cluster was found.
    pub centres: Vec<u32>,
}

/// The neighbours of each thing, one list after the other.
struct Neighbors {
    first: Vec<usize>,
    others: Vec<u32>,
}

impl Neighbors {
    /// The neighbours in pairs, which may come in any order.
    fn new(pairs: &[[u32; 2]], n: usize) -> Self {
        let mut first = vec![0; n + 2];
        pairs.as_flattened().iter().for_each(|thing| first[*thing as usize + 2] += 1);
        (2..n + 2).for_each(|at| first[at] += first[at - 1]);
        // a list's begin moves to its end, where the next list begins
        let mut others = vec![0; 2 * pairs.len()];
        for [one, other] in pairs {
            for (thing, near) in [(one, other), (other, one)] {
                let at = &mut first[*thing as usize + 1];
                others[*at] = *near;
                *at += 1;
            }
        }
        Self { first, others }
    }

    fn of(&self, thing: u32) -> &[u32] {
        &self.others[self.first[thing as usize]..self.first[thing as usize + 1]]
    }
}

/// Clusters of `n` things from pairs of neighbours, each pair once. The thing with most neighbours and these are a
/// cluster and leave; neighbours of the rest are counted again. The first one counts if several have as many.
///
/// X. Daura, K. Gademann, B. Jaun, D. Seebach, W. F. van Gunsteren, A. E. Mark, Angew. Chem. Int. Ed. 38, 236 (1999).
///
/// # Errors
/// `InvalidArgument` for a pair of a thing and itself or of a thing that does not exist.
pub fn gromos(pairs: &[[u32; 2]], n: usize) -> Result<Gromos> {
    let wrong = |[one, other]: &&[u32; 2]| one == other || (*one).max(*other) as usize >= n;
    if let Some([one, other]) = pairs.iter().find(wrong) {
        let what = format!("neighbours {one} and {other} must be two of {n} things, counted from 0");
        return Err(Error::new(ErrorKind::InvalidArgument, what));
    }
    let neighbors = Neighbors::new(pairs, n);
    let mut counts: Vec<u32> = (0..n).map(|thing| neighbors.of(thing as u32).len() as u32).collect();
    const LEFT: u32 = u32::MAX;
    let mut found = Gromos { labels: vec![LEFT; n], centres: Vec::new() };
    // counts only fall: one that has fallen since it was put here is put here again
    let mut most: BinaryHeap<(u32, Reverse<u32>)> =
        counts.iter().enumerate().map(|(thing, count)| (*count, Reverse(thing as u32))).collect();
    while let Some((count, Reverse(centre))) = most.pop() {
        if found.labels[centre as usize] != LEFT {
            continue;
        }
        if counts[centre as usize] < count {
            most.push((counts[centre as usize], Reverse(centre)));
            continue;
        }
        let label = found.centres.len() as u32;
        found.centres.push(centre);
        let near = neighbors.of(centre).iter().copied().filter(|thing| found.labels[*thing as usize] == LEFT);
        let members: Vec<u32> = std::iter::once(centre).chain(near).collect();
        members.iter().for_each(|member| found.labels[*member as usize] = label);
        // of those that have left, counts do not matter
        for other in members.iter().flat_map(|member| neighbors.of(*member)) {
            counts[*other as usize] -= 1;
        }
    }
    Ok(found)
}

fn check(condensed: &[f64], n: usize) -> Result<()> {
    let expected = n * n.saturating_sub(1) / 2;
    if u32::try_from(n).is_ok() && condensed.len() == expected {
        return Ok(());
    }
    let what = format!("wrong number of distances of {n} things, expected {expected}, found {}", condensed.len());
    Err(Error::new(ErrorKind::InvalidArgument, what))
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

    /// Pairs of points below a cutoff.
    fn near(points: &[f64], cutoff: f64) -> Vec<[u32; 2]> {
        let of = |i: usize| (i + 1..points.len()).filter(move |j| (points[i] - points[*j]).abs() < cutoff);
        (0..points.len()).flat_map(|i| of(i).map(move |j| [i as u32, j as u32])).collect()
    }

    #[test]
    fn six_points_by_hand() {
        // neighbours: 0-1, 1-2, 2-3, 4-5; points 1 and 2 have two each: the earlier one wins with 0 and 2; 3
        // is alone then, and 4 comes before it
        let points = [0.0, 1.0, 2.0, 3.0, 10.0, 11.0];
        let found = gromos(&near(&points, 1.5), 6).unwrap();
        assert_eq!(found, Gromos { labels: vec![0, 0, 0, 2, 1, 1], centres: vec![1, 4, 3] });
        assert_eq!(gromos(&near(&points, 1.0), 6).unwrap().centres, [0, 1, 2, 3, 4, 5]);
        assert_eq!(gromos(&near(&points, 12.0), 6).unwrap(), Gromos { labels: vec![0; 6], centres: vec![0] });
        // the order of pairs does not matter
        assert_eq!(gromos(&[[4, 5], [3, 2], [1, 0], [2, 1]], 6).unwrap(), found);
    }

    #[test]
    fn things_that_do_not_exist_are_refused() {
        for pair in [[0, 2], [1, 1]] {
            assert_eq!(gromos(&[pair], 2).unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        assert_eq!(gromos(&[], 0).unwrap(), Gromos { labels: vec![], centres: vec![] });
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
        let is_near = |i: usize, j: usize| i != j && (points[i] - points[j]).abs() < 5.0;
        let mut left: Vec<usize> = (0..200).collect();
        let (mut labels, mut centres) = (vec![0; 200], Vec::new());
        while !left.is_empty() {
            let count = |i: &usize| left.iter().filter(|j| is_near(*i, **j)).count();
            let most = left.iter().map(count).max().unwrap();
            let centre = *left.iter().find(|i| count(i) == most).unwrap();
            let members: Vec<usize> = left.iter().copied().filter(|j| *j == centre || is_near(centre, *j)).collect();
            members.iter().for_each(|i| labels[*i] = centres.len() as u32);
            left.retain(|i| !members.contains(i));
            centres.push(centre as u32);
        }
        assert!(centres.len() > 5);
        assert_eq!(gromos(&near(&points, 5.0), 200).unwrap(), Gromos { labels, centres });
    }

    #[test]
    fn sums_are_of_the_same_cluster() {
        let condensed = on_a_line(&[0.0, 1.0, 3.0, 10.0, 12.0]);
        assert_eq!(sums_within(&condensed, &[0, 0, 0, 1, -1]).unwrap(), [4.0, 3.0, 5.0, 0.0, 0.0]);
        assert_eq!(sums_within(&condensed, &[0; 4]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}
