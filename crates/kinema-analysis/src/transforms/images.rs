//! A periodic cell as transforms need it: the lattice, the given edges, and images by whole edges.
//!
//! Atoms move by whole edges only, in double precision and rounded once, so that no error adds up along a molecule.

use kinema_core::frame::{Cell, Stamp};
use kinema_core::reduce::{FrameMut, shifted};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind};

use crate::cpu::{Cpu, dispatch};
use crate::geometry::Lattice;
use crate::geometry::vectors::{Vectors, all};
use crate::lanes::{Quad, Sixteen};

/// An image replaces a position only if its squared length is shorter by more than this share: atoms are not moved
/// twice.
pub(super) const SHORTER: f64 = 1.0 - 1e-5;
/// Beyond this many vectors of the basis, they are not even counted.
const COUNTED: f64 = (1_u64 << 40) as f64;
/// Positions farther than this many cells from where they belong have lost the digits that say where that is.
pub(crate) const MOST_CELLS: i64 = 1 << 20;

pub(super) type Vector = [f64; 3];

/// The reason why a row cannot be used. Atoms are columns of the row; the caller knows their numbers in the trajectory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// A position that is not finite.
    NotFinite(u32),
    /// A position too many cells away from where it belongs.
    TooFar(u32),
    /// The molecule of an atom is bonded to its own image, by the bond between two others.
    OwnImage(u32, [u32; 2]),
    /// The caller has given a row of another size.
    Row {
        /// Atoms that it must have.
        expected: usize,
        /// Atoms that it has.
        found: usize,
    },
}

impl Fault {
    /// As an error; `number` gives the atom of a column, counted from 0.
    pub fn into_error(self, number: impl Fn(u32) -> u64) -> Error {
        let atom = |column: u32| number(column) + 1;
        let (kind, what) = match self {
            Self::NotFinite(column) => {
                (ErrorKind::Corrupt, format!("position of atom {} (counted from 1) is not finite", atom(column)))
            }
            Self::TooFar(column) => (
                ErrorKind::Corrupt,
                format!("position of atom {} (counted from 1) is more than {MOST_CELLS} cells away", atom(column)),
            ),
            Self::OwnImage(first, [one, other]) => (
                ErrorKind::InvalidArgument,
                format!(
                    "the molecule of atom {} is bonded to its own image (a periodic polymer), by the bond of atoms {} and {} \
                     (counted from 1): it cannot be made whole",
                    atom(first),
                    atom(one),
                    atom(other)
                ),
            ),
            Self::Row { expected, found } => {
                (ErrorKind::Internal, format!("wrong number of atoms in a row, expected {expected}, found {found}"))
            }
        };
        Error::new(kind, what)
    }

    /// As an error of a frame whose rows have these atoms.
    #[cold]
    pub(crate) fn into_atom_error(self, atoms: &AtomSelection) -> Error {
        self.into_error(|column| atoms.iter().nth(column as usize).map_or(u64::from(column), u64::from))
    }

    /// Checks the number of atoms of a row.
    pub(super) fn check_row(positions: &[f32], expected: usize) -> Result<(), Self> {
        if positions.len() == 3 * expected {
            return Ok(());
        }
        Err(Self::Row { expected, found: positions.len() / 3 })
    }

    /// The fault of an atom whose displacement has no image.
    #[cold]
    pub(super) fn from_displacement(displacement: Vector, atom: u32) -> Self {
        if displacement.iter().all(|x| x.is_finite()) { Self::TooFar(atom) } else { Self::NotFinite(atom) }
    }

    /// The same for a group of atoms: names one atom that is not finite.
    #[cold]
    pub(super) fn locate_among(self, atoms: &[u32], rows: &[[f32; 3]]) -> Self {
        match self {
            Self::NotFinite(_) => Self::not_finite(rows.as_flattened(), atoms.iter().copied()),
            other => other,
        }
    }

    /// The first atom of some that is not finite.
    #[cold]
    pub(super) fn not_finite(positions: &[f32], mut atoms: impl Iterator<Item = u32>) -> Self {
        let rows = positions.as_chunks::<3>().0;
        let found = atoms.find(|&atom| rows[atom as usize].iter().any(|x| !x.is_finite()));
        Self::NotFinite(found.unwrap_or_default())
    }
}

/// A cell with at least one periodic edge.
#[derive(Debug, Clone)]
pub struct PeriodicCell {
    lattice: Lattice,
    /// Zero for open edges.
    edges: Cell,
    middle: Vector,
    /// A displacement up to this length, squared, is within [`COUNTED`].
    surely_counted: f64,
}

