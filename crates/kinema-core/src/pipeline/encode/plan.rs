//! Plan of an encoding, made before the first record: the fields that are read, runs of frames, and sizes that the
//! memory limit allows.

use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};
use crate::format::Encoder;
use crate::frame::Fields;
use crate::pipeline::applied::Applied;
use crate::pipeline::arrays::task_end;
use crate::pipeline::encode::EncodeRequest;
use crate::plan::{BATCH_BYTES, DEFAULT_MEMORY, row_bytes, trajectory_coupling};
use crate::selection::FrameSelection;
use crate::trajectory::{Scanned, Trajectory, not_scanned};

/// Decoded bytes of a task if memory allows: its records are still in the cache when they are written.
const TASK_BYTES: u64 = 1 << 20;

/// Share of the memory for records that wait for earlier ones, if records are written in order.
const WINDOW_SHARE: u64 = 4;

/// Divides the frames of a request, from position `first` on, into runs whose records have at most `bytes`, or that are
/// one frame. There are `number` runs or more if there are enough frames. A run ends with a chunk of the source if a
/// chunk ends within the run.
///
/// # Errors
/// `OutOfRange` for frames that do not exist.
pub fn pieces(
    trajectory: &Trajectory,
    request: &EncodeRequest,
    encoder: &dyn Encoder,
    first: u64,
    bytes: u64,
    number: u64,
) -> Result<Vec<Range<u64>>> {
    let scanned = trajectory.scanned().ok_or_else(not_scanned)?;
    request.frames.check(scanned.concatenation.n_frames)?;
    let fields = needed(encoder);
    let frame = encoder.placing().most_bytes().max(row_bytes(request.atoms.n_requested(), fields)).max(1);
    let left = request.frames.len().saturating_sub(first);
    let rows = (bytes / frame).min(left.div_ceil(number.max(1))).max(1);
    Ok(tasks(scanned, &request.frames, first..request.frames.len(), fields, rows))
}

/// The smallest memory limit with which one worker writes these frames.
///
/// # Errors
/// `InvalidArgument` for a trajectory that was not scanned.
pub fn least_memory(trajectory: &Trajectory, request: &EncodeRequest, encoder: &dyn Encoder) -> Result<u64> {
    let scanned = trajectory.scanned().ok_or_else(not_scanned)?;
    let [reading, frame] = Sizes::measure_worker(trajectory, scanned, request, needed(encoder), encoder)?;
    Ok(Sizes::least(reading.saturating_add(frame), encoder))
}

/// Fields that are read of each frame.
fn needed(encoder: &dyn Encoder) -> Fields {
    encoder.fields() | Fields::CELL | Fields::STEP | Fields::TIME
}

/// Plan of an encoding, made before the first record.
pub(crate) struct RecordsPlan<'a> {
    pub scanned: &'a Scanned,
    pub fields: Fields,
    pub sizes: Sizes,
}

impl<'a> RecordsPlan<'a> {
    pub fn new(
        trajectory: &'a Trajectory,
        request: &EncodeRequest,
        encoder: &dyn Encoder,
        n_frames: u64,
    ) -> Result<Self> {
        let scanned = trajectory.scanned().ok_or_else(not_scanned)?;
        request.frames.check(scanned.concatenation.n_frames)?;
        let fields = needed(encoder);
        Ok(Self { scanned, fields, sizes: Sizes::new(trajectory, scanned, request, fields, encoder, n_frames)? })
    }
}

/// Runs of frames, by their positions in the selection.
pub(crate) fn tasks(
    scanned: &Scanned,
    frames: &FrameSelection,
    run: Range<u64>,
    fields: Fields,
    rows: u64,
) -> Vec<Range<u64>> {
    let (mut first, mut tasks) = (run.start, Vec::new());
    while first < run.end {
        let most = run.end.min(first.saturating_add(rows));
        let end = task_end(scanned, frames, fields, first as usize, most as usize) as u64;
        tasks.push(first..end);
        first = end;
    }
    tasks
}

/// Sizes that the memory limit allows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Threads.
    pub workers: usize,
    /// Most frames of a task.
    pub rows: u64,
    /// Bytes of records that may wait.
    pub window: u64,
}

impl Sizes {
    fn new(
        trajectory: &Trajectory,
        scanned: &Scanned,
        request: &EncodeRequest,
        fields: Fields,
        encoder: &dyn Encoder,
        n_frames: u64,
    ) -> Result<Self> {
        let memory = if request.memory == 0 { DEFAULT_MEMORY } else { request.memory };
        let (_, coupling) = trajectory_coupling(scanned, fields);
        let [reading, frame] = Self::measure_worker(trajectory, scanned, request, fields, encoder)?;
        let window = if encoder.placing().is_ordered() { memory / WINDOW_SHARE } else { 0 };
        let each = reading.saturating_add(frame);
        let fit = (memory - window) / each;
        if fit == 0 {
            let least = Self::least(each, encoder);
            let what = "the memory limit is too small for one frame";
            let what = format!("{what}, expected at least {least} bytes, found {memory}");
            return Err(Error::new(ErrorKind::MemoryLimit, what));
        }
        let n_frames = n_frames.max(1);
        let wanted = if scanned.forward_part().is_some() { 1 } else { request.workers.max(1) as u64 };
        let workers = wanted.min(fit).min(n_frames);
        let most = ((memory - window) / workers - reading) / frame;
        // several tasks for each worker, each of some adjacent records
        let fast = (TASK_BYTES / frame).min(n_frames.div_ceil(4 * workers)).max(1);
        let coupled = if coupling.decoded_whole { coupling.frames.clamp(1, n_frames) } else { 1 };
        Ok(Self { workers: workers as usize, rows: fast.next_multiple_of(coupled).min(most).max(1), window })
    }

    /// Bytes that a worker needs for reading, and for a frame.
    fn measure_worker(
        trajectory: &Trajectory,
        scanned: &Scanned,
        request: &EncodeRequest,
        fields: Fields,
        encoder: &dyn Encoder,
    ) -> Result<[u64; 2]> {
        let row = row_bytes(request.atoms.n_requested(), fields);
        let frame = if encoder.takes_doubles() { 2 * row } else { row } + encoder.placing().most_bytes();
        let reading = 2 * trajectory_coupling(scanned, fields).0.max(BATCH_BYTES);
        Ok([reading + Applied::room_bytes(trajectory, scanned, &request.atoms, fields)?, frame])
    }

    /// The smallest memory that leaves a worker the bytes `each` that it needs, beside the window.
    fn least(each: u64, encoder: &dyn Encoder) -> u64 {
        if !encoder.placing().is_ordered() {
            return each;
        }
        let fits = |least: &u64| least - least / WINDOW_SHARE >= each;
        let near = each.saturating_mul(WINDOW_SHARE) / (WINDOW_SHARE - 1);
        (near - 1..).find(fits).unwrap_or(u64::MAX)
    }
}
