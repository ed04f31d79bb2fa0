//! Groups of atoms that move together: residues, molecules, or each atom alone; and their centres.

use std::sync::Arc;

use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};

use super::images::Vector;
use crate::arguments::Arguments;
use crate::weights::check_each;

/// For each atom of a trajectory, the group that it moves with: its residue, or the first atom of its molecule;
/// [`Groups::NONE`] for atoms that do not move.
#[derive(Debug, Clone)]
pub struct Labels(Arc<[u32]>);

impl Labels {
    /// One label for each atom, below the number of atoms, or [`Groups::NONE`].
    ///
    /// # Errors
    /// `OutOfRange` for other labels.
    pub fn new(labels: Vec<u32>) -> Result<Self> {
        let n_atoms = labels.len();
        match labels.iter().find(|&&label| label as usize >= n_atoms && label != Groups::NONE) {
            Some(label) => {
                Err(Error::new(ErrorKind::OutOfRange, format!("there is no group {label}, expected below {n_atoms}")))
            }
            None => Ok(Self(labels.into())),
        }
    }

    /// Reads the argument `labels`.
    /// Errors as [`Labels::new`]; `InvalidArgument` if there is not one label for each atom.
    pub(super) fn from_arguments(arguments: &Arguments) -> Result<Self> {
        let labels = arguments.index_rows::<1>("labels")?.as_flattened().to_vec();
        if labels.len() != arguments.n_atoms() as usize {
            return Err(arguments.wrong("labels", "one number for each atom"));
        }
        Self::new(labels)
    }

    /// Number of atoms.
    pub fn n_atoms(&self) -> u32 {
        self.0.len() as u32
    }

    /// Label of an atom.
    pub fn get(&self, atom: u32) -> u32 {
        self.0[atom as usize]
    }

    /// Labels of the atoms of a row.
    pub fn row_labels(&self, atoms: &AtomSelection) -> Vec<u32> {
        atoms.iter().map(|atom| self.get(atom)).collect()
    }

    /// The same with groups in which no atom is chosen as no groups.
    #[must_use]
    pub fn with_some_of(&self, chosen: &AtomSelection) -> Self {
        let there = self.there(chosen);
        Self(self.0.iter().map(|&label| if there[slot(label)] { label } else { Groups::NONE }).collect())
    }

    /// All atoms of the groups of `users`; `None` if these are all atoms of the trajectory.
    ///
    /// # Errors
    /// `InvalidArgument` for atoms of another trajectory.
    pub fn together_with(&self, users: &AtomSelection) -> Result<Option<AtomSelection>> {
        let (expected, found) = (self.n_atoms(), users.n_atoms());
        if expected != found {
            let what = format!(
                "the selection is of another number of atoms than the transform, expected {expected}, found {found}"
            );
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        if users.len() == self.0.len() {
            return Ok(None);
        }
        let there = self.there(users);
        let atoms = (0..expected).filter(|&atom| there[slot(self.get(atom))]).collect();
        AtomSelection::from_sorted(atoms, expected).map(Some)
    }

    /// Whether an atom of each group is chosen; the first place is for no group.
    fn there(&self, chosen: &AtomSelection) -> Vec<bool> {
        let mut there = vec![false; self.0.len() + 1];
        chosen.iter().for_each(|atom| there[slot(self.get(atom))] = true);
        there[slot(Groups::NONE)] = false;
        there
    }
}

/// The place of a label; the first place is for no group.
fn slot(label: u32) -> usize {
    label.wrapping_add(1) as usize
}

/// Groups of atoms that move together.
#[derive(Debug, Clone)]
pub struct Groups {
    n_atoms: usize,
    /// Index of the first atom of each group, followed by the number of all atoms.
    starts: Vec<u32>,
    atoms: Vec<u32>,
    /// Weight of each atom, divided by the sum of its group.
    weights: Vec<f64>,
}

impl Groups {
    /// The label of atoms without a group.
    pub const NONE: u32 = u32::MAX;

    /// Groups by a number for each atom (of its residue, or the first atom of its molecule): atoms with the same number
    /// are a group, atoms with [`Groups::NONE`] are in none. Weights are masses, for centres of mass; without them, and
    /// in groups whose weights are all zero, centres are of geometry.
    ///
    /// # Errors
    /// `InvalidArgument` for a wrong number of weights, and for weights that are negative or not finite.
    pub fn new(labels: &[u32], weights: Option<&[f64]>) -> Result<Self> {
        if let Some(weights) = weights {
            check_each(weights, labels.len())?;
        }
        let mut atoms: Vec<u32> = (0..labels.len() as u32).collect();
        atoms.retain(|&atom| labels[atom as usize] != Self::NONE);
        atoms.sort_by_key(|&atom| labels[atom as usize]);
        let mut starts: Vec<u32> = Vec::new();
        let mut last = None;
        for (at, &atom) in atoms.iter().enumerate() {
            if last != Some(labels[atom as usize]) {
                starts.push(at as u32);
            }
            last = Some(labels[atom as usize]);
        }
        starts.push(atoms.len() as u32);
        let weights = weights.map(|weights| atoms.iter().map(|&atom| weights[atom as usize]).collect::<Vec<_>>());
        Ok(Self { n_atoms: labels.len(), starts, atoms, weights: Vec::new() }.weighted(weights.as_deref()))
    }

    /// Sets weights, one for each of `atoms`, divided by the sum of its group.
    fn weighted(mut self, weights: Option<&[f64]>) -> Self {
        for ends in self.starts.windows(2) {
            let range = ends[0] as usize..ends[1] as usize;
            let alone = 1.0 / range.len() as f64;
            let total: f64 = weights.map_or(0.0, |weights| weights[range.clone()].iter().sum());
            let share = |at: usize| weights.filter(|_| total > 0.0).map_or(alone, |weights| weights[at] / total);
            self.weights.extend(range.map(share));
        }
        self
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether each is one atom.
    pub fn are_of_one(&self) -> bool {
        self.len() == self.atoms.len()
    }

    /// Whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Atoms of the rows.
    pub fn n_atoms(&self) -> usize {
        self.n_atoms
    }

    /// The atoms of a group.
    pub fn atoms(&self, group: usize) -> &[u32] {
        &self.atoms[self.starts[group] as usize..self.starts[group + 1] as usize]
    }

    pub(super) fn weights(&self, group: usize) -> &[f64] {
        &self.weights[self.starts[group] as usize..self.starts[group + 1] as usize]
    }

    /// The centre of a group, from positions as they are.
    pub fn center(&self, group: usize, positions: &[[f32; 3]]) -> Vector {
        let atoms = self.atoms(group);
        let origin = atoms.first().map_or([0.0; 3], |&first| positions[first as usize].map(f64::from));
        let mut sum = [0.0; 3];
        for (&atom, weight) in atoms.iter().zip(self.weights(group)) {
            for (x, sum) in sum.iter_mut().enumerate() {
                *sum += weight * (f64::from(positions[atom as usize][x]) - origin[x]);
            }
        }
        [0, 1, 2].map(|x| origin[x] + sum[x])
    }
}
