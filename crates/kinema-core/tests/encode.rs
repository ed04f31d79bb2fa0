//! The pipeline's end for files, over a recording sink: contents of the file after every unfinished write, the same
//! bytes for any workers and memory, and errors of the sink.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use kinema_core::format::dcd::DcdHeader;
use kinema_core::format::{Encoder, Format, Making, ScanOptions, find_by_name};
use kinema_core::frame::{Block, Fields, Units};
use kinema_core::index::Index;
use kinema_core::pipeline::Progress;
use kinema_core::pipeline::encode::resume::{Commits, Committed, resume};
use kinema_core::pipeline::encode::{EncodeRequest, Encoded, encode, making};
use kinema_core::pipeline::reader::Reader;
use kinema_core::selection::{AtomSelection, FrameSelection};
use kinema_core::sink::{Fault, MemorySink, RecordingSink, Sink, Written};
use kinema_core::source::{MemorySource, OpenSource, Source};
use kinema_core::trajectory::{OpenOptions, Trajectory};
use kinema_core::{ErrorKind, Result};

fn golden(name: &str) -> Trajectory {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/golden")).join(name);
    opened(Trajectory::open(vec![path], OpenOptions::default()).unwrap())
}

fn opened(trajectory: Trajectory) -> Trajectory {
    trajectory.scan(1, &|_| Ok(())).unwrap();
    trajectory
}

/// Frames to write, and how.
struct Case {
    trajectory: Trajectory,
    format: &'static dyn Format,
    encoder: Box<dyn Encoder>,
    request: EncodeRequest,
}

impl Case {
    fn new(source: &str, format: &str, atoms: Option<Vec<u32>>, precision: Option<f64>) -> Self {
        let trajectory = golden(source);
        let format = find_by_name(format).unwrap();
        let n_atoms = trajectory.n_atoms();
        let atoms = atoms.map_or(AtomSelection::all(n_atoms), |atoms| AtomSelection::new(atoms, n_atoms).unwrap());
        let n_frames = trajectory.scanned().unwrap().concatenation.n_frames;
        let frames = FrameSelection::Stride { start: 0, step: 1, count: n_frames };
        let (steps, times) = stamps(&trajectory, &frames);
        let known = making(&trajectory, &frames, &atoms, format).unwrap();
        let encoder = format.encoder(&Making { steps, times, precision, ..known }).unwrap();
        Self {
            trajectory,
            format,
            encoder,
            request: EncodeRequest { frames, atoms, workers: 1, memory: 0, resumed: None },
        }
    }

    fn all() -> Vec<Self> {
        let some = || Some(vec![7, 3, 3, 20, 5, 6, 8, 9, 10, 11, 12, 13]);
        vec![
            Self::new("ca.dcd", "DCD", None, None),
            Self::new("ca.xtc", "DCD", some(), None),
            Self::new("ca.dcd", "XTC", None, None),
            Self::new("ca.xtc", "XTC", None, None),
            Self::new("ca.xtc", "XTC", some(), None),
            Self::new("ca.xtc", "XTC", some(), Some(100.0)),
            Self::new("ca.trr", "TRR", None, None),
            Self::new("ca.trr", "NetCDF", None, None),
            Self::new("ca.dcd", "NetCDF", some(), None),
            Self::new("ca.trr", "TRR", some(), None),
            Self::new("ca.xtc", "TRR", some(), None),
            Self::new("ca.trr", "DL_POLY HISTORY", some(), None),
        ]
    }

    fn write(&self, workers: usize, memory: u64, sink: &dyn Sink) -> Result<u64> {
        Ok(self.encoded(EncodeRequest { workers, memory, ..self.request.clone() }, sink, &Commits::default())?.bytes)
    }

    fn encoded(&self, request: EncodeRequest, sink: &dyn Sink, commits: &Commits) -> Result<Encoded> {
        let progress = Progress::default();
        let done = encode(&self.trajectory, &request, self.format, &*self.encoder, sink, commits, &progress)?;
        assert_eq!(progress.done.into_inner(), request.frames.len());
        assert_eq!(commits.committed(), Committed { frames: request.frames.len(), bytes: done.bytes });
        Ok(done)
    }

