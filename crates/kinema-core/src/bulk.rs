//! Many frames into arrays of the caller, on several threads: what `Trajectory.read` and `blocks` are made of.
//!
//! Analyses do not come this way: they see blocks in `engine`.

use std::sync::{Mutex, PoisonError};

use crate::engine::Watch;
use crate::error::{Error, ErrorKind, Result, catch_panics};
use crate::frame::{Block, BlockMut, Cell, Fields};
use crate::plan::{DEFAULT_MEMORY, row_bytes, trajectory_grain};
use crate::reader::{BATCH_BYTES, Reader};
use crate::selection::{AtomSelection, FrameSelection};
use crate::trajectory::{Scanned, Trajectory, not_scanned};

/// A caller's array of 3-vectors, `frames x atoms x 3`, or nothing where the field is not wanted.
#[derive(Debug)]
pub enum Vectors<'a> {
    /// Not wanted.
    Absent,
    /// As the formats have them.
    F32(&'a mut [f32]),
    /// Widened before they are scaled.
    F64(&'a mut [f64]),
}

impl<'a> Vectors<'a> {
    /// Cuts off the first `n` values.
    fn split_off_front(&mut self, n: usize) -> Vectors<'a> {
        match std::mem::replace(self, Vectors::Absent) {
            Vectors::Absent => Vectors::Absent,
            Vectors::F32(values) => {
                let (front, rest) = values.split_at_mut(n);
                *self = Vectors::F32(rest);
                Vectors::F32(front)
            }
            Vectors::F64(values) => {
                let (front, rest) = values.split_at_mut(n);
                *self = Vectors::F64(rest);
                Vectors::F64(front)
            }
        }
    }

    fn len(&self) -> Option<usize> {
        match self {
            Vectors::Absent => None,
            Vectors::F32(values) => Some(values.len()),
            Vectors::F64(values) => Some(values.len()),
        }
    }
}

/// The caller's arrays; all have one row a selected frame.
#[derive(Debug)]
pub struct Arrays<'a> {
    /// Positions, velocities, forces.
    pub vectors: [Vectors<'a>; 3],
    /// Cells.
    pub cells: &'a mut [Cell],
    /// Steps.
    pub steps: &'a mut [i64],
    /// Times.
    pub times: &'a mut [f64],
}

const VECTOR_FIELDS: [Fields; 3] = [Fields::POSITIONS, Fields::VELOCITIES, Fields::FORCES];

/// What is read into [`Arrays`].
#[derive(Debug, Clone)]
pub struct BulkRequest {
    /// Frames, one a row.
    pub frames: FrameSelection,
    /// Atoms to read, each once.
    pub atoms: AtomSelection,
    /// Which of `atoms` stands in each column, where it is not one after the other.
    pub columns: Option<Vec<u32>>,
    /// The file's own units instead of angstrom and ps.
    pub native: bool,
    /// Threads.
    pub workers: usize,
    /// Working memory besides the arrays in bytes; 0 means [`DEFAULT_MEMORY`].
    pub memory: u64,
}

impl BulkRequest {
    fn width(&self) -> usize {
        3 * self.columns.as_ref().map_or(self.atoms.len(), Vec::len)
    }
}

/// A run of rows for one worker.
struct Task<'a> {
    first_row: u64,
    arrays: Arrays<'a>,
}

/// Reads `request` into `arrays`.
///
/// # Errors
/// `OutOfRange`, `MemoryLimit`, `InvalidArgument` for arrays of another size; those of [`Reader::read`].
pub fn read(trajectory: &Trajectory, request: &BulkRequest, mut arrays: Arrays<'_>, watch: &Watch) -> Result<()> {
    let scanned = trajectory.scanned().ok_or_else(not_scanned)?;
    request.frames.check(scanned.joined.n_frames)?;
    let rows = arrays.times.len();
    let width = request.width();
    let lengths = arrays.vectors.iter().filter_map(Vectors::len);
    if request.frames.len() != rows as u64
        || arrays.cells.len() != rows
        || arrays.steps.len() != rows
        || lengths.into_iter().any(|len| len != rows * width)
    {
        return Err(Error::new(ErrorKind::Internal, "the arrays do not fit the request"));
    }
    let mut fields = Fields::CELL | Fields::STEP | Fields::TIME;
    for (vectors, field) in arrays.vectors.iter().zip(VECTOR_FIELDS) {
        if vectors.len().is_some() {
            fields = fields | field;
        }
    }
    let held = request.columns.is_some() || arrays.vectors.iter().any(|vectors| matches!(vectors, Vectors::F64(_)));
    let (workers, task_rows) = sizes(scanned, request, fields, held)?;

    let mut tasks = Vec::new();
    let mut first_row = 0;
    while first_row < rows {
        let n = task_rows.min(rows - first_row);
        let task = Task { first_row: first_row as u64, arrays: arrays.split_off_front(n, width) };
        tasks.push(task);
        first_row += n;
    }
    tasks.reverse();
    let tasks = Mutex::new(tasks);
    let failure: Mutex<Option<Error>> = Mutex::new(None);
    let work = || {
        let outcome = catch_panics(|| work(trajectory, scanned, request, fields, &tasks, watch));
        if let Err(error) = outcome {
            tasks.lock().unwrap_or_else(PoisonError::into_inner).clear();
            failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    };
    if workers == 1 {
        work();
    } else {
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(work);
            }
        });
    }
    failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Workers, and rows that one of them reads at a time; `held`: a worker holds them in memory of its own first.
