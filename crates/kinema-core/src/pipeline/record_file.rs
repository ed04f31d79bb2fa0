//! A file to which a caller gives frames: they are encoded on several threads and added in their order.
//!
//! Frames that come one by one are gathered first. What was committed is in the file whatever happens later: records are
//! down and synced before the count in the header says so. Names of files are the caller's: see `docs/write.md`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{EncodeScratch, Encoder, Format, Making, RecordFound};
use crate::frame::{BlockView, Cell, Fields, Real, Scales, Stamp};
use crate::index::{Index, TableBuilder};
use crate::pipeline::commit::Window;
use crate::pipeline::pool::{Pool, Progress};
use crate::sink::Sink;
use crate::trajectory::{Threads, Trajectory, not_scanned};

/// Bytes of frames that a worker encodes at a time.
const TASK_BYTES: usize = 1 << 20;
/// Tasks that are gathered for each worker before frames are encoded.
const TASKS_A_WORKER: usize = 2;
/// Bytes of frames that are gathered at most, unless one has more.
const GATHERED_BYTES: usize = 64 << 20;
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
    fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
        }
    }

    /// Appends some of them, multiplied with `factor` and rounded once.
    fn scale(&self, range: Range<usize>, factor: f64, out: &mut Vec<f32>) {
        match self {
            Self::F32(values) if factor == 1.0 => out.extend_from_slice(&values[range]),
            Self::F32(values) => out.extend(values[range].iter().map(|&value| f32::scaled_f32(value, factor))),
            Self::F64(values) => out.extend(values[range].iter().map(|&value| f32::scaled(value, factor))),
        }
    }
}

/// Frames as the caller has them: angstrom and ps.
#[derive(Debug, Clone, Default)]
pub struct Given<'a> {
    /// Positions, velocities, forces, where the frames have them.
    pub vectors: [Option<Values<'a>>; 3],
    /// Cells, steps and times, one a frame.
    pub stamps: Vec<Stamp>,
}

impl Given<'_> {
    /// The vectors that the frames have, and those of them in float64.
    fn fields(&self) -> (Fields, Fields) {
        let mut found = (Fields::NONE, Fields::NONE);
        for (field, values) in Fields::VECTORS.into_iter().zip(self.vectors) {
            if let Some(values) = values {
                found.0 = found.0 | field;
                found.1 = found.1 | if matches!(values, Values::F64(_)) { field } else { Fields::NONE };
            }
        }
        found
    }
}

/// What can be done with the file.
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
    /// What of the frames is lost, each once.
    losses: Vec<String>,
    /// What stamps have lost, as [`Encoder::stamp_losses`] names it.
    noted: Vec<&'static str>,
    /// Whether the stamps of the frames that are written were looked at for losses.
    first_noted: bool,
    /// Of the first two frames.
    first: Vec<Stamp>,
    /// Frames that are gathered, in the format's unit.
    gathered: Vec<f32>,
    gathered_stamps: Vec<Stamp>,
    /// Whether a head without frames is there, to be replaced.
    replaces: bool,
    /// The byte after the last record.
    end: u64,
    n_written: u64,
    n_flushed: u64,
    /// Where the format stores an index.
    index: Option<TableBuilder>,
}

