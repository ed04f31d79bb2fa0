//! A file to which a caller gives frames: they are encoded on several threads and added in order.
//!
//! Single frames are gathered first. Committed frames are in the file whatever happens later: records are written and
//! synced before the count in the header includes them. The caller chooses the names of files: see `docs/write.md`.

mod encoded;
mod given;

use std::sync::Arc;

pub use self::encoded::EncodedFrame;
pub use self::given::Given;
use super::append::Existing;
pub use super::rows::Values;
use super::rows::{Rows, TASK_BYTES};
use crate::clock::{Stopwatch, Work};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Encoder, Format, Making};
use crate::frame::kept::infinite;
use crate::frame::{Cell, Fields, NO_CELL, Scales, Stamp};
use crate::index::{TableBuilder, TableIndex};
use crate::pipeline::pool::Progress;
use crate::sink::Sink;
use crate::trace::activity::COMMIT;
use crate::trajectory::{Threads, Trajectory};

/// Tasks that are gathered for each worker before frames are encoded.
const TASKS_A_WORKER: usize = 2;
/// Bytes of frames that are gathered at most, unless one has more.
const GATHERED_BYTES: usize = 64 << 20;

/// State of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// A frame could not be encoded; those before it can be committed.
    Ended,
    /// The sink has failed.
    Failed,
}

/// A file that frames are added to.
pub struct RecordFile {
    format: &'static dyn Format,
    making: Making,
    sink: Arc<dyn Sink>,
    threads: Threads,
    workers: usize,
    state: State,
    /// Known from the first frame on, or from that of an existing file.
    encoder: Option<Box<dyn Encoder>>,
    /// Messages about lost data of the frames, each once.
    losses: Vec<String>,
    /// Lost parts of stamps, as [`Encoder::stamp_losses`] names them.
    noted: Vec<&'static str>,
    /// Whether the stamps of the written frames were checked for losses.
    first_noted: bool,
    /// Stamps of the first two frames.
    first: Vec<Stamp>,
    /// Positions, velocities and forces of gathered frames, in the format's unit: in float32, or in float64 if the
    /// encoder takes it.
    gathered: [Vec<f32>; 3],
    gathered_doubles: [Vec<f64>; 3],
    gathered_stamps: Vec<Stamp>,
    /// Whether the file has a head without frames, which must be replaced.
    replaces: bool,
    /// The byte after the last record.
    end: u64,
    n_written: u64,
    n_flushed: u64,
    /// Index of the written frames; used if the sizes of records differ.
    index: TableBuilder,
}

impl RecordFile {
    /// An empty file. From `making`, atoms, fields and precision are used.
    pub fn new(format: &'static dyn Format, making: &Making, sink: Arc<dyn Sink>, workers: usize) -> Self {
        let making = Making { open_ended: true, ..making.clone() };
        Self {
            format,
            making,
            sink,
            threads: Threads::default(),
            workers: workers.max(1),
            state: State::Open,
            encoder: None,
            losses: Vec::new(),
            noted: Vec::new(),
            first_noted: false,
            first: Vec::new(),
            gathered: Default::default(),
            gathered_doubles: Default::default(),
            gathered_stamps: Vec::new(),
            replaces: false,
            end: 0,
            n_written: 0,
            n_flushed: 0,
            index: TableBuilder::new(0),
        }
    }

