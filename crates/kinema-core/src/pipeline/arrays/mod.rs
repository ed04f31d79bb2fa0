//! The pipeline's end for arrays: many frames into arrays of the caller, on several threads.

pub mod extended_xyz;
pub mod moments;
mod row_moments;
mod row_places;
pub mod rows;

use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::clock::{RunTimings, Work, WorkerTiming, thread_cpu_time};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Request, Wanted};
use crate::frame::{BlockMut, Fields, RowsMut, Scales, Units, VectorsMut};
use crate::pipeline::applied::Applied;
use crate::pipeline::pool::{Pool, Progress};
use crate::pipeline::reader::Reader;
use crate::plan::{BATCH_BYTES, DEFAULT_MEMORY, redecoded_frames, trajectory_coupling};
use crate::selection::{AtomSelection, FrameSelection};
use crate::trace::activity::TRANSFORM;
use crate::trajectory::{Scanned, Trajectory, not_scanned};

/// Frames and atoms to read into arrays.
#[derive(Debug, Clone)]
pub struct ArrayRequest {
    /// Frames, one a row.
    pub frames: FrameSelection,
    /// Atoms, one a column in the requested order.
    pub atoms: AtomSelection,
    /// Units of the arrays.
    pub units: Units,
    /// Whether fields that frames lack are NaN and marked as absent, whatever the trajectory's rule.
    pub mark_absent: bool,
    /// Threads.
    pub workers: usize,
    /// Working memory besides the arrays in bytes; 0 means [`DEFAULT_MEMORY`].
    pub memory: u64,
}

/// Most rows of a task.
const TASK_ROWS: usize = 256;

/// Frames of one trajectory, and the rows of the caller for them.
pub struct ArrayPart<'a> {
    /// The trajectory that has the frames.
    pub trajectory: &'a Trajectory,
    /// Which of them; its number of workers is that of the call.
    pub request: &'a ArrayRequest,
    /// As [`read`] takes them.
    pub arrays: BlockMut<'a>,
}

/// Frames for one worker, adjacent in the order of the files, and the caller's rows for them.
struct Task<'a> {
    /// Number of the part.
    part: usize,
    frames: FrameSelection,
    rows: BlockMut<'a>,
}

/// Reads `request` into `arrays`, whose rows have room for all requested atoms. Unlike in the [`BlockMut`] of a
/// decoder, repeated atoms have columns of their own.
///
/// Frames requested in a different order than the files' are sorted once: the bytes read and the chunks decoded are
/// those of the sorted request. Decoders write directly to the caller's rows.
///
/// # Errors
/// `OutOfRange`, `MemoryLimit`, `InvalidArgument` for arrays of a different size; errors of [`Reader::read`].
pub fn read(
    trajectory: &Trajectory,
    request: &ArrayRequest,
    arrays: BlockMut<'_>,
    progress: &Progress,
) -> Result<RunTimings> {
    read_parts(vec![ArrayPart { trajectory, request, arrays }], request.workers, progress)
}

/// Reads frames of several trajectories as [`read`] reads the frames of one, on the threads of the first.
///
/// # Errors
/// Errors of [`read`].
pub fn read_parts(parts: Vec<ArrayPart<'_>>, workers: usize, progress: &Progress) -> Result<RunTimings> {
    let Some(first) = parts.first().map(|part| part.trajectory) else { return Ok(RunTimings::default()) };
    let all_rows: usize = parts.iter().map(|part| part.arrays.rows()).sum();
    let mut workers = workers.max(1).min(all_rows.max(1));
    let (mut sources, mut prepared) = (Vec::new(), Vec::new());
    for part in parts {
        let scanned = part.trajectory.scanned().ok_or_else(not_scanned)?;
        let (fields, frames, arrays) = checked(scanned, part.request, part.arrays)?;
        workers = workers.min(fitting_workers(part.trajectory, scanned, part.request, fields)?);
        sources.push(Source { trajectory: part.trajectory, request: part.request, fields });
        prepared.push((scanned, frames, arrays));
    }
    let mut tasks = Vec::new();
    for (part, (scanned, frames, arrays)) in prepared.into_iter().enumerate() {
        let fields = sources[part].fields;
        let task_rows = task_rows(scanned, fields, all_rows, workers, arrays.rows());
        let (mut runs, mut lengths) = (Vec::new(), Vec::new());
        let (mut begin, rows) = (0, arrays.rows());
        while begin < rows {
            let mut end = task_end(scanned, &frames, fields, begin, rows.min(begin + task_rows));
            // repeated frames may fill more rows than a task has: a chunk is decoded once even then
            while end < rows && redecoded_frames(scanned, &frames, fields, end as u64) > 0 {
                end += 1;
            }
            runs.push(frames.part(begin as u64..end as u64));
            lengths.push(end - begin);
            begin = end;
        }
        tasks.extend(runs.into_iter().zip(arrays.split(&lengths)).map(|(frames, rows)| Task { part, frames, rows }));
    }
    let pool = Pool::new(tasks, progress);
    let start = Instant::now();
    let call = Call { sources, start, pool: &pool };
    let workers = pool.run(&first.threads, workers, |_| call.work())?;
    Ok(RunTimings::from_workers(start, workers))
}

