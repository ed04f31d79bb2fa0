//! Nearest images of four displacements at once, by the kind of lattice: none, along the axes, any.
//!
//! They equal the results of [`Lattice::nearest`] to rounding: multiplications and additions are fused here.

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
    /// Zero for an open axis.
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
    seven: Option<Seven<Q>>,
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
            seven: Seven::from_lattice(lattice),
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

    /// Half of the decrease of the squared length with the neighbour or its opposite; and the product with it.
    #[inline(always)]
    fn half_gain(neighbour: &Neighbour, rest: Vectors<Q>) -> (Q, Q) {
        let [x, y, z, half_squared] = neighbour.lanes();
        let along = dot(rest, [Q::load(x), Q::load(y), Q::load(z)]);
        (along.magnitude().subtract(Q::load(half_squared)), along)
    }

    /// Subtracts the best neighbour from rounded displacements, some of which may have a nearer image.
    #[inline(always)]
    fn subtract_neighbour(&self, rest: Vectors<Q>) -> Vectors<Q> {
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
        if Q::any(self.sure.less(dot(rest, rest))) { self.subtract_neighbour(rest) } else { rest }
    }

    /// The neighbours are not subtracted here. If the nearest image is `v = r - c`, a coordinate of v in the direction
    /// of each term `b_i` of c is at least 1/2. So `|v|` is at least half of that height of the cell, which is at least
    /// `|b_i| / sqrt(2)` in a reduced basis. Then `|r|` is at most ten times `|v|`, and the difference of the squares
    /// loses two digits of sixteen at worst.
    #[inline(always)]
    fn shortest_squared(&self, displacements: Vectors<Q>) -> Q {
        let rest = self.rounded(displacements);
        let most = match &self.seven {
            Some(seven) => seven.half_gain(rest),
            None => {
                let mut most = Q::all(0.0);
                for neighbour in self.neighbours {
                    most = Self::half_gain(neighbour, rest).0.maximum(most);
                }
                most
            }
        };
        Q::all(-2.0).multiply_add(most, dot(rest, rest))
    }
}

/// The neighbours of most lattices: u, v, w, u + v, u - v, v + w and u + w, by three products with a displacement.
#[derive(Clone, Copy)]
struct Seven<Q> {
    vectors: [Vectors<Q>; 3],
    /// Half of the square of each neighbour, in this order.
    half_squares: [Q; 7],
}

impl<Q: Quad> Seven<Q> {
    /// The neighbours of a lattice, if all of them are among these and they outnumber the saved products.
    #[inline(always)]
    fn from_lattice(lattice: &Lattice) -> Option<Self> {
        let neighbours = lattice.neighbours();
        let sign_of = |i: usize, j: usize| {
            let pair = |found: &&Neighbour| found.basis_multiples()[i] != 0 && found.basis_multiples()[j] != 0;
            let mut signs =
                neighbours.iter().filter(pair).map(|found| found.basis_multiples()[i] * found.basis_multiples()[j]);
            (signs.next().unwrap_or(1) as f64, signs.next().is_some())
        };
        let ([xy, xz, yz], pairs) = (
            [sign_of(0, 1), sign_of(0, 2), sign_of(1, 2)],
            neighbours.iter().all(|found| found.basis_multiples().contains(&0)),
        );
        // the pair with both signs is u, v; the signs of u and v are such that v + w and u + w are neighbours
        let (order, signs) = match [xy.1, xz.1, yz.1] {
            [_, false, false] => ([0, 1, 2], [xz.0, yz.0]),
            [false, true, false] => ([0, 2, 1], [xy.0, yz.0]),
            [false, false, true] => ([1, 2, 0], [xy.0, xz.0]),
            _ => return None,
        };
        if !pairs || neighbours.len() < 5 {
            return None;
        }
        let [u, v, w] = order.map(|i: usize| lattice.basis()[i]);
        let (u, v) = (u.map(|x| signs[0] * x), v.map(|x| signs[1] * x));
        let plus = |a: [f64; 3], b: [f64; 3], sign: f64| [0, 1, 2].map(|i| sign.mul_add(b[i], a[i]));
        let sums = [u, v, w, plus(u, v, 1.0), plus(u, v, -1.0), plus(v, w, 1.0), plus(u, w, 1.0)];
        let half_squares = sums.map(|[x, y, z]| Q::all(0.5 * (x * x + y * y + z * z)));
        Some(Self { vectors: [all(u), all(v), all(w)], half_squares })
    }

    /// Half of what the square of a length falls by at most.
    #[inline(always)]
    fn half_gain(&self, rest: Vectors<Q>) -> Q {
        let [u, v, w] = self.vectors;
        let (u, v, w) = (dot(rest, u), dot(rest, v), dot(rest, w));
        let along = [u, v, w, u.add(v), u.subtract(v), v.add(w), u.add(w)];
        let mut most = Q::all(0.0);
        for (along, half_square) in along.iter().zip(&self.half_squares) {
            most = along.magnitude().subtract(*half_square).maximum(most);
        }
        most
    }
}

/// Rounded to a whole number.
#[inline(always)]
pub(crate) fn whole<Q: Quad>(value: Q) -> Q {
    value.add(Q::all(ROUNDING)).subtract(Q::all(ROUNDING))
}