    fn bytes(&self) -> Vec<u8> {
        let sink = MemorySink::new("made");
        let n_bytes = self.write(1, 0, &sink).unwrap();
        assert_eq!(sink.bytes().len() as u64, n_bytes);
        sink.bytes()
    }

    /// Bytes of a whole file after each of its frames, and before the first.
    fn ends(&self, whole: &[u8]) -> Vec<u64> {
        let source = MemorySource::new("made", whole.to_vec());
        let index = scan(self.format, &source).unwrap();
        let ends = (0..index.n_frames()).map(|frame| index.extent(frame).end());
        let ends: Vec<u64> = [self.encoder.head().len() as u64].into_iter().chain(ends).collect();
        assert_eq!(ends.len() as u64 - 1, self.request.frames.len());
        ends
    }
}

fn stamps(trajectory: &Trajectory, frames: &FrameSelection) -> (Vec<i64>, Vec<f64>) {
    let index = &trajectory.scanned().unwrap().parts[0].index;
    (0..frames.len()).map(|i| (index.step(frames.get(i)).unwrap(), index.time(frames.get(i)).unwrap())).unzip()
}

fn scan(format: &dyn Format, source: &dyn Source) -> Result<Index> {
    let options = ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged: false };
    Ok(format.open(source)?.scan(source, &options)?.index)
}

/// Opens one file that is in memory, whatever its name.
#[derive(Debug)]
struct InMemory(Vec<u8>);

impl OpenSource for InMemory {
    fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(MemorySource::new(&path.to_string_lossy(), self.0.clone())))
    }
}

/// Positions, cells, steps and times of all frames, in the units of the format.
fn values(trajectory: &Trajectory, atoms: &AtomSelection, format: &dyn Format) -> Block {
    let fields = Fields::POSITIONS | Fields::CELL | Fields::STEP | Fields::TIME;
    let mut block = Block::default();
    let n_frames = trajectory.scanned().unwrap().concatenation.n_frames;
    block.reset(0..n_frames, atoms.len(), fields);
    let frames = block.frames.clone();
    let units = Units::Of(format.info().scales);
    Reader::new(trajectory, fields, atoms.clone(), units)
        .unwrap()
        .with_absent_marked()
        .read(&frames, &mut block.as_mut())
        .unwrap();
    block
}

#[test]
fn what_is_written_is_read_back() {
    for case in Case::all() {
        let options = OpenOptions { sources: Arc::new(InMemory(case.bytes())), ..OpenOptions::default() };
        let made = opened(Trajectory::open(vec!["made".into()], options).unwrap());
        let source = values(&case.trajectory, &case.request.atoms, case.format);
        let copy = values(&made, &AtomSelection::all(made.n_atoms()), case.format);
        let width = 3 * case.request.atoms.len();
        let rounding = case.encoder.largest_rounding();
        for (expected, found) in source.positions.chunks(width).zip(copy.positions.chunks(3 * made.n_atoms() as usize))
        {
            let column = |i: usize| case.request.atoms.columns().map_or(i, |columns| columns[i] as usize);
            for (i, found) in found.as_chunks::<3>().0.iter().enumerate() {
                let expected = &expected[3 * column(i)..][..3];
                for (found, expected) in found.iter().zip(expected) {
                    let most = rounding + if rounding > 0.0 { 1e-6 * f64::from(expected.abs()) } else { 0.0 };
                    assert!(f64::from((found - expected).abs()) <= most, "{found} {expected}");
                }
            }
        }
        for (found, expected) in copy.stamps.iter().zip(&source.stamps) {
            if case.format.info().fields.contains(Fields::STEP) {
                assert_eq!(found.step, expected.step);
            }
            assert!((found.time - expected.time).abs() <= 1e-6 * expected.time.abs());
            let edges = expected.cell.iter().flatten().zip(found.cell.iter().flatten());
            assert!(edges.clone().all(|(a, b)| (a - b).abs() <= 1e-6 * a.abs().max(1e-3)), "{found:?} {expected:?}");
        }
    }
}

#[test]
fn bytes_are_the_same_for_any_workers_and_memory() {
    for case in Case::all() {
        let expected = case.bytes();
        for workers in [1, 2, 3, 5] {
            for memory in [0, 9 << 20] {
                let sink = MemorySink::new("made");
                case.write(workers, memory, &sink).unwrap();
                assert!(sink.bytes() == expected, "{workers} workers, {memory} bytes");
            }
        }
    }
}

