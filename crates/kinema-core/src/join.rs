//! Joins parts into one trajectory: which frames of each part count, and where time jumps.
//!
//! Works on steps and times from the indices alone; it opens nothing.

use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};
use crate::index::Index;

/// Which frames are kept where parts overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// Those of the later part, as a restart overwrites them.
    Last,
    /// Those of the earlier part.
    First,
    /// All: parts are put one after the other, whatever their times say.
    All,
}

/// A run of frames of one part, and their place in the trajectory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Number of the part.
    pub part: usize,
    /// Its frames that are kept.
    pub kept: Range<u64>,
    /// Number of the first of them in the trajectory.
    pub first_frame: u64,
}

/// A jump between two neighbouring parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Gap {
    /// The part after the gap.
    pub part: usize,
    /// Its first frame in the trajectory.
    pub frame: u64,
    /// Time before and after, where known.
    pub times: Option<(f64, f64)>,
    /// Step before and after, where known.
    pub steps: Option<(i64, i64)>,
}

/// Parts as one trajectory.
#[derive(Debug, Clone, Default)]
pub struct Joined {
    /// Kept runs, ascending; parts of which nothing is kept are absent.
    pub pieces: Vec<Piece>,
    /// Jumps.
    pub gaps: Vec<Gap>,
    /// Number of frames.
    pub n_frames: u64,
}

impl Joined {
    /// The piece that holds a frame, which must be below `n_frames`.
    pub fn piece_of(&self, frame: u64) -> &Piece {
        let after = self.pieces.partition_point(|piece| piece.first_frame <= frame);
        &self.pieces[after - 1]
    }
}

/// What orders frames: steps are exact, so they are preferred where all parts have rising ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    Step,
    Time,
}

impl Key {
    fn of(self, index: &Index, frame: u64) -> Option<f64> {
        match self {
            // steps below 2^53 are exact in f64
            Self::Step => index.step(frame).map(|step| step as f64),
            Self::Time => index.time(frame).filter(|time| time.is_finite()),
        }
    }

    fn rises(self, index: &Index) -> bool {
        let n = index.n_frames();
        match n {
            0 => true,
            1 => self.of(index, 0).is_some(),
            _ => matches!((self.of(index, 0), self.of(index, n - 1)), (Some(first), Some(last)) if last > first),
        }
    }

    /// Whether it tells parts apart: single-frame parts alone must differ somewhere.
    fn orders(self, indices: &[&Index]) -> bool {
        let mut firsts = indices.iter().filter(|index| index.n_frames() > 0).map(|index| self.of(index, 0));
        let first = firsts.next().flatten();
        indices.iter().all(|index| self.rises(index))
            && (indices.iter().any(|index| index.n_frames() > 1) || firsts.any(|other| other != first))
    }
}

/// Joins parts in the order given.
///
/// # Errors
/// `InvalidArgument` when a part does not start after its predecessor's start and `overlap` is not `All`: joining
/// would drop a part entirely.
pub fn join(indices: &[&Index], overlap: Overlap) -> Result<Joined> {
    let key = [Key::Step, Key::Time].into_iter().find(|key| key.orders(indices));
    let mut joined = Joined::default();
    let mut kept: Vec<(usize, Range<u64>)> = Vec::new();
    for (part, index) in indices.iter().enumerate() {
        let mut range = 0..index.n_frames();
        if range.is_empty() {
            continue;
        }
        if let (Some(key), true) = (key, overlap != Overlap::All) {
            match overlap {
                Overlap::Last => cut_earlier(indices, &mut kept, part, key)?,
                _ => range.start = frames_before(index, kept.last(), indices, key)?,
            }
        }
        if !range.is_empty() {
            kept.push((part, range));
        }
    }
    for (part, range) in kept {
        if let (Some(key), Some(before)) = (key, joined.pieces.last()) {
            joined.gaps.extend(gap_between(indices, before, part, range.start, joined.n_frames, key));
        }
        let first_frame = joined.n_frames;
        joined.n_frames += range.end - range.start;
        joined.pieces.push(Piece { part, kept: range, first_frame });
    }
    Ok(joined)
}

