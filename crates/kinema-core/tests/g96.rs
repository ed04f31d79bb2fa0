//! G96: layouts of blocks, cut and damaged files, and written files.

use kinema_core::format::g96::G96;
use kinema_core::format::{EncodeScratch, Format, Making, Request, Scan, ScanOptions, Scratch, SegmentBytes, Wanted};
use kinema_core::frame::{Block, Fields, Scales};
use kinema_core::selection::AtomSelection;
use kinema_core::source::{MemorySource, Source};
use kinema_core::{ErrorKind, Result};

const TITLE: &str = "TITLE\na title\nEND\n";
const STEP: &str = "TIMESTEP\n              7       0.500000\nEND\n";
const POSITIONS: &str = "POSITIONRED\n 1 2 3\n 4 5 6\nEND\n";
const NAMED: &str = "POSITION\n    1 SOL   OW         1    1.000000000    2.000000000    3.000000000\n\
                         1 SOL   HW1        2    4.000000000    5.000000000    6.000000000\nEND\n";
const COMMENTED: &str = "POSITIONRED\n 1 2 3\n# 1\n 4 5 6\nEND\n";
const VELOCITIES: &str = "VELOCITYRED\n .1 .2 .3\n .4 .5 .6\nEND\n";
const COMMENTED_VELOCITIES: &str = "VELOCITYRED\n .1 .2 .3\n# 1\n .4 .5 .6\nEND\n";
const CELL: &str = "BOX\n 8 9 10 0 0 0.5 0 1 2\nEND\n";

fn scanned(text: &str, workers: usize) -> Result<Scan> {
    let source = MemorySource::new("a.g96", text.as_bytes());
    let options = ScanOptions { previous: None, workers, progress: &|_| Ok(()), skip_damaged: false };
    G96.open(&source)?.scan(&source, &options)
}

/// All frames, in nm.
fn read(text: &str, fields: Fields, atoms: AtomSelection) -> Result<Block> {
    let source = MemorySource::new("a.g96", text.as_bytes());
    let decoder = G96.open(&source)?;
    let scan = scanned(text, 1)?;
    let n = scan.index.n_frames();
    let request = Request { fields, atoms, scales: Scales { length: 1.0, velocity: 1.0, ..G96.info().scales } };
    let wanted: Vec<Wanted> = (0..n).map(|frame| Wanted { frame, row: frame as u32 }).collect();
    let mut segments = Vec::new();
    decoder.segments(&scan.index, &wanted, &request, &mut segments)?;
    let mut block = Block::default();
    block.reset(0..n, request.atoms.len(), fields);
    for segment in &segments {
        let mut bytes = vec![0; segment.extent.len as usize];
        source.read_exact_at(segment.extent.offset, &mut bytes)?;
        decoder.decode(
            SegmentBytes { segment, bytes: &bytes, wanted: &wanted, request: &request },
            &mut block.as_mut(),
            &mut Scratch::default(),
        )?;
    }
    Ok(block)
}

#[test]
fn every_layout_of_blocks_is_read() {
    let both = Fields::POSITIONS | Fields::VELOCITIES;
    for (positions, n_frames) in [(POSITIONS, 3), (NAMED, 3), (COMMENTED, 2)] {
        for (velocities, cell) in [("", ""), ("", CELL), (VELOCITIES, ""), (VELOCITIES, CELL)] {
            for titles in [[TITLE, ""], [TITLE, TITLE], ["", ""]] {
                let commented = positions == COMMENTED && !velocities.is_empty();
                let velocities = if commented { COMMENTED_VELOCITIES } else { velocities };
                let frame = |i: usize| [titles[i.min(1)], STEP, positions, velocities, cell].concat();
                let text: String = (0..n_frames).map(frame).collect();
                for text in [text.clone(), text.replace('\n', "\r\n")] {
                    let scan = scanned(&text, 3).unwrap();
                    assert!(scan.truncation.is_none());
                    assert_eq!(scan.index.n_frames(), n_frames as u64);
                    let fields = if velocities.is_empty() { Fields::POSITIONS } else { both };
                    let block = read(&text, fields, AtomSelection::all(2)).unwrap();
                    assert_eq!(block.positions, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0].repeat(n_frames));
                    if !velocities.is_empty() {
                        assert_eq!(block.velocities, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6].repeat(n_frames));
                    }
                    for stamp in &block.stamps {
                        assert_eq!((stamp.step, stamp.time), (7, 0.5));
                        let cell_there = [[8.0, 0.0, 0.0], [0.5, 9.0, 0.0], [1.0, 2.0, 10.0]];
                        assert_eq!(stamp.cell, if cell.is_empty() { [[0.0; 3]; 3] } else { cell_there });
                    }
                    let second = AtomSelection::from_sorted(vec![1], 2).unwrap();
                    assert_eq!(
                        read(&text, Fields::POSITIONS, second).unwrap().positions,
                        [4.0, 5.0, 6.0].repeat(n_frames)
                    );
                }
            }
        }
    }
    // one configuration
    let block = read(&[TITLE, NAMED, CELL].concat(), Fields::POSITIONS, AtomSelection::all(2)).unwrap();
    assert_eq!(block.positions, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert!(block.stamps[0].time.is_nan());
}

