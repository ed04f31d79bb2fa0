//! Concatenation of parts: which frames of each part count, and where time jumps.
//!
//! Works on steps and times from the indices alone; it opens nothing.

use std::ops::Range;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result, printed};
use crate::index::Index;
use crate::named::Named;

/// Which frames are kept where parts overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// Frames of the later part, as a restart overwrites the earlier ones.
    Last,
    /// Frames of the earlier part.
    First,
    /// All frames: parts are concatenated, whatever their times say.
    All,
}

impl Named for Overlap {
    const OPTION: &'static str = "overlap";
    const ALL: &'static [(&'static str, Self)] = &[("last", Self::Last), ("first", Self::First), ("all", Self::All)];
}

/// A run of frames of one part, and their place in the trajectory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartSpan {
    /// Number of the part.
    pub part: usize,
    /// Its frames that are kept.
    pub kept: Range<u64>,
    /// Number of the first of them in the trajectory.
    pub first_frame: u64,
}

/// A jump between two neighbouring parts, forward or back.
#[derive(Debug, Clone, PartialEq)]
pub struct Gap {
    /// The part after the gap.
    pub part: usize,
    /// Its first frame in the trajectory.
    pub frame: u64,
    /// The last frame before the gap: part, and number in its file.
    pub before: (usize, u64),
    /// The first frame after it.
    pub after: (usize, u64),
}

/// Facts from which the order of a part follows.
pub(super) struct OrderedPart<'a> {
    pub path: &'a Path,
    pub index: &'a Index,
    /// From the file's unit of time to ps: parts may differ in it.
    pub time_scale: f64,
}

impl OrderedPart<'_> {
    fn n_frames(&self) -> u64 {
        self.index.n_frames()
    }

    fn time(&self, frame: u64) -> Option<f64> {
        self.index.time(frame).map(|time| time * self.time_scale).filter(|time| time.is_finite())
    }
}

/// Parts as one trajectory.
#[derive(Debug, Clone, Default)]
pub struct Concatenation {
    /// Kept runs, ascending; parts without a kept frame are absent.
    pub spans: Vec<PartSpan>,
    /// Jumps.
    pub gaps: Vec<Gap>,
    /// Number of frames.
    pub n_frames: u64,
}

impl Concatenation {
    /// The span that holds a frame, which must be below `n_frames`.
    pub fn span_of(&self, frame: u64) -> &PartSpan {
        let after = self.spans.partition_point(|span| span.first_frame <= frame);
        &self.spans[after - 1]
    }
}

/// Key by which frames are ordered. Steps are exact, so they are preferred if they rise in all parts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    Step,
    Time,
}

impl Key {
    fn value(self, part: &OrderedPart<'_>, frame: u64) -> Option<f64> {
        match self {
            // steps below 2^53 are exact in f64
            Self::Step => part.index.step(frame).map(|step| step as f64),
            Self::Time => part.time(frame),
        }
    }

    fn rises(self, index: &OrderedPart<'_>) -> bool {
        let n = index.n_frames();
        match n {
            0 => true,
            1 => self.value(index, 0).is_some(),
            _ => matches!((self.value(index, 0), self.value(index, n - 1)), (Some(first), Some(last)) if last > first),
        }
    }

