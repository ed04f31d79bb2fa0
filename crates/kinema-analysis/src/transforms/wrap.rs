//! Puts atoms, or groups of atoms by their centres, into the unit cell.
//!
//! Three shapes of it, as `gmx trjconv -ur` has them, which are one for cells with right angles: the parallelepiped of the
//! edges (`tric`), the brick of the same volume (`rect`), and all points that are nearest to its middle (`compact`). Atoms
//! move by whole edges alone; what lies inside keeps its bits.

use std::sync::Arc;

use kinema_core::frame::Fields;
use kinema_core::reduce::{AtomMap, FrameMut, Needs, Transform};
use kinema_core::selection::AtomSelection;

use super::TransformInfo;
use super::groups::{Groups, Labels};
use super::images::{CellOfFrame, Fault, MOST_CELLS, PeriodicCell, Vector, dot, minus, shift};
use crate::cpu::{Cpu, dispatch};
use crate::geometry::nearest_images::{AlongAxes, General, Images, whole};
use crate::geometry::vectors::{Vectors, all, difference, dot as dot4, plus_times};
use crate::lanes::Quad;
use crate::weights::check_each;
use kinema_core::Result;
use kinema_core::frame::lattice::ROUNDING;

/// How far outside, in reduced coordinates, a centre may lie that is not moved: what was moved once stays. Atoms in cells along
/// the axes are inside exactly.
const EDGE: f64 = 1.0 / (1_u64 << 22) as f64;

/// What is that near to a face is examined once more, one group after the other.
const UNSURE: f64 = 1e-9;

/// The shape of the unit cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnitCell {
    /// The points nearest to the middle of the cell.
    Compact,
    /// A brick with a corner in the origin, with the first edge along one of its own.
    #[default]
    Rect,
    /// The parallelepiped of the edges, with a corner in the origin.
    Tric,
}

/// Where the unit cell of a frame is.
#[derive(Debug, Clone)]
pub struct Home {
    shape: UnitCell,
    /// Coordinates of the parallelepiped or brick, from 0 to 1 inside of it; zero along open edges.
    coordinates: [Vector; 3],
    middle: Vector,
}

impl Home {
    /// Of a cell.
    pub fn new(shape: UnitCell, cell: &PeriodicCell) -> Self {
        let coordinates = match shape {
            UnitCell::Rect => of_brick(cell.edges()),
            _ => cell.lattice().dual_of_edges(),
        };
        Self { shape, coordinates, middle: cell.middle() }
    }

    /// How many of each edge bring a point home. Up to `margin` outside, in reduced coordinates, is inside.
    pub(super) fn counts(
        &self,
        point: Vector,
        cell: &PeriodicCell,
        margin: f64,
        atom: u32,
    ) -> std::result::Result<[i64; 3], Fault> {
        let counts = match self.shape {
            UnitCell::Compact => return cell.to_nearest(minus(point, self.middle), atom),
            UnitCell::Tric => self.coordinates.map(|row| cells_below(dot(row, point), margin)),
            UnitCell::Rect => {
                let (mut counts, mut point) = ([0.0; 3], point);
                for i in [2, 1, 0] {
                    counts[i] = cells_below(dot(self.coordinates[i], point), margin);
                    point = [0, 1, 2].map(|x| point[x] + counts[i] * cell.edges()[i][x]);
                }
                counts
            }
        };
        // not a number is not below either
        if counts.iter().all(|count| count.abs() < MOST_CELLS as f64) {
            return Ok(counts.map(|count| count as i64));
        }
        Err(Fault::of_displacement(point, atom))
    }
}

/// Whole cells to be added to a coordinate so that it is from 0 to 1.
#[inline(always)]
fn cells_below(coordinate: f64, margin: f64) -> f64 {
    let inside = coordinate >= -margin && coordinate < 1.0 + margin;
    if inside { 0.0 } else { -floor(coordinate) }
}

/// The greatest whole number up to a value of less than 2^51; the instruction for it is not one that every processor has.
#[inline(always)]
fn floor(value: f64) -> f64 {
    let rounded = (value + ROUNDING) - ROUNDING;
    if rounded > value { rounded - 1.0 } else { rounded }
}

