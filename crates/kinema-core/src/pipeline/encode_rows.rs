//! Frames encoded on several threads, and added to a file in their order.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::commit::Window;
use super::pool::{Pool, Progress};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{EncodeScratch, Encoder, RecordFound};
use crate::frame::{BlockView, Fields, Real, Stamp};
use crate::sink::Sink;
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

    /// Appends some of them, multiplied with `factor` and rounded once.
    pub(super) fn scale(&self, range: Range<usize>, factor: f64, out: &mut Vec<f32>) {
        match self {
            Self::F32(values) if factor == 1.0 => out.extend_from_slice(&values[range]),
            Self::F32(values) => out.extend(values[range].iter().map(|&value| f32::scaled_f32(value, factor))),
            Self::F64(values) => out.extend(values[range].iter().map(|&value| f32::scaled(value, factor))),
        }
    }
}

/// Frames, in the format's units but for the factor of their vectors.
pub(super) struct Rows<'a> {
    pub(super) encoder: &'a dyn Encoder,
    pub(super) values: Values<'a>,
    pub(super) factor: f64,
    pub(super) stamps: &'a [Stamp],
    /// Values of a frame.
    pub(super) width: usize,
    /// Number of the first frame.
    pub(super) first: u64,
}

/// What came of [`Rows::add`].
pub(super) struct Added {
    /// What is in the file.
    pub(super) runs: Vec<Run>,
    /// The byte behind it.
    pub(super) end: u64,
    /// Why not all are.
    pub(super) outcome: Result<()>,
    /// Whether that is a frame which cannot be encoded: all before it are in the file.
    pub(super) is_refused: bool,
}

impl<'a> Rows<'a> {
    /// Writes the records from byte `end` on, each run behind those before it.
    pub(super) fn add(
        self,
        sink: &'a dyn Sink,
        end: u64,
        threads: &Threads,
        workers: usize,
        progress: &'a Progress,
    ) -> Added {
        let n_rows = self.stamps.len();
        let most = (TASK_BYTES / size_of::<f32>() / self.width.max(1)).min(n_rows.div_ceil(2 * workers)).max(1);
        let starts = (0..n_rows).step_by(most);
        let tasks: Vec<_> = starts.zip(0..).map(|(row, number)| (number, row..(row + most).min(n_rows))).collect();
        let workers = workers.min(tasks.len());
        let call = Call {
            rows: self,
            window: Window::new(sink, end, WINDOW_BYTES),
            pool: Pool::new(tasks, progress),
            runs: Mutex::default(),
            unencoded: AtomicU64::new(u64::MAX),
            refused: Mutex::default(),
        };
        let outcome = call.pool.run(threads, workers, |_| call.work());
        let (n_runs, end) = call.window.written();
        let mut runs = call.runs.into_inner().unwrap_or_else(PoisonError::into_inner);
        let behind = runs.split_off(&n_runs);
        let refused = call.refused.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut added = Added { runs: runs.into_values().collect(), end, outcome: Ok(()), is_refused: false };
        added.outcome = match (outcome, refused) {
            (Err(error), _) => Err(error),
            (Ok(_), Some(refused)) if refused.number == n_runs => {
                // those of its run before the frame that cannot be encoded
                sink.write_at(end, &refused.bytes).and_then(|()| {
                    added.is_refused = true;
                    added.end += refused.bytes.len() as u64;
                    added.runs.push(refused.run);
                    Err(refused.error)
                })
            }
            (Ok(_), None) if behind.is_empty() => Ok(()),
            (Ok(_), _) => Err(Error::new(ErrorKind::Internal, "not all records were written")),
        };
        added
    }

    /// The records of some rows; on an error those before the row that it is of.
    fn encode(
        &self,
        rows: Range<usize>,
        room: &mut Vec<f32>,
        scratch: &mut EncodeScratch,
        bytes: &mut Vec<u8>,
        run: &mut Run,
    ) -> Result<()> {
        for row in rows {
            let range = row * self.width..(row + 1) * self.width;
            let values = match self.values {
                Values::F32(values) if self.factor == 1.0 => &values[range],
                _ => {
                    room.clear();
                    self.values.scale(range, self.factor, room);
                    &room[..]
                }
            };
            let frame = self.first + row as u64;
            let is_velocities = self.encoder.fields() == Fields::VELOCITIES;
            let view = BlockView {
                n_selected: self.width / 3,
                frames: &[frame],
                positions: if is_velocities { &[] } else { values },
                velocities: if is_velocities { values } else { &[] },
                forces: &[],
                stamps: &self.stamps[row..=row],
            };
            let start = bytes.len();
            if let Err(error) = self.encoder.encode(&view, frame, scratch, bytes) {
                bytes.truncate(start);
                return Err(error);
            }
            run.rows += 1;
            run.found.extend(self.encoder.found(&bytes[start..])?);
        }
        Ok(())
    }
}

/// Frames of one task as records.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// How many.
    pub(super) rows: usize,
    /// Each of them, where the format stores an index.
    pub(super) found: Vec<RecordFound>,
}

/// The first task of which a frame cannot be encoded, and what lies before it.
struct Refused {
    number: u64,
    bytes: Vec<u8>,
    run: Run,
    error: Error,
}

/// What the workers of a call share.
struct Call<'a> {
    rows: Rows<'a>,
    window: Window<'a>,
    pool: Pool<'a, (u64, Range<usize>)>,
    runs: Mutex<BTreeMap<u64, Run>>,
    /// Number of the first task that was refused: those behind it are not written, those before it are.
    unencoded: AtomicU64,
    refused: Mutex<Option<Refused>>,
}

impl Call<'_> {
    fn work(&self) -> Result<()> {
        let (mut room, mut bytes, mut scratch) = (Vec::new(), Vec::new(), EncodeScratch::default());
        while let Some((number, rows)) = self.pool.next()? {
            let is_behind = || self.unencoded.load(Ordering::Relaxed) < number;
            if is_behind() {
                break;
            }
            bytes.clear();
            let mut run = Run::default();
            if let Err(error) = self.rows.encode(rows, &mut room, &mut scratch, &mut bytes, &mut run) {
                self.refuse(Refused { number, bytes, run, error });
                break;
            }
            self.runs.lock().unwrap_or_else(PoisonError::into_inner).insert(number, run);
            self.window.add(number, &mut bytes, || Ok(self.pool.is_stopped()? || is_behind()))?;
        }
        Ok(())
    }

    fn refuse(&self, refused: Refused) {
        let mut first = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|first| refused.number < first.number) {
            self.unencoded.fetch_min(refused.number, Ordering::Relaxed);
            *first = Some(refused);
        }
    }
}
