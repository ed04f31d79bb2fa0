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
use super::images::{CellOfFrame, Edges, Fault, PeriodicCell, shift};
pub use super::unit_cell::UnitCell;
use super::unit_cell::{EDGE, Home, Inside, Nearest, Upright, Within};
use crate::cpu::{Cpu, dispatch};
use crate::geometry::vectors::{Vectors, plus_times};
use crate::lanes::Quad;
use crate::weights::check_each;
use kinema_core::Result;

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

    fn beside(&self, users: &AtomSelection) -> Result<Option<AtomSelection>> {
        self.labels.as_ref().map_or(Ok(None), |labels| labels.together_with(users))
    }

    fn state(&self, atoms: &AtomSelection, _: &[AtomMap]) -> Result<WrapState> {
        let labels =
            self.labels.as_ref().map_or_else(|| (0..atoms.len() as u32).collect(), |labels| labels.of_row(atoms));
        let masses = self.masses.as_ref().filter(|_| self.labels.is_some());
        let masses: Option<Vec<f64>> = masses.map(|masses| atoms.iter().map(|atom| masses[atom as usize]).collect());
        let row = WrapRow::new(Cpu::detect(), Groups::new(&labels, masses.as_deref())?, self.shape);
        Ok(WrapState { atoms: atoms.clone(), row, cell: CellOfFrame::default(), unsure: Vec::new() })
    }

    fn apply(&self, frame: &mut FrameMut<'_>, state: &mut WrapState) -> Result<()> {
        let cell = state.cell.of(frame.stamp)?;
        let done = state.row.apply(frame.positions, cell, &mut state.unsure);
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
    /// Whether each atom of a row is the group of its own number.
    are_all_atoms: bool,
    /// Groups of as many atoms, four at a time.
    alike: Vec<Alike>,
    /// Of each four groups the atoms and their weights; empty where all atoms of the row are groups.
    fours: Vec<Four>,
    /// Groups that are not among these.
    alone: Vec<u32>,
}

/// Groups of as many atoms each.
#[derive(Debug, Clone)]
struct Alike {
    size: usize,
    /// Four at a time.
    groups: Vec<[u32; 4]>,
    /// Where the atoms of the first are in `fours`.
    start: usize,
}

#[derive(Debug, Clone)]
struct Four {
    atoms: [u32; 4],
    weights: [f64; 4],
}

impl WrapRow {
    /// Of groups whose centres are brought home.
    pub fn new(cpu: Cpu, groups: Groups, shape: UnitCell) -> Self {
        let of_atoms = groups.are_of_one();
        let mut own_numbers = (0..groups.len()).map(|group| groups.atoms(group)[0] as usize == group);
        let are_all_atoms = of_atoms && groups.len() == groups.n_atoms() && own_numbers.all(|is_own| is_own);
        let (alike, fours, alone) = (Vec::new(), Vec::new(), Vec::new());
        let mut made = Self { cpu, groups, shape, of_atoms, are_all_atoms, alike, fours, alone };
        if made.are_all_atoms {
            let n_atoms = made.groups.n_atoms() as u32;
            made.alone.extend(n_atoms - n_atoms % 4..n_atoms);
            return made;
        }
        let mut order: Vec<u32> = (0..made.groups.len() as u32).collect();
        order.sort_by_key(|&group| made.groups.atoms(group as usize).len());
        let size = |group: &u32| made.groups.atoms(*group as usize).len();
        for alike in order.chunk_by(|a, b| size(a) == size(b)) {
            let (fours, rest) = alike.as_chunks::<4>();
            made.alone.extend(rest);
            made.alike.push(Alike { size: size(&alike[0]), groups: fours.to_vec(), start: made.fours.len() });
            for four in fours {
                let of = |atom: usize| Four {
                    atoms: four.map(|group| made.groups.atoms(group as usize)[atom]),
                    weights: four.map(|group| made.groups.weights(group as usize)[atom]),
                };
                made.fours.extend((0..size(&four[0])).map(of));
            }
        }
        made
    }

    /// Moves the atoms of a row, `atoms x 3`, angstrom. `unsure` is room for the groups that are examined by themselves.
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
        let exact = self.of_atoms && cell.lattice().along_axes().is_some();
        let margin = if exact { 0.0 } else { EDGE };
        unsure.iter().try_for_each(|&group| self.bring_home(group as usize, rows, &home, (cell, margin)))
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

/// Brings groups home four at a time, but for those of which one is unsure.
#[inline(always)]
fn bring_fours_home<Q: Quad>(
    wrap: &WrapRow,
    rows: &mut [[f32; 3]],
    home: &Home,
    cell: &PeriodicCell,
    unsure: &mut Vec<u32>,
) {
    match (home.shape(), wrap.are_all_atoms) {
        (UnitCell::Compact, true) => atoms::<Q, _>(rows, &Nearest::new(home, cell), cell, unsure),
        (UnitCell::Compact, false) => groups::<Q, _>(wrap, rows, &Nearest::new(home, cell), cell, unsure),
        (UnitCell::Rect, true) if home.is_along_axes(cell) => {
            atoms::<Q, _>(rows, &Upright::new(home, cell), cell, unsure);
        }
        (_, true) => atoms::<Q, _>(rows, &Inside::new(home, cell), cell, unsure),
        (_, false) => groups::<Q, _>(wrap, rows, &Inside::new(home, cell), cell, unsure),
    }
}

/// Fours that are examined together: first which may be outside, as branches that none can foresee cost more than the test.
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
            let points = Q::xyz_of_row(&fours[number]);
            let Some(counts) = within.edges_home(points) else {
                let first = 4 * (at * TOGETHER + number) as u32;
                unsure.extend(first..first + 4);
                continue;
            };
            edges.shift(&mut fours[number], points, counts);
        }
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
    let edges = Edges::<Q>::new(cell);
    for Alike { size, groups, start } in &wrap.alike {
        let fours = wrap.fours[*start..start + groups.len() * size].chunks(*size * TOGETHER);
        for (groups, fours) in groups.chunks(TOGETHER).zip(fours) {
            let mut centres: [Vectors<Q>; TOGETHER] = [[Q::all(0.0); 3]; TOGETHER];
            let mut found = Found::none();
            for (number, fours) in fours.chunks_exact(*size).enumerate() {
                let mut centre = [Q::all(0.0); 3];
                for Four { atoms: [a, b, c, d], weights } in fours {
                    let atoms = [&rows[*a as usize], &rows[*b as usize], &rows[*c as usize], &rows[*d as usize]];
                    centre = plus_times(centre, Q::load(weights), Q::xyz(atoms));
                }
                centres[number] = centre;
                found.examined(number, within.surely_inside(centre));
            }
            for &number in found.numbers() {
                let number = usize::from(number);
                let Some(counts) = within.edges_home(centres[number]) else {
                    unsure.extend(groups[number]);
                    continue;
                };
                let [x, y, z] = edges.sum(counts);
                let (by, [a, b, c]) = ([x.store(), y.store(), z.store()], counts);
                let most = a.magnitude().maximum(b.magnitude()).maximum(c.magnitude()).store();
                for i in (0..4).filter(|&i| most[i] > 0.0) {
                    let by = [by[0][i], by[1][i], by[2][i]];
                    let atoms = fours[number * size..].iter().take(*size).map(|four| four.atoms[i]);
                    atoms.for_each(|atom| shift(&mut rows[atom as usize], by));
                }
            }
        }
    }
}
