//! Node cache: blocks of files on a slow, shared file system, kept in files of the node that all its processes use.
//!
//! A block is fetched once a node: the process that finds it missing takes its lock; the others wait for the lock and
//! read the stored block. A block appears under its name when it is whole, with checksums. Its key is the state of the
//! file, read from the file itself whenever it is opened: old blocks of a changed file are never used.

mod block;
mod cached;
mod counts;
mod descriptors;
mod fetch;
mod forks;
mod key;
mod locks;
mod nodes;
mod orders;
mod prefetch;
mod root;
mod space;
mod stage;
mod troubles;
mod upkeep;
mod verified;
mod writer;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, RwLock, Weak};

use kinema_core::named::Named;
use kinema_core::source::{
    CONTENT_PLACES, FileStatus, Files, OpenSource, SharedNumber, Source, Throttle, Throttled, locked, sampled_bytes,
};
use kinema_core::{Error, ErrorKind, Result};

use self::cached::CachedSource;
use self::counts::{Count, Counter};
use self::descriptors::Descriptors;
use self::fetch::SourceFile;
use self::key::{BlockKey, FileKey};
use self::orders::Order;
use self::root::Root;
use self::verified::Verified;
use self::writer::Writers;

pub use counts::{Counts, counts_of_process};
pub use nodes::{Answer, Nodes, StoredBlock, WantedBlock};
pub use prefetch::Prefetch;
pub use root::check as check_folder;
pub use stage::{Check, Filled};
pub use troubles::take_troubles;
pub use upkeep::{CacheStat, Damaged, FileStat};

/// The limit must have room for at least this many blocks.
const LEAST_BLOCKS: u64 = 4;
/// Blocks are multiples of this, and no larger than that.
const BLOCK_UNIT: u64 = 64 << 10;
const LARGEST_BLOCK: u64 = 1 << 30;
/// For the path and the key at the end of a block's file.
const END_BYTES: u64 = 8 << 10;

/// When checksums are compared, besides at a fetch, and for blocks written before the machine's last start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// At no other time.
    Never,
    /// For a piece of 64 KiB, when a process first reads it.
    First,
    /// On every read, of the pieces of 64 KiB that it touches.
    Always,
}

impl Named for Verify {
    const OPTION: &'static str = "verify";
    const ALL: &'static [(&'static str, Self)] =
        &[("never", Self::Never), ("first", Self::First), ("always", Self::Always)];
}

/// Place and use of a cache.
#[derive(Debug, Clone)]
pub struct CacheOptions {
    /// Its folder, created for its user alone if it does not exist.
    pub root: PathBuf,
    /// Most bytes in it.
    pub limit: u64,
    /// Bytes of a block.
    pub block: u64,
    /// When checksums are compared.
    pub verify: Verify,
    /// Whether the folder may be on FUSE, which may be local or not.
    pub fuse: bool,
    /// Most bytes a second from the sources, together for all processes of the cache: for tests and benchmarks.
    pub source_rate: Option<u64>,
}

/// A cache of files on this node; handles, in any processes, belong to the same cache if they have the same folder.
#[derive(Clone)]
pub struct NodeCache(Arc<Shared>);

/// State that the sources of a handle share.
struct Shared {
    options: CacheOptions,
    root: Root,
    counts: Counter,
    descriptors: Descriptors,
    /// For copies from the source.
    buffers: Mutex<Vec<Vec<u8>>>,
    writers: Writers,
    /// Keys of files that were opened: while a file's status stays the same, its content is not read again.
    keys: Mutex<HashMap<PathBuf, (FileStatus, FileKey)>>,
    /// Pieces that were compared with their checksums.
    verified: Verified,
    /// Bytes fetched but not read by any process of the node: see [`Shared::is_wasteful`].
    unused: SharedNumber,
    /// Bytes of the cache when a block last could only be stored by removing others; and the time, s since 1970, until
    /// which nobody tries that again.
    full: (AtomicU64, AtomicU64),
    /// Blocks that were removed because they were damaged, and not fetched again yet.
    damaged: Mutex<HashSet<BlockKey>>,
    /// Blocks are not stored before this time, s since 1970, as that has failed.
    full_until: AtomicU64,
    last_error: Mutex<Option<String>>,
    throttle: Option<Arc<Throttle>>,
    /// Asked for blocks before the source.
    nodes: RwLock<Option<Arc<dyn Nodes>>>,
    /// Orders in which this process reads.
    orders: Mutex<Vec<Weak<Order>>>,
}

impl Shared {
    /// Why a block could not be stored or used.
    fn note(&self, what: String) {
        *locked(&self.last_error) = Some(what);
    }
}

