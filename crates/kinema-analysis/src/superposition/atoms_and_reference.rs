//! An atom set with its reference coordinates and weights.

use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};

use super::qcp::Reference;
use crate::blocks;

/// Atoms with their reference structure.
#[derive(Debug, Clone)]
pub struct AtomsAndReference {
    atoms: AtomSelection,
    reference: Reference,
}

impl AtomsAndReference {
    /// `coordinates` is row-major `atoms x 3`, angstrom, in the requested order of `atoms`; weights (for example masses) are one
    /// an atom and are divided by their mean.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty set, an atom requested twice, a reference of another size or not finite, and useless weights.
    pub fn new(atoms: AtomSelection, coordinates: &[f64], weights: Option<&[f64]>) -> Result<Self> {
        blocks::check_set(&atoms, "atom set")?;
        if Some(coordinates.len()) != atoms.n_requested().checked_mul(3) {
            let (expected, found) = (atoms.n_requested(), coordinates.len());
            let what = format!("wrong size of the reference, expected {expected} atoms x 3, found {found} values");
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let coordinates = atoms.in_set_order(coordinates, 3)?;
        let weights = weights.map(|weights| atoms.in_set_order(weights, 1)).transpose()?;
        let reference = Reference::new(&coordinates, weights.as_deref())?;
        Ok(Self { atoms, reference })
    }

    /// The atoms.
    pub fn atoms(&self) -> &AtomSelection {
        &self.atoms
    }

    /// The reference.
    pub fn reference(&self) -> &Reference {
        &self.reference
    }
}
