//! Files that are being written: their whole frames, and facts kept of files that have grown.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kinema_core::source::ReadLog;
use kinema_core::trajectory::{IndexPolicy, OpenOptions, Trajectory};

fn golden(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/golden").join(name)).unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("kinema-growing-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn options(log: &ReadLog, growing: bool) -> OpenOptions {
    OpenOptions { index: IndexPolicy::Memory, sources: Arc::new(log.clone()), growing, ..OpenOptions::default() }
}

fn opened(paths: &[PathBuf], log: &ReadLog, growing: bool, previous: Option<&Trajectory>) -> Trajectory {
    let trajectory = Trajectory::open_again(paths.to_vec(), options(log, growing), previous).unwrap();
    trajectory.scan(1, &|_| Ok(())).unwrap();
    trajectory
}

fn n_frames(trajectory: &Trajectory) -> u64 {
    trajectory.scanned().unwrap().concatenation.n_frames
}

#[test]
fn no_frame_is_taken_before_its_last_byte() {
    for name in ["ca.xtc", "ca.trr", "ca.dcd"] {
        let (data, path) = (golden(name), folder("bytes").join(name));
        fs::write(&path, &data).unwrap();
        let log = ReadLog::default();
        let whole = opened(std::slice::from_ref(&path), &log, false, None);
        let index = &whole.scanned().unwrap().parts[0].index;
        let frame = index.extent(2);
        let filled = |n: u64| [&data[..n as usize], &vec![0; data.len() - n as usize][..]].concat();
        for n in (frame.offset..=frame.end()).step_by(7).chain([frame.end() - 1, frame.end()]) {
            // a number that ends in zeros is all there before they are
            let rest = &data[n as usize..frame.end() as usize];
            let expected = if rest.iter().all(|&byte| byte == 0) { 3 } else { 2 };
            fs::write(&path, filled(n)).unwrap();
            let front = opened(std::slice::from_ref(&path), &log, true, None);
            let found = n_frames(&front);
            let few = frame.end() - n <= 7;
            assert!(found == expected || few && found == 3, "{name}: {found} frames with {n} of {} bytes", frame.end());
            assert!(front.scanned().unwrap().parts[0].truncation.is_some());
            // a file in which zeros were seen is looked at with more caution
            let again = opened(std::slice::from_ref(&path), &log, true, Some(&front));
            assert_eq!(n_frames(&again), found, "{name}: {n}");
        }
    }
}

#[test]
fn what_is_known_is_not_read_again() {
    let (data, folder) = (golden("ca.xtc"), folder("known"));
    let paths = [folder.join("a.xtc"), folder.join("b.xtc")];
    let log = ReadLog::default();
    fs::write(&paths[0], &data).unwrap();
    let whole = opened(&paths[..1], &log, false, None);
    let ends: Vec<u64> = (0..10).map(|i| whole.scanned().unwrap().parts[0].index.extent(i).end()).collect();
    let shared = OpenOptions { overlap: kinema_core::trajectory::Overlap::All, ..options(&log, true) };
    fs::write(&paths[1], &data[..ends[4] as usize]).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(60));
    let open = |previous: Option<&Trajectory>| {
        let trajectory = Trajectory::open_again(paths.to_vec(), shared.clone(), previous).unwrap();
        trajectory.scan(1, &|_| Ok(())).unwrap();
        trajectory
    };
    let first = open(None);
    assert_eq!(n_frames(&first), 15);
    log.take_opens();
    let second = open(Some(&first));
    assert_eq!((n_frames(&second), log.take_opens().len()), (15, 0));
    fs::write(&paths[1], &data[..ends[7] as usize + 10]).unwrap();
    let third = open(Some(&second));
    assert_eq!((n_frames(&third), log.take_opens()), (18, vec![paths[1].clone()]));
    let (one, other) = (&third.scanned().unwrap().parts[1].index, &whole.scanned().unwrap().parts[0].index);
    assert!((0..8).all(|i| one.extent(i) == other.extent(i) && one.time(i) == other.time(i)));
    // changed content is scanned from scratch
    let mut changed = data.clone();
    changed[16] ^= 1;
    fs::write(&paths[1], &changed[..ends[5] as usize]).unwrap();
    assert_eq!(n_frames(&open(Some(&third))), 16);
    fs::remove_dir_all(folder).unwrap();
}
