//! Steps and times of frames as a DCD header has them: evenly spaced, with times that follow from steps.

use super::header::AKMA_PS;
use crate::error::{Error, ErrorKind, Result};
use crate::format::first_lost;
use crate::frame::Stamp;
use crate::index::Spacing;

/// Times that differ by no more than this share are rounded: the time step of the header is a float32.
const ROUNDING: f64 = 4.0 / (1 << 23) as f64;

/// Steps and times as the header says them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Times {
    pub first: i32,
    pub stride: i32,
    pub delta: f32,
    /// Whether steps are those of the source.
    steps_kept: bool,
    /// Largest difference between these times and the times of the source, ps; infinite unless all frames have a time.
    error: f64,
}

impl Times {
    /// The times nearest to those of the frames. Steps are kept if times follow from them, as the format requires; else
    /// times are kept, if some first step gives them.
    pub fn fit(steps: &[i64], times: &[f64], losses: &mut Vec<String>) -> Self {
        let own = evenly_spaced(steps);
        let known = times.iter().filter(|time| time.is_finite()).count();
        let (start, end) = (times.first().copied().unwrap_or(0.0), times.last().copied().unwrap_or(0.0));
        // of a single frame: from step 0 to it
        let between = if times.len() > 1 { (end - start) / (times.len() - 1) as f64 } else { start.abs() };
        let tolerance = ROUNDING * start.abs().max(end.abs());
        let by_steps = own.map(|(first, stride)| Self::nearest(first, stride, times));
        let good = |candidate: &Self| known == 0 || candidate.error <= tolerance;
        let chosen = by_steps.filter(good).or_else(|| {
            let stride = own.map_or(1, |(_, stride)| stride);
            let first = (start / between * f64::from(stride)).round();
            let fits = first.is_finite() && first.abs() <= f64::from(i32::MAX);
            fits.then(|| Self::nearest(first as i32, stride, times)).filter(good)
        });
        let chosen = chosen.or(by_steps).unwrap_or_else(|| Self::nearest(0, 1, times));
        let chosen = Self { steps_kept: steps.iter().enumerate().all(|(i, &step)| chosen.step(i) == step), ..chosen };
        chosen.note(steps, times, known, tolerance, losses);
        chosen
    }

    /// The times that a header states.
    ///
    /// # Errors
    /// `Unsupported` for steps beyond 32 bits.
    pub fn stated(spacing: Spacing, delta: f32) -> Result<Self> {
        let narrow = |value| {
            i32::try_from(value).map_err(|_| Error::new(ErrorKind::Unsupported, "steps of the header beyond 32 bits"))
        };
        let (first, stride) = (narrow(spacing.first_step)?, narrow(spacing.steps)?);
        Ok(Self { first, stride, delta, steps_kept: true, error: f64::INFINITY })
    }

    /// Losses of steps and times of these frames, each with the first frame concerned.
    pub fn losses(&self, stamps: &[Stamp], first: u64) -> Vec<(&'static str, u64)> {
        let spacing = self.spacing();
        let mut frames = first..;
        let mut lost = |what, test: &dyn Fn(u64, &Stamp) -> bool| {
            frames.start = first;
            first_lost(what, stamps, first, |stamp| frames.next().is_some_and(|frame| test(frame, stamp)))
        };
        let error = |frame, time: f64| match spacing.time(frame) {
            Some(found) => ((found - time).abs(), ROUNDING * time.abs()),
            None => (f64::INFINITY, 0.0),
        };
        let losses = [
            lost("steps are not kept, a DCD file has evenly spaced ones from which times follow", &|frame, stamp| {
                spacing.step(frame) != stamp.step
            }),
            lost("times are not kept, a DCD file has evenly spaced ones that follow from steps", &|frame, stamp| {
                let (error, most) = error(frame, stamp.time);
                if stamp.time.is_nan() { spacing.time.is_some() } else { error > most }
            }),
            lost("times are rounded, as the time step of a DCD file is a float32", &|frame, stamp| {
                let (error, most) = error(frame, stamp.time);
                error > 0.0 && error <= most
            }),
        ];
        losses.into_iter().flatten().collect()
    }

