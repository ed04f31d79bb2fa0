//! Nearest images of four displacements at once, by the kind of lattice: none, along the axes, any.
//!
//! They have the bits of [`Lattice::nearest`], whose operations they repeat in its order.

use super::lattice::{Lattice, Neighbour, ROUNDING};
use super::vectors::{Vectors, all, difference, dot, times};
use crate::lanes::Quad;

/// A way to the nearest images of displacements.
pub(super) trait Images<Q: Quad>: Copy {
    fn nearest(&self, displacements: Vectors<Q>) -> Vectors<Q>;
}

/// Nothing is periodic.
#[derive(Clone, Copy)]
pub(super) struct Open;

impl<Q: Quad> Images<Q> for Open {
    #[inline(always)]
    fn nearest(&self, displacements: Vectors<Q>) -> Vectors<Q> {
        displacements
    }
}

/// Each edge lies on an axis.
#[derive(Clone, Copy)]
pub(super) struct AlongAxes<Q> {
    edges: Vectors<Q>,
    /// Zero where the axis is open.
    inverse: Vectors<Q>,
}

impl<Q: Quad> AlongAxes<Q> {
    #[inline(always)]
    pub(super) fn new(edges: [f64; 3], inverse: [f64; 3]) -> Self {
        Self { edges: all(edges), inverse: all(inverse) }
    }
}

impl<Q: Quad> Images<Q> for AlongAxes<Q> {
    #[inline(always)]
    fn nearest(&self, displacements: Vectors<Q>) -> Vectors<Q> {
        let mut nearest = displacements;
        for ((x, edge), inverse) in nearest.iter_mut().zip(&self.edges).zip(&self.inverse) {
            *x = x.subtract(whole(x.multiply(*inverse)).multiply(*edge));
        }
        nearest
    }
}

/// Any lattice.
#[derive(Clone, Copy)]
pub(super) struct General<'a, Q> {
    basis: [Vectors<Q>; 3],
    dual: [Vectors<Q>; 3],
    neighbours: &'a [Neighbour],
    sure: Q,
}

impl<'a, Q: Quad> General<'a, Q> {
    #[inline(always)]
    pub(super) fn new(lattice: &'a Lattice) -> Self {
        Self {
            basis: [all(lattice.basis[0]), all(lattice.basis[1]), all(lattice.basis[2])],
            dual: [all(lattice.dual[0]), all(lattice.dual[1]), all(lattice.dual[2])],
            neighbours: &lattice.neighbours,
            sure: Q::all(lattice.sure),
        }
    }

    /// What must be subtracted from rounded displacements, of which some may have a nearer image.
    #[inline(always)]
    fn to_subtract(&self, rest: Vectors<Q>, unsure: Q::Mask) -> Vectors<Q> {
        let zero = Q::all(0.0);
        // no change of a length is below it where the rounded displacement is sure to be the nearest
        let mut least = Q::select(unsure, zero, Q::all(f64::NEG_INFINITY));
        let mut sign = zero;
        let mut found = [zero; 3];
        for neighbour in self.neighbours {
            let vector = all(neighbour.vector);
            let along = dot(rest, vector);
            let change = Q::all(neighbour.squared).subtract(Q::all(2.0).multiply(along.magnitude()));
            let nearer = change.less(least);
            least = Q::select(nearer, change, least);
            sign = Q::select(nearer, along, sign);
            for (found, x) in found.iter_mut().zip(vector) {
                *found = Q::select(nearer, x, *found);
            }
        }
        let sign = Q::all(1.0).with_sign_of(sign);
        times(found, sign)
    }
}

impl<Q: Quad> Images<Q> for General<'_, Q> {
    #[inline(always)]
    fn nearest(&self, displacements: Vectors<Q>) -> Vectors<Q> {
        let mut rest = displacements;
        for (basis, dual) in self.basis.iter().zip(&self.dual) {
            let count = whole(dot(*dual, displacements));
            rest = difference(rest, times(*basis, count));
        }
        let unsure = self.sure.less(dot(rest, rest));
        if Q::any(unsure) { difference(rest, self.to_subtract(rest, unsure)) } else { rest }
    }
}

/// Rounded to a whole number.
#[inline(always)]
fn whole<Q: Quad>(value: Q) -> Q {
    value.add(Q::all(ROUNDING)).subtract(Q::all(ROUNDING))
}
