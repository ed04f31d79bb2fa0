//! Tests of the scan of text, on a format of one line for each head: "frame", atoms, step, and a line for each atom.

use super::*;
use crate::container::text::{Words, parse_i64};
use crate::format::scan::{WINDOW, scan, scan_range, scan_with_ranges};
use crate::format::{Scan, ScanOptions};
use crate::index::{Index, TableIndex};
use crate::source::{MemorySource, Source};

struct Toy {
    n_atoms: Option<u32>,
}

const TITLE: &str = "a title with frame 3 7 in it\n";

impl TextFrames for Toy {
    const NAME: &'static str = "TOY";
    const BEGINS: &'static [&'static [u8]] = &[b"frame"];
    const HEAD_LINES: usize = 1;

    fn first(&self) -> u64 {
        TITLE.len() as u64
    }

    fn n_atoms(&self) -> Option<u32> {
        self.n_atoms
    }

    fn head(&self, lines: &[u8], at: u64) -> Result<TextHead> {
        let numbers: Vec<i64> = Words::new(lines).skip(1).map_while(|(_, word)| parse_i64(word)).collect();
        match numbers[..] {
            [n, step] if n >= 0 => Ok(TextHead { n_atoms: n as u64, lines: n as u64, step, time: step as f64 / 2.0 }),
            _ => Err(Error::corrupt("head of a frame", "two numbers", shown(lines)).with_byte(at)),
        }
    }
}

/// xorshift64
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
}

/// A file of frames with lines of any width, and where its frames begin.
fn file(random: &mut Random, atoms: &[usize], end: &str) -> (Vec<u8>, Vec<u64>) {
    let (mut text, mut starts) = (TITLE.to_owned(), Vec::new());
    for (step, n) in atoms.iter().enumerate() {
        starts.push(text.len() as u64);
        text += &format!("frame {n} {step}{end}");
        for _ in 0..*n {
            text += &format!("{}{end}", "1.5 ".repeat(random.below(9)));
        }
    }
    starts.push(text.len() as u64);
    (text.into_bytes(), starts)
}

fn scanned(bytes: &[u8], n_atoms: Option<u32>, workers: usize, skip_damaged: bool) -> Result<Scan> {
    let source = MemorySource::new("test.toy", bytes);
    let options = ScanOptions { previous: None, workers, progress: &|_| Ok(()), skip_damaged };
    scan(&source, &TextHeads(Toy { n_atoms }), &options, 1)
}

fn starts(index: &Index) -> Vec<u64> {
    let end = index.n_frames().checked_sub(1).map(|last| index.extent(last).end());
    (0..index.n_frames()).map(|frame| index.extent(frame).offset).chain(end).collect()
}

/// Scans the byte ranges between these places alone, as processes do, and then the whole with them.
fn ranged(bytes: &[u8], n_atoms: Option<u32>, cuts: &[u64], skip_damaged: bool) -> Result<Scan> {
    let source = MemorySource::new("test.toy", bytes);
    let heads = TextHeads(Toy { n_atoms });
    let mut borders = vec![0];
    borders.extend(cuts);
    borders.push(source.len()?);
    let tables: Vec<TableIndex> = borders
        .windows(2)
        .map(|pair| scan_range(&source, &heads, pair[0]..pair[1], &|_| Ok(())))
        .collect::<Result<_>>()?;
    let options = ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged };
    scan_with_ranges(&source, &heads, &options, &tables)
}

#[test]
fn frames_of_any_size_are_found_on_any_number_of_threads() {
    let mut random = Random(1);
    for round in 0..60 {
        let n = random.below(200);
        let atoms: Vec<usize> = (0..n).map(|_| random.below(if round % 3 == 0 { 400 } else { 9 })).collect();
        let (bytes, expected) = file(&mut random, &atoms, if round % 2 == 0 { "\n" } else { "\r\n" });
        let whole = scanned(&bytes, None, 1, false).unwrap();
        assert!(whole.truncation.is_none());
        assert_eq!(whole.index.n_frames(), atoms.len() as u64);
        assert!(atoms.is_empty() || starts(&whole.index) == expected);
        for workers in [2, 3, 17] {
            assert_eq!(scanned(&bytes, None, workers, false).unwrap().index, whole.index);
        }
        let mut cuts: Vec<u64> = (0..4).map(|_| random.below(bytes.len()) as u64).collect();
        cuts.sort_unstable();
        assert_eq!(ranged(&bytes, None, &cuts, false).unwrap().index, whole.index);
        let Index::Table(table) = whole.index else { panic!("a table") };
        assert!((0..table.n_frames()).all(|i| table.step(i) == i as i64 && table.time(i) == i as f64 / 2.0));
    }
}

