//! Reads of a list: once a read has had to wait for the storage, the next ones are announced to the system.
//!
//! While everything lies in the page cache this costs nothing. The storage works on several reads at once, and reads no
//! more than what is announced: the system's own readahead guesses the next bytes, wrongly for scattered rows.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Extent, Source};
use crate::error::Result;
use crate::trace::{call_ended_since, enabled};

/// A read that takes longer than this, and than its bytes take in memory, has waited for the storage.
const WAITED: Duration = Duration::from_micros(100);
const BYTES_OF_A_NANOSECOND: u64 = 2;
/// Bytes that are announced and not yet read, of one list.
const AHEAD_BYTES: u64 = 16 << 20;

/// Extents that are read one after the other.
pub struct ReadList<'a> {
    source: &'a dyn Source,
    extents: &'a [Extent],
    /// The next one to be read, and the first one that is not announced.
    next: usize,
    announced: usize,
    /// Bytes between these.
    ahead: u64,
    waits: bool,
    /// Whether a read ends with a call to the system that is recorded.
    ends_with_call: bool,
    /// Whether the list before this one had to wait: then this one is announced from its beginning.
    before: &'a AtomicBool,
}

impl<'a> ReadList<'a> {
    /// Nothing is read yet. `before` is of the lists of one owner: whether the last one had to wait.
    pub fn new(source: &'a dyn Source, extents: &'a [Extent], before: &'a AtomicBool) -> Self {
        let ends_with_call = enabled() && source.reads_end_with_a_call();
        Self { source, extents, next: 0, announced: 0, ahead: 0, waits: false, before, ends_with_call }
    }

    /// Reads the next `n` extents by `read`, and announces the extents after them if it had to wait. Returns when the
    /// read began, and how long it took.
    ///
    /// # Errors
    /// Errors of `read`.
    pub fn read(&mut self, n: usize, read: impl FnOnce(&dyn Source) -> Result<()>) -> Result<(Instant, Duration)> {
        let start = Instant::now();
        let mut began = start;
        if self.next == 0 && self.before.load(Ordering::Relaxed) {
            self.announce();
            began = Instant::now();
        }
        read(self.source)?;
        let called = if self.ends_with_call { call_ended_since(began) } else { None };
        let mut ended = called.unwrap_or_else(Instant::now);
        let took = ended - began;
        let end = (self.next + n).min(self.extents.len());
        let mut bytes = 0;
        for (at, extent) in self.extents.iter().enumerate().take(end).skip(self.next) {
            bytes += extent.len;
            if at < self.announced {
                self.ahead -= extent.len;
            }
        }
        self.next = end;
        self.announced = self.announced.max(end);
        self.waits |= took > WAITED + Duration::from_nanos(bytes / BYTES_OF_A_NANOSECOND);
        if self.waits && self.announce() {
            ended = Instant::now();
        }
        Ok((start, ended - start))
    }

    /// Whether there was something to announce.
    fn announce(&mut self) -> bool {
        let before = self.announced;
        while let Some(extent) = self.extents.get(self.announced) {
            if self.ahead > 0 && self.ahead + extent.len > AHEAD_BYTES {
                break;
            }
            self.source.will_need(*extent);
            self.ahead += extent.len;
            self.announced += 1;
        }
        self.announced > before
    }
}

impl Drop for ReadList<'_> {
    fn drop(&mut self) {
        // a list that was not read says nothing
        if self.next > 0 {
            self.before.store(self.waits, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Mutex;

    use super::*;

    /// A source that is slow from a position on, and knows what was announced.
    struct Slow {
        from: u64,
        announced: Mutex<Vec<Extent>>,
    }

    impl Source for Slow {
        fn path(&self) -> &Path {
            Path::new("slow")
        }

        fn len(&self) -> Result<u64> {
            Ok(u64::MAX)
        }

        fn read_exact_at(&self, offset: u64, _: &mut [u8]) -> Result<()> {
            if offset >= self.from {
                std::thread::sleep(Duration::from_millis(60));
            }
            Ok(())
        }

        fn will_need(&self, extent: Extent) {
            self.announced.lock().unwrap().push(extent);
        }
    }

    fn announced_after(from: u64, sizes: &[u64], groups: &[usize]) -> Vec<Vec<u64>> {
        announced(from, sizes, groups, &AtomicBool::new(false))
    }

    fn announced(from: u64, sizes: &[u64], groups: &[usize], before: &AtomicBool) -> Vec<Vec<u64>> {
        let mut at = 0;
        let extents: Vec<Extent> = sizes
            .iter()
            .map(|&len| {
                at += len;
                Extent { offset: at - len, len }
            })
            .collect();
        let source = Slow { from, announced: Mutex::default() };
        let mut list = ReadList::new(&source, &extents, before);
        let mut first = 0;
        let mut found = Vec::new();
        for &n in groups {
            list.read(n, |source| source.read_exact_at(extents[first].offset, &mut [])).unwrap();
            first += n;
            found.push(source.announced.lock().unwrap().drain(..).map(|extent| extent.offset).collect());
        }
        found
    }

    #[test]
    fn nothing_is_announced_while_no_read_waits() {
        // so many bytes that a slow machine is no slower than what counts as waiting
        let sizes = [64 << 20; 4];
        assert!(announced_after(u64::MAX, &sizes, &[1; 4]).iter().all(Vec::is_empty));
    }

    #[test]
    fn what_follows_a_read_that_waited_is_announced_once() {
        assert_eq!(announced_after(0, &[10; 4], &[1; 4]), [vec![10, 20, 30], vec![], vec![], vec![]]);
        assert_eq!(announced_after(0, &[10; 5], &[2, 1, 2]), [vec![20, 30, 40], vec![], vec![]]);
    }

    #[test]
    fn no_more_than_the_limit_is_ahead_but_at_least_one() {
        let mib = 1 << 20;
        assert_eq!(
            announced_after(0, &[mib, 9 * mib, 7 * mib, mib, mib], &[1; 4]),
            [vec![mib, 10 * mib], vec![17 * mib, 18 * mib], vec![], vec![]]
        );
        assert_eq!(announced_after(0, &[20 * mib; 3], &[1; 3]), [vec![20 * mib], vec![40 * mib], vec![]]);
    }

    #[test]
    fn a_list_behind_one_that_waited_is_announced_from_its_beginning() {
        let before = AtomicBool::new(false);
        let sizes = [64 << 20; 2];
        announced(0, &sizes, &[1; 2], &before);
        assert!(before.load(Ordering::Relaxed));
        assert_eq!(announced(u64::MAX, &[9; 3], &[1; 3], &before), [vec![0, 9, 18], vec![], vec![]]);
        before.store(true, Ordering::Relaxed);
        announced(u64::MAX, &sizes, &[1; 2], &before);
        assert!(announced(u64::MAX, &sizes, &[1; 2], &before).iter().all(Vec::is_empty));
    }
}
