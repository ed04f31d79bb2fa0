//! The unit cell that atoms and groups are brought home to: in which of its three shapes a point is inside, and how many of each
//! edge bring it there; of one point, and of four at once.

use kinema_core::frame::lattice::ROUNDING;

use super::images::{Fault, MOST_CELLS, PeriodicCell, SHORTER, Vector, dot, minus};
use crate::geometry::nearest_images::whole;
use crate::geometry::vectors::{Vectors, all, difference, dot as dot4, plus_times};
use crate::lanes::Quad;

/// How far outside, in reduced coordinates, a centre may lie that is not moved: what was moved once stays. Atoms in cells along
/// the axes are inside exactly.
pub(super) const EDGE: f64 = 1.0 / (1_u64 << 22) as f64;

/// What is that near to a face is examined once more, one group after the other.
const UNSURE: f64 = 1e-9;

/// So is what is that many cells away.
const FAR: f64 = 1024.0;

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

    /// Its shape.
    pub(super) fn shape(&self) -> UnitCell {
        self.shape
    }

    /// Whether coordinates are those along the axes, divided by lengths: the first edge of the cell is along x, the second in the
    /// plane of x and y, and the shape a brick.
    pub(super) fn is_along_axes(&self, cell: &PeriodicCell) -> bool {
        let (rows, edges) = (&self.coordinates, cell.edges());
        (0..3).all(|i| (0..3).all(|x| (x == i || rows[i][x] == 0.0) && (x <= i || edges[i][x] == 0.0)))
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

/// Where four points are in a unit cell; what is said for sure is what [`Home::counts`] says.
pub(super) trait Within<Q: Quad> {
    /// Whether all are surely inside, by a test that leaves many open.
    fn surely_inside(&self, points: Vectors<Q>) -> bool;

    /// How many of each edge bring each of them home. `None` where one is too near to a face or too far away to be sure, or not a
    /// number: then each must be examined by itself.
    fn edges_home(&self, points: Vectors<Q>) -> Option<Vectors<Q>>;
}

/// Whether it is so in each lane; not where one is not a number.
#[inline(always)]
fn all_less<Q: Quad>(value: Q, limit: Q) -> bool {
    let one = Q::select(value.less(limit), Q::all(0.0), Q::all(1.0));
    !Q::any(Q::all(0.0).less(one))
}

/// A parallelepiped or brick.
pub(super) struct Inside<Q> {
    coordinates: [Vectors<Q>; 3],
    less: Vectors<Q>,
    /// Of a brick, whose coordinates change with what is added along the edges after them.
    edges: Option<[Vectors<Q>; 3]>,
}

impl<Q: Quad> Inside<Q> {
    #[inline(always)]
    pub(super) fn new(home: &Home, cell: &PeriodicCell) -> Self {
        let edges = (home.shape == UnitCell::Rect).then(|| cell.edges().map(all));
        // along open edges all points are inside
        let less = home.coordinates.map(|row| if row == [0.0; 3] { 0.0 } else { 0.5 });
        Self { coordinates: home.coordinates.map(all), less: all(less), edges }
    }
}

impl<Q: Quad> Inside<Q> {
    /// From -1/2 to 1/2 inside; 0 along open edges.
    #[inline(always)]
    fn off_middle(&self, i: usize, points: Vectors<Q>) -> Q {
        dot4(self.coordinates[i], points).subtract(self.less[i])
    }
}

impl<Q: Quad> Within<Q> for Inside<Q> {
    #[inline(always)]
    fn surely_inside(&self, points: Vectors<Q>) -> bool {
        // of a point that is not finite no product is, and the last one stays
        let mut most = Q::all(0.0);
        for i in 0..3 {
            most = most.maximum(self.off_middle(i, points).magnitude());
        }
        all_less(most, Q::all(0.5 - UNSURE))
    }

    #[inline(always)]
    fn edges_home(&self, points: Vectors<Q>) -> Option<Vectors<Q>> {
        let zero = Q::all(0.0);
        let (mut counts, mut points, mut farthest, mut nearest) = ([zero; 3], points, zero, zero);
        for i in [2, 1, 0] {
            let from_middle = self.off_middle(i, points);
            let cells = whole(from_middle);
            farthest = farthest.maximum(cells.magnitude());
            nearest = nearest.maximum(from_middle.subtract(cells).magnitude());
            counts[i] = zero.subtract(cells);
            if let Some(edges) = &self.edges {
                points = plus_times(points, counts[i], edges[i]);
            }
        }
        let surely = all_less(nearest, Q::all(0.5 - (EDGE + UNSURE))) && all_less(farthest, Q::all(FAR));
        surely.then_some(counts)
    }
}

/// A brick along the axes: as [`Inside`], without products that are zero.
pub(super) struct Upright<Q> {
    inverse: Vectors<Q>,
    less: Vectors<Q>,
    edges: [Vectors<Q>; 3],
}

impl<Q: Quad> Upright<Q> {
    /// Of a cell where [`Home::is_along_axes`].
    #[inline(always)]
    pub(super) fn new(home: &Home, cell: &PeriodicCell) -> Self {
        let Inside { coordinates: [x, y, z], less, .. } = Inside::new(home, cell);
        let [a, b, c] = cell.edges();
        Self { inverse: [x[0], y[1], z[2]], less, edges: [all(*a), all(*b), all(*c)] }
    }

    #[inline(always)]
    fn off_middle(&self, i: usize, points: Vectors<Q>) -> Q {
        points[i].multiply(self.inverse[i]).subtract(self.less[i])
    }
}

impl<Q: Quad> Within<Q> for Upright<Q> {
    #[inline(always)]
    fn surely_inside(&self, points: Vectors<Q>) -> bool {
        let (limit, outside) = (Q::all(0.5 - UNSURE), Q::all(1.0));
        // what is not a number is not less
        let mut off = self.off_middle(0, points).magnitude();
        for i in 1..3 {
            off = Q::select(off.less(limit), self.off_middle(i, points).magnitude(), outside);
        }
        all_less(off, limit)
    }

    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "functions of iterators are compiled for every processor")]
    fn edges_home(&self, points: Vectors<Q>) -> Option<Vectors<Q>> {
        let zero = Q::all(0.0);
        let (mut counts, mut points, mut farthest, mut nearest) = ([zero; 3], points, zero, zero);
        for i in [2, 1, 0] {
            let from_middle = self.off_middle(i, points);
            let cells = whole(from_middle);
            // what is not a number makes those after it none, and the last one stays
            farthest = farthest.maximum(cells.magnitude());
            nearest = nearest.maximum(from_middle.subtract(cells).magnitude());
            counts[i] = zero.subtract(cells);
            for x in 0..i {
                points[x] = counts[i].multiply_add(self.edges[i][x], points[x]);
            }
        }
        let surely = all_less(nearest, Q::all(0.5 - (EDGE + UNSURE))) && all_less(farthest, Q::all(FAR));
        surely.then_some(counts)
    }
}

