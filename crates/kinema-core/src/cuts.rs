//! Where work is divided: between which leaves a cut makes the fewest frames be decoded twice.
//!
//! It hands out nothing, and leaves stay what they are: engine and runners ask it where a piece of work had best end.

use std::cmp::Reverse;
use std::ops::Range;

use crate::frame::Fields;
use crate::selection::FrameSelection;
use crate::trajectory::Scanned;

/// Chunks that a piece has for each that a cut of it decodes again, where no cut is free: a quarter is lost at the most.
const CHUNKS_A_CUT: u64 = 3;

/// What a cut before each leaf costs; nothing at all where frames are decoded alone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cuts {
    n_leaves: u64,
    leaf_frames: u64,
    /// For each leaf how many of the selected frames are decoded twice where work is cut before it.
    costs: Vec<u64>,
    cost_something: bool,
    /// The leaves with which files begin, or those nearest to that, ascending.
    starts: Vec<u64>,
}

/// What a piece of work is to be like.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    /// Leaves that it should have.
    pub share: u64,
    /// Leaves that it has at the most.
    pub most: u64,
    /// Leaves that each worker gets of all.
    pub fair: u64,
    /// Leaves that each worker would get of those that are left, this piece among them.
    pub left: u64,
    /// Threads that run it together.
    pub threads: u64,
}

impl Wish {
    /// How many workers decode the same chunk of so many leaves: several only where others would get nothing, as it
    /// takes no longer than to wait.
    fn sharing(&self, chunk: u64) -> u64 {
        (chunk / self.fair.max(1)).max(1)
    }

    /// Leaves of a piece at the least, where a chunk holds so many: one chunk for each thread.
    fn least(&self, chunk: u64) -> u64 {
        match self.sharing(chunk) {
            1 => chunk.saturating_mul(self.threads).min(self.fair).max(chunk),
            several => chunk.div_ceil(several),
        }
    }
}

impl Cuts {
    /// From what each cut costs, in selected frames that are decoded twice: none, or one number for each leaf. `starts`
    /// are leaves with which files begin.
    pub fn new(n_leaves: u64, leaf_frames: u64, costs: Vec<u64>, mut starts: Vec<u64>) -> Self {
        starts.sort_unstable();
        starts.dedup();
        let cost_something = costs.iter().any(|&cost| cost > 0);
        Self { n_leaves, leaf_frames: leaf_frames.max(1), costs, cost_something, starts }
    }

    /// The cuts of a selection of a trajectory's frames.
    pub(crate) fn of(scanned: &Scanned, frames: &FrameSelection, fields: Fields, leaf_frames: u64) -> Self {
        let n_leaves = frames.len().div_ceil(leaf_frames);
        let part = |position: u64| scanned.joined.piece_of(frames.get(position)).part;
        // nearest to where the next file begins: it does so within half a leaf on either side
        let begins = |leaf: &u64| {
            let at = leaf * leaf_frames;
            let before = at - leaf_frames.div_ceil(2);
            let after = (at + leaf_frames / 2).clamp(at, frames.len() - 1);
            part(before) != part(after)
        };
        let starts = match scanned.joined.pieces.len() {
            0 | 1 => Vec::new(),
            _ => (1..n_leaves).filter(begins).collect(),
        };
        let whole = scanned.joined.pieces.iter().any(|piece| scanned.parts[piece.part].decoder.grain(fields).whole);
        let mut costs = Vec::new();
        if whole {
            // a chunk serves so many frames fewer where only some of them are wanted
            let step = (span(frames) / frames.len()).max(1);
            let twice = |position| decoded_twice(scanned, frames, fields, position).div_ceil(step);
            costs = (0..n_leaves).map(|leaf| if leaf == 0 { 0 } else { twice(leaf * leaf_frames) }).collect();
        }
        Self::new(n_leaves, leaf_frames, costs, starts)
    }

    /// The leaves with which files begin, or those nearest to that, ascending.
    pub fn starts(&self) -> &[u64] {
        &self.starts
    }

