//! Pairs of points of two sets that are within a cutoff of each other, found by sorting points into cells.
//!
//! The cells divide the lattice's reduced basis, and the space across it along which nothing is periodic; each is at least
//! as high as the cutoff, so that pairs are in cells side by side. Single precision chooses candidates with a margin, and
//! double precision decides: pairs and distances are those of [`Lattice::nearest`]. If fewer than three cells fit along
//! a periodic direction, all pairs are examined.

use kinema_core::frame::lattice::{Lattice, ROUNDING};

type Vector = [f64; 3];

/// Two points that are near each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FoundPair {
    /// The point of the first set.
    pub first: u32,
    /// The point of the second set.
    pub second: u32,
    /// Angstrom.
    pub distance: f64,
}

/// The most cells for each point.
const CELLS_PER_POINT: usize = 4;

/// A worker's buffers, which it keeps from frame to frame.
#[derive(Debug, Default)]
pub struct NearPairs {
    /// Where the points of each cell begin, and their number.
    begins: Vec<u32>,
    /// Whether a cell has points in it or beside it.
    is_near: Vec<bool>,
    /// The cell of each point, in the order of the points.
    cells: Vec<u32>,
    /// By cells: x, y and z of points moved into the lattice's cell, and their numbers.
    sorted: [Vec<f32>; 3],
    numbers: Vec<u32>,
    moved: Vec<[f32; 3]>,
    /// For each cell along an axis, those beside it.
    beside: [Vec<Beside>; 3],
    examined: u64,
}

/// Cells side by side along an axis, and by what their points are moved.
type Run = (u32, u32, [f32; 3]);

/// A cell along an axis and those beside it: alone, and as runs.
#[derive(Debug, Clone, Copy, Default)]
struct Beside {
    alone: [Run; 3],
    n_alone: usize,
    runs: [Run; 2],
    n_runs: usize,
}

/// A direction in which space is divided.
#[derive(Debug, Clone, Copy, Default)]
struct Axis {
    /// The product with it is 0 to 1 within the cell.
    dual: Vector,
    /// Is subtracted from the product.
    origin: f64,
    /// The edge, if it is periodic.
    edge: Option<Vector>,
    /// Number of cells.
    count: usize,
}

impl NearPairs {
    /// The pairs whose nearest images are up to `cutoff` apart, by `first` and `second`; `found` is emptied before.
    /// Points must be finite.
    pub fn between(
        &mut self,
        lattice: &Lattice,
        first: &[f32],
        second: &[f32],
        cutoff: f64,
        found: &mut Vec<FoundPair>,
    ) {
        found.clear();
        let (first, second) = (first.as_chunks::<3>().0, second.as_chunks::<3>().0);
        // the fewer points are sorted
        if first.len() >= second.len() {
            self.find(lattice, (first, second), cutoff, |first, second, distance| {
                found.push(FoundPair { first, second, distance });
            });
        } else {
            self.find(lattice, (second, first), cutoff, |second, first, distance| {
                found.push(FoundPair { first, second, distance });
            });
        }
        found.sort_unstable_by_key(|pair| (u64::from(pair.first) << 32) | u64::from(pair.second));
    }

    fn find(
        &mut self,
        lattice: &Lattice,
        (first, second): (&[[f32; 3]], &[[f32; 3]]),
        cutoff: f64,
        mut add: impl FnMut(u32, u32, f64),
    ) {
        if let Some(axes) = axes(lattice, first, second, cutoff) {
            self.search(lattice, &axes, (first, second), cutoff, add);
            return;
        }
        self.examined += (first.len() * second.len()) as u64;
        for (number, point) in (0..).zip(first) {
            for (other, to) in (0..).zip(second) {
                if let Some(distance) = near(lattice, point, to, cutoff) {
                    add(number, other, distance);
                }
            }
        }
    }

    /// How many pairs were looked at so far.
    pub fn examined(&self) -> u64 {
        self.examined
    }

