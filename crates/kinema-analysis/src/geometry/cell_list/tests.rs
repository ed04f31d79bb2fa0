//! Pairs against brute force over all images, in cells of all kinds.

use std::collections::BTreeSet;

use kinema_core::frame::Lattice;

use super::{CellList, FoundPair, LeastDistance, PairImages, is_usable};
use crate::bins::Bins;

const OPEN: [f64; 3] = [0.0; 3];

/// Random numbers by a seed (xorshift).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// From 0 to 1.
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Cells by kind; lengths are about 10 angstrom.
fn cells() -> Vec<(&'static str, [[f64; 3]; 3])> {
    let root = 0.5_f64.sqrt();
    vec![
        ("cuboid", [[9.0, 0.0, 0.0], [0.0, 10.0, 0.0], [0.0, 0.0, 12.0]]),
        ("hexagonal", [[9.0, 0.0, 0.0], [-4.5, 7.794_228, 0.0], [0.0, 0.0, 11.0]]),
        ("dodecahedron", [[10.0, 0.0, 0.0], [0.0, 10.0, 0.0], [5.0, 5.0, 10.0 * root]]),
        ("tilted", [[8.0, 0.0, 0.0], [7.5, 8.0, 0.0], [-7.0, 6.5, 9.0]]),
        ("unreduced", [[8.0, 1.0, 0.0], [17.0, 9.0, 1.0], [-24.0, 12.0, 7.0]]),
        ("slab", [[9.0, 0.0, 0.0], [3.0, 8.0, 2.0], OPEN]),
        ("wire", [OPEN, [2.0, 3.0, 8.0], OPEN]),
        ("open", [OPEN; 3]),
    ]
}

fn points(random: &mut Random, n: usize, spread: f64) -> Vec<f32> {
    (0..3 * n).map(|_| (spread * (random.unit() - 0.5)) as f32).collect()
}

/// All pairs of a point of one set and of another, and images, at most `cutoff` apart.
fn brute_force(lattice: &Lattice, first: &[f32], second: &[f32], cutoff: f64) -> Vec<FoundPair> {
    let basis = lattice.basis();
    let rank = basis.iter().filter(|vector| **vector != OPEN).count();
    let mut found = Vec::new();
    for (i, u) in first.as_chunks::<3>().0.iter().enumerate() {
        for (j, v) in second.as_chunks::<3>().0.iter().enumerate() {
            let apart = [0, 1, 2].map(|axis| f64::from(v[axis]) - f64::from(u[axis]));
            let reaches = [0, 1, 2].map(|k| {
                let dual = lattice.dual()[k];
                let (middle, height) = (dot(dual, apart), dot(dual, dual).sqrt());
                let reach = |sign: f64| (middle + sign * (cutoff * height + 1.0)).round() as i64;
                if k < rank { reach(-1.0)..=reach(1.0) } else { 0..=0 }
            });
            for a in reaches[0].clone() {
                for b in reaches[1].clone() {
                    for c in reaches[2].clone() {
                        let mut image = apart;
                        for (count, vector) in [a, b, c].into_iter().zip(basis).take(rank) {
                            image = [0, 1, 2].map(|axis| image[axis] - count as f64 * vector[axis]);
                        }
                        let distance = dot(image, image).sqrt();
                        if distance <= cutoff {
                            let shift = [0, 1, 2].map(|edge| {
                                let counts = [a, b, c].into_iter().zip(lattice.of_edges());
                                counts.map(|(count, of_edges)| -(count * of_edges[edge]) as i32).sum()
                            });
                            found.push(FoundPair { first: i as u32, second: j as u32, distance, shift });
                        }
                    }
                }
            }
        }
    }
    found.sort_unstable_by_key(FoundPair::order);
    found
}

fn dot(u: [f64; 3], v: [f64; 3]) -> f64 {
    u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
}

fn numbers(pair: &FoundPair) -> (u32, u32, f64) {
    (pair.first, pair.second, pair.distance)
}

/// The nearest image of each pair, without points and their own images.
fn nearest_images(pairs: &[FoundPair]) -> Vec<FoundPair> {
    let mut kept: Vec<FoundPair> = Vec::new();
    for pair in pairs {
        match kept.last_mut().filter(|last| (last.first, last.second) == (pair.first, pair.second)) {
            Some(last) if pair.distance < last.distance => *last = *pair,
            Some(_) => {}
            None => kept.push(*pair),
        }
    }
    kept
}