impl PeriodicCell {
    /// A cell from row vectors, angstrom, and which of them are periodic.
    ///
    /// # Errors
    /// `InvalidArgument` for a cell with no periodic edge, with no volume, or not finite.
    pub fn new(cell: &Cell, periodic: [bool; 3]) -> kinema_core::Result<Self> {
        let lattice = Lattice::new(cell, periodic)?;
        if lattice.is_open() {
            return Err(Error::new(ErrorKind::InvalidArgument, "the frame has no periodic cell"));
        }
        let [a, b, c] = cell;
        let middle = [0, 1, 2].map(|x| 0.5 * (a[x] + b[x] + c[x]));
        let mut edges = *cell;
        for (edge, periodic) in edges.iter_mut().zip(periodic) {
            if !periodic {
                *edge = [0.0; 3];
            }
        }
        let longest_dual = lattice.dual().iter().map(|dual| dot(*dual, *dual)).fold(0.0, f64::max);
        Ok(Self { surely_counted: COUNTED * COUNTED / longest_dual, lattice, edges, middle })
    }

    /// The lattice.
    pub fn lattice(&self) -> &Lattice {
        &self.lattice
    }

    /// The edges; zero for open ones.
    pub(super) fn edges(&self) -> &Cell {
        &self.edges
    }

    /// Half of the sum of the edges, of open ones as well.
    pub fn middle(&self) -> Vector {
        self.middle
    }

    /// Whether it is that of a slab or wire.
    pub(super) fn has_open_edges(&self) -> bool {
        self.lattice.basis()[2] == [0.0; 3]
    }

    /// The projection on the plane or line of the periodic edges.
    fn project_on_periodic(&self, vector: Vector) -> Vector {
        let [a, b, c] = self.lattice.dual().map(|dual| dot(dual, vector));
        let [ea, eb, ec] = self.lattice.basis();
        [0, 1, 2].map(|x| a * ea[x] + b * eb[x] + c * ec[x])
    }

    /// Number of each edge to add to a displacement to get its nearest image; zeros if the displacement is as short. A
    /// fault names `atom`.
    #[inline]
    pub(super) fn to_nearest(&self, displacement: Vector, atom: u32) -> Result<[i64; 3], Fault> {
        let squared = dot(displacement, displacement);
        if squared <= self.lattice.sure() {
            return Ok([0; 3]);
        }
        // along open edges, the distance of an atom does not make an image of it a nearer one
        if self.has_open_edges() {
            self.image_of_long(self.project_on_periodic(displacement), atom)
        } else {
            self.image_of_long(displacement, atom)
        }
    }

    /// As [`PeriodicCell::to_nearest`], of a displacement that may not be its own nearest image.
    #[inline(never)]
    fn image_of_long(&self, displacement: Vector, atom: u32) -> Result<[i64; 3], Fault> {
        let squared = dot(displacement, displacement);
        let is_counted = |dual: &Vector| dot(*dual, displacement).abs() < COUNTED;
        if squared > self.surely_counted && !self.lattice.dual().iter().all(is_counted) {
            return Err(Fault::from_displacement(displacement, atom));
        }
        let (nearest, counts) = self.lattice.nearest_image(displacement);
        if !squared.is_finite() || counts.iter().any(|&count| count.abs() > MOST_CELLS) {
            return Err(Fault::from_displacement(displacement, atom));
        }
        Ok(if dot(nearest, nearest) < SHORTER * squared { counts } else { [0; 3] })
    }

    /// Sum of `counts` edges.
    #[inline(always)]
    pub(super) fn sum(&self, counts: [i64; 3]) -> Vector {
        let [a, b, c] = counts.map(|count| count as f64);
        let [ea, eb, ec] = &self.edges;
        [0, 1, 2].map(|x| a * ea[x] + b * eb[x] + c * ec[x])
    }
}

/// The edges of a cell, for four atoms at a time.
pub(super) struct Edges<Q>([Vectors<Q>; 3]);

impl<Q: Quad> Edges<Q> {
    #[inline(always)]
    pub(super) fn new(cell: &PeriodicCell) -> Self {
        let [a, b, c] = cell.edges();
        Self([all(*a), all(*b), all(*c)])
    }

    /// As [`PeriodicCell::sum`]: nothing is fused.
    #[inline(always)]
    pub(super) fn sum(&self, counts: Vectors<Q>) -> Vectors<Q> {
        let [a, b, c] = &self.0;
        let mut sum = [counts[0].multiply(a[0]), counts[0].multiply(a[1]), counts[0].multiply(a[2])];
        for (edge, count) in [(b, counts[1]), (c, counts[2])] {
            let [x, y, z] = sum;
            sum = [x.add(count.multiply(edge[0])), y.add(count.multiply(edge[1])), z.add(count.multiply(edge[2]))];
        }
        sum
    }

    /// As [`shift`], for atoms at these points, by `counts` edges; an atom whose counts are zero keeps its bits.
    #[inline(always)]
    pub(super) fn shift(&self, atoms: &mut [[f32; 3]; 4], points: Vectors<Q>, counts: Vectors<Q>) {
        let [a, b, c] = counts;
        let moves = Q::all(0.0).less(a.magnitude().maximum(b.magnitude()).maximum(c.magnitude()));
        let ([x, y, z], by) = (points, self.sum(counts));
        let moved = [x.add(by[0]), y.add(by[1]), z.add(by[2])];
        let moved = [Q::select(moves, moved[0], x), Q::select(moves, moved[1], y), Q::select(moves, moved[2], z)];
        Q::put_xyz(moved, atoms);
    }
}

