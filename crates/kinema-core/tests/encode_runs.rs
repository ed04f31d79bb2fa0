//! Files that several processes write: runs of the frames of a request, the memory each needs, single frames, and the mark
//! of a record that was not finished.

use std::ops::Range;
use std::path::PathBuf;

use kinema_core::format::{Encoder, Format, Making, ScanOptions, find_by_name};
use kinema_core::frame::Stamp;
use kinema_core::index::{TableBuilder, TableIndex};
use kinema_core::pipeline::Progress;
use kinema_core::pipeline::encode::record_file::{Given, RecordFile, Values};
use kinema_core::pipeline::encode::resume::Commits;
use kinema_core::pipeline::encode::{
    EncodeRequest, Encoded, Run, begin, encode, encode_run, finish, least_memory, making, pieces, place_of,
};
use kinema_core::selection::{AtomSelection, FrameSelection};
use kinema_core::sink::{MemorySink, Sink};
use kinema_core::source::MemorySource;
use kinema_core::trajectory::{OpenOptions, Trajectory};
use kinema_core::{ErrorKind, Result};

/// All frames of a golden file, to a format.
struct Case {
    trajectory: Trajectory,
    format: &'static dyn Format,
    encoder: Box<dyn Encoder>,
    request: EncodeRequest,
}

impl Case {
    fn new(source: &str, format: &str) -> Self {
        let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/golden")).join(source);
        let trajectory = Trajectory::open(vec![path], OpenOptions::default()).unwrap();
        trajectory.scan(1, &|_| Ok(())).unwrap();
        let format = find_by_name(format).unwrap();
        let atoms = AtomSelection::all(trajectory.n_atoms());
        let scanned = trajectory.scanned().unwrap();
        let frames = FrameSelection::Stride { start: 0, step: 1, count: scanned.concatenation.n_frames };
        let index = &scanned.parts[0].index;
        let stamps = (0..frames.len()).map(|i| (index.step(i).unwrap(), index.time(i).unwrap()));
        let (steps, times) = stamps.unzip();
        let known = making(&trajectory, &frames, &atoms, format).unwrap();
        let encoder = format.encoder(&Making { steps, times, ..known }).unwrap();
        let request = EncodeRequest { frames, atoms, workers: 1, memory: 0, resumed: None };
        Self { trajectory, format, encoder, request }
    }

    fn all() -> Vec<Self> {
        let pairs = [("ca.dcd", "DCD"), ("ca.xtc", "DCD"), ("ca.dcd", "XTC"), ("ca.xtc", "XTC"), ("ca.trr", "TRR")];
        pairs.into_iter().map(|(source, format)| Self::new(source, format)).collect()
    }

    fn whole(&self, memory: u64) -> Result<(Vec<u8>, Encoded)> {
        let (sink, request) = (MemorySink::new("made"), EncodeRequest { memory, ..self.request.clone() });
        let (commits, progress) = (Commits::default(), Progress::default());
        let done = encode(&self.trajectory, &request, self.format, &*self.encoder, &sink, &commits, &progress)?;
        Ok((sink.bytes(), done))
    }

    fn run(&self, frames: Range<u64>, at: u64, sink: &dyn Sink) -> Result<Encoded> {
        let progress = Progress::default();
        let request = EncodeRequest { workers: 2, ..self.request.clone() };
        encode_run(&self.trajectory, &request, Run { frames, at }, self.format, &*self.encoder, sink, &progress)
    }

    fn pieces(&self, first: u64, bytes: u64, number: u64) -> Vec<Range<u64>> {
        pieces(&self.trajectory, &self.request, &*self.encoder, first, bytes, number).unwrap()
    }
}

/// The index of the frames of a table from `first` on, where their records begin at byte `at`.
fn index_from(whole: &TableIndex, frames: Range<u64>, at: u64) -> TableIndex {
    let mut table = TableBuilder::new(at);
    for frame in frames {
        table.push(whole.extent(frame).len, whole.step(frame), whole.time(frame)).unwrap();
    }
    table.finish()
}

#[test]
fn runs_in_any_order_make_the_file_that_one_call_makes() {
    for case in Case::all() {
        let (whole, done) = case.whole(0).unwrap();
        let n_frames = case.request.frames.len();
        let mut runs = case.pieces(0, u64::MAX, 3);
        assert!(runs.len() >= 3.min(n_frames as usize), "{runs:?}");
        let sink = MemorySink::new("made");
        let (begun, _) = begin(&case.request, &*case.encoder, &sink).unwrap();
        if case.encoder.placing().is_ordered() {
            let mut at = begun.bytes;
            for run in runs {
                let made = case.run(run.clone(), at, &sink).unwrap();
                assert_eq!(made.index.unwrap(), index_from(done.index.as_ref().unwrap(), run, at));
                at += made.bytes;
            }
            assert_eq!(at, whole.len() as u64);
        } else {
            // places are known before any record is made
            runs.reverse();
            for run in runs {
                let at = place_of(&*case.encoder, run.start).unwrap();
                let made = case.run(run.clone(), at, &sink).unwrap();
                assert!(made.index.is_none());
                assert_eq!(Some(at + made.bytes), place_of(&*case.encoder, run.end));
            }
        }
        finish(&*case.encoder, &sink, n_frames).unwrap();
        assert!(sink.bytes() == whole, "{}", case.format.info().name);
        #[expect(clippy::reversed_empty_ranges, reason = "refused")]
        for frames in [0..n_frames + 1, 2..1] {
            assert_eq!(case.run(frames, 0, &MemorySink::new("none")).unwrap_err().kind(), ErrorKind::OutOfRange);
        }
    }
}

