//! Records that are written in their order although they are encoded in any: what comes too early waits, in bounded memory.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::error::Result;
use crate::sink::Sink;

/// How often a worker that waits looks whether the call is to end.
const TICK: Duration = Duration::from_millis(20);

/// The end of a file to which runs of records are added in their order.
pub(super) struct Window<'a> {
    sink: &'a dyn Sink,
    /// Most bytes that wait.
    limit: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Number of the run that is written next.
    next: u64,
    /// Where it is written.
    offset: u64,
    waiting: BTreeMap<u64, Vec<u8>>,
    bytes: u64,
    /// Whether a worker writes.
    writing: bool,
}

impl<'a> Window<'a> {
    /// Runs are written from byte `offset` on.
    pub(super) fn new(sink: &'a dyn Sink, offset: u64, limit: u64) -> Self {
        Self { sink, limit, state: Mutex::new(State { offset, ..State::default() }), changed: Condvar::new() }
    }

    /// Adds run `number`, of which `bytes` are taken. It is written now, with those that wait for it; or later by whoever
    /// adds the one before. Waits where the window is full; `stopped` is asked now and then, and ends that.
    ///
    /// # Errors
    /// Those of the sink and of `stopped`; after one nothing is written any more.
    pub(super) fn add(&self, number: u64, bytes: &mut Vec<u8>, stopped: impl Fn() -> Result<bool>) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let turn = state.next == number && !state.writing;
            if turn || state.bytes + bytes.len() as u64 <= self.limit {
                break;
            }
            state = self.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
            if stopped()? {
                return Ok(());
            }
        }
        state.bytes += bytes.len() as u64;
        state.waiting.insert(number, std::mem::take(bytes));
        if state.writing {
            return Ok(());
        }
        while let Some(run) = {
            let next = state.next;
            state.waiting.remove(&next)
        } {
            state.writing = true;
            let offset = state.offset;
            drop(state);
            // an error leaves `writing` set: nobody writes behind a gap
            self.sink.write_at(offset, &run)?;
            state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.writing = false;
            state.next += 1;
            state.offset += run.len() as u64;
            state.bytes -= run.len() as u64;
            // room for others, and the capacity for the next run of this worker
            self.changed.notify_all();
            *bytes = run;
            bytes.clear();
        }
        Ok(())
    }

    /// The byte after the last that is written.
    pub(super) fn end(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).offset
    }
}
