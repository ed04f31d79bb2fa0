//! Molecules: atoms held together by bonds, as trees that are walked from the first atom of each, a parent before its
//! children.
//!
//! It knows bonds and no positions. A tree has all atoms of a molecule; bonds that close rings are kept beside it, as
//! they show whether a molecule is bonded to its own image.

use std::ops::Range;

use kinema_core::{Error, ErrorKind, Result};

use crate::geometry::Column;

/// One molecule of two atoms or more: the ranges of its bonds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Molecule {
    /// Bonds of its tree.
    pub(super) tree: Range<usize>,
    /// Bonds that close rings.
    pub(super) closing: Range<usize>,
}

/// All molecules of a set of atoms.
#[derive(Debug, Clone)]
pub struct Molecules {
    n_atoms: usize,
    /// For each bond, the atom farther from the first atom of the molecule, and the nearer one.
    children: Vec<u32>,
    parents: Vec<u32>,
    molecules: Vec<Molecule>,
    columns: [Column; 2],
}

impl Molecules {
    /// Molecules of atoms counted from 0 below `n_atoms`. Bonds may be given in any order and more than once.
    ///
    /// # Errors
    /// `OutOfRange` for a bond to an atom that does not exist, `InvalidArgument` for a bond of an atom to itself.
    pub fn new(n_atoms: usize, bonds: &[[u32; 2]]) -> Result<Self> {
        let neighbours = Neighbours::new(n_atoms, bonds)?;
        let (children, parents, molecules) = (Vec::new(), Vec::new(), Vec::new());
        let mut made = Walk { children, parents, molecules, parent_of: vec![Walk::NOT_REACHED; n_atoms] };
        for first in 0..n_atoms as u32 {
            if made.parent_of[first as usize] == Walk::NOT_REACHED && !neighbours.get(first).is_empty() {
                made.walk(first, &neighbours);
            }
        }
        Ok(Self::from_bonds(n_atoms, made.children, made.parents, made.molecules))
    }

    fn from_bonds(n_atoms: usize, children: Vec<u32>, parents: Vec<u32>, molecules: Vec<Molecule>) -> Self {
        let columns = [Column::new(children.clone()), Column::new(parents.clone())];
        Self { n_atoms, children, parents, molecules, columns }
    }

    /// Number of atoms of the set.
    pub fn n_atoms(&self) -> usize {
        self.n_atoms
    }

    /// Number of bonds.
    pub fn n_bonds(&self) -> usize {
        self.children.len()
    }

    /// For each atom, the first atom of its molecule; an atom without bonds is its own first atom.
    pub fn first_atoms(&self) -> Vec<u32> {
        let mut first: Vec<u32> = (0..self.n_atoms as u32).collect();
        for molecule in &self.molecules {
            for bond in molecule.tree.clone() {
                let (child, parent) = self.bond(bond);
                first[child as usize] = first[parent as usize];
            }
        }
        first
    }

    /// The molecules of two atoms or more, in the order of their bonds.
    pub(super) fn molecules(&self) -> &[Molecule] {
        &self.molecules
    }

    /// Child and parent of each bond, as columns.
    pub(super) fn columns(&self) -> &[Column; 2] {
        &self.columns
    }

    /// Child and parent.
    #[inline(always)]
    pub(super) fn bond(&self, bond: usize) -> (u32, u32) {
        (self.children[bond], self.parents[bond])
    }
}

/// The atoms that each atom is bonded to.
struct Neighbours {
    starts: Vec<usize>,
    atoms: Vec<u32>,
}