#[test]
fn pairs_are_those_of_brute_force_in_every_cell() {
    let mut random = Random::new(7);
    let mut list = CellList::default();
    for (kind, cell) in cells() {
        let lattice = Lattice::from_cell(&cell).unwrap();
        for (cutoff, n, spread) in
            [(0.5, 150, 12.0), (2.0, 120, 14.0), (4.9, 60, 30.0), (11.0, 20, 80.0), (30.0, 5, 20.0)]
        {
            let (first, second) = (points(&mut random, n, spread), points(&mut random, n / 2 + 1, spread));
            let mut found = Vec::new();
            list.between(&lattice, &first, &second, cutoff, PairImages::All, &mut found).unwrap();
            let expected = brute_force(&lattice, &first, &second, cutoff);
            assert_eq!(found, expected, "{kind}, {cutoff}");
            list.between(&lattice, &first, &second, cutoff, PairImages::Minimum, &mut found).unwrap();
            assert_eq!(found, nearest_images(&expected), "{kind}, {cutoff}");
            let nearest = nearest_images(&expected);
            let mut rows = Vec::new();
            list.neighbors_between(&lattice, &first, &second, cutoff, |i, near, distances| {
                rows.extend(near.iter().zip(distances).map(|(j, distance)| (i, *j, *distance)));
            })
            .unwrap();
            assert_eq!(rows, nearest.iter().map(numbers).collect::<Vec<_>>(), "{kind}, {cutoff}");
            let least = list.least(&lattice, &first, &second, cutoff).unwrap().unwrap();
            let n_points =
                |side: fn(&FoundPair) -> u32| expected.iter().map(side).collect::<BTreeSet<_>>().len() as u64;
            let of_both = n_points(|pair| pair.first) + n_points(|pair| pair.second);
            assert_eq!((least.n_pairs, least.n_points), (expected.len() as u64, of_both), "{kind}, {cutoff}");
            if let Some(best) = expected.iter().min_by(|a, b| a.distance.total_cmp(&b.distance)) {
                assert_eq!(&least.nearest, best, "{kind}, {cutoff}");
            }
            let mut near = vec![false; second.len() / 3];
            list.any_within(&lattice, &first, &second, cutoff, &mut near).unwrap();
            let mut wanted = vec![false; near.len()];
            expected.iter().for_each(|pair| wanted[pair.second as usize] = true);
            assert_eq!(near, wanted, "{kind}, {cutoff}");
            let least = list.nearest(&lattice, &first, &second).unwrap().unwrap();
            if let Some(best) = expected.iter().min_by(|a, b| a.distance.total_cmp(&b.distance)) {
                assert_eq!(least.distance, best.distance, "{kind}, {cutoff}");
            } else {
                assert!(least.distance > cutoff);
            }
        }
    }
}

#[test]
fn pairs_within_a_set_are_found_once() {
    let mut random = Random::new(8);
    let mut list = CellList::default();
    for (kind, cell) in cells() {
        let lattice = Lattice::from_cell(&cell).unwrap();
        for (cutoff, n, spread) in [(0.7, 150, 12.0), (3.0, 90, 15.0), (9.5, 20, 50.0), (25.0, 4, 20.0), (25.0, 1, 1.0)]
        {
            let all = points(&mut random, n, spread);
            let mut found = Vec::new();
            list.within(&lattice, &all, cutoff, PairImages::Minimum, &mut found).unwrap();
            let pairs = brute_force(&lattice, &all, &all, cutoff);
            let mut expected = nearest_images(&pairs);
            expected.retain(|pair| pair.first < pair.second);
            let of = |pairs: &[FoundPair]| pairs.iter().map(|one| (one.first, one.second)).collect::<Vec<_>>();
            assert_eq!(of(&found), of(&expected), "{kind}, {cutoff}");
            for (one, other) in found.iter().zip(&expected) {
                // seen from the other point, a sum is rounded in another way
                assert!((one.distance - other.distance).abs() < 1e-12 * other.distance.max(1.0));
            }
            let mut rows = Vec::new();
            list.neighbors_within(&lattice, &all, cutoff, |i, near, distances| {
                rows.extend(near.iter().zip(distances).map(|(j, distance)| (i, *j, *distance)));
            })
            .unwrap();
            assert_eq!(rows, found.iter().map(numbers).collect::<Vec<_>>(), "{kind}, {cutoff}");
            list.within(&lattice, &all, cutoff, PairImages::All, &mut found).unwrap();
            // of a point and its own images one of two is kept
            let n_expected = pairs.iter().filter(|pair| pair.first < pair.second).count()
                + pairs.iter().filter(|pair| pair.first == pair.second && pair.shift != [0; 3]).count() / 2;
            assert_eq!(found.len(), n_expected, "{kind}, {cutoff}");
        }
    }
}