/// Bytes and segments that a read takes from the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrayPlan {
    /// Bytes that are read.
    pub bytes: u64,
    /// Frames that share segments: those are decoded together.
    pub coupled: u64,
    /// Frames that are decoded, including frames that were not requested.
    pub decoded: u64,
}

/// Plans how [`read`] would read these fields. Nothing is read.
///
/// # Errors
/// `OutOfRange`; errors of the decoders' segments.
pub fn plan(trajectory: &Trajectory, request: &ArrayRequest, fields: Fields) -> Result<ArrayPlan> {
    let scanned = trajectory.scanned().ok_or_else(not_scanned)?;
    request.frames.check(scanned.concatenation.n_frames)?;
    let (_, coupling) = trajectory_coupling(scanned, fields);
    let coupled = coupling.frames.max(1);
    let mut frames: Vec<u64> = (0..request.frames.len()).map(|row| request.frames.get(row)).collect();
    frames.sort_unstable();
    frames.dedup();
    let (atoms, fields) = trajectory.stack().united(&request.atoms, fields)?;
    let request = Request { fields, atoms, scales: Scales::NATIVE };
    let (mut bytes, mut decoded, mut rest) = (0, 0, frames.as_slice());
    while let Some(&first) = rest.first() {
        let span = scanned.concatenation.span_of(first);
        let end = span.first_frame + (span.kept.end - span.kept.start);
        let (now, later) = rest.split_at(rest.partition_point(|&frame| frame < end));
        let own = |frame: &u64| span.kept.start + (frame - span.first_frame);
        let wanted: Vec<Wanted> = now.iter().map(|frame| Wanted { frame: own(frame), row: 0 }).collect();
        let part = &scanned.parts[span.part];
        bytes += part.bytes_to_read(&wanted, &request)?;
        let mut chunks: Vec<u64> = wanted.iter().map(|one| one.frame / coupled).collect();
        chunks.dedup();
        let n_frames = part.index.n_frames();
        decoded += chunks.iter().map(|chunk| coupled.min(n_frames - chunk * coupled)).sum::<u64>();
        rest = later;
    }
    Ok(ArrayPlan { bytes, coupled, decoded })
}

/// The wanted fields; the frames in the order of the files, and their rows.
fn checked<'a>(
    scanned: &Scanned,
    request: &ArrayRequest,
    mut arrays: BlockMut<'a>,
) -> Result<(Fields, FrameSelection, BlockMut<'a>)> {
    request.frames.check(scanned.concatenation.n_frames)?;
    let rows = arrays.rows();
    let width = 3 * request.atoms.n_requested();
    let lengths = arrays.vectors.iter().filter_map(VectorsMut::len);
    if request.frames.len() != rows as u64 || lengths.into_iter().any(|len| len != rows * width) {
        return Err(Error::new(ErrorKind::Internal, "the arrays do not fit the request"));
    }
    arrays.n_selected = request.atoms.len();
    let mut fields = Fields::CELL | Fields::STEP | Fields::TIME;
    for (vectors, field) in arrays.vectors.iter().zip(Fields::VECTORS) {
        if vectors.len().is_some() {
            fields = fields | field;
        }
    }
    Ok(match &request.frames {
        FrameSelection::List(list) if !list.is_sorted() => {
            let mut order: Vec<usize> = (0..rows).collect();
            order.sort_by_key(|&row| list[row]);
            let sorted = FrameSelection::List(order.iter().map(|&row| list[row]).collect());
            (fields, sorted, arrays.into_order(&order))
        }
        frames => (fields, frames.clone(), arrays),
    })
}

/// The end of a task that begins with frame `first` of a selection and may reach to `most`: the end of a chunk if there
/// is one on the way.
pub(super) fn task_end(scanned: &Scanned, frames: &FrameSelection, fields: Fields, first: usize, most: usize) -> usize {
    let ends_chunk = |at: &usize| redecoded_frames(scanned, frames, fields, *at as u64) == 0;
    if most as u64 >= frames.len() { most } else { (first + 1..=most).rev().find(ends_chunk).unwrap_or(most) }
}

