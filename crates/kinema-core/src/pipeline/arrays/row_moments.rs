//! Moments of the rows of archives, while these are read: each worker reads a run of rows and sums it up in its cache.
//!
//! Runs depend on the rows alone, and their moments are merged as a tree of neighbours: any number of workers gives the
//! same bits, and few moments are in memory at a time.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::arrays::moments::{Accumulator, Moments, NumberType};
use crate::pipeline::arrays::rows::{RowStorage, Rows, Task, Worker};
use crate::pipeline::pool::{Pool, Progress};
use crate::trajectory::Threads;

/// Bytes that are read at a time, about.
const READ_BYTES: usize = 1 << 19;
/// Approximate bytes of a run: workers read near to each other, as suits the system's readahead.
const RUN_BYTES: usize = 4 << 20;
/// Neighbouring rows of fewer bytes are read together with what lies between.
const ALONE_BYTES: usize = 64 << 10;

impl Rows {
    /// Moments of the columns of these rows, ascending. Groups of `coupled` rows, counted from the first row of a file,
    /// are decoded together.
    ///
    /// # Errors
    /// `InvalidArgument` if a row is not a whole number of values of this type, or rows do not ascend; otherwise as
    /// `Rows::read`.
    pub fn moments(
        &self,
        ids: &[u64],
        number: NumberType,
        coupled: usize,
        workers: usize,
        progress: &Progress,
    ) -> Result<Moments> {
        let row_bytes = self.row_bytes();
        if !row_bytes.is_multiple_of(number.size()) || !ids.is_sorted_by(|a, b| a < b) {
            let what = format!("rows of {row_bytes} bytes have no moments of this type, or do not ascend");
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        if let Some(&id) = ids.last().filter(|&&id| id >= self.len()) {
            let what = format!("there is no row {id}, expected one below {}", self.len());
            return Err(Error::new(ErrorKind::OutOfRange, what));
        }
        let columns = row_bytes / number.size();
        let block = Accumulator::new(number, columns).block_rows();
        let least = (READ_BYTES / row_bytes).max(coupled).max(1);
        let step = least.div_ceil(block) * block;
        let run = RUN_BYTES.div_ceil(step * row_bytes) * step;
        let runs: Vec<(usize, Range<usize>)> =
            (0..ids.len()).step_by(run).map(|first| first..ids.len().min(first + run)).enumerate().collect();
        let workers = workers.clamp(1, runs.len().max(1));
        let tree = MomentTree { n_runs: runs.len(), waiting: Mutex::default() };
        let pool = Pool::new(runs, progress);
        pool.run(&Threads::default(), workers, |_| {
            let (mut worker, mut buffer) = (Worker::default(), Vec::new());
            while let Some((place, range)) = pool.next()? {
                let mut moments = Accumulator::new(number, columns);
                for ids in ids[range].chunks(step) {
                    if pool.is_stopped()? {
                        return Ok(());
                    }
                    buffer.resize(ids.len() * row_bytes, 0);
                    self.read_ascending(ids, &mut buffer, &mut worker)?;
                    moments.add(&buffer);
                    progress.done.fetch_add(ids.len() as u64, Ordering::Relaxed);
                }
                tree.insert(place, moments.finish());
            }
            Ok(())
        })?;
        Ok(tree.root().unwrap_or_else(|| Moments::new(columns)))
    }

    /// Ascending rows, into bytes of their size.
    fn read_ascending(&self, ids: &[u64], out: &mut [u8], worker: &mut Worker) -> Result<()> {
        let row_bytes = self.row_bytes();
        let (mut ids, mut out) = (ids, out);
        while let Some(&first) = ids.first() {
            let file = self.starts.partition_point(|&start| start <= first) - 1;
            let start = self.starts[file];
            let n = ids.partition_point(|&id| id < self.starts[file + 1]);
            let (own, bytes);
            (own, ids) = ids.split_at(n);
            (bytes, out) = std::mem::take(&mut out).split_at_mut(n * row_bytes);
            let (described, source) = &self.files[file];
            let read = match described.storage {
                RowStorage::Strided { offset, stride }
                    if stride == row_bytes as u64 && has_long_runs(own, row_bytes) =>
                {
                    let mut bytes = &mut *bytes;
                    own.chunk_by(|a, b| a + 1 == *b).try_for_each(|run| {
                        let (now, later) = std::mem::take(&mut bytes).split_at_mut(run.len() * row_bytes);
                        bytes = later;
                        source.read_exact_at(offset + (run[0] - start) * stride, now)
                    })
                }
                _ => {
                    let rows = own.iter().map(|id| id - start).collect();
                    let places = bytes.chunks_exact_mut(row_bytes).collect();
                    worker.read(described, &**source, Task { file, rows, places })
                }
            };
            read.map_err(|error| error.with_path(&described.path))?;
        }
        Ok(())
    }
}

/// The moments of runs; neighbours are merged as soon as both are present; see `reduce::MergeTree`.
struct MomentTree {
    n_runs: usize,
    /// By level, 0 for a run, and place within it.
    waiting: Mutex<HashMap<(u32, usize), Moments>>,
}

impl MomentTree {
    fn insert(&self, run: usize, moments: Moments) {
        let (mut place, mut moments) = (run, moments);
        for level in 0.. {
            let sibling = place ^ 1;
            let is_root = self.n_runs.saturating_sub(1) >> level == 0;
            if is_root || sibling << level < self.n_runs {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(other) = waiting.remove(&(level, sibling)) else {
                    waiting.insert((level, place), moments);
                    return;
                };
                drop(waiting);
                let (mut left, right) = if place < sibling { (moments, other) } else { (other, moments) };
                left.merge(&right);
                moments = left;
            }
            place >>= 1;
        }
    }

    /// Moments of all runs, once all are done.
    fn root(self) -> Option<Moments> {
        self.waiting.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().next()
    }
}

/// Whether ascending rows form runs so long that each is read by itself.
fn has_long_runs(rows: &[u64], row_bytes: usize) -> bool {
    let runs = 1 + rows.windows(2).filter(|pair| pair[0] + 1 != pair[1]).count();
    runs == 1 || rows.len() * row_bytes / runs >= ALONE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_runs_are_merged_alike_in_whatever_order_they_come() {
        for n in 1..=11usize {
            let of_run = |run: usize| {
                let mut one = Accumulator::new(NumberType::F64, 2);
                let values = (0..2 * (run + 3)).map(|i| 1e3 + ((i * 31 + run * 7) % 101) as f64 * 0.3);
                one.add(&values.flat_map(f64::to_ne_bytes).collect::<Vec<u8>>());
                one.finish()
            };
            let merged = |order: Vec<usize>| {
                let tree = MomentTree { n_runs: n, waiting: Mutex::default() };
                order.into_iter().for_each(|run| tree.insert(run, of_run(run)));
                assert_eq!(tree.waiting.lock().unwrap().len(), 1);
                tree.root().unwrap()
            };
            let found = merged((0..n).collect());
            let mut one_by_one = Moments::new(2);
            (0..n).for_each(|run| one_by_one.merge(&of_run(run)));
            assert_eq!(found.count, one_by_one.count);
            for (a, b) in found.squares.iter().zip(&one_by_one.squares) {
                assert!((a - b).abs() <= 1e-12 * b.max(1.0));
            }
            assert_eq!(found, merged((0..n).rev().collect()));
            // the odd ones, then the even ones
            assert_eq!(found, merged((1..n).step_by(2).chain((0..n).step_by(2)).collect()));
        }
    }
}
