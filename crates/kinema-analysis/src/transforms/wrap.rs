//! Puts atoms, or groups of atoms by their centres, into the unit cell.
//!
//! It has three shapes, as in `gmx trjconv -ur`, which coincide for cells with right angles: the parallelepiped of the
//! edges (`tric`), the brick of the same volume (`rect`), and all points that are nearest to its middle (`compact`).
//! Atoms move only by whole edges; atoms inside keep their bits.

use std::sync::Arc;

use kinema_core::frame::Fields;
use kinema_core::reduce::{AtomMap, FrameMut, Needs, Transform};
use kinema_core::selection::AtomSelection;

use super::TransformInfo;
use super::fours::{Alike, Anywhere, InOrder, Members, alike, split_consecutive};
use super::groups::{Groups, Labels};
use super::images::{CellOfFrame, Edges, Fault, PeriodicCell, Vector, shift};
use super::nearest::{Estimate, Nearest};
pub use super::unit_cell::UnitCell;
use super::unit_cell::{Home, Inside, Upright, Within, counts_on_axes};
use crate::cpu::{Cpu, dispatch};
use crate::geometry::vectors::Vectors;
use crate::lanes::{Quad, Sixteen};
use crate::weights::check_each;
use kinema_core::Result;

/// `labels` of groups that move together, `masses`, one for each atom, and `shape`: "rect", "tric" or "compact".
pub(super) const TRANSFORM: TransformInfo = TransformInfo {
    id: "wrap/1",
    make: |arguments| {
        let shapes = [("rect", UnitCell::Rect), ("tric", UnitCell::Tric), ("compact", UnitCell::Compact)];
        let labels = if arguments.has("labels") { Some(Labels::from_arguments(arguments)?) } else { None };
        let masses = arguments.optional_numbers("masses")?.map(<[f64]>::to_vec);
        Ok(Arc::new(Wrap::new(labels, masses, arguments.choice("shape", &shapes)?)?))
    },
};

/// Brings the groups of a trajectory home; without labels, each atom by itself.
#[derive(Debug, Clone)]
pub struct Wrap {
    labels: Option<Labels>,
    masses: Option<Arc<[f64]>>,
    shape: UnitCell,
}

impl Wrap {
    /// Uses centres of mass if there are masses, one for each atom of the trajectory, otherwise centres of geometry.
    ///
    /// # Errors
    /// `InvalidArgument` for masses that are negative or not finite, or for a wrong number of masses.
    pub fn new(labels: Option<Labels>, masses: Option<Vec<f64>>, shape: UnitCell) -> Result<Self> {
        if let (Some(masses), Some(labels)) = (&masses, &labels) {
            check_each(masses, labels.n_atoms() as usize)?;
        }
        Ok(Self { labels, masses: masses.map(Into::into), shape })
    }
}

/// Buffers of one worker.
#[derive(Debug)]
pub struct WrapState {
    atoms: AtomSelection,
    row: WrapRow,
    cell: CellOfFrame,
    unsure: Vec<u32>,
}

impl Transform for Wrap {
    type State = WrapState;

    fn id(&self) -> &'static str {
        TRANSFORM.id
    }

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS | Fields::CELL, atom_sets: Vec::new() }
    }

    fn required_atoms(&self, users: &AtomSelection) -> Result<Option<AtomSelection>> {
        self.labels.as_ref().map_or(Ok(None), |labels| labels.together_with(users))
    }

    fn state(&self, atoms: &AtomSelection, _: &[AtomMap]) -> Result<WrapState> {
        let labels =
            self.labels.as_ref().map_or_else(|| (0..atoms.len() as u32).collect(), |labels| labels.row_labels(atoms));
        let masses = self.masses.as_ref().filter(|_| self.labels.is_some());
        let masses: Option<Vec<f64>> = masses.map(|masses| atoms.iter().map(|atom| masses[atom as usize]).collect());
        let row = WrapRow::new(Cpu::detect(), Groups::new(&labels, masses.as_deref())?, self.shape);
        Ok(WrapState { atoms: atoms.clone(), row, cell: CellOfFrame::default(), unsure: Vec::new() })
    }

    fn apply(&self, frame: &mut FrameMut<'_>, state: &mut WrapState) -> Result<()> {
        let cell = state.cell.get(frame.stamp)?;
        let done = state.row.apply(frame.positions, cell, &mut state.unsure);
        done.map_err(|fault| fault.into_atom_error(&state.atoms))
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
    /// Whether each atom of a row is the group of its own number.
    are_all_atoms: bool,
    /// Groups with the same weights of atoms that follow each other.
    in_order: Vec<Alike<InOrder>>,
    /// Other groups with the same number of atoms.
    alike: Vec<Alike<Anywhere>>,
    /// Groups that are not among these.
    alone: Vec<u32>,
}

