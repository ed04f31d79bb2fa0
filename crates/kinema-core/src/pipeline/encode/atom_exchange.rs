//! Atoms of several processes, in any order, sorted for the processes that write them: each of these takes a range of
//! numbers.

use crate::error::{Error, ErrorKind, Result};

/// Entries of the table that finds the range of a number, at most.
const TABLE: u64 = 1 << 12;

/// Number of rows by which values are prefetched: memory delivers them while earlier rows are copied.
const AHEAD: usize = 128;

/// Rows in the order of the ranges that their atoms lie in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Rows of each range.
    pub counts: Vec<u64>,
    /// Whether the rows were in this order as they were given.
    pub is_sorted: bool,
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

/// Sorts rows by the range in which their atom numbers lie. Range `i` is `bounds[i]..bounds[i + 1]`; the first begins
/// at 0, the last ends with the last atom. `order` receives the rows of the first range, then the rows of the next,
/// each in the order given (it stays empty if the rows are in this order already); `sorted` receives their atom
/// numbers.
///
/// # Errors
/// `InvalidArgument` for an atom number out of range (the error names the row), for bounds that decrease, and for
/// lengths that do not match.
pub fn partition<I: Copy + TryInto<u64> + std::fmt::Display>(
    ids: &[I],
    bounds: &[u64],
    sorted: &mut [u32],
    order: &mut [u32],
) -> Result<Partition> {
    let ranges = Ranges::new(bounds)?;
    if u32::try_from(ids.len()).is_err() || sorted.len() != ids.len() || order.len() != ids.len() {
        let found = (ids.len(), sorted.len(), order.len());
        let what = format!("rows to sort, expected less than 2^32 and room for as many, found {found:?}");
        return Err(Error::new(ErrorKind::InvalidArgument, what));
    }
    let mut counts = vec![0_u64; bounds.len() - 1];
    let (mut last, mut is_sorted) = (0, true);
    for (row, (&id, out)) in ids.iter().zip(&mut *sorted).enumerate() {
        let number = id.try_into().ok().filter(|&number| number < ranges.n_atoms()).ok_or_else(|| {
            let end = ranges.n_atoms() as i64 - 1;
            let what = format!("number of the atom in row {row}, expected 0 to {end}, found {id}");
            Error::new(ErrorKind::InvalidArgument, what)
        })?;
        let range = ranges.find(number);
        counts[range] += 1;
        is_sorted = is_sorted && range >= last;
        last = range;
        // all are below the last bound, which 32 bits hold
        *out = number as u32;
    }
    if is_sorted {
        return Ok(Partition { counts, is_sorted });
    }
    let mut next = Vec::with_capacity(counts.len());
    let mut before = 0;
    for &count in &counts {
        next.push(before as usize);
        before += count;
    }
    for (row, &id) in (0..).zip(ids) {
        // each was found to be a number within the bounds above
        let number = id.try_into().unwrap_or_default();
        let place = &mut next[ranges.find(number)];
        order[*place] = row;
        sorted[*place] = number as u32;
        *place += 1;
    }
    Ok(Partition { counts, is_sorted })
}

/// Rows in the order of the numbers of their atoms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordered {
    /// The rows.
    pub rows: Vec<u32>,
    /// Place of each row in its range; `None` if row `i` belongs to place `i`.
    pub places: Option<Vec<u32>>,
}

