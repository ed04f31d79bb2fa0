//! Files to which frames are added, over a recording sink: their contents after every write, whole or torn, and how
//! they are extended.

use std::sync::Arc;

use crate::common::opened;
use kinema_core::format::dcd::DcdHeader;
use kinema_core::format::{Format, Making, find_by_name};
use kinema_core::frame::{Block, Fields, Stamp, Units};
use kinema_core::index::Index;
use kinema_core::pipeline::Progress;
use kinema_core::pipeline::encode::record_file::{Given, RecordFile, Values};
use kinema_core::pipeline::reader::Reader;
use kinema_core::selection::AtomSelection;
use kinema_core::sink::{Fault, RecordingSink, Sink, Written};
use kinema_core::source::MemorySource;
use kinema_core::{ErrorKind, Result};

const N_ATOMS: u32 = 12;
/// Bytes before the first frame of a DCD file.
const DCD_HEAD: u64 = 196;

/// Positions that tell frame and atom, on a grid that XTC keeps.
fn positions(frame: usize, n_atoms: u32) -> Vec<f32> {
    (0..3 * n_atoms as usize).map(|i| (10 * frame + i * 7 % 101) as f32 / 4.0).collect()
}

fn stamp(frame: usize) -> Stamp {
    let edge = 40.0 + frame as f64;
    let cell = [[edge, 0.0, 0.0], [0.0, 50.0, 0.0], [0.0, 0.0, 60.0]];
    Stamp { cell, step: 100 + 50 * frame as i64, time: 0.2 + 0.1 * frame as f64, ..Stamp::default() }
}

fn frames(range: std::ops::Range<usize>, n_atoms: u32) -> (Vec<f32>, Vec<Stamp>) {
    (range.clone().flat_map(|frame| positions(frame, n_atoms)).collect(), range.map(stamp).collect())
}

fn add(file: &mut RecordFile, range: std::ops::Range<usize>) -> Result<()> {
    let (values, stamps) = frames(range, file.n_atoms());
    let given = Given { vectors: [Some(Values::F32(&values)), None, None], stamps };
    file.add(&given, &Progress::default())
}

fn flush(file: &mut RecordFile) -> Result<()> {
    file.flush(&Progress::default())
}

fn making(n_atoms: u32) -> Making {
    Making { n_atoms, source_atoms: n_atoms, ..Making::default() }
}

fn new_file(format: &'static dyn Format, sink: &Arc<RecordingSink>, workers: usize) -> RecordFile {
    RecordFile::new(format, &making(N_ATOMS), Arc::clone(sink) as Arc<dyn Sink>, workers)
}

fn formats() -> [&'static dyn Format; 2] {
    [find_by_name("XTC").unwrap(), find_by_name("DCD").unwrap()]
}

fn sink() -> Arc<RecordingSink> {
    Arc::new(RecordingSink::new("made"))
}

/// Frames that are flushed together.
const RUNS: [usize; 5] = [1, 1, 3, 2, 4];

/// Adds frames from `first` on in runs, each flushed; how long the log of the sink was after each, with the frames
/// committed then.
fn write_runs(file: &mut RecordFile, sink: &RecordingSink, runs: &[usize]) -> Vec<(usize, u64)> {
    let mut committed = vec![(sink.log().len(), file.n_flushed())];
    for &run in runs {
        let first = file.n_frames() as usize;
        for frame in first..first + run {
            add(file, frame..frame + 1).unwrap();
        }
        flush(file).unwrap();
        assert_eq!(file.n_flushed() as usize, first + run);
        committed.push((sink.log().len(), file.n_flushed()));
    }
    committed
}

/// The whole file, written without interruption.
fn whole(format: &'static dyn Format) -> Vec<u8> {
    let sink = sink();
    let mut file = new_file(format, &sink, 1);
    add(&mut file, 0..RUNS.iter().sum()).unwrap();
    flush(&mut file).unwrap();
    RecordingSink::replayed(&sink.log(), None, 0).unwrap()
}

