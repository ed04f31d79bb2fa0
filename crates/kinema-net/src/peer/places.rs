//! Places for the clients of a server: a client that is idle between two requests makes room for the next; a client
//! being served does not.

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Taken {
    served: usize,
    /// The one that has rested longest first.
    resting: VecDeque<(u64, TcpStream)>,
}

/// A fixed number of places.
pub(super) struct Places {
    most: usize,
    taken: Mutex<Taken>,
    changed: Condvar,
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        Self { most, taken: Mutex::default(), changed: Condvar::new() }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a connection to serve; `false` if no place becomes free in time.
    pub(super) fn enter(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut taken = self.taken();
        loop {
            if taken.served + taken.resting.len() >= self.most
                && let Some((_, oldest)) = taken.resting.pop_front()
            {
                // it may have gone by itself
                let _ = oldest.shutdown(Shutdown::Both);
            }
            if taken.served + taken.resting.len() < self.most {
                taken.served += 1;
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            taken = self.changed.wait_timeout(taken, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Notes that a served connection is idle: it may be closed in favour of another.
    pub(super) fn rest(&self, number: u64, connection: TcpStream) {
        let mut taken = self.taken();
        taken.served -= 1;
        taken.resting.push_back((number, connection));
        self.changed.notify_one();
    }

    /// Notes that an idle client is served again; `false` if its place was given away.
    pub(super) fn wake(&self, number: u64) -> bool {
        let mut taken = self.taken();
        let Some(at) = taken.resting.iter().position(|(other, _)| *other == number) else { return false };
        taken.resting.remove(at);
        taken.served += 1;
        true
    }

    /// One that was served has gone.
    pub(super) fn leave(&self) {
        self.taken().served -= 1;
        self.changed.notify_one();
    }
}
