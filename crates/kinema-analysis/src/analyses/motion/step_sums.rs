//! Sums over the steps of atoms from frame to frame, kept at stations: the kernel for `jumps` and `displacements`.
//!
//! A partial has the positions of its first and last frame; when two neighbours are merged, the step between them is
//! added. Sums are exact: they are the same wherever leaves begin.

use kinema_core::frame::{Cell, Fields};
use kinema_core::reduce::{Frames, Kernel, Needs, Number, ResultArray};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, Result};

use super::stations::{LongestStep, Stations};
use crate::arguments::Arguments;
use crate::partials::bytes::{Reader, Writer};
use crate::partials::series::nothing_gathered;
use crate::transforms::displacement::Edges;
use crate::transforms::images::{CellOfFrame, Fault};

/// A number whose sums are the same in any order.
pub trait Exact: Number {
    /// The sum.
    fn plus(self, other: Self) -> Self;
}

/// Whole numbers with a sign, as those without one.
impl Exact for u32 {
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
}

/// Multiples of one small number.
impl Exact for f64 {
    fn plus(self, other: Self) -> Self {
        self + other
    }
}

/// Positions of one frame, and its cell.
#[derive(Debug, Clone, Default)]
pub struct Row {
    pub(super) positions: Vec<f32>,
    pub(super) cell: Edges,
}

/// Frames that follow each other.
pub struct Rows<'a> {
    /// Frames x atoms x 3.
    pub(super) positions: &'a [f32],
    pub(super) cells: &'a [Edges],
    pub(super) numbers: &'a [u64],
}

/// Defines the summand of a step.
pub trait Steps: Send + Sync + 'static {
    /// Name and version of the partial's bytes.
    const ID: &'static str;
    /// Sum for each coordinate of each atom.
    type Sum: Exact;
    /// Buffers that each worker keeps for it.
    type Room: Default + Send + 'static;

    /// Adds the steps to `rows`, from `before` on and from frame to frame.
    ///
    /// # Errors
    /// The fault of an atom, by its column, and the number of the frame.
    fn add(
        &self,
        before: &Row,
        rows: &Rows<'_>,
        sums: &mut [Self::Sum],
        longest: &mut LongestStep,
        room: &mut Self::Room,
    ) -> std::result::Result<(), (Fault, u64)>;

    /// Whether what atoms have moved by in all can still be added to positions.
    fn is_within(_sum: Self::Sum) -> bool {
        true
    }
}

/// Sums up steps of some atoms. Arguments: `atoms` (default: all), `stations`: ascending numbers of the frames up to
/// which sums are kept. Results: "stations" (stations, atoms, 3); "longest", "longest_frame" (1,): the longest step of
/// a reduced coordinate without its jump, and the frame that ends the step.
pub(super) struct StepSums<S> {
    steps: S,
    atoms: AtomSelection,
    stations: Stations,
}

/// Sums of consecutive frames.
#[derive(Debug, Default)]
pub(crate) struct Summed<N> {
    n_frames: u64,
    first_frame: u64,
    first: Row,
    last: Row,
    /// For each station, the sums since the station before, or since the first frame.
    stations: Vec<N>,
    /// The same at the last frame.
    rest: Vec<N>,
    longest: LongestStep,
}

/// Buffers of one worker, kept from call to call.
#[derive(Debug, Default)]
pub(crate) struct Room<R> {
    cell: CellOfFrame,
    cells: Vec<Edges>,
    steps: R,
}

impl<S: Steps> StepSums<S> {
    pub(super) fn new(steps: S, arguments: &Arguments) -> Result<Self> {
        let atoms = arguments.unique_atoms_or_all("atoms")?;
        Ok(Self { steps, atoms, stations: Stations::from_arguments(arguments)? })
    }

    fn width(&self) -> usize {
        3 * self.atoms.len()
    }

    fn error(&self, (fault, frame): (Fault, u64)) -> Error {
        fault.into_atom_error(&self.atoms).with_frame(frame)
    }
}

/// Arguments for the tests of laws.
pub(super) fn examples(n_atoms: u32) -> Vec<Arguments> {
    let some = (0..n_atoms).step_by(2).collect::<Vec<_>>();
    let arguments = Arguments::new(n_atoms).with("stations", Stations::example());
    vec![arguments.clone(), arguments.with("atoms", some)]
}

impl<S: Steps> Kernel for StepSums<S> {
    type Partial = Summed<S::Sum>;
    type Scratch = Room<S::Room>;