/// Coordinates along the axes of a brick: the first edge, across it in the plane of the second, and across both.
fn of_brick(edges: &[Vector; 3]) -> [Vector; 3] {
    let mut axes = [[0.0; 3]; 3];
    for i in 0..3 {
        let mut across = edges[i];
        for axis in &axes[..i] {
            let along = dot(across, *axis);
            across = [0, 1, 2].map(|x| across[x] - along * axis[x]);
        }
        let length = dot(across, across).sqrt();
        if length > 0.0 {
            axes[i] = across.map(|x| x / length);
        }
    }
    let mut coordinates = axes;
    for (row, edge) in coordinates.iter_mut().zip(edges) {
        let length = dot(*row, *edge);
        if length > 0.0 {
            *row = row.map(|x| x / length);
        }
    }
    coordinates
}

/// `labels` of what moves together, `masses`, one for each atom, and `shape`: "rect", "tric" or "compact".
pub(super) const TRANSFORM: TransformInfo = TransformInfo {
    id: "wrap/1",
    make: |arguments| {
        let shapes = [("rect", UnitCell::Rect), ("tric", UnitCell::Tric), ("compact", UnitCell::Compact)];
        let labels = if arguments.has("labels") { Some(Labels::from_arguments(arguments)?) } else { None };
        let masses = arguments.optional_numbers("masses")?.map(<[f64]>::to_vec);
        Ok(Arc::new(Wrap::new(labels, masses, arguments.choice("shape", &shapes)?)?))
    },
};

/// Brings the groups of a trajectory home; without labels each atom by itself.
#[derive(Debug, Clone)]
pub struct Wrap {
    labels: Option<Labels>,
    masses: Option<Arc<[f64]>>,
    shape: UnitCell,
}

impl Wrap {
    /// By centres of mass where there are masses, one for each atom of the trajectory, else of geometry.
    ///
    /// # Errors
    /// `InvalidArgument` for masses that are not finite or negative, or of another number.
    pub fn new(labels: Option<Labels>, masses: Option<Vec<f64>>, shape: UnitCell) -> Result<Self> {
        if let (Some(masses), Some(labels)) = (&masses, &labels) {
            check_each(masses, labels.n_atoms() as usize)?;
        }
        Ok(Self { labels, masses: masses.map(Into::into), shape })
    }
}

/// What a worker has for its rows.
#[derive(Debug)]
pub struct WrapState {
    atoms: AtomSelection,
    row: WrapRow,
    cell: CellOfFrame,
    outside: Vec<Outside>,
}

impl Transform for Wrap {
    type State = WrapState;

    fn id(&self) -> &'static str {
        TRANSFORM.id
    }

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS | Fields::CELL, atom_sets: Vec::new() }
    }

    fn beside(&self, users: &AtomSelection) -> Result<Option<AtomSelection>> {
        self.labels.as_ref().map_or(Ok(None), |labels| labels.together_with(users))
    }

    fn state(&self, atoms: &AtomSelection, _: &[AtomMap]) -> Result<WrapState> {
        let labels =
            self.labels.as_ref().map_or_else(|| (0..atoms.len() as u32).collect(), |labels| labels.of_row(atoms));
        let masses = self.masses.as_ref().filter(|_| self.labels.is_some());
        let masses: Option<Vec<f64>> = masses.map(|masses| atoms.iter().map(|atom| masses[atom as usize]).collect());
        let row = WrapRow::new(Cpu::detect(), Groups::new(&labels, masses.as_deref())?, self.shape);
        Ok(WrapState { atoms: atoms.clone(), row, cell: CellOfFrame::default(), outside: Vec::new() })
    }

    fn apply(&self, frame: &mut FrameMut<'_>, state: &mut WrapState) -> Result<()> {
        let cell = state.cell.of(frame.stamp)?;
        let done = state.row.apply(frame.positions, cell, &mut state.outside);
        done.map_err(|fault| fault.of_atoms(&state.atoms))
    }
}

/// Wraps the groups of rows.
#[derive(Debug, Clone)]
pub struct WrapRow {
    cpu: Cpu,
    groups: Groups,
    shape: UnitCell,
    /// Whether each group is one atom.
    of_atoms: bool,
    batches: Vec<Batch>,
    /// For each four groups and each of their atoms its column and its weight.
    fours: Vec<Four>,
}

/// Groups that are examined together.
#[derive(Debug, Clone)]
struct Batch {
    first: usize,
    /// Where the atoms of four groups are in `fours`; empty for one group.
    fours: std::ops::Range<usize>,
}

/// A batch of which a group may be outside, and how many of each edge bring its groups home, where that is sure of all.
#[derive(Debug, Clone)]
pub struct Outside {
    batch: usize,
    counts: Option<[[f64; 4]; 3]>,
}

