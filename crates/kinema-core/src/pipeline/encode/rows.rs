//! Frames encoded on several threads, and added to a file in their order.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::commit::Window;
use crate::clock::{Stopwatch, Work};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{EncodeScratch, Encoder};
use crate::frame::kept::{first_infinite, infinite};
use crate::frame::{BlockView, Fields, Real, Stamp};
use crate::index::TableBuilder;
use crate::pipeline::encode::resume::{Commits, Committed};
use crate::pipeline::pool::{Pool, Progress};
use crate::sink::Sink;
use crate::trace::activity::{ENCODE, WRITING};
use crate::trajectory::Threads;

/// Bytes of frames that a worker encodes at a time.
pub(super) const TASK_BYTES: usize = 1 << 20;
/// Bytes of records that may wait for earlier ones.
const WINDOW_BYTES: u64 = 32 << 20;

/// Vectors of some frames, `rows x atoms x 3`.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    /// Single precision.
    F32(&'a [f32]),
    /// Double precision, rounded when it is in the format's unit.
    F64(&'a [f64]),
}

impl Values<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
        }
    }

    /// Appends some of the values in float64, multiplied by `factor` and rounded once to their own precision.
    pub(super) fn scale_doubles(&self, range: Range<usize>, factor: f64, out: &mut Vec<f64>) {
        match self {
            Self::F32(values) => {
                out.extend(values[range].iter().map(|&value| f64::from(f32::scaled_f32(value, factor))))
            }
            Self::F64(values) => out.extend(values[range].iter().map(|&value| value * factor)),
        }
    }

    /// The first number of `range` that is finite itself but infinite in `scaled`, which was computed from it: its
    /// place in the range.
    pub(super) fn first_infinite<S: Copy + Into<f64>>(&self, range: Range<usize>, scaled: &[S]) -> Option<usize> {
        match self {
            Self::F32(values) => first_infinite(&values[range], scaled),
            Self::F64(values) => first_infinite(&values[range], scaled),
        }
    }

    /// Appends some of them, multiplied with `factor` and rounded once.
    pub(super) fn scale(&self, range: Range<usize>, factor: f64, out: &mut Vec<f32>) {
        match self {
            Self::F32(values) if factor == 1.0 => out.extend_from_slice(&values[range]),
            Self::F32(values) => out.extend(values[range].iter().map(|&value| f32::scaled_f32(value, factor))),
            Self::F64(values) => out.extend(values[range].iter().map(|&value| f32::scaled(value, factor))),
        }
    }
}