impl WrapRow {
    /// For groups whose centres are brought home.
    pub fn new(cpu: Cpu, groups: Groups, shape: UnitCell) -> Self {
        let of_atoms = groups.are_of_one();
        let mut own_numbers = (0..groups.len()).map(|group| groups.atoms(group)[0] as usize == group);
        let are_all_atoms = of_atoms && groups.len() == groups.n_atoms() && own_numbers.all(|is_own| is_own);
        if are_all_atoms {
            let n_atoms = groups.n_atoms() as u32;
            let alone = (n_atoms - n_atoms % 4..n_atoms).collect();
            return Self {
                cpu,
                groups,
                shape,
                of_atoms,
                are_all_atoms,
                in_order: Vec::new(),
                alike: Vec::new(),
                alone,
            };
        }
        let (in_order, others) = split_consecutive(&groups);
        let (alike, alone) = alike(&groups, others);
        Self { cpu, groups, shape, of_atoms, are_all_atoms, in_order, alike, alone }
    }

    /// Moves the atoms of a row, `atoms x 3`, angstrom. `unsure` is a buffer for the groups that are examined by
    /// themselves.
    ///
    /// # Errors
    /// [`Fault`]
    pub fn apply(
        &self,
        positions: &mut [f32],
        cell: &PeriodicCell,
        unsure: &mut Vec<u32>,
    ) -> std::result::Result<(), Fault> {
        Fault::check_row(positions, self.groups.n_atoms())?;
        let home = Home::new(self.shape, cell);
        let rows = positions.as_chunks_mut::<3>().0;
        unsure.clear();
        unsure.extend(&self.alone);
        dispatch!(
            self.cpu,
            (),
            bring_fours_home,
            (
                wrap: &WrapRow = self,
                rows: &mut [[f32; 3]] = rows,
                home: &Home = &home,
                cell: &PeriodicCell = cell,
                unsure: &mut Vec<u32> = unsure,
            )
        );
        // so that the atom that an error names does not depend on which groups are alike
        unsure.sort_unstable();
        unsure.iter().try_for_each(|&group| self.bring_home(group as usize, rows, &home, cell))
    }

    fn bring_home(
        &self,
        group: usize,
        rows: &mut [[f32; 3]],
        home: &Home,
        cell: &PeriodicCell,
    ) -> std::result::Result<(), Fault> {
        let (atoms, on_axes) = (self.groups.atoms(group), home.on_axes().filter(|_| self.of_atoms));
        // an atom that is rounded to a face of a cell along the axes continues to the opposite face
        loop {
            let center = self.groups.center(group, rows);
            let counts = match on_axes {
                Some(edges) => counts_on_axes(edges, center, atoms[0]),
                None => home.counts(center, cell, atoms[0]),
            };
            let counts = counts.map_err(|fault| fault.locate_among(atoms, rows))?;
            if counts == [0; 3] {
                return Ok(());
            }
            let by = cell.sum(counts);
            for &atom in atoms {
                shift(&mut rows[atom as usize], by);
            }
            if on_axes.is_none() {
                return Ok(());
            }
        }
    }
}

