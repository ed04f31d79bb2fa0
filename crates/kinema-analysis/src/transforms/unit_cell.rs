//! The unit cell to which atoms and groups are brought home: tests whether a point is inside one of its three shapes,
//! and finds the number of each edge that brings it there; for one point, and for four at once.

use kinema_core::frame::lattice::ROUNDING;

use super::images::{Fault, MOST_CELLS, PeriodicCell, Vector, dot, minus};
use crate::geometry::nearest_images::whole;
use crate::geometry::vectors::{Vectors, all, dot as dot4, plus_times};
use crate::lanes::Quad;

/// How far outside, in reduced coordinates, a centre may lie without being moved, so that moved atoms stay. Atoms in
/// cells along the axes are inside exactly.
pub(super) const EDGE: f64 = 1.0 / (1_u64 << 22) as f64;

/// Groups this near to a face are examined again, one after another.
pub(super) const UNSURE: f64 = 1e-9;

/// Groups this many cells away are examined again as well.
pub(super) const FAR: f64 = 1024.0;

/// The shape of the unit cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnitCell {
    /// The points nearest to the middle of the cell.
    Compact,
    /// A brick with a corner at the origin, and its first edge along the cell's first edge.
    #[default]
    Rect,
    /// The parallelepiped of the edges, with a corner in the origin.
    Tric,
}

/// The place of a frame's unit cell.
#[derive(Debug, Clone)]
pub struct Home {
    shape: UnitCell,
    /// Coordinates of the parallelepiped or brick, from 0 to 1 inside of it; zero along open edges.
    coordinates: [Vector; 3],
    middle: Vector,
    on_axes: Option<OnAxes>,
}

/// Edges that each lie on an axis: the number of the axis, and the edge along it, zero for an open edge.
pub(super) type OnAxes = [(usize, f64); 3];

impl Home {
    /// Home cell of a periodic cell.
    pub fn new(shape: UnitCell, cell: &PeriodicCell) -> Self {
        let coordinates = match shape {
            UnitCell::Rect => brick_coordinates(cell.edges()),
            _ => cell.lattice().dual_of_edges(),
        };
        let on_axes = if shape == UnitCell::Compact { None } else { on_axes(cell.edges()) };
        Self { shape, coordinates, middle: cell.middle(), on_axes }
    }

    /// The edges of a parallelepiped or brick, if each lies on an axis.
    pub(super) fn on_axes(&self) -> Option<&OnAxes> {
        self.on_axes.as_ref()
    }

    /// The middle of the cell.
    pub(super) fn middle(&self) -> Vector {
        self.middle
    }

    /// Its shape.
    pub(super) fn shape(&self) -> UnitCell {
        self.shape
    }

    /// Whether coordinates are those along the axes, divided by lengths: the first edge of the cell is along x, the
    /// second in the plane of x and y, and the shape is a brick.
    pub(super) fn is_along_axes(&self, cell: &PeriodicCell) -> bool {
        let (rows, edges) = (&self.coordinates, cell.edges());
        (0..3).all(|i| (0..3).all(|x| (x == i || rows[i][x] == 0.0) && (x <= i || edges[i][x] == 0.0)))
    }

    /// Number of each edge that brings a point home. A point up to [`EDGE`] outside counts as inside.
    pub(super) fn counts(&self, point: Vector, cell: &PeriodicCell, atom: u32) -> std::result::Result<[i64; 3], Fault> {
        let counts = match self.shape {
            UnitCell::Compact => return cell.to_nearest(minus(point, self.middle), atom),
            UnitCell::Tric => self.coordinates.map(|row| cells_below(dot(row, point), EDGE)),
            UnitCell::Rect => {
                let (mut counts, mut point) = ([0.0; 3], point);
                for i in [2, 1, 0] {
                    counts[i] = cells_below(dot(self.coordinates[i], point), EDGE);
                    point = [0, 1, 2].map(|x| point[x] + counts[i] * cell.edges()[i][x]);
                }
                counts
            }
        };
        check_reach(counts, point, atom)
    }
}

