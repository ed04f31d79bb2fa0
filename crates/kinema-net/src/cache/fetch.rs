//! Blocks: found, or fetched by one of all that want them while the others wait.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use kinema_core::source::{Change, Extent, FileStatus, Source, changed, locked};
use kinema_core::trace::activity::CACHE_FETCH;
use kinema_core::trace::{begin, finish};
use kinema_core::{Error, ErrorKind, Result};

use super::block::{Block, PIECE, footer, stored_bytes};
use super::counts::Count;
use super::key::{BlockKey, FileKey};
use super::locks::Lock;
use super::nodes::{Nodes, Origin};
use super::space::{For, Room};
use super::troubles::{self, Trouble};
use super::writer::{Job, Written};
use super::{Check, Shared};

/// Bytes that are read from the source at once, while earlier ones are written.
const CHUNK: usize = 2 << 20;
/// Most buffers that are kept.
const BUFFERS: usize = 8;
/// Seconds without further attempts after a block could not be stored.
const PAUSE: u64 = 5;

/// A file opened through a cache, in the state that it had when it was opened.
pub(super) struct SourceFile {
    pub key: FileKey,
    pub status: FileStatus,
    pub path: PathBuf,
    /// The file itself.
    pub source: Arc<dyn Source>,
}

/// Place of the bytes of a block.
pub(super) enum Place {
    /// In this file; whether it was fetched just now.
    Block(Arc<Block>, bool),
    /// They cannot be stored: in the source alone.
    Source,
}

impl SourceFile {
    /// The bytes of a block in the source.
    pub(super) fn extent(&self, number: u64, block: u64) -> Extent {
        let offset = number * block;
        Extent { offset, len: block.min(self.status.size.saturating_sub(offset)) }
    }

    /// Checks that the file has not changed since it was opened; returns whether it has only grown.
    fn check(&self) -> Result<bool> {
        let Some(now) = self.source.status()? else {
            return Err(changed("it is not a file").with_path(self.source.path()));
        };
        if self.status.is_equal(&now) {
            return Ok(false);
        }
        match self.status.change_to(&now, !self.source.path().exists()) {
            Change::None => Ok(false),
            Change::Grown => Ok(true),
            Change::Changed(how) => Err(changed(&how).with_path(self.source.path())),
        }
    }
}

