//! The points near a cell, copied into a row, so that each point of the cell is compared with them and no cell is looked
//! at again.

use std::ops::Range;

use super::scan::{Eights, Scan, eights};
use super::stencil::{Run, Stencil};
use crate::cpu::dispatch;
use crate::lanes::{EIGHT, Eight, Quad, lanes_before, room};

/// Points that can be within the cutoff of a point of a cell.
#[derive(Debug, Default)]
pub(super) struct Vicinity {
    /// Coordinates as seen from the cell; there may be more after the last image.
    coordinates: [Vec<f32>; 3],
    /// Places among the sorted points.
    places: Vec<u32>,
    /// Places in the given set.
    numbers: Vec<u32>,
    pub(super) images: Vec<Image>,
    /// Points looked at, and pairs whose distance was or may be estimated, since it was made.
    pub(super) examined: u64,
}

/// Points that are seen through the same image.
#[derive(Debug, Clone)]
pub(super) struct Image {
    /// Their range; a multiple of [`EIGHT`], filled up with points that are infinitely far away.
    pub(super) points: Range<usize>,
    pub(super) counts: [i32; 3],
    /// Whether it is the cell itself, in a half of the neighbours.
    pub(super) is_home: bool,
}

impl Vicinity {
    /// Coordinates of the points of an image, eight at a time.
    #[inline(always)]
    pub(super) fn eights(&self, image: &Image) -> Eights<'_> {
        self.coordinates.each_ref().map(|coordinates| coordinates[image.points.clone()].as_chunks().0)
    }

    #[inline(always)]
    pub(super) fn places(&self, image: &Image) -> &[[u32; EIGHT]] {
        self.places[image.points.clone()].as_chunks().0
    }

    #[inline(always)]
    pub(super) fn numbers(&self, image: &Image) -> &[[u32; EIGHT]] {
        self.numbers[image.points.clone()].as_chunks().0
    }

    /// The number of points, with those that fill up.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.images.last().map_or(0, |image| image.points.end)
    }

    /// Calls `see` with each point that is marked, eight at a time: its place among the sorted points, and its number.
    #[inline(always)]
    pub(super) fn each_marked(&self, marks: &[u8], mut see: impl FnMut(usize, usize)) {
        let blocks = self.places.as_chunks::<EIGHT>().0.iter().zip(self.numbers.as_chunks::<EIGHT>().0);
        for (mark, (places, numbers)) in marks.iter().zip(blocks) {
            let mut left = *mark;
            while left != 0 {
                let lane = left.trailing_zeros() as usize;
                see(places[lane] as usize, numbers[lane] as usize);
                left &= left - 1;
            }
        }
    }

    /// Makes room for `n` points in some images, and for those that are written beyond the end.
    fn clear(&mut self, n: usize) {
        self.images.clear();
        if self.places.len() < n {
            self.coordinates.iter_mut().for_each(|row| row.resize(n, 0.0));
            self.places.resize(n, 0);
            self.numbers.resize(n, 0);
        }
    }

    /// Calls `see` with the homes of each cell that has some, and with their vicinity.
    pub(super) fn each(
        &mut self,
        scan: &Scan<'_>,
        stencil: &Stencil,
        runs: &mut Vec<Run>,
        mut see: impl FnMut(Range<usize>, &Self),
    ) {
        for &cell in scan.homes.occupied() {
            stencil.find_runs(scan.grid, scan.others, cell as usize, runs);
            let homes = scan.homes.in_cell(cell as usize);
            let looked_at = self.gather(scan, homes.clone(), runs);
            self.examined += looked_at + (homes.len() * self.len()) as u64;
            see(homes, self);
        }
    }

    /// Copies the points of runs that can be within the cutoff of one of `homes`. Returns how many points were looked at.
    fn gather(&mut self, scan: &Scan<'_>, homes: Range<usize>, runs: &[Run]) -> u64 {
        dispatch!(
            scan.cpu,
            u64,
            gather,
            (
                vicinity: &mut Vicinity = self,
                scan: &Scan<'_> = scan,
                homes: Range<usize> = homes,
                runs: &[Run] = runs,
            )
        )
    }

    /// Fills up the last image, whose points end at `n`.
    #[inline(always)]
    fn close(&mut self, n: usize) -> usize {
        let Some(image) = self.images.last_mut() else { return 0 };
        if n == image.points.start {
            self.images.pop();
            return n;
        }
        let end = n.next_multiple_of(EIGHT);
        image.points.end = end;
        self.coordinates.iter_mut().for_each(|row| row[n..end].fill(f32::INFINITY));
        end
    }
}

