//! Fetching in advance: one of all processes that read in the same order fetches; if it dies, another continues.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use kinema_core::error::catch_panics;
use kinema_core::source::{Extent, Files, OpenSource, locked};
use kinema_core::{Error, ErrorKind, Result};

use super::fetch::{Place, SourceFile};
use super::locks::Lock;
use super::orders::Order;
use super::{CachedFiles, NodeCache, forks};

/// The position that other processes set is looked at so often.
const LOOK: Duration = Duration::from_millis(20);
/// Interval at which a process that does not fetch checks whether the fetching one has ended.
const STANDBY: Duration = Duration::from_millis(200);

/// Fetches in advance, in a thread of its own, until it is dropped.
pub struct Prefetch {
    work: Arc<Work>,
    thread: Option<JoinHandle<()>>,
    /// Identifies the process that has the thread.
    generation: u32,
}

struct Work {
    files: CachedFiles,
    order: Arc<Order>,
    ahead: u64,
    stopped: AtomicBool,
    wake: (Mutex<()>, Condvar),
    failure: Mutex<Option<Error>>,
}

impl NodeCache {
    /// Fetches these reads in order, up to `ahead` bytes before the position set by [`Prefetch::position`], and no more
    /// than half of the limit. All processes that give the same reads share the position.
    ///
    /// # Errors
    /// Errors of the cache's folder, and of starting a thread. The thread opens the files: see [`Prefetch::failure`].
    pub fn prefetch(&self, reads: &[(PathBuf, Extent)], ahead: u64) -> Result<Prefetch> {
        self.prefetch_over(Arc::new(Files), reads, ahead)
    }

    /// The same of files that `inner` opens.
    ///
    /// # Errors
    /// As said.
    pub fn prefetch_over(
        &self,
        inner: Arc<dyn OpenSource>,
        reads: &[(PathBuf, Extent)],
        ahead: u64,
    ) -> Result<Prefetch> {
        let order = Arc::new(Order::join(&self.0, reads)?);
        locked(&self.0.orders).push(Arc::downgrade(&order));
        let ahead = ahead.min(self.options().limit / 2);
        let (stopped, wake, failure) = Default::default();
        let work = Arc::new(Work { files: self.wrap(inner), order, ahead, stopped, wake, failure });
        let its = work.clone();
        let run = move || {
            if let Err(error) = catch_panics(|| its.run()) {
                its.note(error);
            }
        };
        let spawned = std::thread::Builder::new().name("kinema-prefetch".to_owned()).spawn(run);
        let thread = spawned.map_err(|error| Error::io("cannot start a thread", &error))?;
        Ok(Prefetch { work, thread: Some(thread), generation: forks::generation() })
    }
}

impl Prefetch {
    /// Says that the first `reads` reads of the list are done; this is never taken back. A forked child may call it
    /// too.
    pub fn position(&self, reads: u64) {
        self.work.order.position.raise(reads);
        if self.generation == forks::generation() {
            self.work.wake.1.notify_all();
        }
    }

    /// The last failure: a file could not be opened or read. A reader of that file gets the error too.
    pub fn failure(&self) -> Option<Error> {
        locked(&self.work.failure).clone()
    }

    /// Ends it, once a read of the source that is under way has ended.
    pub fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.generation != forks::generation() {
            // a forked child: the thread is the parent's, and waiting for it here would never end
            std::mem::forget(thread);
            return;
        }
        self.work.stopped.store(true, Ordering::Release);
        {
            // so that it is not between its look at `stopped` and its sleep
            let _held = locked(&self.work.wake.0);
            self.work.wake.1.notify_all();
        }
        // its panics are caught within
        let _ = thread.join();
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Blocks that were fetched in advance and are not read yet.
#[derive(Default)]
struct Window {
    steps: VecDeque<(u32, (u32, u32))>,
    /// How often each is in `steps`, and its bytes.
    blocks: HashMap<(u32, u32), (u32, u64)>,
    bytes: u64,
}

impl Window {
    fn push(&mut self, read: u32, block: (u32, u32), bytes: u64) {
        let entry = self.blocks.entry(block).or_insert((0, bytes));
        if entry.0 == 0 {
            self.bytes += bytes;
        }
        entry.0 += 1;
        self.steps.push_back((read, block));
    }

