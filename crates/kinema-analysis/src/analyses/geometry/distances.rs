//! Distances of pairs of atoms in each frame, angstrom: as MDAnalysis' `AtomicDistances`, which takes atoms of two groups.

use kinema_core::Result;

use crate::analyses::tuples::{TupleNumber, Tuples, kernel};
use crate::cpu::Cpu;
use crate::geometry::{Lattice, Points, Results, distances};
use crate::registry::KernelInfo;

/// Columns: one distance for each of `pairs`, atom indices (n, 2), with the nearest images unless `minimum_image` is
/// false.
pub const KERNEL: KernelInfo = kernel::<Distances, 2>();

/// The distances of given pairs, for kernels that make something of them.
pub(in crate::analyses) type PairDistances = Tuples<Distances, 2>;

pub(in crate::analyses) struct Distances;

impl TupleNumber<2> for Distances {
    const ID: &'static str = "distances/1";
    const TUPLES: &'static str = "pairs";
    const FACTOR: f64 = 1.0;

    fn numbers(cpu: Cpu, atoms: [Points<'_>; 2], lattice: &Lattice, results: Results<'_>) -> Result<bool> {
        distances(cpu, atoms, lattice, results)
    }
}
