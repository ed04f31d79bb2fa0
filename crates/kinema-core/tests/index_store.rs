//! The stored index as files on disk: growth, changes, damage, places and savers that race.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{Random, folder};
use kinema_core::index::identity::FileIdentity;
use kinema_core::index::store::{LoadOutcome, load, places, save};
use kinema_core::index::{Index, TableBuilder, TableIndex, UniformIndex};
use kinema_core::source::{Extent, FileSource, Source};
use kinema_core::{Error, Result};

const N_ATOMS: u32 = 1234;

/// Frames of different sizes, 300 kB in all, so that both hashed ends leave a middle.
fn trajectory(path: &Path, wide: bool) -> (FileSource, Index, FileIdentity) {
    let mut random = Random(5);
    let mut builder = TableBuilder::new(0);
    let mut bytes = Vec::new();
    for frame in 0..200_i64 {
        let len = 4 * (300 + random.below(150));
        bytes.extend((0..len).map(|_| random.next() as u8));
        let (step, time) = if wide { (frame << 33, frame as f64 * 0.1) } else { (frame, frame as f64 * 0.5) };
        builder.push(len, step, time).unwrap();
    }
    fs::write(path, &bytes).unwrap();
    let source = FileSource::open(path).unwrap();
    let index = Index::Table(builder.finish());
    let identity = identity(&source, &index);
    (source, index, identity)
}

fn agrees(_: &TableIndex) -> Result<Option<String>> {
    Ok(None)
}

/// The identity of the content alone.
fn identity(source: &FileSource, index: &Index) -> FileIdentity {
    FileIdentity::from_source(source, source.len().unwrap(), None, Some(index), FileIdentity::PLACES).unwrap()
}

/// Whole or not at all; each time under a name of its own.
fn write(path: &Path, bytes: &[u8]) -> Result<Option<String>> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let temporary = path.with_extension(format!("{}.tmp", COUNTER.fetch_add(1, Ordering::Relaxed)));
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    written.map(|()| None).map_err(|error| Error::io("cannot write", &error))
}

fn stored(name: &str, wide: bool) -> (PathBuf, FileSource, Index, [PathBuf; 1]) {
    let folder = folder(&format!("index-{name}-{wide}"));
    let path = folder.join("md.xtc");
    let (source, index, identity) = trajectory(&path, wide);
    let places = [folder.join(".md.xtc.kinema-index")];
    save(&places, &index, &identity, "XTC", N_ATOMS, &write).unwrap();
    (folder, source, index, places)
}

fn wrong(places: &[PathBuf], source: &dyn Source) -> String {
    match load(places, source, "XTC", N_ATOMS, &agrees).unwrap() {
        LoadOutcome::Rejected(reason) => reason,
        other => panic!("used: {other:?}"),
    }
}

