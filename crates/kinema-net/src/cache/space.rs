//! Bytes of a cache: reserved before they are written, freed by removing blocks, counted together for all processes.
//!
//! The number of bytes is stored in a file that is locked while it changes. A killed process leaves reserved bytes that
//! nobody writes. Whenever the limit is reached, all files are therefore counted again and leftovers removed.

use std::fs::{DirEntry, File, OpenOptions, read_dir, remove_dir, remove_file};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use kinema_core::trace::activity::{CACHE_EVICT, PREAD64, PWRITE64};
use kinema_core::trace::{begin, finish, system_call};
use kinema_core::{Error, Result};

use super::counts::Count;
use super::fetch::seconds;
use super::key::{BlockKey, FileKey};
use super::locks::Lock;
use super::troubles::{self, Trouble};
use super::writer::NewFile;
use super::{CacheOptions, Shared};

/// Seconds until the next check whether there is room without removing blocks.
const LOOK: u64 = 1;

/// A new file of known length; no other process uses it until it is renamed.
pub(super) struct Room<'a> {
    shared: &'a Shared,
    new: Arc<NewFile>,
    bytes: u64,
    published: bool,
}

impl Room<'_> {
    pub(super) fn new_file(&self) -> &Arc<NewFile> {
        &self.new
    }

    /// Gives the file its name, under which others find it.
    pub(super) fn publish(mut self, key: BlockKey) -> std::io::Result<()> {
        let (folder, place) = (self.shared.root.folder_of(key), self.shared.root.block(key));
        let mut attempts = 0;
        loop {
            match std::fs::rename(&self.new.path, &place) {
                Ok(()) => break,
                // the folder is removed with its last block, at any time
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && attempts < 8 => {
                    attempts += 1;
                    match std::fs::create_dir(&folder) {
                        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
                        _ => {}
                    }
                }
                Err(error) => return Err(error),
            }
        }
        self.published = true;
        Ok(())
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if !self.published {
            // what cannot be removed or counted now is when all is counted
            let _ = remove_file(&self.new.path);
            let _ = self.shared.give_back(self.bytes);
        }
    }
}

/// For whom a block is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// Readers that need it now, or soon.
    Readers,
    /// A caller that wants the block in the cache: it is stored, whatever is read.
    Staging,
}

/// A block that may be removed.
pub(super) struct Stored {
    pub key: BlockKey,
    pub path: PathBuf,
    pub bytes: u64,
    pub modified: SystemTime,
}

/// The number of bytes written in the file, whose lock is held; `None` in a new file.
fn read_number(space: &Lock, path: &Path) -> Option<u64> {
    let mut bytes = [0; 8];
    let call = || space.file().read_at(&mut bytes, 0).map(|read| read as u64);
    let read = system_call(&PREAD64, path, (0, 8), call);
    read.is_ok_and(|read| read == 8).then(|| u64::from_le_bytes(bytes))
}

fn write_number(space: &Lock, path: &Path, number: u64) -> std::io::Result<()> {
    let call = || space.file().write_at(&number.to_le_bytes(), 0).map(|written| written as u64);
    match system_call(&PWRITE64, path, (0, 8), call) {
        Ok(8) => Ok(()),
        Ok(_) => Err(std::io::ErrorKind::WriteZero.into()),
        Err(error) => Err(error),
    }
}

fn entries(folder: &Path) -> Result<Vec<DirEntry>> {
    let failed = |error: std::io::Error| Error::io("cannot list the folder", &error).with_path(folder);
    match read_dir(folder) {
        // removed by another process meanwhile
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed(error)),
        Ok(found) => found.collect::<std::io::Result<_>>().map_err(failed),
    }
}

/// Allocates the whole length at once, if the file system can do that.
fn allocate(file: &File, bytes: u64) -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let len = libc::off_t::try_from(bytes).map_err(|_| std::io::ErrorKind::FileTooLarge)?;
        loop {
            // SAFETY: the descriptor is open, and the call takes integers only
            if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, len) } == 0 {
                return Ok(());
            }
            let error = std::io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EOPNOTSUPP | libc::ENOSYS) => break,
                _ => return Err(error),
            }
        }
    }
    file.set_len(bytes)
}

