//! The thread that makes lines of full buffers, so that recording threads need not. It starts with the first full
//! buffer, and ends with the trace and before the process is forked.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::buffer::Record;
use super::journal;
use super::lines::{Common, Lines};

/// Most full buffers that may wait; beyond that, the recording thread makes the lines itself.
const MOST_WAITING: usize = 16;

/// Records of a thread that are to become lines.
pub(super) struct Chunk {
    pub(super) generation: u64,
    pub(super) common: Arc<Common>,
    pub(super) records: Vec<Record>,
}

/// Chunks that wait to become lines, and the thread that makes these.
pub(super) struct Queue {
    chunks: VecDeque<Chunk>,
    /// Number of chunks that are being made into lines.
    busy: usize,
    thread: Option<JoinHandle<()>>,
    /// Whether the thread waits for chunks.
    idle: bool,
    ending: bool,
}

impl Queue {
    const fn new() -> Self {
        Self { chunks: VecDeque::new(), busy: 0, thread: None, idle: false, ending: false }
    }

    /// For a forked child, which has none of the parent's threads.
    pub(super) fn begin_in_child(&mut self) {
        let parents = std::mem::replace(self, Self::new());
        // it stands for a thread that is not there: dropped, it would be detached
        std::mem::forget(parents.thread);
    }

    fn has_thread(&mut self) -> bool {
        if self.thread.is_none() && !self.ending {
            self.thread = begin_thread();
        }
        !self.ending && self.thread.is_some()
    }
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue::new());
/// There is a chunk, or the thread is to end.
static WORK: Condvar = Condvar::new();
/// A chunk is in the journal.
static DONE: Condvar = Condvar::new();

pub(super) fn locked() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the thread make lines of these records.
pub(super) fn hand_over(chunk: Chunk) {
    let mut queue = locked();
    if queue.chunks.len() >= MOST_WAITING || !queue.has_thread() {
        drop(queue);
        return chunk.write(&mut Lines::default());
    }
    queue.chunks.push_back(chunk);
    if std::mem::take(&mut queue.idle) {
        drop(queue);
        WORK.notify_one();
    }
}

/// Returns when all that was handed over is in the journal.
pub(super) fn drain() {
    let (mut queue, mut lines) = (locked(), Lines::default());
    loop {
        if let Some(chunk) = queue.chunks.pop_front() {
            let busy = Busy::begin(queue);
            chunk.write(&mut lines);
            drop(busy);
            queue = locked();
        } else if queue.busy > 0 {
            queue = DONE.wait(queue).unwrap_or_else(PoisonError::into_inner);
        } else {
            return;
        }
    }
}

/// Ends the thread, which makes lines of what waits before.
pub(super) fn end_thread() {
    let mut queue = locked();
    let Some(thread) = queue.thread.take() else { return };
    queue.ending = true;
    drop(queue);
    WORK.notify_one();
    // it returns nothing; the journal knows its failures
    let _ = thread.join();
    locked().ending = false;
}

/// Counts a chunk as one that is made into lines, until it is dropped.
struct Busy;

impl Busy {
    fn begin(mut queue: MutexGuard<'_, Queue>) -> Self {
        queue.busy += 1;
        Self
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        locked().busy -= 1;
        DONE.notify_all();
    }
}

fn work() {
    let mut lines = Lines::default();
    let mut queue = locked();
    loop {
        if let Some(chunk) = queue.chunks.pop_front() {
            let busy = Busy::begin(queue);
            chunk.write(&mut lines);
            drop(busy);
            queue = locked();
        } else if queue.ending {
            return;
        } else {
            queue.idle = true;
            queue = WORK.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle = false;
        }
    }
}

/// Starts the thread with signals blocked: they belong to the program. `None` if the system has no more threads.
fn begin_thread() -> Option<JoinHandle<()>> {
    let (mut all, mut before) = (MaybeUninit::<libc::sigset_t>::uninit(), MaybeUninit::<libc::sigset_t>::uninit());
    // SAFETY: the first call fills `all`, and the second one reads it and fills `before`, which has room for it
    let blocked = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) == 0
    };
    let thread = std::thread::Builder::new().name("kinema-trace".to_owned()).spawn(work);
    if blocked {
        // SAFETY: the call above has filled it
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    }
    thread.ok()
}

impl Chunk {
    /// Gives its lines to the journal.
    pub(super) fn write(&self, lines: &mut Lines) {
        let n_events = self.records.len() as u64;
        lines.clear();
        for (id, record) in (journal::next_ids(n_events)..).zip(&self.records) {
            lines.push(&self.common, id, record);
        }
        journal::add_lines(self.generation, lines, n_events);
    }
}
