//! The pipeline's end for files: frames are read, decoded, encoded and placed in a sink, on several threads.
//!
//! The bytes are the same for any number of threads. The caller chooses the names of files: see `docs/convert.md`.

pub mod append;
pub mod atom_exchange;
pub mod atom_records;
mod commit;
mod plan;
pub mod record_file;
pub mod resume;
mod rows;

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Instant;

use self::commit::Window;
use self::plan::{RecordsPlan, tasks};
pub use self::plan::{least_memory, pieces};
use self::resume::{Commits, Committed, Resumed};
use crate::clock::{Meter, RunTimings, Stopwatch, Work, WorkerTiming, thread_cpu_time};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{EncodeScratch, Encoder, Format, Making, Placing, Record};
use crate::frame::kept::{first_infinite, infinite};
use crate::frame::{Block, BlockMut, Fields, NO_CELL, Scales, Stamp, Units, VectorsMut};
use crate::index::{TableBuilder, TableIndex};
use crate::pipeline::arrays::into_columns;
use crate::pipeline::pool::{Pool, Progress};
use crate::pipeline::reader::Reader;
use crate::selection::{AtomSelection, FrameSelection};
use crate::sink::Sink;
use crate::source::Gather;
use crate::trace;
use crate::trace::activity::{COMMIT, ENCODE, WRITING};
use crate::trajectory::{Part, Trajectory, not_scanned};

/// Frames and atoms to write.
#[derive(Debug, Clone)]
pub struct EncodeRequest {
    /// Frames, in the order of the file that is made.
    pub frames: FrameSelection,
    /// Atoms, in the requested order.
    pub atoms: AtomSelection,
    /// Threads.
    pub workers: usize,
    /// Working memory in bytes; 0 means [`crate::plan::DEFAULT_MEMORY`].
    pub memory: u64,
    /// State of a sink that has frames already.
    pub resumed: Option<Resumed>,
}

/// Result of a call.
#[derive(Debug, Clone)]
pub struct Encoded {
    /// Bytes of the file.
    pub bytes: u64,
    /// Its index, as a scan of the file would find it, if frames of the format differ in size.
    pub index: Option<TableIndex>,
    /// Times of the phases.
    pub timings: RunTimings,
}

/// Collects all that [`Format::encoder`] needs to know of these frames except steps, times and what the user chooses.
/// Reads the cells of three of the frames.
///
/// # Errors
/// `OutOfRange`; `InvalidArgument` if there are no frames; errors of [`Reader::read`].
pub fn making(
    trajectory: &Trajectory,
    frames: &FrameSelection,
    atoms: &AtomSelection,
    format: &dyn Format,
) -> Result<Making> {
    let scanned = trajectory.scanned().ok_or_else(not_scanned)?;
    frames.check(scanned.concatenation.n_frames)?;
    let Some(last) = frames.len().checked_sub(1) else {
        let what = format!("no frames selected; the trajectory has {} frames", scanned.concatenation.n_frames);
        return Err(Error::new(ErrorKind::InvalidArgument, what));
    };
    let n_atoms = u32::try_from(atoms.n_requested());
    let n_atoms = n_atoms.map_err(|_| Error::new(ErrorKind::InvalidArgument, "more than 2^32 atoms are selected"))?;
    let parts = || scanned.concatenation.spans.iter().map(|span| &scanned.parts[span.part]);
    let held = parts().fold(Fields::ALL, |all, part| all - (Fields::ALL - part.header().fields));
    let cell = parts().fold(Fields::NONE, |any, part| any | (part.header().fields - (Fields::ALL - Fields::CELL)));
    let info = format.info();
    // each record has its own cell, or none
    let vectors_of = |part: &Part| part.header().fields - Fields::CELL;
    let vectors_of_first = parts().next().map(vectors_of);
    let as_it_is = |part: &Part| {
        let same_fields = Some(vectors_of(part)) == vectors_of_first;
        part.format.is_same(format) && part.scales == info.scales && same_fields
    };
    let mut extras: Vec<&'static str> = parts().flat_map(|part| part.decoder.facts().extras.iter().copied()).collect();
    extras.sort_unstable();
    extras.dedup();
    let of_format = parts().all(|part| part.format.is_same(format));
    let precisions = parts().filter_map(|part| part.decoder.facts().precision).filter(|_| of_format);
    let version =
        parts().map(|part| part.decoder.facts().recoded_version).reduce(|a, b| a.filter(|_| a == b)).flatten();
    // frames that are changed are not copied from the files
    let copied = parts().all(as_it_is) && trajectory.stack().is_empty();
    let some = [0, last / 2, last].map(|position| frames.get(position));
    let stamps = stamps(trajectory, &some, info.scales)?;
    extras.extend(stamps.iter().any(has_open_length).then_some(OPEN_LENGTHS));
    Ok(Making {
        n_atoms,
        source_atoms: trajectory.n_atoms(),
        source_precision: precisions.reduce(f64::max),
        same_format: copied && scanned.has_stored_times(),
        same_but_times: copied && !scanned.has_stored_times(),
        all_atoms: atoms.indices().is_none() && atoms.columns().is_none(),
        recoded_version: version.filter(|_| of_format && trajectory.stack().is_empty()),
        title: parts().next().filter(|_| of_format).and_then(|part| part.header().remarks.first().cloned()),
        held: held | cell,
        extras,
        wide: parts().fold(Fields::NONE, |any, part| any | part.decoder.facts().wide_fields),
        cells: stamps.iter().map(|stamp| stamp.cell).collect(),
        ..Making::default()
    })
}