#[test]
fn pieces_are_all_frames_in_order_and_as_small_as_asked_for() {
    for case in Case::all() {
        let n_frames = case.request.frames.len();
        for (first, bytes, number) in [(0, u64::MAX, 1), (0, u64::MAX, 4), (2, u64::MAX, 2), (0, 1, 1), (1, 0, 0)] {
            let found = case.pieces(first, bytes, number);
            let mut next = first;
            for piece in &found {
                assert_eq!(piece.start, next);
                assert!(piece.end > next && (bytes > 1 || piece.end == next + 1), "{piece:?}");
                next = piece.end;
            }
            assert_eq!(next, n_frames);
            // as many as asked for if there are enough frames; none is larger than its share
            assert!(found.len() as u64 >= number.min(n_frames - first), "{found:?} of {number}");
        }
        assert!(case.pieces(n_frames, u64::MAX, 4).is_empty());
    }
}

#[test]
fn the_least_memory_suffices_and_a_byte_less_is_refused() {
    for case in Case::all() {
        let least = least_memory(&case.trajectory, &case.request, &*case.encoder).unwrap();
        let error = case.whole(least - 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MemoryLimit);
        assert!(error.to_string().contains(&format!("expected at least {least} bytes")), "{error}");
        assert!(case.whole(least).unwrap().0 == case.whole(0).unwrap().0);
    }
}

const N_ATOMS: u32 = 12;

fn making_of_file() -> Making {
    Making { n_atoms: N_ATOMS, source_atoms: N_ATOMS, ..Making::default() }
}

/// Gives the frames of a range to `take`: positions from which frame and atom follow, on a grid that XTC keeps.
fn given<T>(frames: Range<u64>, take: impl FnOnce(&Given<'_>) -> T) -> T {
    let position = |frame: u64, i: u64| (10 * frame + i * 7 % 101) as f32 / 4.0;
    let values: Vec<f32> =
        frames.clone().flat_map(|frame| (0..3 * u64::from(N_ATOMS)).map(move |i| position(frame, i))).collect();
    let stamp = |frame: u64| {
        let cell = [[40.0 + frame as f64, 0.0, 0.0], [0.0, 50.0, 0.0], [0.0, 0.0, 60.0]];
        Stamp { cell, step: 100 + 50 * frame as i64, time: 0.5 + 0.25 * frame as f64, ..Stamp::default() }
    };
    take(&Given { vectors: [Some(Values::F32(&values)), None, None], stamps: frames.map(stamp).collect() })
}

fn file_of(format: &'static dyn Format, n_frames: u64) -> Vec<u8> {
    let sink = std::sync::Arc::new(MemorySink::new("made"));
    let to: std::sync::Arc<dyn Sink> = sink.clone();
    let mut file = RecordFile::new(format, &making_of_file(), to, 1);
    given(0..n_frames, |given| file.add(given, &Progress::default())).unwrap();
    file.flush(&Progress::default()).unwrap();
    sink.bytes()
}

fn encoded(format: &'static dyn Format, frame: u64) -> Vec<u8> {
    let progress = Progress::default();
    given(frame..frame + 1, |given| RecordFile::encoded(format, &making_of_file(), given, frame, &progress))
        .unwrap()
        .bytes
}

#[test]
fn a_frame_that_is_encoded_alone_has_the_bytes_that_it_has_in_a_file() {
    for name in ["XTC", "TRR"] {
        let format = find_by_name(name).unwrap();
        let alone: Vec<u8> = (0..5).flat_map(|frame| encoded(format, frame)).collect();
        assert!(alone == file_of(format, 5), "{name}");
    }
}

/// Number of frames that a scan finds, and the byte of an unfinished frame, if any.
fn scanned(format: &dyn Format, bytes: &[u8]) -> (u64, Option<u64>) {
    let source = MemorySource::new("left", bytes.to_vec());
    let options = ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged: false };
    let scan = format.open(&source).unwrap().scan(&source, &options).unwrap();
    let truncation = scan.truncation.map(|error| {
        assert_eq!(error.kind(), ErrorKind::Truncated);
        assert!(error.to_string().contains("not finished"), "{error}");
        error.offset().unwrap()
    });
    (scan.index.n_frames(), truncation)
}

#[test]
fn a_file_ends_at_the_mark_of_a_record_that_was_not_finished() {
    for name in ["XTC", "TRR", "DCD"] {
        let format = find_by_name(name).unwrap();
        let (mut whole, before) = (file_of(format, 5), file_of(format, 3).len());
        if name == "DCD" {
            // counted frames are finished: the count is written last
            whole[8..12].copy_from_slice(&3_u32.to_le_bytes());
        }
        assert_eq!(scanned(format, &whole), (5, None), "{name}");
        whole[before..before + 4].copy_from_slice(b"KINE");
        assert_eq!(scanned(format, &whole), (3, Some(before as u64)), "{name}");
    }
}
