//! Units that the user states in place of what files say.

use super::Scales;

/// The units of the files, as factors to angstrom, ps, angstrom/ps and kJ/(mol angstrom); `None`: the format's own
/// unit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StatedUnits {
    /// Unit of positions and cells.
    pub length: Option<f64>,
    /// Unit of times.
    pub time: Option<f64>,
    /// Unit of velocities; `None`: length by time, if either is stated.
    pub velocity: Option<f64>,
    /// Unit of forces; `None`: the format's energy by length, if the length is stated.
    pub force: Option<f64>,
}

impl StatedUnits {
    /// The factors in place of a format's own `scales`; `time_unit`: the decoder has multiplied times by it.
    pub fn replace(&self, scales: Scales, time_unit: f64) -> Scales {
        let length = self.length.map_or(1.0, |length| length / scales.length);
        let time = self.time.map_or(1.0, |time| time / (time_unit * scales.time));
        let derived = |stated: Option<f64>, own: f64, change: f64| stated.unwrap_or(own * change);
        Scales {
            length: self.length.unwrap_or(scales.length),
            velocity: derived(self.velocity, scales.velocity, length / time),
            force: derived(self.force, scales.force, 1.0 / length),
            time: self.time.map_or(scales.time, |time| time / time_unit),
        }
    }
}
