//! Records that are encoded in any order and written in their own: early ones wait, in bounded memory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::error::Result;
use crate::index::TableBuilder;
use crate::pipeline::encode::resume::Commits;
use crate::sink::Sink;

/// How often a worker that waits looks whether the call is to end.
const TICK: Duration = Duration::from_millis(20);

/// Adds consecutive records to the index of the file.
pub(super) type IndexRecords<'a> = dyn Fn(&[u8], &mut TableBuilder) -> Result<()> + Sync + 'a;

/// The end of a file to which runs of records are added in their order.
pub(super) struct Window<'a> {
    sink: &'a dyn Sink,
    commits: &'a Commits,
    index_records: &'a IndexRecords<'a>,
    /// Index of the written records.
    index: Mutex<TableBuilder>,
    /// Most bytes that wait.
    limit: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// First frame of the run that is written next.
    next: u64,
    /// Offset at which that run is written.
    offset: u64,
    /// Waiting runs by first frame: the frame after the run, and its records.
    waiting: BTreeMap<u64, (u64, Vec<u8>)>,
    bytes: u64,
    /// Whether a worker writes.
    writing: bool,
}

impl<'a> Window<'a> {
    /// Runs are written after the committed frames; at most `limit` bytes may wait.
    pub(super) fn new(
        sink: &'a dyn Sink,
        commits: &'a Commits,
        index: TableBuilder,
        index_records: &'a IndexRecords<'a>,
        limit: u64,
    ) -> Self {
        let begun = commits.committed();
        let state = Mutex::new(State { next: begun.frames, offset: begun.bytes, ..State::default() });
        Self { sink, commits, index_records, index: Mutex::new(index), limit, state, changed: Condvar::new() }
    }

    /// Adds the records of some frames; `bytes` is the memory they use. They are written now, together with the records
    /// that wait for them, or later by the worker that adds the missing ones before them. Blocks while the window is
    /// full. `stopped` is called from time to time, and its error ends the wait; it must not use the window.
    /// Errors of the sink, of the index and of `stopped`; after an error nothing more is written.
    pub(super) fn add(
        &self,
        frames: Range<u64>,
        bytes: &mut Vec<u8>,
        stopped: impl Fn() -> Result<bool>,
    ) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let turn = state.next == frames.start && !state.writing;
            if turn || state.bytes + bytes.len() as u64 <= self.limit {
                break;
            }
            state = self.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
            if stopped()? {
                return Ok(());
            }
        }
        state.bytes += bytes.len() as u64;
        state.waiting.insert(frames.start, (frames.end, std::mem::take(bytes)));
        if state.writing {
            return Ok(());
        }
        while let Some((end, run)) = {
            let next = state.next;
            state.waiting.remove(&next)
        } {
            state.writing = true;
            let (first, offset) = (state.next, state.offset);
            drop(state);
            // an error leaves `writing` set, so that nobody writes after a gap
            (self.index_records)(&run, &mut self.index.lock().unwrap_or_else(PoisonError::into_inner))?;
            self.sink.write_at(offset, &run)?;
            self.commits.add(first, end - first, run.len() as u64);
            state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.writing = false;
            state.next = end;
            state.offset += run.len() as u64;
            state.bytes -= run.len() as u64;
            // there is room for others now, and the capacity serves the next run of this worker
            self.changed.notify_all();
            *bytes = run;
            bytes.clear();
        }
        Ok(())
    }

    /// Path of the sink.
    pub(super) fn path(&self) -> &Path {
        self.sink.path()
    }

    /// The index of all that was written.
    pub(super) fn into_index(self) -> TableBuilder {
        self.index.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, ErrorKind};
    use crate::sink::{Fault, MemorySink, RecordingSink};

    /// A run is a frame.
    fn index_run(run: &[u8], index: &mut TableBuilder) -> Result<()> {
        index.push(run.len() as u64, i64::from(run[0]), 0.0)
    }

    fn window<'a>(sink: &'a dyn Sink, commits: &'a Commits, limit: u64) -> Window<'a> {
        Window::new(sink, commits, TableBuilder::new(0), &index_run, limit)
    }

    #[test]
    fn what_waits_for_a_slow_run_is_bounded() {
        let sink = MemorySink::new("made");
        let commits = Commits::default();
        let window = window(&sink, &commits, 80);
        let full = || window.state.lock().unwrap().bytes;
        std::thread::scope(|scope| {
            for worker in 0..3_u64 {
                let window = &window;
                scope.spawn(move || {
                    for number in (1 + worker..31).step_by(3) {
                        window.add(number..number + 1, &mut vec![number as u8; 40], || Ok(false)).unwrap();
                    }
                });
            }
            while full() < 80 {
                std::thread::yield_now();
            }
            // the others wait, however long it takes
            (0..1000).for_each(|_| assert_eq!(full(), 80));
            assert!(sink.bytes().is_empty());
            // the run that all wait for is larger than the window
            window.add(0..1, &mut vec![0; 100], || Ok(false)).unwrap();
        });
        let expected: Vec<u8> = [0; 100].into_iter().chain((1..31_u8).flat_map(|number| [number; 40])).collect();
        assert!(sink.bytes() == expected);
        assert_eq!(full(), 0);
        let committed = commits.committed();
        assert_eq!((committed.frames, committed.bytes), (31, expected.len() as u64));
        let index = window.into_index().finish();
        assert_eq!((index.n_frames(), index.extent(0).len, index.extent(30).end()), (31, 100, committed.bytes));
        assert!((1..31).all(|frame| index.step(frame) == frame as i64));
    }

    #[test]
    fn nothing_is_written_behind_a_failed_write_and_nobody_waits_for_it() {
        let sink = RecordingSink::failing("made", 1, Fault::NoSpace(3));
        let commits = Commits::default();
        let window = window(&sink, &commits, 10);
        window.add(0..1, &mut vec![1; 10], || Ok(false)).unwrap();
        assert_eq!(window.add(1..2, &mut vec![2; 10], || Ok(false)).unwrap_err().kind(), ErrorKind::Io);
        window.add(2..3, &mut vec![3; 10], || Ok(true)).unwrap();
        let cancelled = || Err(Error::new(ErrorKind::Cancelled, "stopped by the caller"));
        assert_eq!(window.add(3..4, &mut vec![4; 10], cancelled).unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(RecordingSink::replayed(&sink.log(), None, 0).unwrap(), [vec![1; 10], vec![2; 3]].concat());
        assert_eq!(commits.committed().bytes, 10);
    }
}