/// The vectors that are float64 in a part of a trajectory.
fn wide_of(trajectory: &Trajectory) -> Fields {
    let parts = trajectory.scanned().map(|scanned| &scanned.parts);
    parts.into_iter().flatten().fold(Fields::NONE, |any, part| any | part.decoder.facts().wide_fields)
}

/// The one property of a cell that no file of an encoder can express.
const OPEN_LENGTHS: &str = "that edges with a length are open";

/// Whether an edge that has a length is open.
fn has_open_length(stamp: &Stamp) -> bool {
    stamp.present.contains(Fields::CELL) && (0..3).any(|i| !stamp.periodic[i] && stamp.cell[i] != [0.0; 3])
}

/// Cells, steps and times of some frames.
fn stamps(trajectory: &Trajectory, frames: &[u64], units: Scales) -> Result<Vec<Stamp>> {
    let fields = Fields::CELL | Fields::STEP | Fields::TIME;
    let atoms = AtomSelection::all(trajectory.n_atoms());
    let mut block = Block::default();
    block.reset(frames.iter().copied(), atoms.len(), fields);
    Reader::new(trajectory, fields, atoms, Units::Of(units))?.with_absent_marked().read(frames, &mut block.as_mut())?;
    clear_absent_cells(&mut block);
    Ok(block.stamps)
}

/// Marks a cell that is unknown or unusable as absent.
fn clear_absent_cells(block: &mut Block) {
    for stamp in block.stamps.iter_mut().filter(|stamp| !stamp.present.contains(Fields::CELL)) {
        stamp.cell = NO_CELL;
    }
}

/// Writes the frames of `request`, encoded by `encoder` in units of `format`: the head, all records, and after these
/// the count. `commits` says what is in the sink meanwhile, and after an error.
///
/// # Errors
/// `MemoryLimit` with the smallest limit that would suffice; errors of [`Reader::read`], of the encoder and of the
/// sink. After an error the sink does not hold a whole file.
pub fn encode(
    trajectory: &Trajectory,
    request: &EncodeRequest,
    format: &dyn Format,
    encoder: &dyn Encoder,
    sink: &dyn Sink,
    commits: &Commits,
    progress: &Progress,
) -> Result<Encoded> {
    let plan = RecordsPlan::new(trajectory, request, encoder, request.frames.len())?;
    let (begun, index) = begin(request, encoder, sink)?;
    commits.begin(begun, encoder.head().len() as u64);
    progress.done.store(begun.frames, Ordering::Relaxed);
    let tasks = tasks(plan.scanned, &request.frames, begun.frames..request.frames.len(), plan.fields, plan.sizes.rows);
    let pool = Pool::new(tasks, progress);
    let start = Instant::now();
    let index_records = |records: &[u8], index: &mut TableBuilder| encoder.index(records, index);
    let window = Window::new(sink, commits, index, &index_records, plan.sizes.window);
    let fields = plan.fields;
    let (pool, wide) = (&pool, wide_of(trajectory));
    let call = Call { trajectory, request, format, encoder, fields, wide, start, pool, sink, window, commits, begun };
    let workers = pool.run(&trajectory.threads, plan.sizes.workers, |_| call.work())?;
    let done = commits.committed();
    if done.frames != request.frames.len() {
        return Err(Error::new(ErrorKind::Internal, "not all records were written"));
    }
    finish(encoder, sink, done.frames)?;
    trace::flush();
    let index = (encoder.placing().is_ordered()).then(|| call.window.into_index().finish());
    Ok(Encoded { bytes: done.bytes, index, timings: RunTimings::from_workers(start, workers) })
}

