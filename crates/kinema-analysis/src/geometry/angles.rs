//! Angles of triples of atoms, with the nearest images of both bonds in any lattice.
//!
//! With `u = r_1 - r_2` and `v = r_3 - r_2`: `atan2(|u x v|, u.v)`, radians from 0 to pi. It keeps all digits near 0
//! and pi, where an arc cosine loses half of them. As MDAnalysis' `calc_angles` and MDTraj's `compute_angles`. If two
//! atoms of a bond coincide there is no angle: the result is NaN (MDAnalysis gives 0, MDTraj NaN).

use kinema_core::Result;

use super::arc_tangent::atan2;
use super::bonds::{BondNumber, Results, check_lengths, compute_numbers, nearest};
use super::nearest_images::Images;
use super::points::Points;
use super::vectors::{Vectors, cross, dot, length};
use crate::cpu::{Cpu, dispatch};
use crate::lanes::Quad;
use kinema_core::frame::Lattice;

/// The angle at the second atom of each triple, radians.
/// Returns whether all results are finite.
///
/// # Errors
/// `Internal` if a column does not have as many atoms as there are results.
pub fn angles(cpu: Cpu, triples: [Points<'_>; 3], lattice: &Lattice, results: Results<'_>) -> Result<bool> {
    check_lengths(&triples, &results)?;
    Ok(dispatch!(
        cpu,
        bool,
        bond_angles,
        (triples: [Points<'_>; 3] = triples, lattice: &Lattice = lattice, results: Results<'_> = results)
    ))
}

#[inline(always)]
fn bond_angles<Q: Quad>([first, second, third]: [Points<'_>; 3], lattice: &Lattice, results: Results<'_>) -> bool {
    compute_numbers::<Q, Angle, 2>((first, [second, third]), lattice, results)
}

struct Angle;

impl BondNumber<2> for Angle {
    #[inline(always)]
    fn number<Q: Quad>(displacements: [Vectors<Q>; 2], images: &impl Images<Q>) -> Q {
        let [to_second, to_third] = nearest(displacements, images);
        let against = Q::all(0.0).subtract(dot(to_second, to_third));
        atan2(length(cross(to_second, to_third)), against)
    }
}