    /// Extends a trajectory of one file, which is `sink`, after its first `n_frames` or after its last whole frame. All
    /// that follows is cut off, and a wrong count is corrected.
    ///
    /// # Errors
    /// Errors of [`Existing::from_trajectory`] and of the sink.
    pub fn resume(
        trajectory: &Trajectory,
        making: &Making,
        n_frames: Option<u64>,
        sink: Arc<dyn Sink>,
        workers: usize,
    ) -> Result<Self> {
        let making = Making { n_atoms: trajectory.n_atoms(), source_atoms: trajectory.n_atoms(), ..making.clone() };
        let mut file = Self::new(trajectory.format(), &making, sink, workers);
        let Some((existing, encoder)) = Existing::from_trajectory(trajectory, &file.making, n_frames)? else {
            file.replaces = true;
            return Ok(file);
        };
        existing.cut(&*encoder, &*file.sink)?;
        let Existing { kept, first, index, .. } = existing;
        // by which later losses are described
        let rounding = Some(encoder.largest_rounding()).filter(|rounding| *rounding > 0.0);
        file.making.source_precision = rounding.map(|rounding| 0.5 / rounding);
        file.making.labels = encoder.labels().or(file.making.labels);
        (file.first, file.first_noted, file.index) = (first, true, index);
        (file.encoder, file.end, file.n_written, file.n_flushed) =
            (Some(encoder), kept.bytes, kept.frames, kept.frames);
        Ok(file)
    }