/// A run of the frames of a request, by their positions in it, and the offset of their records in the sink.
#[derive(Debug, Clone)]
pub struct Run {
    /// Positions in [`EncodeRequest::frames`].
    pub frames: Range<u64>,
    /// Offset of the first record.
    pub at: u64,
}

/// Writes only the records of a run, for one of several processes that write a file: it neither calls [`begin`] nor
/// [`finish`], and does not sync. Bytes and index are those of the run; offsets in the index are those of the sink.
///
/// # Errors
/// As [`encode`].
pub fn encode_run(
    trajectory: &Trajectory,
    request: &EncodeRequest,
    run: Run,
    format: &dyn Format,
    encoder: &dyn Encoder,
    sink: &dyn Sink,
    progress: &Progress,
) -> Result<Encoded> {
    let end = run.frames.end;
    if run.frames.start > end || end > request.frames.len() {
        let what = format!("positions {:?} are not among the {} frames", run.frames, request.frames.len());
        return Err(Error::new(ErrorKind::OutOfRange, what));
    }
    let plan = RecordsPlan::new(trajectory, request, encoder, end - run.frames.start)?;
    let begun = Committed { frames: run.frames.start, bytes: run.at };
    let commits = Commits::default();
    commits.begin(begun, 0);
    let pool = Pool::new(tasks(plan.scanned, &request.frames, run.frames, plan.fields, plan.sizes.rows), progress);
    let start = Instant::now();
    let index_records = |records: &[u8], index: &mut TableBuilder| encoder.index(records, index);
    let window = Window::new(sink, &commits, TableBuilder::new(run.at), &index_records, plan.sizes.window);
    let (fields, wide, pool, commits) = (plan.fields, wide_of(trajectory), &pool, &commits);
    let call = Call { trajectory, request, format, encoder, fields, wide, start, pool, sink, window, commits, begun };
    let workers = pool.run(&trajectory.threads, plan.sizes.workers, |_| call.work())?;
    let done = commits.committed();
    if done.frames != end {
        return Err(Error::new(ErrorKind::Internal, "not all records were encoded"));
    }
    trace::flush();
    let index = (encoder.placing().is_ordered()).then(|| call.window.into_index().finish());
    Ok(Encoded { bytes: done.bytes - run.at, index, timings: RunTimings::from_workers(start, workers) })
}

/// Offset of the record of a position in the file, if all records have one size.
pub fn place_of(encoder: &dyn Encoder, position: u64) -> Option<u64> {
    match encoder.placing() {
        Placing::Uniform(record) => Some(encoder.head().len() as u64 + position * record),
        Placing::Ordered(_) => None,
    }
}

/// Syncs the records, all of which must be in the sink, and writes their count.
///
/// # Errors
/// Errors of the sink.
pub fn finish(encoder: &dyn Encoder, sink: &dyn Sink, frames: u64) -> Result<()> {
    let mut watch = Stopwatch::start();
    if let Some(marker) = encoder.marker(frames) {
        // the count may not precede the frames that it counts
        sink.sync()?;
        sink.write_at(marker.offset, &marker.bytes)?;
    }
    sink.sync()?;
    watch.lap(&COMMIT, Work { file: Some(sink.path()), frames, ..Work::default() });
    Ok(())
}

/// Writes the head, and returns where the next records begin, with the index of the records that are in the sink
/// already.
///
/// # Errors
/// `InvalidArgument` if `request.resumed` does not fit the encoder; errors of the sink.
pub fn begin(request: &EncodeRequest, encoder: &dyn Encoder, sink: &dyn Sink) -> Result<(Committed, TableBuilder)> {
    let head = encoder.head();
    // of a file that was whole, the count in it as well
    sink.write_at(0, &head)?;
    let head = head.len() as u64;
    let Some(resumed) = &request.resumed else {
        return Ok((Committed { frames: 0, bytes: head }, TableBuilder::new(head)));
    };
    let Committed { frames, bytes } = resumed.committed;
    let fits = match encoder.placing() {
        Placing::Uniform(record) => bytes == head + frames * record,
        Placing::Ordered(_) => bytes == resumed.index.end(),
    };
    if !fits || frames > request.frames.len() {
        let what = format!("{frames} frames up to byte {bytes} are not the front of the file that is written");
        return Err(Error::new(ErrorKind::InvalidArgument, what).with_path(sink.path()));
    }
    Ok((resumed.committed, resumed.index.clone()))
}

