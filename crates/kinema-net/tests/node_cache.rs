//! The node cache: the right bytes whatever happens to blocks, folders and sources, and each byte fetched once.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::IoSliceMut;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant, SystemTime};

use kinema_core::ErrorKind;
use kinema_core::source::{Extent, FileStatus, OpenSource, ReadLog, Source};
use kinema_net::cache::{CacheOptions, NodeCache, Verify};

const BLOCK: u64 = 64 << 10;

/// A folder of a test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("kinema-node-cache-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A file of bytes that differ from place to place, whose times have settled.
    fn file(&self, name: &str, bytes: usize) -> (PathBuf, Vec<u8>) {
        let path = self.0.join(name);
        let content: Vec<u8> = (0..bytes as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
        fs::write(&path, &content).unwrap();
        settle(&path);
        (path, content)
    }

    fn options(&self) -> CacheOptions {
        let root = self.0.join("cache");
        CacheOptions { root, limit: 64 << 20, block: BLOCK, verify: Verify::First, fuse: false, source_rate: None }
    }

    fn cache(&self) -> NodeCache {
        NodeCache::open(self.options()).unwrap()
    }

    /// Files of blocks, in the order of their numbers.
    fn blocks(&self) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = Vec::new();
        for folder in fs::read_dir(self.0.join("cache/kinema-cache-1/blocks")).unwrap() {
            found.extend(fs::read_dir(folder.unwrap().path()).unwrap().map(|file| file.unwrap().path()));
        }
        let number = |path: &PathBuf| u64::from_str_radix(path.file_name().unwrap().to_str().unwrap(), 16).unwrap();
        found.sort_by_key(number);
        found
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn settle(path: &Path) {
    while !FileStatus::from_path(path).unwrap().settled {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn read(source: &dyn Source, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    source.read_exact_at(offset, &mut bytes).unwrap();
    bytes
}

#[test]
fn reads_are_those_of_the_file_and_each_block_is_fetched_once() {
    let folder = Folder::new("reads");
    let (path, content) = folder.file("data", 5 * BLOCK as usize + 123);
    let (cache, log) = (folder.cache(), ReadLog::default());
    let source = cache.wrap(Arc::new(log.clone())).open(&path).unwrap();
    log.take();
    let size = content.len();
    for (offset, len) in [(0, 1), (7, 5000), (65_000, 2000), (65_536, 65_536), (0, size), (size - 3, 3), (size, 0)] {
        assert_eq!(read(&*source, offset as u64, len), content[offset..offset + len], "{offset} {len}");
    }
    let mut parts = (vec![0; 10], vec![0; 0], vec![0; 70_000]);
    let mut buffers = [IoSliceMut::new(&mut parts.0), IoSliceMut::new(&mut parts.1), IoSliceMut::new(&mut parts.2)];
    source.read_scattered_at(60_000, &mut buffers).unwrap();
    source.read_scattered_at(100, &mut [IoSliceMut::new(&mut parts.1)]).unwrap();
    assert_eq!((&parts.0[..], &parts.2[..]), (&content[60_000..60_010], &content[60_010..130_010]));
    source.will_need(Extent { offset: 0, len: size as u64 });

    let error = source.read_exact_at(size as u64 - 5, &mut [0; 10]).unwrap_err();
    assert_eq!(
        (error.kind(), error.path(), error.offset()),
        (ErrorKind::Truncated, Some(&*path), Some(size as u64 - 5))
    );
    let mut fetched: Vec<_> = log.take().into_iter().map(|(_, extent)| (extent.offset, extent.len)).collect();
    fetched.sort_unstable();
    // the read beyond the end went to the file
    fetched.retain(|(offset, _)| *offset < size as u64 - 5);
    let all: Vec<_> = (0..6).map(|i| (i * BLOCK, BLOCK.min(size as u64 - i * BLOCK))).collect();
    assert_eq!(fetched, all);
    let counts = cache.counts();
    assert_eq!((counts.misses, counts.bytes_source, counts.source_reads), (6, size as u64, 6));
}

#[test]
fn another_handle_reads_nothing_of_the_file_but_its_state() {
    let folder = Folder::new("second");
    let (path, content) = folder.file("data", 3 * BLOCK as usize);
    read(&*folder.cache().open(&path).unwrap(), 0, content.len());
    let (cache, log) = (folder.cache(), ReadLog::default());
    let files = cache.wrap(Arc::new(log.clone()));
    let source = files.open(&path).unwrap();
    let identity: u64 = log.take().iter().map(|(_, extent)| extent.len).sum();
    assert_eq!(read(&*source, 0, content.len()), content);
    assert!(log.take().is_empty());
    let counts = cache.counts();
    assert_eq!((counts.hits, counts.misses, counts.bytes_source), (3, 0, 0));
    assert_eq!((counts.bytes_identity, counts.bytes_saved()), (identity, content.len() as u64));
    // what this handle knows already is not read again
    files.open(&path).unwrap();
    assert!(log.take().is_empty());
}

#[test]
fn threads_that_want_a_block_at_once_fetch_it_once() {
    let folder = Folder::new("threads");
    let (path, content) = folder.file("data", 40 * BLOCK as usize + 1);
    let cache = NodeCache::open(CacheOptions { source_rate: Some(50 << 20), ..folder.options() }).unwrap();
    let barrier = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let source = cache.open(&path).unwrap();
                barrier.wait();
                assert!(read(&*source, 0, content.len()) == content);
            });
        }
    });
    let counts = cache.counts();
    assert_eq!((counts.bytes_source, counts.misses, counts.hits), (content.len() as u64, 41, 7 * 41));
    assert!(counts.waited > 0);
}