/// Reads all frames, which must be the given ones; returns their number. Zero if the file ends within its head or its
/// first frame.
fn check(bytes: &[u8]) -> u64 {
    let trajectory = match opened(bytes.to_vec()) {
        Ok(trajectory) => trajectory,
        Err(error) => {
            assert!(error.kind() == ErrorKind::Truncated || bytes.len() < 16, "{error}");
            return 0;
        }
    };
    let n_frames = trajectory.scanned().unwrap().concatenation.n_frames;
    let fields = Fields::POSITIONS | Fields::CELL | Fields::STEP | Fields::TIME;
    let mut block = Block::default();
    let atoms = AtomSelection::all(trajectory.n_atoms());
    block.reset(0..n_frames, atoms.len(), fields);
    let numbers = block.frames.clone();
    Reader::new(&trajectory, fields, atoms, Units::Public)
        .unwrap()
        .with_absent_marked()
        .read(&numbers, &mut block.as_mut())
        .unwrap();
    for (frame, found) in block.stamps.iter().enumerate() {
        let expected = stamp(frame);
        assert_eq!(found.step, expected.step, "frame {frame} of {n_frames}");
        assert!((found.time - expected.time).abs() <= 1e-6 * expected.time, "{found:?} {expected:?}");
        let edges = found.cell.iter().flatten().zip(expected.cell.iter().flatten());
        assert!(edges.clone().all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs()), "{found:?} {expected:?}");
        let values = positions(frame, trajectory.n_atoms());
        let width = values.len();
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 0.005 + 1e-5;
        assert!(block.positions[frame * width..(frame + 1) * width].iter().zip(&values).all(near), "frame {frame}");
    }
    n_frames
}

/// Every state of a file between the calls of a log and within its writes, with the frames that are committed by then.
/// The words of a head are written at once, which is less than a page.
fn states(base: &[u8], log: &[Written], committed: &[(usize, u64)], each: &mut dyn FnMut(Vec<u8>, u64)) {
    let before = Written::Bytes(0, base.to_vec());
    for done in 0..=log.len() {
        let least = committed.iter().rev().find(|(len, _)| *len <= done).map_or(0, |(_, frames)| *frames);
        let next = log.get(done);
        let most = if let Some(Written::Bytes(offset, bytes)) = next
            && (*offset >= DCD_HEAD || least == 0)
        {
            bytes.len()
        } else {
            0
        };
        for torn in (0..=most).filter(|torn| torn % 13 == 0 || torn + 2 > most) {
            let calls = std::iter::once(&before).chain(&log[..done]);
            each(RecordingSink::replayed(calls, next, torn).unwrap(), least);
        }
    }
}

#[test]
fn after_any_write_the_committed_frames_are_read() {
    for format in formats() {
        let sink = sink();
        let mut file = new_file(format, &sink, 1);
        let committed = write_runs(&mut file, &sink, &RUNS);
        let expected = whole(format);
        states(&[], &sink.log(), &committed, &mut |bytes, least| {
            let found = check(&bytes);
            assert!(found >= least, "{found} of {least} frames");
            if format.info().name == "DCD" && found > 0 {
                let claimed = DcdHeader::read(&MemorySource::new("part", bytes)).unwrap().claimed_frames;
                assert!(u64::try_from(claimed).unwrap() <= found, "{claimed} of {found}");
            }
        });
        assert!(RecordingSink::replayed(&sink.log(), None, 0).unwrap() == expected, "{}", format.info().name);
    }
}

