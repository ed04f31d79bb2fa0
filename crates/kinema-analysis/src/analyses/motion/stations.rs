//! Shared by kernels that sum up motion from frame to frame: stations, the frames at which sums are kept, and the
//! longest step.

use kinema_core::reduce::ResultArray;
use kinema_core::{Error, ErrorKind, Result};

use crate::arguments::Arguments;
use crate::partials::bytes::{Reader, Writer};

/// Frames of the trajectory up to which is summed up, ascending.
#[derive(Debug)]
pub(super) struct Stations(Vec<u32>);

impl Stations {
    /// The argument `stations`.
    /// Errors: `InvalidArgument` for anything but ascending numbers.
    pub(super) fn from_arguments(arguments: &Arguments) -> Result<Self> {
        let frames = arguments.index_rows::<1>("stations")?.as_flattened().to_vec();
        if !frames.is_sorted_by(|one, next| one < next) {
            return Err(Error::new(ErrorKind::InvalidArgument, "stations are frames in ascending order"));
        }
        Ok(Self(frames))
    }

    /// Stations for the examples of kernels.
    pub(super) fn example() -> Vec<u32> {
        vec![0, 2, 3, 8, 100, 103, 115, 130]
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether a frame is one.
    pub(super) fn contains(&self, frame: u64) -> bool {
        u32::try_from(frame).is_ok_and(|frame| self.0.binary_search(&frame).is_ok())
    }

    /// Reads the number of stations in a partial of `n_frames` frames.
    /// Errors: `Corrupt` for more than there can be.
    pub(super) fn read_number(&self, reader: &mut Reader<'_>, n_frames: u64) -> Result<u64> {
        let (most, found) = (n_frames.min(self.0.len() as u64), reader.u64("number of stations")?);
        if found <= most {
            Ok(found)
        } else {
            Err(reader.wrong("number of stations", format!("at most {most}"), found))
        }
    }
}

/// The longest step of a reduced coordinate without its jump, and the frame that ends the step; the first of several
/// equal ones.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct LongestStep {
    length: f64,
    frame: u64,
}

impl LongestStep {
    /// A step to a later frame.
    pub(super) fn see(&mut self, length: f64, frame: u64) {
        if length > self.length {
            *self = Self { length, frame };
        }
    }

    /// Takes the longest step of later frames into account.
    pub(super) fn merge(&mut self, later: Self) {
        self.see(later.length, later.frame);
    }

    /// "longest", "longest_frame" (1,).
    pub(super) fn results(self) -> [ResultArray; 2] {
        [
            ResultArray::new("longest", vec![1], vec![self.length]),
            ResultArray::new("longest_frame", vec![1], vec![self.frame]),
        ]
    }

    pub(super) fn write(self, writer: &mut Writer) {
        writer.u64(self.frame);
        writer.numbers(&[self.length]);
    }

    /// As [`LongestStep::write`] has written it.
    /// Errors: `Corrupt`.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let frame = reader.u64("frame of the longest step")?;
        Ok(Self { frame, length: reader.numbers(1, "longest step")?[0] })
    }
}