pub(super) fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Shared {
    /// A block that is in the cache: open, or opened now. A damaged block is removed.
    pub(super) fn find(&self, key: BlockKey) -> Option<Arc<Block>> {
        if let Some(block) = self.descriptors.get(key) {
            return Some(block);
        }
        let place = self.root.block(key);
        match Block::open(&place, key, &self.verified) {
            Ok(block) => Some(self.keep(block)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(_) => {
                let checked = Lock::wait(&self.root.lock_of(key)).and_then(|_lock| self.open_locked(key));
                checked.unwrap_or_else(|error| {
                    self.note(error.to_string());
                    None
                })
            }
        }
    }

    /// Opens a block whose lock is held, so that nobody changes it; removes a damaged one.
    fn open_locked(&self, key: BlockKey) -> Result<Option<Arc<Block>>> {
        match Block::open(&self.root.block(key), key, &self.verified) {
            Ok(block) => Ok(Some(self.keep(block))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => self.discard_found(key, &error).map(|()| None),
        }
    }

    /// Removes a damaged block that was to be read, whose lock is held.
    fn discard_found(&self, key: BlockKey, why: &Error) -> Result<()> {
        troubles::add(&self.root.path, Trouble::Damaged, || why.to_string());
        self.discard(key, why)
    }

    /// Removes a damaged block, whose lock is held.
    pub(super) fn discard(&self, key: BlockKey, why: &Error) -> Result<()> {
        let place = self.root.block(key);
        let bytes = place.symlink_metadata().map_or(0, |found| found.len());
        if self.remove(&place)? {
            self.counts.add(Count::Corrupt, 1);
            self.note(why.to_string());
            self.give_back(bytes)?;
        }
        locked(&self.damaged).insert(key);
        Ok(())
    }

    /// The same for a block that is open, unless another has replaced it already.
    pub(super) fn discard_open(&self, block: &Arc<Block>, why: &Error) {
        self.descriptors.remove(block);
        let discard = || {
            let _lock = Lock::wait(&self.root.lock_of(block.key))?;
            let ours = block.file().metadata().map(|found| found.ino()).ok();
            let named = self.root.block(block.key).symlink_metadata().map(|found| found.ino()).ok();
            if ours.is_some() && ours == named { self.discard_found(block.key, why) } else { Ok(()) }
        };
        if let Err(error) = discard() {
            self.note(error.to_string());
        }
    }

    /// The bytes of a block. If they are not in the cache, one of all threads and processes fetches them. Any error of
    /// the cache itself is counted, and the bytes come from the source. `check` is called between reads of the source.
    /// Errors of `check` and of the source; `Corrupt` if the source has changed since it was opened.
    pub(super) fn get(&self, file: &SourceFile, number: u64, check: &Check<'_>) -> Result<Place> {
        let nodes = self.nodes().filter(|nodes| nodes.is_away(file.key.0, number));
        self.get_from(nodes.as_deref(), file, number, For::Readers, check)
    }

    /// The same, fetched from these nodes if there are any, else from the source.
    pub(super) fn get_from(
        &self,
        nodes: Option<&dyn Nodes>,
        file: &SourceFile,
        number: u64,
        whom: For,
        check: &Check<'_>,
    ) -> Result<Place> {
        let key = BlockKey { file: file.key, number };
        if let Some(block) = self.find(key) {
            return Ok(Place::Block(block, false));
        }
        if self.full_until.load(Ordering::Relaxed) > seconds() || (whom == For::Readers && self.reads_around()) {
            return Ok(Place::Source);
        }
        let locked_block = self.lock(key, nodes.is_some()).and_then(|lock| Ok((lock, self.open_locked(key)?)));
        let (_lock, found) = match locked_block {
            Ok(locked) => locked,
            Err(error) => return Ok(self.not_stored(whom, error.to_string())),
        };
        if let Some(block) = found {
            return Ok(Place::Block(block, false));
        }
        // a block of a growing file is not stored: bytes after its end have a different key
        let stored = if file.check()? { Stored::Grows } else { self.store(nodes, file, key, whom, check)? };
        match stored {
            Stored::Yes => {}
            Stored::NoRoom(why) => return Ok(self.not_stored(whom, why)),
            Stored::Later | Stored::Grows => return Ok(Place::Source),
        }
        if locked(&self.damaged).remove(&key) {
            self.counts.add(Count::Refetched, 1);
        }
        match self.open_locked(key) {
            Ok(Some(block)) => {
                block.is_new();
                Ok(Place::Block(block, true))
            }
            // removed by another meanwhile, to make room
            Ok(None) => Ok(Place::Source),
            Err(error) => Ok(self.not_stored(whom, error.to_string())),
        }
    }

    /// The lock of a block, for which another is waited for if need be.
    fn lock(&self, key: BlockKey, away: bool) -> Result<Lock> {
        let path = if away { self.root.lock_of_away(key) } else { self.root.lock_of(key) };
        if let Some(lock) = Lock::attempt(&path)? {
            return Ok(lock);
        }
        self.counts.add(Count::Waited, 1);
        Lock::wait(&path)
    }

    /// Counts a block that nobody waits for.
    pub(super) fn count_advance(&self) {
        self.counts.add(Count::Prefetched, 1);
    }

    fn not_stored(&self, whom: For, why: String) -> Place {
        self.counts.add(Count::Errors, 1);
        self.full_until.store(seconds() + PAUSE, Ordering::Relaxed);
        if whom == For::Readers {
            // a caller that stages learns this from the call
            troubles::add(&self.root.path, Trouble::NotStored, || why.clone());
        }
        self.note(why);
        Place::Source
    }

    fn keep(&self, block: Block) -> Arc<Block> {
        let block = Arc::new(block);
        self.descriptors.put(block.clone());
        block
    }

    /// Copies a block from another node, or else from the source, into a new file. The caller holds its lock.
    fn store(
        &self,
        nodes: Option<&dyn Nodes>,
        file: &SourceFile,
        key: BlockKey,
        whom: For,
        check: &Check<'_>,
    ) -> Result<Stored> {
        let extent = file.extent(key.number, self.options.block);
        let no_room = |error: &std::io::Error| Ok(Stored::NoRoom(format!("a block could not be stored: {error}")));
        let start = begin();
        let room = match self.room(stored_bytes(extent.len, &file.path), whom) {
            Ok(Some(room)) => room,
            Ok(None) => return Ok(Stored::Later),
            Err(error) => return no_room(&error),
        };
        let origin = nodes.map_or(Origin::Source(None), |nodes| self.store_from(nodes, file, key, extent, &room));
        let (sums, claim) = match origin {
            Origin::Given(sums) => (sums, None),
            Origin::Source(claim) => match self.copy(file, extent, &room, check)? {
                Ok(sums) => (sums, claim),
                Err(error) => return no_room(&error),
            },
        };
        if file.check()? {
            return Ok(Stored::Grows);
        }
        let end = footer(key, extent.len, &file.path, &sums);
        if let Err(error) = room.new_file().write(&end, extent.len).and_then(|()| room.publish(key)) {
            return no_room(&error);
        }
        if let Some(claim) = claim {
            claim.stored(&self.root.block(key), extent.len, &sums);
        }
        if whom == For::Readers {
            self.fetched(extent.len);
        }
        finish(start, &CACHE_FETCH, Some(file.source.path()), [extent.offset as i64, extent.len as i64, 0]);
        Ok(Stored::Yes)
    }

    /// Copies bytes of the source into a new file. This thread reads; if there is more than one read, another thread
    /// writes. Returns the checksums of the pieces, compared with the bytes in the file, or the reason why they could
    /// not be stored.
    fn copy(
        &self,
        file: &SourceFile,
        extent: Extent,
        room: &Room<'_>,
        check: &Check<'_>,
    ) -> Result<std::io::Result<Vec<u64>>> {
        file.source.will_need(extent);
        let mut writer = (extent.len > CHUNK as u64).then(|| self.writers.take());
        let mut sums = Vec::with_capacity(extent.len.div_ceil(PIECE as u64) as usize);
        let mut done = 0;
        while done < extent.len {
            check()?;
            let bytes = self.read_source(file, extent.offset + done, (extent.len - done).min(CHUNK as u64) as usize)?;
            let n = bytes.len() as u64;
            let job = Job { file: room.new_file().clone(), at: done, bytes };
            let written = match &mut writer {
                Some(writer) => writer.exchange(job),
                None => job.write().map(Some),
            };
            match written {
                Ok(written) => self.take_sums(written, &mut sums),
                Err(error) => return Ok(Err(error)),
            }
            done += n;
        }
        if let Some(mut writer) = writer {
            match writer.last() {
                Ok(written) => self.take_sums(written, &mut sums),
                Err(error) => return Ok(Err(error)),
            }
            self.writers.give(writer);
        }
        file.source.not_needed(extent);
        Ok(Ok(sums))
    }

    /// Bytes of the source.
    fn read_source(&self, file: &SourceFile, offset: u64, n: usize) -> Result<Vec<u8>> {
        let mut bytes = self.buffer(n);
        if let Err(error) = file.source.read_exact_at(offset, &mut bytes) {
            // report the reason if it is known
            file.check()?;
            return Err(error);
        }
        self.counts.add(Count::BytesSource, n as u64);
        self.counts.add(Count::SourceReads, 1);
        Ok(bytes)
    }

    fn take_sums(&self, written: Option<Written>, sums: &mut Vec<u64>) {
        if let Some(written) = written {
            sums.extend(written.sums);
            self.give_buffer(written.bytes);
        }
    }

    fn buffer(&self, bytes: usize) -> Vec<u8> {
        let mut buffer = locked(&self.buffers).pop().unwrap_or_default();
        buffer.resize(bytes, 0);
        buffer
    }

    fn give_buffer(&self, buffer: Vec<u8>) {
        let mut buffers = locked(&self.buffers);
        if buffers.len() < BUFFERS {
            buffers.push(buffer);
        }
    }
}

/// Result of storing a block.
enum Stored {
    Yes,
    /// Why not.
    NoRoom(String),
    /// The whole limit is being written now, or blocks are removed before they are used.
    Later,
    /// The file has grown meanwhile.
    Grows,
}