    fn id(&self) -> &'static str {
        S::ID
    }

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS | Fields::CELL, atom_sets: vec![self.atoms.clone()] }
    }

    fn empty(&self) -> Summed<S::Sum> {
        Summed::default()
    }

    fn partial_bytes(&self) -> u64 {
        // two rows and a sum
        (24 + 3 * S::Sum::BYTES as u64) * self.atoms.len() as u64
    }

    fn kept_bytes(&self) -> u64 {
        3 * S::Sum::BYTES as u64 * self.atoms.len() as u64 * self.stations.len() as u64
    }

    fn accumulate(&self, summed: &mut Summed<S::Sum>, frames: &Frames<'_>, room: &mut Room<S::Room>) -> Result<()> {
        let (width, numbers, all) = (self.width(), frames.numbers(), frames.all(Fields::POSITIONS, 0));
        room.cells.clear();
        for (stamp, &number) in frames.stamps().iter().zip(numbers) {
            let cell = room.cell.get(stamp).map_err(|error| error.with_frame(number))?;
            room.cells.push(Edges::from_cell(cell));
        }
        let mut start = 0;
        for row in 0..frames.rows() {
            let is_station = self.stations.contains(numbers[row]);
            if !is_station && row + 1 < frames.rows() {
                continue;
            }
            let (positions, cells) = (&all[start * width..(row + 1) * width], &room.cells[start..=row]);
            if summed.n_frames == 0 {
                summed.first_frame = numbers[start];
                summed.first = Row { positions: positions[..width].to_vec(), cell: cells[0] };
                summed.last = summed.first.clone();
                summed.rest = vec![S::Sum::default(); width];
            }
            let rows = Rows { positions, cells, numbers: &numbers[start..=row] };
            let added = self.steps.add(&summed.last, &rows, &mut summed.rest, &mut summed.longest, &mut room.steps);
            added.map_err(|fault| self.error(fault))?;
            summed.n_frames += cells.len() as u64;
            summed.last.positions.copy_from_slice(&positions[positions.len() - width..]);
            summed.last.cell = cells[cells.len() - 1];
            start = row + 1;
            if is_station {
                summed.stations.extend_from_slice(&summed.rest);
                summed.rest.fill(S::Sum::default());
            }
        }
        Ok(())
    }

    fn merge(&self, left: &mut Summed<S::Sum>, mut right: Summed<S::Sum>) -> Result<()> {
        if right.n_frames == 0 {
            return Ok(());
        }
        if left.n_frames == 0 {
            *left = right;
            return Ok(());
        }
        let (cells, numbers) = ([right.first.cell], [right.first_frame]);
        let rows = Rows { positions: &right.first.positions, cells: &cells, numbers: &numbers };
        let added = self.steps.add(&left.last, &rows, &mut left.rest, &mut left.longest, &mut S::Room::default());
        added.map_err(|fault| self.error(fault))?;
        left.longest.merge(right.longest);
        let until = if right.stations.is_empty() { &mut right.rest } else { &mut right.stations };
        for (sum, before) in until.iter_mut().zip(&left.rest) {
            *sum = sum.plus(*before);
        }
        left.n_frames = left.n_frames.saturating_add(right.n_frames);
        left.stations.append(&mut right.stations);
        left.rest = right.rest;
        left.last = right.last;
        Ok(())
    }

    fn finish(&self, summed: Summed<S::Sum>) -> Result<Vec<ResultArray>> {
        if summed.n_frames == 0 {
            return Err(nothing_gathered(S::ID));
        }
        let (width, mut sums) = (self.width(), summed.stations);
        for at in width..sums.len() {
            sums[at] = sums[at].plus(sums[at - width]);
        }
        if let Some(at) = sums.iter().position(|&sum| !S::is_within(sum)) {
            return Err(Fault::TooFar((at % width / 3) as u32).into_atom_error(&self.atoms));
        }
        let shape = vec![sums.len() / width, self.atoms.len(), 3];
        let stations = ResultArray::new("stations", shape, S::Sum::values(sums));
        Ok([stations].into_iter().chain(summed.longest.results()).collect())
    }

    fn to_bytes(&self, summed: &Summed<S::Sum>) -> Result<Vec<u8>> {
        let mut writer = Writer::new(S::ID);
        for number in [self.width() as u64, summed.n_frames, (summed.stations.len() / self.width()) as u64] {
            writer.u64(number);
        }
        if summed.n_frames > 0 {
            writer.u64(summed.first_frame);
            summed.longest.write(&mut writer);
            for row in [&summed.first, &summed.last] {
                writer.numbers(row.cell.edges.as_flattened());
                writer.numbers(row.cell.dual.as_flattened());
                writer.numbers(&row.positions);
            }
            writer.numbers(&summed.stations);
            writer.numbers(&summed.rest);
        }
        Ok(writer.finish())
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Summed<S::Sum>> {
        let mut reader = Reader::new(S::ID, bytes)?;
        let width = self.width() as u64;
        reader.same(width, "number of coordinates")?;
        let mut summed = Summed { n_frames: reader.u64("number of frames")?, ..Summed::default() };
        let n_stations = self.stations.read_number(&mut reader, summed.n_frames)?;
        if summed.n_frames > 0 {
            summed.first_frame = reader.u64("first frame")?;
            summed.longest = LongestStep::read(&mut reader)?;
            summed.first = row(&mut reader, width)?;
            summed.last = row(&mut reader, width)?;
            summed.stations = reader.numbers(n_stations.saturating_mul(width), "sums at stations")?;
            summed.rest = reader.numbers(width, "sums")?;
        }
        reader.finish()?;
        Ok(summed)
    }
}

fn row(reader: &mut Reader<'_>, width: u64) -> Result<Row> {
    let cell = Edges { edges: cell(reader)?, dual: cell(reader)? };
    Ok(Row { cell, positions: reader.numbers(width, "positions")? })
}

fn cell(reader: &mut Reader<'_>) -> Result<Cell> {
    let numbers: Vec<f64> = reader.numbers(9, "cell")?;
    Ok(std::array::from_fn(|edge| std::array::from_fn(|x| numbers[3 * edge + x])))
}
