//! Ranged scan: several processes scan byte ranges of a part, and one of them merges the indices.
//!
//! It sends nothing: the caller distributes the ranges and collects their indices.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::PoisonError;

use super::stored_index;
use super::{IndexPolicy, TrajectoryFiles, open_decoder};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Arrangement;
use crate::index::TableIndex;
use crate::index::identity::FileIdentity;
use crate::index::store::{self, LoadOutcome};
use crate::source::FileStatus;

impl TrajectoryFiles {
    /// The parts that must be scanned because no stored index fits: number, and the range of bytes after the frames
    /// indexed so far.
    ///
    /// # Errors
    /// Errors of opening the parts.
    pub fn unindexed(&self) -> Result<Vec<(usize, Range<u64>)>> {
        let mut ranges = Vec::new();
        if self.scanned().is_some() {
            return Ok(ranges);
        }
        for (number, path) in self.paths.iter().enumerate() {
            let source = self.handles.get((number, 0), path)?;
            let (format, decoder) = open_decoder(&*source, &self.options)?;
            if !matches!(decoder.arrangement(), Arrangement::Headers(_)) {
                continue;
            }
            let loaded = match self.options.index {
                IndexPolicy::Auto => stored_index::load(path, &*source, &*decoder, format.info().name)?,
                IndexPolicy::Memory | IndexPolicy::Rebuild => LoadOutcome::Absent,
            };
            let from = match &loaded {
                LoadOutcome::Fits(..) => continue,
                LoadOutcome::Grew(index) => index.end().unwrap_or(0),
                LoadOutcome::Absent | LoadOutcome::Rejected(_) | LoadOutcome::Wrong(_) => 0,
            };
            // before any process reads from it
            let status = FileStatus::settled_of(&*source)?;
            self.with_ranges(|all| all.insert(number, ScannedRanges { status, tables: Vec::new() }));
            ranges.push((number, from..source.len()?));
        }
        Ok(ranges)
    }

    /// Scans the frames of a part that start in a byte range. Returns the index as bytes for
    /// [`TrajectoryFiles::add_scanned_ranges`] of another process.
    ///
    /// # Errors
    /// Errors of the source and of `progress`; `InvalidArgument` for a part that does not exist.
    pub fn scan_range(
        &self,
        part: usize,
        range: Range<u64>,
        progress: &(dyn Fn(u64) -> Result<()> + Sync),
    ) -> Result<Vec<u8>> {
        let path = self.paths.get(part).ok_or_else(|| no_part(part))?;
        let source = self.handles.get((part, 0), path)?;
        let (format, decoder) = open_decoder(&*source, &self.options)?;
        let table = match decoder.arrangement() {
            Arrangement::Headers(headers) => headers.scan_range(&*source, range, progress)?,
            Arrangement::Uniform(_) | Arrangement::Listed { .. } => TableIndex::default(),
        };
        let identity = FileIdentity::from_size(source.len()?);
        Ok(store::encode(&table, &identity, format.info().name, decoder.header().n_atoms))
    }

    /// Adds the indices of ascending byte ranges of a part; the next [`TrajectoryFiles::scan`] uses them.
    ///
    /// # Errors
    /// `Corrupt` for bytes that are not from [`TrajectoryFiles::scan_range`]; `InvalidArgument` for a part that does
    /// not exist.
    pub fn add_scanned_ranges(&self, part: usize, indices: &[Vec<u8>]) -> Result<()> {
        let path = self.paths.get(part).ok_or_else(|| no_part(part))?;
        let source = self.handles.get((part, 0), path)?;
        let (format, decoder) = open_decoder(&*source, &self.options)?;
        let tables = indices
            .iter()
            .map(|bytes| store::decode(bytes, format.info().name, decoder.header().n_atoms).map(|(table, _)| table))
            .collect::<std::result::Result<Vec<TableIndex>, String>>()
            .map_err(|reason| {
                Error::new(ErrorKind::Corrupt, format!("the index of a byte range cannot be used: {reason}"))
                    .with_path(path)
            })?;
        self.with_ranges(|all| all.entry(part).or_default().tables = tables);
        Ok(())
    }

    /// Takes out the indices of byte ranges of a part, and its status before they were scanned.
    pub(super) fn take_scanned_ranges(&self, part: usize) -> (Option<FileStatus>, Vec<TableIndex>) {
        let taken = self.with_ranges(|all| all.remove(&part)).unwrap_or_default();
        (taken.status, taken.tables)
    }

    fn with_ranges<T>(&self, work: impl FnOnce(&mut BTreeMap<usize, ScannedRanges>) -> T) -> T {
        work(&mut self.scanned_ranges.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A part's status before its ranges were scanned, and the indices of the ranges in order.
#[derive(Default)]
pub(super) struct ScannedRanges {
    status: Option<FileStatus>,
    tables: Vec<TableIndex>,
}

fn no_part(part: usize) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("there is no part {part}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::trajectory::{OpenOptions, Trajectory};

    #[test]
    fn ranges_of_another_process_give_the_same_index() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/xtc/mixed.xtc");
        let options = OpenOptions { index: IndexPolicy::Memory, ..OpenOptions::default() };
        let open = || Trajectory::open(vec![path.clone()], options.clone()).unwrap();
        let (alone, combined, helper) = (open(), open(), open());
        alone.scan(1, &|_| Ok(())).unwrap();
        let todo = combined.unindexed().unwrap();
        assert_eq!(todo.len(), 1);
        let (part, range) = todo[0].clone();
        let middle = range.end / 2;
        let found: Vec<Vec<u8>> = [0..middle, middle..range.end]
            .into_iter()
            .map(|range| helper.scan_range(part, range, &|_| Ok(())).unwrap())
            .collect();
        combined.add_scanned_ranges(part, &found).unwrap();
        combined.scan(1, &|_| Ok(())).unwrap();
        assert_eq!(alone.scanned().unwrap().parts[0].index, combined.scanned().unwrap().parts[0].index);
        assert!(combined.unindexed().unwrap().is_empty());
        assert_eq!(open().add_scanned_ranges(0, &[vec![1, 2]]).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(open().add_scanned_ranges(7, &[]).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(helper.scan_range(7, 0..1, &|_| Ok(())).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}
