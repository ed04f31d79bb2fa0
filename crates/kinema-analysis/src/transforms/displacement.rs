//! Unwraps trajectories by summing up displacements: in each frame an atom moves by the image of its step that is nearest in the
//! cell of that frame.
//!
//! `u_i = u_(i-1) + d - round(d / L_i) L_i, d = w_i - w_(i-1)`, in reduced coordinates for any cell: von Bülow, Bullerjahn and
//! Hummer, J Chem Phys 2020, 153, 021101; TOR in Bullerjahn et al., J Chem Theory Comput 2023, 19, 3406. So `u_i` is `w_i` less
//! the sum of all `round(d / L) L` until then, each in the cell of its own frame. These are rounded to multiples of 2^-28
//! angstrom: their sums are exact, so that they are the same in any order, and a worker begins at any station.

use std::sync::Arc;

use kinema_core::frame::lattice::ROUNDING;
use kinema_core::frame::{Cell, Fields};
use kinema_core::reduce::{AtomMap, FrameMut, Needs, RunUp, Transform};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};

use super::TransformInfo;
use super::images::{CellOfFrame, Fault, MOST_CELLS, PeriodicCell, dot, shift};
use super::tracked::Tracked;

/// Added and then subtracted to round to multiples of 2^-28.
const TO_UNITS: f64 = ROUNDING / (1_u64 << 28) as f64;
/// Angstrom: up to this value, sums of such multiples, and their differences, are exact.
pub(crate) const MOST: f64 = (1_u64 << 24) as f64;

/// The edges of a cell, and the matrix that gives reduced coordinates; both zero along open edges.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Edges {
    pub(crate) edges: Cell,
    pub(crate) dual: Cell,
}

impl Edges {
    pub(crate) fn from_cell(cell: &PeriodicCell) -> Self {
        Self { edges: *cell.edges(), dual: cell.lattice().dual_of_edges() }
    }

    /// Whole edges, in multiples of 2^-28 angstrom.
    fn sum(&self, counts: [f64; 3]) -> [f64; 3] {
        let [a, b, c] = &self.edges;
        [0, 1, 2].map(|x| (counts[0] * a[x] + counts[1] * b[x] + counts[2] * c[x] + TO_UNITS) - TO_UNITS)
    }
}

/// The step of an atom from one frame to the next: adds to `shift` what brings the atom to the nearest image in the
/// cell of the later frame. Returns the longest part of the step in reduced coordinates, without its jump.
#[inline(always)]
pub(crate) fn step(
    before: [f32; 3],
    now: [f32; 3],
    cell: &Edges,
    shift: &mut [f64; 3],
    column: u32,
) -> std::result::Result<f64, Fault> {
    let by = [0, 1, 2].map(|x| f64::from(now[x]) - f64::from(before[x]));
    let reduced = cell.dual.map(|dual| dot(dual, by));
    let jump = reduced.map(|x| (x + ROUNDING) - ROUNDING);
    // also of steps along open edges, which have no images
    if !(by[0] + by[1] + by[2]).is_finite() || jump.iter().any(|jump| jump.abs() > MOST_CELLS as f64) {
        return Err(Fault::from_displacement(by, column));
    }
    if jump != [0.0; 3] {
        let edges = cell.sum(jump);
        for (shift, edge) in shift.iter_mut().zip(edges) {
            *shift -= edge;
        }
        if shift.iter().any(|x| x.abs() > MOST) {
            return Err(Fault::TooFar(column));
        }
    }
    Ok(reduced.iter().zip(jump).fold(0.0, |longest, (x, jump)| longest.max((x - jump).abs())))
}

/// Some atoms of rows, from frame to frame.
#[derive(Debug, Clone, Default)]
struct Walk {
    columns: Vec<u32>,
    n_columns: usize,
    /// Positions in the frame before.
    before: Vec<[f32; 3]>,
    /// Shifts added to positions.
    shifts: Vec<[f64; 3]>,
}

impl Walk {
    /// For the atoms in these columns of rows of `n_columns`.
    fn new(columns: Vec<u32>, n_columns: usize) -> Self {
        let n_atoms = columns.len();
        Self { columns, n_columns, before: vec![[0.0; 3]; n_atoms], shifts: vec![[0.0; 3]; n_atoms] }
    }