/// Brings groups home four at a time, except fours with a group that is not sure.
#[inline(always)]
fn bring_fours_home<Q: Quad>(
    wrap: &WrapRow,
    rows: &mut [[f32; 3]],
    home: &Home,
    cell: &PeriodicCell,
    unsure: &mut Vec<u32>,
) {
    match (home.shape(), wrap.are_all_atoms) {
        (UnitCell::Compact, true) => match Estimate::<Q::Sixteen>::new(cell) {
            Some(estimate) => atoms_by_estimates::<Q>(rows, &estimate, &Nearest::new(home, cell), cell, unsure),
            None => atoms::<Q, _>(rows, &Nearest::new(home, cell), cell, unsure),
        },
        (UnitCell::Compact, false) => groups::<Q, _>(wrap, rows, &Nearest::new(home, cell), cell, unsure),
        (UnitCell::Rect, true) if home.is_along_axes(cell) => {
            atoms::<Q, _>(rows, &Upright::new(home, cell), cell, unsure);
        }
        (_, true) => atoms::<Q, _>(rows, &Inside::new(home, cell), cell, unsure),
        (_, false) => groups::<Q, _>(wrap, rows, &Inside::new(home, cell), cell, unsure),
    }
}

/// Number of fours that are examined together: first those that may be outside, as unpredictable branches cost more
/// than the test.
const TOGETHER: usize = 64;

/// The numbers of those that may be outside.
struct Found {
    numbers: [u8; TOGETHER],
    len: usize,
}

impl Found {
    #[inline(always)]
    fn none() -> Self {
        Self { numbers: [0; TOGETHER], len: 0 }
    }

    #[inline(always)]
    fn all(len: usize) -> Self {
        Self { numbers: std::array::from_fn(|number| number as u8), len }
    }

    #[inline(always)]
    fn examined(&mut self, number: usize, inside: bool) {
        self.numbers[self.len % TOGETHER] = number as u8;
        self.len += usize::from(!inside);
    }

    #[inline(always)]
    fn numbers(&self) -> &[u8] {
        &self.numbers[..self.len]
    }
}

/// All atoms by themselves.
#[inline(always)]
fn atoms<Q: Quad, W: Within<Q>>(rows: &mut [[f32; 3]], within: &W, cell: &PeriodicCell, unsure: &mut Vec<u32>) {
    let edges = Edges::<Q>::new(cell);
    for (at, fours) in rows.as_chunks_mut::<4>().0.chunks_mut(TOGETHER).enumerate() {
        let mut found = Found::none();
        for (number, four) in fours.iter().enumerate() {
            found.examined(number, within.surely_inside(Q::xyz_of_row(four)));
        }
        for &number in found.numbers() {
            let number = usize::from(number);
            bring_four_home(&mut fours[number], 4 * (at * TOGETHER + number), within, &edges, unsure);
        }
    }
}

/// Four atoms; `first` is the number of the first of them.
#[inline(always)]
fn bring_four_home<Q: Quad, W: Within<Q>>(
    four: &mut [[f32; 3]; 4],
    first: usize,
    within: &W,
    edges: &Edges<Q>,
    unsure: &mut Vec<u32>,
) {
    let points = Q::xyz_of_row(four);
    match within.edges_home(points) {
        Some(counts) => edges.shift(four, points, counts),
        None => unsure.extend(first as u32..first as u32 + 4),
    }
}

