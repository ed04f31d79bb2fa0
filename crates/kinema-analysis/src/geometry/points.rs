//! Positions of one atom for each item (the first atoms of all pairs, say), read four items at a time as x, y and z.
//!
//! They are a row of gathered positions as it stands, or atoms picked from it by number, without a copy.

use kinema_core::{Error, ErrorKind, Result};

use crate::lanes::Quad;

/// Atoms by their numbers in a row of positions; an atom may occur several times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    atoms: Vec<u32>,
    /// Atoms that a row must have.
    reach: usize,
}

impl Column {
    /// Of atoms, counted from 0 in the row.
    pub fn new(atoms: Vec<u32>) -> Self {
        let reach = atoms.iter().max().map_or(0, |&last| last as usize + 1);
        Self { atoms, reach }
    }
}

/// Positions of one atom for each item, angstrom.
#[derive(Debug, Clone, Copy)]
pub struct Points<'a> {
    positions: &'a [f32],
    atoms: Option<&'a [u32]>,
    /// The last atom of the row, behind which nothing may be read.
    last: [f32; 4],
}

impl<'a> Points<'a> {
    /// All atoms of a row (`atoms x 3`) in their order.
    ///
    /// # Errors
    /// `Internal` for a number of coordinates that is no multiple of 3.
    pub fn row(positions: &'a [f32]) -> Result<Self> {
        if !positions.len().is_multiple_of(3) {
            let what = format!("positions must be atoms x 3 values, found {} values", positions.len());
            return Err(Error::new(ErrorKind::Internal, what));
        }
        let [x, y, z] = positions.last_chunk::<3>().copied().unwrap_or_default();
        Ok(Self { positions, atoms: None, last: [x, y, z, 0.0] })
    }

    /// The atoms of a column, picked from a row.
    ///
    /// # Errors
    /// `Internal`, as [`Points::row`], and where the row has not all atoms of the column.
    pub fn picked(positions: &'a [f32], column: &'a Column) -> Result<Self> {
        let found = positions.len() / 3;
        if found < column.reach {
            let what = format!("too few atoms in a row of positions, expected {}, found {found}", column.reach);
            return Err(Error::new(ErrorKind::Internal, what));
        }
        Ok(Self { atoms: Some(&column.atoms), ..Self::row(positions)? })
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.atoms.map_or(self.positions.len() / 3, <[u32]>::len)
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Of the first atom of the row; zero where there is none.
    pub(super) fn first(&self) -> [f32; 3] {
        self.positions.first_chunk::<3>().copied().unwrap_or_default()
    }

    /// Of four items from `at` on; the last item stands for those that are missing.
    #[inline(always)]
    pub(super) fn four<Q: Quad>(&self, at: usize) -> [Q; 3] {
        match self.atoms {
            None => match self.positions.get(3 * at..).and_then(|rest| rest.first_chunk::<12>()) {
                Some(&[a, b, c, d, e, f, g, h, i, j, k, l]) => {
                    Q::xyz([&[a, b, c, d], &[d, e, f, g], &[g, h, i, j], &[j, k, l, 0.0]])
                }
                None => self.tail(at),
            },
            Some(atoms) => match atoms.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
                Some(&[a, b, c, d]) => Q::xyz([self.atom(a), self.atom(b), self.atom(c), self.atom(d)]),
                None => self.tail(at),
            },
        }
    }

    /// An atom of the row, with a fourth value without meaning.
    #[inline(always)]
    fn atom(&self, number: u32) -> &[f32; 4] {
        // only the last atom has no fourth value behind it: `picked` has checked the greatest number
        self.positions.get(number as usize * 3..).and_then(|rest| rest.first_chunk::<4>()).unwrap_or(&self.last)
    }

    #[inline(always)]
    fn tail<Q: Quad>(&self, at: usize) -> [Q; 3] {
        let last = self.len().saturating_sub(1);
        let mut found = [&self.last; 4];
        for (found, item) in found.iter_mut().zip(at..) {
            let item = item.min(last);
            *found = self.atom(self.atoms.map_or(item as u32, |atoms| atoms[item]));
        }
        Q::xyz(found)
    }
}