/// Cuts the ends of earlier parts that reach to or beyond the start of part `part`.
fn cut_earlier(indices: &[&Index], kept: &mut [(usize, Range<u64>)], part: usize, key: Key) -> Result<()> {
    let Some(start) = key.of(indices[part], 0) else { return Ok(()) };
    let Some((earlier, range)) = kept.last_mut() else { return Ok(()) };
    let index = indices[*earlier];
    // searched from the end: overlaps are short, and a part need not be sorted throughout
    while range.end > range.start && key.of(index, range.end - 1).is_some_and(|value| value >= start) {
        range.end -= 1;
    }
    if range.is_empty() { Err(superseded(*earlier, part, key)) } else { Ok(()) }
}

/// How many of the first frames of `index` lie at or before the last kept frame.
fn frames_before(index: &Index, last: Option<&(usize, Range<u64>)>, indices: &[&Index], key: Key) -> Result<u64> {
    let Some((earlier, range)) = last else { return Ok(0) };
    let Some(end) = key.of(indices[*earlier], range.end - 1) else { return Ok(0) };
    if key.of(index, 0) <= key.of(indices[*earlier], range.start) && index.n_frames() > 0 {
        return Err(superseded(*earlier, *earlier + 1, key));
    }
    let mut skipped = 0;
    while skipped < index.n_frames() && key.of(index, skipped).is_some_and(|value| value <= end) {
        skipped += 1;
    }
    Ok(skipped)
}

fn superseded(earlier: usize, later: usize, key: Key) -> Error {
    let name = if key == Key::Step { "steps" } else { "times" };
    Error::new(
        ErrorKind::InvalidArgument,
        format!(
            "part {later} does not start after the start of part {earlier} (by their {name}), so joining them by time \
             would drop a part; give the parts in order, or overlap=\"all\" to put them one after the other"
        ),
    )
}

fn gap_between(indices: &[&Index], before: &Piece, part: usize, first: u64, frame: u64, key: Key) -> Option<Gap> {
    let earlier = indices[before.part];
    let last = before.kept.end - 1;
    let (end, start) = (key.of(earlier, last)?, key.of(indices[part], first)?);
    // the usual distance between frames, from whichever side has two of them
    let stride = if before.kept.end - before.kept.start > 1 {
        end - key.of(earlier, last - 1)?
    } else if first + 1 < indices[part].n_frames() {
        key.of(indices[part], first + 1)? - start
    } else {
        return None;
    };
    (start - end > 1.5 * stride).then(|| Gap {
        part,
        frame,
        times: earlier.time(last).zip(indices[part].time(first)),
        steps: earlier.step(last).zip(indices[part].step(first)),
    })
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

    fn kept(parts: &[Index], overlap: Overlap) -> Vec<(usize, Range<u64>)> {
        let parts: Vec<&Index> = parts.iter().collect();
        join(&parts, overlap).unwrap().pieces.into_iter().map(|piece| (piece.part, piece.kept)).collect()
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
        let joined = join(&parts.iter().collect::<Vec<_>>(), Overlap::Last).unwrap();
        assert_eq!(joined.gaps.len(), 1);
        assert_eq!(joined.gaps[0].steps, Some((30, 70)));
        assert_eq!((joined.gaps[0].part, joined.gaps[0].frame), (2, 4));
        assert_eq!(joined.n_frames, 6);
        assert_eq!((joined.piece_of(3).part, joined.piece_of(4).part), (1, 2));
    }

    #[test]
    fn a_part_that_would_vanish_is_an_error_that_names_the_way_out() {
        let parts = [part([0, 10]), part([0, 10])];
        let refs: Vec<&Index> = parts.iter().collect();
        for overlap in [Overlap::Last, Overlap::First] {
            assert!(join(&refs, overlap).unwrap_err().to_string().contains("overlap=\"all\""));
        }
        assert_eq!(join(&refs, Overlap::All).unwrap().n_frames, 4);
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
