//! The atom selection: a sorted set of atoms, and the order in which the caller has requested them.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};

/// Atoms of one trajectory: an ascending set without repetition, for readers and kernels, and the columns that give
/// results back in the requested order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtomSelection {
    n_atoms: u32,
    /// `None` means all atoms.
    indices: Option<Arc<[u32]>>,
    /// For each requested atom, its position in the set; `None` if the request was ascending.
    columns: Option<Arc<[u32]>>,
}

impl AtomSelection {
    /// All of `n_atoms` atoms.
    pub fn all(n_atoms: u32) -> Self {
        Self { n_atoms, indices: None, columns: None }
    }

    /// The atoms in `requested`, in any order and with repetitions.
    ///
    /// # Errors
    /// `OutOfRange` for an index of `n_atoms` or more.
    pub fn new(requested: Vec<u32>, n_atoms: u32) -> Result<Self> {
        if requested.is_sorted_by(|a, b| a < b) {
            return Self::from_sorted(requested, n_atoms);
        }
        let mut sorted = requested.clone();
        sorted.sort_unstable();
        sorted.dedup();
        // every requested atom is in `sorted`, so the position is exact
        let columns = requested.iter().map(|atom| sorted.partition_point(|other| other < atom) as u32).collect();
        Ok(Self { columns: Some(columns), ..Self::from_sorted(sorted, n_atoms)? })
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
        Ok(Self { n_atoms, indices: (!whole).then(|| indices.into()), columns: None })
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
        Self { n_atoms, indices: (!whole).then(|| all.into()), columns: None }
    }

    /// Number of atoms in the set.
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
    /// The selected indices, or `None` if all atoms are selected.
    pub fn indices(&self) -> Option<&[u32]> {
        self.indices.as_deref()
    }
    /// For each requested atom, its position in the set, or `None` if the request was ascending.
    pub fn columns(&self) -> Option<&[u32]> {
        self.columns.as_deref()
    }
    /// Number of requested atoms, repetitions included.
    pub fn n_requested(&self) -> usize {
        self.columns.as_ref().map_or(self.len(), |columns| columns.len())
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

    /// The requested atoms, in their order and with repetitions.
    pub fn requested(&self) -> impl Iterator<Item = u32> + '_ {
        let atom = move |i: usize| self.indices.as_ref().map_or(i as u32, |list| list[i]);
        (0..self.n_requested()).map(move |i| atom(self.columns.as_ref().map_or(i, |columns| columns[i] as usize)))
    }

    /// The selection as runs of atoms; atoms with at most `gap` others between them share a run.
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

    /// Position of each atom of `self` in `superset`; `None` if both are the same selection.
    ///
    /// # Errors
    /// `InvalidArgument` if an atom is not in `superset`.
    pub fn positions_in(&self, superset: &Self) -> Result<Option<Vec<u32>>> {
        if self.n_atoms == superset.n_atoms && self.indices == superset.indices {
            return Ok(None);
        }
        let Some(list) = superset.indices() else {
            return Ok(Some(self.iter().collect()));
        };
        self.iter()
            .map(|atom| {
                list.binary_search(&atom).map(|i| i as u32).map_err(|_| {
                    let what = format!("atom {} (counted from 1) was not read", u64::from(atom) + 1);
                    Error::new(ErrorKind::InvalidArgument, what)
                })
            })
            .collect::<Result<Vec<_>>>()
            .map(Some)
    }

    /// Checks that each atom was requested once.
    ///
    /// # Errors
    /// `InvalidArgument`, naming the first atom that was requested twice.
    pub fn check_unique(&self) -> Result<()> {
        let mut seen = vec![false; if self.n_requested() == self.len() { 0 } else { self.len() }];
        let columns = self.columns().filter(|_| !seen.is_empty()).unwrap_or_default();
        match columns.iter().find(|&&column| std::mem::replace(&mut seen[column as usize], true)) {
            None => Ok(()),
            Some(&column) => {
                let atom = self.indices().map_or(column, |indices| indices[column as usize]);
                let what = format!("atom index {atom} is selected twice, expected each atom once");
                Err(Error::new(ErrorKind::InvalidArgument, what))
            }
        }
    }

    /// Rows of `width` values, one for each requested atom, in the order of the set. If there are not as many rows as
    /// atoms, they are left unchanged.
    ///
    /// # Errors
    /// `InvalidArgument` if an atom was requested twice.
    pub fn reorder_as_set<'v>(&self, rows: &'v [f64], width: usize) -> Result<Cow<'v, [f64]>> {
        self.check_unique()?;
        let Some(columns) = self.columns() else { return Ok(Cow::Borrowed(rows)) };
        if rows.len() != columns.len() * width {
            return Ok(Cow::Borrowed(rows));
        }
        let mut sorted = vec![0.0; rows.len()];
        for (row, &column) in rows.chunks_exact(width.max(1)).zip(columns) {
            sorted[column as usize * width..][..width].copy_from_slice(row);
        }
        Ok(Cow::Owned(sorted))
    }

    /// Rows of `width` values, one for each atom of the set, in the requested order.
    pub fn reorder_as_requested<T: Copy>(&self, rows: Vec<T>, width: usize) -> Vec<T> {
        let Some(columns) = self.columns() else { return rows };
        columns.iter().flat_map(|&column| rows[column as usize * width..][..width].iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_in_any_order_is_a_sorted_set_that_gives_results_back_in_that_order() {
        let atoms = AtomSelection::new(vec![7, 2, 9, 2], 10).unwrap();
        assert_eq!(atoms.indices(), Some(&[2, 7, 9][..]));
        assert_eq!(atoms.columns(), Some(&[1, 0, 2, 0][..]));
        assert_eq!((atoms.len(), atoms.n_requested()), (3, 4));
        assert_eq!(atoms.reorder_as_requested(vec![2, 20, 7, 70, 9, 90], 2), [7, 70, 2, 20, 9, 90, 2, 20]);
        let error = atoms.reorder_as_set(&[0.0; 4], 1).unwrap_err();
        assert_eq!(error.to_string(), "atom index 2 is selected twice, expected each atom once");
        let atoms = AtomSelection::new(vec![3, 1, 0, 2], 4).unwrap();
        assert_eq!((atoms.indices(), atoms.len()), (None, 4), "all of them");
        assert_eq!(&*atoms.reorder_as_set(&[3.0, 1.0, 0.0, 2.0], 1).unwrap(), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(atoms.reorder_as_requested(vec![0, 1, 2, 3], 1), [3, 1, 0, 2]);
        assert_eq!(AtomSelection::new(vec![1, 3], 4).unwrap(), AtomSelection::from_sorted(vec![1, 3], 4).unwrap());
        assert_eq!(AtomSelection::new(vec![4, 1], 4).unwrap_err().kind(), ErrorKind::OutOfRange);
    }

    #[test]
    fn the_order_of_a_request_makes_no_other_set() {
        let (asked, sorted) = (AtomSelection::new(vec![5, 1], 9).unwrap(), AtomSelection::new(vec![1, 5], 9).unwrap());
        assert_eq!(asked.positions_in(&sorted).unwrap(), None);
        assert_eq!(AtomSelection::union(9, [&asked]), sorted);
    }

    #[test]
    fn an_atom_that_was_not_read_is_named_as_people_count() {
        let (asked, read) = (AtomSelection::new(vec![0, 5], 9).unwrap(), AtomSelection::new(vec![1, 5], 9).unwrap());
        let error = asked.positions_in(&read).unwrap_err();
        assert_eq!(error.to_string(), "atom 1 (counted from 1) was not read");
    }
}
