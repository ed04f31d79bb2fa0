//! Dihedral angles of quadruples of atoms in each frame, degrees from -180 to 180: as MDAnalysis' `Dihedral`.

use kinema_core::Result;

use crate::analyses::tuples::{TupleNumber, kernel};
use crate::cpu::Cpu;
use crate::geometry::{Lattice, Points, Results, dihedrals};
use crate::registry::KernelInfo;

/// Columns: the angle about the middle bond of each of `quadruples`, atom indices (n, 4), with the nearest images
/// unless `minimum_image` is false; NaN if three consecutive atoms lie on one line.
pub const KERNEL: KernelInfo = kernel::<Dihedrals, 4>();

struct Dihedrals;

impl TupleNumber<4> for Dihedrals {
    const ID: &'static str = "dihedrals/1";
    const TUPLES: &'static str = "quadruples";
    const FACTOR: f64 = 180.0 / std::f64::consts::PI;

    fn numbers(cpu: Cpu, atoms: [Points<'_>; 4], lattice: &Lattice, results: Results<'_>) -> Result<bool> {
        dihedrals(cpu, atoms, lattice, results)
    }
}
