//! Makes molecules whole: each atom becomes the image nearest to the atom it hangs on, from the first atom of its
//! molecule on.
//!
//! The first atom stays in its place, as with MDAnalysis' `unwrap` and `gmx trjconv -pbc whole`. Atoms move only by
//! whole edges of the cell, so a molecule that is whole keeps its bits. Molecules are examined bond by bond, four at
//! once; only molecules with a bond longer than half of the shortest lattice vector are walked.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::{AtomMap, FrameMut, Needs, Transform};
use kinema_core::selection::AtomSelection;

use super::TransformInfo;
use super::groups::{Groups, Labels};
use super::images::{CellOfFrame, Fault, PeriodicCell, displacement_between, shift};
use super::molecules::{Molecule, Molecules};
use crate::cpu::{Cpu, dispatch};
use crate::geometry::Points;
use crate::geometry::vectors::{difference, dot as dot4};
use crate::lanes::Quad;

/// `bonds`: pairs of atoms; `atoms`: molecules with one of these atoms are made whole.
pub(super) const TRANSFORM: TransformInfo = TransformInfo {
    id: "whole/1",
    make: |arguments| {
        let atoms = if arguments.has("atoms") { Some(arguments.atoms("atoms")?) } else { None };
        let bonds = arguments.index_rows("bonds")?.to_vec();
        Ok(Arc::new(Whole::new(arguments.n_atoms(), bonds, atoms.as_ref())?))
    },
};

/// Makes the molecules of a trajectory whole: all, or those that have one of some atoms.
#[derive(Debug, Clone)]
pub struct Whole {
    bonds: Arc<[[u32; 2]]>,
    /// The molecules that are made whole.
    labels: Labels,
}

impl Whole {
    /// For a trajectory of `n_atoms`, by its bonds.
    ///
    /// # Errors
    /// As [`Molecules::new`]; `InvalidArgument` for atoms of another trajectory.
    pub fn new(n_atoms: u32, bonds: Vec<[u32; 2]>, atoms: Option<&AtomSelection>) -> Result<Self> {
        let mut labels = Labels::new(Molecules::new(n_atoms as usize, &bonds)?.first_atoms())?;
        if let Some(atoms) = atoms {
            labels.together_with(atoms)?;
            labels = labels.with_some_of(atoms);
        }
        Ok(Self { bonds: bonds.into(), labels })
    }
}

/// Buffers of one worker.
#[derive(Debug)]
pub struct WholeState {
    atoms: AtomSelection,
    row: WholeRow,
    cell: CellOfFrame,
    scratch: WholeScratch,
}

impl Transform for Whole {
    type State = WholeState;

    fn id(&self) -> &'static str {
        TRANSFORM.id
    }

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS | Fields::CELL, atom_sets: Vec::new() }
    }

    fn required_atoms(&self, users: &AtomSelection) -> Result<Option<AtomSelection>> {
        self.labels.together_with(users)
    }

    fn state(&self, atoms: &AtomSelection, _: &[AtomMap]) -> Result<WholeState> {
        let mut columns = vec![Groups::NONE; self.labels.n_atoms() as usize];
        for (column, atom) in atoms.iter().enumerate().filter(|(_, atom)| self.labels.get(*atom) != Groups::NONE) {
            columns[atom as usize] = column as u32;
        }
        let in_row = self.bonds.iter().map(|bond| bond.map(|atom| columns[atom as usize]));
        let bonds: Vec<[u32; 2]> = in_row.filter(|bond| !bond.contains(&Groups::NONE)).collect();
        let row = WholeRow::new(Cpu::detect(), Molecules::new(atoms.len(), &bonds)?);
        Ok(WholeState { atoms: atoms.clone(), row, cell: CellOfFrame::default(), scratch: WholeScratch::default() })
    }

    fn apply(&self, frame: &mut FrameMut<'_>, state: &mut WholeState) -> Result<()> {
        let cell = state.cell.get(frame.stamp)?;
        let done = state.row.apply(frame.positions, cell, &mut state.scratch);
        done.map(|_| ()).map_err(|fault| fault.into_atom_error(&state.atoms))
    }
}

/// Buffers that one worker reuses from frame to frame.
#[derive(Debug, Default, Clone)]
pub struct WholeScratch {
    /// First bonds of groups of four with a long one.
    long: Vec<usize>,
    /// Whole edges that each atom of the walked molecule is moved by.
    counts: Vec<[i64; 3]>,
}

/// Makes the molecules of rows whole.
#[derive(Debug, Clone)]
pub struct WholeRow {
    cpu: Cpu,
    molecules: Molecules,
}

impl WholeRow {
    /// All molecules of some atoms.
    pub fn new(cpu: Cpu, molecules: Molecules) -> Self {
        Self { cpu, molecules }
    }

    /// The molecules.
    pub fn molecules(&self) -> &Molecules {
        &self.molecules
    }

