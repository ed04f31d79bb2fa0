//! Tests of the scan that steps over damaged XTC frames.

use super::scan::XtcHeaders;
use crate::error::{ErrorKind, Result};
use crate::format::scan::{WINDOW, scan, scan_range, scan_with_ranges};
use crate::format::{Scan, ScanOptions};
use crate::index::Index;
use crate::source::{Extent, MemorySource};

const MIXED: &[u8] = include_bytes!("../../../tests/data/xtc/mixed.xtc");
const HEADERS: XtcHeaders = XtcHeaders { n_atoms: 540 };

fn scanned(bytes: &[u8], workers: usize, skip_damaged: bool) -> Result<Scan> {
    let source = MemorySource::new("test.xtc", bytes);
    scan(&source, &HEADERS, &ScanOptions { previous: None, workers, progress: &|_| Ok(()), skip_damaged }, 1)
}

fn extents(index: &Index) -> Vec<Extent> {
    (0..index.n_frames()).map(|frame| index.extent(frame)).collect()
}

/// The scan that steps over damage: the same on any number of threads, and of ranges of other processes.
fn stepped(bytes: &[u8]) -> Scan {
    let serial = scanned(bytes, 1, true).expect("it steps over damage");
    let source = MemorySource::new("test.xtc", bytes);
    let options = |previous| ScanOptions { previous, workers: 1, progress: &|_| Ok(()), skip_damaged: true };
    let len = bytes.len() as u64;
    for n in [2, 3, 7, 40] {
        let ranges = (0..n).map(|i| len * i / n..len * (i + 1) / n);
        let found: Vec<_> =
            ranges.map(|range| scan_range(&source, &HEADERS, range, &|_| Ok(())).expect("readable")).collect();
        for other in [
            scanned(bytes, n as usize, true).expect("as on one thread"),
            scan_with_ranges(&source, &HEADERS, &options(None), &found).expect("as on one thread"),
        ] {
            assert_eq!((extents(&other.index), &other.damaged), (extents(&serial.index), &serial.damaged));
        }
    }
    serial
}

#[test]
fn a_damaged_header_costs_its_frame_alone() {
    let whole = MIXED.repeat(3);
    let sound = extents(&scanned(&whole, 1, false).expect("sound").index);
    // magic number, number of atoms twice; length: too small, somewhat too large, beyond the file
    let damages: [(u64, &dyn Fn(i32) -> i32); 6] =
        [(0, &|_| 0), (4, &|n| n ^ 64), (52, &|n| n ^ 1), (88, &|n| n / 2), (88, &|n| n + 400), (88, &|_| i32::MAX)];
    for (number, extent) in sound.iter().enumerate() {
        for (case, (field, change)) in damages.iter().enumerate() {
            if case > 3 && number + 1 == sound.len() {
                // that is a file whose last frame is incomplete
                continue;
            }
            let mut bytes = whole.clone();
            // of a header with a length of 8 bytes the lower half
            let long = u64::from(*field == 88 && bytes[extent.offset as usize + 2..][..2] == [0x07, 0xe7]);
            let at = (extent.offset + field + 4 * long) as usize;
            let old = i32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
            bytes[at..at + 4].copy_from_slice(&change(old).to_be_bytes());
            let error = scanned(&bytes, 1, false).expect_err("damaged");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "frame {number}, case {case}: {error}");
            let scan = stepped(&bytes);
            assert_eq!(extents(&scan.index), sound, "frame {number}, case {case}");
            assert_eq!(scan.damaged, [number as u64], "case {case}");
            assert!(scan.truncation.is_none());
            assert!(scan.index.time(number as u64).expect("a table has times").is_nan());
        }
    }
}

