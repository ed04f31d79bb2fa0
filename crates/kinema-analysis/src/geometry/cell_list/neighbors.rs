//! Points near one point, with their places from it, in rows of single precision.

use super::scan::Scan;
use super::vicinity::{Vicinity, three};
use crate::cpu::dispatch;
use crate::lanes::{EIGHT, Eight, Quad, room};

/// Points near one point, or images of points.
#[derive(Debug, Default)]
pub(crate) struct Neighbors {
    /// x, y and z from the one point, angstrom, with the error of single precision in a number of the size of the cell;
    /// with room for [`EIGHT`] more.
    apart: [Vec<f32>; 3],
    /// Places in the given set.
    numbers: Vec<u32>,
    len: usize,
    /// The greatest error of a coordinate of `apart`, angstrom.
    pub(super) error: f64,
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

    /// The greatest error of a coordinate, angstrom.
    pub(crate) fn error(&self) -> f64 {
        self.error
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

    /// Finds the points of a vicinity that may be near a home.
    pub(super) fn find(&mut self, scan: &Scan<'_>, home: usize, vicinity: &Vicinity) {
        dispatch!(
            scan.cpu,
            (),
            find,
            (
                found: &mut Neighbors = self,
                scan: &Scan<'_> = scan,
                home: usize = home,
                vicinity: &Vicinity = vicinity,
            )
        );
    }

    /// Empties it, and makes room for some, and for those that are written beyond the end.
    fn clear(&mut self, most: usize) {
        self.len = 0;
        if self.numbers.len() < most + EIGHT {
            self.apart.iter_mut().for_each(|row| row.resize(most + EIGHT, 0.0));
            self.numbers.resize(most + EIGHT, 0);
        }
    }
}

#[inline(always)]
fn first_eight<T>(row: &[T]) -> &[T; EIGHT] {
    row.first_chunk().expect("there is room for eight more")
}

#[inline(always)]
fn find<Q: Quad>(found: &mut Neighbors, scan: &Scan<'_>, home: usize, vicinity: &Vicinity) {
    found.clear(vicinity.len());
    let limit = Q::Eight::all(scan.limit);
    let [px, py, pz] = three::<Q>(scan.homes.position(home, [0.0; 3]));
    let Neighbors { apart: [to_x, to_y, to_z], numbers: to_numbers, len: n, .. } = found;
    for image in &vicinity.images {
        let ([x, y, z], numbers) = (vicinity.eights(image), vicinity.numbers(image));
        for (((x, y), z), numbers) in x.iter().zip(y).zip(z).zip(numbers) {
            let x = Q::Eight::load(x).subtract(px);
            let y = Q::Eight::load(y).subtract(py);
            let z = Q::Eight::load(z).subtract(pz);
            let near = x.multiply(x).add(y.multiply(y)).add(z.multiply(z)).at_most(limit);
            x.pack(near, room(to_x, *n));
            y.pack(near, room(to_y, *n));
            z.pack(near, room(to_z, *n));
            *n += Q::Eight::pack_numbers(near, numbers, room(to_numbers, *n));
        }
    }
}
