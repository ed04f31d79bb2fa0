//! A source whose bytes come from a cache: from blocks in the cache, or fetched into it.

use std::io::IoSliceMut;
use std::path::Path;
use std::sync::Arc;

use kinema_core::Result;
use kinema_core::source::{Extent, FileStatus, Source};
use kinema_core::trace::activity::{CACHE_HIT, CACHE_MISS};
use kinema_core::trace::{begin, finish};

use super::counts::Count;
use super::fetch::{Place, SourceFile};
use super::key::BlockKey;
use super::{Shared, Verify};

/// Number of times that a damaged block is fetched again; then its bytes are read from the source.
const ATTEMPTS: usize = 2;

/// A file that is read through a cache.
pub(super) struct CachedSource {
    pub shared: Arc<Shared>,
    pub file: Arc<SourceFile>,
}

impl CachedSource {
    fn block_bytes(&self) -> u64 {
        self.shared.options.block
    }

    /// Reads bytes of one block by `read`, or from the source.
    fn read_block(
        &self,
        extent: Extent,
        mut read: impl FnMut(&super::block::Block, u64) -> Result<()>,
    ) -> Result<bool> {
        let number = extent.offset / self.block_bytes();
        let within = extent.offset % self.block_bytes();
        let start = begin();
        for _ in 0..ATTEMPTS {
            let Place::Block(block, fetched) = self.shared.get(&self.file, number, &|| Ok(()))? else { break };
            match read(&block, within) {
                Ok(()) => {
                    let counts = &self.shared.counts;
                    counts.add(Count::BytesRead, extent.len);
                    self.shared.used(extent.len);
                    let activity = if fetched {
                        counts.add(Count::Misses, 1);
                        &CACHE_MISS
                    } else {
                        counts.add(Count::Hits, 1);
                        counts.add(Count::BytesHit, extent.len);
                        &CACHE_HIT
                    };
                    finish(start, activity, Some(self.path()), [extent.offset as i64, extent.len as i64, 0]);
                    return Ok(true);
                }
                Err(error) => self.shared.discard_open(&block, &error),
            }
        }
        Ok(false)
    }

    fn count_direct(&self, bytes: u64) {
        let counts = &self.shared.counts;
        for count in [Count::BytesRead, Count::BytesSource, Count::BytesDirect] {
            counts.add(count, bytes);
        }
        counts.add(Count::Misses, 1);
        counts.add(Count::SourceReads, 1);
        self.shared.read_around(bytes);
    }

    fn read_direct(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let start = begin();
        self.file.source.read_exact_at(offset, buffer)?;
        finish(start, &CACHE_MISS, Some(self.path()), [offset as i64, buffer.len() as i64, 0]);
        self.count_direct(buffer.len() as u64);
        Ok(())
    }

    /// Whether all of it is in the state of the file that was opened.
    fn covers(&self, offset: u64, len: u64) -> bool {
        self.file.status.settled && offset.checked_add(len).is_some_and(|end| end <= self.file.status.size)
    }
}

impl Source for CachedSource {
    fn path(&self) -> &Path {
        self.file.source.path()
    }

    fn len(&self) -> Result<u64> {
        self.file.source.len()
    }

    fn status(&self) -> Result<Option<FileStatus>> {
        self.file.source.status()
    }

    fn will_need(&self, extent: Extent) {
        if !self.covers(extent.offset, extent.len) || extent.len == 0 {
            return self.file.source.will_need(extent);
        }
        let block = self.block_bytes();
        for number in extent.offset / block..extent.end().div_ceil(block) {
            let all = self.file.extent(number, block);
            let start = extent.offset.max(all.offset);
            let part = Extent { offset: start, len: extent.end().min(all.end()) - start };
            match self.shared.find(BlockKey { file: self.file.key, number }) {
                Some(found) => found.will_need(Extent { offset: part.offset - all.offset, ..part }),
                // all of it will be fetched; an error comes again with the read
                None => self.file.source.will_need(all),
            }
        }
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        if !self.covers(offset, buffer.len() as u64) {
            return self.read_direct(offset, buffer);
        }
        let verify = self.shared.options.verify;
        let (mut rest, mut at) = (buffer, offset);
        while !rest.is_empty() {
            let n = (self.block_bytes() - at % self.block_bytes()).min(rest.len() as u64) as usize;
            let (part, behind) = rest.split_at_mut(n);
            let extent = Extent { offset: at, len: n as u64 };
            if !self.read_block(extent, |block, within| block.read(within, part, verify))? {
                self.read_direct(at, part)?;
            }
            (rest, at) = (behind, at + n as u64);
        }
        Ok(())
    }

    fn read_scattered_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<()> {
        let len: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let one = len > 0 && offset / self.block_bytes() == (offset + len - 1) / self.block_bytes();
        if one && self.covers(offset, len) && self.shared.options.verify != Verify::Always {
            let extent = Extent { offset, len };
            // the list is used up by a read, and needed again if that fails
            let attempt = |block: &super::block::Block, within| {
                let mut list: Vec<_> = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
                block.read_scattered(within, &mut list, self.shared.options.verify)
            };
            if self.read_block(extent, attempt)? {
                return Ok(());
            }
        }
        let mut at = offset;
        for buffer in buffers {
            self.read_exact_at(at, buffer)?;
            at += buffer.len() as u64;
        }
        Ok(())
    }
}