#[test]
fn all_atoms_of_an_xtc_file_keep_its_bytes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/golden/ca.xtc");
    assert!(Case::new("ca.xtc", "XTC", None, None).bytes() == std::fs::read(path).unwrap());
}

/// Checks that the format's reader finds, in an unfinished file, the frames that are whole in it and no others.
fn check_committed(case: &Case, bytes: Vec<u8>, whole: &[u8], ends: &[u64]) {
    let len = bytes.len() as u64;
    let mut complete = ends.iter().skip(1).filter(|&&end| end <= len).count() as u64;
    if case.format.info().name == "NetCDF" {
        // the header counts those that are committed
        let counted = bytes.get(4..8).map_or(0, |count| u32::from_be_bytes(count.try_into().unwrap()));
        complete = complete.min(u64::from(counted));
    }
    if case.format.info().name == "DL_POLY HISTORY" {
        // of which it may not have said any yet
        let text = bytes.get(103..124).map(|count| String::from_utf8(count.to_vec()).unwrap());
        let counted = text.map_or(0, |count| count.trim().parse().unwrap());
        complete = if counted == 0 { complete } else { complete.min(counted) };
    }
    let source = MemorySource::new("part", bytes.clone());
    match scan(case.format, &source) {
        Ok(index) => assert_eq!(index.n_frames(), complete, "of {len} bytes"),
        // a file that ends within its header, or its first frame, is called truncated; never anything else
        Err(error) => {
            assert!(error.kind() == ErrorKind::Truncated || len < 16, "{error}");
            assert!(complete == 0, "{error}");
        }
    }
    // all but the counts in the header are those of the whole file
    let head = ends[0] as usize;
    let from = head.min(bytes.len());
    assert!(bytes[from..] == whole[from..bytes.len()], "of {len} bytes");
    if case.format.info().name == "DCD" && bytes.len() >= head {
        let claimed = DcdHeader::read(&source).unwrap().claimed_frames;
        assert!(u64::try_from(claimed).unwrap() <= complete, "{claimed} of {complete}");
    }
}

#[test]
fn after_any_write_the_frames_that_are_whole_are_read() {
    for case in Case::all() {
        let whole = case.bytes();
        let ends = case.ends(&whole);
        let sink = RecordingSink::new("made");
        case.write(1, 0, &sink).unwrap();
        let log = sink.log();
        assert_eq!(log.last(), Some(&Written::Sync), "the file is synced before it gets its name");
        for done in 0..=log.len() {
            let next = log.get(done);
            let most = if let Some(Written::Bytes(_, bytes)) = next { bytes.len() } else { 0 };
            // every byte of the short ones, and around the ends of frames
            for torn in (0..=most).filter(|torn| most < 2000 || torn % 97 == 0 || torn + 2 > most) {
                let bytes = RecordingSink::replayed(&log[..done], next, torn).unwrap();
                check_committed(&case, bytes, &whole, &ends);
            }
        }
        let bytes = RecordingSink::replayed(&log, None, 0).unwrap();
        assert!(bytes == whole);
    }
}

#[test]
fn frames_are_counted_after_they_are_synced() {
    // by several workers, in any order: the last write is the count, after a sync, and before it the count is 0
    let case = Case::new("ca.dcd", "DCD", None, None);
    for workers in [1, 3] {
        let sink = RecordingSink::new("made");
        case.write(workers, 0, &sink).unwrap();
        let log = sink.log();
        let [.., Written::Sync, Written::Bytes(8, counts), Written::Sync] = log.as_slice() else {
            panic!("no count after a sync: {log:?}");
        };
        assert_eq!(counts[..4], (case.request.frames.len() as i32).to_le_bytes());
        let before = &log[..log.len() - 3];
        assert!(before[1..].iter().all(|call| matches!(call, Written::Bytes(offset, _) if *offset > 8)));
        let bytes = RecordingSink::replayed(before, None, 0).unwrap();
        let header = DcdHeader::read(&MemorySource::new("part", bytes)).unwrap();
        assert_eq!(header.claimed_frames, 0);
    }
}

