//! Which frames and which atoms: the two selections that every request is made of.
//!
//! Selection strings are not parsed here: MDAnalysis resolves them to indices in Python.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};

/// A set of atoms of one trajectory, ascending and without repetition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtomSelection {
    n_atoms: u32,
    /// `None` means all atoms.
    indices: Option<Arc<[u32]>>,
}

impl AtomSelection {
    /// All of `n_atoms` atoms.
    pub fn all(n_atoms: u32) -> Self {
        Self { n_atoms, indices: None }
    }

    /// The atoms in `indices`, which must be strictly ascending and below `n_atoms`.
    ///
    /// # Errors
    /// `OutOfRange` for an index of `n_atoms` or more, `InvalidArgument` when not strictly ascending.
    pub fn from_sorted(indices: Vec<u32>, n_atoms: u32) -> Result<Self> {
        if let Some(pair) = indices.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("atom indices must ascend, found {} before {}", pair[0], pair[1]),
            ));
        }
        if let Some(&last) = indices.last().filter(|&&last| last >= n_atoms) {
            return Err(Error::new(
                ErrorKind::OutOfRange,
                format!("atom index {last} is out of range for a trajectory of {n_atoms} atoms"),
            ));
        }
        let whole = indices.len() == n_atoms as usize;
        Ok(Self { n_atoms, indices: (!whole).then(|| indices.into()) })
    }

    /// The union of several selections of the same trajectory.
    pub fn union<'a>(n_atoms: u32, parts: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = Vec::new();
        for part in parts {
            match &part.indices {
                None => return Self::all(n_atoms),
                Some(indices) => all.extend_from_slice(indices),
            }
        }
        all.sort_unstable();
        all.dedup();
        let whole = all.len() == n_atoms as usize;
        Self { n_atoms, indices: (!whole).then(|| all.into()) }
    }

    /// Number of selected atoms.
    pub fn len(&self) -> usize {
        self.indices.as_ref().map_or(self.n_atoms as usize, |i| i.len())
    }
    /// Whether no atom is selected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Number of atoms of the trajectory that this is a selection of.
    pub fn n_atoms(&self) -> u32 {
        self.n_atoms
    }
    /// The selected indices, or `None` where all atoms are selected.
    pub fn indices(&self) -> Option<&[u32]> {
        self.indices.as_deref()
    }
    /// The last selected atom.
    pub fn last(&self) -> Option<u32> {
        match &self.indices {
            None => self.n_atoms.checked_sub(1),
            Some(indices) => indices.last().copied(),
        }
    }
    /// The selected atoms, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.len()).map(move |i| self.indices.as_ref().map_or(i as u32, |list| list[i]))
    }

    /// The selection as runs of atoms; neighbours that leave out at most `gap` atoms share a run.
    pub fn runs(&self, gap: u32) -> Vec<Range<u32>> {
        let Some(indices) = &self.indices else {
            return std::iter::once(0..self.n_atoms).filter(|all| !all.is_empty()).collect();
        };
        let mut runs: Vec<Range<u32>> = Vec::new();
        for &atom in indices.iter() {
            match runs.last_mut() {
                Some(run) if atom - run.end <= gap => run.end = atom + 1,
                _ => runs.push(atom..atom + 1),
            }
        }
        runs
    }

    /// Where each atom of `self` stands in `superset`; `None` if both are the same selection.
    ///
    /// # Errors
    /// `InvalidArgument` when an atom is not in `superset`.
    pub fn positions_in(&self, superset: &Self) -> Result<Option<Vec<u32>>> {
        if self == superset {
            return Ok(None);
        }
        let Some(list) = superset.indices() else {
            return Ok(Some(self.iter().collect()));
        };
        self.iter()
            .map(|atom| {
                list.binary_search(&atom)
                    .map(|i| i as u32)
                    .map_err(|_| Error::new(ErrorKind::InvalidArgument, format!("atom {atom} was not read")))
            })
            .collect::<Result<Vec<_>>>()
            .map(Some)
    }
}

/// Which frames of a trajectory, in which order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameSelection {
    /// `count` frames: `start`, `start + step`, ...; `step` may be negative, never zero where `count > 1`.
    Stride {
        /// First frame.
        start: u64,
        /// Distance between neighbours.
        step: i64,
        /// How many.
        count: u64,
    },
    /// These frames in this order; repetitions are allowed.
    List(Arc<[u64]>),
}

impl FrameSelection {
    /// Number of selected frames.
    pub fn len(&self) -> u64 {
        match self {
            Self::Stride { count, .. } => *count,
            Self::List(list) => list.len() as u64,
        }
    }
    /// Whether no frame is selected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The frame at position `i` of the selection; `i` must be below `len()`.
    pub fn get(&self, i: u64) -> u64 {
        match self {
            Self::Stride { start, step, .. } => start.wrapping_add_signed(step.wrapping_mul(i as i64)),
            Self::List(list) => list[i as usize],
        }
    }

    /// Checks that every frame lies below `n_frames`.
    ///
    /// # Errors
    /// `OutOfRange`, naming the first offending frame.
    pub fn check(&self, n_frames: u64) -> Result<()> {
        let beyond = match self {
            Self::Stride { count: 0, .. } => None,
            Self::Stride { start, step, count } => {
                let last = i128::from(*start) + i128::from(*step) * i128::from(*count - 1);
                [i128::from(*start), last].into_iter().find(|&frame| frame < 0 || frame >= i128::from(n_frames))
            }
            Self::List(list) => list.iter().find(|&&frame| frame >= n_frames).map(|&f| i128::from(f)),
        };
        match beyond {
            None => Ok(()),
            Some(frame) => Err(Error::new(
                ErrorKind::OutOfRange,
                format!("frame {frame} is out of range for a trajectory of {n_frames} frames"),
            )),
        }
    }
}
