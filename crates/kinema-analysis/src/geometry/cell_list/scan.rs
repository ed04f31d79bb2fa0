//! Which points of the runs near a cell are within the cutoff: distances are estimated in single precision, eight at a
//! time, and those that may be near enough are computed in double precision, four at a time.

use std::ops::Range;

use super::Near;
use super::bounds;
use super::grid::Grid;
use super::sorted::{Point, Sorted};
use super::vicinity::{Image, Vicinity, three};
use crate::cpu::{Cpu, dispatch};
use crate::geometry::vectors::{Vectors, all, difference};
use crate::lanes::{EIGHT, Eight, Quad, WithEight, room};

/// Points that are compared: homes, from whose cells the search starts, and others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scan<'a> {
    pub(super) cpu: Cpu,
    pub(super) grid: &'a Grid,
    pub(super) homes: &'a Sorted,
    pub(super) others: &'a Sorted,
    pub(super) cutoff: f64,
    /// See [`super::bounds::most`].
    pub(super) limit: f32,
}

/// Points near each home of a cell.
#[derive(Debug, Default)]
pub(super) struct Hits {
    /// Places of others, and their distances; there may be more after the last one.
    pub(super) points: Vec<u32>,
    pub(super) distances: Vec<f64>,
    n: usize,
    /// Homes in order; one with several images of points has several.
    pub(super) groups: Vec<HitGroup>,
}

/// Points that are seen from a home through the same image.
#[derive(Debug, Clone)]
pub(super) struct HitGroup {
    pub(super) home: u32,
    /// Their range in the hits.
    pub(super) hits: Range<usize>,
    counts: [i32; 3],
}

impl Hits {
    /// Makes room for some more, and for those that are written beyond the end.
    #[inline(always)]
    fn reserve(&mut self, more: usize) {
        let needed = self.n + more + EIGHT;
        if self.points.len() < needed {
            self.points.resize(2 * needed, 0);
            self.distances.resize(2 * needed, 0.0);
        }
    }
}

impl<'a> Scan<'a> {
    pub(super) fn new(cpu: Cpu, grid: &'a Grid, (homes, others): (&'a Sorted, &'a Sorted), cutoff: f64) -> Self {
        Self { cpu, grid, homes, others, cutoff, limit: bounds::most(grid, cutoff) }
    }
}

impl Scan<'_> {
    /// Finds the points of a vicinity near each of `homes`; with `only_higher` only points of a higher number.
    pub(super) fn find(&self, homes: Range<usize>, vicinity: &Vicinity, only_higher: bool, hits: &mut Hits) {
        hits.n = 0;
        hits.groups.clear();
        dispatch!(
            self.cpu,
            (),
            find,
            (
                scan: &Scan<'_> = self,
                homes: Range<usize> = homes,
                vicinity: &Vicinity = vicinity,
                only_higher: bool = only_higher,
                hits: &mut Hits = hits,
            )
        );
    }

    /// Marks the points of a vicinity that have one of `homes` near them, eight at a time; `sure` as
    /// [`super::bounds::sure`].
    pub(super) fn mark(&self, homes: Range<usize>, vicinity: &Vicinity, sure: f32, marks: &mut [u8]) {
        dispatch!(
            self.cpu,
            (),
            mark,
            (
                scan: &Scan<'_> = self,
                homes: Range<usize> = homes,
                vicinity: &Vicinity = vicinity,
                sure: f32 = sure,
                marks: &mut [u8] = marks,
            )
        );
    }

    /// Which points of a block, of some that may be near enough to a home, are.
    #[cold]
    pub(super) fn decide_all(&self, (home, image): (usize, &Image), places: &[u32; EIGHT], mut unsure: u32) -> u32 {
        let mut inside = 0;
        while unsure != 0 {
            let lane = unsure.trailing_zeros();
            let near = self.decide(home, places[lane as usize] as usize, image.counts);
            inside |= u32::from(near.distance <= self.cutoff) << lane;
            unsure &= unsure - 1;
        }
        inside
    }

    /// A pair of a home and another point of a group.
    #[inline(always)]
    pub(super) fn pair(&self, group: &HitGroup, hit: usize, hits: &Hits) -> Near {
        let (home, other) = (&self.homes.points[group.home as usize], &self.others.points[hits.points[hit] as usize]);
        Near {
            first: home.number,
            second: other.number,
            distance: hits.distances[hit],
            counts: added(home, other, group.counts),
        }
    }

    /// The pair of a home and another point in an image.
    #[inline(always)]
    pub(super) fn decide(&self, home: usize, other: usize, counts: [i32; 3]) -> Near {
        let (u, v) = (&self.homes.points[home], &self.others.points[other]);
        let (mut apart, added) = ([0.0; 3], added(u, v, counts));
        for (x, (to, from)) in apart.iter_mut().zip(v.stored.iter().zip(u.stored)) {
            *x = f64::from(*to) - f64::from(from);
        }
        for (added, vector) in added.iter().zip(&self.grid.basis) {
            for (x, of_vector) in apart.iter_mut().zip(vector) {
                *x -= -added as f64 * of_vector;
            }
        }
        let [x, y, z] = apart;
        Near { first: u.number, second: v.number, distance: (x * x + y * y + z * z).sqrt(), counts: added }
    }
}

