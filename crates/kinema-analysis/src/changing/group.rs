//! `ChangingGroup`: a group whose members are found in each frame.

use kinema_core::frame::lattice::Lattice;
use kinema_core::frame::{Cell, Fields, NO_CELL};
use kinema_core::reduce::{Frame, Needs};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};

use super::evaluation::{self, GroupScratch};
use super::expression::Expression;
use crate::arguments::{Argument, Arguments};

/// A group of atoms that changes with the frame.
#[derive(Debug, Clone)]
pub struct ChangingGroup {
    /// Over the atoms of `atoms`.
    expression: Expression,
    atoms: AtomSelection,
    candidates: AtomSelection,
    /// Places of the candidates in `atoms`.
    places: Vec<u32>,
    needs_cell: bool,
}

impl ChangingGroup {
    /// The group of an expression (nested lists, see `expression.rs`) over the atoms of a trajectory.
    ///
    /// # Errors
    /// `InvalidArgument` for what is not an expression, and for a group that has no atoms in any frame; `OutOfRange` for
    /// an atom that the trajectory does not have.
    pub fn new(given: &Argument, n_atoms: u32) -> Result<Self> {
        let expression = Expression::parse(given, n_atoms)?;
        let possible = expression.possible(n_atoms as usize);
        let mut seen = possible.clone();
        expression.look(&possible, &mut seen);
        let (candidates, atoms) = (chosen(&possible), chosen(&seen));
        if candidates.is_empty() {
            let what = "the group has no atoms in any frame, expected at least one that can be in it";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let expression = expression.at_places(&atoms, n_atoms as usize);
        let needs_cell = expression.needs_cell();
        let candidates = AtomSelection::from_sorted(candidates, n_atoms)?;
        let atoms = AtomSelection::from_sorted(atoms, n_atoms)?;
        let places = candidates.positions_in(&atoms)?.unwrap_or_else(|| (0..candidates.len() as u32).collect());
        Ok(Self { expression, atoms, candidates, places, needs_cell })
    }

    /// The group of an argument.
    ///
    /// # Errors
    /// As [`ChangingGroup::new`].
    pub fn from_arguments(arguments: &Arguments, name: &'static str) -> Result<Self> {
        Self::new(arguments.any(name), arguments.n_atoms())
    }

    /// The atoms whose positions a kernel must read: the candidates and those that decide which of them are members.
    pub fn atoms(&self) -> &AtomSelection {
        &self.atoms
    }

    /// The atoms that can be members.
    pub fn candidates(&self) -> &AtomSelection {
        &self.candidates
    }

    /// The needs of a kernel whose set `0` is [`ChangingGroup::atoms`].
    pub fn needs(&self) -> Needs {
        let cell = if self.needs_cell { Fields::CELL } else { Fields::NONE };
        Needs { fields: Fields::POSITIONS | cell, atom_sets: vec![self.atoms.clone()] }
    }

    /// One value for each atom of [`ChangingGroup::atoms`], of values for the candidates; `other` for those that cannot be
    /// members.
    pub fn by_place<T: Copy>(&self, of_candidates: &[T], other: T) -> Vec<T> {
        let mut values = vec![other; self.atoms.len()];
        for (&place, value) in self.places.iter().zip(of_candidates) {
            values[place as usize] = *value;
        }
        values
    }

    /// Places of the members among [`ChangingGroup::atoms`] in a frame, ascending; the frame's set `set` has these atoms.
    ///
    /// # Errors
    /// `Corrupt`, with the atom, for positions that are not finite; errors of the frame's cell; `InvalidArgument` for a
    /// cylinder that does not fit into the cell.
    pub fn members<'a>(&self, frame: &Frame<'_>, set: usize, scratch: &'a mut GroupScratch) -> Result<&'a [u32]> {
        let row = frame.finite_positions(set)?;
        if !self.needs_cell {
            return self.members_at(row, &Lattice::open(), &NO_CELL, scratch);
        }
        let mut cell = frame.stamp.cell;
        for (edge, periodic) in cell.iter_mut().zip(frame.stamp.periodic) {
            *edge = if periodic { *edge } else { [0.0; 3] };
        }
        self.members_at(row, &*frame.lattice()?, &cell, scratch)
    }

    /// The same for a row of positions, which are finite, and a lattice with the cell that it is of.
    ///
    /// # Errors
    /// As [`ChangingGroup::members`].
    pub fn members_at<'a>(
        &self,
        row: &[f32],
        lattice: &Lattice,
        cell: &Cell,
        scratch: &'a mut GroupScratch,
    ) -> Result<&'a [u32]> {
        evaluation::members(&self.expression, row.as_chunks::<3>().0, (lattice, cell), &self.places, scratch)
    }
}

fn chosen(mask: &[bool]) -> Vec<u32> {
    mask.iter().zip(0..).filter(|(chosen, _)| **chosen).map(|(_, atom)| atom).collect()
}