#[test]
fn a_file_cut_anywhere_keeps_its_whole_frames() {
    for end in ["\n", "\r\n"] {
        let (with_blanks, _) = file(&mut Random(2), &[3, 0, 5, 3], end);
        let with_blanks = [with_blanks, b" \n\r\n".to_vec()].concat();
        let scan = scanned(&with_blanks, Some(3), 2, false);
        assert!(scan.is_err(), "a frame without atoms is one of another number");
        let scan = scanned(&with_blanks, None, 2, false).unwrap();
        assert!(scan.truncation.is_none() && scan.index.n_frames() == 4);
        let (bytes, starts) = file(&mut Random(2), &[3, 0, 5, 3], end);
        for cut in starts[0]..=bytes.len() as u64 {
            let scan = scanned(&bytes[..cut as usize], None, 1 + cut as usize % 3, false).unwrap();
            let whole = starts[1..].iter().filter(|&&start| start <= cut).count() as u64;
            assert_eq!(scan.index.n_frames(), whole, "cut at {cut}");
            assert_eq!(scan.truncation.is_none(), starts.contains(&cut), "cut at {cut}");
        }
        let cut = scanned(&bytes[..bytes.len() - 1], None, 1, false).unwrap().truncation.unwrap().to_string();
        let expected = format!(
            "test.toy: TOY frame 3, byte {}: the file ends in the middle of a frame, expected 3 lines, found 2",
            starts[3]
        );
        assert_eq!(cut, expected);
    }
}

#[test]
fn a_scan_goes_on_behind_a_previous_index() {
    let (bytes, starts) = file(&mut Random(3), &[3, 2, 5, 3, 9], "\n");
    let whole = scanned(&bytes, None, 1, false).unwrap().index;
    for cut in starts[0]..bytes.len() as u64 {
        let previous = scanned(&bytes[..cut as usize], None, 1, false).unwrap().index;
        let source = MemorySource::new("test.toy", &bytes[..]);
        let options = ScanOptions { previous: Some(previous), workers: 2, progress: &|_| Ok(()), skip_damaged: false };
        assert_eq!(scan(&source, &TextHeads(Toy { n_atoms: None }), &options, 1).unwrap().index, whole);
    }
}

