//! Staging in: whole files fetched into a cache by several threads.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kinema_core::error::catch_panics;
use kinema_core::source::{FileStatus, Files, locked};
use kinema_core::{Error, ErrorKind, Result};

use super::block::stored_bytes;
use super::fetch::{Place, SourceFile};
use super::key::BlockKey;
use super::space::For;
use super::{NodeCache, named};

/// Result of staging.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Filled {
    /// Files.
    pub files: u64,
    /// Their blocks.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Blocks that were fetched now.
    pub fetched_blocks: u64,
    /// Their bytes.
    pub fetched_bytes: u64,
    /// Blocks that are not in the cache, as they could not be stored, or stay.
    pub not_stored: u64,
}

/// Called between pieces of work; an error ends the work.
pub type Check<'a> = dyn Fn() -> Result<()> + Sync + 'a;

/// Runs `work` for each number below `n` on `threads` threads, until one fails.
fn each(threads: usize, n: usize, work: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()> {
    let (next, failed, failure) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(None));
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, n.max(1)) {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= n || failed.load(Ordering::Relaxed) {
                        return;
                    }
                    if let Err(error) = catch_panics(|| work(i)) {
                        failed.store(true, Ordering::Relaxed);
                        locked(&failure).get_or_insert(error);
                    }
                }
            });
        }
    });
    locked(&failure).take().map_or(Ok(()), Err)
}

impl NodeCache {
    /// Fetches whole files, in parallel. The bytes of each block that is in the cache are added to `done`; `check` is
    /// called between reads of the source.
    ///
    /// # Errors
    /// Errors of the files; `InvalidArgument` if they are larger than the limit, with the limit that would suffice;
    /// errors of `check`.
    pub fn fill(&self, paths: &[PathBuf], threads: usize, check: &Check<'_>, done: &AtomicU64) -> Result<Filled> {
        let mut known = HashSet::new();
        let paths: Vec<PathBuf> =
            paths.iter().map(|path| named(path)).filter(|path| known.insert(path.clone())).collect();
        let (block, limit) = (self.options().block, self.options().limit);
        let mut needed = 0;
        for path in &paths {
            let size = FileStatus::from_path(path)?.size;
            let (blocks, last) = (size / block, size % block);
            needed += blocks * stored_bytes(block, path) + if last > 0 { stored_bytes(last, path) } else { 0 };
        }
        if needed > limit {
            let what = format!(
                "the files do not fit into the node cache, expected a limit of at least {needed} bytes, found {limit}"
            );
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let files = self.wrap(Arc::new(Files));
        let opened: Mutex<Vec<Arc<SourceFile>>> = Mutex::default();
        each(threads, paths.len(), &|i| {
            check()?;
            if let Some(file) = files.file(&paths[i])? {
                locked(&opened).push(Arc::new(file));
            }
            Ok(())
        })?;
        let opened = std::mem::take(&mut *locked(&opened));
        let blocks: Vec<(Arc<SourceFile>, u64)> = opened
            .iter()
            .flat_map(|file| (0..file.status.size.div_ceil(block)).map(|number| (file.clone(), number)))
            .collect();
        let filled = Mutex::new(Filled { files: paths.len() as u64, ..Filled::default() });
        each(threads, blocks.len(), &|i| {
            check()?;
            let (file, number) = &blocks[i];
            let bytes = file.extent(*number, block).len;
            let nodes = self.0.nodes().filter(|nodes| nodes.is_away(file.key.0, *number));
            let place = match file.status.settled {
                true => self.0.get_from(nodes.as_deref(), file, *number, For::Staging, check)?,
                false => Place::Source,
            };
            let mut filled = locked(&filled);
            filled.blocks += 1;
            filled.bytes += bytes;
            match place {
                Place::Block(_, true) => {
                    filled.fetched_blocks += 1;
                    filled.fetched_bytes += bytes;
                    self.0.count_advance();
                }
                Place::Block(found, false) => found.touch(),
                Place::Source => {}
            }
            done.fetch_add(bytes, Ordering::Relaxed);
            Ok(())
        })?;
        // on a full disk, some of these blocks may have been removed for others of them
        let is_stored = |(file, number): &&(Arc<SourceFile>, u64)| {
            self.0.root.block(BlockKey { file: file.key, number: *number }).exists()
        };
        let not_stored = (blocks.len() - blocks.iter().filter(is_stored).count()) as u64;
        let filled = Filled { not_stored, ..*locked(&filled) };
        Ok(filled)
    }
}