/// The points nearest to the middle.
pub(super) struct Nearest<Q> {
    middle: Vectors<Q>,
    /// As [`faces`] gives them.
    faces: [Vectors<Q>; MOST_FACES],
    n_faces: usize,
    /// Points up to this distance from the middle, squared, are inside.
    sure: Q,
    dual: [Vectors<Q>; 3],
    minus_basis: [Vectors<Q>; 3],
    /// The vectors of the basis in edges.
    of_edges: [Vectors<Q>; 3],
    neighbours: Vec<Beside>,
}

/// A neighbour of a lattice.
struct Beside {
    vector: Vector,
    half_square: f64,
    of_edges: Vector,
}

impl<Q: Quad> Nearest<Q> {
    #[inline(always)]
    pub(super) fn new(home: &Home, cell: &PeriodicCell) -> Self {
        let lattice = cell.lattice();
        let found = faces(lattice.basis());
        let mut faces = [all([0.0; 3]); MOST_FACES];
        faces.iter_mut().zip(&found).for_each(|(face, found)| *face = all(*found));
        let of_edges = lattice.of_edges().map(|counts| counts.map(|count| count as f64));
        let neighbours = lattice.neighbours().iter().map(|found| {
            let [x, y, z, half] = found.lanes();
            let of_basis = found.of_basis().map(|count| count as f64);
            let edge = |i: usize| (0..3).map(|basis| of_basis[basis] * of_edges[basis][i]).sum();
            Beside { vector: [x[0], y[0], z[0]], half_square: half[0], of_edges: [0, 1, 2].map(edge) }
        });
        Self {
            middle: all(home.middle),
            faces,
            n_faces: found.len(),
            sure: Q::all(lattice.sure()),
            dual: lattice.dual().map(all),
            minus_basis: lattice.basis().map(|vector| all(vector.map(|x| -x))),
            of_edges: of_edges.map(all),
            neighbours: neighbours.collect(),
        }
    }
}

