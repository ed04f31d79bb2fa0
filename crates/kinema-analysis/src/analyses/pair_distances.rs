//! The distances of given pairs of atoms, as kernels that make something of them need them.

use kinema_core::Result;
use kinema_core::frame::{Fields, Lattice};
use kinema_core::reduce::{Frame, Needs};

use crate::arguments::{Arguments, AtomTuples};
use crate::cpu::Cpu;
use crate::geometry::{Points, Results, distances};

/// Pairs of atoms.
#[derive(Debug)]
pub(super) struct PairDistances {
    cpu: Cpu,
    pairs: AtomTuples<2>,
    minimum_image: bool,
}

impl PairDistances {
    /// Of `pairs`, atom indices (n, 2), with the nearest images unless `minimum_image` is false.
    ///
    /// # Errors
    /// `InvalidArgument` or `OutOfRange` for other arguments.
    pub(super) fn from_arguments(arguments: &Arguments) -> Result<Self> {
        let (pairs, minimum_image) = (arguments.atom_tuples("pairs")?, arguments.flag("minimum_image", true)?);
        Ok(Self { cpu: arguments.cpu(), pairs, minimum_image })
    }

    /// Positions, cells where images count, and `more`.
    pub(super) fn needs(&self, more: Fields) -> Needs {
        let cells = if self.minimum_image { Fields::CELL } else { Fields::NONE };
        Needs { fields: Fields::POSITIONS | cells | more, atom_sets: vec![self.pairs.atoms.clone()] }
    }

    /// The distances in a frame, angstrom.
    ///
    /// # Errors
    /// `Corrupt` for a position or cell that is not finite.
    pub(super) fn distances<'a>(&self, frame: &Frame<'_>, room: &'a mut Vec<f64>) -> Result<&'a [f64]> {
        let row = frame.positions(0);
        let [first, second] = &self.pairs.columns;
        let columns = [Points::picked(row, first)?, Points::picked(row, second)?];
        room.resize(self.pairs.len, 0.0);
        if self.minimum_image {
            distances(self.cpu, columns, &*frame.lattice()?, Results::Double(room))?;
        } else {
            distances(self.cpu, columns, &Lattice::open(), Results::Double(room))?;
        }
        if room.iter().sum::<f64>().is_finite() { Ok(room) } else { Err(frame.not_finite(Fields::POSITIONS, 0)) }
    }
}
