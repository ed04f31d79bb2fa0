//! The events of one thread. Only that thread adds events; anyone who holds the lock of `flushed` may read them.

use std::cell::{RefCell, UnsafeCell};
use std::collections::HashSet;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use xxhash_rust::xxh3::xxh3_64;

use super::activity::{Activity, WAIT};
use super::lines::{Common, Lines};
use super::writer::{self, Chunk};
use super::{Event, journal};

/// Events of a buffer: some 100 KiB of lines. A process that is killed loses at most these events of each thread.
const EVENTS: usize = 512;
/// File names that a thread remembers to have given to the journal.
const MOST_NAMES: usize = 4096;

/// Identifies the journal that buffers belong to; changes at each start, stop and fork.
pub(super) static GENERATION: AtomicU64 = AtomicU64::new(0);

/// An event as it is kept until it becomes a line.
#[derive(Clone, Copy)]
pub(super) struct Record {
    pub(super) activity: &'static Activity,
    /// Hash of the file's name; 0: no file.
    pub(super) file: u64,
    pub(super) start: Instant,
    pub(super) duration: Duration,
    pub(super) values: [i64; 3],
    /// The system's number of the thread.
    pub(super) thread: i32,
}

/// Events of one thread at a time for one journal: after that thread ends, the next one continues the buffer.
pub(super) struct Buffer {
    generation: u64,
    common: Arc<Common>,
    records: Box<[UnsafeCell<MaybeUninit<Record>>]>,
    /// Number of records; only the owner changes it, and lowers it only while it holds `flushed`.
    len: AtomicUsize,
    /// Number of them that are lines already, or are being made into lines.
    flushed: Mutex<usize>,
}

// SAFETY: only the owner, one thread at a time (it changes under the journal's lock), writes records, at `len` and
// beyond, and publishes them by storing `len`. Others read only records below `len`, while they hold `flushed`; the
// owner does not lower `len` without that lock.
unsafe impl Sync for Buffer {}
// SAFETY: a record is plain data
unsafe impl Send for Buffer {}

impl Buffer {
    /// An empty buffer.
    pub(super) fn new(generation: u64, common: Arc<Common>) -> Self {
        let records = (0..EVENTS).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
        Self { generation, common, records, len: AtomicUsize::new(0), flushed: Mutex::default() }
    }

    /// Adds a record; called by the thread alone whose buffer it is.
    fn push(&self, record: Record) {
        if self.len.load(Ordering::Relaxed) == self.records.len() {
            self.flush_own();
        }
        let len = self.len.load(Ordering::Relaxed);
        // SAFETY: nobody reads at `len` before the store below, and only this thread writes
        unsafe { (*self.records[len].get()).write(record) };
        self.len.store(len + 1, Ordering::Release);
    }

    /// Gives the records that are not yet lines to the journal. Any thread may.
    pub(super) fn flush(&self) {
        let mut flushed = self.flushed.lock().unwrap_or_else(PoisonError::into_inner);
        let len = self.len.load(Ordering::Acquire);
        let begin = std::mem::replace(&mut *flushed, len);
        if begin < len {
            // while the lock is held: when a flush by another thread has returned, these are in the journal too
            self.chunk(begin..len).write(&mut Lines::default());
        }
    }

    /// Passes them to the thread that makes lines, and clears the buffer; only the owner calls this.
    fn flush_own(&self) {
        let mut flushed = self.flushed.lock().unwrap_or_else(PoisonError::into_inner);
        let (begin, len) = (std::mem::take(&mut *flushed), self.len.load(Ordering::Relaxed));
        if begin < len {
            writer::hand_over(self.chunk(begin..len));
        }
        self.len.store(0, Ordering::Release);
    }

    /// Copies of records; `flushed` is held.
    fn chunk(&self, range: std::ops::Range<usize>) -> Chunk {
        // SAFETY: they were written before `len` was stored, and are not written again while `flushed` is held
        let records = self.records[range].iter().map(|cell| unsafe { (*cell.get()).assume_init() }).collect();
        Chunk { generation: self.generation, common: self.common.clone(), records }
    }
}

/// The buffer of a thread, and the names of files that the journal knows from it.
struct Own {
    buffer: Arc<Buffer>,
    thread: i32,
    names: HashSet<u64>,
    /// The last name, and its hash.
    last: (Vec<u8>, u64),
}

impl Own {
    /// The hash of a file's name, which the journal can say the name of.
    fn file(&mut self, path: &Path) -> u64 {
        let bytes = path.as_os_str().as_bytes();
        if self.last.1 == 0 || self.last.0 != bytes {
            let hash = hash_of(bytes);
            if self.names.len() >= MOST_NAMES {
                self.names.clear();
            }
            if self.names.insert(hash) {
                journal::name_file(hash, bytes);
            }
            self.last = (bytes.to_vec(), hash);
        }
        self.last.1
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // a buffer of another journal, or of the parent process: a lock of its threads may be held for ever
        if self.buffer.generation == GENERATION.load(Ordering::Acquire) {
            journal::end_thread(self.buffer.generation, &self.buffer);
        }
    }
}

thread_local! {
    static OWN: RefCell<Option<Own>> = const { RefCell::new(None) };
}

/// The hash by which events name a file; never 0.
pub(super) fn hash_of(name: &[u8]) -> u64 {
    xxh3_64(name).max(1)
}

/// The system's number of this thread.
pub fn thread_id() -> i32 {
    // SAFETY: the call takes nothing, and cannot fail
    unsafe { libc::gettid() }
}

/// Adds an event to the buffer of this thread.
pub(super) fn push(event: &Event<'_>) {
    // a thread that ends has no buffer any more
    let _ = OWN.try_with(|own| {
        let Ok(mut own) = own.try_borrow_mut() else { return };
        let generation = GENERATION.load(Ordering::Acquire);
        let own = match &mut *own {
            Some(own) if own.buffer.generation == generation => own,
            place => {
                let Some(buffer) = journal::begin_thread(generation) else { return };
                place.insert(Own { buffer, thread: thread_id(), names: HashSet::new(), last: (Vec::new(), 0) })
            }
        };
        let file = event.file.map_or(0, |path| own.file(path));
        own.buffer.push(Record {
            activity: event.activity,
            file,
            start: event.start,
            duration: event.duration,
            values: event.values,
            thread: own.thread,
        });
    });
}

impl Record {
    /// The thread that it is of, which need not be the one that has recorded it.
    pub(super) fn thread(&self) -> i32 {
        let other = if std::ptr::eq(self.activity, &WAIT) { self.values[2] as i32 } else { 0 };
        if other == 0 { self.thread } else { other }
    }
}