/// The most workers that the memory of a request is enough for.
fn fitting_workers(
    trajectory: &Trajectory,
    scanned: &Scanned,
    request: &ArrayRequest,
    fields: Fields,
) -> Result<usize> {
    let memory = if request.memory == 0 { DEFAULT_MEMORY } else { request.memory };
    let (largest, _) = trajectory_coupling(scanned, fields);
    let room = Applied::room_bytes(trajectory, scanned, &request.atoms, fields)?;
    let each = room.saturating_add(2 * largest.max(BATCH_BYTES));
    let fit = memory / each;
    if fit == 0 {
        let what =
            format!("the memory limit is too small for one frame, expected at least {each} bytes, found {memory}");
        return Err(Error::new(ErrorKind::MemoryLimit, what).with_path(&scanned.parts[0].path));
    }
    Ok(if scanned.forward_part().is_some() { 1 } else { usize::try_from(fit).unwrap_or(usize::MAX) })
}

/// Rows of a trajectory that one worker reads at a time, in a call with `all_rows` rows in total.
fn task_rows(scanned: &Scanned, fields: Fields, all_rows: usize, workers: usize, rows: usize) -> usize {
    let (_, coupling) = trajectory_coupling(scanned, fields);
    let task_rows = TASK_ROWS.min(all_rows.div_ceil(workers * 4).max(1));
    // frames that share a chunk go to one worker
    let coupled = coupling.frames.clamp(1, (rows as u64).max(1)) as usize;
    task_rows.next_multiple_of(coupled)
}

/// One trajectory of a call, and the rows wanted from it.
struct Source<'a> {
    trajectory: &'a Trajectory,
    request: &'a ArrayRequest,
    fields: Fields,
}

impl Source<'_> {
    fn reader(&self) -> Result<Reader<'_>> {
        let Self { trajectory, request, fields } = self;
        let reader = Reader::new(trajectory, *fields, request.atoms.clone(), request.units)?;
        Ok(if request.mark_absent { reader.with_absent_marked() } else { reader })
    }
}

/// State that the workers of a call share.
struct Call<'a> {
    sources: Vec<Source<'a>>,
    start: Instant,
    pool: &'a Pool<'a, Task<'a>>,
}

impl Call<'_> {
    fn work(&self) -> Result<WorkerTiming> {
        let (cpu, mut timing) = (thread_cpu_time(), WorkerTiming::begin(self.start));
        let mut current: Option<(usize, Reader<'_>)> = None;
        let mut frames = Vec::new();
        let mut room = (Vec::new(), Vec::new());
        while let Some(Task { part, frames: wanted, mut rows }) = self.pool.next()? {
            frames.clear();
            frames.extend((0..wanted.len()).map(|row| wanted.get(row)));
            let reader = match &mut current {
                Some((known, reader)) if *known == part => reader,
                place => {
                    if let Some((_, reader)) = place.take() {
                        timing.phases += reader.phases();
                    }
                    &mut place.insert((part, self.sources[part].reader()?)).1
                }
            };
            reader.read(&frames, &mut rows)?;
            timing.compute += reader.take_transforming();
            if let Some(columns) = self.sources[part].request.atoms.columns() {
                for vectors in &mut rows.vectors {
                    match vectors {
                        VectorsMut::Absent => {}
                        VectorsMut::F32(rows) => into_columns(rows, frames.len(), columns, &mut room.0)?,
                        VectorsMut::F64(rows) => into_columns(rows, frames.len(), columns, &mut room.1)?,
                    }
                }
                timing.compute += reader.meter().watch.lap(&TRANSFORM, Work::frames(frames.len() as u64));
            }
            timing.frames += frames.len() as u64;
            timing.blocks += 1;
            self.pool.progress.done.fetch_add(frames.len() as u64, Ordering::Relaxed);
        }
        if let Some((_, reader)) = current {
            timing.phases += reader.phases();
        }
        timing.cpu = thread_cpu_time().saturating_sub(cpu);
        timing.total = self.start.elapsed();
        Ok(timing)
    }
}

/// Copies the atoms at the front of each row, which are the selected atoms in ascending order, to the columns that want
/// them.
pub(super) fn into_columns<T: Copy>(
    rows: &mut RowsMut<'_, T>,
    n_rows: usize,
    columns: &[u32],
    selected: &mut Vec<[T; 3]>,
) -> Result<()> {
    for row in 0..n_rows {
        let places = rows.row(row, 3 * columns.len())?.as_chunks_mut::<3>().0;
        selected.clear();
        selected.extend_from_slice(places);
        places.iter_mut().zip(columns).for_each(|(place, &column)| *place = selected[column as usize]);
    }
    Ok(())
}