#[test]
fn no_count_is_written_before_what_it_counts_is_synced() {
    let dcd = find_by_name("DCD").unwrap();
    // also if frames are added before any flush: each is larger than the buffer
    for n_atoms in [N_ATOMS, 3_000_000] {
        let sink = sink();
        let mut file = RecordFile::new(dcd, &making(n_atoms), Arc::clone(&sink) as Arc<dyn Sink>, 1);
        for frame in 0..3 {
            add(&mut file, frame..frame + 1).unwrap();
            if n_atoms == N_ATOMS {
                flush(&mut file).unwrap();
            }
        }
        flush(&mut file).unwrap();
        let (mut unsynced, mut counts) = (false, Vec::new());
        let log = sink.log();
        assert_eq!(log.last(), Some(&Written::Sync));
        for call in log {
            match call {
                Written::Bytes(8, bytes) => {
                    assert!(!unsynced, "a count of frames that are not synced");
                    counts.push(i32::from_le_bytes(bytes[..4].try_into().unwrap()));
                }
                Written::Bytes(offset, _) => unsynced |= offset >= DCD_HEAD,
                Written::Sync => unsynced = false,
                Written::Len(len) => panic!("cut to {len}"),
            }
        }
        assert_eq!(counts, if n_atoms == N_ATOMS { vec![1, 1, 2, 3] } else { vec![1, 3] });
    }
}

/// Resumes the file of these bytes.
fn resume(bytes: &[u8], sink: &Arc<RecordingSink>) -> Result<RecordFile> {
    RecordFile::resume(&opened(bytes.to_vec())?, &making(N_ATOMS), None, Arc::clone(sink) as Arc<dyn Sink>, 1)
}

#[test]
fn every_state_is_gone_on_with_to_the_same_bytes() {
    for format in formats() {
        let first = sink();
        let mut file = new_file(format, &first, 1);
        let committed = write_runs(&mut file, &first, &RUNS);
        let (expected, total) = (whole(format), RUNS.iter().sum::<usize>());
        let mut resumed = 0;
        states(&[], &first.log(), &committed, &mut |bytes, _| {
            let n_frames = check(&bytes);
            if n_frames == 0 {
                return;
            }
            resumed += 1;
            let sink = sink();
            let mut file = resume(&bytes, &sink).unwrap();
            assert_eq!((file.n_frames(), file.n_flushed()), (n_frames, n_frames));
            let mut committed = write_runs(&mut file, &sink, &[]);
            let rest = total - n_frames as usize;
            committed.extend(write_runs(&mut file, &sink, &[rest.min(1), rest.saturating_sub(1)]));
            let log = sink.log();
            let calls = [vec![Written::Bytes(0, bytes.clone())], log.clone()].concat();
            assert!(RecordingSink::replayed(&calls, None, 0).unwrap() == expected, "from {n_frames} frames");
            if resumed % 7 == 0 {
                states(&bytes, &log, &committed, &mut |bytes, least| assert!(check(&bytes) >= least));
            }
        });
        assert!(resumed > 50, "{resumed}");
    }
}

#[test]
fn one_frame_has_its_own_time_until_there_is_another() {
    let dcd = find_by_name("DCD").unwrap();
    for (step, time) in [(500, 10.0), (0, 0.0), (0, 5.0), (7, -2.0)] {
        let sink = sink();
        let mut file = new_file(dcd, &sink, 1);
        let values = positions(0, N_ATOMS);
        let give = |file: &mut RecordFile, step, time| {
            let stamps = vec![Stamp { step, time, ..Stamp::default() }];
            let given = Given { vectors: [Some(Values::F32(&values)), None, None], stamps };
            file.add(&given, &Progress::default()).unwrap();
            flush(file).unwrap();
        };
        let times = |sink: &RecordingSink| {
            let trajectory = opened(RecordingSink::replayed(&sink.log(), None, 0).unwrap()).unwrap();
            let index = &trajectory.scanned().unwrap().parts[0].index;
            (0..index.n_frames()).map(|frame| index.time(frame).unwrap()).collect::<Vec<f64>>()
        };
        let near = |found: Vec<f64>, expected: &[f64]| {
            assert_eq!(found.len(), expected.len());
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs()), "{found:?} {expected:?}");
        };
        give(&mut file, step, time);
        near(times(&sink), &[time]);
        give(&mut file, step + 100, time + 2.0);
        near(times(&sink), &[time, time + 2.0]);
        assert!(!file.losses().iter().any(|loss| loss.starts_with("times are not kept")), "{:?}", file.losses());
        give(&mut file, step + 200, time + 5.0);
        let lost = file.losses().iter().find(|loss| loss.starts_with("times are not kept")).unwrap();
        assert!(lost.ends_with("; frame 2 is the first"), "{lost}");
    }
}

