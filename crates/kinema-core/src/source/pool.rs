//! A pool of open files: many sources, of which a limited number is open at a time.
//!
//! Trajectories and archives of samples that are read together share one pool, so that one limit holds for all their
//! files. A file that was closed is opened again when it is read, and must be the same file.

use std::collections::HashMap;
use std::io::IoSliceMut;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use super::{Change, Extent, FileStatus, OpenSource, Source, changed};
use crate::error::Result;

/// Open files with a limit on their number between reads; the one unused for longest is closed first.
#[derive(Clone)]
pub struct FilePool(Arc<Shared>);

struct Shared {
    most: usize,
    files: Arc<dyn OpenSource>,
    /// All files for which a source exists.
    known: Mutex<HashMap<PathBuf, Weak<Entry>>>,
    open: Mutex<Vec<Arc<Entry>>>,
    /// Counts uses.
    clock: AtomicU64,
}

struct Entry {
    path: PathBuf,
    source: Mutex<Option<Arc<dyn Source>>>,
    /// When it was first opened.
    first: OnceLock<Option<FileStatus>>,
    used: AtomicU64,
}

/// A file of a pool.
struct PooledSource {
    pool: Arc<Shared>,
    entry: Arc<Entry>,
}

impl Entry {
    /// False if its name certainly belongs to another file now, or if the file certainly was changed: the opened file
    /// is then for those who already have a source of it. For a file that is read through a cache, the status is the
    /// one at that time.
    fn is_of_its_path(&self) -> bool {
        match (self.first.get(), FileStatus::from_path(&self.path)) {
            (Some(Some(first)), Ok(now)) => first.is_equal(&now),
            _ => true,
        }
    }
}

/// Locks a mutex, even if a thread panicked while it held the lock.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FilePool {
    /// A pool of at most `most` open files, which `files` opens.
    pub fn new(most: usize, files: Arc<dyn OpenSource>) -> Self {
        let (known, open, clock) = Default::default();
        Self(Arc::new(Shared { most: most.max(1), files, known, open, clock }))
    }

    /// A file that is opened when it is first read.
    pub fn source(&self, path: &Path) -> Arc<dyn Source> {
        Arc::new(self.pooled(path))
    }

    /// Files that are open now.
    pub fn n_open(&self) -> usize {
        locked(&self.0.open).len()
    }

    fn pooled(&self, path: &Path) -> PooledSource {
        let mut known = locked(&self.0.known);
        let entry =
            known.get(path).and_then(Weak::upgrade).filter(|entry| entry.is_of_its_path()).unwrap_or_else(|| {
                let (source, first, used) = Default::default();
                let entry = Arc::new(Entry { path: path.to_path_buf(), source, first, used });
                known.insert(path.to_path_buf(), Arc::downgrade(&entry));
                entry
            });
        PooledSource { pool: self.0.clone(), entry }
    }
}

impl OpenSource for FilePool {
    fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        let pooled = self.pooled(path);
        pooled.get()?;
        Ok(Arc::new(pooled))
    }
}

impl PooledSource {
    /// The open file; of several threads that ask at once one opens it, and the others wait for that.
    fn get(&self) -> Result<Arc<dyn Source>> {
        let entry = &self.entry;
        entry.used.store(self.pool.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        let source = {
            let mut place = locked(&entry.source);
            if let Some(source) = &*place {
                return Ok(source.clone());
            }
            let source = self.pool.files.open(&entry.path)?;
            self.check(source.status()?)?;
            *place = Some(source.clone());
            source
        };
        let oldest = {
            let mut open = locked(&self.pool.open);
            open.push(entry.clone());
            let oldest = open.iter().enumerate().min_by_key(|(_, entry)| entry.used.load(Ordering::Relaxed));
            let oldest = oldest.map(|(at, _)| at).filter(|_| open.len() > self.pool.most);
            oldest.map(|at| open.swap_remove(at))
        };
        // without the lock of the list, for which another may wait while it opens a file
        if let Some(oldest) = oldest {
            locked(&oldest.source).take();
        }
        Ok(source)
    }

    /// Checks that the file is the one that was opened first: others rely on facts of that file.
    fn check(&self, now: Option<FileStatus>) -> Result<()> {
        let first = *self.entry.first.get_or_init(|| now);
        match first.zip(now).map(|(first, now)| first.change_to(&now, false)) {
            Some(Change::Changed(how)) => Err(changed(&how).with_path(&self.entry.path)),
            // whether it has only grown is asked by who reads it
            Some(Change::None | Change::Grown) | None => Ok(()),
        }
    }
}

impl Source for PooledSource {
    fn path(&self) -> &Path {
        &self.entry.path
    }

