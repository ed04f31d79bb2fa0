//! The pipeline's end for arrays: many frames into arrays of the caller, on several threads.

use crate::error::{Error, ErrorKind, Result};
use crate::frame::{Block, BlockMut, Cell, Fields};
use crate::pipeline::pool::{Pool, Progress};
use crate::pipeline::reader::Reader;
use crate::plan::{BATCH_BYTES, DEFAULT_MEMORY, redecoded_frames, row_bytes, trajectory_coupling};
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
    /// Splits off the first `n` values.
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
pub struct ArrayRequest {
    /// Frames, one a row.
    pub frames: FrameSelection,
    /// Atoms, one a column in the requested order.
    pub atoms: AtomSelection,
    /// The file's own units instead of angstrom and ps.
    pub native: bool,
    /// Threads.
    pub workers: usize,
    /// Working memory besides the arrays in bytes; 0 means [`DEFAULT_MEMORY`].
    pub memory: u64,
}

impl ArrayRequest {
    fn width(&self) -> usize {
        3 * self.atoms.n_requested()
    }
}

/// Rows that are put in order at a time, where frames are requested in any: a bound of what that takes in memory.
const MOST_SORTED: usize = 1 << 18;

/// Frames for one worker, which are neighbours in the order of the files, and the rows of the caller for them.
struct Task<'a> {
    frames: FrameSelection,
    rows: Rows<'a>,
}

/// Rows of the caller's arrays.
enum Rows<'a> {
    /// Neighbours, into which is read at once where they are what decoders give.
    Adjacent(Arrays<'a>),
    /// Anywhere, one by one.
    Scattered(Vec<Arrays<'a>>),
}

/// Reads `request` into `arrays`.
///
/// # Errors
/// `OutOfRange`, `MemoryLimit`, `InvalidArgument` for arrays of another size; those of [`Reader::read`].
pub fn read(trajectory: &Trajectory, request: &ArrayRequest, arrays: Arrays<'_>, progress: &Progress) -> Result<()> {
    let scanned = trajectory.scanned().ok_or_else(not_scanned)?;
    request.frames.check(scanned.concatenation.n_frames)?;
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
    let held =
        request.atoms.columns().is_some() || arrays.vectors.iter().any(|vectors| matches!(vectors, Vectors::F64(_)));
    let Tasks { workers, list } = match &request.frames {
        FrameSelection::List(list) if !list.is_sorted() => sorted_tasks(scanned, request, list, fields, arrays)?,
        frames => adjacent_tasks(scanned, request, frames, fields, held, arrays)?,
    };
    let pool = Pool::new(list, progress);
    pool.run(workers, |_| work(trajectory, scanned, request, fields, &pool))?;
    Ok(())
}

/// What is to be done, in the order of the files, and by how many workers.
struct Tasks<'a> {
    workers: usize,
    list: Vec<Task<'a>>,
}

/// Tasks of neighbouring rows: frames are requested in the order of the files, or in the opposite one.
fn adjacent_tasks<'a>(
    scanned: &Scanned,
    request: &ArrayRequest,
    frames: &FrameSelection,
    fields: Fields,
    held: bool,
    mut arrays: Arrays<'a>,
) -> Result<Tasks<'a>> {
    let rows = arrays.times.len();
    let (workers, task_rows) = sizes(scanned, request, fields, held)?;
    let mut list = Vec::new();
    let mut first = 0;
    while first < rows {
        let end = task_end(scanned, frames, fields, first, rows.min(first + task_rows));
        let target = Rows::Adjacent(arrays.split_off_front(end - first, request.width()));
        list.push(Task { frames: frames.part(first as u64..end as u64), rows: target });
        first = end;
    }
    Ok(Tasks { workers, list })
}

/// Tasks of frames that are requested in any order: sorted once, so that what is read of the files, and which chunks are
/// decoded, is what it is for the sorted request. They end where chunks do.
fn sorted_tasks<'a>(
    scanned: &Scanned,
    request: &ArrayRequest,
    frames: &[u64],
    fields: Fields,
    mut arrays: Arrays<'a>,
) -> Result<Tasks<'a>> {
    let (workers, mut task_rows) = sizes(scanned, request, fields, true)?;
    if trajectory_coupling(scanned, fields).1.frames <= 1 {
        // what is copied to its row is still in the cache then
        let in_cache = BATCH_BYTES / row_bytes(request.atoms.len(), fields);
        task_rows = task_rows.min(in_cache.max(1) as usize);
    }
    let mut list = Vec::new();
    for window in frames.chunks(MOST_SORTED) {
        let mut rows: Vec<(u64, Arrays<'a>)> =
            window.iter().map(|&frame| (frame, arrays.split_off_front(1, request.width()))).collect();
        rows.sort_by_key(|(frame, _)| *frame);
        let sorted = FrameSelection::List(rows.iter().map(|(frame, _)| *frame).collect());
        let mut rest = rows.into_iter();
        let mut first = 0;
        while first < window.len() {
            let end = task_end(scanned, &sorted, fields, first, window.len().min(first + task_rows));
            let rows = Rows::Scattered(rest.by_ref().take(end - first).map(|(_, row)| row).collect());
            list.push(Task { frames: sorted.part(first as u64..end as u64), rows });
            first = end;
        }
    }
    Ok(Tasks { workers, list })
}