/// Name of a file in a cache: its path without symbolic links if the file exists.
fn named(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_path_buf())
}

impl NodeCache {
    /// Opens a cache, or creates one.
    ///
    /// # Errors
    /// `InvalidArgument` for a folder of another user, a folder into which others may write, one on a file system of
    /// other machines, a limit that is too small (with the smallest that would suffice) and a block size that cannot be
    /// used; otherwise the operating system's.
    pub fn open(options: CacheOptions) -> Result<Self> {
        let invalid = |what: String| Error::new(ErrorKind::InvalidArgument, what);
        let CacheOptions { block, limit, .. } = options;
        if block == 0 || block % BLOCK_UNIT != 0 || block > LARGEST_BLOCK {
            return Err(invalid(format!(
                "the block size of a node cache must be a multiple of {BLOCK_UNIT} bytes up to {LARGEST_BLOCK}, \
                 found {block}"
            )));
        }
        let least = LEAST_BLOCKS * (block + block / BLOCK_UNIT * 8 + END_BYTES);
        if limit < least {
            return Err(invalid(format!(
                "the limit of the node cache is too small for blocks of {block} bytes, expected at least {least} bytes, \
                 found {limit}"
            )));
        }
        let root = Root::open(&options.root, options.fuse)?;
        // the same for processes that work in other folders
        let options = CacheOptions { root: root.path.clone(), ..options };
        let throttle = |rate| Throttle::new(rate, &root.rate()).map(Arc::new);
        let throttle = options.source_rate.map(throttle).transpose()?;
        let (buffers, writers, keys, damaged, full_until, last_error, orders, nodes) = Default::default();
        let (verified, full, unused) = (Verified::default(), Default::default(), SharedNumber::open(&root.unused())?);
        let (counts, descriptors) = (Counter::new(), Descriptors::new());
        let shared = Shared {
            options,
            root,
            counts,
            descriptors,
            buffers,
            writers,
            keys,
            verified,
            unused,
            full,
            damaged,
            full_until,
            last_error,
            throttle,
            orders,
            nodes,
        };
        shared.remove_leftovers()?;
        Ok(Self(Arc::new(shared)))
    }

    /// Options with which it was opened.
    pub fn options(&self) -> &CacheOptions {
        &self.0.options
    }

    /// Counts of this process's use through this handle.
    pub fn counts(&self) -> Counts {
        self.0.counts.get()
    }

    /// The reason why a block last could not be stored, or was damaged, in this process.
    pub fn last_error(&self) -> Option<String> {
        locked(&self.0.last_error).clone()
    }

    /// The files that `inner` opens, through this cache.
    pub fn wrap(&self, inner: Arc<dyn OpenSource>) -> CachedFiles {
        let inner = match &self.0.throttle {
            Some(throttle) => Arc::new(Throttled::new(inner, throttle.clone())) as Arc<dyn OpenSource>,
            None => inner,
        };
        CachedFiles { cache: self.clone(), inner }
    }
}

/// Opens files of another opener through a cache.
#[derive(Clone)]
pub struct CachedFiles {
    cache: NodeCache,
    inner: Arc<dyn OpenSource>,
}

impl CachedFiles {
    fn file(&self, path: &Path) -> Result<Option<SourceFile>> {
        let source = self.inner.open(path)?;
        // before its content is read
        let Some(status) = FileStatus::settled_of(&*source)? else { return Ok(None) };
        let key = self.cache.0.key(&*source, &status)?;
        Ok(Some(SourceFile { key, status, path: named(path), source }))
    }
}

impl OpenSource for CachedFiles {
    fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        // published files that were fetched to the folder are on this node
        if path.starts_with(&self.cache.0.root.path) {
            return self.inner.open(path);
        }
        match self.file(path)? {
            Some(file) => Ok(Arc::new(CachedSource { shared: self.cache.0.clone(), file: Arc::new(file) })),
            // no file
            None => self.inner.open(path),
        }
    }
}

impl OpenSource for NodeCache {
    fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        self.wrap(Arc::new(Files)).open(path)
    }
}

impl Shared {
    /// The key of a file: from memory if the file is unchanged, otherwise with its content sampled.
    fn key(&self, source: &dyn Source, status: &FileStatus) -> Result<FileKey> {
        let known = locked(&self.keys).get(source.path()).copied();
        if let Some((_, key)) = known.filter(|(then, _)| then.is_unchanged(status)) {
            return Ok(key);
        }
        let key = FileKey::from_source(source, status, self.options.block)?;
        self.counts.add(Count::BytesIdentity, sampled_bytes(status.size, CONTENT_PLACES));
        locked(&self.keys).insert(source.path().to_path_buf(), (*status, key));
        Ok(key)
    }
}