#[derive(Debug, Clone)]
struct Four {
    atoms: [u32; 4],
    weights: [f64; 4],
}

impl WrapRow {
    /// Of groups whose centres are brought home.
    pub fn new(cpu: Cpu, groups: Groups, shape: UnitCell) -> Self {
        let (mut batches, mut fours) = (Vec::new(), Vec::new());
        let mut first = 0;
        while first < groups.len() {
            let size = groups.atoms(first).len();
            let alike = (first..first + 4).all(|group| group < groups.len() && groups.atoms(group).len() == size);
            let begin = fours.len();
            if alike {
                let of = |atom: usize| Four {
                    atoms: [0, 1, 2, 3].map(|i| groups.atoms(first + i)[atom]),
                    weights: [0, 1, 2, 3].map(|i| groups.weights(first + i)[atom]),
                };
                fours.extend((0..size).map(of));
            }
            batches.push(Batch { first, fours: begin..fours.len() });
            first += if alike { 4 } else { 1 };
        }
        let of_atoms = groups.are_of_one();
        Self { cpu, groups, shape, of_atoms, batches, fours }
    }

    /// Moves the atoms of a row, `atoms x 3`, angstrom.
    ///
    /// # Errors
    /// [`Fault`]
    pub fn apply(
        &self,
        positions: &mut [f32],
        cell: &PeriodicCell,
        outside: &mut Vec<Outside>,
    ) -> std::result::Result<(), Fault> {
        Fault::check_row(positions, self.groups.n_atoms())?;
        let home = Home::new(self.shape, cell);
        let rows = positions.as_chunks_mut::<3>().0;
        outside.clear();
        dispatch!(
            self.cpu,
            (),
            find_outside,
            (
                wrap: &WrapRow = self,
                rows: &[[f32; 3]] = rows,
                home: &Home = &home,
                cell: &PeriodicCell = cell,
                outside: &mut Vec<Outside> = outside,
            )
        );
        let exact = self.of_atoms && cell.lattice().along_axes().is_some();
        let margin = if exact { 0.0 } else { EDGE };
        for Outside { batch, counts } in outside.iter() {
            let Batch { first, fours } = &self.batches[*batch];
            for i in 0..if fours.is_empty() { 1 } else { 4 } {
                let Some(counts) = counts else {
                    self.bring_home(first + i, rows, &home, (cell, margin))?;
                    continue;
                };
                let counts = [0, 1, 2].map(|edge| counts[edge][i] as i64);
                if counts != [0; 3] {
                    let by = cell.sum(counts);
                    self.groups.atoms(first + i).iter().for_each(|&atom| shift(&mut rows[atom as usize], by));
                }
            }
        }
        Ok(())
    }

    fn bring_home(
        &self,
        group: usize,
        rows: &mut [[f32; 3]],
        home: &Home,
        (cell, margin): (&PeriodicCell, f64),
    ) -> std::result::Result<(), Fault> {
        let atoms = self.groups.atoms(group);
        // an atom that is rounded to the face of a cell along the axes goes on to the other one
        loop {
            let counts = home.counts(self.groups.center(group, rows), cell, margin, atoms[0]);
            let counts = counts.map_err(|fault| fault.at_one_of(atoms, rows))?;
            if counts == [0; 3] {
                return Ok(());
            }
            let by = cell.sum(counts);
            for &atom in atoms {
                shift(&mut rows[atom as usize], by);
            }
            if margin > 0.0 {
                return Ok(());
            }
        }
    }
}

/// Finds the batches of groups of which one may have its centre outside, or nowhere.
#[inline(always)]
fn find_outside<Q: Quad>(
    wrap: &WrapRow,
    rows: &[[f32; 3]],
    home: &Home,
    cell: &PeriodicCell,
    outside: &mut Vec<Outside>,
) {
    let lattice = cell.lattice();
    match home.shape {
        UnitCell::Compact => match lattice.along_axes() {
            Some([edges, inverse]) => {
                let images = AlongAxes::new(edges, inverse);
                examine::<Q, _>(wrap, rows, &Nearest { images, middle: all(home.middle) }, outside);
            }
            None => {
                let images = General::new(lattice);
                examine::<Q, _>(wrap, rows, &Nearest { images, middle: all(home.middle) }, outside);
            }
        },
        _ => examine::<Q, _>(wrap, rows, &Inside::new(home, cell), outside),
    }
}

