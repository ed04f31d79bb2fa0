//! The points that are nearest to the middle of a cell: tests whether four or sixteen points are among them, and finds
//! the number of each edge that brings them there.

use super::images::{PeriodicCell, SHORTER, Vector, dot};
use super::unit_cell::{FAR, Home, UNSURE, Within, all_less};
use crate::geometry::nearest_images::whole;
use crate::geometry::vectors::{Vectors, all, difference, dot as dot4, plus_times};
use crate::lanes::{Quad, Sixteen};
use kinema_core::frame::lattice::Lattice;

/// The points nearest to the middle.
pub(super) struct Nearest<Q> {
    middle: Vectors<Q>,
    /// [`Face::across`] of all faces.
    faces: [Vectors<Q>; MOST_FACES],
    n_faces: usize,
    /// Points up to this distance from the middle, squared, are inside.
    sure: Q,
    dual: [Vectors<Q>; 3],
    minus_basis: [Vectors<Q>; 3],
    /// The vectors of the basis in edges.
    of_edges: [Vectors<Q>; 3],
    neighbours: Vec<Beside>,
    has_open_edges: bool,
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
        faces.iter_mut().zip(&found).for_each(|(face, found)| *face = all(found.across));
        let of_edges = lattice.of_edges().map(|counts| counts.map(|count| count as f64));
        let neighbours = lattice.neighbours().iter().map(|found| {
            let [x, y, z, half] = found.lanes();
            let of_basis = found.basis_multiples().map(|count| count as f64);
            let edge = |i: usize| (0..3).map(|basis| of_basis[basis] * of_edges[basis][i]).sum();
            Beside { vector: [x[0], y[0], z[0]], half_square: half[0], of_edges: [0, 1, 2].map(edge) }
        });
        Self {
            middle: all(home.middle()),
            faces,
            n_faces: found.len(),
            sure: Q::all(lattice.sure()),
            dual: lattice.dual().map(all),
            minus_basis: lattice.basis().map(|vector| all(vector.map(|x| -x))),
            of_edges: of_edges.map(all),
            neighbours: neighbours.collect(),
            has_open_edges: cell.has_open_edges(),
        }
    }
}

/// Pairs of opposite faces that the points nearest to the origin of a lattice can have.
const MOST_FACES: usize = 7;

/// Squared lengths that differ by no more than this share are equal, as in a cell whose edges are of single precision.
/// Without its face a point is the nearest one to four times this share of its square, and [`SHORTER`] allows ten.
const EQUAL: f64 = 1.0 + 1e-6;

/// A face of the points that are nearest to the origin of a lattice, together with the opposite face.
struct Face {
    /// The point of the lattice on the far side of the face.
    behind: Vector,
    /// The same in vectors of the basis.
    of_basis: [i32; 3],
    /// Products with it are from -1 to 1 inside.
    across: Vector,
}

/// The faces of the cell of points that are nearer to the origin than to any other lattice point. The basis is
/// Minkowski-reduced, and zero beyond the number of dimensions.
///
/// Vectors are sorted into classes whose members differ by twice a lattice vector. The shortest vector of a class has a
/// face, unless several are equally short (Voronoi; Conway and Sloane, Proc. R. Soc. Lond. A 436, 55, 1992). Its
/// coefficients are -1, 0 and 1 in a reduced basis.
fn faces(basis: &[Vector; 3]) -> Vec<Face> {
    let mut shortest = [([0; 3], f64::INFINITY, f64::INFINITY); MOST_FACES + 1];
    let range = |i: usize| if basis[i] == [0.0; 3] { 0..=0 } else { -1..=1 };
    for first in range(0) {
        for second in range(1) {
            for third in range(2) {
                let counts: [i32; 3] = [first, second, third];
                if counts <= [0; 3] {
                    continue;
                }
                let squared = dot(sum_of(counts, basis), sum_of(counts, basis));
                let class = counts.iter().fold(0, |class, count| 2 * class + count.unsigned_abs() as usize);
                let (of_class, least, second) = &mut shortest[class];
                if squared < *least {
                    (*of_class, *least, *second) = (counts, squared, *least);
                } else {
                    *second = second.min(squared);
                }
            }
        }
    }
    let has_face = |(_, least, second): &&([i32; 3], f64, f64)| least.is_finite() && *second > *least * EQUAL;
    let face = |(counts, least, _): &([i32; 3], f64, f64)| {
        let behind = sum_of(*counts, basis);
        Face { behind, of_basis: *counts, across: behind.map(|x| 2.0 * x / least) }
    };
    shortest.iter().filter(has_face).map(face).collect()
}

fn sum_of(counts: [i32; 3], basis: &[Vector; 3]) -> Vector {
    [0, 1, 2].map(|x| (0..3).map(|i| f64::from(counts[i]) * basis[i][x]).sum())
}