#[test]
fn records_in_order_are_never_written_behind_a_gap() {
    let case = Case::new("ca.dcd", "XTC", None, None);
    for workers in [1, 2, 5] {
        let sink = RecordingSink::new("made");
        case.write(workers, 0, &sink).unwrap();
        let mut end = 0;
        for call in sink.log() {
            if let Written::Bytes(offset, bytes) = call {
                assert_eq!(offset, end);
                end += bytes.len() as u64;
            }
        }
        assert_eq!(end, case.bytes().len() as u64);
    }
}

#[test]
fn a_full_disk_ends_the_call_with_its_place() {
    for case in Case::all() {
        let sink = RecordingSink::new("made");
        case.write(1, 0, &sink).unwrap();
        for workers in [1, 3] {
            for (from, call) in sink.log().iter().enumerate() {
                let fault = if *call == Written::Sync { Fault::Sync } else { Fault::NoSpace(5) };
                let failing = RecordingSink::failing("made", from, fault);
                let error = case.write(workers, 0, &failing).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                assert_eq!(error.path(), Some("made".as_ref()));
                let expected = if fault == Fault::Sync { "Input/output error" } else { "No space left on device" };
                assert!(error.what().contains(expected), "{error}");
                assert_eq!(error.offset().is_some(), fault != Fault::Sync);
            }
        }
    }
}

#[test]
fn memory_that_is_too_small_is_refused_with_what_would_do() {
    for case in Case::all() {
        let error = case.write(2, 1 << 20, &MemorySink::new("made")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MemoryLimit);
        let least = error.what().split("at least ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        let least: u64 = least.parse().unwrap();
        assert!(case.write(2, least - 1, &MemorySink::new("made")).is_err());
        let sink = MemorySink::new("made");
        case.write(2, least, &sink).unwrap();
        assert!(sink.bytes() == case.bytes());
    }
}

#[test]
fn a_cancelled_call_is_an_error() {
    let case = Case::new("ca.dcd", "XTC", None, None);
    let progress = Progress::default();
    progress.cancel.store(true, std::sync::atomic::Ordering::Relaxed);
    let sink = MemorySink::new("made");
    let commits = Commits::default();
    let done = encode(&case.trajectory, &case.request, case.format, &*case.encoder, &sink, &commits, &progress);
    assert_eq!(done.unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn formats_without_an_encoder_name_those_with_one() {
    let error = find_by_name("H5MD").unwrap().encoder(&Making::default()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error
            .what()
            .ends_with("expected XTC or TRR or NetCDF or DCD or DL_POLY HISTORY or DL_POLY CONFIG or G96, found H5MD"),
        "{error}"
    );
}

#[test]
fn the_index_is_what_a_scan_finds() {
    for case in Case::all() {
        for workers in [1, 3] {
            let sink = MemorySink::new("made");
            let request = EncodeRequest { workers, ..case.request.clone() };
            let made = case.encoded(request, &sink, &Commits::default()).unwrap();
            match scan(case.format, &MemorySource::new("made", sink.bytes())).unwrap() {
                Index::Table(found) => assert_eq!(made.index, Some(found)),
                Index::Uniform(_) | Index::Chunked(_) => assert!(made.index.is_none()),
            }
        }
    }
}

/// A sink that notes the committed frames around each call, as a checkpoint at the worst moments would.
struct Watched<'a> {
    inner: &'a RecordingSink,
    commits: &'a Commits,
    /// Frames committed after a number of calls.
    seen: Mutex<Vec<(usize, Committed)>>,
}

impl Watched<'_> {
    fn looked<T>(&self, done: T) -> T {
        // before the calls are counted, so that the committed frames are among them
        let committed = self.commits.committed();
        self.seen.lock().unwrap().push((self.inner.log().len(), committed));
        done
    }
}

impl Sink for Watched<'_> {
    fn path(&self) -> &Path {
        self.inner.path()
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.looked(());
        self.looked(self.inner.write_at(offset, bytes))
    }
    fn set_len(&self, len: u64) -> Result<()> {
        self.looked(self.inner.set_len(len))
    }
    fn sync(&self) -> Result<()> {
        self.looked(());
        self.looked(self.inner.sync())
    }
}