impl RecordFile {
    /// An empty file. Of `making` atoms, fields and precision are used.
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
            gathered: Vec::new(),
            gathered_stamps: Vec::new(),
            replaces: false,
            end: 0,
            n_written: 0,
            n_flushed: 0,
            index: None,
        }
    }

    /// Goes on behind the last whole frame of a trajectory of one file, which `sink` is: what lies behind it is cut off, and
    /// a count that is wrong is put right.
    ///
    /// # Errors
    /// Those of [`Format::resume`] and of the sink.
    pub fn resume(trajectory: &Trajectory, making: &Making, sink: Arc<dyn Sink>, workers: usize) -> Result<Self> {
        let scanned = trajectory.scanned().ok_or_else(not_scanned)?;
        let part = &scanned.parts[0];
        let making = Making { n_atoms: trajectory.n_atoms(), source_atoms: trajectory.n_atoms(), ..making.clone() };
        let mut file = Self::new(part.format, &making, sink, workers);
        let n_frames = part.index.n_frames();
        let Some(end) = part.index.end() else {
            file.replaces = true;
            return Ok(file);
        };
        let source = trajectory.source(0)?;
        let held = part.header().fields;
        let known = Making { held, ..file.making.clone() };
        let encoder = part.format.resume(&*source, &part.index, &known).map_err(|error| file.place(error))?;
        // by which later losses are described
        let rounding = Some(encoder.largest_rounding()).filter(|rounding| *rounding > 0.0);
        file.making.source_precision = rounding.map(|rounding| 0.5 / rounding);
        for frame in 0..n_frames.min(2) {
            let (step, time) = (part.index.step(frame).unwrap_or(0), part.index.time(frame).unwrap_or(f64::NAN));
            file.first.push(Stamp { step, time, ..Stamp::default() });
        }
        file.first_noted = true;
        if end < source.len()? {
            file.sink.set_len(end)?;
        }
        if let Some(marker) = encoder.marker(n_frames) {
            let mut found = vec![0; marker.bytes.len()];
            source.read_exact_at(marker.offset, &mut found)?;
            if found != marker.bytes {
                file.sink.sync()?;
                file.sink.write_at(marker.offset, &marker.bytes)?;
            }
        }
        file.sink.sync()?;
        file.index = match &part.index {
            Index::Table(table) => Some(TableBuilder::extend(table.clone())),
            Index::Uniform(_) | Index::Chunked(_) => None,
        };
        (file.encoder, file.end, file.n_written, file.n_flushed) = (Some(encoder), end, n_frames, n_frames);
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

    /// What is written of frames, once that is known.
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

    /// Frames that are in the file whatever happens.
    pub fn n_flushed(&self) -> u64 {
        self.n_flushed
    }

    /// What of the frames is not in the file, or is rounded; for people, each once.
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

    /// Takes frames. Few are gathered; else they are encoded and added, or those before.
    ///
    /// # Errors
    /// `InvalidArgument` for frames without what the file holds, of which nothing is taken. Of those before and of these:
    /// `Unsupported`, `InvalidArgument` with the number of the frame where one cannot be encoded, then no frame from it on is
    /// taken; `Cancelled`; those of the sink.
    pub fn add(&mut self, given: &Given<'_>, progress: &Progress) -> Result<()> {
        self.check_open()?;
        self.make_encoder(given)?;
        let (values, factor) = self.chosen(given)?;
        if given.stamps.is_empty() {
            return Ok(());
        }
        let length = Scales::NATIVE.to_units_of(self.format.info().scales).length;
        let scaled = |stamp: &Stamp| Stamp { cell: scaled_cell(&stamp.cell, length), ..*stamp };
        let stamps: Vec<Stamp> = given.stamps.iter().map(scaled).collect();
        if self.gathered.len() + values.len() > self.most_gathered() {
            self.add_gathered(progress)?;
        }
        if values.len() > self.most_gathered() {
            return self.add_rows(values, factor, &stamps, progress);
        }
        let room = values.len();
        self.gathered
            .try_reserve(room)
            .map_err(|_| Error::new(ErrorKind::MemoryLimit, "no memory for these frames"))?;
        values.scale(0..room, factor, &mut self.gathered);
        self.gathered_stamps.extend(stamps);
        Ok(())
    }

    /// Whether [`RecordFile::add`] would do no more than gather these frames.
    pub fn only_gathers(&self, given: &Given<'_>) -> bool {
        let values = given.vectors.iter().flatten().map(Values::len).max().unwrap_or(0);
        self.gathered.len() + values <= self.most_gathered()
    }

    /// Adds all frames that were taken, and commits them.
    ///
    /// # Errors
    /// Those of [`RecordFile::add`]; where a frame cannot be encoded, those before it are not yet committed.
    pub fn flush(&mut self, progress: &Progress) -> Result<()> {
        if self.state == State::Open {
            self.add_gathered(progress)?;
        }
        self.commit()
    }

    /// Commits the frames that are written: their records are synced, then the count in the header is.
    ///
    /// # Errors
    /// Those of the sink, also of an earlier call.
    pub fn commit(&mut self) -> Result<()> {
        if self.has_failed() {
            return Err(self.place(Error::new(ErrorKind::Io, "an earlier error of the file was not gone on with")));
        }
        if self.n_flushed == self.n_written {
            return Ok(());
        }
        let marker = self.encoder.as_ref().and_then(|encoder| encoder.marker(self.n_written));
        let sink = &self.sink;
        let done = sink.sync().and_then(|()| match marker {
            None => Ok(()),
            Some(marker) => sink.write_at(marker.offset, &marker.bytes).and_then(|()| sink.sync()),
        });
        done.map_err(|error| self.failed(error))?;
        self.n_flushed = self.n_written;
        Ok(())
    }

    /// Notes what the only frame of the file has lost, which no second one follows.
    pub fn finish_notes(&mut self) {
        if !self.first_noted && self.n_written > 0 {
            let first = self.first.clone();
            self.note_stamps(&first[..1], 0);
            self.first_noted = true;
        }
    }

    /// The index of the frames that are written, as a scan would find it; `None` for formats whose index is not stored.
    pub fn index(&self) -> Option<Index> {
        self.index.clone().map(|index| Index::Table(index.finish()))
    }

    /// Values that are gathered at most; at least a frame.
    fn most_gathered(&self) -> usize {
        let task = (TASK_BYTES / size_of::<f32>()).max(self.width());
        (self.workers * TASKS_A_WORKER * task).min(GATHERED_BYTES / size_of::<f32>()).max(self.width())
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
        error.in_format(self.format()).at_path(self.sink.path())
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
        let there = if cells.iter().any(|cell| *cell != crate::frame::NO_CELL) { Fields::CELL } else { Fields::NONE };
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

    /// The vectors that are written, and the factor to the format's unit.
    fn chosen<'a>(&self, given: &Given<'a>) -> Result<(Values<'a>, f64)> {
        let field = self.fields().unwrap_or_default();
        let scales = Scales::NATIVE.to_units_of(self.format.info().scales);
        let factors = [scales.length, scales.velocity, scales.force];
        let found = Fields::VECTORS.into_iter().zip(given.vectors).zip(factors);
        let found =
            found.filter(|((one, _), _)| *one == field).find_map(|((_, values), factor)| Some((values?, factor)));
        let refused = |what: String| self.place(Error::new(ErrorKind::InvalidArgument, what));
        let names = field.names().join(", ");
        let Some((values, factor)) = found else {
            return Err(refused(format!("the frame lacks {names}, which the file holds")).at_frame(self.n_frames()));
        };
        let expected = self.width() * given.stamps.len();
        if values.len() != expected {
            return Err(refused(format!("number of values of {names}, expected {expected}, found {}", values.len())));
        }
        Ok((values, factor))
    }

    /// Adds what is gathered; what could not be added for a cancelled call stays.
    fn add_gathered(&mut self, progress: &Progress) -> Result<()> {
        let (mut values, mut stamps) = (std::mem::take(&mut self.gathered), std::mem::take(&mut self.gathered_stamps));
        let before = self.n_written;
        let outcome =
            if stamps.is_empty() { Ok(()) } else { self.add_rows(Values::F32(&values), 1.0, &stamps, progress) };
        let added = (self.n_written - before) as usize;
        values.drain(..added * self.width());
        stamps.drain(..added);
        if self.state == State::Open {
            (self.gathered, self.gathered_stamps) = (values, stamps);
        }
        outcome
    }

    /// Encodes and writes frames, in the format's units but for `factor`.
    fn add_rows(&mut self, values: Values<'_>, factor: f64, stamps: &[Stamp], progress: &Progress) -> Result<()> {
        self.begin(stamps).map_err(|error| self.failed(error))?;
        let Some(encoder) = self.encoder.as_deref() else {
            return Err(Error::new(ErrorKind::Internal, "frames before their encoder"));
        };
        let (width, n_rows) = (self.width(), stamps.len());
        let most = (TASK_BYTES / size_of::<f32>() / width.max(1)).min(n_rows.div_ceil(2 * self.workers)).max(1);
        let starts = (0..n_rows).step_by(most);
        let tasks: Vec<_> = starts.zip(0..).map(|(row, number)| (number, row..(row + most).min(n_rows))).collect();
        let workers = self.workers.min(tasks.len());
        let call = Call {
            encoder,
            values,
            factor,
            stamps,
            width,
            first: self.n_written,
            window: Window::new(&*self.sink, self.end, WINDOW_BYTES),
            pool: Pool::new(tasks, progress),
            runs: Mutex::default(),
            unencoded: AtomicU64::new(u64::MAX),
            refused: Mutex::default(),
        };
        let outcome = call.pool.run(&self.threads, workers, |_| call.work());
        let (n_runs, mut end) = call.window.written();
        let mut runs = call.runs.into_inner().unwrap_or_else(PoisonError::into_inner);
        let behind = runs.split_off(&n_runs);
        let refused = call.refused.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut written: Vec<Run> = runs.into_values().collect();
        let mut state = State::Failed;
        let outcome = match (outcome, refused) {
            (Err(error), _) => Err(error),
            (Ok(_), Some(Refused { number, bytes, run, error })) if number == n_runs => {
                // those of its run before the frame that cannot be encoded
                let put = self.sink.write_at(end, &bytes);
                if put.is_ok() {
                    state = State::Ended;
                    end += bytes.len() as u64;
                    written.push(run);
                }
                Err(put.err().unwrap_or(error))
            }
            (Ok(_), None) if behind.is_empty() => Ok(()),
            (Ok(_), _) => Err(Error::new(ErrorKind::Internal, "not all records were written")),
        };
        self.count(written, end, stamps)?;
        outcome.map_err(|error| {
            if error.kind() == ErrorKind::Cancelled {
                return error;
            }
            self.state = state;
            self.place(error)
        })
    }

    /// The head, and what it says of steps and times; from the second frame on nothing changes them.
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
                // before the second frame is there, and behind the first
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

    /// Takes note of runs that are in the file.
    fn count(&mut self, runs: Vec<Run>, end: u64, stamps: &[Stamp]) -> Result<()> {
        let mut rows = 0;
        for run in runs {
            rows += run.rows;
            for found in run.found {
                let start = self.end;
                let index = self.index.get_or_insert_with(|| TableBuilder::new(start));
                index.push(found.len, found.step, found.time)?;
            }
        }
        (self.n_written, self.end) = (self.n_written + rows as u64, end);
        debug_assert!(rows <= stamps.len());
        Ok(())
    }
}

fn scaled_cell(cell: &Cell, factor: f64) -> Cell {
    cell.map(|row| row.map(|value| value * factor))
}

/// Frames of one task as records.
#[derive(Debug, Default)]
struct Run {
    rows: usize,
    /// Where the format stores an index.
    found: Vec<RecordFound>,
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
    encoder: &'a dyn Encoder,
    values: Values<'a>,
    factor: f64,
    stamps: &'a [Stamp],
    width: usize,
    /// Number of the first frame.
    first: u64,
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
            if let Err(error) = self.encode(rows, &mut room, &mut scratch, &mut bytes, &mut run) {
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