    /// Moves the atoms of a row, `atoms x 3`, angstrom; returns the number of molecules that were not whole.
    ///
    /// # Errors
    /// [`Fault`]
    pub fn apply(
        &self,
        positions: &mut [f32],
        cell: &PeriodicCell,
        scratch: &mut WholeScratch,
    ) -> std::result::Result<usize, Fault> {
        let WholeScratch { long, counts } = scratch;
        self.find_long(positions, cell, long)?;
        let rows = positions.as_chunks_mut::<3>().0;
        let molecules = self.molecules.molecules();
        counts.resize(rows.len(), [0; 3]);
        // of the next molecule; both are in the order of the bonds
        let (mut at, mut broken) = (0, 0);
        for &group in long.iter() {
            at += molecules[at..].partition_point(|molecule| molecule.closing.end <= group);
            while let Some(molecule) = molecules.get(at).filter(|molecule| molecule.tree.start < group + 4) {
                broken += usize::from(self.mend(molecule, rows, cell, counts)?);
                at += 1;
            }
        }
        Ok(broken)
    }

    /// Number of molecules in a row that are not whole. Nothing is moved.
    ///
    /// # Errors
    /// As [`WholeRow::apply`].
    pub fn count_broken(
        &self,
        positions: &[f32],
        cell: &PeriodicCell,
        scratch: &mut WholeScratch,
    ) -> std::result::Result<usize, Fault> {
        let WholeScratch { long, .. } = scratch;
        self.find_long(positions, cell, long)?;
        let rows = positions.as_chunks::<3>().0;
        let mut broken = 0;
        let mut last = usize::MAX;
        for bond in long.iter().flat_map(|&group| group..(group + 4).min(self.molecules.n_bonds())) {
            let (child, parent) = self.molecules.bond(bond);
            let molecule = self.molecules.molecules().partition_point(|molecule| molecule.closing.end <= bond);
            if molecule != last && cell.to_nearest(displacement_between(rows, parent, child), child)? != [0; 3] {
                (broken, last) = (broken + 1, molecule);
            }
        }
        Ok(broken)
    }

    fn find_long(
        &self,
        positions: &[f32],
        cell: &PeriodicCell,
        long: &mut Vec<usize>,
    ) -> std::result::Result<(), Fault> {
        Fault::check_row(positions, self.molecules.n_atoms())?;
        let row = |_| Fault::Row { expected: self.molecules.n_atoms(), found: positions.len() / 3 };
        let [children, parents] = self.molecules.columns();
        let children = Points::picked(positions, children).map_err(row)?;
        let parents = Points::picked(positions, parents).map_err(row)?;
        long.clear();
        let sum = dispatch!(
            self.cpu,
            f64,
            long_bonds,
            (
                children: Points<'_> = children,
                parents: Points<'_> = parents,
                sure: f64 = cell.lattice().sure(),
                long: &mut Vec<usize> = long,
            )
        );
        let bonded = |bond: usize| [self.molecules.bond(bond).1, self.molecules.bond(bond).0];
        let finite = sum.is_finite();
        if finite { Ok(()) } else { Err(Fault::not_finite(positions, (0..self.molecules.n_bonds()).flat_map(bonded))) }
    }

    /// Walks a molecule. Gives whether an atom was moved.
    fn mend(
        &self,
        molecule: &Molecule,
        positions: &mut [[f32; 3]],
        cell: &PeriodicCell,
        counts: &mut [[i64; 3]],
    ) -> std::result::Result<bool, Fault> {
        let first = self.molecules.bond(molecule.tree.start).1;
        counts[first as usize] = [0; 3];
        let mut moved = false;
        for bond in molecule.tree.clone() {
            let (child, parent) = self.molecules.bond(bond);
            let more = cell.to_nearest(displacement_between(positions, parent, child), child)?;
            let of_parent = counts[parent as usize];
            let sum = [0, 1, 2].map(|i| of_parent[i] + more[i]);
            counts[child as usize] = sum;
            moved |= sum != [0; 3];
        }
        for bond in molecule.tree.clone().filter(|_| moved) {
            let child = self.molecules.bond(bond).0;
            if counts[child as usize] != [0; 3] {
                shift(&mut positions[child as usize], cell.sum(counts[child as usize]));
            }
        }
        for bond in molecule.closing.clone() {
            let (atom, other) = self.molecules.bond(bond);
            if cell.to_nearest(displacement_between(positions, other, atom), atom)? != [0; 3] {
                return Err(Fault::OwnImage(first, [other, atom]));
            }
        }
        Ok(moved)
    }
}

/// Finds the groups of four bonds in which one may not be its own nearest image. Returns the sum of all squared
/// lengths.
#[inline(always)]
fn long_bonds<Q: Quad>(children: Points<'_>, parents: Points<'_>, sure: f64, long: &mut Vec<usize>) -> f64 {
    let all_sure = Q::all(sure);
    let mut sum = Q::all(0.0);
    let mut at = 0;
    while at < children.len() {
        let bond = difference(children.four::<Q>(at), parents.four::<Q>(at));
        let squared = dot4(bond, bond);
        sum = sum.add(squared);
        if Q::any(all_sure.less(squared)) {
            long.push(at);
        }
        at += 4;
    }
    let [a, b, c, d] = sum.store();
    (a + b) + (c + d)
}
