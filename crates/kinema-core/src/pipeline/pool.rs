//! The tasks of one call: each thread takes tasks until none is left, another thread has failed, or the caller has
//! asked to stop.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, ErrorKind, Result, catch_panics};
use crate::trajectory::Threads;

/// Progress of a call, and the caller's request to cancel it.
#[derive(Debug, Default)]
pub struct Progress {
    /// Frames done.
    pub done: AtomicU64,
    /// Set by the caller to end the call.
    pub cancel: Arc<AtomicBool>,
}

impl Progress {
    /// `Cancelled` once the caller has asked to stop.
    ///
    /// # Errors
    /// As said.
    pub fn check(&self) -> Result<()> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Cancelled, "stopped by the caller"));
        }
        Ok(())
    }
}

/// Tasks of a call and what its workers share.
pub(super) struct Pool<'a, T> {
    /// Frames that the workers have done, and whether they are to stop.
    pub progress: &'a Progress,
    tasks: Mutex<VecDeque<T>>,
    failure: Mutex<Option<Error>>,
    stop: AtomicBool,
}

impl<'a, T: Send> Pool<'a, T> {
    pub(super) fn new(tasks: impl Into<VecDeque<T>>, progress: &'a Progress) -> Self {
        let tasks = Mutex::new(tasks.into());
        Self { progress, tasks, failure: Mutex::new(None), stop: AtomicBool::new(false) }
    }

    /// The next task; `None` if all are taken, or another worker has failed. `take` takes a part of the first task; it
    /// returns `None` if nothing of that task is left.
    /// Errors: `Cancelled` once the caller has asked to stop.
    pub(super) fn next_of<R>(&self, mut take: impl FnMut(&mut T) -> Option<R>) -> Result<Option<R>> {
        if self.is_stopped()? {
            return Ok(None);
        }
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(first) = tasks.front_mut() {
            if let Some(task) = take(first) {
                return Ok(Some(task));
            }
            tasks.pop_front();
        }
        Ok(None)
    }

    /// The next task, whole.
    /// Errors of [`Pool::next_of`].
    pub(super) fn next(&self) -> Result<Option<T>> {
        if self.is_stopped()? {
            return Ok(None);
        }
        Ok(self.tasks.lock().unwrap_or_else(PoisonError::into_inner).pop_front())
    }

    /// Whether another worker has failed.
    /// Errors: `Cancelled` once the caller has asked to stop.
    pub(super) fn is_stopped(&self) -> Result<bool> {
        self.progress.check()?;
        Ok(self.stop.load(Ordering::Relaxed))
    }

    /// Calls `work` with the number of the worker on `workers` threads; if there is only one, on the caller's thread.
    /// Errors: if workers fail or panic: the error of the lowest frame. The other workers stop at their next check.
    pub(super) fn run<R: Send>(
        &self,
        threads: &Threads,
        workers: usize,
        work: impl Fn(u32) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let guarded = |number| match catch_panics(|| work(number)) {
            Ok(result) => Some(result),
            Err(error) => {
                self.fail(error);
                None
            }
        };
        let results = threads.run(workers, guarded)?;
        if let Some(error) = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(error);
        }
        let all: Option<Vec<R>> = results.into_iter().collect();
        all.ok_or_else(|| Error::new(ErrorKind::Internal, "a worker thread died"))
    }

    /// Keeps an error and stops all workers. Among errors of one file, the error with the lowest frame is kept;
    /// otherwise the first error. Tasks are taken in order and finished, so that the error does not depend on which
    /// worker was faster.
    fn fail(&self, error: Error) {
        self.stop.store(true, Ordering::Relaxed);
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let replaces = failure.as_ref().is_none_or(|kept| {
            kept.path() == error.path()
                && matches!((kept.frame(), error.frame()), (Some(kept), Some(new)) if new < kept)
        });
        if replaces {
            *failure = Some(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn every_task_is_taken_once_and_the_first_error_ends_all() {
        let threads = Threads::default();
        for workers in [1, 2, 5] {
            let progress = Progress::default();
            let pool = Pool::new((0..100).collect::<Vec<u64>>(), &progress);
            let taken = pool.run(&threads, workers, |_| {
                let mut sum = 0;
                while let Some(task) = pool.next()? {
                    sum += task;
                }
                Ok(sum)
            });
            assert_eq!(taken.unwrap().iter().sum::<u64>(), 4950);
            let pool = Pool::new((0..100).collect::<Vec<u64>>(), &progress);
            let failed = pool.run(&threads, workers, |_| {
                while let Some(task) = pool.next()? {
                    assert!(task < 7, "seven");
                }
                Ok(())
            });
            assert!(failed.unwrap_err().to_string().contains("a defect of Kinema, please report it: seven"));
            assert!(pool.next().unwrap().is_none());
        }
    }

    #[test]
    fn the_error_of_the_lowest_frame_counts() {
        let progress = Progress::default();
        let pool = Pool::new((0..4).collect::<Vec<u64>>(), &progress);
        // both have a task before one of them fails, the later first
        let taken = Barrier::new(2);
        let failed = pool.run(&Threads::default(), 2, |_| {
            let task = pool.next()?.unwrap_or_default();
            taken.wait();
            while task == 0 && !pool.is_stopped()? {
                std::thread::yield_now();
            }
            Err::<(), Error>(Error::new(ErrorKind::Corrupt, "damaged").with_frame(task))
        });
        assert_eq!(failed.unwrap_err().frame(), Some(0));
    }

    #[test]
    fn a_call_that_is_cancelled_is_an_error() {
        let progress = Progress::default();
        progress.cancel.store(true, Ordering::Relaxed);
        let pool = Pool::new(vec![1], &progress);
        let found = pool.run(&Threads::default(), 2, |_| pool.next());
        assert_eq!(found.unwrap_err().kind(), ErrorKind::Cancelled);
    }
}
