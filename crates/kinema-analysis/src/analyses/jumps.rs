//! Jumps of atoms to the other side of the cell, counted from frame to frame; what [`crate::transforms::nojump`] begins with.
//!
//! A jump is the whole number nearest to the step of a reduced coordinate. A partial has the positions of its first and of its
//! last frame; where two neighbours are merged the jumps between them are added. Sums are of whole numbers: they are the same
//! wherever leaves begin.

use std::sync::Arc;

use kinema_core::frame::lattice::ROUNDING;
use kinema_core::frame::{Cell, Fields};
use kinema_core::reduce::{Frame, Frames, Kernel, Needs, ResultArray};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};

use super::stations::{LongestStep, Stations};
use crate::arguments::Arguments;
use crate::cpu::{Cpu, dispatch};
use crate::geometry::vectors::{all, dot};
use crate::lanes::{ATOMS, Quad};
use crate::partials::bytes::{Reader, Writer};
use crate::partials::series::nothing_gathered;
use crate::registry::KernelInfo;

/// Groups of four atoms that go through all frames together: what is kept of them stays in the first-level cache.
const GROUPS: usize = 16;
/// Beyond so many cells from the origin a position says nothing of where in the cell an atom is.
const MOST_CELLS: f64 = (1_u64 << 20) as f64;

/// `atoms` (all where they are left out), `stations`: the numbers of the frames, ascending, up to which jumps are summed up.
/// Results: "stations" (stations, atoms, 3), the edges that are to be added to each atom at them, whole numbers of 32 bits
/// with a sign as those without one; "longest", "longest_frame" (1,): the longest step of a reduced coordinate without its
/// jump, and the frame behind it.
pub const KERNEL: KernelInfo = KernelInfo {
    id: ID,
    make: |arguments| {
        let atoms = arguments.unique_atoms_or_all("atoms")?;
        let stations = Stations::from_arguments(arguments)?;
        Ok(Arc::new(Jumps { atoms, stations, cpu: arguments.cpu() }))
    },
    examples: |n_atoms, _| {
        let some = (0..n_atoms).step_by(2).collect::<Vec<_>>();
        let arguments = Arguments::new(n_atoms).with("stations", Stations::example());
        vec![arguments.clone(), arguments.with("atoms", some)]
    },
};

const ID: &str = "jumps/1";

/// Counts jumps.
#[derive(Debug)]
struct Jumps {
    atoms: AtomSelection,
    stations: Stations,
    cpu: Cpu,
}

/// Positions of one frame, and what makes reduced coordinates of them.
#[derive(Debug, Clone, Default)]
struct Row {
    positions: Vec<f32>,
    dual: Cell,
}

/// What some frames have.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    n_frames: u64,
    first_frame: u64,
    first: Row,
    last: Row,
    /// For each station the edges to be added since the one before, or since the first frame.
    stations: Vec<i32>,
    /// The same at the last frame.
    rest: Vec<i32>,
    longest: LongestStep,
}

/// Room for the rows of a call.
#[derive(Debug, Default)]
pub(crate) struct Room {
    duals: Vec<Cell>,
    steps: Vec<Steps>,
}

/// Of one frame, four atoms at a time: the longest steps, and the sum of the squares of all reduced coordinates.
#[derive(Debug, Clone, Copy)]
struct Steps {
    longest: [f64; 4],
    squares: [f64; 4],
}

impl Steps {
    const NONE: Self = Self { longest: [0.0; 4], squares: [0.0; 4] };

    /// Whether all coordinates are surely finite and within reach.
    fn are_sure(&self) -> bool {
        self.squares.iter().sum::<f64>() <= MOST_CELLS * MOST_CELLS
    }

    fn longest(&self) -> f64 {
        self.longest.iter().copied().fold(0.0, f64::max)
    }
}

/// Four atoms: their reduced coordinates in the frame before, and edges that are to be added, by coordinate.
#[derive(Debug, Clone, Copy, Default)]
struct Four {
    places: [[f64; 4]; 3],
    counts: [[f64; 4]; 3],
}

/// Adds the jumps to `rows` (frames x atoms x 3), from `before` on and from frame to frame.
#[inline(always)]
fn count<Q: Quad>(rows: &[f32], duals: &[Cell], before: &Row, sums: &mut [i32], steps: &mut [Steps]) {
    let width = before.positions.len();
    let group = 3 * ATOMS * GROUPS;
    for start in (0..width).step_by(group) {
        let end = width.min(start + group);
        let columns = start..end;
        let mut groups = [Four::default(); GROUPS];
        let of_before = before.positions[columns.clone()].as_chunks::<3>().0;
        let dual = [all::<Q>(before.dual[0]), all(before.dual[1]), all(before.dual[2])];
        for (group, atoms) in groups.iter_mut().zip(of_before.chunks(ATOMS)) {
            let points = four::<Q>(atoms);
            group.places = [dot(dual[0], points).store(), dot(dual[1], points).store(), dot(dual[2], points).store()];
        }
        for ((row, dual), steps) in rows.chunks_exact(width).zip(duals).zip(steps.iter_mut()) {
            let atoms = row[columns.clone()].as_chunks::<3>().0;
            let dual = [all::<Q>(dual[0]), all(dual[1]), all(dual[2])];
            let mut seen = [Q::load(&steps.longest), Q::load(&steps.squares)];
            let (fours, rest) = atoms.as_chunks::<ATOMS>();
            for (group, four) in groups.iter_mut().zip(fours) {
                seen = step(group, dual, Q::xyz_of_row(four), seen);
            }
            if !rest.is_empty() {
                seen = step(&mut groups[fours.len()], dual, four(rest), seen);
            }
            *steps = Steps { longest: seen[0].store(), squares: seen[1].store() };
        }
        for (atom, sums) in sums[columns].as_chunks_mut::<3>().0.iter_mut().enumerate() {
            for (sum, counts) in sums.iter_mut().zip(&groups[atom / ATOMS].counts) {
                *sum = sum.wrapping_add(counts[atom % ATOMS] as i32);
            }
        }
    }
}