/// Finds the row for each place of the range of `n` atoms that begins at `first`: row `rows[i]` belongs to atom
/// `ids[i]`.
///
/// # Errors
/// `InvalidArgument` for atoms of other ranges, for an atom that occurs twice, and for lengths that differ.
pub fn order(ids: &[u32], rows: impl ExactSizeIterator<Item = u32>, first: u32, n: usize) -> Result<Ordered> {
    let invalid = |what: String| Error::new(ErrorKind::InvalidArgument, what);
    if rows.len() != ids.len() || u32::try_from(n).is_err() {
        return Err(invalid(format!("rows, expected {}, one an atom, found {}", ids.len(), rows.len())));
    }
    let mut row_of = vec![u32::MAX; n];
    for (&id, row) in ids.iter().zip(rows) {
        let place = id.checked_sub(first).and_then(|place| row_of.get_mut(place as usize));
        *place.ok_or_else(|| {
            invalid(format!("number of an atom, expected {first} and less than {n} more, found {id}"))
        })? = row;
    }
    if ids.len() == n && !row_of.contains(&u32::MAX) {
        return Ok(Ordered { rows: row_of, places: None });
    }
    // one more than there are: the last may be written and not kept
    let (mut rows, mut places, mut found) = (vec![0; ids.len() + 1], vec![0; ids.len() + 1], 0);
    for (place, &row) in (0..).zip(&row_of) {
        (rows[found], places[found]) = (row, place);
        found += usize::from(row != u32::MAX);
    }
    if found != ids.len() {
        return Err(invalid(format!("numbers of {} atoms, expected each once, found {found}", ids.len())));
    }
    rows.truncate(found);
    places.truncate(found);
    Ok(Ordered { rows, places: Some(places) })
}

/// Calls `put` with `places[i]` and row `rows[i]` of `values`. Without `places`, the place is `i`; without `rows`, the
/// row is `i`. There are `n` places.
///
/// # Errors
/// `InvalidArgument` for rows and places out of range, and for lengths that do not match.
pub fn place<T: Copy>(
    values: &[[T; 3]],
    rows: Option<&[u32]>,
    places: Option<&[u32]>,
    n: usize,
    mut put: impl FnMut(usize, [T; 3]),
) -> Result<()> {
    let (expected, found) = (places.map_or(n, <[u32]>::len), rows.map_or(values.len(), <[u32]>::len));
    if found != expected {
        let what = format!("rows to fill, expected {found}, found {expected}");
        return Err(Error::new(ErrorKind::InvalidArgument, what));
    }
    let beyond = |what: &str, n: usize, found: u32| {
        let what = format!("{what} of an atom, expected less than {n}, found {found}");
        Error::new(ErrorKind::InvalidArgument, what)
    };
    let place_of = |i: usize| match places {
        Some(places) if places[i] as usize >= n => Err(beyond("place", n, places[i])),
        Some(places) => Ok(places[i] as usize),
        None => Ok(i),
    };
    let Some(rows) = rows else {
        for (i, &value) in values.iter().enumerate() {
            put(place_of(i)?, value);
        }
        return Ok(());
    };
    for (i, &row) in rows.iter().enumerate() {
        if let Some(&later) = rows.get(i + AHEAD) {
            prefetch(values, later as usize);
        }
        let value = values.get(row as usize).ok_or_else(|| beyond("row", values.len(), row))?;
        put(place_of(i)?, *value);
    }
    Ok(())
}

/// Asks memory for a value that is read soon.
#[inline(always)]
fn prefetch<T>(values: &[T], row: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(value) = values.get(row) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let first = std::ptr::from_ref(value).cast::<i8>();
        // SAFETY: SSE exists on all x86-64; both bytes are part of the value, and a prefetch has no effect that a
        // program sees.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(first);
            _mm_prefetch::<_MM_HINT_T0>(first.add(size_of::<T>() - 1));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, row);
}

/// Duplicate and missing atoms of a range.
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