    fn search(
        &mut self,
        lattice: &Lattice,
        axes: &[Axis; 3],
        (first, second): (&[[f32; 3]], &[[f32; 3]]),
        cutoff: f64,
        mut add: impl FnMut(u32, u32, f64),
    ) {
        for (beside, axis) in self.beside.iter_mut().zip(axes) {
            beside.clear();
            beside.extend((0..axis.count).map(|at| Beside::new(axis, at)));
        }
        let reach = self.sort(axes, second);
        let few = second.len() < first.len() / 4;
        if few {
            self.mark(axes);
        }
        let counts = axes.map(|axis| axis.count);
        for (number, point) in (0..).zip(first) {
            let (moved, at) = place(axes, *point);
            if few && !self.is_near[(at[0] * counts[1] + at[1]) * counts[2] + at[2]] {
                continue;
            }
            // rounding of both points and of the shift
            let far = moved.iter().fold(reach, |far, value| far.max(value.abs()));
            let limit = (cutoff + 16.0 * f64::from(f32::EPSILON) * f64::from(far)) as f32;
            let limit = limit * limit;
            let [along_x, along_y, along_z]: [Beside; 3] = std::array::from_fn(|axis| self.beside[axis][at[axis]]);
            for (x, _, by_x) in &along_x.alone[..along_x.n_alone] {
                let from_x: [f32; 3] = std::array::from_fn(|i| moved[i] - by_x[i]);
                for (y, _, by_y) in &along_y.alone[..along_y.n_alone] {
                    let row = (*x as usize * counts[1] + *y as usize) * counts[2];
                    let from_y: [f32; 3] = std::array::from_fn(|i| from_x[i] - by_y[i]);
                    for (begin, end, by_z) in &along_z.runs[..along_z.n_runs] {
                        let begin = self.begins[row + *begin as usize] as usize;
                        let end = self.begins[row + *end as usize] as usize;
                        self.examined += (end - begin) as u64;
                        let [a, b, c]: [f32; 3] = std::array::from_fn(|i| from_y[i] - by_z[i]);
                        let [xs, ys, zs] = &self.sorted;
                        let columns = xs[begin..end].iter().zip(&ys[begin..end]).zip(&zs[begin..end]);
                        for (((x, y), z), other) in columns.zip(&self.numbers[begin..end]) {
                            let (dx, dy, dz) = (x - a, y - b, z - c);
                            if dx * dx + dy * dy + dz * dz <= limit {
                                if let Some(distance) = near(lattice, point, &second[*other as usize], cutoff) {
                                    add(number, *other, distance);
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// Marks the cells that have points in them or beside them.
    fn mark(&mut self, axes: &[Axis; 3]) {
        let counts = axes.map(|axis| axis.count);
        self.is_near.clear();
        self.is_near.resize(counts.iter().product(), false);
        for cell in &self.cells {
            let cell = *cell as usize;
            let at = [cell / counts[2] / counts[1], cell / counts[2] % counts[1], cell % counts[2]];
            let [along_x, along_y, along_z]: [Beside; 3] = std::array::from_fn(|axis| self.beside[axis][at[axis]]);
            for (x, ..) in &along_x.alone[..along_x.n_alone] {
                for (y, ..) in &along_y.alone[..along_y.n_alone] {
                    let row = (*x as usize * counts[1] + *y as usize) * counts[2];
                    for (begin, end, _) in &along_z.runs[..along_z.n_runs] {
                        self.is_near[row + *begin as usize..row + *end as usize].fill(true);
                    }
                }
            }
        }
    }

    /// Sorts points into cells; returns the largest of their moved coordinates.
    fn sort(&mut self, axes: &[Axis; 3], points: &[[f32; 3]]) -> f32 {
        let counts = axes.map(|axis| axis.count);
        self.begins.clear();
        self.begins.resize(counts.iter().product::<usize>() + 1, 0);
        self.cells.clear();
        self.moved.clear();
        let mut reach = 0.0_f32;
        for point in points {
            let (moved, at) = place(axes, *point);
            let cell = (at[0] * counts[1] + at[1]) * counts[2] + at[2];
            self.begins[cell] += 1;
            self.cells.push(cell as u32);
            self.moved.push(moved);
            reach = moved.iter().fold(reach, |reach, value| reach.max(value.abs()));
        }
        // counts to ends, which become begins as points are put in from the last to the first
        let mut sum = 0;
        for begin in &mut self.begins {
            sum += *begin;
            *begin = sum;
        }
        self.numbers.resize(points.len(), 0);
        for column in &mut self.sorted {
            column.resize(points.len(), 0.0);
        }
        for (number, (cell, moved)) in self.cells.iter().zip(&self.moved).enumerate().rev() {
            let begin = &mut self.begins[*cell as usize];
            *begin -= 1;
            let at = *begin as usize;
            self.numbers[at] = number as u32;
            for (column, value) in self.sorted.iter_mut().zip(moved) {
                column[at] = *value;
            }
        }
        reach
    }
}

impl Beside {
    fn new(axis: &Axis, at: usize) -> Self {
        let still = [0.0; 3];
        let mut found = Self::default();
        let (first, last) = (at.saturating_sub(1), (at + 1).min(axis.count - 1));
        found.runs[0] = (first as u32, last as u32 + 1, still);
        found.n_runs = 1;
        for cell in first..=last {
            found.alone[found.n_alone] = (cell as u32, cell as u32 + 1, still);
            found.n_alone += 1;
        }
        if let Some(edge) = axis.edge {
            // beyond a face; there are at least three cells
            let beyond = match at {
                0 => Some((axis.count - 1, -1.0)),
                at if at + 1 == axis.count => Some((0, 1.0)),
                _ => None,
            };
            if let Some((cell, sign)) = beyond {
                let run = (cell as u32, cell as u32 + 1, edge.map(|x| (sign * x) as f32));
                found.runs[1] = run;
                found.n_runs = 2;
                found.alone[found.n_alone] = run;
                found.n_alone += 1;
            }
        }
        found
    }
}

/// The distance of the nearest images of two points, if it is within the cutoff.
#[inline(always)]
fn near(lattice: &Lattice, from: &[f32; 3], to: &[f32; 3], cutoff: f64) -> Option<f64> {
    let direct: Vector = std::array::from_fn(|i| f64::from(to[i]) - f64::from(from[i]));
    let squared = dot(direct, direct);
    let squared = if squared <= lattice.sure() {
        squared
    } else {
        let nearest = lattice.nearest(direct);
        dot(nearest, nearest)
    };
    let distance = squared.sqrt();
    (distance <= cutoff).then_some(distance)
}

/// How space is divided; `None` if fewer than three cells fit along a periodic direction.
fn axes(lattice: &Lattice, first: &[[f32; 3]], second: &[[f32; 3]], cutoff: f64) -> Option<[Axis; 3]> {
    // a little higher than the cutoff, as products are rounded
    let least = cutoff * (1.0 + 1e-5);
    let most = CELLS_PER_POINT * second.len().max(64);
    let along = (most as f64).cbrt();
    let mut axes = [Axis::default(); 3];
    let mut spanned = Vec::new();
    for (axis, (basis, dual)) in axes.iter_mut().zip(lattice.basis().iter().zip(lattice.dual())) {
        if *basis != [0.0; 3] {
            let height = dot(*dual, *dual).sqrt().recip();
            let count = (height / least).min(along).floor();
            if count < 3.0 {
                return None;
            }
            *axis = Axis { dual: *dual, origin: 0.0, edge: Some(*basis), count: count as usize };
            spanned.push(*dual);
        }
    }
    for axis in &mut axes[spanned.len()..] {
        let across = unit_across(&spanned);
        let products = || first.iter().chain(second).map(|point| dot(across, point.map(f64::from)));
        let low = products().fold(f64::INFINITY, f64::min);
        let extent = products().fold(f64::NEG_INFINITY, f64::max) - low;
        let count = (extent / least).min(along).floor().max(1.0);
        let length = if extent > 0.0 { extent } else { 1.0 };
        *axis = Axis { dual: across.map(|x| x / length), origin: low / length, edge: None, count: count as usize };
        spanned.push(across);
    }
    Some(axes)
}

/// A unit vector at right angles to some vectors, at most two.
fn unit_across(vectors: &[Vector]) -> Vector {
    let across = match *vectors {
        [u, v] => cross(u, v),
        [u] => {
            let least = (0..3).min_by(|i, j| u[*i].abs().total_cmp(&u[*j].abs())).unwrap_or(0);
            let mut axis = [0.0; 3];
            axis[least] = 1.0;
            cross(u, axis)
        }
        _ => [1.0, 0.0, 0.0],
    };
    let length = dot(across, across).sqrt();
    across.map(|x| x / length)
}

/// A point moved into the lattice's cell, and its cell along each axis.
#[inline(always)]
fn place(axes: &[Axis; 3], point: [f32; 3]) -> ([f32; 3], [usize; 3]) {
    let point = point.map(f64::from);
    let (mut moved, mut at) = (point, [0; 3]);
    for (axis, at) in axes.iter().zip(&mut at) {
        let mut product = dot(axis.dual, point) - axis.origin;
        if let Some(edge) = axis.edge {
            let whole = (product + ROUNDING) - ROUNDING;
            product -= whole - 0.5;
            moved = std::array::from_fn(|i| moved[i] - whole * edge[i]);
        }
        // 0 to 1, both included
        *at = ((product * axis.count as f64) as usize).min(axis.count - 1);
    }
    (moved.map(|x| x as f32), at)
}

#[inline(always)]
fn dot(u: Vector, v: Vector) -> f64 {
    u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
}

fn cross(u: Vector, v: Vector) -> Vector {
    [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points in a box, some of them far outside, the same in every run.
    fn points(count: usize, size: f64, seed: u64) -> Vec<f32> {
        let mut state = seed;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut value = move |i: usize| {
            let far = if i.is_multiple_of(50) { 5.0 * size } else { 0.0 };
            ((next() - 0.3) * size + far) as f32
        };
        (0..3 * count).map(&mut value).collect()
    }

    // few points of the second set for every other lattice: cells without points beside them are left out
    fn lattices() -> Vec<Lattice> {
        let of = |cell: [[f64; 3]; 3]| Lattice::from_cell(&cell).unwrap();
        vec![
            Lattice::open(),
            of([[30.0, 0.0, 0.0], [0.0, 31.0, 0.0], [0.0, 0.0, 32.0]]),
            of([[30.0, 0.0, 0.0], [0.0, 30.0, 0.0], [15.0, 15.0, 21.2]]),
            of([[30.0, 0.0, 0.0], [25.0, 31.0, 0.0], [-29.0, 28.0, 22.0]]),
            of([[0.0, 30.0, 1.0], [30.0, 2.0, 0.0], [60.0, 33.0, 28.0]]),
            of([[30.0, 3.0, 0.0], [4.0, 31.0, 5.0], [0.0, 0.0, 0.0]]),
            of([[0.0, 0.0, 0.0], [3.0, 31.0, 4.0], [0.0, 0.0, 0.0]]),
            of([[20.0, 0.0, 0.0], [0.0, 25.0, 0.0], [90.0, 0.0, 100.0]]),
        ]
    }

    #[test]
    fn pairs_are_those_of_brute_force() {
        let mut cells = NearPairs::default();
        for (seed, lattice) in (1..).zip(lattices()) {
            let (first, second) =
                (points(120, 40.0, seed), points(if seed % 2 == 0 { 20 } else { 170 }, 40.0, 100 * seed + 7));
            for cutoff in [0.5, 3.0, 5.5, 9.0, 14.0, 40.0] {
                let mut found = Vec::new();
                cells.between(&lattice, &first, &second, cutoff, &mut found);
                let mut expected = Vec::new();
                for (i, from) in (0..).zip(first.as_chunks::<3>().0) {
                    for (j, to) in (0..).zip(second.as_chunks::<3>().0) {
                        if let Some(distance) = near(&lattice, from, to, cutoff) {
                            expected.push(FoundPair { first: i, second: j, distance });
                        }
                    }
                }
                assert_eq!(found, expected, "{lattice:?} {cutoff}");
            }
        }
    }

    #[test]
    fn points_in_one_place_one_point_and_none() {
        let mut cells = NearPairs::default();
        let mut found = Vec::new();
        for lattice in lattices() {
            let same = [1.0, 2.0, 3.0].repeat(5);
            cells.between(&lattice, &same, &same[..3], 3.0, &mut found);
            assert_eq!(found.len(), 5);
            assert!(found.iter().all(|pair| pair.distance == 0.0));
            cells.between(&lattice, &same, &[], 3.0, &mut found);
            assert!(found.is_empty());
        }
    }

    #[test]
    fn a_distance_equal_to_the_cutoff_counts_and_few_pairs_are_examined() {
        let lattice = Lattice::from_cell(&[[60.0, 0.0, 0.0], [0.0, 60.0, 0.0], [0.0, 0.0, 60.0]]).unwrap();
        let mut cells = NearPairs::default();
        let mut found = Vec::new();
        cells.between(&lattice, &[59.0, 0.0, 0.0], &[2.0, 0.0, 0.0], 3.0, &mut found);
        assert_eq!(found, [FoundPair { first: 0, second: 0, distance: 3.0 }]);
        let grid: Vec<f32> =
            (0..8000).flat_map(|i| [i % 20, i / 20 % 20, i / 400]).map(|place: u16| 3.0 * f32::from(place)).collect();
        let mut cells = NearPairs::default();
        cells.between(&lattice, &grid, &grid, 6.0, &mut found);
        assert_eq!(found.len(), 8000 * 33);
        assert!(cells.examined() <= 10 * found.len() as u64, "{} of {}", cells.examined(), found.len());
    }
}
