//! The events of one thread, which only that thread adds to; whoever holds the lock of what is flushed may read them.

use std::cell::{RefCell, UnsafeCell};
use std::collections::HashSet;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

use super::activity::{Activity, WAIT};
use super::journal::NEXT_ID;
use super::lines::Common;
use super::{Event, journal};

/// Events of a buffer: some 64 KiB of lines.
const EVENTS: usize = 320;
/// Bytes of a line, about.
const LINE: usize = 224;
/// File names that a thread remembers to have given to the journal.
const MOST_NAMES: usize = 4096;

/// The journal that buffers are of: another one after each start, stop and fork.
pub(super) static GENERATION: AtomicU64 = AtomicU64::new(0);

/// An event as it is kept until it becomes a line.
#[derive(Clone, Copy)]
pub(super) struct Record {
    pub(super) activity: &'static Activity,
    /// Hash of the file's name, 0: none.
    pub(super) file: u64,
    /// Nanoseconds since [`journal::base`].
    pub(super) start: i64,
    pub(super) ns: u64,
    pub(super) values: [i64; 3],
}

/// Events of one thread for one journal.
pub(super) struct Buffer {
    thread: i32,
    generation: u64,
    common: Arc<Common>,
    records: Box<[UnsafeCell<MaybeUninit<Record>>]>,
    /// Records that are there; only the owner changes it, to fewer only while it holds `flushed`.
    len: AtomicUsize,
    /// Those of them that are lines.
    flushed: Mutex<usize>,
}

// SAFETY: the owner writes records at `len` and beyond alone, and publishes them by storing `len`; others read records below
// `len` alone, while they hold `flushed`, without which the owner does not lower `len`
unsafe impl Sync for Buffer {}
// SAFETY: a record is plain data
unsafe impl Send for Buffer {}

impl Buffer {
    /// An empty buffer of this thread.
    pub(super) fn new(generation: u64, common: Arc<Common>) -> Self {
        let records = (0..EVENTS).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
        Self { thread: thread_id(), generation, common, records, len: AtomicUsize::new(0), flushed: Mutex::new(0) }
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
        self.give(*flushed..len);
        *flushed = len;
    }

    /// The same, and begins anew; called by the owner alone.
    fn flush_own(&self) {
        let mut flushed = self.flushed.lock().unwrap_or_else(PoisonError::into_inner);
        self.give(*flushed..self.len.load(Ordering::Relaxed));
        *flushed = 0;
        self.len.store(0, Ordering::Release);
    }

    fn give(&self, range: std::ops::Range<usize>) {
        if range.is_empty() {
            return;
        }
        let n_events = range.len() as u64;
        let ids = NEXT_ID.fetch_add(n_events, Ordering::Relaxed)..;
        let (mut lines, mut files) = (Vec::with_capacity(range.len() * LINE), Vec::new());
        for (id, cell) in ids.zip(&self.records[range]) {
            // SAFETY: it was written before `len` was stored, and is not written again while `flushed` is held
            let record = unsafe { (*cell.get()).assume_init() };
            if record.file != 0 && files.last() != Some(&record.file) {
                files.push(record.file);
            }
            self.common.push_record(&mut lines, id, self.thread, &record);
        }
        journal::add_lines(self.generation, self.thread, &files, &lines, n_events);
    }
}

/// The buffer of a thread, and the names of files that the journal knows from it.
struct Own {
    buffer: Arc<Buffer>,
    names: HashSet<u64>,
    last: u64,
}

impl Own {
    /// The hash of a file's name, which the journal can say the name of.
    fn file(&mut self, path: &Path) -> u64 {
        let bytes = path.as_os_str().as_bytes();
        let hash = hash_of(bytes);
        if hash != self.last {
            if self.names.len() >= MOST_NAMES {
                self.names.clear();
            }
            if self.names.insert(hash) {
                journal::name_file(hash, bytes);
            }
            self.last = hash;
        }
        hash
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // of another journal, or of the parent process: a lock of its threads may be held for ever
        if self.buffer.generation == GENERATION.load(Ordering::Acquire) {
            journal::end_thread(&self.buffer);
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
                place.insert(Own { buffer, names: HashSet::new(), last: 0 })
            }
        };
        let file = event.file.map_or(0, |path| own.file(path));
        own.buffer.push(Record {
            activity: event.activity,
            file,
            start: journal::since_base(event.start),
            ns: event.duration.as_nanos() as u64,
            values: event.values,
        });
    });
}

impl Record {
    /// The thread that it is of, where `recorder` has recorded it.
    pub(super) fn thread(&self, recorder: i32) -> i32 {
        let other = if std::ptr::eq(self.activity, &WAIT) { self.values[2] as i32 } else { 0 };
        if other == 0 { recorder } else { other }
    }
}