/// Pairs of opposite faces that the points nearest to the origin of a lattice can have.
const MOST_FACES: usize = 7;

/// The faces of the points that are nearest to the origin of all points of a lattice: products with these vectors are from -1 to
/// 1 inside. The basis is Minkowski-reduced, and zero beyond the number of dimensions.
///
/// Of vectors that differ by twice another one, the shortest has a face, unless several are as short (Voronoi; Conway and
/// Sloane, Proc. R. Soc. Lond. A 436, 55, 1992). Its coefficients are -1, 0 and 1 in a reduced basis.
fn faces(basis: &[Vector; 3]) -> Vec<Vector> {
    /// Lengths, squared, up to this share longer are equal, as in a cell whose edges are of single precision. Without their face
    /// a point is the nearest one to four times this share of its square, and [`SHORTER`] allows ten.
    const EQUAL: f64 = 1.0 + 1e-6;
    let mut shortest = [([0.0; 3], f64::INFINITY, f64::INFINITY); MOST_FACES + 1];
    let range = |i: usize| if basis[i] == [0.0; 3] { 0..=0 } else { -1..=1 };
    for first in range(0) {
        for second in range(1) {
            for third in range(2) {
                let counts: [i32; 3] = [first, second, third];
                if counts <= [0; 3] {
                    continue;
                }
                let vector = [0, 1, 2].map(|x| (0..3).map(|i| f64::from(counts[i]) * basis[i][x]).sum());
                let squared = dot(vector, vector);
                let class = counts.iter().fold(0, |class, count| 2 * class + count.unsigned_abs() as usize);
                let (of_class, least, second) = &mut shortest[class];
                if squared < *least {
                    (*of_class, *least, *second) = (vector, squared, *least);
                } else {
                    *second = second.min(squared);
                }
            }
        }
    }
    let has_face = |(_, least, second): &&(Vector, f64, f64)| least.is_finite() && *second > *least * EQUAL;
    shortest.iter().filter(has_face).map(|(vector, least, _)| vector.map(|x| 2.0 * x / least)).collect()
}

impl<Q: Quad> Within<Q> for Nearest<Q> {
    #[inline(always)]
    fn surely_inside(&self, points: Vectors<Q>) -> bool {
        let from_middle = difference(points, self.middle);
        // of a point that is not finite no product is, and the last one stays
        let mut most = Q::all(0.0);
        for face in &self.faces[..self.n_faces] {
            most = most.maximum(dot4(*face, from_middle).magnitude());
        }
        all_less(most, Q::all(1.0))
    }