    /// Forgets reads before a position.
    fn pass(&mut self, position: u64) {
        while let Some(&(read, block)) = self.steps.front().filter(|(read, _)| u64::from(*read) < position) {
            debug_assert!(u64::from(read) < position);
            self.steps.pop_front();
            if let Some(entry) = self.blocks.get_mut(&block) {
                entry.0 -= 1;
                if entry.0 == 0 {
                    self.bytes -= entry.1;
                    self.blocks.remove(&block);
                }
            }
        }
    }
}

impl Work {
    fn note(&self, error: Error) {
        *locked(&self.failure) = Some(error);
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn sleep(&self, longest: Duration) {
        let held = locked(&self.wake.0);
        if !self.is_stopped() {
            drop(self.wake.1.wait_timeout(held, longest).unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn run(&self) -> Result<()> {
        let _leads = loop {
            if self.is_stopped() {
                return Ok(());
            }
            match Lock::attempt(&self.order.leader)? {
                Some(lock) => break lock,
                None => self.sleep(STANDBY),
            }
        };
        self.lead()?;
        // nobody else restarts it while this process lives
        while !self.is_stopped() {
            self.sleep(Duration::from_secs(3600));
        }
        Ok(())
    }

    fn lead(&self) -> Result<()> {
        let mut files: HashMap<u32, Option<SourceFile>> = HashMap::new();
        let mut window = Window::default();
        let block = self.files.cache.options().block;
        let mut next = 0;
        while let Some(step) = self.order.steps.get(next) {
            if self.is_stopped() {
                return Ok(());
            }
            let position = self.order.position.get();
            window.pass(position);
            if u64::from(step.read) < position {
                // the readers are ahead of it
                next += 1;
                continue;
            }
            let place = (step.file, step.number);
            if window.blocks.contains_key(&place) {
                window.push(step.read, place, 0);
                next += 1;
                continue;
            }
            if window.bytes > 0 && window.bytes + block > self.ahead {
                self.sleep(LOOK);
                continue;
            }
            let file = files.entry(step.file).or_insert_with(|| self.open(step.file));
            let bytes = match file {
                Some(file) => self.fetch(file, u64::from(step.number))?,
                None => 0,
            };
            window.push(step.read, place, bytes);
            next += 1;
        }
        Ok(())
    }

    /// `None` for a file that cannot be cached, or cannot be opened; the latter is noted.
    fn open(&self, file: u32) -> Option<SourceFile> {
        match self.files.file(&self.order.files[file as usize]) {
            Ok(opened) => opened.filter(|file| file.status.settled),
            Err(error) => {
                self.note(error);
                None
            }
        }
    }

    /// Bytes of the block that are in the cache then.
    fn fetch(&self, file: &SourceFile, number: u64) -> Result<u64> {
        let shared = &self.files.cache.0;
        let extent = file.extent(number, shared.options.block);
        if extent.len == 0 {
            return Ok(0);
        }
        let check = || match self.is_stopped() {
            true => Err(Error::new(ErrorKind::Cancelled, "stopped by the caller")),
            false => Ok(()),
        };
        match shared.get(file, number, &check) {
            Ok(Place::Block(block, false)) => block.will_need(Extent { offset: 0, len: extent.len }),
            Ok(Place::Block(_, true)) => shared.count_advance(),
            Ok(Place::Source) => {}
            Err(error) if error.kind() == ErrorKind::Cancelled => {}
            Err(error) => self.note(error),
        }
        Ok(extent.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_counts_the_bytes_of_each_block_once() {
        let mut window = Window::default();
        window.push(0, (0, 0), 10);
        window.push(1, (0, 1), 20);
        window.push(2, (0, 0), 10);
        assert_eq!(window.bytes, 30);
        window.pass(1);
        assert_eq!(window.bytes, 30, "the first block is needed again");
        window.pass(2);
        assert_eq!((window.bytes, window.blocks.len()), (10, 1));
        window.pass(9);
        assert_eq!((window.bytes, window.blocks.len(), window.steps.len()), (0, 0, 0));
    }
}