#[test]
fn a_file_that_was_changed_is_not_read_from_old_blocks() {
    let folder = Folder::new("changed");
    let (path, mut content) = folder.file("data", 40 * BLOCK as usize);
    let cache = folder.cache();
    let source = cache.open(&path).unwrap();
    read(&*source, 0, BLOCK as usize);
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    let at = 20 * BLOCK as usize + 77;
    content[at] ^= 1;
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&content[at..=at], at as u64).unwrap();
    file.set_modified(before).unwrap();
    // between open and fetch: cached bytes are given, others are refused
    read(&*source, 0, BLOCK as usize);
    let error = source.read_exact_at(BLOCK, &mut [0; 8]).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Corrupt, Some(&*path)));
    assert!(error.to_string().contains("has changed since it was opened"), "{error}");
    assert_eq!(folder.blocks().len(), 1);
    settle(&path);
    assert!(read(&*cache.open(&path).unwrap(), 0, content.len()) == content);
}

#[test]
fn a_file_that_grows_is_read_past_the_cache_until_it_is_opened_again() {
    let folder = Folder::new("grown");
    let (path, mut content) = folder.file("data", BLOCK as usize + 1000);
    let cache = folder.cache();
    let source = cache.open(&path).unwrap();
    read(&*source, 0, 10);
    File::options().append(true).open(&path).unwrap().write_all_at(&[9; 500], 0).unwrap();
    content.extend([9; 500]);
    assert_eq!(source.len().unwrap(), content.len() as u64);
    assert!(read(&*source, 0, content.len()) == content);
    assert!(read(&*source, BLOCK, 20) == content[BLOCK as usize..BLOCK as usize + 20]);
    assert_eq!(folder.blocks().len(), 1);
    settle(&path);
    let source = cache.open(&path).unwrap();
    assert!(read(&*source, 0, content.len()) == content);
    assert_eq!(folder.blocks().len(), 3);
}

#[test]
fn a_file_that_was_cut_is_an_error_where_it_must_be_fetched() {
    let folder = Folder::new("cut");
    let (path, _) = folder.file("data", 3 * BLOCK as usize);
    let source = folder.cache().open(&path).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(BLOCK).unwrap();
    let error = source.read_exact_at(BLOCK, &mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("it is shorter, expected 196608 bytes, found 65536"), "{error}");
    assert!(folder.blocks().is_empty());
}

/// Damages the file of a block.
type Damage = fn(&File, u64);

