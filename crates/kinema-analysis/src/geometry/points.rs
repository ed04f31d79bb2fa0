//! Positions of one atom for each item (for example, the first atoms of all pairs), read four items at a time as x, y
//! and z.
//!
//! They are a row of gathered positions, or atoms picked from it by number without a copy.

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
    /// A column of atoms, counted from 0 in the row.
    pub fn new(atoms: Vec<u32>) -> Self {
        let reach = atoms.iter().max().map_or(0, |&last| last as usize + 1);
        Self { atoms, reach }
    }

    /// The atoms.
    pub fn atoms(&self) -> &[u32] {
        &self.atoms
    }
}

/// Positions of one atom for each item, angstrom.
#[derive(Debug, Clone, Copy)]
pub struct Points<'a> {
    positions: &'a [[f32; 3]],
    atoms: Option<&'a [u32]>,
}

impl<'a> Points<'a> {
    /// All atoms of a row (`atoms x 3`) in their order.
    ///
    /// # Errors
    /// `Internal` if the number of coordinates is not a multiple of 3.
    pub fn row(positions: &'a [f32]) -> Result<Self> {
        let (atoms, rest) = positions.as_chunks::<3>();
        if !rest.is_empty() {
            let what = format!("positions must be atoms x 3 values, found {} values", positions.len());
            return Err(Error::new(ErrorKind::Internal, what));
        }
        Ok(Self { positions: atoms, atoms: None })
    }

    /// The atoms of a column, picked from a row.
    ///
    /// # Errors
    /// `Internal`, as [`Points::row`], and if some atoms of the column are missing from the row.
    pub fn picked(positions: &'a [f32], column: &'a Column) -> Result<Self> {
        let row = Self::row(positions)?;
        let found = row.len();
        if found < column.reach {
            let what = format!("too few atoms in a row of positions, expected {}, found {found}", column.reach);
            return Err(Error::new(ErrorKind::Internal, what));
        }
        Ok(Self { atoms: Some(&column.atoms), ..row })
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.atoms.map_or(self.positions.len(), <[u32]>::len)
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The position of an item.
    ///
    /// # Panics
    /// If there is no item at `at`.
    pub(crate) fn at(&self, at: usize) -> [f32; 3] {
        *self.atom(self.number(at))
    }

    /// Coordinates of four items from `at` on; the last item stands in for missing ones.
    ///
    /// # Panics
    /// If there is no item at `at`.
    #[inline(always)]
    pub(crate) fn four<Q: Quad>(&self, at: usize) -> [Q; 3] {
        match self.atoms {
            None => match self.positions.get(at..).and_then(|rest| rest.first_chunk()) {
                Some(four) => Q::xyz_of_row(four),
                None => self.tail(at),
            },
            Some(atoms) => match atoms.get(at..).and_then(|rest| rest.first_chunk()) {
                Some(&[a, b, c, d]) => {
                    // SAFETY: `picked` has compared the greatest number of the column, which does not change, with the row.
                    Q::xyz(unsafe { [self.known(a), self.known(b), self.known(c), self.known(d)] })
                }
                None => self.tail(at),
            },
        }
    }

    /// Checking each atom again takes a fifth of the time of a distance.
    ///
    /// # Safety
    /// The row has an atom of that number.
    #[inline(always)]
    unsafe fn known(&self, number: u32) -> &[f32; 3] {
        debug_assert!((number as usize) < self.positions.len());
        // SAFETY: as the caller says.
        unsafe { self.positions.get_unchecked(number as usize) }
    }

    #[inline(always)]
    fn atom(&self, number: u32) -> &[f32; 3] {
        &self.positions[number as usize]
    }

    /// The atom of an item.
    #[inline(always)]
    fn number(&self, item: usize) -> u32 {
        self.atoms.map_or(item as u32, |atoms| atoms[item])
    }

    #[inline(always)]
    fn tail<Q: Quad>(&self, at: usize) -> [Q; 3] {
        let last = self.len() - 1;
        let mut found = [&[0.0; 3]; 4];
        for (found, item) in found.iter_mut().zip(at..) {
            let item = item.min(last);
            *found = self.atom(self.number(item));
        }
        Q::xyz(found)
    }
}
