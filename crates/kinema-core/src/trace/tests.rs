use std::path::PathBuf;
use std::sync::Mutex;

use super::activity::{PREAD64, READING};
use super::*;

/// One journal a process: tests that record wait for each other.
static ONE: Mutex<()> = Mutex::new(());

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("kinema-trace-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

fn read_event(path: &Path, offset: i64) {
    let start = Instant::now();
    record(&Event {
        activity: &PREAD64,
        file: Some(path),
        start,
        duration: Duration::from_nanos(1234),
        values: [offset, 10, 10],
    });
}

/// Events of other tests of this process, which run meanwhile, are not counted.
fn lines_of(path: &Path, file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.starts_with("[\n{\"name\":\"HH\"") && text.ends_with("}}\n]\n"), "{text}");
    let hash = format!("\"fhash\":\"{:016x}\"", buffer::hash_of(file.as_os_str().as_encoded_bytes()));
    text.lines().filter(|line| line.contains(&hash)).map(str::to_owned).collect()
}

#[test]
fn events_of_all_threads_are_in_the_file_once() {
    let _one = ONE.lock().unwrap();
    let (folder, file) = (folder("threads"), Path::new("/data/\"a\\b\"\n.xtc"));
    assert!(!enabled());
    read_event(file, 99);
    start(&Options { folder: folder.clone(), compress: false }).unwrap();
    assert!(enabled() && start(&Options { folder: folder.clone(), compress: false }).is_err());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || (0..1000).for_each(|i| read_event(file, thread * 1000 + i)));
        }
        // somebody else may flush the buffers at any time
        (0..50).for_each(|_| flush());
    });
    read_event(file, 4000);
    let found = stop();
    assert!(found.failure.is_none() && found.lost == 0 && found.events >= 4001, "{found:?}");
    read_event(file, 99);
    let lines = lines_of(&found.path.unwrap(), file);
    let mut offsets: Vec<usize> = lines
        .iter()
        .map(|line| line.split("\"offset\":").nth(1).unwrap().split(',').next().unwrap().parse().unwrap())
        .collect();
    offsets.sort_unstable();
    assert_eq!(offsets, (0..=4000).collect::<Vec<_>>());
    assert!(lines.iter().all(|line| line.contains("\"ns\":1234,") && line.contains("\"dur\":1,")));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_second_trace_and_a_link_at_its_name_get_files_of_their_own() {
    let _one = ONE.lock().unwrap();
    let folder = folder("second");
    let mut paths = Vec::new();
    for trace in 0..3 {
        start(&Options { folder: folder.clone(), compress: false }).unwrap();
        read_event(Path::new("a"), 0);
        let path = stop().path.unwrap();
        assert!(!paths.contains(&path));
        if trace == 0 {
            std::fs::write(folder.join("outside"), "x").unwrap();
            let next = path.with_file_name(format!("{}-2.pfw", path.file_stem().unwrap().to_str().unwrap()));
            std::os::unix::fs::symlink(folder.join("outside"), next).unwrap();
        }
        paths.push(path);
    }
    assert_eq!(std::fs::read_to_string(folder.join("outside")).unwrap(), "x");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn compressed_members_hold_the_same_lines() {
    let _one = ONE.lock().unwrap();
    let (folder, file) = (folder("gzip"), Path::new("g"));
    start(&Options { folder: folder.clone(), compress: true }).unwrap();
    (0..500).for_each(|i| read_event(file, i));
    flush();
    finish(begin(), &READING, Some(file), [1, 2, 3]);
    let found = stop();
    let packed = std::fs::read(found.path.unwrap()).unwrap();
    let mut text = Vec::new();
    let (mut rest, mut members) = (packed.as_slice(), 0);
    while !rest.is_empty() {
        // a member ends where the next one begins
        let end = (1..rest.len()).find(|&at| rest[at..].starts_with(&[0x1f, 0x8b, 8, 0, 0])).unwrap_or(rest.len());
        let mut part = vec![0; 4 << 20];
        let len = libdeflater::Decompressor::new().gzip_decompress(&rest[..end], &mut part).unwrap();
        text.extend_from_slice(&part[..len]);
        rest = &rest[end..];
        members += 1;
    }
    let text = String::from_utf8(text).unwrap();
    assert!(members >= 2 && text.starts_with("[\n") && text.ends_with("]\n"));
    assert_eq!(text.matches("\"name\":\"pread64\"").count(), 500);
    assert!(text.contains("\"offset\":1,\"size\":2,\"frames\":3}}"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error() {
    let _one = ONE.lock().unwrap();
    let folder = folder("refused");
    std::fs::write(&folder, "a file").unwrap();
    assert!(start(&Options { folder: folder.join("below"), compress: false }).is_err());
    assert!(start(&Options { folder: PathBuf::from("/proc/none"), compress: false }).is_err());
    assert!(!enabled());
    std::fs::remove_file(folder).unwrap();
}