/// The end of a task that begins with frame `first` of a selection and may reach to `most`: where a chunk ends, if one
/// does so on the way.
fn task_end(scanned: &Scanned, frames: &FrameSelection, fields: Fields, first: usize, most: usize) -> usize {
    let ends_chunk = |at: &usize| redecoded_frames(scanned, frames, fields, *at as u64) == 0;
    if most as u64 >= frames.len() { most } else { (first + 1..=most).rev().find(ends_chunk).unwrap_or(most) }
}

/// Workers, and rows that one of them reads at a time; `held`: a worker holds them in memory of its own first.
fn sizes(scanned: &Scanned, request: &ArrayRequest, fields: Fields, held: bool) -> Result<(usize, usize)> {
    let rows = usize::try_from(request.frames.len()).unwrap_or(usize::MAX);
    let memory = if request.memory == 0 { DEFAULT_MEMORY } else { request.memory };
    let row = row_bytes(request.atoms.len(), fields);
    let (largest, coupling) = trajectory_coupling(scanned, fields);
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
    if coupling.frames <= 1 {
        return Ok((workers, task_rows));
    }
    // frames that share a chunk go to one worker; only what is reordered or widened is held in memory
    let coupled = coupling.frames.min(rows as u64) as usize;
    let most = if held { by_memory } else { rows };
    Ok((workers, task_rows.next_multiple_of(coupled.max(1)).clamp(1, most.max(1))))
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
    request: &ArrayRequest,
    fields: Fields,
    pool: &Pool<'_, Task<'_>>,
) -> Result<()> {
    let mut reader: Option<Reader<'_>> = None;
    let mut block = Block::default();
    let mut frames = Vec::new();
    while let Some(Task { frames: wanted, mut rows }) = pool.next()? {
        frames.clear();
        frames.extend((0..wanted.len()).map(|row| wanted.get(row)));
        let widen = rows.is_f64();
        let wide = widen && scanned.parts.iter().all(|part| part.decoder.wide());
        let reader = match &mut reader {
            Some(reader) => reader,
            none => {
                let native = request.native || (widen && !wide);
                none.insert(Reader::new(trajectory, fields, request.atoms.clone(), native)?)
            }
        };
        if wide {
            read_wide(reader, &frames, request, &mut rows)?;
        } else {
            match &mut rows {
                Rows::Adjacent(arrays) if !widen && request.atoms.columns().is_none() => {
                    reader.read(&frames, &mut arrays.as_block(request.atoms.len()))?;
                }
                rows => {
                    block.reset(frames.iter().copied(), request.atoms.len(), fields);
                    reader.read(&frames, &mut block.as_mut())?;
                    let width = request.width();
                    rows.for_each(width, |row, arrays| copy_row_of_block(scanned, request, widen, &block, row, arrays));
                }
            }
        }
        pool.progress.done.fetch_add(frames.len() as u64, std::sync::atomic::Ordering::Relaxed);
    }
    Ok(())
}

impl<'a> Rows<'a> {
    fn first(&self) -> Option<&Arrays<'a>> {
        match self {
            Self::Adjacent(arrays) => Some(arrays),
            Self::Scattered(rows) => rows.first(),
        }
    }

    /// Whether some vectors are wanted as float64.
    fn is_f64(&self) -> bool {
        self.first().is_some_and(|arrays| arrays.vectors.iter().any(|vectors| matches!(vectors, Vectors::F64(_))))
    }

    /// Calls `fill` with each row, as arrays of one row.
    fn for_each(&mut self, width: usize, mut fill: impl FnMut(usize, &mut Arrays<'_>)) {
        match self {
            Self::Adjacent(arrays) => {
                for row in 0..arrays.times.len() {
                    fill(row, &mut arrays.row(row, width));
                }
            }
            Self::Scattered(rows) => rows.iter_mut().enumerate().for_each(|(row, arrays)| fill(row, arrays)),
        }
    }
}