    #[inline(always)]
    fn edges_home(&self, points: Vectors<Q>) -> Option<Vectors<Q>> {
        let zero = Q::all(0.0);
        let from_middle = difference(points, self.middle);
        let squared = dot4(from_middle, from_middle);
        let (mut rest, mut counts, mut farthest, mut rounded) = (from_middle, [zero; 3], zero, zero);
        for i in 0..3 {
            let along = dot4(self.dual[i], from_middle);
            let cells = whole(along);
            farthest = farthest.maximum(cells.magnitude());
            rounded = rounded.maximum(along.subtract(cells).magnitude());
            rest = plus_times(rest, cells, self.minus_basis[i]);
            for (count, of_edges) in counts.iter_mut().zip(self.of_edges[i]) {
                *count = count.subtract(of_edges.multiply(cells));
            }
        }
        // by which the square falls, halved, with the best neighbour, and with the best but one
        let (mut most, mut second, mut sign, mut found) = (zero, Q::all(f64::MIN), zero, [zero; 3]);
        for neighbour in &self.neighbours {
            let along = dot4(rest, all(neighbour.vector));
            let gain = along.magnitude().subtract(Q::all(neighbour.half_square));
            let nearer = most.less(gain);
            second = Q::select(nearer, most, second.maximum(gain));
            most = Q::select(nearer, gain, most);
            sign = Q::select(nearer, along, sign);
            for (found, edge) in found.iter_mut().zip(neighbour.of_edges) {
                *found = Q::select(nearer, Q::all(edge), *found);
            }
        }
        counts = plus_times(counts, Q::all(-1.0).with_sign_of(zero.subtract(sign)), found);
        let shortest = Q::all(-2.0).multiply_add(most, dot4(rest, rest));
        // what is as near stays
        let limit = Q::all(SHORTER).multiply(squared);
        let nearer = shortest.less(limit);
        let mut moved = zero;
        for count in &mut counts {
            *count = Q::select(nearer, *count, zero);
            moved = moved.maximum(count.magnitude());
        }
        let unsure = Q::all(UNSURE);
        let surely = all_less(rounded, Q::all(0.5 - UNSURE))
            && all_less(unsure.multiply_add(self.sure, second), most)
            && all_less(unsure.multiply(squared), shortest.subtract(limit).magnitude())
            && all_less(farthest.maximum(moved), Q::all(FAR));
        surely.then_some(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Lattice;

    #[test]
    fn what_is_between_all_faces_is_its_own_nearest_image() {
        let root = 3_f64.sqrt();
        let cells = [
            ([[30.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 50.0]], 2),
            ([[30.0, 0.0, 0.0], [0.0, 40.0, 0.0], [0.0, 0.0, 50.0]], 3),
            ([[40.0, 0.0, 0.0], [0.0, 50.0, 0.0], [-12.0, 0.0, 60.0]], 4),
            ([[50.0, 0.0, 0.0], [-25.0, 25.0 * root, 0.0], [0.0, 0.0, 80.0]], 4),
            ([[80.017_006, 0.0, 0.0], [0.0, 80.017_006, 0.0], [40.008_503, 40.008_503, 56.580_566]], 6),
            ([[60.0, 0.0, 0.0], [20.0, 56.568_54, 0.0], [-20.0, 28.284_27, 48.989_79]], 7),
            ([[31.0, 2.0, 1.0], [11.0, 29.0, 3.0], [-7.0, 5.0, 23.0]], 7),
            ([[31.0, 2.0, 1.0], [73.0, 33.0, 5.0], [-7.0, 5.0, 23.0]], 7),
        ];
        for (cell, expected) in cells {
            let lattice = Lattice::of_cell(&cell).unwrap();
            let found = faces(lattice.basis());
            assert_eq!(found.len(), expected, "{cell:?}");
            let (mut inside, steps) = (0, 31);
            let share = |step: i32| 2.2 * f64::from(step) / f64::from(steps - 1) - 1.1 + 1e-3;
            for step in 0..steps * steps * steps {
                let shares = [step % steps, step / steps % steps, step / steps / steps].map(share);
                let point = [0, 1, 2].map(|x| (0..3).map(|i| shares[i] * lattice.basis()[i][x]).sum());
                let nearest = lattice.nearest(point);
                let is_nearest = dot(nearest, nearest) >= SHORTER * dot(point, point);
                let is_between = found.iter().all(|face| dot(*face, point).abs() < 1.0);
                assert_eq!(is_between, is_nearest, "{cell:?} {point:?}");
                inside += usize::from(is_between);
            }
            assert!(inside > 1000, "{inside}");
        }
    }
}
