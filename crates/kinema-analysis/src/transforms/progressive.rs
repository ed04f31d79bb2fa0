//! Superposes each frame on the frame before it, as superposed: the progressive fit of `gmx trjconv`.
//!
//! A frame turns with the frame that it is superposed on, so its rotation is the product of the rotations from frame to
//! frame ([`crate::analyses::motion::rotations`]); its centre moves to that of the first frame. Rotations are
//! multiplied in the order of frames, and the product is kept every `every` frames, at the stations. A worker begins at
//! the station before its frame with the product of that station, and multiplies on in the same order: its bits are
//! those of a single run through all frames.

use std::sync::Arc;

use kinema_core::frame::Fields;
use kinema_core::reduce::{AtomMap, FrameMut, Needs, RunUp, Transform};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};

use super::images::shift_frame;
use super::superpose::{TRANSFORM, move_frame, not_finite};
use crate::arguments::Arguments;
use crate::superposition::qcp::Motion;
use crate::superposition::steps::{Steps, turned};
use crate::superposition::{AtomsAndReference, IDENTITY, Matrix3};

/// Superposes frames on frames; the reference is the first frame.
#[derive(Debug, Clone)]
pub(super) struct Progressive {
    fitted: AtomsAndReference,
    steps: Steps,
    /// Frames from station to station.
    every: u64,
    stations: Arc<[Matrix3]>,
}

impl Progressive {
    /// Reads the arguments `rotations` and `every`.
    /// Errors: `InvalidArgument` for values that are not matrices.
    pub(super) fn from_arguments(fitted: AtomsAndReference, arguments: &Arguments) -> Result<Self> {
        let (stations, rest) = arguments.vectors("rotations")?.as_chunks::<3>();
        if stations.is_empty() || !rest.is_empty() {
            return Err(arguments.wrong("rotations", "numbers (3 x stations, 3)"));
        }
        let every = arguments.count("every", 1)? as u64;
        Ok(Self { steps: Steps::from_reference(fitted.reference()), fitted, every, stations: stations.into() })
    }

    /// The rotation of a frame in which the set has these positions.
    fn rotation(&self, state: &ProgressiveState, number: u64, positions: &[f32]) -> Result<Matrix3> {
        if let Some(rotation) = state.at_station {
            return Ok(rotation);
        }
        if number == 0 || state.before.len() != positions.len() {
            return Err(Error::new(ErrorKind::Internal, "a frame before its station was seen"));
        }
        let step = self.steps.rotation(&state.before, positions)?;
        Ok(turned(&state.rotation, &step.ok_or_else(|| not_finite(self.fitted.atoms(), positions))?))
    }
}

/// Buffers of one worker.
#[derive(Debug)]
pub(super) struct ProgressiveState {
    gathered: Vec<f32>,
    /// Positions of the set in the last frame seen, before it was moved; empty if the next frame is a station.
    before: Vec<f32>,
    rotation: Matrix3,
    /// The rotation of the next frame, if it is known.
    at_station: Option<Matrix3>,
}

impl Transform for Progressive {
    type State = ProgressiveState;

    fn id(&self) -> &'static str {
        TRANSFORM.id
    }

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS, atom_sets: vec![self.fitted.atoms().clone()] }
    }

    fn state(&self, _: &AtomSelection, _: &[AtomMap]) -> Result<ProgressiveState> {
        Ok(ProgressiveState { gathered: Vec::new(), before: Vec::new(), rotation: IDENTITY, at_station: None })
    }

    fn looks_back(&self) -> bool {
        true
    }

    fn run_up(&self, frame: u64, seen: Option<u64>) -> RunUp {
        RunUp::new(frame / self.every * self.every, frame, seen)
    }

    fn begin(&self, state: &mut ProgressiveState, frame: u64) -> Result<()> {
        let station = usize::try_from(frame / self.every).ok().and_then(|number| self.stations.get(number));
        state.at_station = station.copied().filter(|_| frame.is_multiple_of(self.every));
        if state.at_station.is_none() {
            let what = "the rotation of this frame is not known: the trajectory has grown since they were found";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        Ok(())
    }

    fn takes_shift(&self) -> bool {
        true
    }

    fn apply(&self, frame: &mut FrameMut<'_>, state: &mut ProgressiveState) -> Result<()> {
        let mut gathered = std::mem::take(&mut state.gathered);
        let positions = frame.positions_of(0, &mut gathered)?;
        let centring = self.fitted.reference().centring(positions);
        let centring = centring.ok_or_else(|| not_finite(self.fitted.atoms(), positions))?;
        let rotation = self.rotation(state, frame.number, positions)?;
        state.before.clear();
        state.before.extend_from_slice(positions);
        state.gathered = gathered;
        (state.rotation, state.at_station) = (rotation, None);
        if frame.number > 0 {
            move_frame(frame, &Motion { rotation, ..centring }, true);
        } else if let Some(by) = frame.shift.take() {
            shift_frame(frame, by);
        }
        Ok(())
    }
}