impl<Q: Quad> Edges<Q> {
    /// [`Edges::shift`] of sixteen atoms.
    #[inline(always)]
    pub(super) fn shift_sixteen(&self, atoms: &mut [[f32; 3]; 16], points: [Q::Sixteen; 3], counts: [Q::Sixteen; 3]) {
        let ([x, y, z], [a, b, c]) = (points, counts);
        let (fours, edges) = ([x.fours(), y.fours(), z.fours()], [a.fours(), b.fours(), c.fours()]);
        let mut moved = fours;
        for i in 0..4 {
            let by = self.sum([edges[0][i], edges[1][i], edges[2][i]]);
            for x in 0..3 {
                moved[x][i] = fours[x][i].add(by[x]);
            }
        }
        let [to_x, to_y, to_z] = moved;
        let moved = [
            Q::Sixteen::where_zero(counts, x, Q::Sixteen::from_fours(to_x)),
            Q::Sixteen::where_zero(counts, y, Q::Sixteen::from_fours(to_y)),
            Q::Sixteen::where_zero(counts, z, Q::Sixteen::from_fours(to_z)),
        ];
        Q::Sixteen::put_xyz(moved, atoms);
    }
}

/// The cells of frames; a cell that does not change is made once.
#[derive(Debug, Default)]
pub(crate) struct CellOfFrame {
    last: Option<(Cell, [bool; 3], PeriodicCell)>,
}

impl CellOfFrame {
    /// The cell of a frame.
    /// Errors as [`PeriodicCell::new`].
    pub(crate) fn get(&mut self, stamp: &Stamp) -> kinema_core::Result<&PeriodicCell> {
        let known = self.last.take().filter(|(cell, periodic, _)| *cell == stamp.cell && *periodic == stamp.periodic);
        let made = match known {
            Some(made) => made,
            None => (stamp.cell, stamp.periodic, PeriodicCell::new(&stamp.cell, stamp.periodic)?),
        };
        Ok(&self.last.insert(made).2)
    }
}

#[inline(always)]
pub(super) fn dot(u: Vector, v: Vector) -> f64 {
    u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
}

#[inline(always)]
pub(super) fn minus(u: Vector, v: Vector) -> Vector {
    [u[0] - v[0], u[1] - v[1], u[2] - v[2]]
}

/// From one atom of a row to another.
#[inline(always)]
pub(super) fn displacement_between(positions: &[[f32; 3]], from: u32, to: u32) -> Vector {
    let (from, to) = (positions[from as usize], positions[to as usize]);
    [0, 1, 2].map(|x| f64::from(to[x]) - f64::from(from[x]))
}

/// Moves all atoms of a frame.
pub(super) fn shift_frame(frame: &mut FrameMut<'_>, by: Vector) {
    let positions = frame.positions.as_chunks_mut::<3>().0;
    dispatch!(Cpu::detect(), (), shift_all, (positions: &mut [[f32; 3]] = positions, by: Vector = by));
}

/// Moves all atoms of a row, each as [`shift`].
#[inline(always)]
pub(super) fn shift_all<Q: Quad>(positions: &mut [[f32; 3]], by: Vector) {
    let [x, y, z] = by;
    let by_lane = [Q::load(&[x, y, z, x]), Q::load(&[y, z, x, y]), Q::load(&[z, x, y, z])];
    let (fours, rest) = positions.as_flattened_mut().as_chunks_mut::<4>();
    let (of_four_atoms, others) = fours.as_chunks_mut::<3>();
    for [a, b, c] in of_four_atoms {
        *a = Q::widen(a).add(by_lane[0]).narrow();
        *b = Q::widen(b).add(by_lane[1]).narrow();
        *c = Q::widen(c).add(by_lane[2]).narrow();
    }
    for (four, by) in others.iter_mut().zip(by_lane) {
        *four = Q::widen(four).add(by).narrow();
    }
    // which coordinate comes next, after one or two groups of four values
    let by = [by, [y, z, x], [z, x, y]][others.len()];
    for (value, by) in rest.iter_mut().zip(by) {
        *value = (f64::from(*value) + by) as f32;
    }
}

/// Moves an atom, rounded once.
#[inline(always)]
pub(super) fn shift(position: &mut [f32; 3], by: Vector) {
    *position = shifted(*position, by);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_any_length_are_shifted_as_each_atom_is() {
        let by = [0.1, -33.333_333, 1e-9];
        for n_atoms in 0..11 {
            let row: Vec<[f32; 3]> =
                (0..n_atoms).map(|i| [0.37, 11.3, -7.7].map(|x: f32| x * (i as f32 + 0.1))).collect();
            let mut expected = row.clone();
            expected.iter_mut().for_each(|atom| shift(atom, by));
            for cpu in [Cpu::detect(), Cpu::baseline()] {
                let mut found = row.clone();
                dispatch!(cpu, (), shift_all, (positions: &mut [[f32; 3]] = &mut found, by: Vector = by));
                assert_eq!(found, expected);
            }
        }
    }
}
