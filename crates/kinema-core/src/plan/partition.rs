//! Partition of the leaves of a plan into tasks, so that tasks end where chunks and files end.
//!
//! It gives boundaries only: the pipeline and the runners schedule the tasks, and leaves are not changed.

use std::cmp::Reverse;
use std::ops::Range;

use super::{Domain, FrameDomain};
use crate::frame::Fields;
use crate::selection::FrameSelection;
use crate::trajectory::Scanned;

/// Least number of chunks of a task for each chunk that is decoded again because of the task, if no boundary is free:
/// at most a quarter of the work is redundant.
const CHUNKS_A_BOUNDARY: u64 = 3;

/// The cost of a task boundary before each leaf; zero if every frame is decoded alone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Partition {
    n_leaves: u64,
    leaf_frames: u64,
    /// For each leaf, the number of selected frames that are decoded a second time if a task begins with it.
    costs: Vec<u64>,
    has_costs: bool,
    /// The leaves with which files begin, or those nearest to that, ascending.
    file_starts: Vec<u64>,
}

/// The task that a worker requests.
#[derive(Debug, Clone, Copy)]
pub struct TaskRequest {
    /// Leaves that the task should have.
    pub share: u64,
    /// Leaves that it may have at most.
    pub most: u64,
    /// Leaves of the whole run for each worker.
    pub fair: u64,
    /// Leaves still to be assigned, for each worker, this task included.
    pub left: u64,
    /// Threads that run the task.
    pub threads: u64,
}

impl TaskRequest {
    /// How many workers decode the same chunk of `chunk` leaves. This is more than one only if some workers would get
    /// no task otherwise, as decoding the chunk again takes no longer than waiting.
    fn sharing(&self, chunk: u64) -> u64 {
        (chunk / self.fair.max(1)).max(1)
    }

    /// The fewest leaves of a task if a chunk holds `chunk` leaves: one chunk for each thread.
    fn least(&self, chunk: u64) -> u64 {
        match self.sharing(chunk) {
            1 => chunk.saturating_mul(self.threads).min(self.fair).max(chunk),
            several => chunk.div_ceil(several),
        }
    }
}

impl Partition {
    /// From the cost of a boundary before each leaf, in selected frames that are decoded a second time: empty, or one
    /// number for each leaf. `file_starts`: leaves with which files begin.
    pub fn new(n_leaves: u64, leaf_frames: u64, costs: Vec<u64>, mut file_starts: Vec<u64>) -> Self {
        file_starts.sort_unstable();
        file_starts.dedup();
        let has_costs = costs.iter().any(|&cost| cost > 0);
        Self { n_leaves, leaf_frames: leaf_frames.max(1), costs, has_costs, file_starts }
    }

    /// The partition of a selection of a trajectory's frames.
    pub(crate) fn from_selection(scanned: &Scanned, domain: &FrameDomain, fields: Fields) -> Self {
        let FrameDomain { frames, leaf_frames } = domain;
        let (n_leaves, leaf_frames) = (domain.n_leaves(), *leaf_frames);
        let part = |position: u64| scanned.concatenation.span_of(frames.get(position)).part;
        // nearest to the beginning of the next file, which is within half a leaf on either side
        let begins = |leaf: &u64| {
            let at = leaf * leaf_frames;
            let before = at - leaf_frames.div_ceil(2);
            let after = (at + leaf_frames / 2).clamp(at, frames.len() - 1);
            part(before) != part(after)
        };
        let file_starts = match scanned.concatenation.spans.len() {
            0 | 1 => Vec::new(),
            _ => (1..n_leaves).filter(begins).collect(),
        };
        let whole = scanned
            .concatenation
            .spans
            .iter()
            .any(|span| scanned.parts[span.part].decoder.coupling(fields).decoded_whole);
        let mut costs = Vec::new();
        if whole {
            // if only some frames are wanted, a chunk serves fewer of them by that factor
            let step = (frames.reach() / frames.len()).max(1);
            let redecoded = |position| redecoded_frames(scanned, frames, fields, position).div_ceil(step);
            costs = (0..n_leaves).map(|leaf| if leaf == 0 { 0 } else { redecoded(leaf * leaf_frames) }).collect();
        }
        Self::new(n_leaves, leaf_frames, costs, file_starts)
    }

    /// The leaves with which files begin, or those nearest to that, ascending.
    pub fn file_starts(&self) -> &[u64] {
        &self.file_starts
    }

    /// Number of selected frames that are decoded a second time if a task begins with a leaf.
    pub fn cost(&self, leaf: u64) -> u64 {
        usize::try_from(leaf).ok().and_then(|leaf| self.costs.get(leaf)).copied().unwrap_or(0)
    }

    /// Whether some boundaries make chunks be decoded a second time.
    pub fn has_costs(&self) -> bool {
        self.has_costs
    }

    /// Whether all boundaries are equally good.
    pub fn is_uniform(&self) -> bool {
        self.file_starts.is_empty() && !self.has_costs
    }

    /// The best boundary in a range of leaves, which must not be empty: the cheapest; among equally cheap ones, one at
    /// which a file begins; among these, the one that `near` prefers.
    fn best<K: Ord>(&self, within: Range<u64>, near: impl Fn(u64) -> K) -> u64 {
        let first = within.start;
        let inside = self.file_starts.partition_point(|&start| start < first);
        let begins = |leaf: u64| self.file_starts[inside..].binary_search(&leaf).is_ok();
        within.min_by_key(|&leaf| (self.cost(leaf), !begins(leaf), near(leaf))).unwrap_or(first)
    }

    /// [`Partition::cost`] in leaves, rounded up.
    fn cost_in_leaves(&self, leaf: u64) -> u64 {
        self.cost(leaf).div_ceil(self.leaf_frames)
    }