/// Whether points are surely inside.
trait Within<Q: Quad> {
    /// Of four points: below 0 where it is so, above or not a number where it may not be.
    fn beyond(&self, points: Vectors<Q>) -> Q;

    /// How many of each edge bring four points home, by edge; `None` where that is not sure of each.
    #[inline(always)]
    fn edges_home(&self, points: Vectors<Q>) -> Option<[[f64; 4]; 3]> {
        let _ = points;
        None
    }
}

/// Of a parallelepiped or brick.
struct Inside<Q> {
    coordinates: [Vectors<Q>; 3],
    less: Vectors<Q>,
    /// Of a brick, whose coordinates change with what is added along the edges after them.
    edges: Option<[Vectors<Q>; 3]>,
}

impl<Q: Quad> Inside<Q> {
    #[inline(always)]
    fn new(home: &Home, cell: &PeriodicCell) -> Self {
        let [a, b, c] = home.coordinates;
        let [ea, eb, ec] = *cell.edges();
        let edges = (home.shape == UnitCell::Rect).then(|| [all(ea), all(eb), all(ec)]);
        // along open edges all points are inside
        let less = home.coordinates.map(|row| if row == [0.0; 3] { 0.0 } else { 0.5 });
        Self { coordinates: [all(a), all(b), all(c)], less: all(less), edges }
    }
}

impl<Q: Quad> Within<Q> for Inside<Q> {
    #[inline(always)]
    fn beyond(&self, points: Vectors<Q>) -> Q {
        let mut most = Q::all(-0.5);
        for (row, less) in self.coordinates.iter().zip(self.less) {
            let from_middle = dot4(*row, points).subtract(less).magnitude();
            // of a point that is not finite no product is, and the last one stays
            most = most.maximum(from_middle.subtract(Q::all(0.5)));
        }
        most.add(Q::all(UNSURE))
    }

    #[inline(always)]
    fn edges_home(&self, points: Vectors<Q>) -> Option<[[f64; 4]; 3]> {
        let (zero, half) = (Q::all(0.0), Q::all(0.5));
        let (mut counts, mut points, mut surely) = ([[0.0; 4]; 3], points, Q::all(1.0));
        for i in [2, 1, 0] {
            // from -1/2 to 1/2 inside; 0 along open edges
            let from_middle = dot4(self.coordinates[i], points).subtract(self.less[i]);
            let cells = whole(from_middle);
            let near = from_middle.subtract(cells).magnitude().less(half.subtract(Q::all(EDGE + UNSURE)));
            surely = Q::select(near, surely, zero);
            surely = Q::select(cells.magnitude().less(Q::all(MOST_CELLS as f64)), surely, zero);
            let count = zero.subtract(cells);
            if let Some(edges) = &self.edges {
                points = plus_times(points, count, edges[i]);
            }
            counts[i] = count.store();
        }
        if Q::any(surely.less(Q::all(1.0))) { None } else { Some(counts) }
    }
}

/// Of the points nearest to the middle.
struct Nearest<Q, I> {
    images: I,
    middle: Vectors<Q>,
}

impl<Q: Quad, I: Images<Q>> Within<Q> for Nearest<Q, I> {
    #[inline(always)]
    fn beyond(&self, points: Vectors<Q>) -> Q {
        let displacement = difference(points, self.middle);
        let nearest = self.images.shortest_squared(displacement);
        // less strict than what is done then
        Q::all(1.0 - UNSURE).multiply(dot4(displacement, displacement)).subtract(nearest)
    }
}

#[inline(always)]
fn examine<Q: Quad, W: Within<Q>>(wrap: &WrapRow, rows: &[[f32; 3]], within: &W, outside: &mut Vec<Outside>) {
    let zero = Q::all(0.0);
    for (number, batch) in wrap.batches.iter().enumerate() {
        if batch.fours.is_empty() {
            outside.push(Outside { batch: number, counts: None });
            continue;
        }
        let mut centre = [zero; 3];
        for Four { atoms: [a, b, c, d], weights } in &wrap.fours[batch.fours.clone()] {
            let atoms = [*a, *b, *c, *d].map(|atom| &rows[atom as usize]);
            centre = plus_times(centre, Q::load(weights), Q::xyz(atoms));
        }
        let beyond = within.beyond(centre);
        // one that is not a number is not below either
        let surely = Q::select(beyond.less(zero), zero, Q::all(1.0));
        if Q::any(zero.less(surely)) {
            outside.push(Outside { batch: number, counts: within.edges_home(centre) });
        }
    }
}