    /// Name of the format.
    pub fn format(&self) -> &'static str {
        self.format.info().name
    }

    /// Number of atoms.
    pub fn n_atoms(&self) -> u32 {
        self.making.n_atoms
    }

    /// Fields that are written of each frame; `None` until they are known.
    pub fn fields(&self) -> Option<Fields> {
        self.encoder.as_ref().map(|encoder| encoder.fields())
    }

    /// Frames taken, with those that the file had.
    pub fn n_frames(&self) -> u64 {
        self.n_written + self.gathered_stamps.len() as u64
    }

    /// Frames whose records are in the file.
    pub fn n_written(&self) -> u64 {
        self.n_written
    }

    /// Number of frames that are in the file whatever happens.
    pub fn n_flushed(&self) -> u64 {
        self.n_flushed
    }

    /// Messages for people, each once: data of the frames that the file omits or rounds.
    pub fn losses(&self) -> &[String] {
        &self.losses
    }

    /// Whether an error has ended the file: no frame is taken any more.
    pub fn has_ended(&self) -> bool {
        self.state != State::Open
    }

    /// Whether the sink has failed, so that nothing more can be committed.
    pub fn has_failed(&self) -> bool {
        self.state == State::Failed
    }

    /// Takes frames. A few frames are only gathered; otherwise these frames, or those gathered before, are encoded and
    /// added.
    ///
    /// # Errors
    /// Refused, so that none of the given frames is taken: `InvalidArgument` for frames that lack a field of the file,
    /// `Unsupported` for cells, times and numbers that a reader would not return unchanged.
    /// While frames, these or earlier ones, are encoded and added: `Unsupported` or `InvalidArgument` with the number
    /// of a frame that cannot be encoded (neither that frame nor any later one is added); `Cancelled`; errors of the
    /// sink.
    pub fn add(&mut self, given: &Given<'_>, progress: &Progress) -> Result<()> {
        self.check_open()?;
        self.make_encoder(given)?;
        let vectors = self.chosen(given)?;
        if given.stamps.is_empty() {
            return Ok(());
        }
        let length = Scales::NATIVE.to_units_of(self.format.info().scales).length;
        let there = Fields::VECTORS.into_iter().zip(&vectors).filter(|(_, one)| one.is_some());
        let present = there.fold(Fields::NONE, |all, (field, _)| all | field);
        let scaled = |stamp: &Stamp| {
            let cell = if stamp.cell == NO_CELL { Fields::NONE } else { Fields::CELL };
            Stamp { cell: scaled_cell(&stamp.cell, length), present: present | cell, ..*stamp }
        };
        let stamps: Vec<Stamp> = given.stamps.iter().map(scaled).collect();
        self.check_stamps(&stamps)?;
        let n_values = self.width() * stamps.len();
        let vectors_differ = self.gathered_stamps.last().is_some_and(|last| last.present - Fields::CELL != present);
        if vectors_differ || self.n_gathered() + n_values > self.most_gathered() {
            self.add_gathered(progress)?;
        }
        if n_values > self.most_gathered() {
            return self.add_rows(vectors, &stamps, progress);
        }
        let no_memory = |_| Error::new(ErrorKind::MemoryLimit, "no memory for these frames");
        let takes_doubles = self.takes_doubles();
        let (before, mut beyond) = (self.n_gathered(), None);
        for (i, given) in vectors.into_iter().enumerate() {
            let Some((values, factor)) = given else { continue };
            let (singles, doubles) = (&mut self.gathered[i], &mut self.gathered_doubles[i]);
            let first = if takes_doubles {
                doubles.try_reserve(n_values).map_err(no_memory)?;
                values.scale_doubles(0..n_values, factor, doubles);
                values.first_infinite(0..n_values, &doubles[before..])
            } else {
                singles.try_reserve(n_values).map_err(no_memory)?;
                values.scale(0..n_values, factor, singles);
                values.first_infinite(0..n_values, &singles[before..])
            };
            beyond = beyond.or(first.map(|at| (i, at)));
        }
        if let Some((i, at)) = beyond {
            // nothing of them is taken
            self.gathered.iter_mut().for_each(|values| values.truncate(before));
            self.gathered_doubles.iter_mut().for_each(|values| values.truncate(before));
            let (frame, atom) = (self.n_frames() + (at / self.width()) as u64, at % self.width() / 3);
            return Err(self.place(infinite(Fields::VECTORS[i], atom as u64).with_frame(frame)));
        }
        self.gathered_stamps.extend(stamps);
        Ok(())
    }

    /// Refuses frames whose cell or time a reader would not return unchanged, before any of them is taken.
    fn check_stamps(&self, stamps: &[Stamp]) -> Result<()> {
        let Some(encoder) = self.encoder.as_deref() else { return Ok(()) };
        let mut numbered = stamps.iter().zip(self.n_frames()..);
        numbered.try_for_each(|(stamp, frame)| encoder.check_stamp(stamp, frame)).map_err(|error| self.place(error))
    }

    /// Whether [`RecordFile::add`] would do no more than gather these frames.
    pub fn only_gathers(&self, given: &Given<'_>) -> bool {
        let values = given.vectors.iter().flatten().map(Values::len).max().unwrap_or(0);
        self.n_gathered() + values <= self.most_gathered()
    }

    /// Adds all frames that were taken, and commits them.
    ///
    /// # Errors
    /// Errors of [`RecordFile::add`]; if a frame cannot be encoded, the frames before it are not committed yet.
    pub fn flush(&mut self, progress: &Progress) -> Result<()> {
        if self.state == State::Open {
            self.add_gathered(progress)?;
        }
        self.commit()
    }

    /// Commits the written frames: syncs their records, then writes and syncs the count in the header.
    ///
    /// # Errors
    /// Errors of the sink, also of an earlier call.
    pub fn commit(&mut self) -> Result<()> {
        if self.has_failed() {
            return Err(self.place(Error::new(ErrorKind::Io, "the file cannot be continued after an earlier error")));
        }
        if self.n_flushed == self.n_written {
            return Ok(());
        }
        let marker = self.encoder.as_ref().and_then(|encoder| encoder.marker(self.n_written));
        let (sink, mut watch) = (&self.sink, Stopwatch::start());
        let done = sink.sync().and_then(|()| match marker {
            None => Ok(()),
            Some(marker) => sink.write_at(marker.offset, &marker.bytes).and_then(|()| sink.sync()),
        });
        let frames = self.n_written - self.n_flushed;
        watch.lap(&COMMIT, Work { file: Some(sink.path()), frames, ..Work::default() });
        done.map_err(|error| self.failed(error))?;
        self.n_flushed = self.n_written;
        Ok(())
    }

    /// Notes the losses of a frame that stays the only one of the file.
    pub fn finish_notes(&mut self) {
        if !self.first_noted && self.n_written > 0 {
            let first = self.first.clone();
            self.note_stamps(&first[..1], 0);
            self.first_noted = true;
        }
    }

    /// The index of the written frames, as a scan would find it; `None` for formats whose index is not stored.
    pub fn index(&self) -> Option<TableIndex> {
        let stored = self.encoder.as_deref().is_some_and(|encoder| encoder.placing().is_ordered());
        stored.then(|| self.index.clone().finish())
    }

    fn takes_doubles(&self) -> bool {
        self.encoder.as_deref().is_some_and(Encoder::takes_doubles)
    }

    /// Values that are gathered at most; at least a frame.
    fn most_gathered(&self) -> usize {
        let value = if self.takes_doubles() { size_of::<f64>() } else { size_of::<f32>() };
        let task = (TASK_BYTES / value).max(self.width());
        (self.workers * TASKS_A_WORKER * task).min(GATHERED_BYTES / value).max(self.width())
    }

    /// Values of a frame.
    fn width(&self) -> usize {
        3 * self.making.n_atoms as usize
    }

    fn check_open(&self) -> Result<()> {
        match self.state {
            State::Open => Ok(()),
            State::Ended | State::Failed => {
                Err(self.place(Error::new(ErrorKind::InvalidArgument, "an earlier error ended the file")))
            }
        }
    }

    fn place(&self, error: Error) -> Error {
        error.with_format(self.format()).with_path(self.sink.path())
    }

    fn failed(&mut self, error: Error) -> Error {
        self.state = State::Failed;
        self.place(error)
    }

    /// The encoder from the first frames on; what later ones lose besides.
    fn make_encoder(&mut self, given: &Given<'_>) -> Result<()> {
        let (held, wide) = given.fields();
        let held = held | Fields::CELL;
        if self.encoder.is_some() && self.making.held.contains(held) && self.making.wide.contains(wide) {
            return Ok(());
        }
        let cells: Vec<Cell> = given.stamps.iter().map(|stamp| stamp.cell).collect();
        let there = if cells.iter().any(|cell| *cell != NO_CELL) { Fields::CELL } else { Fields::NONE };
        let chosen = self.fields().or(self.making.fields);
        let known = Making {
            held: (self.making.held | held) - (Fields::CELL - there),
            wide: self.making.wide | wide,
            fields: chosen,
            cells,
            ..self.making.clone()
        };
        let made = self.format.encoder(&known).map_err(|error| self.place(error))?;
        (self.making.held, self.making.wide) = (self.making.held | held, self.making.wide | wide);
        for loss in made.losses() {
            if !self.losses.contains(loss) {
                self.losses.push(loss.clone());
            }
        }
        self.encoder.get_or_insert(made);
        Ok(())
    }

    /// The vectors that are written, each with the factor to the format's unit.
    fn chosen<'a>(&self, given: &Given<'a>) -> Result<[Option<(Values<'a>, f64)>; 3]> {
        let Some(encoder) = self.encoder.as_deref() else {
            return Err(Error::new(ErrorKind::Internal, "frames before their encoder"));
        };
        let scales = Scales::NATIVE.to_units_of(self.format.info().scales);
        let factors = [scales.length, scales.velocity, scales.force];
        let refused = |what: String| self.place(Error::new(ErrorKind::InvalidArgument, what));
        let expected = self.width() * given.stamps.len();
        let mut chosen = [None; 3];
        for (number, field) in
            Fields::VECTORS.into_iter().enumerate().filter(|(_, one)| encoder.fields().contains(*one))
        {
            let names = field.names().join(", ");
            let Some(values) = given.vectors[number] else {
                if encoder.required().contains(field) {
                    let what = format!("the frame lacks {names}, which the file holds");
                    return Err(refused(what).with_frame(self.n_frames()));
                }
                continue;
            };
            if values.len() != expected {
                let found = values.len();
                return Err(refused(format!("number of values of {names}, expected {expected}, found {found}")));
            }
            chosen[number] = Some((values, factors[number]));
        }
        Ok(chosen)
    }

    /// Values of the frames that are gathered, of one field.
    fn n_gathered(&self) -> usize {
        self.width() * self.gathered_stamps.len()
    }

    /// Adds the gathered frames; frames that could not be added because the call was cancelled stay.
    fn add_gathered(&mut self, progress: &Progress) -> Result<()> {
        let (mut values, mut stamps) = (std::mem::take(&mut self.gathered), std::mem::take(&mut self.gathered_stamps));
        let mut doubles = std::mem::take(&mut self.gathered_doubles);
        let before = self.n_written;
        let vectors = [0, 1, 2].map(|i| match (&values[i][..], &doubles[i][..]) {
            ([], []) => None,
            ([], doubles) => Some((Values::F64(doubles), 1.0)),
            (singles, _) => Some((Values::F32(singles), 1.0)),
        });
        let outcome = if stamps.is_empty() { Ok(()) } else { self.add_rows(vectors, &stamps, progress) };
        let added = (self.n_written - before) as usize;
        let width = self.width();
        values.iter_mut().for_each(|values| drop(values.drain(..(added * width).min(values.len()))));
        doubles.iter_mut().for_each(|values| drop(values.drain(..(added * width).min(values.len()))));
        stamps.drain(..added);
        if self.state == State::Open {
            (self.gathered, self.gathered_doubles, self.gathered_stamps) = (values, doubles, stamps);
        }
        outcome
    }

    /// Encodes and writes frames, whose values are in the format's units once multiplied by the factors.
    fn add_rows(
        &mut self,
        vectors: [Option<(Values<'_>, f64)>; 3],
        stamps: &[Stamp],
        progress: &Progress,
    ) -> Result<()> {
        self.begin(stamps).map_err(|error| self.failed(error))?;
        let Some(encoder) = self.encoder.as_deref() else {
            return Err(Error::new(ErrorKind::Internal, "frames before their encoder"));
        };
        let rows = Rows { encoder, vectors, stamps, width: self.width(), first: self.n_written };
        let index = std::mem::replace(&mut self.index, TableBuilder::new(0));
        let added = rows.add(&*self.sink, (self.end, index), &self.threads, self.workers, progress);
        self.index = added.index;
        (self.n_written, self.end) = (added.committed.frames, added.committed.bytes);
        added.outcome.map_err(|error| {
            if error.kind() == ErrorKind::Cancelled {
                return error;
            }
            self.state = if added.is_refused { State::Ended } else { State::Failed };
            self.place(error)
        })
    }

    /// Writes the head, with its steps and times; from the second frame on these stay unchanged.
    fn begin(&mut self, stamps: &[Stamp]) -> Result<()> {
        let Some(encoder) = self.encoder.as_deref_mut() else { return Ok(()) };
        if self.n_written < 2 {
            self.first.truncate(self.n_written as usize);
            self.first.extend(stamps.iter().take(2 - self.first.len()));
            let (steps, times): (Vec<i64>, Vec<f64>) = self.first.iter().map(|stamp| (stamp.step, stamp.time)).unzip();
            let times = encoder.time_by(&steps, &times);
            if self.n_written == 0 {
                if self.replaces {
                    self.sink.set_len(0)?;
                }
                let head = encoder.head();
                if !head.is_empty() {
                    self.sink.write_at(0, &head)?;
                }
                self.end = head.len() as u64;
            } else if let (Some(times), Some(marker)) = (times, encoder.marker(self.n_written)) {
                // before the second frame is written, after the first
                self.sink.sync()?;
                self.sink.write_at(times.offset, &times.bytes)?;
                self.sink.write_at(marker.offset, &marker.bytes)?;
                self.sink.sync()?;
            }
        }
        if self.first.len() == 2 {
            if !self.first_noted && self.n_written == 1 {
                let first = self.first.clone();
                self.note_stamps(&first[..1], 0);
            }
            self.first_noted = true;
            self.note_stamps(stamps, self.n_written);
        }
        Ok(())
    }

    fn note_stamps(&mut self, stamps: &[Stamp], first: u64) {
        let Some(encoder) = self.encoder.as_deref() else { return };
        for (what, frame) in encoder.stamp_losses(stamps, first) {
            if !self.noted.contains(&what) {
                self.noted.push(what);
                self.losses.push(format!("{what}; frame {frame} is the first"));
            }
        }
    }
}

fn scaled_cell(cell: &Cell, factor: f64) -> Cell {
    cell.map(|row| row.map(|value| value * factor))
}
