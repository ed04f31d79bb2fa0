//! Loops over items of two, three or four atoms: the vectors between consecutive atoms, as nearest images, give one
//! number an item.

use kinema_core::{Error, ErrorKind, Result};

use super::nearest_images::{AlongAxes, General, Images, Open};
use super::points::Points;
use super::vectors::{Vectors, difference};
use crate::lanes::Quad;
use kinema_core::frame::Lattice;

/// Destination of results, one for each item: they are computed in double precision, and rounded to the requested type.
#[derive(Debug)]
pub enum Results<'a> {
    /// As they are computed.
    Double(&'a mut [f64]),
    /// Rounded once more.
    Single(&'a mut [f32]),
}

impl Results<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Double(values) => values.len(),
            Self::Single(values) => values.len(),
        }
    }
}

/// Checks that there are as many items in each column as results.
/// Errors: `Internal`.
pub(super) fn check_lengths(columns: &[Points<'_>], results: &Results<'_>) -> Result<()> {
    match columns.iter().map(Points::len).find(|&found| found != results.len()) {
        Some(found) => {
            let what = format!("wrong number of atoms in a column, expected {}, found {found}", results.len());
            Err(Error::new(ErrorKind::Internal, what))
        }
        None => Ok(()),
    }
}

/// A number computed from the `BONDS` vectors of an item, from each of its atoms to the next.
///
/// It is a trait, as only functions can be marked for inlining: the instructions of [`Quad`] need the dispatched body
/// around them.
pub(super) trait BondNumber<const BONDS: usize> {
    /// Computes the number from the displacements between consecutive atoms, as they are in the row.
    fn number<Q: Quad>(displacements: [Vectors<Q>; BONDS], images: &impl Images<Q>) -> Q;
}

/// The nearest images of displacements.
#[inline(always)]
pub(super) fn nearest<Q: Quad, const BONDS: usize>(
    displacements: [Vectors<Q>; BONDS],
    images: &impl Images<Q>,
) -> [Vectors<Q>; BONDS] {
    let mut bonds = displacements;
    for bond in &mut bonds {
        *bond = images.nearest(*bond);
    }
    bonds
}

/// Computes a number for each item; whether all of them are finite.
#[inline(always)]
pub(super) fn compute_numbers<Q: Quad, N: BondNumber<BONDS>, const BONDS: usize>(
    (first, others): (Points<'_>, [Points<'_>; BONDS]),
    lattice: &Lattice,
    results: Results<'_>,
) -> bool {
    if lattice.is_open() {
        Items { first, others, images: Open }.fill::<Q, N>(results)
    } else if let Some([edges, inverse]) = lattice.edges_on_axes() {
        Items { first, others, images: AlongAxes::new(edges, inverse) }.fill::<Q, N>(results)
    } else {
        Items { first, others, images: General::new(lattice) }.fill::<Q, N>(results)
    }
}

struct Items<'a, I, const BONDS: usize> {
    first: Points<'a>,
    others: [Points<'a>; BONDS],
    images: I,
}

impl<I, const BONDS: usize> Items<'_, I, BONDS> {
    #[inline(always)]
    fn fill<Q: Quad, N: BondNumber<BONDS>>(&self, results: Results<'_>) -> bool
    where
        I: Images<Q>,
    {
        match results {
            Results::Double(values) => self.fill_with::<Q, N, _>(values),
            Results::Single(values) => self.fill_with::<Q, N, _>(values),
        }
    }

    #[inline(always)]
    fn fill_with<Q: Quad, N: BondNumber<BONDS>, T: Rounded>(&self, values: &mut [T]) -> bool
    where
        I: Images<Q>,
    {
        let (groups, tail) = values.as_chunks_mut::<4>();
        // zero times a finite number is zero; this sum is ready long before the next root or division
        let (zero, mut zeros) = (Q::all(0.0), Q::all(0.0));
        let mut at = 0;
        for group in groups {
            let numbers = N::number(self.displacements(at), &self.images);
            zeros = zeros.add(numbers.multiply(zero));
            *group = T::rounded(numbers);
            at += 4;
        }
        if !tail.is_empty() {
            let numbers = N::number(self.displacements(at), &self.images);
            zeros = zeros.add(numbers.multiply(zero));
            tail.copy_from_slice(&T::rounded(numbers)[..tail.len()]);
        }
        zeros.store() == [0.0; 4]
    }

    /// From atom to atom of four items from `at` on.
    #[inline(always)]
    fn displacements<Q: Quad>(&self, at: usize) -> [Vectors<Q>; BONDS] {
        let mut before = self.first.four(at);
        let mut displacements = [before; BONDS];
        for (displacement, points) in displacements.iter_mut().zip(&self.others) {
            let here = points.four(at);
            *displacement = difference(here, before);
            before = here;
        }
        displacements
    }
}

/// A type of results.
trait Rounded: Copy {
    fn rounded<Q: Quad>(values: Q) -> [Self; 4];
}

impl Rounded for f64 {
    #[inline(always)]
    fn rounded<Q: Quad>(values: Q) -> [Self; 4] {
        values.store()
    }
}

impl Rounded for f32 {
    #[inline(always)]
    fn rounded<Q: Quad>(values: Q) -> [Self; 4] {
        let [a, b, c, d] = values.store();
        [a as Self, b as Self, c as Self, d as Self]
    }
}
