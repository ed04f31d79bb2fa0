//! Vectors of four items at once. Nothing is fused, so that a cross product of parallel vectors is zero.

use crate::lanes::Quad;

/// x, y and z of four vectors.
pub(super) type Vectors<Q> = [Q; 3];

/// One vector in all lanes.
#[inline(always)]
pub(super) fn all<Q: Quad>([x, y, z]: [f64; 3]) -> Vectors<Q> {
    [Q::all(x), Q::all(y), Q::all(z)]
}

/// `factor u`
#[inline(always)]
pub(super) fn times<Q: Quad>(u: Vectors<Q>, factor: Q) -> Vectors<Q> {
    [factor.multiply(u[0]), factor.multiply(u[1]), factor.multiply(u[2])]
}

/// `u - v`
#[inline(always)]
pub(super) fn difference<Q: Quad>(u: Vectors<Q>, v: Vectors<Q>) -> Vectors<Q> {
    [u[0].subtract(v[0]), u[1].subtract(v[1]), u[2].subtract(v[2])]
}

/// `u . v`
#[inline(always)]
pub(super) fn dot<Q: Quad>(u: Vectors<Q>, v: Vectors<Q>) -> Q {
    u[0].multiply(v[0]).add(u[1].multiply(v[1])).add(u[2].multiply(v[2]))
}

/// `u x v`
#[inline(always)]
pub(super) fn cross<Q: Quad>(u: Vectors<Q>, v: Vectors<Q>) -> Vectors<Q> {
    [
        u[1].multiply(v[2]).subtract(u[2].multiply(v[1])),
        u[2].multiply(v[0]).subtract(u[0].multiply(v[2])),
        u[0].multiply(v[1]).subtract(u[1].multiply(v[0])),
    ]
}

/// `|u|`
#[inline(always)]
pub(super) fn length<Q: Quad>(u: Vectors<Q>) -> Q {
    dot(u, u).square_root()
}