/// Buffers of one worker.
#[derive(Default)]
struct Room {
    block: Block,
    /// Selected atoms of a row.
    selected: (Vec<[f32; 3]>, Vec<[f64; 3]>),
    /// Records of the source.
    gather: Gather,
    scratch: EncodeScratch,
}

/// State that the workers of a call share.
struct Call<'a> {
    trajectory: &'a Trajectory,
    request: &'a EncodeRequest,
    format: &'a dyn Format,
    encoder: &'a dyn Encoder,
    fields: Fields,
    /// Vectors of the source that are float64 in a part of it.
    wide: Fields,
    start: Instant,
    pool: &'a Pool<'a, Range<u64>>,
    sink: &'a dyn Sink,
    /// For records that are written in order.
    window: Window<'a>,
    commits: &'a Commits,
    /// Where this call resumes.
    begun: Committed,
}

impl Call<'_> {
    fn work(&self) -> Result<WorkerTiming> {
        let (cpu, mut timing) = (thread_cpu_time(), WorkerTiming::begin(self.start));
        let atoms = self.request.atoms.clone();
        let units = Units::Of(self.format.info().scales);
        // what a format says of frames that lack fields is the encoder's to decide
        let mut reader = Reader::new(self.trajectory, self.fields, atoms, units)?.with_absent_marked();
        let (mut room, mut bytes) = (Room::default(), Vec::new());
        while let Some(positions) = self.pool.next()? {
            let n_frames = positions.end - positions.start;
            bytes.clear();
            if self.encoder.recodes() {
                self.recode(&mut timing, positions.clone(), &mut room, &mut bytes)?;
            } else {
                self.encode(&mut timing, &mut reader, positions.clone(), &mut room, &mut bytes)?;
            }
            let mut watch = Stopwatch::start();
            let size = bytes.len() as u64;
            match self.encoder.placing() {
                Placing::Uniform(record) => {
                    let place = self.begun.bytes + (positions.start - self.begun.frames) * record;
                    self.sink.write_at(place, &bytes)?;
                    self.commits.add(positions.start, n_frames, bytes.len() as u64);
                }
                Placing::Ordered(_) => self.window.add(positions, &mut bytes, || self.pool.is_stopped())?,
            }
            let work = Work { file: Some(self.sink.path()), size, frames: n_frames, ..Work::default() };
            timing.write += watch.lap(&WRITING, work);
            timing.frames += n_frames;
            timing.blocks += 1;
            self.pool.progress.done.fetch_add(n_frames, Ordering::Relaxed);
        }
        timing.phases += reader.phases();
        timing.cpu = thread_cpu_time().saturating_sub(cpu);
        timing.total = self.start.elapsed();
        Ok(timing)
    }

    /// Appends the records of some frames, made of their values.
    fn encode(
        &self,
        timing: &mut WorkerTiming,
        reader: &mut Reader<'_>,
        positions: Range<u64>,
        room: &mut Room,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let (first, frames, before) = (positions.start, positions.end - positions.start, bytes.len());
        self.read(reader, positions, &mut room.block)?;
        self.order_atoms(&mut room.block, &mut room.selected)?;
        self.check_present(&room.block, first)?;
        clear_absent_cells(&mut room.block);
        let encoded = self.encoder.encode(&room.block.view(), first, &mut room.scratch, bytes);
        encoded.map_err(|error| error.with_format(self.format.info().name).with_path(self.sink.path()))?;
        let size = (bytes.len() - before) as u64;
        timing.compute += reader.take_transforming();
        timing.compute += reader.meter().watch.lap(&ENCODE, Work { size, frames, ..Work::default() });
        Ok(())
    }

    /// Appends the records of some frames, recoded from records of the source.
    fn recode(
        &self,
        timing: &mut WorkerTiming,
        positions: Range<u64>,
        room: &mut Room,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let scanned = self.trajectory.scanned().ok_or_else(not_scanned)?;
        if !self.trajectory.stack().is_empty() {
            return Err(Error::new(
                ErrorKind::Internal,
                "records of frames that are changed cannot be copied from the source",
            ));
        }
        let located: Vec<(usize, u64)> = positions
            .map(|position| {
                let frame = self.request.frames.get(position);
                let span = scanned.concatenation.span_of(frame);
                (span.part, span.kept.start + (frame - span.first_frame))
            })
            .collect();
        for run in located.chunk_by(|a, b| a.0 == b.0) {
            let part = &scanned.parts[run[0].0];
            let mut meter = Meter::default();
            let extent = |&(_, frame): &(usize, u64)| part.index.extent(frame);
            let place = |error: Error| error.with_format(part.format.info().name).with_path(&part.path);
            self.trajectory.read_of(run[0].0, |source| {
                meter.opened(&part.path);
                room.gather.read(&**source, run.iter().map(extent)).map_err(place)
            })?;
            let (size, frames, before) = (room.gather.bytes_read, run.len() as u64, bytes.len());
            let offset = run.first().map_or(0, |one| extent(one).offset);
            meter.read(Work { file: Some(&part.path), offset, size, frames }, room.gather.reads);
            timing.phases += meter.phases;
            for (i, one) in run.iter().enumerate() {
                let time = if scanned.has_stored_times() { None } else { scanned.time(one.0, one.1) };
                let record = Record { bytes: room.gather.bytes(i), offset: extent(one).offset, frame: one.1, time };
                let made = self.encoder.recode(&record, &self.request.atoms, &mut room.scratch, bytes);
                made.map_err(place)?;
            }
            let size = (bytes.len() - before) as u64;
            timing.compute += meter.watch.lap(&ENCODE, Work { size, frames, ..Work::default() });
        }
        Ok(())
    }

    fn read(&self, reader: &mut Reader<'_>, positions: Range<u64>, block: &mut Block) -> Result<()> {
        let (atoms, fields, first) = (&self.request.atoms, self.fields, positions.start);
        let doubles = self.encoder.takes_doubles();
        block.reserve(doubles, (positions.end - positions.start) as usize, atoms.n_requested(), fields)?;
        block.reset_as(
            doubles,
            positions.map(|position| self.request.frames.get(position)),
            atoms.n_requested(),
            fields,
        );
        let frames = std::mem::take(&mut block.frames);
        let read = reader.read(&frames, &mut BlockMut { n_selected: atoms.len(), ..block.as_mut() });
        let read = read.and_then(|()| self.check_finite(reader, &frames, first, block));
        block.frames = frames;
        read
    }

    /// Refuses float64 numbers that become infinite in the float32 block. Numbers that are infinite in the source are
    /// told apart by reading their frame again.
    fn check_finite(&self, reader: &mut Reader<'_>, frames: &[u64], first: u64, block: &Block) -> Result<()> {
        if self.encoder.takes_doubles() || self.wide == Fields::NONE {
            return Ok(());
        }
        let width = 3 * self.request.atoms.len();
        for (field, values) in Fields::VECTORS.into_iter().zip([&block.positions, &block.velocities, &block.forces]) {
            if !self.wide.contains(field) || !values.iter().fold(false, |any, value| any | value.is_infinite()) {
                continue;
            }
            for (row, (&frame, narrow)) in frames.iter().zip(values.chunks_exact(width)).enumerate() {
                if !narrow.iter().any(|value| value.is_infinite()) {
                    continue;
                }
                let mut exact = Block::default();
                exact.reset_as(true, [frame], self.request.atoms.len(), self.fields);
                reader.read(&[frame], &mut exact.as_mut())?;
                let number = Fields::VECTORS.into_iter().position(|one| one == field).unwrap_or_default();
                if let Some(at) = first_infinite(exact.view().doubles[number], narrow) {
                    let error = infinite(field, at as u64 / 3).with_frame(first + row as u64);
                    return Err(error.with_format(self.format.info().name).with_path(self.sink.path()));
                }
            }
        }
        Ok(())
    }

    fn order_atoms(&self, block: &mut Block, room: &mut (Vec<[f32; 3]>, Vec<[f64; 3]>)) -> Result<()> {
        let Some(columns) = self.request.atoms.columns() else { return Ok(()) };
        let n_rows = block.rows();
        for vectors in &mut block.as_mut().vectors {
            match vectors {
                VectorsMut::Absent => {}
                VectorsMut::F32(rows) => into_columns(rows, n_rows, columns, &mut room.0)?,
                VectorsMut::F64(rows) => into_columns(rows, n_rows, columns, &mut room.1)?,
            }
        }
        Ok(())
    }

    /// Most files have their fields in all frames.
    fn check_present(&self, block: &Block, first: u64) -> Result<()> {
        let field = self.encoder.required();
        let absent = block.stamps.iter().position(|stamp| !stamp.present.contains(field));
        let Some(row) = absent else { return Ok(()) };
        let what = format!("the source has no {} in its frame {}", field.names().join(", "), block.frames[row]);
        let error = Error::new(ErrorKind::Unsupported, what).with_frame(first + row as u64);
        Err(error.with_format(self.format.info().name).with_path(self.sink.path()))
    }
}
