//! Faults of the frames that were read, kept until notes are given; each fault of a file is reported once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::frame::Fields;

/// A fault of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FrameFault {
    /// Its cell cannot be used, and counts as absent.
    UnusableCell,
    /// Its cell is smaller than any molecule, and means that there is no cell.
    DummyCell,
    /// Values of this field were never written.
    Unwritten(Fields),
}

impl FrameFault {
    const UNUSABLE_CELL: &str = "unusable cell";
    const DUMMY_CELL: &str = "dummy cell";

    /// The name by which processes tell each other of it.
    pub fn name(self) -> String {
        match self {
            Self::UnusableCell => Self::UNUSABLE_CELL.to_owned(),
            Self::DummyCell => Self::DUMMY_CELL.to_owned(),
            Self::Unwritten(field) => field.names().concat(),
        }
    }

    /// The fault of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            Self::UNUSABLE_CELL => Some(Self::UnusableCell),
            Self::DUMMY_CELL => Some(Self::DummyCell),
            field => Fields::from_name(field).map(Self::Unwritten),
        }
    }
}

/// The first frame with each fault of each part, and whether it was said.
#[derive(Debug, Default)]
pub struct FrameFaults(Mutex<BTreeMap<(usize, FrameFault), (u64, bool)>>);

/// A fault of a part, by its number, and the first frame of its file in which it was seen.
pub type FoundFault = (usize, FrameFault, u64);

impl FrameFaults {
    /// Adds a frame of a part.
    pub fn add(&self, fault: FrameFault, part: usize, frame: u64) {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = found.entry((part, fault)).or_insert((frame, false));
        first.0 = first.0.min(frame);
    }

    /// All that were found.
    pub fn all(&self) -> Vec<FoundFault> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.iter().map(|(&(part, fault), &(frame, _))| (part, fault, frame)).collect()
    }

    /// The faults that were not taken before.
    pub fn take_new(&self) -> Vec<FoundFault> {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = found.iter_mut().filter(|(_, (_, said))| !said);
        new.map(|(&(part, fault), (frame, said))| {
            *said = true;
            (part, fault, *frame)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_a_name() {
        let fields = [Fields::POSITIONS, Fields::VELOCITIES, Fields::FORCES, Fields::CELL, Fields::STEP, Fields::TIME];
        let unwritten = fields.into_iter().map(FrameFault::Unwritten);
        for fault in unwritten.chain([FrameFault::UnusableCell, FrameFault::DummyCell]) {
            assert_eq!(FrameFault::from_name(&fault.name()), Some(fault));
        }
        assert_eq!(FrameFault::from_name("another"), None);
    }
}
