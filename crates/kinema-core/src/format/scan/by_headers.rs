//! The scans by headers as one object, whatever the format: [`HeaderScan`] of all [`FrameHeaders`].

use std::ops::Range;

use super::{FrameHeaders, PARALLEL_FROM, Scan, ScanOptions};
use crate::error::Result;
use crate::index::TableIndex;
use crate::source::Source;

/// Finds the frames of a file by their headers, in the whole file or in ranges of its bytes.
pub trait HeaderScan {
    /// Where the first frame begins.
    fn first_frame(&self) -> u64;

    /// Finds all frames. `ranges` are indices of ascending byte ranges, if any; the result is the same with and without
    /// them.
    ///
    /// # Errors
    /// As [`crate::format::Decoder`]'s `scan`.
    fn scan(&self, source: &dyn Source, options: &ScanOptions<'_>, ranges: &[TableIndex]) -> Result<Scan>;

    /// The frames that start in a byte range, up to the first that contradicts the format.
    ///
    /// # Errors
    /// Errors of the source and of `progress`.
    fn scan_range(
        &self,
        source: &dyn Source,
        range: Range<u64>,
        progress: &(dyn Fn(u64) -> Result<()> + Sync),
    ) -> Result<TableIndex>;

    /// Compares length, step and time of a frame in an index with its header. In text, where no header states the
    /// length, the lines are counted if `whole`.
    ///
    /// # Errors
    /// `Corrupt` or `Truncated`, with frame and byte, if they differ or if there is no header; errors of the source.
    fn compare_frame(&self, source: &dyn Source, table: &TableIndex, frame: u64, whole: bool) -> Result<()>;
}

impl<H: FrameHeaders> HeaderScan for H {
    fn first_frame(&self) -> u64 {
        self.first()
    }

    fn scan(&self, source: &dyn Source, options: &ScanOptions<'_>, ranges: &[TableIndex]) -> Result<Scan> {
        match ranges {
            [] => super::scan(source, self, options, PARALLEL_FROM),
            ranges => super::scan_with_ranges(source, self, options, ranges),
        }
    }

    fn scan_range(
        &self,
        source: &dyn Source,
        range: Range<u64>,
        progress: &(dyn Fn(u64) -> Result<()> + Sync),
    ) -> Result<TableIndex> {
        super::scan_range(source, self, range, progress)
    }

    fn compare_frame(&self, source: &dyn Source, table: &TableIndex, frame: u64, whole: bool) -> Result<()> {
        super::compare_frame(source, self, table, frame, whole)
    }
}
