//! Keeps molecules together: each is moved to the image that is nearest to those that are in place already.
//!
//! The anchor stays. Then the molecule whose centre is nearest to one that is in place comes next, and so on, so that a
//! chain of molecules may be longer than the cell. Centres are taken of atoms where they stand.

use std::sync::Arc;

use kinema_core::frame::Fields;
use kinema_core::reduce::{AtomMap, FrameMut, Needs, Transform};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};

use super::TransformInfo;
use super::groups::{Groups, Labels};
use super::images::{CellOfFrame, Fault, PeriodicCell, dot, minus, shift};
use crate::weights::check_each;

/// `labels` of the molecules that stay together, `masses`, one for each atom, and `anchor`, an atom.
pub(super) const TRANSFORM: TransformInfo = TransformInfo {
    id: "cluster/1",
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
    /// By centres of mass where there are masses, one for each atom of the trajectory, else of geometry. The anchor is the
    /// molecule with an atom.
    ///
    /// # Errors
    /// `InvalidArgument` for an anchor that is in no molecule of these, and for masses as of [`super::wrap::Wrap`].
    pub fn new(labels: Labels, masses: Option<Vec<f64>>, anchor: u32) -> Result<Self> {
        if let Some(masses) = &masses {
            check_each(masses, labels.n_atoms() as usize)?;
        }
        let atoms: Vec<u32> = (0..labels.n_atoms()).filter(|&atom| labels.of(atom) != Groups::NONE).collect();
        if atoms.binary_search(&anchor).is_err() {
            let what = format!("atom {anchor} (counted from 0) is in none of the molecules that are to stay together");
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let atoms = AtomSelection::from_sorted(atoms, labels.n_atoms())?;
        Ok(Self { anchor: labels.of(anchor), labels, atoms, masses: masses.map(Into::into) })
    }
}

/// A molecule that is not in place yet, or is.
#[derive(Debug, Clone)]
struct Place {
    centre: [f64; 3],
    /// Edges to be added, for the nearest molecule in place so far.
    counts: [i64; 3],
    squared: f64,
    done: bool,
}

/// Molecules of rows that stay together.
#[derive(Debug, Clone)]
pub struct ClusterRow {
    groups: Groups,
    anchor: usize,
    places: Vec<Place>,
}

impl ClusterRow {
    /// Of groups, of which one is the anchor.
    pub fn new(groups: Groups, anchor: usize) -> Self {
        Self { groups, anchor, places: Vec::new() }
    }

    /// Moves the atoms of a row, `atoms x 3`, angstrom.
    ///
    /// # Errors
    /// [`Fault`]
    pub fn apply(&mut self, positions: &mut [f32], cell: &PeriodicCell) -> std::result::Result<(), Fault> {
        Fault::check_row(positions, self.groups.n_atoms())?;
        let rows = positions.as_chunks_mut::<3>().0;
        self.places.clear();
        for group in 0..self.groups.len() {
            let centre = self.groups.center(group, rows);
            if !centre.iter().all(|x| x.is_finite()) {
                return Err(Fault::not_finite(rows.as_flattened(), self.groups.atoms(group).iter().copied()));
            }
            self.places.push(Place { centre, counts: [0; 3], squared: f64::INFINITY, done: false });
        }
        let mut next = Some(self.anchor);
        while let Some(group) = next {
            let by = cell.sum(self.places[group].counts);
            self.places[group].done = true;
            for &atom in self.groups.atoms(group).iter().filter(|_| by != [0.0; 3]) {
                shift(&mut rows[atom as usize], by);
            }
            let centre = self.places[group].centre;
            let centre = [0, 1, 2].map(|x| centre[x] + by[x]);
            next = self.nearest_to(centre, cell)?;
        }
        Ok(())
    }

    /// With a molecule in place, which of the others is nearest to one of those; of several the first.
    fn nearest_to(&mut self, centre: [f64; 3], cell: &PeriodicCell) -> std::result::Result<Option<usize>, Fault> {
        let (mut nearest, mut least) = (None, f64::INFINITY);
        for (group, place) in self.places.iter_mut().enumerate().filter(|(_, place)| !place.done) {
            let displacement = minus(place.centre, centre);
            let counts = cell.to_nearest(displacement, self.groups.atoms(group)[0])?;
            let by = cell.sum(counts);
            let image = [0, 1, 2].map(|x| displacement[x] + by[x]);
            let squared = dot(image, image);
            if squared < place.squared {
                (place.squared, place.counts) = (squared, counts);
            }
            if place.squared < least {
                (nearest, least) = (Some(group), place.squared);
            }
        }
        Ok(nearest)
    }
}

/// What a worker has for its rows.
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
        let labels = self.labels.of_row(atoms);
        let masses: Option<Vec<f64>> =
            self.masses.as_ref().map(|masses| atoms.iter().map(|atom| masses[atom as usize]).collect());
        let groups = Groups::new(&labels, masses.as_deref())?;
        let anchor = (0..groups.len()).find(|&group| labels[groups.atoms(group)[0] as usize] == self.anchor);
        let anchor = anchor.ok_or_else(|| Error::new(ErrorKind::Internal, "the row lacks the anchor"))?;
        Ok(ClusterState { atoms: atoms.clone(), row: ClusterRow::new(groups, anchor), cell: CellOfFrame::default() })
    }

    fn apply(&self, frame: &mut FrameMut<'_>, state: &mut ClusterState) -> Result<()> {
        let cell = state.cell.of(frame.stamp)?;
        state.row.apply(frame.positions, cell).map_err(|fault| fault.of_atoms(&state.atoms))
    }
}