/// A point is left out if it is too far from the box around the homes. Rounding does not decrease with a growing number:
/// the estimated distance from the box is at most that from any home.
#[inline(always)]
fn gather<Q: Quad>(vicinity: &mut Vicinity, scan: &Scan<'_>, homes: Range<usize>, runs: &[Run]) -> u64 {
    let n_points = runs.iter().map(|run| run.points.len()).sum::<usize>();
    vicinity.clear(n_points + EIGHT * (runs.len() + 2));
    let limit = Q::Eight::all(scan.limit);
    let mut least = [f32::INFINITY; 3];
    let mut most = [f32::NEG_INFINITY; 3];
    for home in homes {
        let place = scan.homes.position(home, [0.0; 3]);
        for axis in 0..3 {
            least[axis] = least[axis].min(place[axis]);
            most[axis] = most[axis].max(place[axis]);
        }
    }
    let (least, most) = (three::<Q>(least), three::<Q>(most));
    let mut n = 0;
    for run in runs {
        let same = vicinity.images.last().is_some_and(|last| (last.counts, last.is_home) == (run.counts, run.is_home));
        if !same {
            n = vicinity.close(n);
            vicinity.images.push(Image { points: n..n, counts: run.counts, is_home: run.is_home });
        }
        let shift = three::<Q>(run.shift);
        let [x, y, z] = eights(scan.others, run.points.clone());
        let span = run.points.start..run.points.start + EIGHT * x.len();
        let numbers = scan.others.numbers[span].as_chunks::<EIGHT>().0;
        let (mut at, mut left) = (run.points.start as u32, run.points.len());
        for (((x, y), z), numbers) in x.iter().zip(y).zip(z).zip(numbers) {
            let place =
                [Q::Eight::load(x).add(shift[0]), Q::Eight::load(y).add(shift[1]), Q::Eight::load(z).add(shift[2])];
            let x = beyond::<Q>(place[0], least[0], most[0]);
            let y = beyond::<Q>(place[1], least[1], most[1]);
            let z = beyond::<Q>(place[2], least[2], most[2]);
            let squares = x.multiply(x).add(y.multiply(y)).add(z.multiply(z));
            let near = squares.at_most(limit) & lanes_before(left);
            for (place, to) in place.into_iter().zip(&mut vicinity.coordinates) {
                place.pack(near, room(to, n));
            }
            Q::Eight::put_places(near, at, room(&mut vicinity.places, n));
            n += Q::Eight::pack_numbers(near, numbers, room(&mut vicinity.numbers, n));
            at += EIGHT as u32;
            left = left.saturating_sub(EIGHT);
        }
    }
    vicinity.close(n);
    n_points as u64
}

/// One vector in all lanes.
#[inline(always)]
pub(super) fn three<Q: Quad>([x, y, z]: [f32; 3]) -> [Q::Eight; 3] {
    [Q::Eight::all(x), Q::Eight::all(y), Q::Eight::all(z)]
}

/// How far coordinates are outside of a range.
#[inline(always)]
fn beyond<Q: Quad>(at: Q::Eight, least: Q::Eight, most: Q::Eight) -> Q::Eight {
    least.subtract(at).maximum(at.subtract(most)).maximum(Q::Eight::all(0.0))
}
