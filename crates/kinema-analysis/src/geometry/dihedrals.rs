//! Dihedral angles of quadruples of atoms, with the nearest images of the three bonds in any lattice.
//!
//! With bonds `b_1`, `b_2`, `b_3` from atom to atom: `atan2(|b_2| b_1.(b_2 x b_3), (b_1 x b_2).(b_2 x b_3))`, radians
//! from -pi to pi (Blondel and Karplus, J. Comput. Chem. 17, 1132, 1996). The sign is IUPAC's: positive if, seen along
//! `b_2`, the last bond is turned clockwise from the first; 0 is cis. As MDAnalysis' `calc_dihedrals` and MDTraj's
//! `compute_dihedrals`. If three consecutive atoms lie on one line there is no dihedral: the result is NaN, as in
//! MDAnalysis.

use kinema_core::Result;

use super::arc_tangent::atan2;
use super::bonds::{BondNumber, Results, check_lengths, compute_numbers, nearest};
use super::nearest_images::Images;
use super::points::Points;
use super::vectors::{Vectors, cross, dot, length};
use crate::cpu::{Cpu, dispatch};
use crate::lanes::Quad;
use kinema_core::frame::Lattice;

/// The dihedral angle of each quadruple, radians.
/// Returns whether all results are finite.
///
/// # Errors
/// `Internal` if a column does not have as many atoms as there are results.
pub fn dihedrals(cpu: Cpu, quadruples: [Points<'_>; 4], lattice: &Lattice, results: Results<'_>) -> Result<bool> {
    check_lengths(&quadruples, &results)?;
    Ok(dispatch!(
        cpu,
        bool,
        bond_dihedrals,
        (quadruples: [Points<'_>; 4] = quadruples, lattice: &Lattice = lattice, results: Results<'_> = results)
    ))
}

#[inline(always)]
fn bond_dihedrals<Q: Quad>(
    [first, second, third, fourth]: [Points<'_>; 4],
    lattice: &Lattice,
    results: Results<'_>,
) -> bool {
    compute_numbers::<Q, Dihedral, 3>((first, [second, third, fourth]), lattice, results)
}

struct Dihedral;

impl BondNumber<3> for Dihedral {
    #[inline(always)]
    fn number<Q: Quad>(displacements: [Vectors<Q>; 3], images: &impl Images<Q>) -> Q {
        let [before, axis, after] = nearest(displacements, images);
        let normal = cross(axis, after);
        atan2(length(axis).multiply(dot(before, normal)), dot(cross(before, axis), normal))
    }
}
