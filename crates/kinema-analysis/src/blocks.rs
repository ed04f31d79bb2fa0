//! Checks that a block and its atom maps are what a kernel asked for, and names the place of values that are not finite.
//!
//! It computes nothing; kernels call it once for each block.

use kinema_core::frame::BlockView;
use kinema_core::reduce::AtomMap;
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};

use crate::superposition::qcp::first_not_finite;

fn internal(id: &str, what: &str, expected: usize, found: usize) -> Error {
    Error::new(ErrorKind::Internal, format!("{id}: wrong {what}, expected {expected}, found {found}"))
}

/// Checks the sizes of a block and that there is a map for each atom set.
///
/// # Errors
/// `Internal`: the caller has not kept to the kernel's needs.
pub(crate) fn check(id: &str, block: &BlockView<'_>, maps: &[AtomMap], sets: &[&AtomSelection]) -> Result<()> {
    let size = block.rows().saturating_mul(block.n_selected).saturating_mul(3);
    if block.positions.len() != size {
        return Err(internal(id, "number of coordinates in the block", size, block.positions.len()));
    }
    if block.stamps.len() != block.rows() {
        return Err(internal(id, "number of times in the block", block.rows(), block.stamps.len()));
    }
    check_maps(id, maps, sets)
}

/// Checks that there is a map for each atom set, of the same length.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_maps(id: &str, maps: &[AtomMap], sets: &[&AtomSelection]) -> Result<()> {
    if maps.len() != sets.len() {
        return Err(internal(id, "number of atom maps", sets.len(), maps.len()));
    }
    match maps.iter().zip(sets).find(|(map, set)| map.len() != set.len()) {
        Some((map, set)) => Err(internal(id, "number of atoms in a map", set.len(), map.len())),
        None => Ok(()),
    }
}

/// The coordinates of a set in one row: the row itself, or gathered into `buffer`.
///
/// # Errors
/// `Internal` when the map is of another block.
#[inline]
pub(crate) fn gather<'a>(id: &str, map: &AtomMap, row: &'a [f32], buffer: &'a mut Vec<f32>) -> Result<&'a [f32]> {
    let gathered = map.gather(row, buffer);
    if gathered.len() == map.len() * 3 {
        Ok(gathered)
    } else {
        Err(internal(id, "number of gathered coordinates", map.len() * 3, gathered.len()))
    }
}

/// The error for coordinates of a set that are not finite, naming the atom of the trajectory.
#[cold]
pub(crate) fn not_finite(set: &AtomSelection, gathered: &[f32]) -> Error {
    match first_not_finite(gathered).and_then(|i| set.iter().nth(i)) {
        Some(atom) => {
            Error::new(ErrorKind::Corrupt, format!("position of atom {} (counted from 1) is not finite", atom + 1))
        }
        None => Error::new(ErrorKind::Corrupt, "sums over positions are not finite"),
    }
}

/// Checks that an atom set is not empty.
///
/// # Errors
/// `InvalidArgument`
pub(crate) fn check_set(set: &AtomSelection, what: &str) -> Result<()> {
    if set.is_empty() {
        return Err(Error::new(ErrorKind::InvalidArgument, format!("{what} has no atoms, expected at least one")));
    }
    Ok(())
}