/// The file that a later call makes of what an earlier one has left.
fn gone_on(case: &Case, left: &[u8], committed: Committed, workers: usize) -> Result<(Vec<u8>, Encoded)> {
    let sink = MemorySink::new("made");
    sink.write_at(0, left)?;
    let front = left[..left.len().min(committed.bytes as usize)].to_vec();
    let resumed = resume(case.format, &sink, &MemorySource::new("made", front), committed)?;
    assert_eq!(resumed.as_ref().map_or(0, |resumed| resumed.committed.frames), committed.frames);
    assert_eq!(sink.bytes().len() as u64, if committed.frames > 0 { committed.bytes } else { 0 });
    let request = EncodeRequest { workers, resumed, ..case.request.clone() };
    let done = case.encoded(request, &sink, &Commits::default())?;
    Ok((sink.bytes(), done))
}

/// The writes done at a commit are on the disk. Any later writes, or the beginning of any, may be there as well, in any
/// order. A later call makes the same bytes of the file.
#[test]
fn what_was_committed_is_gone_on_with_to_the_same_bytes() {
    let mut random = Random(1);
    for case in Case::all() {
        let whole = case.bytes();
        for workers in [1, 3] {
            let (inner, commits) = (RecordingSink::new("made"), Commits::default());
            let sink = Watched { inner: &inner, commits: &commits, seen: Mutex::default() };
            case.encoded(EncodeRequest { workers, ..case.request.clone() }, &sink, &commits).unwrap();
            let log = inner.log();
            let index =
                case.encoded(case.request.clone(), &MemorySink::new("made"), &Commits::default()).unwrap().index;
            let seen = sink.seen.into_inner().unwrap();
            assert!(seen.iter().any(|(_, committed)| committed.frames > 0), "nothing was committed on the way");
            for (calls, committed) in seen {
                // what came later reached the disk or not, whole or torn
                let mut later: Vec<Written> = log[calls..].to_vec();
                let torn = random.below(later.len() as u64 + 1) as usize;
                let next = (torn < later.len()).then(|| later.swap_remove(torn));
                later.retain(|_| random.below(2) == 0);
                (1..later.len()).for_each(|i| later.swap(i, random.below(i as u64 + 1) as usize));
                let done: Vec<Written> = log[..calls].iter().cloned().chain(later).collect();
                let left = RecordingSink::replayed(&done, next.as_ref(), random.below(5000) as usize).unwrap();
                let (bytes, made) = gone_on(&case, &left, committed, 1 + random.below(3) as usize).unwrap();
                assert!(bytes == whole, "{calls} calls, {committed:?}");
                assert_eq!(made.index, index);
            }
        }
    }
}

#[test]
fn what_is_not_what_was_committed_is_refused() {
    for case in Case::all() {
        let whole = case.bytes();
        let ends = case.ends(&whole);
        let committed = Committed { frames: 2, bytes: ends[2] };
        let kind = |left: &[u8], committed| gone_on(&case, left, committed, 1).map(|_| ()).unwrap_err().kind();
        assert_eq!(kind(&whole[..ends[2] as usize - 1], committed), ErrorKind::Truncated);
        assert_eq!(kind(&whole, Committed { frames: 3, ..committed }), ErrorKind::Corrupt);
        assert_eq!(kind(&whole, Committed { bytes: committed.bytes + 4, ..committed }), ErrorKind::Corrupt);
        assert!(gone_on(&case, &whole, committed, 1).unwrap().0 == whole);
    }
    // more frames than the file is to have
    let case = Case::new("ca.xtc", "XTC", None, None);
    let whole = case.bytes();
    let frames = FrameSelection::Stride { start: 0, step: 1, count: 1 };
    let fewer = Case { request: EncodeRequest { frames, ..case.request.clone() }, ..case };
    let committed = Committed { frames: 2, bytes: case_end(&fewer, &whole) };
    assert_eq!(gone_on(&fewer, &whole, committed, 1).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

fn case_end(case: &Case, whole: &[u8]) -> u64 {
    scan(case.format, &MemorySource::new("made", whole.to_vec())).unwrap().extent(1).end()
}

/// Numbers that are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }
}