/// Four atoms go to where they are in the next frame. `seen`: the longest step and the sum of squares so far.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "functions of iterators are compiled for every processor")]
fn step<Q: Quad>(group: &mut Four, dual: [[Q; 3]; 3], points: [Q; 3], seen: [Q; 2]) -> [Q; 2] {
    let (mut longest, mut squares) = (Q::all(0.0), Q::all(0.0));
    for edge in 0..3 {
        let now = dot(dual[edge], points);
        let by = now.subtract(Q::load(&group.places[edge]));
        let jump = by.add(Q::all(ROUNDING)).subtract(Q::all(ROUNDING));
        group.counts[edge] = Q::load(&group.counts[edge]).subtract(jump).store();
        longest = longest.maximum(by.subtract(jump).magnitude());
        squares = now.multiply_add(now, squares);
        group.places[edge] = now.store();
    }
    [seen[0].maximum(longest), seen[1].add(squares)]
}

/// Up to four atoms: the last of them stands for those that are missing.
#[inline(always)]
fn four<Q: Quad>(atoms: &[[f32; 3]]) -> [Q; 3] {
    let last = atoms.len() - 1;
    Q::xyz([&atoms[0], &atoms[last.min(1)], &atoms[last.min(2)], &atoms[last]])
}

impl Jumps {
    fn count(&self, rows: &[f32], duals: &[Cell], before: &Row, sums: &mut [i32], steps: &mut [Steps]) {
        dispatch!(
            self.cpu,
            (),
            count,
            (
                rows: &[f32] = rows,
                duals: &[Cell] = duals,
                before: &Row = before,
                sums: &mut [i32] = sums,
                steps: &mut [Steps] = steps,
            )
        );
    }

    /// An error for positions that are not finite, or too far away for jumps to be counted.
    #[cold]
    fn check(frame: &Frame<'_>, dual: &Cell) -> Result<()> {
        let atoms = frame.positions(0).as_chunks::<3>().0;
        if atoms.as_flattened().iter().any(|x| !x.is_finite()) {
            return Err(frame.not_finite(Fields::POSITIONS, 0).at_frame(frame.number));
        }
        let far = |atom: &[f32; 3], dual: &[f64; 3]| {
            let reduced: f64 = atom.iter().zip(dual).map(|(&x, dual)| f64::from(x) * dual).sum();
            reduced.abs() > MOST_CELLS
        };
        if atoms.iter().any(|atom| dual.iter().any(|dual| far(atom, dual))) {
            let what = format!("an atom is more than {MOST_CELLS} cells away: its jumps cannot be counted");
            return Err(Error::new(ErrorKind::Corrupt, what).at_frame(frame.number));
        }
        Ok(())
    }

    /// Adds frames of a call, `of_run` of its rows, of which the last one alone may be a station.
    fn add(
        &self,
        counted: &mut Counted,
        frames: &Frames<'_>,
        of_run: std::ops::Range<usize>,
        room: &mut Room,
    ) -> Result<()> {
        let width = 3 * self.atoms.len();
        let rows = &frames.all(Fields::POSITIONS, 0)[of_run.start * width..of_run.end * width];
        let duals = &room.duals[of_run.clone()];
        if counted.n_frames == 0 {
            counted.first_frame = frames.numbers()[of_run.start];
            counted.first = Row { positions: rows[..width].to_vec(), dual: duals[0] };
            counted.last = counted.first.clone();
            counted.rest = vec![0; width];
        }
        room.steps.clear();
        room.steps.resize(of_run.len(), Steps::NONE);
        self.count(rows, duals, &counted.last, &mut counted.rest, &mut room.steps);
        for (row, steps) in of_run.clone().zip(&room.steps) {
            let frame = frames.frame(row);
            if !steps.are_sure() {
                Self::check(&frame, &room.duals[row])?;
            }
            counted.longest.see(steps.longest(), frame.number);
        }
        counted.n_frames += of_run.len() as u64;
        counted.last.positions.copy_from_slice(&rows[rows.len() - width..]);
        counted.last.dual = duals[duals.len() - 1];
        Ok(())
    }
}

