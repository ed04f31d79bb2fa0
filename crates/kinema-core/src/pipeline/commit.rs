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
    /// adds the one before. Waits where the window is full; `stopped` is asked now and then, and ends that; it
    /// must not use the window.
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

    /// How many runs are written, and the byte after them.
    pub(super) fn written(&self) -> (u64, u64) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.next, state.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, ErrorKind};
    use crate::sink::{Fault, MemorySink, RecordingSink};

    #[test]
    fn what_waits_for_a_slow_run_is_bounded() {
        let sink = MemorySink::new("made");
        let window = Window::new(&sink, 0, 80);
        let full = || window.state.lock().unwrap().bytes;
        std::thread::scope(|scope| {
            for worker in 0..3_u64 {
                let window = &window;
                scope.spawn(move || {
                    for number in (1 + worker..31).step_by(3) {
                        window.add(number, &mut vec![number as u8; 40], || Ok(false)).unwrap();
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
            window.add(0, &mut vec![0; 100], || Ok(false)).unwrap();
        });
        let expected: Vec<u8> = [0; 100].into_iter().chain((1..31_u8).flat_map(|number| [number; 40])).collect();
        assert!(sink.bytes() == expected);
        assert_eq!(window.written(), (31, expected.len() as u64));
        assert_eq!(full(), 0);
    }

    #[test]
    fn nothing_is_written_behind_a_failed_write_and_nobody_waits_for_it() {
        let sink = RecordingSink::failing("made", 1, Fault::NoSpace(3));
        let window = Window::new(&sink, 0, 10);
        window.add(0, &mut vec![1; 10], || Ok(false)).unwrap();
        assert_eq!(window.add(1, &mut vec![2; 10], || Ok(false)).unwrap_err().kind(), ErrorKind::Io);
        window.add(2, &mut vec![3; 10], || Ok(true)).unwrap();
        let cancelled = || Err(Error::new(ErrorKind::Cancelled, "stopped by the caller"));
        assert_eq!(window.add(3, &mut vec![4; 10], cancelled).unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(RecordingSink::replayed(&sink.log(), None, 0).unwrap(), [vec![1; 10], vec![2; 3]].concat());
    }
}
