//! Upkeep of a cache: its content is listed, verified and removed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use kinema_core::{Error, ErrorKind, Result};

use super::block::{Block, described};
use super::key::FileKey;
use super::locks::Lock;
use super::space::Stored;
use super::{NodeCache, Shared, named};

/// Blocks of a path, of all states in which it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStat {
    /// The file.
    pub path: PathBuf,
    /// Its blocks.
    pub blocks: u64,
    /// Bytes of these on the disk.
    pub bytes: u64,
}

/// Content of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheStat {
    /// Blocks.
    pub blocks: u64,
    /// Their bytes on the disk.
    pub bytes: u64,
    /// By path, in the order of paths.
    pub files: Vec<FileStat>,
    /// Files that are being written.
    pub temporary: u64,
}

/// A block that was damaged, and is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// Path of the source; path of the block if the source is not known.
    pub path: PathBuf,
    /// Its first byte in the source.
    pub offset: u64,
    /// Description of the damage.
    pub reason: String,
}

/// The path of each file, from the first of its blocks that can be read.
fn paths_of(blocks: &[Stored]) -> HashMap<FileKey, PathBuf> {
    let mut paths = HashMap::new();
    for block in blocks {
        if let std::collections::hash_map::Entry::Vacant(entry) = paths.entry(block.key.file)
            && let Some(path) = described(&block.path)
        {
            entry.insert(path);
        }
    }
    paths
}

impl NodeCache {
    /// Lists the blocks; leftovers of dead processes are removed.
    ///
    /// # Errors
    /// Errors of the cache's folder.
    pub fn stat(&self) -> Result<CacheStat> {
        let temporary = {
            let _space = Lock::wait(&self.0.root.space())?;
            self.0.temporary()?.0
        };
        let blocks = self.0.stored()?;
        let paths = paths_of(&blocks);
        let mut files: BTreeMap<&Path, (u64, u64)> = BTreeMap::new();
        for block in &blocks {
            let path = paths.get(&block.key.file).map_or(Path::new("(unknown)"), PathBuf::as_path);
            let (n, bytes) = files.entry(path).or_default();
            (*n, *bytes) = (*n + 1, *bytes + block.bytes);
        }
        let files =
            files.into_iter().map(|(path, (blocks, bytes))| FileStat { path: path.to_path_buf(), blocks, bytes });
        Ok(CacheStat {
            blocks: blocks.len() as u64,
            bytes: blocks.iter().map(|block| block.bytes).sum(),
            files: files.collect(),
            temporary,
        })
    }

    /// Compares all checksums. Damaged blocks are removed, and fetched again when they are read. `done` is called with
    /// the bytes of each block.
    ///
    /// # Errors
    /// Errors of the cache's folder, and of `done`.
    pub fn verify_all(&self, done: &dyn Fn(u64) -> Result<()>) -> Result<Vec<Damaged>> {
        let blocks = self.0.stored()?;
        let paths = paths_of(&blocks);
        let mut damaged = Vec::new();
        for block in &blocks {
            if let Some(reason) = self.0.verify(block)? {
                let path = paths.get(&block.key.file).unwrap_or(&block.path).clone();
                let offset = block.key.number.saturating_mul(self.options().block);
                damaged.push(Damaged { path, offset, reason });
            }
            done(block.bytes)?;
        }
        Ok(damaged)
    }

    /// Removes all blocks, or the blocks of some files; returns how many, and their bytes.
    ///
    /// # Errors
    /// Errors of the cache's folder.
    pub fn clear(&self, paths: Option<&[PathBuf]>) -> Result<(u64, u64)> {
        let space = Lock::wait(&self.0.root.space())?;
        let blocks = self.0.stored()?;
        let wanted: Option<HashSet<PathBuf>> = paths.map(|paths| paths.iter().map(|path| named(path)).collect());
        let names = if wanted.is_some() { paths_of(&blocks) } else { HashMap::new() };
        let (mut removed, mut bytes) = (0, 0);
        for block in &blocks {
            let from_path =
                |wanted: &HashSet<PathBuf>| names.get(&block.key.file).is_some_and(|path| wanted.contains(path));
            if wanted.as_ref().is_none_or(from_path) && self.0.remove(&block.path)? {
                (removed, bytes) = (removed + 1, bytes + block.bytes);
            }
        }
        self.0.descriptors.clear();
        self.0.count_anew(&space)?;
        Ok((removed, bytes))
    }
}

impl Shared {
    /// Verifies a block; describes its damage and removes it if there is any. `None` for an undamaged block, and for
    /// one that is gone.
    fn verify(&self, stored: &Stored) -> Result<Option<String>> {
        let check = |place: &Path| {
            Block::open(place, stored.key, &self.verified).and_then(|block| block.verify(0, block.len()))
        };
        let gone = |error: &Error| error.kind() == ErrorKind::NotFound;
        match check(&stored.path) {
            Ok(()) => return Ok(None),
            Err(error) if gone(&error) => return Ok(None),
            Err(_) => {}
        }
        let _lock = Lock::wait(&self.root.lock_of(stored.key))?;
        // another may have fetched it again
        match check(&stored.path) {
            Ok(()) => Ok(None),
            Err(error) if gone(&error) => Ok(None),
            Err(error) => {
                self.discard(stored.key, &error)?;
                let at = error.offset().map_or_else(String::new, |at| format!(" (byte {at} of the block)"));
                Ok(Some(format!("{}{at}", error.what())))
            }
        }
    }
}
