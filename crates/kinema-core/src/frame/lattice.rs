//! The lattice of a periodic cell, and the nearest of all images of a displacement in it.
//!
//! The cell may be any triclinic one: unreduced, rotated, left-handed; each of its edges is periodic or open (slabs, wires).
//!
//! Rounding reduced coordinates gives the nearest image in a right-angled cell only. Here the basis of the lattice is
//! Minkowski-reduced first. A displacement whose nearest lattice point is the origin then has reduced coordinates of at
//! most 1 in three dimensions and 3/4 in two (Nguyen and Stehlé, ACM Trans. Algorithms 5, 46, 2009, section 5), so that
//! the nearest lattice point has coordinates which differ from the rounded ones by at most 1. All of these are compared.

use super::Cell;
use crate::error::{Error, ErrorKind, Result};

/// Distance from the origin, in cells, beyond which reduced coordinates are no longer rounded to whole numbers.
pub const REACH: f64 = (1_u64 << 50) as f64;
/// Adding and subtracting it rounds to a whole number; every processor does that for several values at once.
pub const ROUNDING: f64 = 1.5 * (1_u64 << 52) as f64;
/// A height of the cell up to this share of its longest edge is none: positions are of single precision.
const FLAT: f64 = 1e-9;
/// Steps of the reduction: it needs some ten for the worst cells that double precision can hold.
const MOST_STEPS: usize = 1000;

type Vector = [f64; 3];

/// A lattice of one, two or three dimensions, or none.
#[derive(Debug, Clone, PartialEq)]
pub struct Lattice {
    /// Minkowski-reduced, the shortest first; zero beyond the number of dimensions.
    basis: [Vector; 3],
    /// Products of its vectors with those of the basis are 1 and 0.
    dual: [Vector; 3],
    /// The vectors of the basis as whole multiples of the edges.
    of_edges: [[i64; 3]; 3],
    /// Reduced coordinates by the periodic edges as they were given; zero rows for open ones.
    dual_of_edges: [Vector; 3],
    /// Sums of basis vectors that a rounded displacement is compared with; of v and -v one.
    neighbours: Vec<Neighbour>,
    /// A displacement up to this length, squared, is its own nearest image.
    sure: f64,
}

/// A sum of basis vectors that can be the lattice point nearest to a rounded displacement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbour {
    vector: Vector,
    squared: f64,
    /// In vectors of the basis.
    of_basis: [i64; 3],
    lanes: [[f64; 4]; 4],
}

impl Neighbour {
    /// x, y and z of the vector and half of its square, four times each: so a loop over displacements reads them as they are.
    #[inline(always)]
    pub fn lanes(&self) -> &[[f64; 4]; 4] {
        &self.lanes
    }

    /// How often it has each vector of the basis: -1, 0 or 1.
    #[inline(always)]
    pub fn basis_multiples(&self) -> [i64; 3] {
        self.of_basis
    }
}