    fn len(&self) -> Result<u64> {
        self.get()?.len()
    }

    fn is_open(&self) -> bool {
        locked(&self.entry.source).as_ref().is_some_and(|source| source.is_open())
    }

    fn status(&self) -> Result<Option<FileStatus>> {
        self.get()?.status()
    }

    fn check(&self, extent: Extent) -> Result<()> {
        self.get()?.check(extent)
    }

    fn will_need(&self, extent: Extent) {
        // an error comes again with the read
        if let Ok(source) = self.get() {
            source.will_need(extent);
        }
    }

    fn not_needed(&self, extent: Extent) {
        if let Ok(source) = self.get() {
            source.not_needed(extent);
        }
    }

    fn end_of_hole(&self, offset: u64) -> u64 {
        // an error comes again with the read
        self.get().map_or(offset, |source| source.end_of_hole(offset))
    }

    fn reads_end_with_a_call(&self) -> bool {
        self.get().is_ok_and(|source| source.reads_end_with_a_call())
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.get()?.read_exact_at(offset, buffer)
    }

    fn read_scattered_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<()> {
        self.get()?.read_scattered_at(offset, buffers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::source::ReadLog;

    fn files(name: &str, n: usize) -> Vec<PathBuf> {
        let folder = std::env::temp_dir().join(format!("kinema-pool-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let paths: Vec<PathBuf> = (0..n).map(|i| folder.join(format!("{i}"))).collect();
        paths.iter().for_each(|path| std::fs::write(path, b"abcdefgh").unwrap());
        paths
    }

    #[test]
    fn files_within_the_limit_are_opened_once_and_others_again() {
        let paths = files("limit", 6);
        let log = ReadLog::default();
        let pool = FilePool::new(6, Arc::new(log.clone()));
        let sources: Vec<_> = paths.iter().map(|path| pool.source(path)).collect();
        assert!(log.take_opens().is_empty());
        let mut byte = [0];
        for i in [0, 5, 3, 3, 1, 0, 5, 2, 4, 1, 0] {
            sources[i].read_exact_at(2, &mut byte).unwrap();
            assert_eq!(&byte, b"c");
        }
        // another source of the same file is the same open file
        pool.open(&paths[3]).unwrap().read_exact_at(0, &mut byte).unwrap();
        assert_eq!((log.take_opens().len(), pool.n_open()), (6, 6));
        let pool = FilePool::new(2, Arc::new(log.clone()));
        let sources: Vec<_> = paths.iter().map(|path| pool.source(path)).collect();
        for i in [0, 1, 0, 2, 0, 1] {
            sources[i].read_exact_at(0, &mut byte).unwrap();
            assert!(pool.n_open() <= 2);
        }
        assert_eq!(log.take_opens(), [0, 1, 2, 1].map(|i: usize| paths[i].clone()));
    }

    #[test]
    fn a_file_that_was_replaced_is_an_error_when_it_is_opened_again() {
        let paths = files("replaced", 2);
        let pool = FilePool::new(1, Arc::new(crate::source::Files));
        let sources: Vec<_> = paths.iter().map(|path| pool.source(path)).collect();
        let mut byte = [0];
        sources[0].read_exact_at(0, &mut byte).unwrap();
        sources[1].read_exact_at(0, &mut byte).unwrap();
        let other = paths[0].with_extension("new");
        std::fs::write(&other, b"ABCDEFGH").unwrap();
        std::fs::rename(&other, &paths[0]).unwrap();
        let error = sources[0].read_exact_at(0, &mut byte).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("has changed since it was opened"), "{error}");
    }

    #[test]
    fn a_new_source_is_of_the_file_that_has_the_name_now() {
        let paths = files("renamed", 1);
        let pool = FilePool::new(8, Arc::new(crate::source::Files));
        let before = pool.source(&paths[0]);
        let mut byte = [0];
        before.read_exact_at(0, &mut byte).unwrap();
        let other = paths[0].with_extension("new");
        std::fs::write(&other, b"ABCDEFGH").unwrap();
        std::fs::rename(&other, &paths[0]).unwrap();
        let after = pool.source(&paths[0]);
        after.read_exact_at(0, &mut byte).unwrap();
        assert_eq!(&byte, b"A");
        // the one that was there before reads the file that it has open
        before.read_exact_at(0, &mut byte).unwrap();
        assert_eq!(&byte, b"a");
        assert_eq!(pool.n_open(), 2);
        // a file without a name is still what it was
        std::fs::remove_file(&paths[0]).unwrap();
        pool.source(&paths[0]).read_exact_at(1, &mut byte).unwrap();
        assert_eq!(&byte, b"B");
    }
}
