//! Atoms of a row that a transform tracks from frame to frame, and their places in its tables.

use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};

/// Atoms of a row that are in the tables of a transform.
#[derive(Debug)]
pub(super) struct Tracked {
    /// Their columns in the row, ascending.
    pub(super) columns: Vec<u32>,
    /// For each of them its place in the tables.
    pub(super) places: Vec<u32>,
}

impl Tracked {
    /// For rows of `atoms`, and tables of `known` atoms, ascending.
    /// Errors: `InvalidArgument` for atoms of another trajectory.
    pub(super) fn from_row(atoms: &AtomSelection, known: &AtomSelection) -> Result<Self> {
        let (expected, found) = (known.n_atoms(), atoms.n_atoms());
        if expected != found {
            let what = format!("the transform is of another number of atoms, expected {expected}, found {found}");
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let mut place_of = vec![u32::MAX; found as usize];
        for (place, atom) in known.iter().enumerate() {
            place_of[atom as usize] = place as u32;
        }
        let places = atoms.iter().enumerate().map(|(column, atom)| (column as u32, place_of[atom as usize]));
        let (columns, places) = places.filter(|(_, place)| *place != u32::MAX).unzip();
        Ok(Self { columns, places })
    }
}
