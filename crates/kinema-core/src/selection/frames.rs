//! The frame selection: which frames of a trajectory, in which order.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};

/// Frames of a trajectory in the order of the results: a stride, or a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameSelection {
    /// `count` frames: `start`, `start + step`, ...; `step` may be negative, never zero where `count > 1`.
    Stride {
        /// First frame.
        start: u64,
        /// Distance between neighbours.
        step: i64,
        /// How many.
        count: u64,
    },
    /// These frames in this order; repetitions are allowed.
    List(Arc<[u64]>),
}

impl FrameSelection {
    /// The frames in `list`; a stride where neighbours have the same distance.
    pub fn from_list(list: Vec<u64>) -> Self {
        let distances = |pair: &[u64]| i64::try_from(i128::from(pair[1]) - i128::from(pair[0])).ok();
        match list.first_chunk().and_then(|pair: &[u64; 2]| distances(pair)) {
            Some(step) if step != 0 && list.windows(2).all(|pair| distances(pair) == Some(step)) => {
                Self::Stride { start: list[0], step, count: list.len() as u64 }
            }
            _ => Self::List(list.into()),
        }
    }

    /// Number of selected frames.
    pub fn len(&self) -> u64 {
        match self {
            Self::Stride { count, .. } => *count,
            Self::List(list) => list.len() as u64,
        }
    }
    /// Whether no frame is selected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The frame at position `i` of the selection; `i` must be below `len()`.
    pub fn get(&self, i: u64) -> u64 {
        match self {
            Self::Stride { start, step, .. } => start.wrapping_add_signed(step.wrapping_mul(i as i64)),
            Self::List(list) => list[i as usize],
        }
    }

    /// Some of the frames, by their positions, which must be below `len()`.
    #[must_use]
    pub fn part(&self, positions: Range<u64>) -> Self {
        let count = positions.end - positions.start;
        match self {
            Self::Stride { step, .. } => Self::Stride { start: self.get(positions.start), step: *step, count },
            Self::List(list) => Self::List(list[positions.start as usize..positions.end as usize].into()),
        }
    }

    /// Frames of the trajectory from the first to the last of a selection that is not empty.
    pub fn reach(&self) -> u64 {
        self.get(self.len() - 1).abs_diff(self.get(0)) + 1
    }

    /// Checks that every frame lies below `n_frames`.
    ///
    /// # Errors
    /// `OutOfRange`, naming the first offending frame.
    pub fn check(&self, n_frames: u64) -> Result<()> {
        let beyond = match self {
            Self::Stride { count: 0, .. } => None,
            Self::Stride { start, step, count } => {
                let last = i128::from(*start) + i128::from(*step) * i128::from(*count - 1);
                [i128::from(*start), last].into_iter().find(|&frame| frame < 0 || frame >= i128::from(n_frames))
            }
            Self::List(list) => list.iter().find(|&&frame| frame >= n_frames).map(|&f| i128::from(f)),
        };
        match beyond {
            None => Ok(()),
            Some(frame) => Err(Error::new(
                ErrorKind::OutOfRange,
                format!("frame {frame} is out of range for a trajectory of {n_frames} frames"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_even_distances_is_a_stride() {
        for (list, expected) in [
            (vec![3, 4, 5], Some((3, 1))),
            (vec![9, 6, 3, 0], Some((9, -3))),
            (vec![u64::MAX, 0], None),
            (vec![2, 2, 2], None),
            (vec![0, 1, 3], None),
            (vec![5], None),
            (vec![], None),
        ] {
            let frames = FrameSelection::from_list(list.clone());
            match (&frames, expected) {
                (FrameSelection::Stride { start, step, .. }, Some(expected)) => assert_eq!((*start, *step), expected),
                (FrameSelection::List(_), None) => {}
                other => panic!("{other:?}"),
            }
            assert!((0..frames.len()).map(|i| frames.get(i)).eq(list));
        }
        assert_eq!(FrameSelection::from_list(vec![9, 6, 3]).reach(), 7);
    }
}