#[test]
fn a_damaged_block_is_removed_and_fetched_again() {
    let damages: [(&str, Damage, bool); 7] = [
        ("shorter", |file, len| file.set_len(len - 1).unwrap(), false),
        ("empty", |file, _| file.set_len(0).unwrap(), false),
        ("longer", |file, len| file.set_len(len + 8).unwrap(), false),
        ("magic", |file, len| file.write_all_at(b"x", len - 60).unwrap(), false),
        ("checksums", |file, _| file.write_all_at(b"x", BLOCK + 3).unwrap(), false),
        ("key", |file, len| file.write_all_at(&[0xff], len - 35).unwrap(), false),
        ("bytes", |file, _| file.write_all_at(b"1234", 40_000).unwrap(), true),
    ];
    let folder = Folder::new("damaged");
    let (path, content) = folder.file("data", 2 * BLOCK as usize);
    read(&*folder.cache().open(&path).unwrap(), 0, content.len());
    for (what, damage, always) in damages {
        let place = &folder.blocks()[1];
        let file = OpenOptions::new().write(true).open(place).unwrap();
        damage(&file, file.metadata().unwrap().len());
        let verify = if always { Verify::Always } else { Verify::First };
        let cache = NodeCache::open(CacheOptions { verify, ..folder.options() }).unwrap();
        let source = cache.open(&path).unwrap();
        assert!(read(&*source, 0, content.len()) == content, "{what}");
        let counts = cache.counts();
        assert_eq!((counts.corrupt, counts.refetched, counts.bytes_source), (1, 1, BLOCK), "{what}");
        assert!(cache.last_error().unwrap().contains("damaged block"), "{what}");
        assert_eq!(cache.verify_all(&|_| Ok(())).unwrap(), [], "{what}");
    }
}

#[test]
fn a_block_of_another_place_is_not_taken_for_this_one() {
    let folder = Folder::new("swapped");
    let (path, content) = folder.file("data", 2 * BLOCK as usize);
    read(&*folder.cache().open(&path).unwrap(), 0, content.len());
    let blocks = folder.blocks();
    fs::copy(&blocks[0], &blocks[1]).unwrap();
    let cache = folder.cache();
    assert!(read(&*cache.open(&path).unwrap(), 0, content.len()) == content);
    assert_eq!(cache.counts().corrupt, 1);
}

#[test]
fn damage_behind_an_open_descriptor_is_survived() {
    let folder = Folder::new("open-damage");
    let (path, content) = folder.file("data", 2 * BLOCK as usize);
    let cache = folder.cache();
    let source = cache.open(&path).unwrap();
    read(&*source, 0, content.len());
    File::options().write(true).open(&folder.blocks()[0]).unwrap().set_len(10).unwrap();
    assert!(read(&*source, 0, content.len()) == content);
    assert_eq!(cache.counts().refetched, 1);
    fs::remove_dir_all(folder.0.join("cache")).unwrap();
    // held open, and fetched past a cache that is gone
    assert!(read(&*source, 0, content.len()) == content);
    let other = folder.file("other", BLOCK as usize);
    assert!(read(&*cache.open(&other.0).unwrap(), 0, other.1.len()) == other.1);
    assert!(cache.counts().errors > 0 && cache.last_error().is_some());
}

#[test]
fn all_damaged_blocks_are_listed_with_their_place() {
    let folder = Folder::new("listed");
    let (path, content) = folder.file("data", 4 * BLOCK as usize);
    let cache = folder.cache();
    read(&*cache.open(&path).unwrap(), 0, content.len());
    File::options().write(true).open(&folder.blocks()[2]).unwrap().write_all_at(b"1234", 40_000).unwrap();
    let found = cache.verify_all(&|_| Ok(())).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0].path, found[0].offset), (&path.canonicalize().unwrap(), 2 * BLOCK));
    assert_eq!(cache.stat().unwrap().blocks, 3);
}

#[test]
fn the_bytes_of_all_blocks_stay_below_the_limit() {
    let folder = Folder::new("limit");
    let (path, content) = folder.file("data", 40 * BLOCK as usize);
    let limit = 10 * BLOCK;
    let cache = NodeCache::open(CacheOptions { limit, ..folder.options() }).unwrap();
    let source = cache.open(&path).unwrap();
    for round in 0..2 {
        for (i, piece) in content.chunks(50_000).enumerate() {
            assert!(read(&*source, i as u64 * 50_000, piece.len()) == piece);
            let stat = cache.stat().unwrap();
            assert!(stat.bytes <= limit && stat.temporary == 0, "{round} {i} {stat:?}");
        }
    }
    let stat = cache.stat().unwrap();
    assert_eq!(stat.blocks, 9);
    assert_eq!((cache.counts().misses, cache.counts().evicted), (80, 71));
    assert_eq!(cache.counts().errors, 0);
}