/// How many times each vector of the basis is added to the second point as it is stored, if it is `counts` times in the
/// cell.
#[inline(always)]
fn added(first: &Point, second: &Point, counts: [i32; 3]) -> [i64; 3] {
    let mut added = [0; 3];
    for i in 0..3 {
        added[i] = first.counts[i] as i64 + i64::from(counts[i]) - second.counts[i] as i64;
    }
    added
}

/// Coordinates of points, eight at a time.
pub(super) type Eights<'a> = [&'a [[f32; EIGHT]]; 3];

/// The coordinates of a range of points, and of those after it that fill up the last eight.
#[inline(always)]
pub(super) fn eights(others: &Sorted, points: Range<usize>) -> Eights<'_> {
    let span = points.start..points.start + points.len().next_multiple_of(EIGHT);
    let [x, y, z] = &others.coordinates;
    [x[span.clone()].as_chunks().0, y[span.clone()].as_chunks().0, z[span].as_chunks().0]
}

/// Estimates of the squared distances of eight points.
#[inline(always)]
pub(super) fn squares<Q: WithEight>([x, y, z]: [&[f32; EIGHT]; 3], place: [Q::Eight; 3]) -> Q::Eight {
    let x = Q::Eight::load(x).subtract(place[0]);
    let y = Q::Eight::load(y).subtract(place[1]);
    let z = Q::Eight::load(z).subtract(place[2]);
    x.multiply(x).add(y.multiply(y)).add(z.multiply(z))
}

#[inline(always)]
fn find<Q: Quad>(scan: &Scan<'_>, homes: Range<usize>, vicinity: &Vicinity, only_higher: bool, hits: &mut Hits) {
    let limit = Q::Eight::all(scan.limit);
    for home in homes {
        let number = scan.homes.points[home].number;
        hits.reserve(vicinity.len());
        let place = three::<Q>(scan.homes.position(home, [0.0; 3]));
        for image in &vicinity.images {
            let ([x, y, z], numbers) = (vicinity.eights(image), vicinity.numbers(image));
            let (begin, mut n) = (hits.n, hits.n);
            let places = vicinity.places(image);
            for ((((x, y), z), numbers), places) in x.iter().zip(y).zip(z).zip(numbers).zip(places) {
                let mut near = squares::<Q>([x, y, z], place).at_most(limit);
                if only_higher {
                    near &= Q::Eight::above(numbers, number);
                }
                // of the cell itself only the points after this one
                if image.is_home {
                    near &= Q::Eight::above(places, home as u32);
                }
                n += Q::Eight::pack_numbers(near, places, room(&mut hits.points, n));
            }
            hits.n = n;
            if n > begin {
                measure::<Q>(scan, home, image.counts, begin, hits);
                if hits.n > begin {
                    hits.groups.push(HitGroup { home: home as u32, hits: begin..hits.n, counts: image.counts });
                }
            }
        }
    }
}

