//! Unwraps trajectories: atoms continue instead of jumping to the other side of the cell, in a cell that may change.
//!
//! A jump is the whole number nearest to the step of a reduced coordinate from one frame to the next. Jumps of all
//! frames from the first one on are summed up in whole numbers, so a sum does not depend on where it begins. Sums are
//! kept for some frames, the stations, and a worker starts from the station before its frames. Positions are those of
//! the frame plus whole edges of its own cell, as in MDAnalysis' `NoJump`.

use std::sync::Arc;

use kinema_core::frame::lattice::ROUNDING;
use kinema_core::frame::{Cell, Fields, NO_CELL};
use kinema_core::reduce::{AtomMap, FrameMut, Needs, RunUp, Transform};
use kinema_core::selection::{AtomSelection, FrameSelection};
use kinema_core::{Error, ErrorKind, Result};

use super::TransformInfo;
use super::images::{CellOfFrame, Edges, Fault, PeriodicCell, shift};
use super::tracked::Tracked;
use crate::cpu::{Cpu, dispatch};
use crate::geometry::vectors::{Vectors, all, dot};
use crate::lanes::Quad;

/// Four atoms of a row.
#[derive(Debug, Clone, Default)]
#[repr(align(32))]
struct Four {
    /// Positions in the frame before: x, y and z.
    before: [[f32; 4]; 3],
    /// Edges that are added, by edge.
    counts: [[i32; 4]; 3],
}

/// Sums of jumps of some atoms of rows, from frame to frame.
#[derive(Debug, Clone)]
pub struct Tracks {
    cpu: Cpu,
    n_tracked: usize,
    n_columns: usize,
    fours: Vec<Four>,
    /// Number of fours that are the first atoms of a row, in its order.
    n_in_order: usize,
    /// Columns of the atoms of the other fours; the last atom stands in for missing ones.
    columns: Vec<[u32; 4]>,
    /// Products with it are the reduced coordinates of the frame before.
    dual: Cell,
}

impl Tracks {
    /// Tracks of the atoms in these columns of rows of `n_columns`.
    pub fn new(cpu: Cpu, columns: &[u32], n_columns: usize) -> Self {
        let is_in_order = |(number, four): (usize, &[u32; 4])| *four == [0, 1, 2, 3].map(|i| 4 * number as u32 + i);
        let fours = columns.as_chunks::<4>().0.iter().enumerate();
        let n_in_order = fours.take_while(|&four| is_in_order(four)).count();
        let four = |columns: &[u32]| [0, 1, 2, 3].map(|i| columns[i.min(columns.len() - 1)]);
        Self {
            cpu,
            n_tracked: columns.len(),
            n_columns,
            fours: vec![Four::default(); columns.len().div_ceil(4)],
            n_in_order,
            columns: columns[4 * n_in_order..].chunks(4).map(four).collect(),
            dual: NO_CELL,
        }
    }

    /// Begins with the next frame, in which these edges are added to each atom (atoms x 3).
    pub fn begin(&mut self, counts: impl Fn(usize) -> [i32; 3]) {
        let last = self.n_tracked.saturating_sub(1);
        for (number, four) in self.fours.iter_mut().enumerate() {
            for i in 0..4 {
                let of_atom = counts((4 * number + i).min(last));
                for (counts, count) in four.counts.iter_mut().zip(of_atom) {
                    counts[i] = count;
                }
            }
        }
    }

    /// Sees a frame, which is the `first` one or follows the one before, and moves its atoms.
    ///
    /// # Errors
    /// [`Fault`]
    pub fn follow(
        &mut self,
        positions: &mut [f32],
        cell: &PeriodicCell,
        first: bool,
    ) -> std::result::Result<(), Fault> {
        Fault::check_row(positions, self.n_columns)?;
        let duals = [std::mem::replace(&mut self.dual, cell.lattice().dual_of_edges()), self.dual];
        let is_finite = dispatch!(
            self.cpu,
            bool,
            follow,
            (
                tracks: &mut Tracks = self,
                rows: &mut [[f32; 3]] = positions.as_chunks_mut::<3>().0,
                duals: [Cell; 2] = duals,
                cell: &PeriodicCell = cell,
                first: bool = first,
            )
        );
        if is_finite {
            return Ok(());
        }
        Err(Fault::not_finite(positions, (0..self.fours.len()).flat_map(|four| self.columns_of(four))))
    }

    /// Moves the atoms of a frame as those of the one before.
    pub fn shift(&self, positions: &mut [f32], cell: &PeriodicCell) {
        let rows = positions.as_chunks_mut::<3>().0;
        for (number, four) in self.fours.iter().enumerate() {
            let columns = self.columns_of(number);
            for i in 0..4.min(self.n_tracked - 4 * number) {
                let counts = [0, 1, 2].map(|edge| i64::from(four.counts[edge][i]));
                if counts != [0; 3] {
                    shift(&mut rows[columns[i] as usize], cell.sum(counts));
                }
            }
        }
    }

