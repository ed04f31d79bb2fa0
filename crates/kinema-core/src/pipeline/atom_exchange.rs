//! Atoms that several processes have, in any order, sorted for those that write them: each of these takes a range of numbers.

use crate::error::{Error, ErrorKind, Result};

/// Entries of the table that finds the range of a number, at most.
const TABLE: u64 = 1 << 12;

/// Rows in the order of the ranges that their atoms lie in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Rows of each range.
    pub counts: Vec<u64>,
    /// The numbers of the atoms in the order of `order`.
    pub ids: Vec<u32>,
    /// The rows, those of the first range first, each in the order in which they were given; `None`: all as they were given.
    pub order: Option<Vec<u32>>,
}

/// The range that a number lies in.
struct Ranges<'a> {
    bounds: &'a [u64],
    shift: u32,
    /// Range of the first number of each stretch of 2^shift.
    table: Vec<u32>,
}

impl<'a> Ranges<'a> {
    fn new(bounds: &'a [u64]) -> Result<Self> {
        let end = bounds.last().copied().unwrap_or_default();
        if bounds.len() < 2 || bounds[0] != 0 || !bounds.is_sorted() || end > u64::from(u32::MAX) {
            let what = "bounds of ranges of atoms, expected numbers from 0 on that do not fall, up to 2^32 - 1";
            return Err(Error::new(ErrorKind::InvalidArgument, format!("{what}, found {bounds:?}")));
        }
        let shift = (0..u64::BITS).find(|shift| end >> shift < TABLE).unwrap_or_default();
        let mut range = 0;
        let first_of = |number: u64| {
            while range + 2 < bounds.len() && number >= bounds[range + 1] {
                range += 1;
            }
            range as u32
        };
        let table = (0..=end >> shift).map(|stretch| stretch << shift).map(first_of).collect();
        Ok(Self { bounds, shift, table })
    }

    fn n_atoms(&self) -> u64 {
        self.bounds[self.bounds.len() - 1]
    }

    /// The range of a number below `n_atoms`.
    #[inline]
    fn find(&self, number: u64) -> usize {
        let mut range = self.table[(number >> self.shift) as usize] as usize;
        while number >= self.bounds[range + 1] {
            range += 1;
        }
        range
    }
}

/// Sorts rows by the range in which the numbers of their atoms lie: range `i` is `bounds[i]..bounds[i + 1]`, the first
/// begins at 0, and the last ends with the last atom.
///
/// # Errors
/// `InvalidArgument` for a number that is no atom's, with its row, and for bounds that fall.
pub fn partition<I: Copy + TryInto<u64> + std::fmt::Display>(ids: &[I], bounds: &[u64]) -> Result<Partition> {
    let ranges = Ranges::new(bounds)?;
    let no_memory = |_| Error::new(ErrorKind::MemoryLimit, format!("no memory to sort {} atoms", ids.len()));
    if u32::try_from(ids.len()).is_err() {
        let what = format!("number of rows, expected less than 2^32, found {}", ids.len());
        return Err(Error::new(ErrorKind::InvalidArgument, what));
    }
    let mut counts = vec![0_u64; bounds.len() - 1];
    let mut of_row = Vec::new();
    of_row.try_reserve_exact(ids.len()).map_err(no_memory)?;
    let (mut last, mut is_sorted) = (0, true);
    for (row, &id) in ids.iter().enumerate() {
        let number = id.try_into().ok().filter(|&number| number < ranges.n_atoms()).ok_or_else(|| {
            let end = ranges.n_atoms() as i64 - 1;
            let what = format!("number of the atom in row {row}, expected 0 to {end}, found {id}");
            Error::new(ErrorKind::InvalidArgument, what)
        })?;
        let range = ranges.find(number);
        counts[range] += 1;
        is_sorted = is_sorted && range >= last;
        last = range;
        of_row.push(range as u32);
    }
    let mut sorted = Vec::new();
    sorted.try_reserve_exact(ids.len()).map_err(no_memory)?;
    // all are below the last bound, which 32 bits hold
    let narrow = |id: I| id.try_into().unwrap_or_default() as u32;
    if is_sorted {
        sorted.extend(ids.iter().copied().map(narrow));
        return Ok(Partition { counts, ids: sorted, order: None });
    }
    sorted.resize(ids.len(), 0);
    let mut next = Vec::with_capacity(counts.len());
    let mut before = 0;
    for &count in &counts {
        next.push(before as usize);
        before += count;
    }
    let mut order = Vec::new();
    order.try_reserve_exact(ids.len()).map_err(no_memory)?;
    order.resize(ids.len(), 0);
    for ((row, &range), &id) in (0..).zip(&of_row).zip(ids) {
        let place = &mut next[range as usize];
        order[*place] = row;
        sorted[*place] = narrow(id);
        *place += 1;
    }
    Ok(Partition { counts, ids: sorted, order: Some(order) })
}

/// Puts row `order[i]` of `values` into row `i` of `out`.
///
/// # Errors
/// `InvalidArgument` for rows that are not there, and for an `out` of another length.
pub fn take<T: Copy>(values: &[[T; 3]], order: &[u32], out: &mut [[T; 3]]) -> Result<()> {
    if out.len() != order.len() {
        let what = format!("rows to fill, expected {}, found {}", order.len(), out.len());
        return Err(Error::new(ErrorKind::InvalidArgument, what));
    }
    for (place, &row) in out.iter_mut().zip(order) {
        *place = *values.get(row as usize).ok_or_else(|| {
            let what = format!("row of an atom, expected less than {}, found {row}", values.len());
            Error::new(ErrorKind::InvalidArgument, what)
        })?;
    }
    Ok(())
}