    /// Selected frames that are decoded twice where work is cut before a leaf.
    pub fn cost(&self, leaf: u64) -> u64 {
        usize::try_from(leaf).ok().and_then(|leaf| self.costs.get(leaf)).copied().unwrap_or(0)
    }

    /// Whether some cuts are worse than others because chunks are decoded twice.
    pub fn cost_something(&self) -> bool {
        self.cost_something
    }

    /// Whether all cuts are alike.
    pub fn are_alike(&self) -> bool {
        self.starts.is_empty() && !self.cost_something
    }

    /// The best cut in a range of leaves, which must not be empty: the cheapest; of these one where a file begins; of
    /// these the one that `near` prefers.
    fn best<K: Ord>(&self, within: Range<u64>, near: impl Fn(u64) -> K) -> u64 {
        let first = within.start;
        let inside = self.starts.partition_point(|&start| start < first);
        let begins = |leaf: u64| self.starts[inside..].binary_search(&leaf).is_ok();
        within.min_by_key(|&leaf| (self.cost(leaf), !begins(leaf), near(leaf))).unwrap_or(first)
    }

    /// Leaves whose frames are as many as are decoded twice where work is cut before a leaf.
    fn cost_in_leaves(&self, leaf: u64) -> u64 {
        self.cost(leaf).div_ceil(self.leaf_frames)
    }

    /// The best place near leaf `wanted` to cut a contiguous share of so many leaves from the next.
    pub fn between_shares(&self, wanted: u64, share: u64) -> u64 {
        let mut slack = share / 4;
        let chunk = self.cost_in_leaves(wanted);
        if chunk < 2 * share.max(1) {
            // where the chunk begins or ends, if a leaf does
            slack = slack.max(chunk.div_ceil(2));
        }
        let last = self.n_leaves.min(wanted.saturating_add(slack));
        self.best(wanted.saturating_sub(slack)..last.max(wanted).saturating_add(1), |leaf| leaf.abs_diff(wanted))
    }

    /// Where a piece of work ends that begins with leaf `first`, of the leaves up to `end`.
    ///
    /// A piece that cannot end where a chunk does is large enough for what it decodes twice to be little.
    pub fn end_of_piece(&self, first: u64, end: u64, wish: Wish) -> u64 {
        let last = first + wish.most.max(1).min(end.saturating_sub(first));
        let mut wanted = first.saturating_add(wish.share.max(1)).min(last);
        let least = wish.least(self.cost_in_leaves(wanted));
        wanted = wanted.max(first.saturating_add(least)).min(last);
        let chunk = self.cost_in_leaves(wanted);
        let slack = (wanted - first) / 4;
        // where a chunk ends, if a leaf ends there: no farther than the chunk reaches that would be cut
        let reach = if wish.sharing(chunk) == 1 { chunk } else { slack };
        let window = |wanted: u64, slack: u64, more: u64| {
            let from = (wanted - slack).max(first + 1).min(last);
            from..last.min(wanted.saturating_add(slack.max(more))) + 1
        };
        // round numbers are ends of large subtrees of the merge tree: fewer nodes to send
        let rank = |wanted: u64, slack: u64| {
            move |leaf: u64| {
                let off = leaf.abs_diff(wanted);
                (off.saturating_sub(slack), Reverse(leaf.trailing_zeros()), off)
            }
        };
        let found = match wanted == end {
            true => end,
            false => self.best(window(wanted, slack, reach), rank(wanted, slack)),
        };
        if self.cost(found) == 0 {
            return found;
        }
        let least = wish.least(chunk);
        let enough = chunk.saturating_mul(CHUNKS_A_CUT).saturating_mul(wish.threads).min(wish.left).max(least);
        wanted = wanted.max(first.saturating_add(enough));
        if wanted.saturating_add(least) > last {
            // what would be left is too little
            if last == end {
                return end;
            }
            wanted = wanted.min(last);
        }
        let slack = (wanted - first).saturating_sub(least).min((wanted - first) / 4);
        self.best(window(wanted, slack, 0), rank(wanted, slack))
    }

