//! The pipeline's end for arrays: many frames into arrays of the caller, on several threads.

use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::clock::{RunTimings, WorkerTiming, lap, thread_cpu_time};
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{BlockMut, Fields, RowsMut, Units, VectorsMut};
use crate::pipeline::pool::{Pool, Progress};
use crate::pipeline::reader::Reader;
use crate::plan::{BATCH_BYTES, DEFAULT_MEMORY, redecoded_frames, trajectory_coupling};
use crate::selection::{AtomSelection, FrameSelection};
use crate::trajectory::{Scanned, Trajectory, not_scanned};

/// What is read into arrays.
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

/// Frames for one worker, which are neighbours in the order of the files, and the rows of the caller for them.
struct Task<'a> {
    frames: FrameSelection,
    rows: BlockMut<'a>,
}

/// Reads `request` into `arrays`, whose rows have room for all requested atoms; of a [`BlockMut`] as of a decoder they
/// differ in that repeated atoms have columns of their own.
///
/// Frames that are requested in another order than that of the files are sorted once: what is read of the files, and which
/// chunks are decoded, is what it is for the sorted request. Decoders write to the rows of the caller at once.
///
/// # Errors
/// `OutOfRange`, `MemoryLimit`, `InvalidArgument` for arrays of another size; those of [`Reader::read`].
pub fn read(
    trajectory: &Trajectory,
    request: &ArrayRequest,
    mut arrays: BlockMut<'_>,
    progress: &Progress,
) -> Result<RunTimings> {
    let scanned = trajectory.scanned().ok_or_else(not_scanned)?;
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
    let (frames, arrays) = match &request.frames {
        FrameSelection::List(list) if !list.is_sorted() => {
            let mut order: Vec<usize> = (0..rows).collect();
            order.sort_by_key(|&row| list[row]);
            (FrameSelection::List(order.iter().map(|&row| list[row]).collect()), arrays.into_order(&order))
        }
        frames => (frames.clone(), arrays),
    };
    let (workers, task_rows) = sizes(scanned, request, fields)?;
    let (mut tasks, mut lengths) = (Vec::new(), Vec::new());
    let mut first = 0;
    while first < rows {
        let end = task_end(scanned, &frames, fields, first, rows.min(first + task_rows));
        tasks.push(frames.part(first as u64..end as u64));
        lengths.push(end - first);
        first = end;
    }
    let tasks: Vec<Task<'_>> =
        tasks.into_iter().zip(arrays.split(&lengths)).map(|(frames, rows)| Task { frames, rows }).collect();
    let pool = Pool::new(tasks, progress);
    let start = Instant::now();
    let call = Call { trajectory, request, fields, start, pool: &pool };
    let workers = pool.run(&trajectory.threads, workers, |_| call.work())?;
    Ok(RunTimings::of_workers(start.elapsed(), workers))
}

/// The end of a task that begins with frame `first` of a selection and may reach to `most`: where a chunk ends, if one
/// does so on the way.
pub(super) fn task_end(scanned: &Scanned, frames: &FrameSelection, fields: Fields, first: usize, most: usize) -> usize {
    let ends_chunk = |at: &usize| redecoded_frames(scanned, frames, fields, *at as u64) == 0;
    if most as u64 >= frames.len() { most } else { (first + 1..=most).rev().find(ends_chunk).unwrap_or(most) }
}

/// Workers, and rows that one of them reads at a time.
fn sizes(scanned: &Scanned, request: &ArrayRequest, fields: Fields) -> Result<(usize, usize)> {
    let rows = usize::try_from(request.frames.len()).unwrap_or(usize::MAX);
    let memory = if request.memory == 0 { DEFAULT_MEMORY } else { request.memory };
    let (largest, coupling) = trajectory_coupling(scanned, fields);
    let each = 2 * largest.max(BATCH_BYTES);
    let fit = memory / each;
    if fit == 0 {
        return Err(Error::new(
            ErrorKind::MemoryLimit,
            format!("the memory limit is too small for one frame, expected at least {each} bytes, found {memory}"),
        ));
    }
    let wanted = if scanned.forward_part().is_some() { 1 } else { request.workers.max(1) };
    let workers = wanted.min(fit as usize).min(rows.max(1));
    let task_rows = TASK_ROWS.min(rows.div_ceil(workers * 4).max(1));
    // frames that share a chunk go to one worker
    let coupled = coupling.frames.clamp(1, (rows as u64).max(1)) as usize;
    Ok((workers, task_rows.next_multiple_of(coupled)))
}

/// What the workers of a call share.
struct Call<'a> {
    trajectory: &'a Trajectory,
    request: &'a ArrayRequest,
    fields: Fields,
    start: Instant,
    pool: &'a Pool<'a, Task<'a>>,
}

impl Call<'_> {
    fn work(&self) -> Result<WorkerTiming> {
        let (cpu, begun) = (thread_cpu_time(), self.start.elapsed());
        let mut timing = WorkerTiming::default();
        let atoms = self.request.atoms.clone();
        let mut reader = Reader::new(self.trajectory, self.fields, atoms, self.request.units)?;
        if self.request.mark_absent {
            reader = reader.with_absent_marked();
        }
        let mut frames = Vec::new();
        let mut room = (Vec::new(), Vec::new());
        while let Some(Task { frames: wanted, mut rows }) = self.pool.next()? {
            frames.clear();
            frames.extend((0..wanted.len()).map(|row| wanted.get(row)));
            reader.read(&frames, &mut rows)?;
            if let Some(columns) = self.request.atoms.columns() {
                let mut clock = Instant::now();
                for vectors in &mut rows.vectors {
                    match vectors {
                        VectorsMut::Absent => {}
                        VectorsMut::F32(rows) => into_columns(rows, frames.len(), columns, &mut room.0)?,
                        VectorsMut::F64(rows) => into_columns(rows, frames.len(), columns, &mut room.1)?,
                    }
                }
                timing.compute += lap(&mut clock);
            }
            timing.frames += frames.len() as u64;
            timing.blocks += 1;
            self.pool.progress.done.fetch_add(frames.len() as u64, Ordering::Relaxed);
        }
        timing.phases = reader.phases;
        timing.wait = begun;
        timing.cpu = thread_cpu_time().saturating_sub(cpu);
        timing.total = self.start.elapsed();
        Ok(timing)
    }
}

/// The atoms at the front of each row, which are those selected in ascending order, to the columns that want them.
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
