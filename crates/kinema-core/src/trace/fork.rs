//! What happens to the journal where the process is forked: the child has one of its own, with a file of its own.

use std::cell::UnsafeCell;
use std::sync::{MutexGuard, Once};

use super::journal::{self, State};

/// The lock of the journal, which is held across the fork: so the child finds it whole, and held by nobody.
struct Held(UnsafeCell<Option<MutexGuard<'static, State>>>);

// SAFETY: only the thread that forks uses it, and forks wait for each other at the lock
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));
static REGISTERED: Once = Once::new();

/// Has forks and the end of the process look after the journal.
pub(super) fn register() {
    REGISTERED.call_once(|| {
        // SAFETY: the functions take and give nothing, and live as long as the process: this library is not unloaded
        unsafe {
            libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child));
            libc::atexit(at_exit);
        }
    });
}

extern "C" fn before() {
    let guard = journal::locked();
    // SAFETY: the lock is held, so no other thread is between here and the functions below
    unsafe { *HELD.0.get() = Some(guard) };
}

extern "C" fn after_in_parent() {
    // SAFETY: as above
    drop(unsafe { (*HELD.0.get()).take() });
}

extern "C" fn after_in_child() {
    // SAFETY: as above; in the child there is this thread alone
    if let Some(mut state) = unsafe { (*HELD.0.get()).take() } {
        state.begin_in_child();
    }
}

extern "C" fn at_exit() {
    journal::stop();
}