    /// Whether the key orders the parts: if all parts have a single frame, two of them must differ.
    fn orders(self, indices: &[OrderedPart<'_>]) -> bool {
        let mut firsts = indices.iter().filter(|index| index.n_frames() > 0).map(|index| self.value(index, 0));
        let first = firsts.next().flatten();
        indices.iter().all(|index| self.rises(index))
            && (indices.iter().any(|index| index.n_frames() > 1) || firsts.any(|other| other != first))
    }
}

/// Concatenates parts in the order given.
/// Errors: `InvalidArgument` when a part does not start after its predecessor's start and `overlap` is not `All`:
/// joining would drop a part entirely.
pub(super) fn concatenate(indices: &[OrderedPart<'_>], overlap: Overlap) -> Result<Concatenation> {
    let key = [Key::Step, Key::Time].into_iter().find(|key| key.orders(indices));
    let mut concatenation = Concatenation::default();
    let mut kept: Vec<(usize, Range<u64>)> = Vec::new();
    for (part, index) in indices.iter().enumerate() {
        let mut range = 0..index.n_frames();
        if range.is_empty() {
            continue;
        }
        if let (Some(key), true) = (key, overlap != Overlap::All) {
            match overlap {
                Overlap::Last => trim_earlier(indices, &mut kept, part, key)?,
                _ => range.start = frames_before(part, kept.last(), indices, key)?,
            }
        }
        if !range.is_empty() {
            kept.push((part, range));
        }
    }
    for (part, range) in kept {
        if let (Some(key), Some(before)) = (key, concatenation.spans.last()) {
            concatenation.gaps.extend(gap_between(indices, before, part, range.start, concatenation.n_frames, key));
        }
        let first_frame = concatenation.n_frames;
        concatenation.n_frames += range.end - range.start;
        concatenation.spans.push(PartSpan { part, kept: range, first_frame });
    }
    Ok(concatenation)
}

/// Removes the ends of earlier parts that reach to or beyond the start of part `part`.
fn trim_earlier(indices: &[OrderedPart<'_>], kept: &mut [(usize, Range<u64>)], part: usize, key: Key) -> Result<()> {
    let Some(start) = key.value(&indices[part], 0) else { return Ok(()) };
    let Some((earlier, range)) = kept.last_mut() else { return Ok(()) };
    let index = &indices[*earlier];
    // searched from the end: overlaps are short, and a part need not be sorted throughout
    while range.end > range.start && key.value(index, range.end - 1).is_some_and(|value| value >= start) {
        range.end -= 1;
    }
    if range.is_empty() { Err(superseded(indices, *earlier, part, key)) } else { Ok(()) }
}

/// How many of the first frames of a part lie at or before the last kept frame.
fn frames_before(
    part: usize,
    last: Option<&(usize, Range<u64>)>,
    indices: &[OrderedPart<'_>],
    key: Key,
) -> Result<u64> {
    let Some((earlier, range)) = last else { return Ok(0) };
    let Some(end) = key.value(&indices[*earlier], range.end - 1) else { return Ok(0) };
    let index = &indices[part];
    if key.value(index, 0) <= key.value(&indices[*earlier], range.start) && index.n_frames() > 0 {
        return Err(superseded(indices, *earlier, part, key));
    }
    let mut skipped = 0;
    while skipped < index.n_frames() && key.value(index, skipped).is_some_and(|value| value <= end) {
        skipped += 1;
    }
    Ok(skipped)
}

fn superseded(parts: &[OrderedPart<'_>], earlier: usize, later: usize, key: Key) -> Error {
    let name = if key == Key::Step { "steps" } else { "times" };
    let earlier = printed(parts[earlier].path);
    let what = format!(
        "does not start after the start of {earlier} (by their {name}), so joining them by time would drop a part; \
         give the parts in order, or overlap=\"all\" to put them one after the other"
    );
    Error::new(ErrorKind::InvalidArgument, what).with_path(parts[later].path)
}

fn gap_between(
    indices: &[OrderedPart<'_>],
    before: &PartSpan,
    part: usize,
    first: u64,
    frame: u64,
    key: Key,
) -> Option<Gap> {
    let (earlier, later) = (&indices[before.part], &indices[part]);
    let last = before.kept.end - 1;
    let (end, start) = (key.value(earlier, last)?, key.value(later, first)?);
    let turns_back = start <= end || matches!((earlier.time(last), later.time(first)), (Some(a), Some(b)) if b < a);
    // the usual distance between frames, from whichever side has two of them
    let stride = if before.kept.end - before.kept.start > 1 {
        Some(end - key.value(earlier, last - 1)?)
    } else if first + 1 < later.n_frames() {
        Some(key.value(later, first + 1)? - start)
    } else {
        None
    };
    let leaves_out = stride.is_some_and(|stride| start - end > 1.5 * stride);
    (turns_back || leaves_out).then_some(Gap { part, frame, before: (before.part, last), after: (part, first) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::TableBuilder;

    fn part(steps: impl IntoIterator<Item = i64>) -> Index {
        let mut builder = TableBuilder::new(0);
        for step in steps {
            builder.push(4, step, step as f64 * 0.5).unwrap();
        }
        Index::Table(builder.finish())
    }

    fn concatenated(parts: &[Index], overlap: Overlap) -> Result<Concatenation> {
        const PATHS: [&str; 3] = ["a", "b", "c"];
        let paths = PATHS.iter().map(Path::new);
        let parts: Vec<_> =
            parts.iter().zip(paths).map(|(index, path)| OrderedPart { path, index, time_scale: 1.0 }).collect();
        concatenate(&parts, overlap)
    }

    fn kept(parts: &[Index], overlap: Overlap) -> Vec<(usize, Range<u64>)> {
        concatenated(parts, overlap).unwrap().spans.into_iter().map(|span| (span.part, span.kept)).collect()
    }

    #[test]
    fn a_restart_overwrites_the_end_of_the_part_before_it() {
        let parts = [part([0, 10, 20, 30]), part([20, 30, 40]), part([50, 60])];
        assert_eq!(kept(&parts, Overlap::Last), [(0, 0..2), (1, 0..3), (2, 0..2)]);
        assert_eq!(kept(&parts, Overlap::First), [(0, 0..4), (1, 2..3), (2, 0..2)]);
        assert_eq!(kept(&parts, Overlap::All), [(0, 0..4), (1, 0..3), (2, 0..2)]);
    }

    #[test]
    fn gaps_are_reported_and_frames_are_found() {
        let parts = [part([0, 10]), part([20, 30]), part([70, 80])];
        let concatenation = concatenated(&parts, Overlap::Last).unwrap();
        assert_eq!(concatenation.gaps.len(), 1);
        assert_eq!((concatenation.gaps[0].before, concatenation.gaps[0].after), ((1, 1), (2, 0)));
        assert_eq!((concatenation.gaps[0].part, concatenation.gaps[0].frame), (2, 4));
        assert_eq!(concatenation.n_frames, 6);
        assert_eq!((concatenation.span_of(3).part, concatenation.span_of(4).part), (1, 2));
    }

    #[test]
    fn a_part_that_would_vanish_is_an_error_that_names_the_way_out() {
        let parts = [part([0, 10]), part([0, 10])];
        for overlap in [Overlap::Last, Overlap::First] {
            let error = concatenated(&parts, overlap).unwrap_err();
            assert!(error.to_string().contains("overlap=\"all\""));
            assert_eq!(error.path(), Some(Path::new("b")));
        }
        // parts without frames do not count
        let error = concatenated(&[part([0, 10]), part([]), part([0, 10])], Overlap::First).unwrap_err();
        assert_eq!(error.path(), Some(Path::new("c")));
        let all = concatenated(&parts, Overlap::All).unwrap();
        assert_eq!(all.n_frames, 4);
        // time that turns back is a jump as well
        assert_eq!((all.gaps.len(), all.gaps[0].frame), (1, 2));
    }

    #[test]
    fn parts_without_rising_steps_or_times_are_put_one_after_the_other() {
        let parts = [part([0, 0, 0]), part([0, 0])];
        assert_eq!(kept(&parts, Overlap::Last), [(0, 0..3), (1, 0..2)]);
        let single = [part([5]), part([5])];
        assert_eq!(kept(&single, Overlap::Last), [(0, 0..1), (1, 0..1)]);
        assert_eq!(kept(&[part([]), part([1, 2]), part([])], Overlap::Last), [(1, 0..2)]);
    }
}
