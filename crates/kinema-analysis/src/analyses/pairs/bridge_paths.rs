//! All paths from starts to ends through waters that hydrogen bonds join: no water twice, at most some number of them.

use crate::geometry::hydrogen_bond::FoundBond;

/// A hydrogen bond in one direction. Waters are counted from 0; the outer end of a start or an end is an atom.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) bond: FoundBond,
    /// Whether it leads from the donor to the acceptor.
    pub(super) from_donor: bool,
}

/// Edges of a frame, and the paths found.
#[derive(Debug, Default)]
pub(super) struct Paths {
    /// From an atom to a water.
    pub(super) starts: Vec<Edge>,
    /// From a water to a water.
    pub(super) between: Vec<Edge>,
    /// From a water to an atom.
    pub(super) ends: Vec<Edge>,
    steps: Vec<Edge>,
    /// Where the steps of each path begin and end.
    found: Vec<(usize, usize)>,
}

/// Where a path stands.
struct Walk<'a, K> {
    order: usize,
    keep: K,
    between: &'a [Edge],
    ends: &'a [Edge],
    /// Waters that are needed at least to reach an end, with the water itself.
    rest: &'a [usize],
    start: u32,
    waters: Vec<u32>,
    path: Vec<Edge>,
}

impl Paths {
    /// Forgets all edges and paths.
    pub(super) fn clear(&mut self) {
        self.starts.clear();
        self.between.clear();
        self.ends.clear();
    }

    /// The paths of up to `order` waters between two atoms that `keep` allows, fewer waters first; never from an atom to
    /// itself.
    pub(super) fn find(&mut self, order: usize, keep: impl Fn(u32, u32) -> bool) -> impl Iterator<Item = &[Edge]> {
        for edges in [&mut self.starts, &mut self.between, &mut self.ends] {
            edges.sort_unstable_by_key(Edge::key);
            edges.dedup_by_key(|edge| edge.key());
        }
        self.steps.clear();
        self.found.clear();
        let rest = self.rest(order);
        let (between, ends) = (&self.between, &self.ends);
        let (waters, path) = (Vec::new(), Vec::new());
        let mut walk = Walk { order, keep, between, ends, rest: &rest, start: 0, waters, path };
        let mut add = |path: &[Edge]| {
            self.found.push((self.steps.len(), self.steps.len() + path.len()));
            self.steps.extend_from_slice(path);
        };
        for start in &self.starts {
            walk.start = start.from;
            walk.step(start, &mut add);
        }
        self.found.sort_by_key(|(begin, end)| end - begin);
        self.found.iter().map(|(begin, end)| &self.steps[*begin..*end])
    }

    /// For each water, how many are needed at least to reach an end, itself counted; more than any path has if there is
    /// no way.
    fn rest(&self, order: usize) -> Vec<usize> {
        let waters = self.starts.iter().map(|edge| edge.to).chain(self.between.iter().map(|edge| edge.to));
        let mut rest = vec![usize::MAX - 1; waters.max().map_or(0, |last| last as usize + 1)];
        for edge in &self.ends {
            rest[edge.from as usize] = 1;
        }
        for _ in 1..order {
            for edge in &self.between {
                rest[edge.from as usize] = rest[edge.from as usize].min(rest[edge.to as usize] + 1);
            }
        }
        rest
    }
}

impl Edge {
    fn key(&self) -> ([u32; 2], [u32; 3]) {
        ([self.from, self.to], self.bond.key())
    }
}

impl<K: Fn(u32, u32) -> bool> Walk<'_, K> {
    /// Goes along an edge to a water, and on from there.
    fn step(&mut self, edge: &Edge, add: &mut impl FnMut(&[Edge])) {
        let water = edge.to;
        if self.waters.contains(&water) || self.waters.len().saturating_add(self.rest[water as usize]) > self.order {
            return;
        }
        self.waters.push(water);
        self.path.push(*edge);
        for end in leaving(self.ends, water) {
            if end.to != self.start && (self.keep)(self.start, end.to) {
                self.path.push(*end);
                add(&self.path);
                self.path.pop();
            }
        }
        if self.waters.len() < self.order {
            for next in leaving(self.between, water) {
                self.step(next, add);
            }
        }
        self.waters.pop();
        self.path.pop();
    }
}

/// The edges that leave a water; edges are sorted.
fn leaving(edges: &[Edge], water: u32) -> &[Edge] {
    let begin = edges.partition_point(|edge| edge.from < water);
    let end = begin + edges[begin..].partition_point(|edge| edge.from == water);
    &edges[begin..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::hydrogen_bond::Bond;

    fn edge(from: u32, to: u32) -> Edge {
        let bond = Bond { donor_acceptor: 2.8, hydrogen_acceptor: 1.8, angle: 170.0 };
        Edge { from, to, bond: FoundBond { donor: from, hydrogen: from, acceptor: to, bond }, from_donor: true }
    }

    fn lengths(paths: &mut Paths, order: usize) -> Vec<usize> {
        paths.find(order, |_, _| true).map(<[Edge]>::len).collect()
    }

    #[test]
    fn a_ring_of_waters_has_two_ways() {
        let ring = |i: u32| [edge(i, (i + 1) % 6), edge((i + 1) % 6, i)];
        let mut paths = Paths {
            starts: vec![edge(100, 0)],
            between: (0..6).flat_map(ring).collect(),
            ends: vec![edge(2, 101)],
            ..Paths::default()
        };
        assert_eq!(lengths(&mut paths, 2), Vec::<usize>::new());
        assert_eq!(lengths(&mut paths, 3), [4]);
        assert_eq!(lengths(&mut paths, 4), [4]);
        assert_eq!(lengths(&mut paths, 5), [4, 6]);
        assert_eq!(lengths(&mut paths, 9), [4, 6]);
    }

    #[test]
    fn a_path_does_not_return_to_its_atom_and_twins_count_once() {
        let mut paths = Paths {
            starts: vec![edge(100, 0), edge(100, 0), edge(101, 0)],
            ends: vec![edge(0, 100), edge(0, 101)],
            ..Paths::default()
        };
        assert_eq!(lengths(&mut paths, 1), [2, 2]);
        assert_eq!(paths.find(1, |start, end| start < end).count(), 1);
    }
}