#[test]
fn the_block_that_was_unused_for_longest_goes_first() {
    let folder = Folder::new("oldest");
    let (path, _) = folder.file("data", 20 * BLOCK as usize);
    let cache = NodeCache::open(CacheOptions { limit: 8 * BLOCK, ..folder.options() }).unwrap();
    let source = cache.open(&path).unwrap();
    read(&*source, 0, 7 * BLOCK as usize);
    // touched at most once a minute
    for (i, block) in folder.blocks().iter().enumerate() {
        let minutes = if i == 3 { 100 } else { i as u64 };
        let time = SystemTime::now() - Duration::from_secs(60 * minutes);
        File::options().write(true).open(block).unwrap().set_modified(time).unwrap();
    }
    read(&*source, 7 * BLOCK, BLOCK as usize);
    let names: Vec<String> =
        folder.blocks().iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["0", "1", "2", "4", "5", "6", "7"]);
}

#[test]
fn where_the_order_is_known_the_block_that_is_needed_last_goes_first() {
    let folder = Folder::new("next-use");
    let (path, content) = folder.file("data", 12 * BLOCK as usize);
    let (other, _) = folder.file("other", BLOCK as usize);
    let limit = 8 * BLOCK;
    let cache = NodeCache::open(CacheOptions { limit, ..folder.options() }).unwrap();
    // 0 1 2 3 4 5 6 7 0 1 2 ..: in a loop, the least recently used block is the next one needed
    let order: Vec<u64> = (0..3).flat_map(|_| 0..12).collect();
    let reads: Vec<_> =
        order.iter().map(|number| (path.clone(), Extent { offset: number * BLOCK, len: BLOCK })).collect();
    let prefetch = cache.prefetch(&reads, BLOCK).unwrap();
    let (source, once) = (cache.open(&path).unwrap(), cache.open(&other).unwrap());
    read(&*once, 0, BLOCK as usize);
    for (i, number) in order.iter().enumerate() {
        let start = (number * BLOCK) as usize;
        assert!(read(&*source, number * BLOCK, BLOCK as usize) == content[start..start + BLOCK as usize]);
        prefetch.position(i as u64 + 1);
    }
    assert!(prefetch.failure().is_none());
    drop(prefetch);
    // least recently used: all 36; at best 12 + 2 x 5 or so
    let fetched = cache.counts().bytes_source / BLOCK - 1;
    assert!(fetched < 30, "{fetched}");
}

#[test]
fn what_dead_processes_have_left_is_removed() {
    let folder = Folder::new("leftovers");
    let (path, content) = folder.file("data", BLOCK as usize);
    let cache = folder.cache();
    let temporary = folder.0.join("cache/kinema-cache-1/temporary");
    fs::write(temporary.join("1-0"), [0; 1000]).unwrap();
    let alive = File::create(temporary.join("2-0")).unwrap();
    alive.lock().unwrap();
    assert_eq!(cache.stat().unwrap().temporary, 1);
    let names: Vec<_> = fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["2-0"]);
    drop(alive);
    folder.cache();
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
    assert!(read(&*cache.open(&path).unwrap(), 0, content.len()) == content);
}

#[test]
fn folders_that_are_not_the_users_alone_are_refused() {
    let folder = Folder::new("refused");
    let refused = |root: PathBuf| {
        let error = NodeCache::open(CacheOptions { root: root.clone(), ..folder.options() }).map(drop).unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::InvalidArgument, Some(&*root)));
        error.to_string()
    };
    let open = folder.0.join("open");
    fs::create_dir(&open).unwrap();
    for mode in [0o720, 0o702, 0o1777] {
        fs::set_permissions(&open, Permissions::from_mode(mode)).unwrap();
        assert!(refused(open.clone()).contains("others may write"));
    }
    symlink(&open, folder.0.join("link")).unwrap();
    assert!(refused(folder.0.join("link")).contains("others may write"));
    fs::write(folder.0.join("file"), b"").unwrap();
    assert!(refused(folder.0.join("file")).contains("must be a folder"));
    // made for the user alone, and the same by another name
    let made = folder.0.join("a/b/made");
    folder.cache();
    drop(NodeCache::open(CacheOptions { root: made.clone(), ..folder.options() }).unwrap());
    assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o700);
    symlink(&made, folder.0.join("good")).unwrap();
    NodeCache::open(CacheOptions { root: folder.0.join("good"), ..folder.options() }).map(drop).unwrap();
}

