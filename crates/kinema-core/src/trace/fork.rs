//! The journal after a fork: the child process has its own journal, with its own file.

use std::cell::UnsafeCell;
use std::sync::{MutexGuard, Once};

use super::journal::{self, State};
use super::writer::{self, Queue};

/// The locks of the journal, which are held across the fork, so that the child finds the journal whole and unlocked.
struct Held(UnsafeCell<Option<(MutexGuard<'static, State>, MutexGuard<'static, Queue>)>>);

// SAFETY: only the thread that forks uses it, and forks wait for each other at the lock
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));
static REGISTERED: Once = Once::new();

/// Has forks and the end of the process look after the journal.
pub(super) fn register() {
    REGISTERED.call_once(|| {
        // SAFETY: the functions take and give nothing, and live as long as the process: this library is not unloaded
        unsafe {
            libc::pthread_atfork(Some(hold_locks), Some(release_in_parent), Some(reset_in_child));
            libc::atexit(stop_at_exit);
        }
    });
}

extern "C" fn hold_locks() {
    // the child would not have this thread, and a program that forks need not have threads that it did not start
    writer::end_thread();
    let guards = (journal::locked(), writer::locked());
    // SAFETY: the locks are held, so no other thread is between here and the functions below
    unsafe { *HELD.0.get() = Some(guards) };
}

extern "C" fn release_in_parent() {
    // SAFETY: as above
    drop(unsafe { (*HELD.0.get()).take() });
}

extern "C" fn reset_in_child() {
    // SAFETY: as above; in the child there is this thread alone
    if let Some((mut state, mut queue)) = unsafe { (*HELD.0.get()).take() } {
        queue.begin_in_child();
        state.begin_in_child();
    }
}

extern "C" fn stop_at_exit() {
    journal::stop();
}