    fn columns_of(&self, four: usize) -> [u32; 4] {
        let in_order = [0, 1, 2, 3].map(|i| 4 * four as u32 + i);
        four.checked_sub(self.n_in_order).map_or(in_order, |other| self.columns[other])
    }
}

#[inline(always)]
fn follow<Q: Quad>(
    tracks: &mut Tracks,
    rows: &mut [[f32; 3]],
    duals: [Cell; 2],
    cell: &PeriodicCell,
    first: bool,
) -> bool {
    let mut pass = Pass::<Q>::new(duals, cell, first);
    let (in_order, others) = tracks.fours.split_at_mut(tracks.n_in_order);
    // all are shifted, most of them by zero: jumps are unpredictable, and a branch costs more
    for (four, atoms) in in_order.iter_mut().zip(rows.as_chunks_mut::<4>().0) {
        let points = Q::xyz_of_row(atoms);
        let counts = pass.jumped(four, points);
        pass.edges.shift(atoms, points, counts);
    }
    for (four, columns) in others.iter_mut().zip(&tracks.columns) {
        let [a, b, c, d] = columns.map(|column| column as usize);
        let points = Q::xyz([&rows[a], &rows[b], &rows[c], &rows[d]]);
        let (counts, mut atoms) = (pass.jumped(four, points), [[0.0; 3]; 4]);
        pass.edges.shift(&mut atoms, points, counts);
        // the last atom may occur several times
        [rows[a], rows[b], rows[c], rows[d]] = atoms;
    }
    let [a, b, c, d] = pass.sum.store();
    ((a + b) + (c + d)).is_finite()
}

/// A pass over the atoms of a frame.
struct Pass<Q: Quad> {
    before: [Vectors<Q>; 3],
    now: [Vectors<Q>; 3],
    edges: Edges<Q>,
    /// Whether jumps from the frame before are counted: not in the first one.
    follows: Q::Mask,
    /// Sum of reduced coordinates; not finite if one of them is not finite.
    sum: Q,
}

impl<Q: Quad> Pass<Q> {
    #[inline(always)]
    fn new([before, now]: [Cell; 2], cell: &PeriodicCell, first: bool) -> Self {
        let before = [all::<Q>(before[0]), all(before[1]), all(before[2])];
        let now = [all::<Q>(now[0]), all(now[1]), all(now[2])];
        let follows = Q::all(0.0).less(Q::all(if first { 0.0 } else { 1.0 }));
        Self { before, now, edges: Edges::new(cell), follows, sum: Q::all(0.0) }
    }

    /// Moves four atoms to their positions now. Returns the edges that are added.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "functions of iterators are compiled for every processor")]
    fn jumped(&mut self, four: &mut Four, points: Vectors<Q>) -> Vectors<Q> {
        let zero = Q::all(0.0);
        let from = [Q::widen(&four.before[0]), Q::widen(&four.before[1]), Q::widen(&four.before[2])];
        let mut counts = [zero; 3];
        for edge in 0..3 {
            let at = dot(self.now[edge], points);
            self.sum = self.sum.add(at);
            let by = at.subtract(dot(self.before[edge], from));
            let jump = by.add(Q::all(ROUNDING)).subtract(Q::all(ROUNDING));
            counts[edge] = Q::whole(&four.counts[edge]).subtract(Q::select(self.follows, jump, zero));
            four.counts[edge] = counts[edge].store_whole();
        }
        four.before = [points[0].narrow(), points[1].narrow(), points[2].narrow()];
        counts
    }
}

/// `atoms` (default: all), `every`, frames from station to station, and `stations`, (stations x atoms, 3): signed
/// 32-bit integers, passed as unsigned. `frames`, ascending (default: all of the file): the frames between which jumps
/// were counted. If `every` is 0 there are no jumps: all frames share the only station.
pub(super) const TRANSFORM: TransformInfo = TransformInfo {
    id: "nojump/1",
    make: |arguments| {
        let atoms = arguments.unique_atoms_or_all("atoms")?;
        let stations = arguments.index_rows::<3>("stations")?.as_flattened().iter().map(|&sum| sum as i32).collect();
        let of_frames = arguments.has("frames").then(|| arguments.index_rows::<1>("frames")).transpose()?;
        let frames =
            of_frames.map(|rows| FrameSelection::from_list(rows.iter().map(|[row]| u64::from(*row)).collect()));
        Ok(Arc::new(NoJump::new(atoms, arguments.count("every", 0)? as u64, stations, frames)?))
    },
};

/// Unwraps some atoms of a trajectory.
#[derive(Debug, Clone)]
pub struct NoJump {
    atoms: AtomSelection,
    /// Frames from station to station; 0: there is one, for all of them.
    every: u64,
    /// The frames between which jumps were counted, ascending; `None`: all.
    frames: Option<FrameSelection>,
    /// For each station the sums of jumps, atoms x 3.
    stations: Arc<[i32]>,
}