    /// Sees a frame, which is the `first` one or follows the one before. Returns the longest step of a reduced
    /// coordinate without its jump.
    fn see(&mut self, positions: &[f32], cell: &Edges, first: bool) -> std::result::Result<f64, Fault> {
        Fault::check_row(positions, self.n_columns)?;
        let rows = positions.as_chunks::<3>().0;
        let mut longest = 0.0_f64;
        for ((&column, before), shift) in self.columns.iter().zip(&mut self.before).zip(&mut self.shifts) {
            let now = rows[column as usize];
            if first {
                if now.iter().any(|x| !x.is_finite()) {
                    return Err(Fault::NotFinite(column));
                }
                *before = now;
                continue;
            }
            longest = longest.max(step(*before, now, cell, shift, column)?);
            *before = now;
        }
        Ok(longest)
    }
}

/// `atoms` (default: all), `every`, frames from station to station, and `stations`, (stations x atoms, 3): the
/// "stations" of the kernel "displacements".
pub(super) const TRANSFORM: TransformInfo = TransformInfo {
    id: "displacement/1",
    make: |arguments| {
        let atoms = arguments.unique_atoms_or_all("atoms")?;
        let stations = arguments.vectors("stations")?;
        if stations.is_empty() || !stations.len().is_multiple_of(atoms.len()) {
            return Err(arguments.wrong("stations", &format!("numbers (n x {}, 3)", atoms.len())));
        }
        Ok(Arc::new(Displacement { atoms, every: arguments.count("every", 1)? as u64, stations: stations.into() }))
    },
};

struct Displacement {
    atoms: AtomSelection,
    every: u64,
    stations: Arc<[[f64; 3]]>,
}

/// Buffers of one worker.
#[derive(Debug)]
struct DisplacementState {
    row_atoms: AtomSelection,
    /// Places in the stations of the atoms that are tracked.
    places: Vec<u32>,
    walk: Walk,
    cell: CellOfFrame,
    first: bool,
}

impl Displacement {
    /// The last station at or before a frame. Frames long after the last station belong to a file that has grown since.
    fn station_before(&self, frame: u64) -> u64 {
        (frame / self.every).min((self.stations.len() / self.atoms.len() - 1) as u64)
    }
}

impl Transform for Displacement {
    type State = DisplacementState;

    fn id(&self) -> &'static str {
        TRANSFORM.id
    }

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS | Fields::CELL, atom_sets: Vec::new() }
    }

    fn state(&self, atoms: &AtomSelection, _: &[AtomMap]) -> Result<DisplacementState> {
        let Tracked { columns, places } = Tracked::from_row(atoms, &self.atoms)?;
        let walk = Walk::new(columns, atoms.len());
        Ok(DisplacementState { row_atoms: atoms.clone(), places, walk, cell: CellOfFrame::default(), first: true })
    }

    fn looks_back(&self) -> bool {
        true
    }

    fn run_up(&self, frame: u64, seen: Option<u64>) -> RunUp {
        RunUp::new(self.station_before(frame) * self.every, frame, seen)
    }

    fn begin(&self, state: &mut DisplacementState, frame: u64) -> Result<()> {
        let station = self.station_before(frame);
        if station * self.every != frame {
            return Err(Error::new(
                ErrorKind::Internal,
                "displacements are requested from a frame that is not a station",
            ));
        }
        let start = station as usize * self.atoms.len();
        for (shift, place) in state.walk.shifts.iter_mut().zip(&state.places) {
            *shift = self.stations[start + *place as usize];
        }
        state.first = true;
        Ok(())
    }

    fn apply(&self, frame: &mut FrameMut<'_>, state: &mut DisplacementState) -> Result<()> {
        let edges = Edges::from_cell(state.cell.get(frame.stamp)?);
        let seen = state.walk.see(frame.positions, &edges, state.first);
        seen.map_err(|fault| fault.into_atom_error(&state.row_atoms))?;
        let rows = frame.positions.as_chunks_mut::<3>().0;
        for (&column, by) in state.walk.columns.iter().zip(&state.walk.shifts) {
            if *by != [0.0; 3] {
                shift(&mut rows[column as usize], *by);
            }
        }
        state.first = false;
        Ok(())
    }
}