/// Single-precision estimates for sixteen points at once: only points farther from all faces than the errors are sure.
pub(super) struct Estimate<E> {
    middle: [E; 3],
    /// [`Face::across`] of all faces; zero for those that are missing.
    faces: [[E; 3]; MOST_FACES],
    has_all_faces: bool,
    minus_dual: [[E; 3]; 3],
    basis: [[E; 3]; 3],
    /// The vectors of the basis in edges; `None` if they are the edges.
    of_edges: Option<[[E; 3]; 3]>,
    behind: Behind,
    /// Products with faces are sure up to it.
    limit: E,
}

/// Points of the lattice on the far side of faces, by the number of the face.
struct Behind {
    vector: [[f32; 8]; 3],
    of_edges: [[f32; 8]; 3],
    /// Inverse of the squared vector, with the opposite sign.
    minus_inverse: [f32; 8],
}

impl Behind {
    fn new(faces: &[Face], of_edges: &[[i64; 3]; 3]) -> Self {
        let mut made = Self { vector: [[0.0; 8]; 3], of_edges: [[0.0; 8]; 3], minus_inverse: [0.0; 8] };
        for (number, face) in faces.iter().enumerate() {
            let of_edges = [0, 1, 2].map(|x| (0..3).map(|i| i64::from(face.of_basis[i]) * of_edges[i][x]).sum::<i64>());
            made.vector.iter_mut().zip(face.behind).for_each(|(values, value)| values[number] = value as f32);
            made.of_edges.iter_mut().zip(of_edges).for_each(|(values, value)| values[number] = value as f32);
            made.minus_inverse[number] = (-1.0 / dot(face.behind, face.behind)) as f32;
        }
        made
    }
}

/// Squared reach of estimates, in cells of the basis.
const REACH: f32 = 64.0;
/// Most edges that make up a vector of the basis: fewer than 2^24 of them are within reach.
const MOST_EDGES: i64 = 1000;
/// If the share of cells whose points are not sure is larger than this, estimates do not save time.
const TOO_UNSURE: f64 = 0.05;

/// How near to a face, in products with [`Face::across`], estimates are not sure.
///
/// They decide that a point p' without its nearest point of the lattice w is inside. Where p' is that far from all faces, it is
/// nearer than p' + w by this share of |w|^2, which must be more than [`SHORTER`] asks for, and than faces that are left out
/// ([`EQUAL`]) can hide. Beside that there is the rounding of coordinates of up to 18 times the longest vector of the basis,
/// in ten steps, and of the middle.
fn unsure(lattice: &Lattice, middle: Vector) -> f64 {
    let squares = lattice.basis().map(|vector| dot(vector, vector));
    let (shortest, longest) = (squares[0].sqrt(), squares[2].sqrt());
    // no point is farther from the lattice
    let farthest_squared = 0.25 * squares.iter().sum::<f64>();
    let of_limits = 1.1 * (1.0 - SHORTER) * farthest_squared / squares[0] + 4.0 * (EQUAL - 1.0);
    let of_rounding = f64::from(f32::EPSILON) * (8.0 * dot(middle, middle).sqrt() + 500.0 * longest) / shortest;
    of_limits + of_rounding
}

impl<E: Sixteen> Estimate<E> {
    /// Not of slabs and wires, nor of cells that are too skewed.
    #[inline(always)]
    pub(super) fn new(cell: &PeriodicCell) -> Option<Self> {
        let (lattice, unsure) = (cell.lattice(), unsure(cell.lattice(), cell.middle()));
        let is_skewed = lattice.of_edges().iter().flatten().any(|count| count.abs() > MOST_EDGES);
        // not a number is not less either
        let is_sure = unsure < TOO_UNSURE;
        if cell.has_open_edges() || is_skewed || !is_sure {
            return None;
        }
        let found = faces(lattice.basis());
        let mut faces = [[E::all(0.0); 3]; MOST_FACES];
        for (face, found) in faces.iter_mut().zip(&found) {
            *face = each(found.across);
        }
        // edges that are a reduced basis, in any order, are taken as they are
        let is_basis = lattice.of_edges().iter().all(|counts| counts.iter().map(|count| count.abs()).sum::<i64>() == 1);
        let (basis, dual) =
            if is_basis { (*cell.edges(), lattice.dual_of_edges()) } else { (*lattice.basis(), *lattice.dual()) };
        let [a, b, c] = lattice.of_edges().map(|counts| each(counts.map(|count| count as f64)));
        let minus = |[x, y, z]: Vector| [-x, -y, -z];
        Some(Self {
            middle: each(cell.middle()),
            faces,
            has_all_faces: found.len() == MOST_FACES,
            minus_dual: [each(minus(dual[0])), each(minus(dual[1])), each(minus(dual[2]))],
            basis: [each(basis[0]), each(basis[1]), each(basis[2])],
            of_edges: (!is_basis).then_some([a, b, c]),
            behind: Behind::new(&found, lattice.of_edges()),
            limit: E::all((1.0 - unsure) as f32),
        })
    }

    /// Whether all are surely inside.
    #[inline(always)]
    pub(super) fn surely_inside(&self, points: [E; 3]) -> bool {
        self.farthest(self.subtract_middle(points), E::all(0.0)).all_less(self.limit)
    }