/// The same for edges that each lie on an axis, exactly. Quotients, unlike products with inverses, are 1 only for
/// points that are not inside, so that a point that was brought home stays when it is brought home again.
pub(super) fn counts_on_axes(edges: &OnAxes, point: Vector, atom: u32) -> std::result::Result<[i64; 3], Fault> {
    let coordinate = |(axis, edge): (usize, f64)| if edge == 0.0 { 0.0 * point[axis] } else { point[axis] / edge };
    check_reach(edges.map(|edge| cells_below(coordinate(edge), 0.0)), point, atom)
}

fn check_reach(counts: [f64; 3], point: Vector, atom: u32) -> std::result::Result<[i64; 3], Fault> {
    // not a number is not below either
    if point.iter().all(|x| x.is_finite()) && counts.iter().all(|count| count.abs() < MOST_CELLS as f64) {
        return Ok(counts.map(|count| count as i64));
    }
    Err(Fault::from_displacement(point, atom))
}

fn on_axes(edges: &[Vector; 3]) -> Option<OnAxes> {
    let mut found = [(0, 0.0); 3];
    for (found, edge) in found.iter_mut().zip(edges) {
        let mut others = (0..3).filter(|&x| edge[x] != 0.0);
        *found = others.next().map_or((0, 0.0), |axis| (axis, edge[axis]));
        if others.next().is_some() {
            return None;
        }
    }
    Some(found)
}

/// Whole cells to be added to a coordinate so that it is from 0 to 1.
#[inline(always)]
fn cells_below(coordinate: f64, margin: f64) -> f64 {
    let inside = coordinate >= -margin && coordinate < 1.0 + margin;
    if inside { 0.0 } else { -floor(coordinate) }
}

/// The greatest whole number up to a value of less than 2^51; not every processor has an instruction for it.
#[inline(always)]
fn floor(value: f64) -> f64 {
    let rounded = (value + ROUNDING) - ROUNDING;
    if rounded > value { rounded - 1.0 } else { rounded }
}

