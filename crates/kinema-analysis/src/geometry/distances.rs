//! Distances of pairs of atoms, with the nearest image in any lattice.
//!
//! `|r_2 - r_1|`, angstrom, in double precision of single-precision positions; as MDAnalysis' `calc_bonds` and MDTraj's
//! `compute_distances`.

use kinema_core::Result;

use super::bonds::{BondNumber, Results, check_lengths, compute_numbers};
use super::nearest_images::Images;
use super::points::Points;
use super::vectors::Vectors;
use crate::cpu::{Cpu, dispatch};
use crate::lanes::Quad;
use kinema_core::frame::Lattice;

/// The distance between the two atoms of each pair, angstrom; NaN or infinite if a position is not finite.
/// Returns whether all results are finite.
///
/// # Errors
/// `Internal` if a column does not have as many atoms as there are results.
pub fn distances(cpu: Cpu, pairs: [Points<'_>; 2], lattice: &Lattice, results: Results<'_>) -> Result<bool> {
    check_lengths(&pairs, &results)?;
    Ok(dispatch!(
        cpu,
        bool,
        lengths,
        (pairs: [Points<'_>; 2] = pairs, lattice: &Lattice = lattice, results: Results<'_> = results)
    ))
}

#[inline(always)]
fn lengths<Q: Quad>([first, second]: [Points<'_>; 2], lattice: &Lattice, results: Results<'_>) -> bool {
    compute_numbers::<Q, Length, 1>((first, [second]), lattice, results)
}

struct Length;

impl BondNumber<1> for Length {
    #[inline(always)]
    fn number<Q: Quad>([displacement]: [Vectors<Q>; 1], images: &impl Images<Q>) -> Q {
        images.shortest_squared(displacement).square_root()
    }
}