#[test]
fn frames_may_lack_velocities() {
    let text = [STEP, POSITIONS, VELOCITIES, CELL, STEP, POSITIONS, CELL, STEP, POSITIONS, VELOCITIES, CELL].concat();
    let block = read(&text, Fields::POSITIONS | Fields::VELOCITIES, AtomSelection::all(2)).unwrap();
    let there: Vec<bool> = block.stamps.iter().map(|stamp| stamp.present.contains(Fields::VELOCITIES)).collect();
    assert_eq!(there, [true, false, true]);
    assert!(block.velocities[6..12].iter().all(|value| value.is_nan()));
}

#[test]
fn a_file_cut_anywhere_keeps_its_whole_frames() {
    let frame = [TITLE, STEP, POSITIONS, VELOCITIES, CELL].concat();
    let text = frame.repeat(3);
    for cut in frame.len()..text.len() {
        let scan = scanned(&text[..cut], 1 + cut % 2).unwrap();
        assert_eq!(scan.index.n_frames(), (cut / frame.len()) as u64, "cut at {cut}");
        assert_eq!(scan.truncation.is_none(), cut % frame.len() == 0, "cut at {cut}");
    }
    let found = scanned(&text[..text.len() - 1], 1).unwrap().truncation.unwrap().to_string();
    let expected = format!(
        "a.g96: G96 frame 2, byte {}: the file ends in the middle of a frame, expected 11 lines, found 10",
        2 * frame.len()
    );
    assert_eq!(found, expected);
    // a BOX may be to come
    for cut in 0..frame.len() {
        let error = scanned(&text[..cut], 1).unwrap_err();
        assert!(cut < TITLE.len() || error.kind() == ErrorKind::Truncated, "cut at {cut}: {error}");
    }
}

#[test]
fn what_is_wrong_is_named_with_frame_and_byte() {
    let frame = [TITLE, STEP, POSITIONS, CELL].concat();
    let second = frame.len();
    let block_at = second + TITLE.len() + STEP.len() + POSITIONS.len();
    for (from, to, at, what) in [
        ("BOX", "GENBOX", block_at, "block after 2 lines of positions, expected VELOCITYRED or BOX, found \"GENBOX\""),
        ("      7 ", "    7.5 ", second, "TIMESTEP, expected step and time"),
        ("TITLE", "TITLES", second, "what a frame begins with, expected TITLE, found \"TITLES\""),
        ("5", "five", second, "TIMESTEP, expected step and time"),
    ] {
        let text = [frame.clone(), frame.replacen(from, to, 1), frame.clone()].concat();
        let error = scanned(&text, 1).unwrap_err().to_string();
        assert!(error.starts_with(&format!("a.g96: G96 frame 1, byte {at}: {what}")), "{error}");
    }
    for (from, to, what) in [
        (" 4 5 6", " 4 5", "vector of an atom, expected three numbers, found \" 4 5\""),
        (" 4 5 6", " 4 5 6 7", "vector of an atom, expected three numbers"),
        ("8 9 10", "8 9", "cell, expected 3 or 9 numbers"),
        ("POSITIONRED", "POSITIONRUD", "block of a frame, expected POSITION, found \"POSITIONRUD\""),
        ("6\nEND", "6\nend", "wrong number of lines of a frame"),
    ] {
        let text = [frame.clone(), frame.replacen(from, to, 1)].concat();
        let error = read(&text, Fields::POSITIONS, AtomSelection::all(2)).unwrap_err().to_string();
        assert!(error.contains("G96 frame 1, byte ") && error.contains(what), "{error}");
    }
    let error = scanned(&[TITLE, STEP, "GENBOX\n"].concat(), 1).unwrap_err().to_string();
    assert!(error.contains("frame 0, byte 62: block of a frame that is not read"), "{error}");
}

