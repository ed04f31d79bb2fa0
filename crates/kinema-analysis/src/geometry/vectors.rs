//! Vectors of four items at once.

use crate::lanes::Quad;

/// x, y and z of four vectors.
pub(crate) type Vectors<Q> = [Q; 3];

/// One vector in all lanes.
#[inline(always)]
pub(crate) fn all<Q: Quad>([x, y, z]: [f64; 3]) -> Vectors<Q> {
    [Q::all(x), Q::all(y), Q::all(z)]
}

/// `u + factor v`
#[inline(always)]
pub(crate) fn plus_times<Q: Quad>(u: Vectors<Q>, factor: Q, v: Vectors<Q>) -> Vectors<Q> {
    [factor.multiply_add(v[0], u[0]), factor.multiply_add(v[1], u[1]), factor.multiply_add(v[2], u[2])]
}

/// `u - v`
#[inline(always)]
pub(crate) fn difference<Q: Quad>(u: Vectors<Q>, v: Vectors<Q>) -> Vectors<Q> {
    [u[0].subtract(v[0]), u[1].subtract(v[1]), u[2].subtract(v[2])]
}

/// `u . v`
#[inline(always)]
pub(crate) fn dot<Q: Quad>(u: Vectors<Q>, v: Vectors<Q>) -> Q {
    u[2].multiply_add(v[2], u[1].multiply_add(v[1], u[0].multiply(v[0])))
}

/// `u x v`. Nothing is fused, so that it is zero if the vectors are parallel and their products exact.
#[inline(always)]
pub(crate) fn cross<Q: Quad>(u: Vectors<Q>, v: Vectors<Q>) -> Vectors<Q> {
    [
        u[1].multiply(v[2]).subtract(u[2].multiply(v[1])),
        u[2].multiply(v[0]).subtract(u[0].multiply(v[2])),
        u[0].multiply(v[1]).subtract(u[1].multiply(v[0])),
    ]
}

/// `|u|`
#[inline(always)]
pub(crate) fn length<Q: Quad>(u: Vectors<Q>) -> Q {
    dot(u, u).square_root()
}
