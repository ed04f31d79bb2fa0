//! Unwraps trajectories: atoms go on where they would jump to the other side of the cell, in a cell that may change.
//!
//! A jump is the whole number that is nearest to the step of a reduced coordinate from one frame to the next. Jumps of all
//! frames from the first one on are summed up in whole numbers, so a sum does not depend on where it is begun: sums are
//! kept for some frames, the stations, and a worker runs from the station before its frames. Positions are those of the
//! frame and whole edges of its own cell, as with MDAnalysis' `NoJump`.

use std::sync::Arc;

use kinema_core::frame::Fields;
use kinema_core::frame::lattice::ROUNDING;
use kinema_core::reduce::{AtomMap, FrameMut, Needs, RunUp, Transform};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};

use super::TransformInfo;
use super::images::{CellOfFrame, Fault, PeriodicCell, shift};
use crate::cpu::{Cpu, dispatch};
use crate::geometry::vectors::{all, dot};
use crate::lanes::Quad;

/// Four atoms of a row: the last of them stands for those that are missing.
#[derive(Debug, Clone)]
struct Four {
    columns: [u32; 4],
    /// Reduced coordinates in the frame before, by coordinate.
    before: [[f64; 4]; 3],
    /// Edges that are added, by edge: whole numbers.
    counts: [[f64; 4]; 3],
}

/// Sums of jumps of some atoms of rows, from frame to frame.
#[derive(Debug, Clone)]
pub struct Tracks {
    cpu: Cpu,
    n_tracked: usize,
    n_columns: usize,
    fours: Vec<Four>,
}

impl Tracks {
    /// Of the atoms in these columns of rows of `n_columns`.
    pub fn new(cpu: Cpu, columns: &[u32], n_columns: usize) -> Self {
        let four = |columns: &[u32]| Four {
            columns: [0, 1, 2, 3].map(|i| columns[i.min(columns.len() - 1)]),
            before: [[0.0; 4]; 3],
            counts: [[0.0; 4]; 3],
        };
        Self { cpu, n_tracked: columns.len(), n_columns, fours: columns.chunks(4).map(four).collect() }
    }

    /// Begins with the next frame, where these edges are added to each atom (atoms x 3).
    pub fn begin(&mut self, counts: impl Fn(usize) -> [i32; 3]) {
        let last = self.n_tracked.saturating_sub(1);
        for (number, four) in self.fours.iter_mut().enumerate() {
            for i in 0..4 {
                let of_atom = counts((4 * number + i).min(last));
                for (counts, count) in four.counts.iter_mut().zip(of_atom) {
                    counts[i] = f64::from(count);
                }
            }
        }
    }

    /// The edges that are added to each atom now.
    pub fn counts(&self) -> impl Iterator<Item = [i32; 3]> + '_ {
        let of_four = |four: &Four| [0, 1, 2, 3].map(|i| [0, 1, 2].map(|edge| four.counts[edge][i] as i32));
        self.fours.iter().flat_map(of_four).take(self.n_tracked)
    }

    /// Sees a frame, which is the `first` one or follows the one before. Gives the longest step of a reduced coordinate
    /// without its jump.
    ///
    /// # Errors
    /// [`Fault`]
    pub fn see(&mut self, positions: &[f32], cell: &PeriodicCell, first: bool) -> std::result::Result<f64, Fault> {
        Fault::check_row(positions, self.n_columns)?;
        let rows = positions.as_chunks::<3>().0;
        let longest = dispatch!(
            self.cpu,
            f64,
            step,
            (
                fours: &mut [Four] = &mut self.fours,
                rows: &[[f32; 3]] = rows,
                dual: [[f64; 3]; 3] = cell.lattice().dual_of_edges(),
                first: bool = first,
            )
        );
        if longest.is_finite() {
            return Ok(longest);
        }
        Err(Fault::not_finite(positions, self.fours.iter().flat_map(|four| four.columns)))
    }

    /// Moves the atoms of the frame that was seen last.
    pub fn shift(&self, positions: &mut [f32], cell: &PeriodicCell) {
        let rows = positions.as_chunks_mut::<3>().0;
        for (number, four) in self.fours.iter().enumerate() {
            if four.counts == [[0.0; 4]; 3] {
                continue;
            }
            for i in 0..4.min(self.n_tracked - 4 * number) {
                let counts = [0, 1, 2].map(|edge| four.counts[edge][i] as i64);
                if counts != [0; 3] {
                    shift(&mut rows[four.columns[i] as usize], cell.sum(counts));
                }
            }
        }
    }
}