/// Marks the present atoms of the range that begins at `first`: `seen` has a byte for each, 0 before the first call.
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

    /// Numbers in each range, sorted numbers, and their order unless they were sorted.
    type Sorted = (Vec<u64>, Vec<u32>, Option<Vec<u32>>);

    fn sorted<I: Copy + TryInto<u64> + std::fmt::Display>(ids: &[I], bounds: &[u64]) -> Result<Sorted> {
        let (mut sorted, mut order) = (vec![0; ids.len()], vec![0; ids.len()]);
        let found = partition(ids, bounds, &mut sorted, &mut order)?;
        Ok((found.counts, sorted, Some(order).filter(|_| !found.is_sorted)))
    }

    #[test]
    fn rows_are_sorted_by_range_and_stay_in_their_order() {
        let ids = [7_i64, 0, 9, 3, 8, 1];
        let (counts, ids, order) = sorted(&ids, &[0, 2, 2, 8, 10]).unwrap();
        assert_eq!(counts, [2, 0, 2, 2]);
        assert_eq!(order, Some(vec![1, 5, 0, 3, 2, 4]));
        assert_eq!(ids, [0, 1, 7, 3, 9, 8]);
        assert_eq!(sorted(&[0_u32, 1, 1, 5], &[0, 3, 6]).unwrap(), (vec![3, 1], vec![0, 1, 1, 5], None));
        assert_eq!(sorted::<u32>(&[], &[0, 0]).unwrap(), (vec![0], vec![], None));
        for (wrong, what) in [(-1, "row 2, expected 0 to 9, found -1"), (10, "row 2, expected 0 to 9, found 10")] {
            let error = sorted(&[1_i64, 2, wrong], &[0, 10]).unwrap_err();
            assert!(error.to_string().ends_with(what), "{error}");
        }
        assert!(sorted(&[0_u32], &[0, 5, 3]).is_err() && sorted(&[0_u32], &[1, 5]).is_err());
        assert!(partition(&[0_u32], &[0, 5], &mut [], &mut []).is_err());
    }

    #[test]
    fn rows_come_in_the_order_of_their_atoms() {
        let found = order(&[14, 11, 10], [7, 8, 2].into_iter(), 10, 6).unwrap();
        assert_eq!(found, Ordered { rows: vec![2, 8, 7], places: Some(vec![0, 1, 4]) });
        let found = order(&[12, 10, 11], 5..8, 10, 3).unwrap();
        assert_eq!(found, Ordered { rows: vec![6, 7, 5], places: None });
        assert_eq!(order(&[], 0..0, 10, 0).unwrap(), Ordered { rows: vec![], places: None });
        assert_eq!(order(&[], 0..0, 10, 2).unwrap(), Ordered { rows: vec![], places: Some(vec![]) });
        for (ids, what) in [([10, 10, 11], "expected each once, found 2"), ([10, 11, 16], "less than 6 more, found 16")]
        {
            let error = order(&ids, 0..3, 10, 6).unwrap_err();
            assert!(error.to_string().ends_with(what), "{error}");
        }
        assert!(order(&[9], 0..1, 10, 6).is_err() && order(&[10], 0..2, 10, 6).is_err());
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
        place(&out, Some(&order), None, 10, |i, value| taken[i] = value).unwrap();
        assert_eq!(taken, values);
        assert!(scatter(&ids, 11, &values, &mut out).is_err() && scatter(&ids, 9, &values, &mut out).is_err());
        let nothing = |_, _| ();
        assert!(place(&out, Some(&[0, 10]), None, 2, nothing).is_err());
        assert!(place(&out, Some(&[0]), None, 2, nothing).is_err() && place(&out, None, None, 9, nothing).is_err());
        let mut some = [[0.0; 3]; 4];
        place(&out, Some(&[9, 0]), Some(&[3, 1]), 4, |i, value| some[i] = value).unwrap();
        assert_eq!(some, [[0.0; 3], out[0], [0.0; 3], out[9]]);
        place(&out[..2], None, Some(&[2, 0]), 4, |i, value| some[i] = value).unwrap();
        assert_eq!(some, [out[1], out[0], out[0], out[9]]);
        assert!(place(&out, Some(&[9]), Some(&[4]), 4, nothing).is_err());
        assert!(place(&out, Some(&[9]), Some(&[]), 4, nothing).is_err());
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