fn sizes(scanned: &Scanned, request: &BulkRequest, fields: Fields, held: bool) -> Result<(usize, usize)> {
    let rows = usize::try_from(request.frames.len()).unwrap_or(usize::MAX);
    let memory = if request.memory == 0 { DEFAULT_MEMORY } else { request.memory };
    let row = row_bytes(request.atoms.len(), fields);
    let (largest, grain) = trajectory_grain(scanned, fields);
    let reading = 2 * largest.max(BATCH_BYTES);
    let each = row + reading;
    let fit = memory / each;
    if fit == 0 {
        return Err(Error::new(
            ErrorKind::MemoryLimit,
            format!("the memory limit is too small for one frame, expected at least {each} bytes, found {memory}"),
        ));
    }
    let workers = request.workers.max(1).min(fit as usize).min(rows.max(1));
    let room = memory / workers as u64 - reading;
    let by_memory = (room / row).clamp(1, 256) as usize;
    let task_rows = by_memory.min(rows.div_ceil(workers * 4).max(1));
    if grain.frames <= 1 {
        return Ok((workers, task_rows));
    }
    // frames that are decoded together go to one worker; only what is reordered or widened is held in memory
    let together = grain.frames.min(rows as u64) as usize;
    let most = if held { by_memory } else { rows };
    Ok((workers, task_rows.next_multiple_of(together.max(1)).clamp(1, most.max(1))))
}

impl<'a> Arrays<'a> {
    fn split_off_front(&mut self, rows: usize, width: usize) -> Arrays<'a> {
        fn front<'a, T>(slice: &mut &'a mut [T], n: usize) -> &'a mut [T] {
            let (front, rest) = std::mem::take(slice).split_at_mut(n);
            *slice = rest;
            front
        }
        Arrays {
            vectors: self.vectors.each_mut().map(|vectors| vectors.split_off_front(rows * width)),
            cells: front(&mut self.cells, rows),
            steps: front(&mut self.steps, rows),
            times: front(&mut self.times, rows),
        }
    }
}