    /// Some leaves as pieces, for so many threads that take one after the other.
    pub(crate) fn pieces(&self, leaves: &[Range<u64>], share: u64, threads: u64) -> Vec<Range<u64>> {
        let total: u64 = leaves.iter().map(|range| range.end.saturating_sub(range.start)).sum();
        let fair = total.div_ceil(threads.max(1)).max(1);
        let wish = Wish { share: share.min(fair), most: u64::MAX, fair, left: fair, threads: 1 };
        let mut pieces = Vec::new();
        for range in leaves {
            let mut first = range.start;
            while first < range.end {
                let end = self.end_of_piece(first, range.end, wish);
                pieces.push(first..end);
                first = end;
            }
        }
        pieces
    }
}

/// How many frames of the trajectory the selection stretches over, from its first to its last.
pub(crate) fn span(frames: &FrameSelection) -> u64 {
    frames.get(frames.len() - 1).abs_diff(frames.get(0)) + 1
}

/// How much is decoded twice, in frames of a file, where the frame at a position of the selection (not the first) and the
/// one before it are read apart.
pub(crate) fn decoded_twice(scanned: &Scanned, frames: &FrameSelection, fields: Fields, position: u64) -> u64 {
    let (before, after) = (frames.get(position - 1), frames.get(position));
    let [left, right] = [before, after].map(|frame| scanned.joined.piece_of(frame));
    if left.part != right.part {
        return 0;
    }
    let [before, after] =
        [(left, before), (right, after)].map(|(piece, frame)| piece.kept.start + (frame - piece.first_frame));
    scanned.parts[left.part].decoder.decoded_twice(before, after, fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(n_leaves: u64, leaf_frames: u64, chunk: u64) -> Cuts {
        let cost = |leaf: u64| if (leaf * leaf_frames).is_multiple_of(chunk) { 0 } else { chunk };
        Cuts::new(n_leaves, leaf_frames, (0..n_leaves).map(cost).collect(), Vec::new())
    }

    #[test]
    fn pieces_cover_all_leaves_and_end_where_chunks_do() {
        for (chunk, free) in [(5120, true), (5000, false), (100, false), (256, true), (1, true)] {
            let cuts = chunks(1000, 256, chunk);
            for threads in 1..9 {
                let pieces = cuts.pieces(&[0..400, 401..402, 500..1000], 16, threads);
                assert!(pieces.iter().all(|piece| piece.start < piece.end));
                let leaves: Vec<u64> = pieces.iter().cloned().flatten().collect();
                assert!(leaves.into_iter().eq((0..400).chain(401..402).chain(500..1000)), "{chunk} {threads}");
                // but for the ends of the ranges
                let cut = pieces.iter().filter(|piece| ![400, 402, 1000].contains(&piece.end));
                assert!(!free || cut.clone().all(|piece| cuts.cost(piece.end) == 0), "{pieces:?}");
                assert!(cut.clone().all(|piece| (piece.end - piece.start) * 256 >= chunk), "{pieces:?}");
                assert!(cut.count() as u64 + 3 >= threads);
            }
        }
    }

    #[test]
    fn of_equally_cheap_cuts_those_with_which_files_begin_and_round_ones() {
        let cuts = Cuts::new(1000, 4, Vec::new(), vec![70, 70, 30]);
        let wish = |share| Wish { share, most: u64::MAX, fair: 500, left: 500, threads: 1 };
        assert_eq!(cuts.starts(), [30, 70]);
        assert_eq!(cuts.end_of_piece(0, 1000, wish(33)), 30);
        assert_eq!(cuts.end_of_piece(0, 1000, wish(50)), 48);
        assert_eq!(cuts.end_of_piece(0, 40, wish(50)), 40);
        assert_eq!(cuts.end_of_piece(999, 1000, wish(0)), 1000);
        assert_eq!(cuts.end_of_piece(0, 1000, Wish { most: 20, ..wish(33) }), 16);
        assert_eq!(cuts.between_shares(60, 60), 70);
        assert_eq!(cuts.between_shares(500, 250), 500);
        // whatever is asked for
        assert_eq!(cuts.end_of_piece(3, 9, Wish { share: u64::MAX, most: 0, fair: 0, left: 0, threads: 0 }), 4);
        assert_eq!(cuts.cost(u64::MAX), 0);
    }
}