/// Reads into float64 without a detour over float32: every part has decoders that can.
fn read_wide(reader: &mut Reader<'_>, frames: &[u64], request: &ArrayRequest, rows: &mut Rows<'_>) -> Result<()> {
    let n_selected = request.atoms.len();
    let columns = request.atoms.columns();
    if let (Rows::Adjacent(arrays), None) = (&mut *rows, columns) {
        let wide = arrays.vectors.each_mut().map(|vectors| match vectors {
            Vectors::F64(values) => &mut **values,
            Vectors::Absent | Vectors::F32(_) => &mut [],
        });
        let (cells, steps, times) = (&mut *arrays.cells, &mut *arrays.steps, &mut *arrays.times);
        return reader.read(frames, &mut wide_block(n_selected, wide, cells, steps, times));
    }
    let wanted = rows.first().map(|arrays| arrays.vectors.each_ref().map(|vectors| vectors.len().is_some()));
    let mut held: [Vec<f64>; 3] = Default::default();
    for (held, wanted) in held.iter_mut().zip(wanted.unwrap_or_default()) {
        held.resize(if wanted { frames.len() * n_selected * 3 } else { 0 }, 0.0);
    }
    let (mut cells, mut steps, mut times) =
        (vec![[[0.0; 3]; 3]; frames.len()], vec![0; frames.len()], vec![0.0; frames.len()]);
    let wide = held.each_mut().map(|held| &mut held[..]);
    reader.read(frames, &mut wide_block(n_selected, wide, &mut cells, &mut steps, &mut times))?;
    let width = 3 * n_selected;
    rows.for_each(request.width(), |row, arrays| {
        (arrays.cells[0], arrays.steps[0], arrays.times[0]) = (cells[row], steps[row], times[row]);
        for (held, vectors) in held.iter().zip(&mut arrays.vectors) {
            if let Vectors::F64(out) = vectors {
                copy_row(&held[row * width..(row + 1) * width], columns, out, |value| value);
            }
        }
    });
    Ok(())
}

fn wide_block<'a>(
    n_selected: usize,
    wide: [&'a mut [f64]; 3],
    cells: &'a mut [Cell],
    steps: &'a mut [i64],
    times: &'a mut [f64],
) -> BlockMut<'a> {
    let [positions, velocities, forces] = [&mut [][..], &mut [], &mut []];
    BlockMut { n_selected, positions, velocities, forces, wide, cells, steps, times }
}

impl Arrays<'_> {
    /// One row.
    fn row(&mut self, row: usize, width: usize) -> Arrays<'_> {
        let values = row * width..(row + 1) * width;
        Arrays {
            vectors: self.vectors.each_mut().map(|vectors| match vectors {
                Vectors::Absent => Vectors::Absent,
                Vectors::F32(out) => Vectors::F32(&mut out[values.clone()]),
                Vectors::F64(out) => Vectors::F64(&mut out[values.clone()]),
            }),
            cells: &mut self.cells[row..=row],
            steps: &mut self.steps[row..=row],
            times: &mut self.times[row..=row],
        }
    }

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

/// Copies one row of a block into the caller's: columns in the caller's order, widened and scaled where asked.
fn copy_row_of_block(
    scanned: &Scanned,
    request: &ArrayRequest,
    widen: bool,
    block: &Block,
    row: usize,
    arrays: &mut Arrays<'_>,
) {
    (arrays.cells[0], arrays.steps[0], arrays.times[0]) = (block.cells[row], block.steps[row], block.times[row]);
    let mut factors = [1.0; 3];
    if widen && !request.native {
        let frame = block.frames[row];
        let span = scanned.concatenation.span_of(frame);
        let scales = scanned.parts[span.part].scales;
        factors = [scales.length, scales.velocity, scales.force].map(f64::from);
        arrays.cells[0].iter_mut().flatten().for_each(|value| *value *= scales.length);
        let own = span.kept.start + (frame - span.first_frame);
        arrays.times[0] = scanned.time_of(span.part, own, arrays.times[0] * scales.time);
    }
    let sources = [&block.positions, &block.velocities, &block.forces];
    let width = 3 * request.atoms.len();
    let columns = request.atoms.columns();
    for ((vectors, source), factor) in arrays.vectors.iter_mut().zip(sources).zip(factors) {
        let Some(values) = source.get(row * width..(row + 1) * width) else { continue };
        match vectors {
            Vectors::Absent => {}
            Vectors::F32(out) => copy_row(values, columns, out, |value| value),
            Vectors::F64(out) => copy_row(values, columns, out, |value| f64::from(value) * factor),
        }
    }
}

fn copy_row<V: Copy, T>(values: &[V], columns: Option<&[u32]>, out: &mut [T], convert: impl Fn(V) -> T) {
    match columns {
        None => out.iter_mut().zip(values).for_each(|(out, &value)| *out = convert(value)),
        Some(columns) => {
            for (out, &column) in out.chunks_exact_mut(3).zip(columns) {
                let from = &values[3 * column as usize..3 * column as usize + 3];
                out.iter_mut().zip(from).for_each(|(out, &value)| *out = convert(value));
            }
        }
    }
}
