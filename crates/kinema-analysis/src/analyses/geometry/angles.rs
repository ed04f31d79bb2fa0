//! Angles of triples of atoms in each frame, degrees: as MDAnalysis' `calc_angles`, which gives radians.

use kinema_core::Result;

use crate::analyses::tuples::{TupleNumber, kernel};
use crate::cpu::Cpu;
use crate::geometry::{Lattice, Points, Results, angles};
use crate::registry::KernelInfo;

/// Columns: the angle at the second atom of each of `triples`, atom indices (n, 3), with the nearest images unless
/// `minimum_image` is false; NaN if that atom coincides with another.
pub const KERNEL: KernelInfo = kernel::<Angles, 3>();

struct Angles;

impl TupleNumber<3> for Angles {
    const ID: &'static str = "angles/1";
    const TUPLES: &'static str = "triples";
    const FACTOR: f64 = 180.0 / std::f64::consts::PI;

    fn numbers(cpu: Cpu, atoms: [Points<'_>; 3], lattice: &Lattice, results: Results<'_>) -> Result<bool> {
        angles(cpu, atoms, lattice, results)
    }
}