#[test]
fn bytes_without_any_header_are_one_frame() {
    let whole = MIXED.repeat(3);
    let sound = extents(&scanned(&whole, 1, false).expect("sound").index);
    let zeroed = |from: u64, to: u64| {
        let mut bytes = whole.clone();
        bytes[from as usize..to as usize].fill(0);
        bytes
    };
    // from the middle of frame 4, whose header is sound, over all of frame 5 into frame 6
    let scan = stepped(&zeroed(sound[4].offset + 200, sound[6].offset + 60));
    assert_eq!(scan.damaged, [5]);
    assert_eq!(extents(&scan.index)[..5], sound[..5]);
    assert_eq!(scan.index.extent(5), Extent { offset: sound[5].offset, len: sound[5].len + sound[6].len });
    assert_eq!(extents(&scan.index)[6..], sound[7..]);
    // up to the end, which is not a multiple of four bytes
    let mut bytes = zeroed(sound[10].offset, whole.len() as u64);
    bytes.push(0);
    let scan = stepped(&bytes);
    assert_eq!((scan.damaged, scan.index.n_frames()), (vec![10], 11));
    assert_eq!(scan.index.end(), Some(whole.len() as u64));
    // a readable frame between two that are not, and an incomplete last one
    let mut bytes = zeroed(sound[7].offset, sound[7].offset + 8);
    bytes[sound[9].offset as usize] = 1;
    bytes.truncate(whole.len() - 8);
    let scan = stepped(&bytes);
    assert_eq!((scan.damaged, extents(&scan.index)), (vec![7, 9], sound[..11].to_vec()));
    assert_eq!(scan.truncation.expect("the last frame").kind(), ErrorKind::Truncated);
}

#[test]
fn a_header_after_long_damage_is_found_wherever_it_lies_in_a_window_of_the_search() {
    let whole = MIXED.repeat(3);
    let sound = extents(&scanned(&whole, 1, false).expect("sound").index);
    let at = sound[5].offset as usize;
    for words in [0, 1, 12, 13, 14, 500] {
        // no zeros: those might be a hole, which is stepped over
        let damage = vec![0x55; 2 * WINDOW as usize - 4 * words];
        let bytes = [&whole[..at], &damage, &whole[at..]].concat();
        let scan = stepped(&bytes);
        assert_eq!(scan.damaged, [5], "{words}");
        let moved = sound[5..].iter().map(|one| Extent { offset: one.offset + damage.len() as u64, ..*one });
        let stretch = Extent { offset: at as u64, len: damage.len() as u64 };
        assert!(
            extents(&scan.index).into_iter().eq(sound[..5].iter().copied().chain([stretch]).chain(moved)),
            "{words}"
        );
    }
}

#[test]
fn untouched_frames_are_found_whatever_happens_to_others() {
    let whole = MIXED.repeat(3);
    let sound = extents(&scanned(&whole, 1, false).expect("sound").index);
    // a linear congruential generator: the same numbers on every machine
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for round in 0..300 {
        let mut bytes = whole.clone();
        let mut touched = Vec::new();
        for _ in 0..1 + random(4) {
            let frame = random(sound.len() as u64) as usize;
            // within the header, where most damage hides frames
            let at = (sound[frame].offset + 4 * random(24)) as usize;
            let word = [0, u32::MAX, 1995, 540, random(5000) as u32, random(1 << 31) as u32][random(6) as usize];
            bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
            touched.push(frame);
        }
        let found = extents(&stepped(&bytes).index);
        for (frame, extent) in sound.iter().enumerate().filter(|(frame, _)| !touched.contains(frame)) {
            assert!(found.contains(extent), "round {round}: frame {frame}, damaged {touched:?}");
        }
    }
}

#[test]
fn a_known_index_is_extended_over_damage() {
    let mut bytes = MIXED.repeat(3);
    let source = |bytes: &[u8]| MemorySource::new("test.xtc", bytes);
    let sound = scanned(&bytes, 1, false).expect("sound").index;
    let previous = scanned(MIXED, 1, false).expect("sound").index;
    bytes[MIXED.len()] = 1;
    for workers in [1, 3] {
        let previous = Some(previous.clone());
        let options = ScanOptions { previous, workers, progress: &|_| Ok(()), skip_damaged: true };
        let scan = scan(&source(&bytes), &HEADERS, &options, 1).expect("stepped over");
        assert_eq!((extents(&scan.index), scan.damaged), (extents(&sound), vec![4]));
    }
}