/// What of a range is there twice or not at all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// Rows whose atom had been there before.
    pub duplicates: u64,
    /// The first of them.
    pub first_duplicate: Option<usize>,
    /// Atoms of the range that were not there yet.
    pub missing: u64,
    /// The number of the first of them.
    pub first_missing: Option<u64>,
}

/// Notes which atoms of the range that begins at `first` are there: `seen` has a byte for each, 0 before the first call.
///
/// # Errors
/// `InvalidArgument` for atoms of other ranges.
pub fn see(ids: &[u32], first: u32, seen: &mut [u8]) -> Result<Faults> {
    let mut faults = Faults::default();
    for (row, &id) in ids.iter().enumerate() {
        let end = u64::from(first) + seen.len() as u64;
        let place = id.checked_sub(first).and_then(|place| seen.get_mut(place as usize));
        let place = place.ok_or_else(|| {
            let what = format!("number of the atom in row {row}, expected {first} or more and below {end}, found {id}");
            Error::new(ErrorKind::InvalidArgument, what)
        })?;
        if *place != 0 {
            faults.duplicates += 1;
            faults.first_duplicate.get_or_insert(row);
        }
        *place = 1;
    }
    faults.missing = seen.iter().filter(|&&seen| seen == 0).count() as u64;
    if faults.missing > 0 {
        faults.first_missing = seen.iter().position(|&seen| seen == 0).map(|place| u64::from(first) + place as u64);
    }
    Ok(faults)
}

/// Puts row `i` of `values` into the row of atom `ids[i]` of `out`, which begins with atom `first`.
///
/// # Errors
/// `InvalidArgument` for atoms without a row, and for numbers of rows that differ.
pub fn scatter<T: Copy>(ids: &[u32], first: u32, values: &[[T; 3]], out: &mut [[T; 3]]) -> Result<()> {
    if ids.len() != values.len() {
        let what = format!("rows of values, expected {}, one an atom, found {}", ids.len(), values.len());
        return Err(Error::new(ErrorKind::InvalidArgument, what));
    }
    let n = out.len();
    for (&id, value) in ids.iter().zip(values) {
        let place = id.checked_sub(first).and_then(|place| out.get_mut(place as usize));
        *place.ok_or_else(|| {
            let what = format!("number of an atom, expected {first} and less than {n} more, found {id}");
            Error::new(ErrorKind::InvalidArgument, what)
        })? = *value;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_by_range_and_stay_in_their_order() {
        let ids = [7_i64, 0, 9, 3, 8, 1];
        let found = partition(&ids, &[0, 2, 2, 8, 10]).unwrap();
        assert_eq!(found.counts, [2, 0, 2, 2]);
        assert_eq!(found.order, Some(vec![1, 5, 0, 3, 2, 4]));
        assert_eq!(found.ids, [0, 1, 7, 3, 9, 8]);
        assert_eq!(
            partition(&[0_u32, 1, 1, 5], &[0, 3, 6]).unwrap(),
            Partition { counts: vec![3, 1], ids: vec![0, 1, 1, 5], order: None }
        );
        assert_eq!(partition::<u32>(&[], &[0, 0]).unwrap(), Partition { counts: vec![0], ids: vec![], order: None });
        for (wrong, what) in [(-1, "row 2, expected 0 to 9, found -1"), (10, "row 2, expected 0 to 9, found 10")] {
            let error = partition(&[1_i64, 2, wrong], &[0, 10]).unwrap_err();
            assert!(error.to_string().ends_with(what), "{error}");
        }
        assert!(partition(&[0_u32], &[0, 5, 3]).is_err() && partition(&[0_u32], &[1, 5]).is_err());
    }

    #[test]
    fn every_number_lies_in_its_range() {
        // more atoms than the table has entries, and ranges within one entry
        let bounds = [0, 1, 1, 2, 9, 40_000, 40_001, 100_000, 100_000];
        let ranges = Ranges::new(&bounds).unwrap();
        for number in 0..100_000 {
            let range = ranges.find(number);
            assert!(bounds[range] <= number && number < bounds[range + 1], "{number} {range}");
        }
    }

    #[test]
    fn what_is_scattered_is_what_was_taken() {
        let values: Vec<[f64; 3]> = (0..10).map(|i| [f64::from(i), 0.5, -1.0]).collect();
        let ids = [14_u32, 11, 19, 10, 15, 12, 18, 13, 17, 16];
        let (mut taken, mut out) = (vec![[0.0; 3]; 10], vec![[0.0; 3]; 10]);
        scatter(&ids, 10, &values, &mut out).unwrap();
        let order: Vec<u32> = ids.iter().map(|id| id - 10).collect();
        take(&out, &order, &mut taken).unwrap();
        assert_eq!(taken, values);
        assert!(scatter(&ids, 11, &values, &mut out).is_err() && scatter(&ids, 9, &values, &mut out).is_err());
        assert!(take(&out, &[0, 10], &mut taken[..2]).is_err() && take(&out, &[0], &mut taken[..2]).is_err());
    }

    #[test]
    fn atoms_that_are_there_twice_or_not_at_all_are_named() {
        let mut seen = [0; 6];
        let faults = see(&[22, 20, 22, 25, 22], 20, &mut seen).unwrap();
        let expected = Faults { duplicates: 2, first_duplicate: Some(2), missing: 3, first_missing: Some(21) };
        assert_eq!(faults, expected);
        // another message brings the rest, and one again
        let faults = see(&[21, 23, 24, 20], 20, &mut seen).unwrap();
        assert_eq!(faults, Faults { duplicates: 1, first_duplicate: Some(3), missing: 0, first_missing: None });
        assert!(see(&[26], 20, &mut seen).is_err() && see(&[19], 20, &mut seen).is_err());
    }
}