/// All atoms by themselves, sixteen at a time; groups whose estimates are not sure, four at a time.
#[inline(always)]
fn atoms_by_estimates<Q: Quad>(
    rows: &mut [[f32; 3]],
    estimate: &Estimate<Q::Sixteen>,
    nearest: &Nearest<Q>,
    cell: &PeriodicCell,
    unsure: &mut Vec<u32>,
) {
    let edges = Edges::<Q>::new(cell);
    let (sixteens, rest) = rows.as_chunks_mut::<16>();
    let n_in_sixteens = 16 * sixteens.len();
    let mut without_test = 0;
    for (at, sixteens) in sixteens.chunks_mut(TOGETHER).enumerate() {
        let mut found = Found::none();
        if without_test > 0 {
            found = Found::all(sixteens.len());
            without_test -= 1;
        } else {
            for (number, sixteen) in sixteens.iter().enumerate() {
                found.examined(number, estimate.surely_inside(Q::Sixteen::xyz_of_row(sixteen)));
            }
            // if most are outside, the test saves nothing
            without_test = if found.len > sixteens.len() / 2 { 8 } else { 0 };
        }
        for &number in found.numbers() {
            let sixteen = &mut sixteens[usize::from(number)];
            let points = Q::Sixteen::xyz_of_row(sixteen);
            if let Some(counts) = estimate.edges_home(points) {
                edges.shift_sixteen(sixteen, points, counts);
                continue;
            }
            let first = 16 * (at * TOGETHER + usize::from(number));
            for (number, four) in sixteen.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                bring_four_home(four, first + 4 * number, nearest, &edges, unsure);
            }
        }
    }
    for (number, four) in rest.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        bring_four_home(four, n_in_sixteens + 4 * number, nearest, &edges, unsure);
    }
}

/// Groups by their centres.
#[inline(always)]
fn groups<Q: Quad, W: Within<Q>>(
    wrap: &WrapRow,
    rows: &mut [[f32; 3]],
    within: &W,
    cell: &PeriodicCell,
    unsure: &mut Vec<u32>,
) {
    let mut room = Room { centres: [[Q::all(0.0); 3]; TOGETHER], moves: Moves::none() };
    for alike in &wrap.in_order {
        groups_alike(alike, rows, within, cell, unsure, &mut room);
    }
    for alike in &wrap.alike {
        groups_alike(alike, rows, within, cell, unsure, &mut room);
    }
}

/// Room for fours that are examined together.
struct Room<Q> {
    centres: [Vectors<Q>; TOGETHER],
    moves: Moves,
}

#[inline(always)]
fn groups_alike<Q: Quad, W: Within<Q>, M: Members>(
    alike: &Alike<M>,
    rows: &mut [[f32; 3]],
    within: &W,
    cell: &PeriodicCell,
    unsure: &mut Vec<u32>,
    Room { centres, moves }: &mut Room<Q>,
) {
    let edges = Edges::<Q>::new(cell);
    for (at, groups) in alike.groups.chunks(TOGETHER).enumerate() {
        let (mut found, first) = (Found::none(), at * TOGETHER);
        for (number, centre) in centres.iter_mut().take(groups.len()).enumerate() {
            *centre = alike.members.centres(first + number, rows);
            found.examined(number, within.surely_inside(*centre));
        }
        moves.len = 0;
        for &number in found.numbers() {
            let number = usize::from(number);
            match within.edges_home(centres[number]) {
                Some(counts) => moves.see(number, &edges, counts),
                None => unsure.extend(groups[number]),
            }
        }
        for Move { number, by } in &moves.all[..moves.len] {
            alike.members.shift::<Q>(first + number / 4, number % 4, *by, rows);
        }
    }
}

/// Moves that bring groups home.
struct Moves {
    all: [Move; 4 * TOGETHER],
    len: usize,
}

#[derive(Clone, Copy)]
struct Move {
    /// Number of the group among those that are examined together.
    number: usize,
    by: Vector,
}

impl Moves {
    fn none() -> Self {
        Self { all: [Move { number: 0, by: [0.0; 3] }; 4 * TOGETHER], len: 0 }
    }

    /// Takes in those of four groups to which edges are added, without a branch.
    #[inline(always)]
    fn see<Q: Quad>(&mut self, four: usize, edges: &Edges<Q>, counts: Vectors<Q>) {
        let ([x, y, z], [a, b, c]) = (edges.sum(counts), counts);
        let (x, y, z) = (x.store(), y.store(), z.store());
        let most = a.magnitude().maximum(b.magnitude()).maximum(c.magnitude()).store();
        for i in 0..4 {
            self.all[self.len % (4 * TOGETHER)] = Move { number: 4 * four + i, by: [x[i], y[i], z[i]] };
            self.len += usize::from(most[i] > 0.0);
        }
    }
}
