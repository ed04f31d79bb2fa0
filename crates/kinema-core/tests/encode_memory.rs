//! Memory that encoding takes, counted by the allocator: under the stated limit however slow a read or a write is.
//!
//! One test in a process of its own: the allocator counts for all threads.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use common::dcd_builder::Builder;
use kinema_core::Result;
use kinema_core::format::{Making, find_by_name};
use kinema_core::pipeline::Progress;
use kinema_core::pipeline::encode::resume::Commits;
use kinema_core::pipeline::encode::{EncodeRequest, encode, making};
use kinema_core::selection::{AtomSelection, FrameSelection};
use kinema_core::sink::Sink;
use kinema_core::source::{MemorySource, OpenSource, Source};
use kinema_core::trajectory::{OpenOptions, Trajectory};

/// Counts bytes that are allocated, and the most of them at a time.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all calls go to the system's allocator as they are.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller keeps to what `alloc` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above; `pointer` came from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Reads and writes so far, and which of them waits until all others have come to a halt.
#[derive(Debug, Default)]
struct Gate {
    calls: AtomicU64,
    /// Whether the call that waits has been met.
    closed: AtomicBool,
}

impl Gate {
    /// A machine that is too busy to continue is taken for a halt: then the test tries less, and nothing fails.
    fn pass(&self, waits: bool) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if !waits || self.closed.swap(true, Ordering::Relaxed) {
            return;
        }
        let (mut before, mut still) = (0, 0);
        while still < 20 {
            std::thread::sleep(Duration::from_millis(10));
            let now = self.calls.load(Ordering::Relaxed);
            still = if now == before { still + 1 } else { 0 };
            before = now;
        }
    }
}

/// The file; the read of its first frame waits.
struct SlowSource {
    inner: Arc<MemorySource>,
    gate: Arc<Gate>,
    /// Where the first frame begins; beyond the end of the file if no read waits.
    first: u64,
}

impl Source for SlowSource {
    fn path(&self) -> &Path {
        self.inner.path()
    }
    fn len(&self) -> Result<u64> {
        self.inner.len()
    }
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        // not the cells of some frames that are looked at before
        self.gate.pass(offset == self.first && buffer.len() > 1000);
        self.inner.read_exact_at(offset, buffer)
    }
}

#[derive(Debug)]
struct Opening(Arc<MemorySource>, Arc<Gate>, u64);

impl OpenSource for Opening {
    fn open(&self, _: &Path) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(SlowSource { inner: self.0.clone(), gate: self.1.clone(), first: self.2 }))
    }
}

/// A disk that forgets its bytes; the write of the first record waits.
struct SlowSink {
    gate: Arc<Gate>,
    waits: bool,
    bytes: AtomicU64,
}

impl Sink for SlowSink {
    fn path(&self) -> &Path {
        "made".as_ref()
    }
    fn write_at(&self, _: u64, bytes: &[u8]) -> Result<()> {
        self.gate.pass(self.waits && bytes.len() > 1000);
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }
    fn set_len(&self, _: u64) -> Result<()> {
        Ok(())
    }
    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Slow {
    Nothing,
    FirstRead,
    FirstWrite,
}

const LIMIT: u64 = 14 << 20;

/// The most memory held beyond the source's own, and bytes written.
fn most(file: &Arc<MemorySource>, first: u64, target: &str, slow: Slow) -> (u64, u64) {
    let gate = Arc::new(Gate::default());
    let first = if slow == Slow::FirstRead { first } else { u64::MAX };
    let sources = Arc::new(Opening(file.clone(), gate.clone(), first));
    let trajectory = Trajectory::open(vec!["in".into()], OpenOptions { sources, ..OpenOptions::default() }).unwrap();
    trajectory.scan(1, &|_| Ok(())).unwrap();
    let format = find_by_name(target).unwrap();
    let atoms = AtomSelection::all(trajectory.n_atoms());
    let count = trajectory.scanned().unwrap().concatenation.n_frames;
    let frames = FrameSelection::Stride { start: 0, step: 1, count };
    let index = &trajectory.scanned().unwrap().parts[0].index;
    let steps = (0..count).map(|frame| index.step(frame).unwrap()).collect();
    let times = (0..count).map(|frame| index.time(frame).unwrap()).collect();
    let known = making(&trajectory, &frames, &atoms, format).unwrap();
    let encoder = format.encoder(&Making { steps, times, recoded_version: None, ..known }).unwrap();
    let request = EncodeRequest { frames, atoms, workers: 3, memory: LIMIT, resumed: None };
    let sink = SlowSink { gate: gate.clone(), waits: slow == Slow::FirstWrite, bytes: AtomicU64::default() };
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let commits = Commits::default();
    encode(&trajectory, &request, format, &*encoder, &sink, &commits, &Progress::default()).unwrap();
    assert_eq!(gate.closed.load(Ordering::Relaxed), slow != Slow::Nothing, "the slow call was never made");
    ((MOST.load(Ordering::Relaxed) - before) as u64, sink.bytes.into_inner())
}

#[test]
fn memory_stays_under_the_limit_with_a_slow_first_frame_and_a_slow_disk() {
    let (n_atoms, n_frames) = (10_000, 400);
    let bytes = Builder::new(n_atoms, n_frames).build();
    let first = (bytes.len() - n_frames * 3 * (8 + 4 * n_atoms)) as u64;
    let file = Arc::new(MemorySource::new("in", bytes));
    for target in ["XTC", "DCD"] {
        for slow in [Slow::Nothing, Slow::FirstRead, Slow::FirstWrite] {
            let (most, written) = most(&file, first, target, slow);
            println!("{target} {slow:?}: {most} bytes at most, {written} written");
            assert!(written > LIMIT / 2 + LIMIT / 4, "{written}: the file is too small to test the limit");
            assert!(most <= LIMIT, "{target}, {slow:?}: {most} bytes of {LIMIT}");
        }
    }
}
