//! Timings of a run, per worker and per block, returned as data.
//!
//! Conclusions are drawn by Python's `kinema.profile`.

use std::ops::AddAssign;
use std::time::{Duration, Instant};

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
    /// Kernels and transforms; encoding, where frames are written.
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
    /// Of workers that were there from the start to the end: one that was done earlier has waited since.
    pub(crate) fn of_workers(wall: Duration, workers: Vec<WorkerTiming>) -> Self {
        let until_the_end = |mut worker: WorkerTiming| {
            worker.wait += wall.saturating_sub(worker.total);
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

/// Time since `from`, and now, with one reading of the clock.
pub(crate) fn lap(from: &mut Instant) -> Duration {
    let now = Instant::now();
    let lap = now - *from;
    *from = now;
    lap
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
