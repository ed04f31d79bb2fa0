//! Threads and buffers of a trajectory, which are reused from call to call.

use std::process;
use std::sync::{Mutex, PoisonError};

use rayon_core::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Scratch, Segment, Wanted};
use crate::source::Gather;

/// Buffers that are kept between calls, and how large each may be.
const MOST_BUFFERS: usize = 64;
const MOST_BYTES: usize = 4 << 20;

/// Room that a reader of frames works in.
#[derive(Default)]
pub(crate) struct ReaderBuffers {
    pub(crate) gather: Gather,
    pub(crate) scratch: Scratch,
    /// Frames of one call, by part and frame.
    pub(crate) order: Vec<(u32, Wanted)>,
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) segments: Vec<Segment>,
}

impl ReaderBuffers {
    fn bytes(&self) -> usize {
        self.gather.capacity()
            + self.scratch.capacity()
            + size_of_val(self.order.as_slice())
            + size_of_val(self.wanted.as_slice())
            + size_of_val(self.segments.as_slice())
    }
}

/// Threads and buffers that wait for the next call of their owner. Concurrent calls of one owner get threads each, and
/// the threads of one call are kept. A forked process begins without any: threads are not carried across a fork.
#[derive(Default)]
pub(crate) struct Threads {
    idle: Mutex<Option<Team>>,
    buffers: Mutex<Vec<ReaderBuffers>>,
}

/// Threads of one call at a time.
struct Team {
    pool: ThreadPool,
    /// The process that has started them.
    process: u32,
}

impl Threads {
    /// Calls `work` with the number of the worker on `workers` threads; if there is only one, on the caller's thread.
    /// Errors: `Io` if the system refuses to start threads.
    pub(crate) fn run<R: Send>(&self, workers: usize, work: impl Fn(u32) -> R + Sync) -> Result<Vec<R>> {
        if workers <= 1 {
            return Ok(vec![work(0)]);
        }
        let team = match self.take_idle() {
            Some(team) if team.pool.current_num_threads() >= workers => team,
            _ => Team::new(workers)?,
        };
        let results = team.pool.broadcast(|thread| (thread.index() < workers).then(|| work(thread.index() as u32)));
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(team);
        Ok(results.into_iter().flatten().collect())
    }

    fn take_idle(&self) -> Option<Team> {
        let team = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        if team.process == process::id() {
            return Some(team);
        }
        // of the parent: nothing would answer when they are ended
        std::mem::forget(team);
        None
    }

    /// Buffers for a reader.
    pub(crate) fn take_buffers(&self) -> ReaderBuffers {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Keeps them for the next reader, unless they have become large.
    pub(crate) fn give_back(&self, buffers: ReaderBuffers) {
        let mut kept = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST_BUFFERS && buffers.bytes() <= MOST_BYTES {
            kept.push(buffers);
        }
    }
}

impl Team {
    fn new(workers: usize) -> Result<Self> {
        let named = ThreadPoolBuilder::new().num_threads(workers).thread_name(|number| format!("kinema-{number}"));
        let refused = |error| Error::new(ErrorKind::Io, format!("the system starts no {workers} threads: {error}"));
        Ok(Self { pool: named.build().map_err(refused)?, process: process::id() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::thread;

    use super::*;

    fn ids(threads: &Threads, workers: usize) -> HashSet<thread::ThreadId> {
        let found = threads.run(workers, |_| thread::current().id()).unwrap();
        assert_eq!(found.len(), workers);
        found.into_iter().collect()
    }

    #[test]
    fn threads_are_used_again_also_by_fewer_workers() {
        let threads = Threads::default();
        let first = ids(&threads, 3);
        assert_eq!(first.len(), 3);
        assert_eq!(ids(&threads, 3), first);
        assert!(ids(&threads, 2).is_subset(&first));
        assert!(ids(&threads, 4).is_disjoint(&first));
        assert_eq!(ids(&threads, 1), HashSet::from([thread::current().id()]));
    }

    #[test]
    fn a_call_within_a_call_has_threads_of_its_own() {
        let threads = Threads::default();
        let sums = threads.run(2, |_| threads.run(2, |number| number).unwrap().into_iter().sum::<u32>()).unwrap();
        assert_eq!(sums, [1, 1]);
    }
}