pub(super) fn is_full(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

impl Shared {
    /// All blocks, as the folders have them; other files in them are passed over.
    pub(super) fn stored(&self) -> Result<Vec<Stored>> {
        let mut all = Vec::new();
        for folder in entries(&self.root.blocks)? {
            let Some(file) = folder.file_name().to_str().and_then(FileKey::from_text) else { continue };
            for entry in entries(&folder.path())? {
                let name = entry.file_name();
                let number = name.to_str().and_then(|name| u64::from_str_radix(name, 16).ok());
                // removed meanwhile
                let (Some(number), Ok(found)) = (number, entry.metadata()) else { continue };
                let modified = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let key = BlockKey { file, number };
                all.push(Stored { key, path: entry.path(), bytes: found.len(), modified });
            }
        }
        Ok(all)
    }

    /// Number and bytes of the files that are being written; files of dead processes are removed. The caller holds the
    /// lock of the space.
    pub(super) fn temporary(&self) -> Result<(u64, u64)> {
        let (mut n, mut bytes) = (0, 0);
        for entry in entries(&self.root.temporary)? {
            let path = entry.path();
            // finished meanwhile
            let Ok(file) = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(&path) else { continue };
            let len = file.metadata().map_or(0, |found| found.len());
            match Lock::acquire(file)? {
                None => (n, bytes) = (n + 1, bytes + len),
                Some(_lock) => match remove_file(&path) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(Error::io("cannot remove what a dead process has left", &error).with_path(&path));
                    }
                    _ => {}
                },
            }
        }
        Ok((n, bytes))
    }

    /// Removes leftovers of killed processes, if there are any.
    pub(super) fn remove_leftovers(&self) -> Result<()> {
        if !entries(&self.root.temporary)?.is_empty() {
            let space = Lock::wait(&self.root.space())?;
            self.count_anew(&space)?;
        }
        Ok(())
    }

    /// Counts the bytes of all files; the lock of the space is held.
    pub(super) fn count_anew(&self, space: &Lock) -> Result<()> {
        let used = self.free_to(u64::MAX)?;
        write_number(space, &self.root.space(), used)
            .map_err(|error| Error::io("cannot write the number of bytes", &error))
    }

    /// Removes a block, and its folder with the last one.
    pub(super) fn remove(&self, place: &Path) -> Result<bool> {
        let removed = match remove_file(place) {
            Ok(()) => true,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            Err(error) => return Err(Error::io("cannot remove the block", &error).with_path(place)),
        };
        if let Some(folder) = place.parent() {
            // it stays while there are other blocks
            let _ = remove_dir(folder);
        }
        Ok(removed)
    }

    /// Notes bytes that were fetched for readers.
    pub(super) fn fetched(&self, bytes: u64) {
        self.unused.update(|unused| unused.saturating_add(bytes));
    }

    /// Notes bytes of blocks that readers were given: a fifth more than were fetched may be fetched.
    pub(super) fn used(&self, bytes: u64) {
        self.forget_unused(bytes.saturating_add(bytes / 5));
    }

    /// Notes bytes that were read past the cache: after many of them, storing is tried again.
    pub(super) fn read_around(&self, bytes: u64) {
        self.forget_unused(bytes / 16);
    }

    fn forget_unused(&self, bytes: u64) {
        if self.unused.get() > 0 {
            self.unused.update(|unused| unused.saturating_sub(bytes));
        }
    }

    /// Whether unread fetched blocks are more than half of the bytes in the cache, so that blocks are removed before
    /// they are used. Prefetching takes half of the limit at most.
    fn is_wasteful(&self, used: u64) -> bool {
        self.unused.get() > used / 2
    }

    /// Whether to read past a block that is not in the cache, as storing it would remove others before they are used.
    pub(super) fn reads_around(&self) -> bool {
        let (used, until) = &self.full;
        until.load(Ordering::Relaxed) > seconds() && self.is_wasteful(used.load(Ordering::Relaxed))
    }

    /// Whether no block is to be removed for another, which is noted.
    fn keeps(&self, whom: For, used: u64) -> bool {
        let keeps = whom == For::Readers && self.is_wasteful(used);
        if keeps {
            let CacheOptions { limit, block, .. } = self.options;
            self.full.0.store(used, Ordering::Relaxed);
            self.full.1.store(seconds() + LOOK, Ordering::Relaxed);
            troubles::add(&self.root.path, Trouble::TooSmall, || {
                format!(
                    "the node cache is too small for what is read: of {limit} bytes in blocks of {block}, blocks were \
                     removed before they were used; what is not in it is read from the files themselves; raise limit=, \
                     take smaller blocks (block=), or read in windows (order=\"windowed\")"
                )
            });
        }
        keeps
    }

    /// Reserves bytes, and creates a file for them; `None` if there is no room, or only by removing blocks that are not
    /// used yet.
    pub(super) fn room(&self, bytes: u64, whom: For) -> std::result::Result<Option<Room<'_>>, std::io::Error> {
        let plain = |error: Error| std::io::Error::other(error.to_string());
        let space = Lock::wait(&self.root.space()).map_err(plain)?;
        let limit = self.options.limit;
        let mut used = match read_number(&space, &self.root.space()) {
            Some(used) if used.saturating_add(bytes) <= limit => used,
            Some(used) if self.keeps(whom, used) => return Ok(None),
            _ => self.free(bytes).map_err(plain)?,
        };
        if used.saturating_add(bytes) > limit {
            write_number(&space, &self.root.space(), used)?;
            return Ok(None);
        }
        let (path, file) = self.new_file()?;
        let lock = Lock::acquire(file).map_err(plain)?.ok_or(std::io::ErrorKind::WouldBlock)?;
        let mut room = Room { shared: self, new: Arc::new(NewFile { lock, path }), bytes: 0, published: false };
        let mut outcome = allocate(room.new.file(), bytes);
        if outcome.as_ref().is_err_and(is_full) && !self.keeps(whom, used) {
            // other files fill the file system: the cache shrinks
            self.note("blocks were removed for others: No space left on device".to_owned());
            used = self.free_to(used.saturating_sub(bytes.saturating_mul(2))).map_err(plain)?;
            outcome = allocate(room.new.file(), bytes);
        }
        write_number(&space, &self.root.space(), if outcome.is_ok() { used + bytes } else { used })?;
        // its own lock is taken when the room is dropped
        drop(space);
        outcome?;
        room.bytes = bytes;
        Ok(Some(room))
    }

    fn new_file(&self) -> std::io::Result<(PathBuf, File)> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        loop {
            let name = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
            let path = self.root.temporary.join(name);
            let mut options = OpenOptions::new();
            match options.read(true).write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => return Ok((path, file)),
                // of a process of the same number, in another container or dead
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn give_back(&self, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let space = Lock::wait(&self.root.space())?;
        let used = read_number(&space, &self.root.space()).unwrap_or(0).saturating_sub(bytes);
        write_number(&space, &self.root.space(), used)
            .map_err(|error| Error::io("cannot write the number of bytes", &error))
    }

    /// Counts all, and removes as much as `bytes` more need; in a large cache a sixteenth more, so that this happens
    /// rarely.
    fn free(&self, bytes: u64) -> Result<u64> {
        let limit = self.options.limit;
        let slack = if limit / 64 > self.options.block { limit / 16 } else { 0 };
        let used = self.free_to_if(limit.saturating_sub(bytes), limit.saturating_sub(slack.max(bytes)))?;
        Ok(used)
    }

    pub(super) fn free_to(&self, most: u64) -> Result<u64> {
        self.free_to_if(most, most)
    }

    /// If more than `most` bytes are used, removes blocks until at most `goal` are; returns the bytes used then. The
    /// caller holds the lock of the space.
    fn free_to_if(&self, most: u64, goal: u64) -> Result<u64> {
        let (_, temporary) = self.temporary()?;
        let mut blocks = self.stored()?;
        let mut used = temporary + blocks.iter().map(|block| block.bytes).sum::<u64>();
        if used <= most {
            return Ok(used);
        }
        let next = self.next_uses(&blocks);
        blocks.sort_by_cached_key(|block| {
            let next = next.get(&block.key).copied().unwrap_or(u64::MAX);
            (std::cmp::Reverse(next), block.modified)
        });
        for block in blocks {
            if used <= goal {
                break;
            }
            let start = begin();
            if self.remove(&block.path)? {
                self.descriptors.forget(block.key);
                self.counts.add(Count::Evicted, 1);
                let offset = block.key.number.saturating_mul(self.options.block);
                finish(start, &CACHE_EVICT, Some(&block.path), [offset as i64, block.bytes as i64, 0]);
            }
            used -= block.bytes;
        }
        Ok(used)
    }
}
