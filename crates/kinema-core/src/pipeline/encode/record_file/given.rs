//! Frames as a caller gives them to a file.

use super::Values;
use crate::frame::{Fields, Stamp};

/// Frames as the caller has them: angstrom and ps.
#[derive(Debug, Clone, Default)]
pub struct Given<'a> {
    /// Positions, velocities, forces, if the frames have them.
    pub vectors: [Option<Values<'a>>; 3],
    /// Cells, steps and times, one a frame.
    pub stamps: Vec<Stamp>,
}

impl Given<'_> {
    /// The vectors that the frames have, and those of them in float64.
    pub(super) fn fields(&self) -> (Fields, Fields) {
        let mut found = (Fields::NONE, Fields::NONE);
        for (field, values) in Fields::VECTORS.into_iter().zip(self.vectors) {
            if let Some(values) = values {
                found.0 = found.0 | field;
                found.1 = found.1 | if matches!(values, Values::F64(_)) { field } else { Fields::NONE };
            }
        }
        found
    }
}
