//! Groups of atoms that move together: residues, molecules, or each atom alone; and their centres.

use kinema_core::{Error, ErrorKind, Result};

use super::images::Vector;
use crate::weights::check_each;

/// Groups of atoms that move together.
#[derive(Debug, Clone)]
pub struct Groups {
    n_atoms: usize,
    /// Where the atoms of each group begin, and the end of the last.
    starts: Vec<u32>,
    atoms: Vec<u32>,
    /// Of each atom, divided by the sum of its group.
    weights: Vec<f64>,
}

impl Groups {
    /// The label of atoms without a group.
    pub const NONE: u32 = u32::MAX;

    /// Of a number for each atom (of its residue, or the first atom of its molecule): atoms with the same are a group, those with
    /// [`Groups::NONE`] are in none. Weights
    /// are masses, for centres of mass; without them, and in groups where all are zero, centres are of geometry.
    ///
    /// # Errors
    /// `InvalidArgument` for weights of another number, negative or not finite.
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

    /// One group of these atoms, in their order, of rows of `n_atoms`; weights as of [`Groups::new`], one for each of them.
    ///
    /// # Errors
    /// `InvalidArgument` as [`Groups::new`] and for no atoms, `OutOfRange` for an atom that is not there.
    pub fn of(atoms: &[u32], weights: Option<&[f64]>, n_atoms: usize) -> Result<Self> {
        if let Some(weights) = weights {
            check_each(weights, atoms.len())?;
        }
        if let Some(atom) = atoms.iter().find(|&&atom| atom as usize >= n_atoms) {
            let what = format!("a group has atom {atom} (counted from 0), expected below {n_atoms}");
            return Err(Error::new(ErrorKind::OutOfRange, what));
        }
        if atoms.is_empty() {
            return Err(Error::new(ErrorKind::InvalidArgument, "a group has no atoms, expected at least one"));
        }
        let starts = vec![0, atoms.len() as u32];
        Ok(Self { n_atoms, starts, atoms: atoms.to_vec(), weights: Vec::new() }.weighted(weights))
    }

    /// With weights, one for each of `atoms`, divided by the sum of its group.
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

    /// Whether there are none.
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

    /// The centre of a group, where its atoms stand.
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
