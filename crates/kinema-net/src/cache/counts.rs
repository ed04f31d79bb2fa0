//! Counts of a process's use of a cache.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::forks;

/// One number of [`Counts`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Count {
    Hits,
    Misses,
    Prefetched,
    BytesRead,
    BytesHit,
    BytesSource,
    BytesIdentity,
    BytesDirect,
    Waited,
    Refetched,
    Corrupt,
    Evicted,
    SourceReads,
    BytesPeers,
    PeerFailures,
    Errors,
}

const N: usize = Count::Errors as usize + 1;

/// Numbers of this process since it opened the cache, or was forked.
#[derive(Debug)]
pub(super) struct Counter {
    generation: AtomicU32,
    numbers: [AtomicU64; N],
}

/// Counts of one process's use of a cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads of blocks that were in the cache; a read that spans several blocks counts once for each.
    pub hits: u64,
    /// Reads of blocks that were not: fetched for that, or read from the source.
    pub misses: u64,
    /// Blocks that were fetched in advance, or staged in.
    pub prefetched: u64,
    /// Bytes given to readers.
    pub bytes_read: u64,
    /// Bytes given to readers by hits.
    pub bytes_hit: u64,
    /// Bytes that have left the source, but for those of `bytes_identity`.
    pub bytes_source: u64,
    /// Bytes of the source that were read to know the state of files.
    pub bytes_identity: u64,
    /// Bytes of `bytes_source` that were given to readers without being stored.
    pub bytes_direct: u64,
    /// Number of times that this process waited for another thread or process that fetched the block.
    pub waited: u64,
    /// Blocks fetched again because they were damaged.
    pub refetched: u64,
    /// Damaged blocks.
    pub corrupt: u64,
    /// Blocks removed to make room.
    pub evicted: u64,
    /// Calls to the source that read `bytes_source`.
    pub source_reads: u64,
    /// Bytes that other nodes gave.
    pub bytes_peers: u64,
    /// Blocks that another node should have given and did not: they were read from the source.
    pub peer_failures: u64,
    /// Blocks that could not be stored: no space left, or another error of the cache's file system.
    pub errors: u64,
}

impl Counts {
    /// Bytes given to readers that did not leave the source for this process.
    pub fn bytes_saved(&self) -> u64 {
        self.bytes_read.saturating_sub(self.bytes_source)
    }

    /// All numbers with their names.
    pub fn named(&self) -> [(&'static str, u64); N + 1] {
        [
            ("hits", self.hits),
            ("misses", self.misses),
            ("prefetched", self.prefetched),
            ("bytes_read", self.bytes_read),
            ("bytes_hit", self.bytes_hit),
            ("bytes_source", self.bytes_source),
            ("bytes_identity", self.bytes_identity),
            ("bytes_direct", self.bytes_direct),
            ("bytes_saved", self.bytes_saved()),
            ("waited", self.waited),
            ("refetched", self.refetched),
            ("corrupt", self.corrupt),
            ("evicted", self.evicted),
            ("source_reads", self.source_reads),
            ("bytes_peers", self.bytes_peers),
            ("peer_failures", self.peer_failures),
            ("errors", self.errors),
        ]
    }
}

/// Counts of all handles of this process, including closed ones.
static OF_PROCESS: Counter = Counter { generation: AtomicU32::new(0), numbers: [const { AtomicU64::new(0) }; N] };

/// Counts of all caches that this process has used.
pub fn counts_of_process() -> Counts {
    OF_PROCESS.get()
}

impl Counter {
    pub(super) fn new() -> Self {
        Self { generation: AtomicU32::new(forks::generation()), numbers: Default::default() }
    }

    pub(super) fn add(&self, count: Count, n: u64) {
        for counter in [self, &OF_PROCESS] {
            counter.reset_in_child_process();
            counter.numbers[count as usize].fetch_add(n, Ordering::Relaxed);
        }
    }

    pub(super) fn get(&self) -> Counts {
        self.reset_in_child_process();
        let get = |count: Count| self.numbers[count as usize].load(Ordering::Relaxed);
        Counts {
            hits: get(Count::Hits),
            misses: get(Count::Misses),
            prefetched: get(Count::Prefetched),
            bytes_read: get(Count::BytesRead),
            bytes_hit: get(Count::BytesHit),
            bytes_source: get(Count::BytesSource),
            bytes_identity: get(Count::BytesIdentity),
            bytes_direct: get(Count::BytesDirect),
            waited: get(Count::Waited),
            refetched: get(Count::Refetched),
            corrupt: get(Count::Corrupt),
            evicted: get(Count::Evicted),
            source_reads: get(Count::SourceReads),
            bytes_peers: get(Count::BytesPeers),
            peer_failures: get(Count::PeerFailures),
            errors: get(Count::Errors),
        }
    }

    /// A forked child begins with zeros: its parent reports its own counts.
    fn reset_in_child_process(&self) {
        let (now, relaxed) = (forks::generation(), Ordering::Relaxed);
        let before = self.generation.load(relaxed);
        if before != now && self.generation.compare_exchange(before, now, relaxed, relaxed).is_ok() {
            self.numbers.iter().for_each(|number| number.store(0, relaxed));
        }
    }
}