#[test]
fn a_distance_equal_to_the_cutoff_counts() {
    let lattice = Lattice::from_cell(&[[10.0, 0.0, 0.0], [0.0, 10.0, 0.0], [0.0, 0.0, 10.0]]).unwrap();
    let mut list = CellList::default();
    let mut found = Vec::new();
    // 0.5 and 9.0 are 1.5 apart through the face
    let all = [0.5, 3.0, 3.0, 9.0, 3.0, 3.0];
    for (cutoff, n) in [(1.5, 1), (1.5_f64.next_down(), 0)] {
        list.within(&lattice, &all, cutoff, PairImages::Minimum, &mut found).unwrap();
        assert_eq!(found.len(), n, "{cutoff}");
    }
    assert!(list.examined() > 0);
}

#[test]
fn points_at_one_place_and_points_far_outside_are_found() {
    let mut list = CellList::default();
    let mut found = Vec::new();
    for (_, cell) in cells() {
        let lattice = Lattice::from_cell(&cell).unwrap();
        let mut all = vec![1.25_f32; 3 * 40];
        list.within(&lattice, &all, 0.5, PairImages::Minimum, &mut found).unwrap();
        assert_eq!(found.len(), 40 * 39 / 2);
        all.extend([3000.0, -2000.0, 1000.0]);
        list.within(&lattice, &all, 0.5, PairImages::Minimum, &mut found).unwrap();
        assert!(found.len() >= 40 * 39 / 2);
    }
}

#[test]
fn positions_that_cannot_be_used_are_errors() {
    let lattice = Lattice::from_cell(&cells()[0].1).unwrap();
    let mut found = Vec::new();
    for bad in [f32::NAN, f32::INFINITY, 1e30] {
        let all = [0.0, 0.0, 0.0, bad, 1.0, 1.0];
        assert!(!is_usable(&lattice, &all));
        let error = CellList::default().within(&lattice, &all, 2.0, PairImages::All, &mut found);
        assert!(error.is_err(), "{bad}");
    }
    let none = CellList::default().nearest(&lattice, &[], &[1.0, 2.0, 3.0]).unwrap();
    assert_eq!(none, None);
}

#[test]
fn work_is_in_proportion_to_what_is_found() {
    // as dense as the oxygens of water
    let edge = 31.0_f64;
    let lattice = Lattice::from_cell(&[[edge, 0.0, 0.0], [0.0, edge, 0.0], [0.0, 0.0, edge]]).unwrap();
    let all = points(&mut Random::new(3), 1000, edge);
    let mut list = CellList::default();
    let mut found = Vec::new();
    list.within(&lattice, &all, 10.0, PairImages::All, &mut found).unwrap();
    assert!(list.examined() <= 8 * found.len() as u64, "{} for {}", list.examined(), found.len());
}

/// Results of all searches of a list, and the number of pairs that they look at.
#[derive(Debug, PartialEq)]
struct AllFound {
    pairs: Vec<FoundPair>,
    rows: Vec<(u32, u32, f64)>,
    near: Vec<bool>,
    least: Option<LeastDistance>,
    examined: u64,
}

fn all_found(mut list: CellList, lattice: &Lattice, sets: [&[f32]; 2], cutoff: f64) -> AllFound {
    let (mut found, mut rows) = (Vec::new(), Vec::new());
    let [first, second] = sets;
    list.within(lattice, first, cutoff, PairImages::All, &mut found).unwrap();
    let mut pairs = found.clone();
    list.between(lattice, first, second, cutoff, PairImages::All, &mut found).unwrap();
    pairs.append(&mut found);
    let mut add = |i: u32, near: &[u32], distances: &[f64]| {
        rows.extend(near.iter().zip(distances).map(|(j, distance)| (i, *j, *distance)));
    };
    list.neighbors_within(lattice, first, cutoff, &mut add).unwrap();
    list.neighbors_between(lattice, second, first, cutoff, &mut add).unwrap();
    let mut near = vec![false; first.len() / 3];
    list.any_within(lattice, second, first, cutoff, &mut near).unwrap();
    let least = list.least(lattice, first, second, cutoff).unwrap();
    AllFound { pairs, rows, near, least, examined: list.examined() }
}

#[test]
fn the_baseline_build_finds_the_same_pairs() {
    let mut random = Random::new(17);
    for (kind, cell) in cells() {
        let lattice = Lattice::from_cell(&cell).unwrap();
        for (n, cutoff) in [(200, 3.0), (31, 7.5), (400, 1.1)] {
            // the second set is small, so that only a part of the first is sorted
            let (first, second) = (points(&mut random, n, 25.0), points(&mut random, n / 6, 14.0));
            let [found, expected] = [CellList::default(), CellList::plain()]
                .map(|list| all_found(list, &lattice, [&first, &second], cutoff));
            assert_eq!(found, expected, "{kind}, {cutoff}");
        }
    }
}