#[test]
fn limits_and_blocks_that_cannot_be_used_are_refused_with_what_would_do() {
    let folder = Folder::new("limits");
    let open = |limit, block| NodeCache::open(CacheOptions { limit, block, ..folder.options() }).map(drop);
    let error = open(3 * BLOCK, BLOCK).unwrap_err();
    let least: u64 =
        error.what().split("expected at least ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(open(least - 1, BLOCK).is_err());
    open(least, BLOCK).unwrap();
    for block in [0, 1000, BLOCK + 1, 2 << 30] {
        assert_eq!(open(u64::MAX, block).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn files_are_staged_in_listed_and_removed() {
    let folder = Folder::new("stage");
    let files: Vec<(PathBuf, Vec<u8>)> =
        (0..3).map(|i| folder.file(&format!("f{i}"), i * BLOCK as usize + 10)).collect();
    let paths: Vec<PathBuf> = files.iter().map(|(path, _)| path.clone()).collect();
    let (cache, done) = (folder.cache(), AtomicU64::new(0));
    let filled = cache.fill(&paths, 4, &|| Ok(()), &done).unwrap();
    let bytes: u64 = files.iter().map(|(_, content)| content.len() as u64).sum();
    assert_eq!((filled.files, filled.blocks, filled.fetched_blocks, filled.not_stored), (3, 6, 6, 0));
    assert_eq!((filled.bytes, filled.fetched_bytes, done.into_inner()), (bytes, bytes, bytes));
    let again = cache.fill(&paths, 4, &|| Ok(()), &AtomicU64::new(0)).unwrap();
    assert_eq!((again.blocks, again.fetched_blocks), (6, 0));
    for (path, content) in &files {
        assert!(read(&*cache.open(path).unwrap(), 0, content.len()) == *content);
    }
    assert_eq!((cache.counts().misses, cache.counts().prefetched), (0, 6));

    let stat = cache.stat().unwrap();
    let listed: Vec<_> = stat.files.iter().map(|file| (file.path.clone(), file.blocks)).collect();
    let expected: Vec<_> = paths.iter().zip(1..).map(|(path, n)| (path.canonicalize().unwrap(), n)).collect();
    assert_eq!(listed, expected);
    assert_eq!(cache.clear(Some(&paths[1..2])).unwrap().0, 2);
    assert_eq!(cache.stat().unwrap().blocks, 4);
    assert_eq!(cache.clear(None).unwrap().0, 4);
    assert!(folder.blocks().is_empty());

    let error = NodeCache::open(CacheOptions { limit: 9 * BLOCK, ..folder.options() })
        .unwrap()
        .fill(&[paths[2].clone(), folder.file("large", 9 * BLOCK as usize).0], 2, &|| Ok(()), &AtomicU64::new(0))
        .unwrap_err();
    assert!(error.to_string().contains("do not fit into the node cache"), "{error}");
    let stopped = || Err(kinema_core::Error::new(ErrorKind::Cancelled, "stopped"));
    let error = cache.fill(&paths, 2, &stopped, &AtomicU64::new(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

/// Waits until it holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn one_of_those_who_read_in_an_order_fetches_ahead_of_it() {
    let folder = Folder::new("ahead");
    let (path, _) = folder.file("data", 30 * BLOCK as usize);
    let reads: Vec<_> = (0..60).map(|i| (path.clone(), Extent { offset: i * BLOCK / 2, len: BLOCK / 2 })).collect();
    let (one, two) = (folder.cache(), folder.cache());
    let first = one.prefetch(&reads, 4 * BLOCK).unwrap();
    until("the first blocks", || folder.blocks().len() == 4);
    let second = two.prefetch(&reads, 4 * BLOCK).unwrap();
    // what the other one says counts
    second.position(8);
    until("four more", || folder.blocks().len() == 8);
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!((folder.blocks().len(), one.counts().prefetched, two.counts().prefetched), (8, 8, 0));
    drop(first);
    second.position(16);
    until("the other continues", || folder.blocks().len() == 12);
    assert_eq!(two.counts().prefetched, 4);
    drop(second);
    // starts from the beginning, as nobody was left; blocks in the cache are not fetched again
    let third = one.prefetch(&reads, 4 * BLOCK).unwrap();
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(one.counts().prefetched, 8);
    third.position(20);
    drop(third);
}

#[test]
fn a_file_that_cannot_be_opened_is_noted_by_who_fetches_ahead() {
    let folder = Folder::new("missing");
    let (path, _) = folder.file("data", 2 * BLOCK as usize);
    let extent = Extent { offset: 0, len: 10 };
    let cache = folder.cache();
    let prefetch = cache.prefetch(&[(folder.0.join("nowhere"), extent), (path, extent)], 4 * BLOCK).unwrap();
    until("the other file", || folder.blocks().len() == 1);
    assert_eq!(prefetch.failure().unwrap().kind(), ErrorKind::NotFound);
}