impl Neighbours {
    fn new(n_atoms: usize, bonds: &[[u32; 2]]) -> Result<Self> {
        let mut starts = vec![0; n_atoms + 1];
        for bond in bonds {
            if let Some(&atom) = bond.iter().find(|&&atom| atom as usize >= n_atoms) {
                let number = u64::from(atom) + 1;
                let what = format!("a bond names atom {number} (counted from 1), expected {n_atoms} at most");
                return Err(Error::new(ErrorKind::OutOfRange, what));
            }
            if bond[0] == bond[1] {
                let what = format!("atom {} (counted from 1) has a bond to itself", u64::from(bond[0]) + 1);
                return Err(Error::new(ErrorKind::InvalidArgument, what));
            }
            bond.iter().for_each(|&atom| starts[atom as usize + 1] += 1);
        }
        for i in 0..n_atoms {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut atoms = vec![0; 2 * bonds.len()];
        for &[a, b] in bonds {
            for (from, to) in [(a, b), (b, a)] {
                atoms[next[from as usize]] = to;
                next[from as usize] += 1;
            }
        }
        // the order of the walk, and with it the last bits of moved atoms, does not depend on the order of the bonds
        for i in 0..n_atoms {
            atoms[starts[i]..starts[i + 1]].sort_unstable();
        }
        Ok(Self { starts, atoms })
    }

    fn get(&self, atom: u32) -> &[u32] {
        &self.atoms[self.starts[atom as usize]..self.starts[atom as usize + 1]]
    }
}

/// The trees that were walked so far.
struct Walk {
    children: Vec<u32>,
    parents: Vec<u32>,
    molecules: Vec<Molecule>,
    /// Parent of each atom that was reached.
    parent_of: Vec<u32>,
}

impl Walk {
    const NOT_REACHED: u32 = u32::MAX;

    /// Breadth first from an atom.
    fn walk(&mut self, first: u32, neighbours: &Neighbours) {
        let start = self.children.len();
        let mut closing = Vec::new();
        self.parent_of[first as usize] = first;
        let (mut parent, mut next) = (first, start);
        loop {
            for &atom in neighbours.get(parent) {
                let of_atom = self.parent_of[atom as usize];
                if of_atom == Self::NOT_REACHED {
                    self.parent_of[atom as usize] = parent;
                    self.children.push(atom);
                    self.parents.push(parent);
                } else if of_atom != parent && self.parent_of[parent as usize] != atom && atom < parent {
                    // seen from its other end, too
                    closing.push((parent, atom));
                }
            }
            // the children are also the atoms whose own are still to be found
            let Some(&after) = self.children.get(next) else { break };
            (parent, next) = (after, next + 1);
        }
        let end = self.children.len();
        closing.dedup();
        for (atom, other) in closing {
            self.children.push(atom);
            self.parents.push(other);
        }
        self.molecules.push(Molecule { tree: start..end, closing: end..self.children.len() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_come_before_their_children_and_rings_are_closed_once() {
        // a ring of four with a tail, bonds given twice and in any order; an atom alone; a pair
        let bonds = [[3, 0], [1, 0], [0, 1], [2, 1], [3, 2], [4, 2], [2, 4], [7, 6]];
        let found = Molecules::new(8, &bonds).unwrap();
        assert_eq!(found.molecules.len(), 2);
        let ring = &found.molecules[0];
        let pairs = |range: &Range<usize>| range.clone().map(|bond| found.bond(bond)).collect::<Vec<_>>();
        assert_eq!(pairs(&ring.tree), [(1, 0), (3, 0), (2, 1), (4, 2)]);
        assert_eq!(pairs(&ring.closing), [(3, 2)]);
        assert_eq!(pairs(&found.molecules[1].tree), [(7, 6)]);
        assert_eq!(found.first_atoms(), [0, 0, 0, 0, 0, 5, 6, 6]);
        let mut reversed = bonds;
        reversed.reverse();
        assert_eq!(Molecules::new(8, &reversed).unwrap().children, found.children);
    }

    #[test]
    fn bonds_that_are_none_are_refused() {
        let refused = |bond: [u32; 2], kind: ErrorKind, what: &str| {
            let error = Molecules::new(3, &[[0, 1], bond]).unwrap_err();
            assert_eq!((error.kind(), error.to_string()), (kind, what.to_owned()), "{bond:?}");
        };
        let beyond = |number: u64| format!("a bond names atom {number} (counted from 1), expected 3 at most");
        refused([0, 3], ErrorKind::OutOfRange, &beyond(4));
        refused([u32::MAX, 1], ErrorKind::OutOfRange, &beyond(4_294_967_296));
        refused([0, 0], ErrorKind::InvalidArgument, "atom 1 (counted from 1) has a bond to itself");
        refused([2, 2], ErrorKind::InvalidArgument, "atom 3 (counted from 1) has a bond to itself");
    }
}
