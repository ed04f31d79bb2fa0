//! Keeps molecules together: moves each to the image that is nearest to one of the others, along the shortest tree.
//!
//! The anchor stays. The molecule whose centre is nearest to a placed molecule comes next, and so on, so that a chain
//! of molecules may be longer than the cell. The pairs of neighbouring molecules do not depend on the anchor: they are
//! the edges of the shortest tree that joins the centres, and are found without examining all pairs. Centres are
//! computed from positions as they are.

use std::sync::Arc;

use kinema_core::frame::Fields;
use kinema_core::reduce::{AtomMap, FrameMut, Needs, Transform};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};

use super::TransformInfo;
use super::groups::{Groups, Labels};
use super::images::{CellOfFrame, Fault, PeriodicCell, Vector, shift};
use super::shortest_tree::shortest_tree;
use crate::weights::check_each;

/// `labels` of the molecules that stay together, `masses`, one for each atom, and `anchor`, an atom.
pub(super) const TRANSFORM: TransformInfo = TransformInfo {
    id: "cluster/2",
    make: |arguments| {
        let masses = arguments.optional_numbers("masses")?.map(<[f64]>::to_vec);
        let anchor = u32::try_from(arguments.count("anchor", 0)?).unwrap_or(u32::MAX);
        Ok(Arc::new(Cluster::new(Labels::from_arguments(arguments)?, masses, anchor)?))
    },
};

/// Keeps the molecules of a trajectory together that have labels.
#[derive(Debug, Clone)]
pub struct Cluster {
    labels: Labels,
    atoms: AtomSelection,
    anchor: u32,
    masses: Option<Arc<[f64]>>,
}

impl Cluster {
    /// Uses centres of mass if there are masses, one for each atom of the trajectory, otherwise centres of geometry.
    /// The anchor is the molecule with the atom `anchor`.
    ///
    /// # Errors
    /// `InvalidArgument` for an anchor that is in none of these molecules, and for masses as in [`super::wrap::Wrap`].
    pub fn new(labels: Labels, masses: Option<Vec<f64>>, anchor: u32) -> Result<Self> {
        if let Some(masses) = &masses {
            check_each(masses, labels.n_atoms() as usize)?;
        }
        let atoms: Vec<u32> = (0..labels.n_atoms()).filter(|&atom| labels.get(atom) != Groups::NONE).collect();
        if atoms.binary_search(&anchor).is_err() {
            let number = u64::from(anchor) + 1;
            let what = format!("atom {number} (counted from 1) is in none of the molecules that are to stay together");
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let atoms = AtomSelection::from_sorted(atoms, labels.n_atoms())?;
        Ok(Self { anchor: labels.get(anchor), labels, atoms, masses: masses.map(Into::into) })
    }
}

/// Molecules of rows that stay together.
#[derive(Debug, Clone)]
pub struct ClusterRow {
    groups: Groups,
    anchor: usize,
    centres: Vec<Vector>,
}

impl ClusterRow {
    /// Clusters groups, one of which is the anchor.
    pub fn new(groups: Groups, anchor: usize) -> Self {
        Self { groups, anchor, centres: Vec::new() }
    }

    /// Moves the atoms of a row, `atoms x 3`, angstrom.
    ///
    /// # Errors
    /// [`Fault`]
    pub fn apply(&mut self, positions: &mut [f32], cell: &PeriodicCell) -> std::result::Result<(), Fault> {
        Fault::check_row(positions, self.groups.n_atoms())?;
        let rows = positions.as_chunks_mut::<3>().0;
        self.centres.clear();
        for group in 0..self.groups.len() {
            let centre = self.groups.center(group, rows);
            if !centre.iter().all(|x| x.is_finite()) {
                return Err(Fault::not_finite(rows.as_flattened(), self.groups.atoms(group).iter().copied()));
            }
            self.centres.push(centre);
        }
        for (group, counts) in self.counts(cell)?.into_iter().enumerate().filter(|(_, counts)| *counts != [0; 3]) {
            let by = cell.sum(counts);
            self.groups.atoms(group).iter().for_each(|&atom| shift(&mut rows[atom as usize], by));
        }
        Ok(())
    }

    /// How many of each edge are added to each group.
    fn counts(&self, cell: &PeriodicCell) -> std::result::Result<Vec<[i64; 3]>, Fault> {
        let edges = shortest_tree(&self.centres, cell).map_err(|fault| match fault {
            Fault::TooFar(group) => Fault::TooFar(self.groups.atoms(group as usize)[0]),
            other => other,
        })?;
        let n = self.centres.len();
        // the edges of each group
        let mut starts = vec![0; n + 1];
        edges.iter().flat_map(|edge| edge.points).for_each(|point| starts[point as usize + 1] += 1);
        for i in 0..n {
            starts[i + 1] += starts[i];
        }
        let (mut next, mut of_group) = (starts.clone(), vec![0; 2 * edges.len()]);
        for (number, edge) in edges.iter().enumerate() {
            for point in edge.points {
                of_group[next[point as usize]] = number;
                next[point as usize] += 1;
            }
        }
        let mut counts: Vec<Option<[i64; 3]>> = vec![None; n];
        counts[self.anchor] = Some([0; 3]);
        let mut waiting = vec![self.anchor];
        while let Some(group) = waiting.pop() {
            let of_this = counts[group].unwrap_or_default();
            for &number in &of_group[starts[group]..starts[group + 1]] {
                let edge = &edges[number];
                let [first, second] = edge.points.map(|point| point as usize);
                let (other, sign) = if first == group { (second, 1) } else { (first, -1) };
                if counts[other].is_none() {
                    counts[other] = Some([0, 1, 2].map(|i| of_this[i] + sign * edge.counts[i]));
                    waiting.push(other);
                }
            }
        }
        Ok(counts.into_iter().map(Option::unwrap_or_default).collect())
    }
}

/// Buffers of one worker.
#[derive(Debug)]
pub struct ClusterState {
    atoms: AtomSelection,
    row: ClusterRow,
    cell: CellOfFrame,
}

impl Transform for Cluster {
    type State = ClusterState;

    fn id(&self) -> &'static str {
        TRANSFORM.id
    }

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS | Fields::CELL, atom_sets: vec![self.atoms.clone()] }
    }

    fn state(&self, atoms: &AtomSelection, _: &[AtomMap]) -> Result<ClusterState> {
        let labels = self.labels.row_labels(atoms);
        let masses: Option<Vec<f64>> =
            self.masses.as_ref().map(|masses| atoms.iter().map(|atom| masses[atom as usize]).collect());
        let groups = Groups::new(&labels, masses.as_deref())?;
        let anchor = (0..groups.len()).find(|&group| labels[groups.atoms(group)[0] as usize] == self.anchor);
        let anchor = anchor.ok_or_else(|| Error::new(ErrorKind::Internal, "the row lacks the anchor"))?;
        Ok(ClusterState { atoms: atoms.clone(), row: ClusterRow::new(groups, anchor), cell: CellOfFrame::default() })
    }

    fn apply(&self, frame: &mut FrameMut<'_>, state: &mut ClusterState) -> Result<()> {
        let cell = state.cell.get(frame.stamp)?;
        state.row.apply(frame.positions, cell).map_err(|fault| fault.into_atom_error(&state.atoms))
    }
}