/// Frames whose vectors are in the format's units once multiplied by their factor.
pub(super) struct Rows<'a> {
    pub(super) encoder: &'a dyn Encoder,
    /// Positions, velocities and forces, if they are encoded, each with its factor.
    pub(super) vectors: [Option<(Values<'a>, f64)>; 3],
    pub(super) stamps: &'a [Stamp],
    /// Values of a frame.
    pub(super) width: usize,
    /// Number of the first frame.
    pub(super) first: u64,
}

/// Result of [`Rows::add`].
pub(super) struct Added {
    /// Frames of the file, and the offset of their end.
    pub(super) committed: Committed,
    /// Their index, for files that need one.
    pub(super) index: TableBuilder,
    /// Why not all are.
    pub(super) outcome: Result<()>,
    /// Whether the outcome is a frame that cannot be encoded: all frames before it are in the file.
    pub(super) is_refused: bool,
}

impl<'a> Rows<'a> {
    /// Writes the records from byte `end` on, each run after those before it.
    pub(super) fn add(
        self,
        sink: &dyn Sink,
        (end, index): (u64, TableBuilder),
        threads: &Threads,
        workers: usize,
        progress: &Progress,
    ) -> Added {
        let n_rows = self.stamps.len() as u64;
        let (first, encoder) = (self.first, self.encoder);
        let most = (TASK_BYTES / size_of::<f32>() / self.width.max(1)) as u64;
        let most = most.min(n_rows.div_ceil(2 * workers as u64)).max(1);
        let starts = (0..n_rows).step_by(most as usize);
        let tasks: Vec<_> = starts.map(|row| first + row..first + (row + most).min(n_rows)).collect();
        let workers = workers.min(tasks.len());
        let commits = Commits::default();
        commits.begin(Committed { frames: first, bytes: end }, 0);
        let index_records = |records: &[u8], index: &mut TableBuilder| encoder.index(records, index);
        let call = Call {
            rows: self,
            window: Window::new(sink, &commits, index, &index_records, WINDOW_BYTES),
            pool: Pool::new(tasks, progress),
            unencoded: AtomicU64::new(u64::MAX),
            refused: Mutex::default(),
        };
        let outcome = call.pool.run(threads, workers, |_| call.work());
        let refused = call.refused.into_inner().unwrap_or_else(PoisonError::into_inner);
        let committed = commits.committed();
        let mut added = Added { committed, index: call.window.into_index(), outcome: Ok(()), is_refused: false };
        added.outcome = match (outcome, refused) {
            (Err(error), _) => Err(error),
            (Ok(_), Some(refused)) if refused.first == committed.frames => {
                // records of the same run before the frame that cannot be encoded
                let written = encoder.index(&refused.bytes, &mut added.index);
                written.and_then(|()| sink.write_at(committed.bytes, &refused.bytes)).and_then(|()| {
                    added.is_refused = true;
                    added.committed.frames += refused.n_frames;
                    added.committed.bytes += refused.bytes.len() as u64;
                    Err(refused.error)
                })
            }
            (Ok(_), None) if committed.frames == first + n_rows => Ok(()),
            (Ok(_), _) => Err(Error::new(ErrorKind::Internal, "not all records were written")),
        };
        added
    }

    /// Encodes the records of some frames, and returns their number; after an error, the records before the faulty
    /// frame are kept.
    fn encode(
        &self,
        frames: Range<u64>,
        room: &mut Room,
        scratch: &mut EncodeScratch,
        bytes: &mut Vec<u8>,
    ) -> (u64, Result<()>) {
        let first = frames.start;
        for frame in frames {
            let row = (frame - self.first) as usize;
            let range = row * self.width..(row + 1) * self.width;
            let (mut vectors, mut doubles): ([&[f32]; 3], [&[f64]; 3]) = Default::default();
            // field and place of a number that the file does not hold
            let mut beyond = None;
            for (i, (single, double)) in room.singles.iter_mut().zip(&mut room.doubles).enumerate() {
                let Some((values, factor)) = self.vectors[i] else { continue };
                match (values, self.encoder.takes_doubles()) {
                    (Values::F32(values), false) if factor == 1.0 => vectors[i] = &values[range.clone()],
                    (Values::F64(values), true) if factor == 1.0 => doubles[i] = &values[range.clone()],
                    (values, false) => {
                        single.clear();
                        values.scale(range.clone(), factor, single);
                        beyond = beyond.or_else(|| values.first_infinite(range.clone(), single).map(|at| (i, at)));
                        vectors[i] = single;
                    }
                    (values, true) => {
                        double.clear();
                        values.scale_doubles(range.clone(), factor, double);
                        beyond = beyond.or_else(|| values.first_infinite(range.clone(), double).map(|at| (i, at)));
                        doubles[i] = double;
                    }
                }
            }
            let [positions, velocities, forces] = vectors;
            let view = BlockView {
                n_selected: self.width / 3,
                frames: &[frame],
                positions,
                velocities,
                forces,
                doubles,
                stamps: &self.stamps[row..=row],
            };
            let start = bytes.len();
            let encoded = match beyond {
                None => self.encoder.encode(&view, frame, scratch, bytes),
                Some((i, at)) => Err(infinite(Fields::VECTORS[i], at as u64 / 3).with_frame(frame)),
            };
            if let Err(error) = encoded {
                bytes.truncate(start);
                return (frame - first, Err(error));
            }
        }
        (0, Ok(()))
    }
}

/// Vectors of a frame, scaled.
#[derive(Default)]
struct Room {
    singles: [Vec<f32>; 3],
    doubles: [Vec<f64>; 3],
}

/// The first task with a frame that cannot be encoded, and the records before that frame.
struct Refused {
    /// Its first frame.
    first: u64,
    /// Frames before the one that is refused, and their records.
    n_frames: u64,
    bytes: Vec<u8>,
    error: Error,
}

/// State that the workers of a call share.
struct Call<'a, 'r> {
    rows: Rows<'r>,
    window: Window<'a>,
    pool: Pool<'a, Range<u64>>,
    /// First frame of the first task that was refused: tasks before it are written, tasks after it are not.
    unencoded: AtomicU64,
    refused: Mutex<Option<Refused>>,
}

impl Call<'_, '_> {
    fn work(&self) -> Result<()> {
        let (mut room, mut bytes, mut scratch) = (Room::default(), Vec::new(), EncodeScratch::default());
        while let Some(frames) = self.pool.next()? {
            let first = frames.start;
            let is_behind = || self.unencoded.load(Ordering::Relaxed) < first;
            if is_behind() {
                break;
            }
            bytes.clear();
            let mut watch = Stopwatch::start();
            if let (n_frames, Err(error)) = self.rows.encode(frames.clone(), &mut room, &mut scratch, &mut bytes) {
                self.refuse(Refused { first, n_frames, bytes, error });
                break;
            }
            let work = Work { size: bytes.len() as u64, frames: frames.end - first, ..Work::default() };
            watch.lap(&ENCODE, work);
            self.window.add(frames, &mut bytes, || Ok(self.pool.is_stopped()? || is_behind()))?;
            watch.lap(&WRITING, Work { file: Some(self.window.path()), ..work });
        }
        Ok(())
    }

    fn refuse(&self, refused: Refused) {
        let mut first = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|first| refused.first < first.first) {
            self.unencoded.fetch_min(refused.first, Ordering::Relaxed);
            *first = Some(refused);
        }
    }
}
