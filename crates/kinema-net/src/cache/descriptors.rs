//! Blocks that are held open, so that reading one takes a single system call. Their number is limited; the least
//! recently used is closed first.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kinema_core::source::locked;

use super::block::Block;
use super::key::BlockKey;

/// Most open blocks, however many files the process may open.
const MOST: u64 = 4096;
/// Interval at which blocks removed meanwhile are closed: their bytes are not free before that.
const SWEPT: Duration = Duration::from_secs(1);

/// Open blocks of a process.
#[derive(Debug)]
pub(super) struct Descriptors {
    most: usize,
    open: Mutex<Open>,
    clock: AtomicU64,
}

#[derive(Debug)]
struct Open {
    blocks: HashMap<BlockKey, (Arc<Block>, AtomicU64)>,
    swept: Instant,
}

impl Descriptors {
    /// A quarter of the files that the process may open.
    pub(super) fn new() -> Self {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the pointer is to a place of this type, which the call fills
        let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
        let most = if known { (limit.rlim_cur / 4).clamp(8, MOST) } else { 64 };
        let open = Open { blocks: HashMap::new(), swept: Instant::now() };
        Self { most: most as usize, open: Mutex::new(open), clock: AtomicU64::new(0) }
    }

    pub(super) fn get(&self, key: BlockKey) -> Option<Arc<Block>> {
        let open = locked(&self.open);
        let (block, used) = open.blocks.get(&key)?;
        used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Some(block.clone())
    }

    pub(super) fn put(&self, block: Arc<Block>) {
        let used = AtomicU64::new(self.clock.fetch_add(1, Ordering::Relaxed));
        let mut open = locked(&self.open);
        if open.swept.elapsed() > SWEPT {
            open.swept = Instant::now();
            open.blocks.retain(|_, (block, _)| block.file().metadata().is_ok_and(|found| found.nlink() > 0));
        }
        open.blocks.insert(block.key, (block, used));
        if open.blocks.len() > self.most {
            // an eighth at once, so that the search is rare
            let mut ages: Vec<(u64, BlockKey)> =
                open.blocks.iter().map(|(key, (_, used))| (used.load(Ordering::Relaxed), *key)).collect();
            ages.sort_unstable_by_key(|(used, _)| *used);
            ages.iter().take(self.most.div_ceil(8)).for_each(|(_, key)| drop(open.blocks.remove(key)));
        }
    }

    /// Closes a block, if it is this one.
    pub(super) fn remove(&self, block: &Arc<Block>) {
        let mut open = locked(&self.open);
        if open.blocks.get(&block.key).is_some_and(|(known, _)| Arc::ptr_eq(known, block)) {
            open.blocks.remove(&block.key);
        }
    }

    /// Closes a block that was removed: its bytes are free only then.
    pub(super) fn forget(&self, key: BlockKey) {
        locked(&self.open).blocks.remove(&key);
    }

    /// Closes all.
    pub(super) fn clear(&self) {
        locked(&self.open).blocks.clear();
    }
}