#[test]
fn what_is_written_is_read() {
    let text = [STEP, POSITIONS, VELOCITIES, CELL].concat().repeat(2);
    let both = Fields::POSITIONS | Fields::VELOCITIES;
    let block = read(&text, both, AtomSelection::all(2)).unwrap();
    let making = Making { n_atoms: 2, held: both, times: vec![0.5; 2], ..Making::default() };
    let encoder = G96.encoder(&making).unwrap();
    let mut made = Vec::new();
    encoder.encode(&block.view(), 0, &mut EncodeScratch::default(), &mut made).unwrap();
    let line = |numbers: &[f64]| numbers.iter().map(|number| format!("{number:15.9}")).collect::<String>();
    let made = String::from_utf8(made).unwrap();
    let first = format!(
        "TITLE\nwritten by Kinema\nEND\n{STEP}POSITIONRED\n{}\n{}\nEND\nVELOCITYRED\n",
        line(&[1.0, 2.0, 3.0]),
        line(&[4.0, 5.0, 6.0])
    );
    assert!(made.starts_with(&first), "{made}");
    let cell = line(&[8.0, 9.0, 10.0, 0.0, 0.0, 0.5, 0.0, 1.0, 2.0]);
    assert!(made.contains(&format!("END\nBOX\n{cell}\nEND\nTITLE\n\nEND\n")), "{made}");
    assert!(made.len() as u64 <= 2 * encoder.placing().most_bytes());
    assert_eq!(read(&made, both, AtomSelection::all(2)).unwrap().positions, block.positions);
}

#[test]
fn numbers_that_fill_their_columns_are_read() {
    let wide = "POSITIONRED\n10000.000000000-2000.00000000030000.000000000\n\
                -9999.99999999999999.999999999    6.000000000\nEND\n";
    let cell = "BOX\n10000.00000000020000.00000000030000.000000000\nEND\n";
    let block = read(&[TITLE, STEP, wide, cell].concat(), Fields::POSITIONS, AtomSelection::all(2)).unwrap();
    assert_eq!(block.positions, [1e4, -2000.0, 3e4, -1e4, 1e5, 6.0]);
    assert_eq!(block.stamps[0].cell, [[1e4, 0.0, 0.0], [0.0, 2e4, 0.0], [0.0, 0.0, 3e4]]);
    // and as they are written
    let making = Making { n_atoms: 2, held: Fields::POSITIONS, ..Making::default() };
    let mut made = Vec::new();
    let encoder = G96.encoder(&making).unwrap();
    let mut wide = block;
    wide.positions = vec![1e4, -2000.0, 3e4, -9999.0, 99999.0, 6.0];
    encoder.encode(&wide.view(), 0, &mut EncodeScratch::default(), &mut made).unwrap();
    let made = String::from_utf8(made).unwrap();
    assert_eq!(read(&made, Fields::POSITIONS, AtomSelection::all(2)).unwrap().positions, wide.positions);
    for value in [-1e4, 1e5] {
        wide.positions[3] = value;
        let error = encoder.encode(&wide.view(), 4, &mut EncodeScratch::default(), &mut Vec::new()).unwrap_err();
        let what = "frame 4: positions of atom 2 (counted from 1) that the 15 columns of a G96 file do not hold";
        assert_eq!(error.to_string(), what);
    }
}

#[test]
fn frames_without_a_cell_have_the_blocks_of_the_first() {
    let text = [STEP, POSITIONS, VELOCITIES, STEP, POSITIONS, STEP, POSITIONS, VELOCITIES].concat();
    let source = MemorySource::new("a.g96", text.as_bytes());
    assert!(scanned(&text, 1).is_err());
    let options = ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged: true };
    let scan = G96.open(&source).unwrap().scan(&source, &options).unwrap();
    assert_eq!((scan.index.n_frames(), scan.damaged), (3, vec![1]));
}