    /// The best boundary near leaf `wanted` between two contiguous shares of `share` leaves.
    pub fn share_boundary(&self, wanted: u64, share: u64) -> u64 {
        let mut slack = share / 4;
        let chunk = self.cost_in_leaves(wanted);
        if chunk < 2 * share.max(1) {
            // the beginning or end of the chunk, if a leaf begins or ends there
            slack = slack.max(chunk.div_ceil(2));
        }
        let last = self.n_leaves.min(wanted.saturating_add(slack));
        self.best(wanted.saturating_sub(slack)..last.max(wanted).saturating_add(1), |leaf| leaf.abs_diff(wanted))
    }

    /// The end of a task that begins with leaf `first`, of the leaves up to `end`.
    ///
    /// A task that cannot end with a chunk is so large that redundant decoding is a small part of it.
    pub fn task_end(&self, first: u64, end: u64, request: TaskRequest) -> u64 {
        let last = first + request.most.max(1).min(end.saturating_sub(first));
        let mut wanted = first.saturating_add(request.share.max(1)).min(last);
        let least = request.least(self.cost_in_leaves(wanted));
        wanted = wanted.max(first.saturating_add(least)).min(last);
        let chunk = self.cost_in_leaves(wanted);
        let slack = (wanted - first) / 4;
        // the end of a chunk, if a leaf ends there, within the reach of the chunk that would be split
        let reach = if request.sharing(chunk) == 1 { chunk } else { slack };
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
        let least = request.least(chunk);
        let enough =
            chunk.saturating_mul(CHUNKS_A_BOUNDARY).saturating_mul(request.threads).min(request.left).max(least);
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

    /// Some leaves as tasks, for so many threads that take one after the other.
    pub(crate) fn tasks(&self, leaves: &[Range<u64>], share: u64, threads: u64) -> Vec<Range<u64>> {
        let total: u64 = leaves.iter().map(|range| range.end.saturating_sub(range.start)).sum();
        let fair = total.div_ceil(threads.max(1)).max(1);
        let request = TaskRequest { share: share.min(fair), most: u64::MAX, fair, left: fair, threads: 1 };
        let mut tasks = Vec::new();
        for range in leaves {
            let mut first = range.start;
            while first < range.end {
                let end = self.task_end(first, range.end, request);
                tasks.push(first..end);
                first = end;
            }
        }
        tasks
    }
}

/// Frames of a file that are decoded a second time if the frame at a position of the selection (not the first) and the
/// frame before it are decoded by different tasks.
pub(crate) fn redecoded_frames(scanned: &Scanned, frames: &FrameSelection, fields: Fields, position: u64) -> u64 {
    let (before, after) = (frames.get(position - 1), frames.get(position));
    let [left, right] = [before, after].map(|frame| scanned.concatenation.span_of(frame));
    if left.part != right.part {
        return 0;
    }
    let [before, after] =
        [(left, before), (right, after)].map(|(span, frame)| span.kept.start + (frame - span.first_frame));
    scanned.parts[left.part].decoder.chunked().map_or(0, |chunked| chunked.redecoded_frames(before, after, fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(n_leaves: u64, leaf_frames: u64, chunk: u64) -> Partition {
        let cost = |leaf: u64| if (leaf * leaf_frames).is_multiple_of(chunk) { 0 } else { chunk };
        Partition::new(n_leaves, leaf_frames, (0..n_leaves).map(cost).collect(), Vec::new())
    }

    #[test]
    fn tasks_cover_all_leaves_and_end_where_chunks_do() {
        for (chunk, free) in [(5120, true), (5000, false), (100, false), (256, true), (1, true)] {
            let partition = chunks(1000, 256, chunk);
            for threads in 1..9 {
                let tasks = partition.tasks(&[0..400, 401..402, 500..1000], 16, threads);
                assert!(tasks.iter().all(|task| task.start < task.end));
                let leaves: Vec<u64> = tasks.iter().cloned().flatten().collect();
                assert!(leaves.into_iter().eq((0..400).chain(401..402).chain(500..1000)), "{chunk} {threads}");
                // the ends of the ranges are left out
                let ends = tasks.iter().filter(|task| ![400, 402, 1000].contains(&task.end));
                assert!(!free || ends.clone().all(|task| partition.cost(task.end) == 0), "{tasks:?}");
                assert!(ends.clone().all(|task| (task.end - task.start) * 256 >= chunk), "{tasks:?}");
                assert!(ends.count() as u64 + 3 >= threads);
            }
        }
    }

    #[test]
    fn of_equally_cheap_boundaries_those_with_which_files_begin_and_round_ones() {
        let partition = Partition::new(1000, 4, Vec::new(), vec![70, 70, 30]);
        let request = |share| TaskRequest { share, most: u64::MAX, fair: 500, left: 500, threads: 1 };
        assert_eq!(partition.file_starts(), [30, 70]);
        assert_eq!(partition.task_end(0, 1000, request(33)), 30);
        assert_eq!(partition.task_end(0, 1000, request(50)), 48);
        assert_eq!(partition.task_end(0, 40, request(50)), 40);
        assert_eq!(partition.task_end(999, 1000, request(0)), 1000);
        assert_eq!(partition.task_end(0, 1000, TaskRequest { most: 20, ..request(33) }), 16);
        assert_eq!(partition.share_boundary(60, 60), 70);
        assert_eq!(partition.share_boundary(500, 250), 500);
        // a file that begins with the first leaf within reach
        assert_eq!(partition.share_boundary(40, 40), 30);
        // for any request
        assert_eq!(partition.task_end(3, 9, TaskRequest { share: u64::MAX, most: 0, fair: 0, left: 0, threads: 0 }), 4);
        assert_eq!(partition.cost(u64::MAX), 0);
    }
}