/// Coordinates along the axes of a brick: the first edge, across it in the plane of the second, and across both.
fn brick_coordinates(edges: &[Vector; 3]) -> [Vector; 3] {
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

/// Places of four points relative to a unit cell; results that are sure equal those of [`Home::counts`].
pub(super) trait Within<Q: Quad> {
    /// Whether all are surely inside, by a test that leaves many open.
    fn surely_inside(&self, points: Vectors<Q>) -> bool;

    /// Number of each edge that brings each point home. `None` if a point is too near to a face or too far away to be
    /// sure, or is not a number: each must then be examined by itself.
    fn edges_home(&self, points: Vectors<Q>) -> Option<Vectors<Q>>;
}

/// Whether `value` is less than `limit` in all lanes; false if a lane is not a number.
#[inline(always)]
pub(super) fn all_less<Q: Quad>(value: Q, limit: Q) -> bool {
    let one = Q::select(value.less(limit), Q::all(0.0), Q::all(1.0));
    !Q::any(Q::all(0.0).less(one))
}

/// A parallelepiped or brick.
pub(super) struct Inside<Q> {
    coordinates: [Vectors<Q>; 3],
    less: Vectors<Q>,
    /// Edges of a brick, whose coordinates change with each edge that is added after them.
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

/// Coordinates of four points; the coordinates of a brick change with each edge that is added after them.
trait Coordinates<Q: Quad> {
    /// From -1/2 to 1/2 inside; 0 along open edges.
    fn subtract_middle(&self, i: usize, points: Vectors<Q>) -> Q;

    /// The points with `counts` of an edge added, as the coordinates before it see them.
    fn plus_edges(&self, points: Vectors<Q>, i: usize, counts: Q) -> Vectors<Q>;

    /// [`Within::edges_home`]
    #[inline(always)]
    fn whole_edges(&self, points: Vectors<Q>) -> Option<Vectors<Q>> {
        let zero = Q::all(0.0);
        let (mut counts, mut points, mut farthest, mut nearest) = ([zero; 3], points, zero, zero);
        for i in [2, 1, 0] {
            let from_middle = self.subtract_middle(i, points);
            let cells = whole(from_middle);
            // a NaN makes those after it NaN, and the last one stays
            farthest = farthest.maximum(cells.magnitude());
            nearest = nearest.maximum(from_middle.subtract(cells).magnitude());
            counts[i] = zero.subtract(cells);
            points = self.plus_edges(points, i, counts[i]);
        }
        let surely = all_less(nearest, Q::all(0.5 - (EDGE + UNSURE))) && all_less(farthest, Q::all(FAR));
        surely.then_some(counts)
    }
}

impl<Q: Quad> Coordinates<Q> for Inside<Q> {
    #[inline(always)]
    fn subtract_middle(&self, i: usize, points: Vectors<Q>) -> Q {
        dot4(self.coordinates[i], points).subtract(self.less[i])
    }

    #[inline(always)]
    fn plus_edges(&self, points: Vectors<Q>, i: usize, counts: Q) -> Vectors<Q> {
        match &self.edges {
            Some(edges) => plus_times(points, counts, edges[i]),
            None => points,
        }
    }
}

impl<Q: Quad> Within<Q> for Inside<Q> {
    #[inline(always)]
    fn surely_inside(&self, points: Vectors<Q>) -> bool {
        // of a point that is not finite no product is, and the last one stays
        let mut most = Q::all(0.0);
        for i in 0..3 {
            most = most.maximum(self.subtract_middle(i, points).magnitude());
        }
        all_less(most, Q::all(0.5 - UNSURE))
    }

    #[inline(always)]
    fn edges_home(&self, points: Vectors<Q>) -> Option<Vectors<Q>> {
        self.whole_edges(points)
    }
}

/// A brick along the axes: as [`Inside`], without products that are zero.
pub(super) struct Upright<Q> {
    inverse: Vectors<Q>,
    less: Vectors<Q>,
    edges: [Vectors<Q>; 3],
}

impl<Q: Quad> Upright<Q> {
    /// For a cell with [`Home::is_along_axes`].
    #[inline(always)]
    pub(super) fn new(home: &Home, cell: &PeriodicCell) -> Self {
        let Inside { coordinates: [x, y, z], less, .. } = Inside::new(home, cell);
        let [a, b, c] = cell.edges();
        Self { inverse: [x[0], y[1], z[2]], less, edges: [all(*a), all(*b), all(*c)] }
    }
}

impl<Q: Quad> Coordinates<Q> for Upright<Q> {
    #[inline(always)]
    fn subtract_middle(&self, i: usize, points: Vectors<Q>) -> Q {
        points[i].multiply(self.inverse[i]).subtract(self.less[i])
    }

    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "functions of iterators are compiled for every processor")]
    fn plus_edges(&self, mut points: Vectors<Q>, i: usize, counts: Q) -> Vectors<Q> {
        for x in 0..i {
            points[x] = counts.multiply_add(self.edges[i][x], points[x]);
        }
        points
    }
}

impl<Q: Quad> Within<Q> for Upright<Q> {
    #[inline(always)]
    fn surely_inside(&self, points: Vectors<Q>) -> bool {
        let (limit, outside) = (Q::all(0.5 - UNSURE), Q::all(1.0));
        // a NaN is not less
        let mut off = self.subtract_middle(0, points).magnitude();
        for i in 1..3 {
            off = Q::select(off.less(limit), self.subtract_middle(i, points).magnitude(), outside);
        }
        all_less(off, limit)
    }

    #[inline(always)]
    fn edges_home(&self, points: Vectors<Q>) -> Option<Vectors<Q>> {
        self.whole_edges(points)
    }
}