impl Kernel for Jumps {
    type Partial = Counted;
    type Scratch = Room;

    fn id(&self) -> &'static str {
        ID
    }

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS | Fields::CELL, atom_sets: vec![self.atoms.clone()] }
    }

    fn empty(&self) -> Counted {
        Counted::default()
    }

    fn partial_bytes(&self) -> u64 {
        // two rows and a sum
        36 * self.atoms.len() as u64
    }

    fn kept_bytes(&self) -> u64 {
        12 * self.atoms.len() as u64 * self.stations.len() as u64
    }

    fn accumulate(&self, counted: &mut Counted, frames: &Frames<'_>, room: &mut Room) -> Result<()> {
        room.duals.clear();
        for frame in frames.iter() {
            let lattice = frame.lattice()?;
            if lattice.is_open() {
                let what = "the frame has no periodic cell";
                return Err(Error::new(ErrorKind::InvalidArgument, what).at_frame(frame.number));
            }
            room.duals.push(lattice.dual_of_edges());
        }
        let mut start = 0;
        for row in 0..frames.rows() {
            let station = self.stations.contains(frames.numbers()[row]);
            if station || row + 1 == frames.rows() {
                self.add(counted, frames, start..row + 1, room)?;
                start = row + 1;
            }
            if station {
                counted.stations.extend_from_slice(&counted.rest);
                counted.rest.fill(0);
            }
        }
        Ok(())
    }

    fn merge(&self, left: &mut Counted, mut right: Counted) -> Result<()> {
        if right.n_frames == 0 {
            return Ok(());
        }
        if left.n_frames == 0 {
            *left = right;
            return Ok(());
        }
        let mut steps = [Steps::NONE];
        self.count(&right.first.positions, &[right.first.dual], &left.last, &mut left.rest, &mut steps);
        left.longest.see(steps[0].longest(), right.first_frame);
        left.longest.merge(right.longest);
        let until = if right.stations.is_empty() { &mut right.rest } else { &mut right.stations };
        for (sum, before) in until.iter_mut().zip(&left.rest) {
            *sum = sum.wrapping_add(*before);
        }
        left.n_frames += right.n_frames;
        left.stations.append(&mut right.stations);
        left.rest = right.rest;
        left.last = right.last;
        Ok(())
    }

    fn finish(&self, counted: Counted) -> Result<Vec<ResultArray>> {
        if counted.n_frames == 0 {
            return Err(nothing_gathered(ID));
        }
        let width = 3 * self.atoms.len();
        let mut sums: Vec<u32> = counted.stations.iter().map(|&sum| sum as u32).collect();
        for at in width..sums.len() {
            sums[at] = sums[at].wrapping_add(sums[at - width]);
        }
        let stations = ResultArray::new("stations", vec![sums.len() / width, self.atoms.len(), 3], sums);
        Ok([stations].into_iter().chain(counted.longest.results()).collect())
    }

    fn to_bytes(&self, counted: &Counted) -> Result<Vec<u8>> {
        let mut writer = Writer::new(ID);
        let width = 3 * self.atoms.len();
        for number in [width as u64, counted.n_frames, (counted.stations.len() / width) as u64] {
            writer.u64(number);
        }
        if counted.n_frames > 0 {
            writer.u64(counted.first_frame);
            counted.longest.write(&mut writer);
            for row in [&counted.first, &counted.last] {
                writer.numbers(row.dual.as_flattened());
                writer.numbers(&row.positions);
            }
            for sums in [&counted.stations, &counted.rest] {
                writer.numbers(&sums.iter().map(|&sum| sum as u32).collect::<Vec<_>>());
            }
        }
        Ok(writer.finish())
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Counted> {
        let mut reader = Reader::new(ID, bytes)?;
        let width = 3 * self.atoms.len() as u64;
        reader.same(width, "number of coordinates")?;
        let mut counted = Counted { n_frames: reader.u64("number of frames")?, ..Counted::default() };
        let n_stations = self.stations.read_number(&mut reader, counted.n_frames)?;
        if counted.n_frames > 0 {
            counted.first_frame = reader.u64("first frame")?;
            counted.longest = LongestStep::read(&mut reader)?;
            counted.first = row(&mut reader, width)?;
            counted.last = row(&mut reader, width)?;
            counted.stations = sums(&mut reader, n_stations.saturating_mul(width))?;
            counted.rest = sums(&mut reader, width)?;
        }
        reader.finish()?;
        Ok(counted)
    }
}

fn row(reader: &mut Reader<'_>, width: u64) -> Result<Row> {
    let numbers: Vec<f64> = reader.numbers(9, "cell")?;
    let dual = std::array::from_fn(|edge| std::array::from_fn(|x| numbers[3 * edge + x]));
    Ok(Row { dual, positions: reader.numbers(width, "positions")? })
}

fn sums(reader: &mut Reader<'_>, count: u64) -> Result<Vec<i32>> {
    let numbers: Vec<u32> = reader.numbers(count, "sums of jumps")?;
    Ok(numbers.into_iter().map(|sum| sum as i32).collect())
}