#[test]
fn the_first_frame_of_another_number_of_atoms_is_named() {
    let (bytes, starts) = file(&mut Random(4), &[3, 3, 3, 4, 3, 5, 3], "\n");
    assert_eq!(scanned(&bytes, None, 1, false).unwrap().index.n_frames(), 7);
    let expected = format!(
        "test.toy: TOY frame 3, byte {}: frames of different numbers of atoms are not read, expected 3, found 4",
        starts[3]
    );
    for skip_damaged in [false, true] {
        for workers in [1, 2, 5] {
            let error = scanned(&bytes, Some(3), workers, skip_damaged).unwrap_err();
            assert_eq!((error.kind(), error.to_string()), (ErrorKind::Unsupported, expected.clone()));
        }
        let error = ranged(&bytes, Some(3), &starts[2..6], skip_damaged).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn lost_and_added_lines_are_damage_of_their_frames() {
    let mut random = Random(5);
    let (bytes, starts) = file(&mut random, &[4; 12], "\n");
    let text = String::from_utf8(bytes.clone()).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    // line 0 is the title; frame i has line 1 + 5 i and the next four
    for line in 1..lines.len() {
        let frame = (line - 1) / 5;
        for change in ["", "1.5\n1.5\n", "frame x\n", "frame 8 3\n"] {
            let mut damaged = lines.clone();
            damaged[line] = change;
            let damaged = damaged.concat().into_bytes();
            let plain = scanned(&damaged, Some(4), 1, false);
            let last = frame == 11;
            if (line - 1) % 5 != 0 && change.starts_with("frame") {
                // as many lines as before: nothing that a scan could see
                assert_eq!(plain.unwrap().index.n_frames(), 12);
                continue;
            }
            if last {
                // that may be an incomplete last frame
                assert!(plain.is_err() || plain.unwrap().truncation.is_some());
                continue;
            }
            let error = plain.unwrap_err();
            let kind = if change == "frame 8 3\n" { ErrorKind::Unsupported } else { ErrorKind::Corrupt };
            assert_eq!(error.kind(), kind, "line {line}, {change:?}: {error}");
            let skipped = scanned(&damaged, Some(4), 1, true).unwrap();
            assert!(!skipped.damaged.is_empty(), "line {line}, {change:?}");
            // all frames except the damaged one; if its head is gone, except the one before
            let found = self::starts(&skipped.index);
            let shift = damaged.len() as i64 - bytes.len() as i64;
            for (other, &start) in starts[..12].iter().enumerate() {
                let start = if other > frame { start.wrapping_add_signed(shift) } else { start };
                assert!(other.abs_diff(frame) < 2 || found.contains(&start), "line {line}, {change:?}: frame {other}");
            }
            for workers in [2, 3, 7] {
                let parallel = scanned(&damaged, Some(4), workers, true).unwrap();
                assert_eq!((self::starts(&parallel.index), parallel.damaged), (found.clone(), skipped.damaged.clone()));
            }
            let cuts: Vec<u64> = (1..4).map(|i| damaged.len() as u64 * i / 4).collect();
            assert_eq!(self::starts(&ranged(&damaged, Some(4), &cuts, true).unwrap().index), found);
        }
    }
}

#[test]
fn a_head_after_long_damage_is_found_wherever_it_lies_in_a_window_of_the_search() {
    let (bytes, starts) = file(&mut Random(7), &[3, 3, 3, 3], "\n");
    let (fault, next) = (starts[1], starts[2]);
    // the search begins with the end of the head before the damage
    let searched = starts[0] + "frame 3 0".len() as u64;
    for back in 0..10 {
        for windows in [1, 2] {
            let start = searched + windows * WINDOW - back;
            let mut damaged = bytes[..fault as usize].to_vec();
            damaged.resize(start as usize - 1, b'x');
            damaged.push(b'\n');
            damaged.extend(&bytes[next as usize..]);
            let expected = [starts[0], fault, start, start + starts[3] - next, damaged.len() as u64];
            for workers in [1, 3] {
                let scan = scanned(&damaged, Some(3), workers, true).unwrap();
                assert_eq!((self::starts(&scan.index), scan.damaged), (expected.to_vec(), vec![1]), "{back} bytes");
            }
        }
    }
}

#[test]
fn progress_is_reported_now_and_then_and_at_the_end() {
    let (bytes, starts) = file(&mut Random(8), &[1; 9000], "\n");
    let reports = std::sync::Mutex::new(Vec::new());
    let progress = |done| {
        reports.lock().unwrap().push(done);
        Ok(())
    };
    let source = MemorySource::new("test.toy", &bytes[..]);
    let options = ScanOptions { previous: None, workers: 1, progress: &progress, skip_damaged: false };
    scan(&source, &TextHeads(Toy { n_atoms: None }), &options, 1).unwrap();
    let len = bytes.len() as u64;
    assert_eq!(reports.into_inner().unwrap(), [starts[4096], starts[8192], len, len]);
}

#[test]
fn whatever_the_bytes_a_scan_ends() {
    let mut random = Random(6);
    for _ in 0..3000 {
        let (mut bytes, _) = file(&mut random, &[2, 0, 3, 2, 2], "\n");
        for _ in 0..1 + random.below(6) {
            let at = TITLE.len() + random.below(bytes.len() - TITLE.len());
            bytes[at] = [b'\n', b' ', b'f', b'9', 0, 0xff][random.below(6)];
        }
        for skip_damaged in [false, true] {
            let serial = scanned(&bytes, None, 1, skip_damaged).map(|scan| (starts(&scan.index), scan.damaged));
            let parallel = scanned(&bytes, None, 3, skip_damaged).map(|scan| (starts(&scan.index), scan.damaged));
            assert_eq!(serial.is_ok(), parallel.is_ok());
            assert_eq!(serial.ok(), parallel.ok(), "{}", String::from_utf8_lossy(&bytes));
        }
    }
}
