//! State that a forked child must not inherit from its parent: locks held by threads of the parent, and its counts.
//!
//! A lock of `flock` belongs to the open file, which a child shares. If the parent were killed, its lock would stay as
//! long as the child lives, and the child itself would wait for it for ever. The child therefore closes these files at
//! once.

use std::os::fd::RawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// More locks than threads hold at a time; those beyond are inherited.
const MOST: usize = 1024;
const NONE: RawFd = -1;

static GENERATION: AtomicU32 = AtomicU32::new(0);
static HELD: [AtomicI32; MOST] = [const { AtomicI32::new(NONE) }; MOST];
static INSTALLED: Once = Once::new();

/// How many forks lie between this process and the first one that asked.
pub(super) fn generation() -> u32 {
    INSTALLED.call_once(|| {
        // SAFETY: the function is of the right kind, stays for the life of the process, and does what a child of a
        // process with threads may do: atomic numbers and close
        unsafe { libc::pthread_atfork(None, None, Some(begin_child)) };
    });
    GENERATION.load(Ordering::Relaxed)
}

extern "C" fn begin_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    for place in &HELD {
        let held = place.swap(NONE, Ordering::Relaxed);
        if held != NONE {
            // SAFETY: a descriptor of a thread of the parent, which does not exist in this process: nobody else closes
            // it
            unsafe { libc::close(held) };
        }
    }
}

/// A descriptor that forked children close.
#[derive(Debug)]
pub(super) struct NotInherited(Option<usize>);

impl NotInherited {
    /// To be dropped before the descriptor is closed.
    pub(super) fn new(descriptor: RawFd) -> Self {
        generation();
        let start = descriptor as usize;
        let free = |place: &usize| {
            HELD[*place].compare_exchange(NONE, descriptor, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        Self((0..MOST).map(|i| (start + i) % MOST).find(free))
    }
}

impl Drop for NotInherited {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            HELD[place].store(NONE, Ordering::Relaxed);
        }
    }
}
