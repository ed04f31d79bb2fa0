//! Timings of a run, per worker and per block, returned as data; the same readings of the clock are events of a trace.
//!
//! Conclusions are drawn by Python's `kinema.report`.

use std::ops::AddAssign;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::trace::{Activity, Event, activity, call_ended_since, enabled, record};

/// Durations and counts of one worker's reading.
#[derive(Debug, Clone, Copy, Default)]
pub struct Phases {
    /// Opening files.
    pub open: Duration,
    /// Reading bytes.
    pub io: Duration,
    /// Decoding them.
    pub decode: Duration,
    /// Bytes read, gaps included.
    pub bytes_read: u64,
    /// Read calls.
    pub reads: u64,
}

impl AddAssign for Phases {
    fn add_assign(&mut self, other: Self) {
        self.open += other.open;
        self.io += other.io;
        self.decode += other.decode;
        self.bytes_read += other.bytes_read;
        self.reads += other.reads;
    }
}

/// Timings of a worker.
#[derive(Debug, Clone, Copy, Default)]
pub struct WorkerTiming {
    /// Reading.
    pub phases: Phases,
    /// Kernels and transforms; encoding, if frames are written.
    pub compute: Duration,
    /// Writing bytes, and waiting until it is their turn.
    pub write: Duration,
    /// Merging partials, waiting for locks, and idle at the end while others still worked.
    pub wait: Duration,
    /// Wall time from the start of the run to its end.
    pub total: Duration,
    /// CPU time of the worker's thread.
    pub cpu: Duration,
    /// Frames done.
    pub frames: u64,
    /// Blocks done.
    pub blocks: u64,
    /// The system's number of its thread.
    pub thread: i32,
}

impl WorkerTiming {
    /// The clock of the calling thread, which has waited to begin since the start of the run.
    pub(crate) fn begin(start: Instant) -> Self {
        let wait = start.elapsed();
        let timing = Self { wait, thread: crate::trace::thread_id(), ..Self::default() };
        timing.waited(start, wait);
        timing
    }

    fn waited(&self, start: Instant, duration: Duration) {
        let values = [0, 0, i64::from(self.thread)];
        record(&Event { activity: &activity::WAIT, file: None, start, duration, values });
    }
}

/// Timings of a block.
#[derive(Debug, Clone, Copy)]
pub struct BlockTiming {
    /// Number of the worker.
    pub worker: u32,
    /// Where its first frame is in the selection.
    pub position: u64,
    /// Number of frames.
    pub frames: u32,
    /// Since the start of the run.
    pub start: Duration,
    /// Opening and reading.
    pub io: Duration,
    /// Decoding.
    pub decode: Duration,
    /// Kernels.
    pub compute: Duration,
}

/// Timings of a run.
#[derive(Debug, Clone, Default)]
pub struct RunTimings {
    /// Wall time.
    pub wall: Duration,
    /// One a worker.
    pub workers: Vec<WorkerTiming>,
    /// One a block, in no order.
    pub blocks: Vec<BlockTiming>,
}

impl RunTimings {
    /// Timings of workers that were there from start to end: a worker that finished earlier counts as waiting since.
    pub(crate) fn from_workers(start: Instant, workers: Vec<WorkerTiming>) -> Self {
        let wall = start.elapsed();
        let until_the_end = |mut worker: WorkerTiming| {
            let idle = wall.saturating_sub(worker.total);
            worker.wait += idle;
            worker.waited(start + worker.total, idle);
            worker.total = wall;
            worker
        };
        Self { wall, workers: workers.into_iter().map(until_the_end).collect(), blocks: Vec::new() }
    }
}

/// CPU time that the calling thread has used so far.
pub fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that lives across the call, which writes nothing else.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    if status == 0 { Duration::new(time.tv_sec as u64, time.tv_nsec as u32) } else { Duration::ZERO }
}

/// The work that a time was spent on, for its event.
#[derive(Debug, Clone, Copy, Default)]
pub struct Work<'a> {
    /// The file.
    pub file: Option<&'a Path>,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Frames.
    pub frames: u64,
}

impl Work<'_> {
    /// Work on `frames` frames.
    pub fn frames(frames: u64) -> Self {
        Self { frames, ..Self::default() }
    }
}

/// Time since the last lap. Each lap is a phase of the owner's timings and an event of the trace, with the same
/// nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Default for Stopwatch {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Stopwatch {
    /// A stopwatch that runs.
    pub fn start() -> Self {
        Self::default()
    }

    /// When the last lap ended.
    pub fn begun(&self) -> Instant {
        self.0
    }

    /// Begins a lap now: the time since the last one is not counted.
    pub fn restart(&mut self) {
        self.0 = Instant::now();
    }

    /// Ends a lap, and begins the next: one reading of the clock.
    pub fn lap(&mut self, activity: &'static Activity, work: Work<'_>) -> Duration {
        self.lap_until(Instant::now(), activity, work)
    }

    /// Ends a lap that ended then, and begins the next there.
    fn lap_until(&mut self, now: Instant, activity: &'static Activity, work: Work<'_>) -> Duration {
        let (start, duration) = (self.0, now - self.0);
        self.0 = now;
        let values = [work.offset as i64, work.size as i64, work.frames as i64];
        record(&Event { activity, file: work.file, start, duration, values });
        duration
    }
}

/// The phases of one worker's reading, and the stopwatch that they are measured with.
#[derive(Debug, Clone, Copy, Default)]
pub struct Meter {
    /// Runs on from phase to phase.
    pub watch: Stopwatch,
    /// Durations and counts so far.
    pub phases: Phases,
    /// Whether reading ends with a call to the system: if that call is recorded, both ends are one reading of the
    /// clock.
    ends_with_call: bool,
}

impl Meter {
    /// Whether what follows is read from a source whose reads end with a call to the system.
    pub(crate) fn reads_end_with_a_call(&mut self, yes: impl FnOnce() -> bool) {
        self.ends_with_call = enabled() && yes();
    }

    /// Time until now went into getting at a file.
    pub fn opened(&mut self, file: &Path) {
        self.phases.open += self.watch.lap(&activity::OPENING, Work { file: Some(file), ..Work::default() });
    }

    /// Counts the time until now as reading, with `calls` calls.
    pub fn read(&mut self, work: Work<'_>, calls: u64) {
        let end = if self.ends_with_call { call_ended_since(self.watch.0) } else { None };
        self.phases.io += self.watch.lap_until(end.unwrap_or_else(Instant::now), &activity::READING, work);
        self.phases.bytes_read += work.size;
        self.phases.reads += calls;
    }

    /// Time until now went into decoding.
    pub fn decoded(&mut self, work: Work<'_>) {
        self.phases.decode += self.watch.lap(&activity::DECODE, work);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_a_thread_does_not_go_back() {
        let before = thread_cpu_time();
        let sum: u64 = std::hint::black_box((0..10_000).sum());
        assert!(thread_cpu_time() >= before, "{sum}");
    }
}