#[test]
fn a_grown_file_keeps_its_index_and_the_extended_one_equals_a_new_one() {
    for wide in [false, true] {
        let (folder, source, index, places) = stored("grown", wide);
        let path = folder.join("md.xtc");
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(&[7; 1600]).unwrap();
        let LoadOutcome::Grew(Index::Table(known)) = load(&places, &source, "XTC", N_ATOMS, &agrees).unwrap() else {
            panic!("not taken for one that grew")
        };
        assert_eq!(Index::Table(known.clone()), index);
        let mut builder = TableBuilder::extend(known);
        builder.push(1600, 200, 100.0).unwrap();
        let extended = Index::Table(builder.finish());
        let identity = identity(&source, &extended);
        save(&places, &extended, &identity, "XTC", N_ATOMS, &write).unwrap();
        match load(&places, &source, "XTC", N_ATOMS, &agrees).unwrap() {
            LoadOutcome::Fits(found) => assert_eq!(found.index, extended),
            other => panic!("{other:?}"),
        }
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn other_content_of_the_same_size_is_noticed_at_both_ends_and_at_sampled_heads() {
    let (folder, source, index, places) = stored("changed", false);
    let path = folder.join("md.xtc");
    let whole = fs::read(&path).unwrap();
    // frame 100 is one of the 16 of 200 whose heads are hashed, and lies far from both ends
    let middle = index.extent(100).offset;
    assert!(middle > 65_536 && middle + 64 < whole.len() as u64 - 65_536);
    for at in [0, 65_535, middle, middle + 63, whole.len() as u64 - 65_536, whole.len() as u64 - 1] {
        let mut changed = whole.clone();
        changed[at as usize] ^= 1;
        fs::write(&path, changed).unwrap();
        assert!(wrong(&places, &source).contains("does not fit"), "byte {at}");
    }
    fs::write(&path, &whole[..whole.len() - 4]).unwrap();
    assert!(wrong(&places, &source).contains("it is shorter"), "a shorter file");
    fs::write(&path, &whole).unwrap();
    assert!(matches!(load(&places, &source, "XTC", N_ATOMS, &agrees).unwrap(), LoadOutcome::Fits(..)));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_damaged_or_foreign_index_is_told_and_not_used() {
    let (folder, source, _, places) = stored("damaged", true);
    let whole = fs::read(&places[0]).unwrap();
    let mut random = Random(3);
    for _ in 0..300 {
        let mut damaged = whole.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(damaged.len() as u64) as usize;
            damaged[at] = damaged[at].wrapping_add(1 + random.below(255) as u8);
        }
        if damaged != whole {
            fs::write(&places[0], &damaged).unwrap();
            assert!(!wrong(&places, &source).is_empty());
        }
    }
    for len in (0..whole.len()).step_by(37) {
        fs::write(&places[0], &whole[..len]).unwrap();
        assert!(!wrong(&places, &source).is_empty());
    }
    fs::write(&places[0], b"not an index, but longer than its checksum").unwrap();
    assert!(wrong(&places, &source).contains("no Kinema index"));
    fs::remove_file(&places[0]).unwrap();
    fs::create_dir(&places[0]).unwrap();
    assert!(wrong(&places, &source).contains("cannot be read"), "a folder of that name");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_wrong_index_beside_the_file_does_not_hide_a_good_one_in_the_cache() {
    let (folder, source, index, beside) = stored("two-places", false);
    let both = [beside[0].clone(), folder.join("cache-index")];
    fs::copy(&both[0], &both[1]).unwrap();
    fs::write(&both[0], b"nothing").unwrap();
    match load(&both, &source, "XTC", N_ATOMS, &agrees).unwrap() {
        LoadOutcome::Fits(found) => assert_eq!((found.index, &found.place), (index, &both[1])),
        other => panic!("{other:?}"),
    }
    assert!(matches!(load(&[folder.join("absent")], &source, "XTC", N_ATOMS, &agrees).unwrap(), LoadOutcome::Absent));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn savers_that_race_write_the_same_bytes_and_leave_nothing_behind() {
    let (folder, source, index, places) = stored("race", false);
    let identity = identity(&source, &index);
    let bytes = fs::read(&places[0]).unwrap();
    // what runs that were killed left: names that a process of the same number would choose
    let process = std::process::id();
    let stale: Vec<PathBuf> = (0..40).map(|i| folder.join(format!(".md.xtc.{process}-{i}.tmp"))).collect();
    stale.iter().filter(|path| !path.exists()).for_each(|path| fs::write(path, b"stale").unwrap());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10 {
                    save(&places, &index, &identity, "XTC", N_ATOMS, &write).unwrap();
                    assert_eq!(fs::read(&places[0]).unwrap(), bytes, "whole at any moment");
                }
            });
        }
    });
    stale.iter().for_each(|path| fs::remove_file(path).unwrap());
    let mut left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".md.xtc.kinema-index", "md.xtc"]);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_index_lies_beside_its_file_under_a_name_made_of_it() {
    let folder = folder("index-place").canonicalize().unwrap();
    let path = folder.join("md.xtc");
    let (_, index, identity) = trajectory(&path, false);
    let (at, _) = save(&places(&path), &index, &identity, "XTC", N_ATOMS, &write).unwrap();
    assert_eq!(at, folder.join(".md.xtc.kinema-index"));
    assert_eq!(places(&path)[0], at);
    let uniform = UniformIndex {
        n_frames: 1,
        first: Extent { offset: 0, len: 8 },
        stride: 8,
        spacing: None,
        steps: None,
        times: None,
    };
    assert!(
        save(&places(&path), &Index::Uniform(uniform), &identity, "DCD", N_ATOMS, &write).is_err(),
        "arithmetic is not stored"
    );
    fs::remove_dir_all(folder).unwrap();
}