/// Frames of which each is a task.
const MANY_ATOMS: u32 = 60_000;

fn written_by(format: &'static dyn Format, workers: usize, blocks: &[usize]) -> (Vec<u8>, Option<Index>) {
    let sink = sink();
    let shared = Arc::clone(&sink) as Arc<dyn Sink>;
    let mut file = RecordFile::new(format, &making(MANY_ATOMS), shared, workers);
    let mut first = 0;
    for &block in blocks {
        add(&mut file, first..first + block).unwrap();
        first += block;
    }
    flush(&mut file).unwrap();
    (RecordingSink::replayed(&sink.log(), None, 0).unwrap(), file.index().map(Index::Table))
}

#[test]
fn bytes_are_the_same_for_any_workers_and_blocks() {
    for format in formats() {
        let (expected, index) = written_by(format, 1, &[1; 9]);
        assert_eq!(check(&expected), 9);
        let scanned = opened(expected.clone()).unwrap();
        let scanned = &scanned.scanned().unwrap().parts[0].index;
        assert_eq!(index.is_some(), matches!(scanned, Index::Table(_)));
        assert!(index.is_none_or(|index| index == *scanned), "the index is another than that of a scan");
        for workers in [1, 2, 3, 5] {
            for blocks in [&[9][..], &[1, 8], &[2; 4], &[4, 1, 4]] {
                let (found, _) = written_by(format, workers, blocks);
                let n = blocks.iter().sum::<usize>();
                assert!(found == expected || n < 9 && check(&found) == n as u64, "{workers} workers, {blocks:?}");
            }
        }
    }
}

#[test]
fn float64_and_velocities_are_rounded_once_in_the_unit_of_the_file() {
    let dcd = find_by_name("DCD").unwrap();
    let sink = sink();
    let making = Making { fields: Some(Fields::VELOCITIES), ..making(1) };
    let mut file = RecordFile::new(dcd, &making, Arc::clone(&sink) as Arc<dyn Sink>, 1);
    let values = [0.1_f64, 1.0 / 3.0, -7e-3];
    let vectors = [None, Some(Values::F64(&values)), None];
    file.add(&Given { vectors, stamps: vec![Stamp::default()] }, &Progress::default()).unwrap();
    flush(&mut file).unwrap();
    let bytes = RecordingSink::replayed(&sink.log(), None, 0).unwrap();
    let found: Vec<f32> = (0..3)
        .map(|axis| f32::from_le_bytes(bytes[bytes.len() - 36 + 12 * axis + 4..][..4].try_into().unwrap()))
        .collect();
    let unit = 1.0 / (1.0 / 0.048_888_21);
    assert_eq!(found, values.map(|value| (value * unit) as f32));
    assert!(file.losses().iter().any(|loss| loss == "velocities are rounded from float64 to float32"));
}

#[test]
fn a_frame_that_cannot_be_encoded_ends_the_file_behind_those_before_it() {
    let xtc = find_by_name("XTC").unwrap();
    for workers in [1, 2, 3] {
        for (n_atoms, bad) in [(N_ATOMS, 4), (N_ATOMS, 6), (MANY_ATOMS, 0), (MANY_ATOMS, 4), (MANY_ATOMS, 7)] {
            let sink = sink();
            let mut file = RecordFile::new(xtc, &making(n_atoms), Arc::clone(&sink) as Arc<dyn Sink>, workers);
            let (mut values, stamps) = frames(0..8, n_atoms);
            values[bad * 3 * n_atoms as usize + 5] = f32::NAN;
            let given = Given { vectors: [Some(Values::F32(&values)), None, None], stamps };
            let added = file.add(&given, &Progress::default());
            let error = added.and_then(|()| flush(&mut file)).unwrap_err();
            assert_eq!((error.kind(), error.frame()), (ErrorKind::InvalidArgument, Some(bad as u64)));
            assert_eq!((file.n_frames(), file.has_ended(), file.has_failed()), (bad as u64, true, false));
            flush(&mut file).unwrap();
            assert_eq!(file.n_flushed(), bad as u64);
            let bytes = RecordingSink::replayed(&sink.log(), None, 0).unwrap();
            assert!(if bad == 0 { bytes.is_empty() } else { check(&bytes) == bad as u64 });
            assert!(add(&mut file, 8..9).unwrap_err().to_string().contains("an earlier error ended the file"));
        }
    }
}

