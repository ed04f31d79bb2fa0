//! Times that the user states in place of those in the files.
//!
//! They are applied once, to decoded values; they are not applied if the file's own units are requested.

use super::{Concatenation, Part};
use crate::index::Index;

/// Times that replace the times of the files, ps.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StatedTimes {
    /// Between neighbouring frames of a file.
    pub dt: Option<f64>,
    /// Time of the first frame of the trajectory: all times are shifted.
    pub first: Option<f64>,
    /// Added to all times.
    pub offset: Option<f64>,
}

/// Origin of the times of a part.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Origin {
    /// The file.
    Stored,
    /// Evenly spaced, beginning with this time in ps.
    From(f64),
    /// Evenly spaced; the step of a frame says how many spacings precede it.
    BySteps,
    /// Evenly spaced; the part's first frame would have this number in the trajectory.
    ByNumber(f64),
}

/// The times of all parts, as they were stated.
#[derive(Debug, Clone, Default)]
pub(super) struct PartTimes {
    stated: StatedTimes,
    origins: Vec<Origin>,
    /// Time of the first frame before it is shifted.
    first: f64,
}

impl PartTimes {
    pub(super) fn new(
        stated: StatedTimes,
        parts: &[Part],
        concatenation: &Concatenation,
        overlap: super::Overlap,
    ) -> Self {
        // nothing is left of the files' own times, which order no parts either
        let runs_on = stated.first.is_some() && overlap == super::Overlap::All;
        let first_of = |number: usize| {
            let span = concatenation.spans.iter().find(|span| span.part == number);
            span.map_or(0.0, |span| span.first_frame as f64 - span.kept.start as f64)
        };
        let origin = |(number, part): (usize, &Part)| match (stated.dt, &part.index) {
            (None, _) => Origin::Stored,
            (Some(_), _) if runs_on => Origin::ByNumber(first_of(number)),
            (Some(_), Index::Uniform(uniform)) if uniform.spacing.is_some() && uniform.times.is_none() => {
                Origin::BySteps
            }
            (Some(_), index) => {
                let start = Some(index).filter(|index| index.n_frames() > 0).and_then(|index| index.time(0));
                match start.filter(|start| start.is_finite()) {
                    Some(start) => Origin::From(start * part.scales.time),
                    None => Origin::ByNumber(first_of(number)),
                }
            }
        };
        let mut times = Self { stated, origins: parts.iter().enumerate().map(origin).collect(), first: 0.0 };
        if stated.first.is_some()
            && let Some(span) = concatenation.spans.first()
        {
            let (part, frame) = (&parts[span.part], span.kept.start);
            let stored = part.index.time(frame).map_or(f64::NAN, |time| time * part.scales.time);
            let first = times.unshifted(span.part, part, frame, stored);
            // files without times have nothing to shift
            times.first = if first.is_finite() { first } else { 0.0 };
        }
        times
    }

    /// Whether all times are those of the files.
    pub(super) fn as_stored(&self) -> bool {
        self.stated == StatedTimes::default()
    }

    fn unshifted(&self, number: usize, part: &Part, frame: u64, stored: f64) -> f64 {
        match (self.origins[number], self.stated.dt) {
            (Origin::Stored, _) | (_, None) => stored,
            (Origin::From(start), Some(dt)) => start + frame as f64 * dt,
            (Origin::ByNumber(before), Some(dt)) => (before + frame as f64) * dt,
            (Origin::BySteps, Some(dt)) => match &part.index {
                Index::Uniform(uniform) => uniform.spacing.map_or(stored, |spacing| spacing.spacings(frame) * dt),
                Index::Table(_) | Index::Chunked(_) => stored,
            },
        }
    }

    /// Shift added to all times, ps; 0 if nothing is stated.
    pub(super) fn shift(&self) -> f64 {
        self.stated.first.map_or(0.0, |first| first - self.first) + self.stated.offset.unwrap_or(0.0)
    }

    /// The time of a frame of a part; `stored` is the file's time in ps, NaN if it has none.
    pub(super) fn time(&self, number: usize, part: &Part, frame: u64, stored: f64) -> f64 {
        let mut time = self.unshifted(number, part, frame, stored);
        if let Some(first) = self.stated.first {
            time = (time - self.first) + first;
        }
        if let Some(offset) = self.stated.offset {
            time += offset;
        }
        time
    }
}