fn work(
    trajectory: &Trajectory,
    scanned: &Scanned,
    request: &BulkRequest,
    fields: Fields,
    tasks: &Mutex<Vec<Task<'_>>>,
    watch: &Watch,
) -> Result<()> {
    let widened = |task: &Task<'_>| task.arrays.vectors.iter().any(|vectors| matches!(vectors, Vectors::F64(_)));
    let mut reader: Option<Reader<'_>> = None;
    let mut block = Block::default();
    let mut frames = Vec::new();
    loop {
        let Some(mut task) = tasks.lock().unwrap_or_else(PoisonError::into_inner).pop() else { return Ok(()) };
        watch.check()?;
        let rows = task.arrays.times.len();
        frames.clear();
        frames.extend((task.first_row..task.first_row + rows as u64).map(|row| request.frames.get(row)));
        let widen = widened(&task);
        let wide = widen && scanned.parts.iter().all(|part| part.decoder.wide());
        let reader = match &mut reader {
            Some(reader) => reader,
            none => {
                let native = request.native || (widen && !wide);
                none.insert(Reader::new(trajectory, fields, request.atoms.clone(), native)?)
            }
        };
        if wide {
            read_wide(reader, &frames, request, &mut task.arrays)?;
        } else if widen || request.columns.is_some() {
            block.reset(frames.iter().copied(), request.atoms.len(), fields);
            reader.read(&frames, &mut block.as_mut())?;
            copy_block(scanned, request, widen, &block, &mut task.arrays);
        } else {
            reader.read(&frames, &mut task.arrays.as_block(request.atoms.len()))?;
        }
        watch.done.fetch_add(rows as u64, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Reads into float64 without a detour over float32: every part has decoders that can.
fn read_wide(reader: &mut Reader<'_>, frames: &[u64], request: &BulkRequest, arrays: &mut Arrays<'_>) -> Result<()> {
    let n_selected = request.atoms.len();
    let [positions, velocities, forces] = &mut arrays.vectors;
    let given = [positions, velocities, forces].map(|vectors| match vectors {
        Vectors::F64(values) => Some(&mut **values),
        Vectors::Absent | Vectors::F32(_) => None,
    });
    let columns = request.columns.as_deref();
    let mut held: [Vec<f64>; 3] = Default::default();
    if columns.is_some() {
        for (held, _) in held.iter_mut().zip(&given).filter(|(_, given)| given.is_some()) {
            held.resize(frames.len() * n_selected * 3, 0.0);
        }
    }
    let mut given = given.map(Option::unwrap_or_default);
    let buffers = if columns.is_some() {
        held.each_mut().map(|held| &mut held[..])
    } else {
        given.each_mut().map(|given| &mut **given)
    };
    let mut block = BlockMut {
        n_selected,
        positions: &mut [],
        velocities: &mut [],
        forces: &mut [],
        wide: buffers,
        cells: arrays.cells,
        steps: arrays.steps,
        times: arrays.times,
    };
    reader.read(frames, &mut block)?;
    let width = 3 * n_selected;
    for (held, given) in held.iter().zip(given) {
        for (row, values) in held.chunks_exact(width.max(1)).enumerate() {
            copy_row(values, columns, row, given, |value| value);
        }
    }
    Ok(())
}

impl Arrays<'_> {
    /// The arrays as a decoder sees them; none of them is `F64`.
    fn as_block(&mut self, n_selected: usize) -> BlockMut<'_> {
        let [positions, velocities, forces] = self.vectors.each_mut().map(|vectors| match vectors {
            Vectors::F32(values) => &mut **values,
            Vectors::Absent | Vectors::F64(_) => &mut [],
        });
        BlockMut {
            n_selected,
            positions,
            velocities,
            forces,
            wide: [&mut [], &mut [], &mut []],
            cells: self.cells,
            steps: self.steps,
            times: self.times,
        }
    }
}

/// Copies a block into the caller's arrays: columns in the caller's order, widened and scaled where asked.
fn copy_block(scanned: &Scanned, request: &BulkRequest, widen: bool, block: &Block, arrays: &mut Arrays<'_>) {
    arrays.cells.copy_from_slice(&block.cells);
    arrays.steps.copy_from_slice(&block.steps);
    arrays.times.copy_from_slice(&block.times);
    let sources = [&block.positions, &block.velocities, &block.forces];
    let width = 3 * request.atoms.len();
    for (row, &frame) in block.frames.iter().enumerate() {
        let scales = scanned.parts[scanned.joined.piece_of(frame).part].scales();
        let factors = [scales.length, scales.velocity, scales.force];
        let rescale = widen && !request.native;
        if rescale {
            arrays.cells[row].iter_mut().flatten().for_each(|value| *value *= scales.length);
            arrays.times[row] *= scales.time;
        }
        for ((vectors, source), factor) in arrays.vectors.iter_mut().zip(sources).zip(factors) {
            let factor = if rescale { f64::from(factor) } else { 1.0 };
            let Some(values) = source.get(row * width..(row + 1) * width) else { continue };
            let columns = request.columns.as_deref();
            match vectors {
                Vectors::Absent => {}
                Vectors::F32(out) => copy_row(values, columns, row, out, |value| value),
                Vectors::F64(out) => copy_row(values, columns, row, out, |value| f64::from(value) * factor),
            }
        }
    }
}

fn copy_row<V: Copy, T>(values: &[V], columns: Option<&[u32]>, row: usize, out: &mut [T], convert: impl Fn(V) -> T) {
    match columns {
        None => {
            let width = values.len();
            let out = &mut out[row * width..(row + 1) * width];
            out.iter_mut().zip(values).for_each(|(out, &value)| *out = convert(value));
        }
        Some(columns) => {
            let width = 3 * columns.len();
            let out = &mut out[row * width..(row + 1) * width];
            for (out, &column) in out.chunks_exact_mut(3).zip(columns) {
                let from = &values[3 * column as usize..3 * column as usize + 3];
                out.iter_mut().zip(from).for_each(|(out, &value)| *out = convert(value));
            }
        }
    }
}