#[test]
fn counts_of_bins_are_those_of_brute_force_in_every_cell() {
    let mut random = Random::new(23);
    for (kind, cell) in cells() {
        let lattice = Lattice::from_cell(&cell).unwrap();
        for (least, most, n_bins, n, spread) in [
            (0.0, 4.0, 40, 150, 14.0),
            (1.5, 4.9, 7, 60, 30.0),
            (0.0, 13.0, 1000, 20, 80.0),
            // so narrow that no estimate is sure
            (0.0, 3.0, 3_000_000, 60, 14.0),
        ] {
            let bins = Bins::new(least, most, n_bins);
            let (first, second) = (points(&mut random, n, spread), points(&mut random, n / 2 + 1, spread));
            // pairs of even and of odd points count in rows of their own, others do not count
            let row = |i: u32, j: u32| (i % 2 == j % 2).then_some((i % 2) as usize * n_bins);
            let counted = |pairs: &[FoundPair], row: Option<&dyn Fn(u32, u32) -> Option<usize>>| {
                let mut counts = vec![0_u64; 2 * n_bins];
                for pair in pairs {
                    let row = row.map_or(Some(0), |row| row(pair.first, pair.second));
                    if let (Some(row), Some(bin)) = (row, bins.number(pair.distance)) {
                        counts[row + bin as usize] += 1;
                    }
                }
                counts
            };
            let between = brute_force(&lattice, &first, &second, most);
            let mut within = Vec::new();
            CellList::default().within(&lattice, &first, most, PairImages::All, &mut within).unwrap();
            for mut list in [CellList::default(), CellList::plain()] {
                for row in [None, Some(&row as &dyn Fn(u32, u32) -> Option<usize>)] {
                    let mut counts = vec![0; 2 * n_bins];
                    list.count_between(&lattice, [&first, &second], &bins, row, &mut counts).unwrap();
                    assert_eq!(counts, counted(&between, row), "{kind}, {most}");
                    counts.fill(0);
                    list.count_within(&lattice, &first, &bins, row, &mut counts).unwrap();
                    assert_eq!(counts, counted(&within, row), "{kind}, {most}");
                }
            }
        }
    }
}

#[test]
fn neighbors_of_each_point_are_those_of_brute_force() {
    let mut random = Random::new(31);
    for (kind, cell) in cells() {
        let lattice = Lattice::from_cell(&cell).unwrap();
        for (cutoff, n, spread) in [(2.0, 120, 14.0), (4.9, 60, 30.0), (11.0, 20, 80.0)] {
            let (first, second) = (points(&mut random, n, spread), points(&mut random, n / 2 + 1, spread));
            let expected = brute_force(&lattice, &first, &second, cutoff);
            let mut lists = Vec::new();
            for mut list in [CellList::default(), CellList::plain()] {
                let mut found = vec![Vec::new(); n];
                list.visit_each(&lattice, [&first, &second], cutoff, |place, neighbors| {
                    for at in 0..neighbors.len() {
                        let ([x, y, z], numbers) = neighbors.eight(at);
                        found[place as usize].push((numbers[0], [x[0], y[0], z[0]].map(f32::to_bits)));
                    }
                    assert_eq!(neighbors.numbers().len(), neighbors.len());
                })
                .unwrap();
                lists.push(found);
            }
            assert_eq!(lists[0], lists[1], "{kind}, {cutoff}");
            for (place, found) in lists[0].iter().enumerate() {
                let wanted = expected.iter().filter(|pair| pair.first as usize == place);
                let mut wanted: Vec<(u32, f64)> = wanted.map(|pair| (pair.second, pair.distance)).collect();
                let distance = |bits: &[u32; 3]| {
                    let apart = bits.map(|x| f64::from(f32::from_bits(x)));
                    dot(apart, apart).sqrt()
                };
                let mut found: Vec<_> = found.iter().map(|(number, apart)| (*number, distance(apart))).collect();
                found.retain(|(_, distance)| *distance < cutoff - 1e-4);
                wanted.retain(|(_, distance)| *distance < cutoff - 1e-4);
                let order = |a: &(u32, f64), b: &(u32, f64)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1));
                found.sort_by(order);
                wanted.sort_by(order);
                assert_eq!(found.len(), wanted.len(), "{kind}, {cutoff}");
                assert!(found.iter().zip(&wanted).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 5e-5), "{kind}");
            }
        }
    }
}