#[inline(always)]
fn step<Q: Quad>(fours: &mut [Four], rows: &[[f32; 3]], dual: [[f64; 3]; 3], first: bool) -> f64 {
    let dual = [all::<Q>(dual[0]), all(dual[1]), all(dual[2])];
    let mut longest = Q::all(0.0);
    // of what is not finite the sum is neither
    let mut sum = Q::all(0.0);
    for four in fours {
        let [a, b, c, d] = four.columns;
        let atoms = [&rows[a as usize], &rows[b as usize], &rows[c as usize], &rows[d as usize]];
        let points = Q::xyz(atoms);
        for (edge, dual) in dual.into_iter().enumerate() {
            let now = dot(dual, points);
            if !first {
                let by = now.subtract(Q::load(&four.before[edge]));
                let jump = by.add(Q::all(ROUNDING)).subtract(Q::all(ROUNDING));
                four.counts[edge] = Q::load(&four.counts[edge]).subtract(jump).store();
                longest = longest.maximum(by.subtract(jump).magnitude());
            }
            sum = sum.add(now);
            four.before[edge] = now.store();
        }
    }
    let most = longest.store().into_iter().fold(0.0, f64::max);
    let [a, b, c, d] = sum.store();
    if ((a + b) + (c + d)).is_finite() { most } else { f64::NAN }
}

/// `atoms` (all where they are left out), `every`, frames from station to station, and `stations`: whole numbers of
/// 32 bits with a sign, as those without one, (stations x atoms, 3).
pub(super) const TRANSFORM: TransformInfo = TransformInfo {
    id: "nojump/1",
    make: |arguments| {
        let all = AtomSelection::all(arguments.n_atoms());
        let atoms = if arguments.has("atoms") { arguments.unique_atoms("atoms")? } else { all };
        let stations = arguments.index_rows::<3>("stations")?.as_flattened().iter().map(|&sum| sum as i32).collect();
        Ok(Arc::new(NoJump::new(atoms, arguments.count("every", 1)? as u64, stations)?))
    },
};

/// Unwraps some atoms of a trajectory.
#[derive(Debug, Clone)]
pub struct NoJump {
    atoms: AtomSelection,
    /// Frames from station to station.
    every: u64,
    /// For each station the sums of jumps, atoms x 3.
    stations: Arc<[i32]>,
}

impl NoJump {
    /// Of sums for the frames 0, `every`, twice that, and so on.
    ///
    /// # Errors
    /// `InvalidArgument` for sums of other atoms.
    pub fn new(atoms: AtomSelection, every: u64, stations: Vec<i32>) -> Result<Self> {
        let of_one = 3 * atoms.len();
        if every == 0 || of_one == 0 || !stations.len().is_multiple_of(of_one) {
            let what = format!("wrong number of jumps, expected {of_one} for each station, found {}", stations.len());
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        Ok(Self { atoms, every, stations: stations.into() })
    }
}

/// What a worker has for its rows.
#[derive(Debug)]
pub struct NoJumpState {
    row_atoms: AtomSelection,
    /// Places in the stations of the atoms that are tracked.
    places: Vec<u32>,
    tracks: Tracks,
    cell: CellOfFrame,
    first: bool,
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
        let mut places = vec![u32::MAX; atoms.n_atoms() as usize];
        for (place, atom) in self.atoms.iter().enumerate() {
            places[atom as usize] = place as u32;
        }
        let tracked = atoms.iter().enumerate().map(|(column, atom)| (column as u32, places[atom as usize]));
        let (columns, places): (Vec<u32>, Vec<u32>) = tracked.filter(|(_, place)| *place != u32::MAX).unzip();
        let tracks = Tracks::new(Cpu::detect(), &columns, atoms.len());
        Ok(NoJumpState { row_atoms: atoms.clone(), places, tracks, cell: CellOfFrame::default(), first: true })
    }

    fn looks_back(&self) -> bool {
        true
    }

    fn run_up(&self, frame: u64, seen: Option<u64>) -> RunUp {
        RunUp::since(frame / self.every * self.every, frame, seen)
    }

    fn begin(&self, state: &mut NoJumpState, frame: u64) -> Result<()> {
        let of_one = 3 * self.atoms.len();
        let start = (frame / self.every) as usize * of_one;
        let Some(station) = self.stations.get(start..start + of_one).filter(|_| frame.is_multiple_of(self.every))
        else {
            let what = "jumps are not known for this frame: the trajectory has grown since they were counted";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        };
        let places = &state.places;
        state.tracks.begin(|atom| {
            let place = 3 * places.get(atom).map_or(0, |&place| place as usize);
            [station[place], station[place + 1], station[place + 2]]
        });
        state.first = true;
        Ok(())
    }

    fn apply(&self, frame: &mut FrameMut<'_>, state: &mut NoJumpState) -> Result<()> {
        let cell = state.cell.of(frame.stamp)?;
        let seen = state.tracks.see(frame.positions, cell, state.first);
        seen.map_err(|fault| fault.of_atoms(&state.row_atoms))?;
        state.tracks.shift(frame.positions, cell);
        state.first = false;
        Ok(())
    }
}
