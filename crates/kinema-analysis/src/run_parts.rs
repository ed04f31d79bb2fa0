//! Consecutive parts of a run, from which standard errors are taken.

use kinema_core::Result;

use crate::arguments::Arguments;

/// The first frame of each part, ascending.
#[derive(Debug, Clone)]
pub(crate) struct RunParts(Vec<u64>);

impl RunParts {
    /// The argument "blocks": the first frame of each part; by default all frames are one part.
    /// Errors: `InvalidArgument` for numbers that do not ascend, or for none.
    pub(crate) fn from_arguments(arguments: &Arguments) -> Result<Self> {
        let firsts = arguments.optional_numbers("blocks")?.unwrap_or(&[0.0]);
        if firsts.is_empty() || !firsts.is_sorted_by(|a, b| a < b) || firsts[0] < 0.0 {
            return Err(arguments.wrong("blocks", "ascending numbers of frames"));
        }
        Ok(Self(firsts.iter().map(|first| *first as u64).collect()))
    }

    /// Number of parts.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The part of a frame: the last one that does not begin after it.
    pub(crate) fn of(&self, frame: u64) -> usize {
        self.0.partition_point(|first| *first <= frame).saturating_sub(1)
    }
}
