//! Places of atoms in the record of a frame, in formats that give each atom a fixed place: several processes, each with
//! some of the atoms, make one record.

use crate::error::{Error, ErrorKind, Result};
use crate::frame::{BlockView, Stamp};

use super::FORMATS;

/// Bytes of all atoms side by side: atom `i` begins at `offset + i * width`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtomPlane {
    /// Place of the first atom in the record.
    pub offset: u64,
    /// Bytes of an atom.
    pub width: u64,
}

/// A record without its atoms.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrameLayout {
    /// Bytes of the whole record.
    pub bytes: u64,
    /// Bytes that belong to no atom, each with their place in the record.
    pub pieces: Vec<(u64, Vec<u8>)>,
    /// Where atoms lie. Pieces and planes of all atoms are the whole record, and none lies over another.
    pub planes: Vec<AtomPlane>,
}

/// Numbers of some atoms in the file, from 0.
#[derive(Debug, Clone, Copy)]
pub enum AtomNumbers<'a> {
    /// One after the other from this one on.
    From(u32),
    /// Any, one a row.
    Listed(&'a [u32]),
}

impl AtomNumbers<'_> {
    /// That of the atom in this row.
    ///
    /// # Panics
    /// Beyond the end of a list.
    #[inline]
    pub fn get(&self, row: usize) -> u32 {
        match self {
            Self::From(first) => first + row as u32,
            Self::Listed(numbers) => numbers[row],
        }
    }
}

/// Some atoms of one frame, and which they are.
#[derive(Debug, Clone, Copy)]
pub struct SomeAtoms<'a> {
    /// One row; values are in the format's units.
    pub rows: BlockView<'a>,
    /// Their numbers.
    pub numbers: AtomNumbers<'a>,
}

impl SomeAtoms<'_> {
    /// The frame's own step, time and cell.
    pub(super) fn stamp(&self) -> Stamp {
        self.rows.stamps.first().copied().unwrap_or_default()
    }
}

/// The error of a format whose atoms have no fixed places.
pub(crate) fn no_planes() -> Error {
    let known = FORMATS.iter().map(|format| format.info()).filter(|info| info.places_atoms).map(|info| info.name);
    let known: Vec<&str> = known.collect();
    let what = format!("atoms have no fixed places in a record of this format, expected {}", known.join(", "));
    Error::new(ErrorKind::Unsupported, what)
}

/// Values of a frame's field: three for each atom.
/// Errors: `Internal` if their number differs.
pub(super) fn vectors_of<R>(values: &[R], n_atoms: usize) -> Result<&[[R; 3]]> {
    let vectors = values.as_chunks::<3>().0;
    if vectors.len() == n_atoms && values.len() == 3 * n_atoms {
        return Ok(vectors);
    }
    Err(Error::new(ErrorKind::Internal, "the block has other atoms or fields than the file"))
}
