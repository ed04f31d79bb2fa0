//! The identity of files: unchanged, copied, and changed in place, and how stored indexes and others use it.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::common::{Random, folder};
use kinema_core::index::identity::{FileIdentity, Match};
use kinema_core::source::{FileSource, FileStatus, ReadLog, Source};
use kinema_core::trajectory::{IndexOrigin, IndexPolicy, OpenOptions, Trajectory};
use kinema_core::{Error, ErrorKind, Result};

const BYTES: usize = 3 << 20;

fn made(name: &str) -> PathBuf {
    let path = folder(&format!("identity-{name}")).join("data");
    let mut random = Random(9);
    fs::write(&path, (0..BYTES).map(|_| random.next() as u8).collect::<Vec<u8>>()).unwrap();
    path
}

fn taken(path: &Path, places: u64) -> FileIdentity {
    let source = FileSource::open(path).unwrap();
    let status = FileStatus::settled_of(&source).unwrap();
    FileIdentity::from_source(&source, source.len().unwrap(), status, None, places).unwrap()
}

fn checked(identity: &FileIdentity, path: &Path) -> Match {
    let source = FileSource::open(path).unwrap();
    let (by_file, by_identity) = (identity.check(&source, None).unwrap(), identity.compare(&taken(path, 16)));
    if source.len().unwrap() == identity.size {
        assert_eq!(by_file, by_identity);
    }
    by_file
}

/// One byte between all samples, with size and time of modification restored.
fn rewrite_middle(path: &Path, at: u64) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
    file.set_times(FileTimes::new().set_modified(modified)).unwrap();
    assert_eq!(fs::metadata(path).unwrap().modified().unwrap(), modified);
}

/// A byte that no sample holds.
fn unsampled(path: &Path) -> u64 {
    let log = ReadLog::default();
    let source = FileSource::open(path).unwrap().recorded(&log);
    let size = source.len().unwrap();
    FileIdentity::from_source(&source, size, None, None, 16).unwrap();
    let read = log.take_extents();
    (size / 2..size).find(|&at| !read.iter().any(|extent| (extent.offset..extent.end()).contains(&at))).unwrap()
}

#[test]
fn what_stays_is_known_without_a_byte_being_read() {
    let path = made("stays");
    let identity = taken(&path, 16);
    let log = ReadLog::default();
    let source = FileSource::open(&path).unwrap().recorded(&log);
    assert_eq!(identity.check(&source, None).unwrap(), Match::Unchanged);
    assert!(log.take_extents().is_empty());
}

#[test]
fn a_middle_that_was_rewritten_is_seen_although_no_sample_holds_it() {
    let path = made("middle");
    let identity = taken(&path, 16);
    rewrite_middle(&path, unsampled(&path));
    let Match::Changed(how) = checked(&identity, &path) else { panic!("not seen") };
    assert!(how.contains("changed in place"), "{how}");
    assert_eq!(identity.fingerprint(), taken(&path, 16).fingerprint());
}

#[test]
fn a_copy_is_known_by_its_content() {
    let path = made("copy");
    let identity = taken(&path, 16);
    let copy = path.with_file_name("copy");
    fs::copy(&path, &copy).unwrap();
    assert_eq!(checked(&identity, &copy), Match::SameContent);
    let log = ReadLog::default();
    let source = FileSource::open(&copy).unwrap().recorded(&log);
    FileIdentity::from_source(&source, BYTES as u64, None, None, 16).unwrap();
    for extent in log.take_extents() {
        rewrite_middle(&copy, extent.offset + extent.len / 2);
        assert_eq!(checked(&identity, &copy), Match::Changed("its content is another".to_owned()));
        rewrite_middle(&copy, extent.offset + extent.len / 2);
    }
    // samples are spread: no two next to each other, none missing between
    let middle_log = ReadLog::default();
    let middle = FileSource::open(&copy).unwrap().recorded(&middle_log);
    FileIdentity::from_source(&middle, BYTES as u64, None, None, 16).unwrap();
    let mut places: Vec<u64> = middle_log.take_extents().iter().skip(2).map(|extent| extent.offset).collect();
    places.dedup();
    assert_eq!(places.len(), 16);
    for (i, at) in places.iter().enumerate() {
        assert_eq!(at * 16 / BYTES as u64, i as u64);
    }
}

#[test]
fn another_mode_counts_as_a_change_unless_all_bytes_were_hashed() {
    let path = made("mode");
    let (sampled, whole) = (taken(&path, 16), taken(&path, BYTES as u64 / 4096));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(matches!(checked(&sampled, &path), Match::Changed(_)));
    let source = FileSource::open(&path).unwrap();
    assert_eq!(whole.check(&source, None).unwrap(), Match::SameContent);
    rewrite_middle(&path, unsampled(&path));
    assert!(matches!(whole.check(&source, None).unwrap(), Match::Changed(_)));
}

#[test]
fn a_file_that_has_grown_is_compared_as_far_as_it_went() {
    use std::io::Write;
    let path = made("grown");
    let identity = taken(&path, 16);
    File::options().append(true).open(&path).unwrap().write_all(&[1; 100]).unwrap();
    assert_eq!(checked(&identity, &path), Match::SameContent);
    rewrite_middle(&path, BYTES as u64 - 5);
    assert!(matches!(checked(&identity, &path), Match::Changed(_)));
    File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
    assert!(matches!(checked(&identity, &path), Match::Changed(how) if how.contains("shorter")));
}