    /// The times with the nearest time step.
    fn nearest(first: i32, stride: i32, times: &[f64]) -> Self {
        let none = Self { first, stride, delta: 0.0, steps_kept: false, error: f64::INFINITY };
        let (Some(&start), Some(&end)) = (times.first(), times.last()) else { return none };
        let (unit, last) = (f64::from(stride) * AKMA_PS, none.spacing().spacings(times.len() as u64 - 1));
        // from the distance between frames, and from step 0 to the last frame
        let mut guesses = vec![end / last / unit];
        if times.len() > 1 {
            guesses.push((end - start) / (times.len() - 1) as f64 / unit);
        } else if end == 0.0 && last == 0.0 {
            // any time step gives it: one of 1 ps
            guesses.push(1.0 / unit);
        }
        let candidates =
            guesses.into_iter().map(|delta| delta as f32).filter(|delta| delta.is_finite() && *delta > 0.0);
        let candidates = candidates.flat_map(|delta| [delta, delta.next_down(), delta.next_up()]);
        let all = candidates.map(|delta| {
            let made = Self { delta, ..none };
            Self { error: made.largest_error(times), ..made }
        });
        all.min_by(|a, b| a.error.total_cmp(&b.error)).unwrap_or(none)
    }

    /// As the reader has it.
    fn spacing(&self) -> Spacing {
        let time = f64::from(self.delta) * f64::from(self.stride) * AKMA_PS;
        let time = Some(time).filter(|time| time.is_finite() && *time > 0.0);
        Spacing { first_step: i64::from(self.first), steps: i64::from(self.stride), time }
    }

    fn step(&self, frame: usize) -> i64 {
        self.spacing().step(frame as u64)
    }

    fn largest_error(&self, times: &[f64]) -> f64 {
        let spacing = self.spacing();
        let error = |(frame, time): (usize, &f64)| match spacing.time(frame as u64) {
            Some(found) => (found - time).abs(),
            None => f64::INFINITY,
        };
        // NaN is none
        times.iter().enumerate().map(error).fold(0.0, |most, error| if error <= most { most } else { error })
    }

    fn note(&self, steps: &[i64], times: &[f64], known: usize, tolerance: f64, losses: &mut Vec<String>) {
        let n_frames = steps.len();
        if !self.steps_kept {
            let end = n_frames.saturating_sub(1);
            losses.push(format!(
                "steps are not kept, a DCD file has evenly spaced ones from which times follow: {} to {} instead of {} to {}",
                self.step(0),
                self.step(end),
                steps.first().copied().unwrap_or(0),
                steps.last().copied().unwrap_or(0)
            ));
        }
        if known == 0 {
            return;
        }
        let lost = "times are not kept, a DCD file has evenly spaced ones that follow from steps";
        if self.spacing().time.is_none() {
            losses.push(format!("{lost}: it will have none"));
        } else if known < n_frames {
            losses.push(format!("{lost}: {} of {n_frames} frames have none in the source", times.len() - known));
        } else if self.error > tolerance {
            // with the digits that it has
            losses.push(format!("{lost}: they differ by up to {} ps", self.error as f32));
        } else if self.error > 0.0 {
            let error = self.error;
            losses.push(format!("times are rounded by up to {error:.2e} ps: the time step of a DCD file is a float32"));
        }
    }

    /// Checks that step and time of a frame are the ones that were known before.
    pub fn check(&self, step: i64, time: f64, frame: u64) -> Result<()> {
        let spacing = self.spacing();
        let (own_step, own_time) = (spacing.step(frame), spacing.time(frame));
        let other_step = self.steps_kept && step != own_step;
        let other_time = self.error.is_finite() && own_time.is_some_and(|own| (own - time).abs() > self.error);
        if other_step || other_time {
            let what = format!(
                "step and time are others than when the frames were found, expected {own_step} and {} ps, found {step} \
                 and {time} ps",
                own_time.unwrap_or(f64::NAN)
            );
            return Err(Error::new(ErrorKind::Corrupt, what).with_frame(frame));
        }
        Ok(())
    }
}

