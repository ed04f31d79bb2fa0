//! Nearest images of four displacements at once, by the kind of lattice: none, along the axes, any.
//!
//! They are those of [`Lattice::nearest`] to rounding: multiplications and additions are fused here.

use super::vectors::{Vectors, all, dot, plus_times};
use crate::lanes::Quad;
use kinema_core::frame::lattice::{Lattice, Neighbour, ROUNDING};

/// A way to the nearest images of displacements.
pub(crate) trait Images<Q: Quad>: Copy {
    fn nearest(&self, displacements: Vectors<Q>) -> Vectors<Q>;
    /// The squared length of the nearest images.
    #[inline(always)]
    fn shortest_squared(&self, displacements: Vectors<Q>) -> Q {
        let nearest = self.nearest(displacements);
        dot(nearest, nearest)
    }
}

/// Nothing is periodic.
#[derive(Clone, Copy)]
pub(crate) struct Open;

impl<Q: Quad> Images<Q> for Open {
    #[inline(always)]
    fn nearest(&self, displacements: Vectors<Q>) -> Vectors<Q> {
        displacements
    }
}

/// Each edge lies on an axis.
#[derive(Clone, Copy)]
pub(crate) struct AlongAxes<Q> {
    minus_edges: Vectors<Q>,
    /// Zero where the axis is open.
    inverse: Vectors<Q>,
}

impl<Q: Quad> AlongAxes<Q> {
    #[inline(always)]
    pub(crate) fn new(edges: [f64; 3], inverse: [f64; 3]) -> Self {
        Self { minus_edges: all(edges.map(|edge| -edge)), inverse: all(inverse) }
    }
}

impl<Q: Quad> Images<Q> for AlongAxes<Q> {
    #[inline(always)]
    fn nearest(&self, displacements: Vectors<Q>) -> Vectors<Q> {
        let mut nearest = displacements;
        for ((x, minus_edge), inverse) in nearest.iter_mut().zip(&self.minus_edges).zip(&self.inverse) {
            *x = whole(x.multiply(*inverse)).multiply_add(*minus_edge, *x);
        }
        nearest
    }
}

/// Any lattice.
#[derive(Clone, Copy)]
pub(crate) struct General<'a, Q> {
    minus_basis: [Vectors<Q>; 3],
    dual: [Vectors<Q>; 3],
    neighbours: &'a [Neighbour],
    sure: Q,
}

impl<'a, Q: Quad> General<'a, Q> {
    #[inline(always)]
    pub(crate) fn new(lattice: &'a Lattice) -> Self {
        let minus = lattice.basis().map(|vector| vector.map(|x| -x));
        Self {
            minus_basis: [all(minus[0]), all(minus[1]), all(minus[2])],
            dual: [all(lattice.dual()[0]), all(lattice.dual()[1]), all(lattice.dual()[2])],
            neighbours: lattice.neighbours(),
            sure: Q::all(lattice.sure()),
        }
    }

    #[inline(always)]
    fn rounded(&self, displacements: Vectors<Q>) -> Vectors<Q> {
        let mut rest = displacements;
        for (minus_basis, dual) in self.minus_basis.iter().zip(&self.dual) {
            rest = plus_times(rest, whole(dot(*dual, displacements)), *minus_basis);
        }
        rest
    }

    /// Half of what the square of a length falls by with the neighbour or its opposite; and the product with it.
    #[inline(always)]
    fn half_gain(neighbour: &Neighbour, rest: Vectors<Q>) -> (Q, Q) {
        let [x, y, z, half_squared] = neighbour.lanes();
        let along = dot(rest, [Q::load(x), Q::load(y), Q::load(z)]);
        (along.magnitude().subtract(Q::load(half_squared)), along)
    }

    /// Rounded displacements, of which some may have a nearer image, without their nearest neighbours.
    #[inline(always)]
    fn without_neighbour(&self, rest: Vectors<Q>) -> Vectors<Q> {
        let zero = Q::all(0.0);
        let (mut most, mut sign, mut found) = (zero, zero, [zero; 3]);
        for neighbour in self.neighbours {
            let (gain, along) = Self::half_gain(neighbour, rest);
            let nearer = most.less(gain);
            most = Q::select(nearer, gain, most);
            sign = Q::select(nearer, along, sign);
            for (found, x) in found.iter_mut().zip(neighbour.lanes()) {
                *found = Q::select(nearer, Q::load(x), *found);
            }
        }
        plus_times(rest, Q::all(-1.0).with_sign_of(zero.subtract(sign)), found)
    }
}

impl<Q: Quad> Images<Q> for General<'_, Q> {
    #[inline(always)]
    fn nearest(&self, displacements: Vectors<Q>) -> Vectors<Q> {
        let rest = self.rounded(displacements);
        // a bond is seldom longer than half of the cell
        if Q::any(self.sure.less(dot(rest, rest))) { self.without_neighbour(rest) } else { rest }
    }

    /// The neighbours are not subtracted here. Where the nearest image is `v = r - c`, a coordinate of v in the direction of
    /// each term `b_i` of c is at least 1/2, so that `|v|` is at least half of that height of the cell, which is at least
    /// `|b_i| / sqrt(2)` in a reduced basis; then `|r|` is at most ten times `|v|`, and the difference of the squares loses two
    /// digits of sixteen at the worst.
    #[inline(always)]
    fn shortest_squared(&self, displacements: Vectors<Q>) -> Q {
        let rest = self.rounded(displacements);
        let mut most = Q::all(0.0);
        for neighbour in self.neighbours {
            most = Self::half_gain(neighbour, rest).0.maximum(most);
        }
        Q::all(-2.0).multiply_add(most, dot(rest, rest))
    }
}

/// Rounded to a whole number.
#[inline(always)]
pub(crate) fn whole<Q: Quad>(value: Q) -> Q {
    value.add(Q::all(ROUNDING)).subtract(Q::all(ROUNDING))
}