/// Computes the distances of the hits from `begin` on, and drops those that are beyond the cutoff: as [`Scan::decide`].
#[inline(always)]
fn measure<Q: Quad>(scan: &Scan<'_>, home: usize, counts: [i32; 3], begin: usize, hits: &mut Hits) {
    let [u, v, w] = &scan.grid.basis;
    let basis = [all(*u), all(*v), all(*w)];
    let from = &scan.homes.points[home];
    let start: Vectors<Q> = all([f64::from(from.stored[0]), f64::from(from.stored[1]), f64::from(from.stored[2])]);
    let mut before = [0.0; 3];
    for (before, (own, of_run)) in before.iter_mut().zip(from.counts.iter().zip(counts)) {
        *before = f64::from(*own) + f64::from(of_run);
    }
    let before: Vectors<Q> = all(before);
    let points = &scan.others.points[..];
    let (end, cutoff, mut n) = (hits.n, scan.cutoff, begin);
    // the last four are filled up; there is room for them
    let last = hits.points[end - 1];
    hits.points[end..end + 3].fill(last);
    for at in (begin..end).step_by(4) {
        let four = *room::<4, _>(&mut hits.points, at);
        let [a, b, c, d] = four;
        let (a, b, c, d) = (&points[a as usize], &points[b as usize], &points[c as usize], &points[d as usize]);
        let to = Q::xyz([&a.stored, &b.stored, &c.stored, &d.stored]);
        let after = Q::xyz([&a.counts, &b.counts, &c.counts, &d.counts]);
        let mut apart = difference(to, start);
        let added = difference(after, before);
        for (count, vector) in added.iter().zip(&basis) {
            for (x, of_vector) in apart.iter_mut().zip(vector) {
                *x = x.subtract(count.multiply(*of_vector));
            }
        }
        let [x, y, z] = apart;
        let distances = x.multiply(x).add(y.multiply(y)).add(z.multiply(z)).square_root();
        let (to, values) = (room(&mut hits.points, n), room(&mut hits.distances, n));
        if !Q::any(Q::all(cutoff).less(distances)) {
            (*to, *values) = (four, distances.store());
            n += (end - at).min(4);
        } else {
            for (point, distance) in four.into_iter().zip(distances.store()).take(end - at) {
                if distance <= cutoff {
                    (hits.points[n], hits.distances[n]) = (point, distance);
                    n += 1;
                }
            }
        }
    }
    hits.n = n;
}

#[inline(always)]
fn mark<Q: Quad>(scan: &Scan<'_>, homes: Range<usize>, vicinity: &Vicinity, sure: f32, marks: &mut [u8]) {
    let (limit, sure) = (Q::Eight::all(scan.limit), Q::Eight::all(sure));
    for home in homes {
        let place = three::<Q>(scan.homes.position(home, [0.0; 3]));
        for image in &vicinity.images {
            let ([x, y, z], places) = (vicinity.eights(image), vicinity.places(image));
            let marks = &mut marks[image.points.start / EIGHT..image.points.end / EIGHT];
            for ((((x, y), z), places), mark) in x.iter().zip(y).zip(z).zip(places).zip(marks) {
                if *mark == u8::MAX {
                    continue;
                }
                let squares = squares::<Q>([x, y, z], place);
                let mut inside = squares.at_most(sure);
                let unsure = (squares.at_most(limit) ^ inside) & !u32::from(*mark);
                if unsure != 0 {
                    inside |= scan.decide_all((home, image), places, unsure);
                }
                *mark |= inside as u8;
            }
        }
    }
}
