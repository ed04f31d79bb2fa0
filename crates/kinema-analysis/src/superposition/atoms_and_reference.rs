//! An atom set with its reference coordinates and weights.

use kinema_core::Result;
use kinema_core::selection::AtomSelection;

use super::qcp::Reference;
use crate::arguments::Arguments;

/// Atoms with their reference structure.
#[derive(Debug, Clone)]
pub struct AtomsAndReference {
    atoms: AtomSelection,
    reference: Reference,
}

impl AtomsAndReference {
    /// Reads the arguments `atoms`, `reference`, (atoms, 3) in angstrom, and `weights` (for example masses), which are
    /// divided by their mean.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty set, an atom requested twice, a reference of another size or not finite, and
    /// useless weights.
    pub fn from_arguments(arguments: &Arguments) -> Result<Self> {
        let atoms = arguments.unique_atoms("atoms")?;
        let reference = arguments.vectors("reference")?;
        if reference.len() != atoms.n_requested() {
            return Err(arguments.wrong("reference", &format!("of {} atoms", atoms.n_requested())));
        }
        let coordinates = atoms.reorder_as_set(reference.as_flattened(), 3)?;
        let weights = if arguments.has("weights") { Some(arguments.weights("weights", &atoms)?) } else { None };
        let reference = Reference::with_build(arguments.cpu(), &coordinates, weights.as_deref())?;
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