impl Lattice {
    /// The lattice of a cell, given as row vectors in angstrom, and which of its edges are periodic. An edge of length
    /// zero is open.
    ///
    /// # Errors
    /// `InvalidArgument` for an edge that is not finite, and for periodic edges that lie in one line or plane.
    pub fn new(cell: &Cell, periodic: [bool; 3]) -> Result<Self> {
        if cell.iter().flatten().all(|value| value.is_nan()) {
            let what = "the cell of the frame is not known, or is none that can be used (not finite, negative lengths, or \
                        angles of no cell)";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        if cell.iter().flatten().any(|value| !value.is_finite()) {
            return Err(Error::new(ErrorKind::InvalidArgument, format!("the cell is not finite: {cell:?}")));
        }
        let edges: Vec<usize> = (0..3).filter(|&i| periodic[i] && cell[i] != [0.0; 3]).collect();
        let rank = edges.len();
        let mut basis = [[0.0; 3]; 3];
        let mut of_edges = [[0; 3]; 3];
        for (i, &edge) in edges.iter().enumerate() {
            basis[i] = cell[edge];
            of_edges[i][edge] = 1;
        }
        let flat = || {
            let what = format!("the periodic edges of the cell span no volume, area or length: {cell:?}");
            Error::new(ErrorKind::InvalidArgument, what)
        };
        reduce(&mut basis, &mut of_edges, rank).ok_or_else(flat)?;
        let dual = dual(&basis[..rank]).ok_or_else(flat)?;
        let mut dual_of_edges = [[0.0; 3]; 3];
        for (dual, of_edges) in dual.iter().zip(&of_edges) {
            for (sum, count) in dual_of_edges.iter_mut().zip(of_edges) {
                *sum = subtract(*sum, *dual, -(*count as f64));
            }
        }
        let neighbours = neighbours(&basis, rank);
        let sure = if rank == 0 { f64::INFINITY } else { 0.25 * dot(basis[0], basis[0]) };
        Ok(Self { basis, dual, of_edges, dual_of_edges, neighbours, sure })
    }

    /// The lattice of a cell that is periodic along each edge it has.
    ///
    /// # Errors
    /// As [`Lattice::new`].
    pub fn from_cell(cell: &Cell) -> Result<Self> {
        Self::new(cell, [true; 3])
    }

    /// Without any periodic edge.
    pub const fn open() -> Self {
        let none = [[0.0; 3]; 3];
        let neighbours = Vec::new();
        Self { basis: none, dual: none, of_edges: [[0; 3]; 3], dual_of_edges: none, neighbours, sure: f64::INFINITY }
    }

    /// Whether nothing is periodic.
    pub fn is_open(&self) -> bool {
        self.sure.is_infinite()
    }

    /// Products with it are reduced coordinates; zero for open edges.
    pub fn dual_of_edges(&self) -> [Vector; 3] {
        self.dual_of_edges
    }

    /// Whether the reduced basis is at right angles, so that rounding alone finds the nearest image.
    pub fn is_right_angled(&self) -> bool {
        self.neighbours.is_empty()
    }

    /// The Minkowski-reduced basis, the shortest vector first; zero beyond the number of dimensions.
    #[inline(always)]
    pub fn basis(&self) -> &[Vector; 3] {
        &self.basis
    }

    /// The vectors of the basis as whole multiples of the edges.
    pub fn of_edges(&self) -> &[[i64; 3]; 3] {
        &self.of_edges
    }

    /// The dual basis: its products with the vectors of the basis are 1 and 0.
    #[inline(always)]
    pub fn dual(&self) -> &[Vector; 3] {
        &self.dual
    }

    /// Sums of basis vectors that a rounded displacement is compared with; of v and -v one.
    #[inline(always)]
    pub fn neighbours(&self) -> &[Neighbour] {
        &self.neighbours
    }

    /// A displacement up to this length, squared, is its own nearest image.
    #[inline(always)]
    pub fn sure(&self) -> f64 {
        self.sure
    }

    /// The edges, and their inverse, of a lattice with each edge on an axis, by axis; zero for open ones.
    pub fn edges_on_axes(&self) -> Option<[Vector; 2]> {
        let mut found = [[0.0; 3]; 2];
        for (basis, dual) in self.basis.iter().zip(&self.dual) {
            for axis in 0..3 {
                if basis[axis] != 0.0 {
                    found[0][axis] = basis[axis];
                    found[1][axis] = dual[axis];
                }
            }
        }
        let counts = |v: &Vector| v.iter().filter(|x| **x != 0.0).count();
        let alone = self.basis.iter().chain(&self.dual).all(|vector| counts(vector) <= 1);
        alone.then_some(found)
    }

    /// Reduced coordinates: multiples of the edges of the cell as it was given; 0 for open edges. With open edges they are
    /// those of the projection on the line or plane of the periodic ones.
    pub fn reduced(&self, vector: Vector) -> Vector {
        self.dual_of_edges.map(|dual| dot(dual, vector))
    }

    /// The shortest of all images of a displacement, angstrom. If several are equally short, one of them.
    #[inline]
    pub fn nearest(&self, displacement: Vector) -> Vector {
        let mut rest = displacement;
        for (basis, dual) in self.basis.iter().zip(&self.dual) {
            rest = subtract(rest, *basis, whole(dot(*dual, displacement)));
        }
        match self.nearer(rest) {
            Some((neighbour, sign)) => subtract(rest, neighbour.vector, sign),
            None => rest,
        }
    }

    /// The same, and how many times each edge of the cell was added: `displacement + sum of count * edge`.
    pub fn nearest_image(&self, displacement: Vector) -> (Vector, [i64; 3]) {
        let mut of_basis = [0; 3];
        let mut rest = displacement;
        for ((of_basis, basis), dual) in of_basis.iter_mut().zip(&self.basis).zip(&self.dual) {
            let count = whole(dot(*dual, displacement));
            rest = subtract(rest, *basis, count);
            *of_basis = -(count as i64);
        }
        if let Some((neighbour, sign)) = self.nearer(rest) {
            rest = subtract(rest, neighbour.vector, sign);
            for (count, more) in of_basis.iter_mut().zip(neighbour.of_basis) {
                *count -= sign as i64 * more;
            }
        }
        let mut counts = [0_i64; 3];
        for (count, of_edges) in of_basis.iter().zip(&self.of_edges) {
            for (sum, edge) in counts.iter_mut().zip(of_edges) {
                *sum += count * edge;
            }
        }
        (rest, counts)
    }

    /// The neighbour, with a sign, that makes a rounded displacement shortest if it is subtracted; `None` if it is
    /// shortest already.
    #[inline]
    fn nearer(&self, rest: Vector) -> Option<(&Neighbour, f64)> {
        if dot(rest, rest) <= self.sure {
            return None;
        }
        let mut best = (0.0, None);
        for neighbour in &self.neighbours {
            let along = dot(rest, neighbour.vector);
            // what the square of the length changes by
            let change = neighbour.squared - 2.0 * along.abs();
            if change < best.0 {
                best = (change, Some((neighbour, along.signum())));
            }
        }
        best.1
    }
}

#[inline(always)]
fn dot(u: Vector, v: Vector) -> f64 {
    u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
}

#[inline(always)]
fn subtract(u: Vector, v: Vector, times: f64) -> Vector {
    [u[0] - times * v[0], u[1] - times * v[1], u[2] - times * v[2]]
}

/// Rounded to a whole number.
#[inline(always)]
fn whole(value: f64) -> f64 {
    (value + ROUNDING) - ROUNDING
}

fn cross(u: Vector, v: Vector) -> Vector {
    [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]
}

/// The dual basis within the span of the vectors; `None` if the vectors span fewer dimensions than their number.
fn dual(basis: &[Vector]) -> Option<[Vector; 3]> {
    let longest = basis.iter().map(|v| dot(*v, *v)).fold(0.0, f64::max).sqrt();
    let mut dual = [[0.0; 3]; 3];
    for i in 0..basis.len() {
        // across the other vectors; in fewer dimensions within the span
        let across = match basis.len() {
            1 => basis[i],
            2 => {
                let other = basis[1 - i];
                cross(cross(other, basis[i]), other)
            }
            _ => cross(basis[(i + 1) % 3], basis[(i + 2) % 3]),
        };
        let length = dot(across, across).sqrt();
        let height = dot(across, basis[i]) / length;
        if height.is_nan() || height.abs() <= FLAT * longest {
            return None;
        }
        dual[i] = across.map(|x| x / length / height);
    }
    Some(dual)
}

/// Minkowski reduction in place: Lagrange's in two dimensions, Semaev's in three (Lect. Notes Comput. Sci. 2146, 181, 2001).
fn reduce(basis: &mut [Vector; 3], of_edges: &mut [[i64; 3]; 3], rank: usize) -> Option<()> {
    for _ in 0..MOST_STEPS {
        // shortest first; the rows that are zero stay at the end
        for (i, j) in [(0, 1), (1, 2), (0, 1)] {
            if j < rank && dot(basis[j], basis[j]) < dot(basis[i], basis[i]) {
                basis.swap(i, j);
                of_edges.swap(i, j);
            }
        }
        let mut shorter = None;
        for last in 1..rank {
            let (vector, counts) = shortest_beside(&basis[..last], basis[last])?;
            // equal within rounding is not shorter, or the loop would not end
            if dot(vector, vector) < dot(basis[last], basis[last]) * (1.0 - 1e-12) {
                shorter = Some((last, vector, counts));
                break;
            }
        }
        let Some((last, vector, counts)) = shorter else { return Some(()) };
        basis[last] = vector;
        let (shorter, longer) = of_edges.split_at_mut(last);
        for (count, shorter) in counts.into_iter().zip(shorter) {
            for (edge, other) in longer[0].iter_mut().zip(shorter) {
                *edge = edge.checked_sub(count.checked_mul(*other)?)?;
            }
        }
    }
    None
}

/// A vector without the nearest point of the lattice of one or two reduced vectors, and the coordinates of that point.
fn shortest_beside(reduced: &[Vector], vector: Vector) -> Option<(Vector, [i64; 2])> {
    const STEPS: [f64; 3] = [0.0, -1.0, 1.0];
    let dual = dual(reduced)?;
    let second = reduced.get(1).copied().unwrap_or_default();
    let rounded = [0, 1].map(|i| whole(dot(dual[i], vector)));
    let points = STEPS.iter().flat_map(|first| {
        let seconds = if reduced.len() > 1 { &STEPS[..] } else { &STEPS[..1] };
        seconds.iter().map(move |second| [rounded[0] + first, rounded[1] + second])
    });
    let rests = points.map(|point| (subtract(subtract(vector, reduced[0], point[0]), second, point[1]), point));
    let shortest = rests.min_by(|(u, _), (v, _)| dot(*u, *u).total_cmp(&dot(*v, *v)));
    shortest.map(|(rest, point)| (rest, point.map(|count| count as i64)))
}

/// Sums of basis vectors with coefficients -1, 0 and 1, one of v and -v; only those that can be the nearest lattice
/// point of a rounded displacement. Empty if the basis is at right angles.
fn neighbours(basis: &[Vector; 3], rank: usize) -> Vec<Neighbour> {
    let products = basis.map(|u| basis.map(|v| dot(u, v)));
    let range = |i: usize| if i < rank { -1..=1 } else { 0..=0 };
    let mut found = Vec::new();
    for first in range(0) {
        for second in range(1) {
            for third in range(2) {
                let of_basis = [first, second, third];
                if of_basis <= [0; 3] || !can_be_nearest(of_basis, &products) {
                    continue;
                }
                let vector = combined(of_basis, basis);
                let squared = dot(vector, vector);
                let [x, y, z] = vector;
                let lanes = [x, y, z, 0.5 * squared].map(|value| [value; 4]);
                found.push(Neighbour { vector, squared, of_basis, lanes });
            }
        }
    }
    found
}

/// Whether no part of a sum of basis vectors is always as near as the sum, for the given products of basis vectors.
///
/// A rounded displacement is `r = sum t_i b_i` with `|t_i| <= 1/2`. Let c be the sum, p a part of it (c without one of its
/// terms, or zero) and `d = c - p`. Then `|r - c|^2 - |r - p|^2 = |c|^2 - |p|^2 - 2 r.d`, and `2 |r.d| <= sum |b_i.d|`. So
/// where `|c|^2 - |p|^2 >= sum |b_i.d|`, p is never farther than c, and c need not be compared: p is, or a part of p that is
/// never farther than p, or zero, which is the rounded displacement itself. The same holds for -c and -p.
///
/// Equality up to the rounding of these sums counts as equality: what is lost then is less than the rounding of a squared
/// length. Where t exceeds 1/2 by rounding, that is so as well for up to some 10^9 cells; single precision ends before.
fn can_be_nearest(of_basis: [i64; 3], products: &[Vector; 3]) -> bool {
    const EQUAL: f64 = 32.0 * f64::EPSILON;
    let c = of_basis.map(|count| count as f64);
    let along = |d: Vector| products.map(|row| dot(row, d));
    let squared = |v: Vector| dot(v, along(v));
    let beaten_without = |d: Vector| {
        let most = along(d).iter().map(|product| product.abs()).sum::<f64>();
        squared(c) - squared(subtract(c, d, 1.0)) >= most - EQUAL * squared(c)
    };
    let mut terms = [[0.0; 3]; 3];
    for (i, term) in terms.iter_mut().enumerate() {
        term[i] = c[i];
    }
    !beaten_without(c) && terms.iter().zip(c).all(|(term, count)| count == 0.0 || !beaten_without(*term))
}

fn combined(counts: [i64; 3], basis: &[Vector; 3]) -> Vector {
    counts.iter().zip(basis).fold([0.0; 3], |sum, (count, vector)| subtract(sum, *vector, -(*count as f64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lattice_points_that_can_be_nearest_are_compared() {
        let root = 3_f64.sqrt();
        let cells = [
            ([[30.0, 0.0, 0.0], [0.0, 40.0, 0.0], [0.0, 0.0, 50.0]], 0),
            ([[40.0, 0.0, 0.0], [0.0, 50.0, 0.0], [-12.0, 0.0, 60.0]], 2),
            ([[50.0, 0.0, 0.0], [-25.0, 25.0 * root, 0.0], [0.0, 0.0, 80.0]], 2),
            ([[60.0, 0.0, 0.0], [20.0, 56.568_54, 0.0], [-20.0, 28.284_27, 48.989_79]], 6),
            ([[80.017_006, 0.0, 0.0], [0.0, 80.017_006, 0.0], [40.008_503, 40.008_503, 56.580_566]], 6),
            ([[40.0, 0.0, 0.0], [20.0, 35.0, 0.0], [-20.0, 17.5, 30.0]], 7),
            ([[31.0, 2.0, 1.0], [11.0, 29.0, 3.0], [-7.0, 5.0, 23.0]], 7),
        ];
        for (cell, expected) in cells {
            let lattice = Lattice::from_cell(&cell).unwrap();
            assert_eq!(lattice.neighbours.len(), expected, "{cell:?}");
            assert_eq!(lattice.is_right_angled(), expected == 0);
        }
    }
}