#[test]
fn other_files_count_as_the_file_itself() {
    let path = made("others");
    let other = path.with_file_name("other");
    fs::write(&other, b"values").unwrap();
    let both = || taken(&path, 16).naming(vec![FileStatus::from_path(&other).unwrap()]);
    std::thread::sleep(std::time::Duration::from_millis(50));
    let identity = both();
    assert_eq!(identity.compare(&both()), Match::Unchanged);
    assert!(matches!(identity.compare(&taken(&path, 16)), Match::Changed(_)));
    rewrite_middle(&other, 3);
    assert!(matches!(identity.compare(&both()), Match::Changed(how) if how.contains("takes values from")));
    // a copy of it is another inode of the same size
    fs::copy(&other, path.with_file_name("moved")).unwrap();
    fs::rename(path.with_file_name("moved"), &other).unwrap();
    assert_eq!(identity.compare(&both()), Match::SameContent);
}

#[test]
fn it_survives_its_bytes_and_wrong_ones_are_none() {
    let path = made("bytes");
    let identity = taken(&path, 16).naming(vec![FileStatus::from_path(&path).unwrap()]);
    let bytes = identity.to_bytes();
    let mut rest = &[&bytes[..], b"more"].concat()[..];
    assert_eq!(FileIdentity::take(&mut rest).unwrap().to_bytes(), bytes);
    assert_eq!(rest, b"more");
    for len in 0..bytes.len() {
        assert!(FileIdentity::take(&mut &bytes[..len]).is_none());
    }
    let mut hostile = bytes.clone();
    hostile[48..56].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(FileIdentity::take(&mut &hostile[..]).is_none());
    assert_eq!(identity.fingerprint().len(), 16);
    // nothing was read: nothing is known of another inode
    let empty = FileIdentity::from_size(3);
    assert!(matches!(empty.compare(&FileIdentity::from_size(3)), Match::Changed(_)));
}

fn write(path: &Path, bytes: &[u8]) -> Result<Option<String>> {
    fs::write(path, bytes).map(|()| None).map_err(|error| Error::io("cannot write", &error))
}

fn opened(path: &Path, index: IndexPolicy) -> Trajectory {
    let options = OpenOptions { index, write_index: Some(Arc::new(write)), ..OpenOptions::default() };
    let trajectory = Trajectory::open(vec![path.to_path_buf()], options).unwrap();
    trajectory.scan(1, &|_| Ok(())).unwrap();
    trajectory
}

fn origin(path: &Path) -> IndexOrigin {
    opened(path, IndexPolicy::Auto).scanned().unwrap().parts[0].origin
}

fn xtc(name: &str) -> PathBuf {
    let path = folder(&format!("identity-{name}")).join("md.xtc");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/xtc/mixed.xtc");
    // larger than files that are hashed whole
    let frames = fs::read(source).unwrap();
    fs::write(&path, frames.repeat(1 + (200 << 10) / frames.len())).unwrap();
    path
}

#[test]
fn an_index_is_rebuilt_after_a_change_in_place_and_stored_again() {
    let path = xtc("index");
    assert_eq!((origin(&path), origin(&path)), (IndexOrigin::Built, IndexOrigin::Stored));
    rewrite_middle(&path, fs::metadata(&path).unwrap().len() / 2 + 3000);
    assert_eq!((origin(&path), origin(&path)), (IndexOrigin::Built, IndexOrigin::Stored));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!((origin(&path), origin(&path)), (IndexOrigin::Built, IndexOrigin::Stored));
}

#[test]
fn the_index_of_a_copy_becomes_its_own() {
    let path = xtc("copied-index");
    assert_eq!(origin(&path), IndexOrigin::Built);
    let elsewhere = folder("identity-elsewhere").join("md.xtc");
    let beside = |path: &Path| path.with_file_name(".md.xtc.kinema-index");
    fs::copy(&path, &elsewhere).unwrap();
    fs::copy(beside(&path), beside(&elsewhere)).unwrap();
    assert_eq!(origin(&elsewhere), IndexOrigin::Stored);
    assert_ne!(fs::read(beside(&path)).unwrap(), fs::read(beside(&elsewhere)).unwrap());
    // by which a change of the copy is seen
    rewrite_middle(&elsewhere, fs::metadata(&path).unwrap().len() / 2 + 3000);
    assert_eq!(origin(&elsewhere), IndexOrigin::Built);
}

#[test]
fn the_snapshot_of_a_file_that_was_changed_in_place_is_refused() {
    let path = xtc("snapshot");
    let snapshot = opened(&path, IndexPolicy::Auto).snapshot().unwrap();
    let restored = || Trajectory::from_snapshot(vec![path.clone()], OpenOptions::default(), &snapshot).unwrap();
    assert!(restored().source(0).is_ok());
    rewrite_middle(&path, fs::metadata(&path).unwrap().len() / 2 + 3000);
    let error = restored().source(0).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("changed in place"), "{error}");
    // for a file of the old content under another inode it holds
    rewrite_middle(&path, fs::metadata(&path).unwrap().len() / 2 + 3000);
    fs::copy(&path, path.with_file_name("copy")).unwrap();
    fs::rename(path.with_file_name("copy"), &path).unwrap();
    assert!(restored().source(0).is_ok());
}

#[test]
fn times_to_come_do_not_make_it_wait() {
    let path = made("clock");
    let file = File::options().write(true).open(&path).unwrap();
    file.set_times(FileTimes::new().set_modified(SystemTime::now() + std::time::Duration::from_secs(3600))).unwrap();
    assert_eq!(checked(&taken(&path, 16), &path), Match::Unchanged);
}
