//! Points near one point, with their places from it, in rows of single precision.

use super::scan::{Scan, eights, lanes_before, seen_from, squares};
use super::stencil::Run;
use crate::cpu::dispatch;
use crate::lanes::{EIGHT, Eight, Quad};

/// Points near one point, or images of points.
#[derive(Debug, Default)]
pub(crate) struct Neighbors {
    /// x, y and z from the one point, angstrom, with the error of single precision in a number of the size of the cell;
    /// with room for [`EIGHT`] more.
    apart: [Vec<f32>; 3],
    /// Places in the given set.
    numbers: Vec<u32>,
    len: usize,
    /// Places of the points in the search, of one run.
    hits: Vec<u32>,
}

impl Neighbors {
    /// Number of neighbours.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Places in the given set.
    pub(crate) fn numbers(&self) -> &[u32] {
        &self.numbers[..self.len]
    }

    /// x, y and z of eight neighbours from `at` on, and their places in the given set; of those after the last one
    /// anything.
    ///
    /// # Panics
    /// If there is no neighbour at `at`.
    #[inline(always)]
    pub(crate) fn eight(&self, at: usize) -> ([&[f32; EIGHT]; 3], &[u32; EIGHT]) {
        assert!(at < self.len, "there is no neighbour {at}");
        let [x, y, z] = &self.apart;
        ([first_eight(&x[at..]), first_eight(&y[at..]), first_eight(&z[at..])], first_eight(&self.numbers[at..]))
    }

    /// Finds the points of runs that may be near a home. Returns how many pairs were estimated.
    pub(super) fn find(&mut self, scan: &Scan<'_>, home: usize, runs: &[Run]) -> u64 {
        dispatch!(
            scan.cpu,
            u64,
            find,
            (found: &mut Neighbors = self, scan: &Scan<'_> = scan, home: usize = home, runs: &[Run] = runs)
        )
    }

    /// Room for more neighbours, and for those that are written beyond the end.
    #[inline(always)]
    fn reserve(&mut self, more: usize) {
        let needed = self.len + more + EIGHT;
        if self.hits.len() < needed {
            self.apart.iter_mut().for_each(|row| row.resize(2 * needed, 0.0));
            self.numbers.resize(2 * needed, 0);
            self.hits.resize(2 * needed, 0);
        }
    }
}

#[inline(always)]
fn first_eight<T>(row: &[T]) -> &[T; EIGHT] {
    row.first_chunk().expect("there is room for eight more")
}

#[inline(always)]
fn find<Q: Quad>(found: &mut Neighbors, scan: &Scan<'_>, home: usize, runs: &[Run]) -> u64 {
    let limit = Q::Eight::all(scan.limit);
    let mut examined = 0;
    found.len = 0;
    for run in runs {
        let mut left = run.points.len();
        examined += left as u64;
        found.reserve(left);
        let place = seen_from::<Q>(scan.homes, home, run);
        let [x, y, z] = eights(scan.others, run.points.clone());
        let (mut at, mut n) = (run.points.start as u32, 0);
        for ((x, y), z) in x.iter().zip(y).zip(z) {
            let near = squares::<Q>([x, y, z], place).at_most(limit) & lanes_before(left);
            let Some(to) = found.hits[n..].first_chunk_mut() else { break };
            n += Q::Eight::put_places(near, at, to);
            at += EIGHT as u32;
            left = left.saturating_sub(EIGHT);
        }
        let [x, y, z] = scan.homes.position(home, run.shift);
        let (others, Neighbors { apart: [xs, ys, zs], numbers, len, hits, .. }) = (scan.others, &mut *found);
        let (xs, ys, zs) = (&mut xs[*len..*len + n], &mut ys[*len..*len + n], &mut zs[*len..*len + n]);
        let numbers = &mut numbers[*len..*len + n];
        for (i, hit) in hits[..n].iter().enumerate() {
            [xs[i], ys[i], zs[i]] = others.position(*hit as usize, [x, y, z]);
            numbers[i] = others.numbers[*hit as usize];
        }
        *len += n;
    }
    examined
}