#[test]
fn a_sink_that_fails_leaves_what_was_committed() {
    for format in formats() {
        let good = sink();
        let mut file = new_file(format, &good, 1);
        write_runs(&mut file, &good, &RUNS);
        for (from, call) in good.log().iter().enumerate() {
            let fault = if *call == Written::Sync { Fault::Sync } else { Fault::NoSpace(5) };
            let failing = Arc::new(RecordingSink::failing("made", from, fault));
            let mut file = new_file(format, &failing, 1);
            let mut flushed = 0;
            let error = RUNS.iter().find_map(|run| {
                let first = file.n_frames() as usize;
                let outcome = add(&mut file, first..first + run).and_then(|()| flush(&mut file));
                flushed = if outcome.is_ok() { file.n_flushed() } else { flushed };
                outcome.err()
            });
            let error = error.unwrap();
            assert_eq!((error.kind(), error.path()), (ErrorKind::Io, Some("made".as_ref())));
            assert!(file.has_failed() && flush(&mut file).is_err() && file.n_flushed() == flushed);
            let bytes = RecordingSink::replayed(&failing.log(), None, 0).unwrap();
            assert!(check(&bytes) >= flushed);
        }
    }
}

#[test]
fn a_cancelled_call_loses_no_frame_that_was_taken() {
    let sink = sink();
    let mut file = new_file(find_by_name("XTC").unwrap(), &sink, 2);
    add(&mut file, 0..5).unwrap();
    let progress = Progress::default();
    progress.cancel.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(file.flush(&progress).unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!((file.n_frames(), file.has_ended()), (5, false));
    flush(&mut file).unwrap();
    assert_eq!(check(&RecordingSink::replayed(&sink.log(), None, 0).unwrap()), 5);
}

#[test]
fn a_wrong_count_is_put_right_and_other_layouts_are_refused() {
    let dcd = find_by_name("DCD").unwrap();
    let bytes = whole(dcd);
    let mut wrong = bytes.clone();
    wrong[8..12].copy_from_slice(&3_i32.to_le_bytes());
    let sink = sink();
    resume(&wrong, &sink).unwrap();
    let calls = [vec![Written::Bytes(0, wrong)], sink.log()].concat();
    assert!(RecordingSink::replayed(&calls, None, 0).unwrap() == bytes);
    let refused = |at: usize, word: i32| {
        let mut other = bytes.clone();
        other[at..at + 4].copy_from_slice(&word.to_le_bytes());
        let sink = Arc::new(RecordingSink::new("made"));
        let error = resume(&other, &sink).err().unwrap();
        assert!(sink.log().is_empty(), "a refused file was changed");
        (error.kind(), error.what().to_owned())
    };
    // X-PLOR has no version, and a time step of eight bytes
    let (kind, what) = refused(8 + 4 * 19, 0);
    assert_eq!(kind, ErrorKind::Unsupported);
    assert!(what.contains("X-PLOR's layout"), "{what}");
    let xtc = whole(find_by_name("XTC").unwrap());
    let making = Making { precision: Some(10.0), ..making(N_ATOMS) };
    let error = RecordFile::resume(&opened(xtc).unwrap(), &making, None, sink, 1).err().unwrap();
    assert!(error.what().contains("precision is that of the frames in the file, expected 1000, found 10"), "{error}");
}
