//! Traces: the journal of what this process does, as events with file, offset, size, start and duration.
//!
//! There is one journal a process. Each thread puts its events into its own buffer, without a lock. A thread of the
//! journal makes lines of text of full buffers; the other buffers become lines at the ends of runs. Perfetto,
//! DFAnalyzer and `dftracer-utils` read these lines; see `docs/traces.md`. The journal does not know what it traces.

pub mod activity;
mod buffer;
mod fork;
mod journal;
mod lines;
mod output;
#[cfg(test)]
mod tests;
mod writer;

pub use activity::Activity;
pub use buffer::thread_id;
pub use journal::{Options, Status, describe, epoch_ns, flush, start, status, stop};
pub use lines::Text;

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static ENABLED: AtomicBool = AtomicBool::new(false);

/// Whether events are recorded: one load.
#[inline]
pub fn enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// An event to record.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// Kind of event.
    pub activity: &'static Activity,
    /// To which file.
    pub file: Option<&'a Path>,
    /// When it began.
    pub start: Instant,
    /// How long it took.
    pub duration: Duration,
    /// Numbers, called as [`Activity::numbers`] says.
    pub values: [i64; 3],
}

/// Records an event if a trace is recorded.
#[inline]
pub fn record(event: &Event<'_>) {
    if enabled() {
        buffer::push(event);
    }
}

/// The current time if events are recorded: the start of an event that [`finish`] records.
#[inline]
pub fn begin() -> Option<Instant> {
    enabled().then(Instant::now)
}

/// Records what began at `start` and ends now.
#[inline]
pub fn finish(start: Option<Instant>, activity: &'static Activity, file: Option<&Path>, values: [i64; 3]) {
    if let Some(start) = start {
        record(&Event { activity, file, start, duration: start.elapsed(), values });
    }
}

thread_local! {
    static CALL_ENDED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The end of the last [`system_call`] of this thread, if it is recorded and ended after `begun`. It saves a reading of
/// the clock for work that ends with that call.
#[inline]
pub fn call_ended_since(begun: Instant) -> Option<Instant> {
    CALL_ENDED.get().filter(|&ended| enabled() && ended >= begun)
}

/// Calls the system, and records the call with its result: -errno if the call fails.
#[inline]
pub fn system_call(
    activity: &'static Activity,
    file: &Path,
    (offset, count): (u64, u64),
    call: impl FnOnce() -> std::io::Result<u64>,
) -> std::io::Result<u64> {
    let start = begin();
    let outcome = call();
    if let Some(start) = start {
        let end = Instant::now();
        CALL_ENDED.set(Some(end));
        let ret = match &outcome {
            Ok(found) => *found as i64,
            Err(error) => -i64::from(error.raw_os_error().unwrap_or(libc::EIO)),
        };
        let values = [offset as i64, count as i64, ret];
        record(&Event { activity, file: Some(file), start, duration: end - start, values });
    }
    outcome
}

/// Text as JSON.
pub fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    lines::push_quoted(&mut out, text);
    String::from_utf8_lossy(&out).into_owned()
}

/// Records an event of Python: any name and category, and arguments of any kind.
pub fn record_text(text: &Text<'_>) {
    if enabled() {
        journal::add_text(text);
    }
}