/// First step and stride, if they fit and all steps follow from them.
fn evenly_spaced(steps: &[i64]) -> Option<(i32, i32)> {
    let first = i32::try_from(*steps.first()?).ok()?;
    let stride = match steps {
        [one, two, ..] => i32::try_from(two.checked_sub(*one)?).ok().filter(|stride| *stride > 0)?,
        _ => 1,
    };
    let spacing = Spacing { first_step: i64::from(first), steps: i64::from(stride), time: None };
    steps.iter().enumerate().all(|(i, &step)| spacing.step(i as u64) == step).then_some((first, stride))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times_of(steps: &[i64], times: &[f64]) -> (Times, Vec<String>) {
        let mut losses = Vec::new();
        let found = Times::fit(steps, times, &mut losses);
        (found, losses)
    }

    fn as_read(times: &Times, n_frames: u64) -> Vec<f64> {
        (0..n_frames).map(|frame| times.spacing().time(frame).unwrap_or(f64::NAN)).collect()
    }

    #[test]
    fn times_of_a_dcd_file_are_kept_to_the_bit() {
        for (first, stride, delta) in [(0, 1, 0.02_f32), (1000, 1000, 0.02), (-5, 7, 1.0), (250, 250, 0.040_909_62)] {
            let of = Times { first, stride, delta, steps_kept: true, error: 0.0 };
            for n_frames in [2_u64, 3, 10, 1000] {
                let steps: Vec<i64> = (0..n_frames).map(|frame| of.spacing().step(frame)).collect();
                let (found, losses) = times_of(&steps, &as_read(&of, n_frames));
                assert_eq!(losses, [""; 0]);
                assert_eq!((found.first, found.stride, found.delta), (first, stride, delta));
            }
        }
    }

    #[test]
    fn one_frame_keeps_its_step_and_time() {
        let (found, losses) = times_of(&[500], &[10.0]);
        assert!(found.steps_kept && found.error <= ROUNDING * 10.0, "{found:?} {losses:?}");
        let (found, losses) = times_of(&[0], &[0.0]);
        assert!(losses.is_empty() && found.spacing().time(0) == Some(0.0), "{found:?} {losses:?}");
        // a time and no step: a first step is chosen that gives it
        for time in [5.0, -5.0] {
            let (found, losses) = times_of(&[0], &[time]);
            assert!(losses[0].starts_with("steps are not kept"), "{losses:?}");
            assert!(found.error <= ROUNDING * 5.0, "{found:?}");
        }
    }

    #[test]
    fn times_count_more_than_where_steps_begin() {
        // as GROMACS has it with tinit = 100
        let steps: Vec<i64> = (0..5).map(|i| 500 * i).collect();
        let times: Vec<f64> = (0..5).map(|i| 100.0 + f64::from(i)).collect();
        let (found, losses) = times_of(&steps, &times);
        assert_eq!((found.first, found.stride), (50_000, 500));
        assert!(found.error <= ROUNDING * 104.0);
        assert!(losses[0].starts_with("steps are not kept"), "{losses:?}");
        assert!(losses[1].starts_with("times are rounded"), "{losses:?}");
        assert_eq!(losses.len(), 2);
    }

    #[test]
    fn what_a_header_cannot_say_is_listed() {
        let said = |steps: &[i64], times: &[f64]| times_of(steps, times).1.join("; ");
        assert!(said(&[0, 1, 3], &[0.0, 1.0, 3.0]).contains("times are not kept"));
        assert!(said(&[0, 1, 3], &[0.0, 1.0, 3.0]).contains("they differ by up to"));
        assert!(said(&[0, 1, 3], &[0.0, 1.0, 2.0]).starts_with("steps are not kept"));
        assert!(!said(&[0, 1, 3], &[0.0, 1.0, 2.0]).contains("times are not kept"));
        assert!(said(&[0, 1], &[3.0, 2.0]).contains("they differ by up to 3 ps"));
        assert!(said(&[0, 1], &[-3.0, -2.0]).starts_with("steps are not kept"));
        assert!(said(&[0, 1], &[-1.0, -2.0]).contains("it will have none"));
        assert!(said(&[0, 1, 2], &[0.0, f64::NAN, 2.0]).contains("1 of 3 frames have none"));
        assert_eq!(said(&[0, 1, 2], &[f64::NAN; 3]), "");
        assert_eq!(times_of(&[0, 1, 2], &[f64::NAN; 3]).0.spacing().time, None);
        assert!(said(&[1 << 40, (1 << 40) + 1], &[f64::NAN; 2]).starts_with("steps are not kept"));
    }
}