    /// Number of each edge that brings each point home. `None` if a point is not sure.
    #[inline(always)]
    pub(super) fn edges_home(&self, points: [E; 3]) -> Option<[E; 3]> {
        let from_middle = self.subtract_middle(points);
        let (mut rest, mut reach) = (from_middle, E::all(0.0));
        let mut counts = [E::all(0.0); 3];
        for ((count, minus_dual), vector) in counts.iter_mut().zip(self.minus_dual).zip(self.basis) {
            *count = rounded(product(minus_dual, from_middle));
            reach = count.multiply_add(*count, reach);
            rest = plus(rest, *count, vector);
        }
        if let Some(of_edges) = &self.of_edges {
            let of_basis = std::mem::replace(&mut counts, [E::all(0.0); 3]);
            for i in 0..3 {
                counts = plus(counts, of_basis[i], of_edges[i]);
            }
        }
        // through the face that it is farthest beyond
        let mut farthest = E::all(0.0);
        for number in 0..MOST_FACES - 1 {
            farthest = farthest.maximum(product(self.faces[number], rest).numbered(number as u32));
        }
        if self.has_all_faces {
            farthest = farthest.maximum(product(self.faces[MOST_FACES - 1], rest).numbered(MOST_FACES as u32 - 1));
        }
        let Behind { vector: [x, y, z], of_edges: [a, b, c], minus_inverse } = &self.behind;
        let vector = [farthest.pick(x), farthest.pick(y), farthest.pick(z)];
        let times = rounded(product(vector, rest).multiply(farthest.pick(minus_inverse)));
        rest = plus(rest, times, vector);
        counts = plus(counts, times, [farthest.pick(a), farthest.pick(b), farthest.pick(c)]);
        let reach = reach.multiply(E::all(1.0 / REACH));
        self.farthest(rest, reach).all_less(self.limit).then_some(counts)
    }

    #[inline(always)]
    fn subtract_middle(&self, points: [E; 3]) -> [E; 3] {
        let ([x, y, z], [mx, my, mz]) = (points, self.middle);
        [x.subtract(mx), y.subtract(my), z.subtract(mz)]
    }

    /// The greatest product with a face, if it is more than another number. NaN if a point is not finite: all its
    /// products are NaN then, and the last one stays.
    #[inline(always)]
    fn farthest(&self, from_middle: [E; 3], at_least: E) -> E {
        let mut most = at_least;
        if self.has_all_faces {
            most = most.maximum(product(self.faces[MOST_FACES - 1], from_middle).magnitude());
        }
        for number in 0..MOST_FACES - 1 {
            most = most.maximum(product(self.faces[number], from_middle).magnitude());
        }
        most
    }
}

#[inline(always)]
fn each<E: Sixteen>([x, y, z]: Vector) -> [E; 3] {
    [E::all(x as f32), E::all(y as f32), E::all(z as f32)]
}

#[inline(always)]
fn product<E: Sixteen>(u: [E; 3], v: [E; 3]) -> E {
    u[2].multiply_add(v[2], u[1].multiply_add(v[1], u[0].multiply(v[0])))
}

#[inline(always)]
fn plus<E: Sixteen>(u: [E; 3], factor: E, v: [E; 3]) -> [E; 3] {
    [factor.multiply_add(v[0], u[0]), factor.multiply_add(v[1], u[1]), factor.multiply_add(v[2], u[2])]
}

/// To a whole number, of less than 2^22.
#[inline(always)]
fn rounded<E: Sixteen>(value: E) -> E {
    const ROUNDING: f32 = 1.5 * (1_u32 << 23) as f32;
    value.add(E::all(ROUNDING)).subtract(E::all(ROUNDING))
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
        let mut from_middle = difference(points, self.middle);
        if self.has_open_edges {
            // the part along periodic edges, as with one point
            let mut along = [zero; 3];
            for (dual, minus_vector) in self.dual.iter().zip(&self.minus_basis) {
                along = plus_times(along, zero.subtract(dot4(*dual, from_middle)), *minus_vector);
            }
            from_middle = along;
        }
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
        // half of the decrease of the square with the best neighbour, and with the second best
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
        // an image that is only as near does not replace a point
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
            let lattice = Lattice::from_cell(&cell).unwrap();
            let found = faces(lattice.basis());
            assert_eq!(found.len(), expected, "{cell:?}");
            let (mut inside, steps) = (0, 31);
            let share = |step: i32| 2.2 * f64::from(step) / f64::from(steps - 1) - 1.1 + 1e-3;
            for step in 0..steps * steps * steps {
                let shares = [step % steps, step / steps % steps, step / steps / steps].map(share);
                let point = [0, 1, 2].map(|x| (0..3).map(|i| shares[i] * lattice.basis()[i][x]).sum());
                let nearest = lattice.nearest(point);
                let is_nearest = dot(nearest, nearest) >= SHORTER * dot(point, point);
                let is_between = found.iter().all(|face| dot(face.across, point).abs() < 1.0);
                assert_eq!(is_between, is_nearest, "{cell:?} {point:?}");
                inside += usize::from(is_between);
            }
            assert!(inside > 1000, "{inside}");
        }
    }
}