impl NoJump {
    /// From sums at frame 0 of `frames` (of all frames if `None`), at frame `every`, twice that, and so on.
    ///
    /// # Errors
    /// `InvalidArgument` for sums of other atoms, and frames that are not ascending.
    pub fn new(atoms: AtomSelection, every: u64, stations: Vec<i32>, frames: Option<FrameSelection>) -> Result<Self> {
        let of_one = 3 * atoms.len();
        if frames.as_ref().is_some_and(|frames| (1..frames.len()).any(|i| frames.get(i - 1) >= frames.get(i))) {
            return Err(Error::new(ErrorKind::InvalidArgument, "frames between which jumps are counted must ascend"));
        }
        if of_one == 0 || stations.is_empty() || !stations.len().is_multiple_of(of_one) {
            let what = format!("wrong number of jumps, expected {of_one} for each station, found {}", stations.len());
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        Ok(Self { atoms, every, frames, stations: stations.into() })
    }

    /// Position of a frame among the frames between which jumps were counted.
    fn place(&self, frame: u64) -> Option<u64> {
        let Some(frames) = &self.frames else { return Some(frame) };
        let (mut start, mut end) = (0, frames.len());
        while start < end {
            let middle = start.midpoint(end);
            if frames.get(middle) < frame {
                start = middle + 1;
            } else {
                end = middle;
            }
        }
        (start < frames.len() && frames.get(start) == frame).then_some(start)
    }

    /// The sums of a station.
    fn station(&self, number: usize) -> &[i32] {
        let of_one = 3 * self.atoms.len();
        &self.stations[number * of_one..(number + 1) * of_one]
    }

    /// The last station at or before a place. Places long after the last station belong to a file that has grown since
    /// its jumps were counted.
    fn station_before(&self, place: u64) -> u64 {
        let last = (self.stations.len() / (3 * self.atoms.len()) - 1) as u64;
        (place / self.every).min(last)
    }
}

/// Buffers of one worker.
#[derive(Debug)]
pub struct NoJumpState {
    row_atoms: AtomSelection,
    /// Places in the stations of the atoms that are tracked.
    places: Vec<u32>,
    tracks: Tracks,
    cell: CellOfFrame,
    first: bool,
}

/// For each of some atoms what a station has of it.
fn sums_of<'a>(places: &'a [u32], station: &'a [i32]) -> impl Fn(usize) -> [i32; 3] + 'a {
    move |atom| {
        let place = 3 * places.get(atom).map_or(0, |&place| place as usize);
        [station[place], station[place + 1], station[place + 2]]
    }
}

impl Transform for NoJump {
    type State = NoJumpState;

    fn id(&self) -> &'static str {
        TRANSFORM.id
    }

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS | Fields::CELL, atom_sets: Vec::new() }
    }

    fn state(&self, atoms: &AtomSelection, _: &[AtomMap]) -> Result<NoJumpState> {
        let Tracked { columns, places } = Tracked::from_row(atoms, &self.atoms)?;
        let mut tracks = Tracks::new(Cpu::detect(), &columns, atoms.len());
        tracks.begin(sums_of(&places, self.station(0)));
        Ok(NoJumpState { row_atoms: atoms.clone(), places, tracks, cell: CellOfFrame::default(), first: true })
    }

    fn looks_back(&self) -> bool {
        self.every > 0
    }

    fn run_up(&self, frame: u64, seen: Option<u64>) -> RunUp {
        // which `begin` refuses
        let Some(place) = self.place(frame) else { return RunUp::none() };
        let seen = seen.and_then(|seen| self.place(seen));
        let run_up = RunUp::new(self.station_before(place) * self.every, place, seen);
        let Some(frames) = &self.frames else { return run_up };
        let start = place - run_up.frames.len();
        RunUp { frames: frames.part(start..place), ..run_up }
    }

    fn begin(&self, state: &mut NoJumpState, frame: u64) -> Result<()> {
        let Some(place) = self.place(frame) else {
            let what = "jumps were counted between selected frames alone, of which this is none";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        };
        let station = self.station_before(place);
        if station * self.every != place {
            return Err(Error::new(ErrorKind::Internal, "jumps are requested from a frame that is not a station"));
        }
        state.tracks.begin(sums_of(&state.places, self.station(station as usize)));
        state.first = true;
        Ok(())
    }

    fn apply(&self, frame: &mut FrameMut<'_>, state: &mut NoJumpState) -> Result<()> {
        let cell = state.cell.get(frame.stamp)?;
        if self.every > 0 {
            let done = state.tracks.follow(frame.positions, cell, state.first);
            done.map_err(|fault| fault.into_atom_error(&state.row_atoms))?;
        } else {
            state.tracks.shift(frame.positions, cell);
        }
        state.first = false;
        Ok(())
    }
}
