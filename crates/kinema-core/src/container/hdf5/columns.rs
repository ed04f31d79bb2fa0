//! Numbers of a chunk of an HDF5 data set on their way into the columns of a caller's row.

use std::ops::Range;

use super::array::{Array, Chunk};

/// Which units go where in a row of the caller, three components each.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    /// The atoms wanted, ascending; `None` for all.
    pub atoms: Option<&'a [u32]>,
    /// Whether a unit is a number, three of which make an atom, instead of an atom.
    pub flat: bool,
}

impl Columns<'_> {
    /// The wanted atoms within a range of atoms, and the column of the first.
    fn select(&self, atoms: Range<u64>) -> (usize, Option<&[u32]>) {
        match self.atoms {
            None => (atoms.start as usize, None),
            Some(list) => {
                let from = list.partition_point(|&atom| u64::from(atom) < atoms.start);
                let to = list.partition_point(|&atom| u64::from(atom) < atoms.end);
                (from, Some(&list[from..to.max(from)]))
            }
        }
    }
}

/// One frame of one chunk on its way into a row.
pub(super) struct Places<'a> {
    pub(super) array: &'a Array,
    pub(super) chunk: &'a Chunk,
    pub(super) first_unit: u64,
    pub(super) columns: &'a Columns<'a>,
}

impl Places<'_> {
    /// `None` if a buffer is too short.
    #[inline(always)]
    pub(super) fn copy<const SIZE: usize, R: Copy>(
        &self,
        bytes: &[u8],
        out: &mut [R],
        load: impl Fn([u8; SIZE]) -> R,
    ) -> Option<()> {
        let (numbers, _) = bytes.as_chunks::<SIZE>();
        let Chunk { units, components, .. } = self.chunk;
        if self.columns.flat {
            return self.copy_flat(numbers, out, load);
        }
        let stride = self.array.chunk[2] as usize;
        let n = (components.end - components.start) as usize;
        let first = components.start as usize;
        let skipped = units.start.max(self.first_unit) - self.first_unit;
        let there = numbers.len().div_ceil(stride) as u64;
        let atoms = units.start.max(self.first_unit)..units.end.min(self.first_unit + there);
        let (column, list) = self.columns.select(atoms.clone());
        match list {
            None if stride == 3 && n == 3 => {
                let count = (atoms.end - atoms.start) as usize * 3;
                let from = numbers.get(skipped as usize * 3..)?.get(..count)?;
                let out = out.get_mut(column * 3..)?.get_mut(..count)?;
                out.iter_mut().zip(from).for_each(|(out, bytes)| *out = load(*bytes));
            }
            None => {
                let out = out.get_mut(column * 3..)?.chunks_exact_mut(3);
                let from = numbers.get(skipped as usize * stride..)?.chunks(stride);
                for (out, from) in out.zip(from).take((atoms.end - atoms.start) as usize) {
                    let out = out.get_mut(first..first + n)?.iter_mut();
                    out.zip(from.get(..n)?).for_each(|(out, bytes)| *out = load(*bytes));
                }
            }
            Some(list) if n == 3 && first == 0 => {
                let out = out.get_mut(column * 3..)?.as_chunks_mut::<3>().0;
                for (out, &atom) in out.iter_mut().zip(list) {
                    let from = (u64::from(atom) - self.first_unit) as usize * stride;
                    let [x, y, z] = numbers.get(from..)?.first_chunk::<3>()?;
                    *out = [load(*x), load(*y), load(*z)];
                }
            }
            Some(list) => {
                let out = out.get_mut(column * 3..)?.chunks_exact_mut(3);
                for (out, &atom) in out.zip(list) {
                    let from = (u64::from(atom) - self.first_unit) as usize * stride;
                    let out = out.get_mut(first..first + n)?.iter_mut();
                    out.zip(numbers.get(from..)?.get(..n)?).for_each(|(out, bytes)| *out = load(*bytes));
                }
            }
        }
        Some(())
    }

    /// Frames x 3N: a chunk may begin and end inside an atom.
    #[inline(always)]
    fn copy_flat<const SIZE: usize, R: Copy>(
        &self,
        numbers: &[[u8; SIZE]],
        out: &mut [R],
        load: impl Fn([u8; SIZE]) -> R,
    ) -> Option<()> {
        let start = self.chunk.units.start.max(self.first_unit);
        let end = self.chunk.units.end.min(self.first_unit + numbers.len() as u64);
        let numbers = numbers.get((start - self.first_unit) as usize..)?;
        if self.columns.atoms.is_none() {
            let count = end.saturating_sub(start) as usize;
            let out = out.get_mut(start as usize..)?.get_mut(..count)?;
            out.iter_mut().zip(numbers).for_each(|(out, bytes)| *out = load(*bytes));
            return Some(());
        }
        let (column, list) = self.columns.select(start / 3..end.div_ceil(3));
        let out = out.get_mut(column * 3..)?.as_chunks_mut::<3>().0;
        for (out, &atom) in out.iter_mut().zip(list.unwrap_or_default()) {
            for (component, out) in out.iter_mut().enumerate() {
                let unit = u64::from(atom) * 3 + component as u64;
                if (start..end).contains(&unit) {
                    *out = load(*numbers.get((unit - start) as usize)?);
                }
            }
        }
        Some(())
    }

    /// The same for a chunk that is not stored.
    pub(super) fn fill<R: Copy>(&self, value: R, out: &mut [R]) -> Option<()> {
        let Chunk { units, components, .. } = self.chunk;
        if self.columns.flat {
            let (column, list) = self.columns.select(units.start / 3..units.end.div_ceil(3));
            let Some(list) = list else {
                out.get_mut(units.start as usize..units.end as usize)?.fill(value);
                return Some(());
            };
            for (i, &atom) in list.iter().enumerate() {
                for component in (0..3).filter(|component| units.contains(&(u64::from(atom) * 3 + component))) {
                    *out.get_mut((column + i) * 3 + component as usize)? = value;
                }
            }
            return Some(());
        }
        let (column, list) = self.columns.select(units.clone());
        let count = list.map_or((units.end - units.start) as usize, <[u32]>::len);
        for out in out.get_mut(column * 3..)?.chunks_exact_mut(3).take(count) {
            out.get_mut(components.start as usize..components.end as usize)?.fill(value);
        }
        Some(())
    }
}
