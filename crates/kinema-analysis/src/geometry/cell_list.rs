//! Atoms near others in any lattice, found in bins.
//!
//! Bins divide the heights of the reduced basis, and the extent of the reference along open directions. They are at least
//! as wide as the cutoff, or bins further away are searched as well, so that all images within the cutoff are found.
//! Distances are computed in single precision of positions that were moved into the cell; what lies within rounding of the
//! cutoff is decided in double precision by the nearest image of the positions as they are.

use std::ops::Range;

use kinema_core::Result;
use kinema_core::frame::lattice::Lattice;

type Vector = [f64; 3];

/// Rounding of a difference of two coordinates in single precision, for each unit of their size.
const ROUNDED: f64 = 4.0 * f32::EPSILON as f64;
/// Bins are wider than the cutoff by this share, so that rounding does not move an atom beyond the next bin.
const WIDER: f64 = 1.0 + 1e-8;
/// Most bins for each atom.
const BINS: usize = 8;

/// A worker's buffers, reused from frame to frame.
#[derive(Debug, Default)]
pub struct CellList {
    /// Positions moved into the cell, x, y and z apart, in the order of bins; and their numbers in the reference.
    sorted: [Vec<f32>; 3],
    numbers: Vec<u32>,
    moved: Vec<(Vector, u32)>,
    /// The first atom of each bin, and one beyond the last.
    starts: Vec<u32>,
    next: Vec<u32>,
    /// Whether a bin, or one that is searched from it, has an atom.
    marked: Vec<bool>,
    /// For each axis and bin the runs of bins that are searched from there.
    runs: [Runs; 3],
}

/// Runs of bins within the grid, each with the image of the cell that it is of. Bin `i` has the runs
/// `all[starts[i]..starts[i + 1]]`, counted from the lowest bin from which the grid is searched.
#[derive(Debug, Default)]
struct Runs {
    all: Vec<(u32, u32, f32)>,
    starts: Vec<u32>,
}

impl Runs {
    fn fill(&mut self, axis: &Axis) {
        self.all.clear();
        self.starts.clear();
        let beyond = if axis.periodic { 0 } else { axis.reach };
        for bin in -beyond..axis.bins + beyond {
            self.starts.push(self.all.len() as u32);
            let (low, high, n) = (bin - axis.reach, bin + axis.reach, axis.bins);
            let images = if axis.periodic { low.div_euclid(n)..=high.div_euclid(n) } else { 0..=0 };
            for image in images {
                let (first, end) = ((low - image * n).max(0), (high - image * n + 1).min(n));
                if first < end {
                    self.all.push((first as u32, end as u32, image as f32));
                }
            }
        }
        self.starts.push(self.all.len() as u32);
    }

    #[inline(always)]
    fn from(&self, bin: i64, axis: &Axis) -> &[(u32, u32, f32)] {
        let at = (bin + if axis.periodic { 0 } else { axis.reach }) as usize;
        &self.all[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}

/// One direction of the grid.
#[derive(Debug, Clone, Copy)]
struct Axis {
    /// Products with it are coordinates: shares of a basis vector, or angstrom along an open direction.
    along: Vector,
    /// Zero for an open direction.
    basis: Vector,
    periodic: bool,
    lowest: f64,
    /// Bins for each unit of the coordinate.
    per_unit: f64,
    bins: i64,
    /// Bins that are searched to both sides.
    reach: i64,
}

impl CellList {
    /// Which points have an atom of the reference, or an image of one, within the cutoff, angstrom; an equal distance
    /// counts. All positions are `atoms x 3`, finite.
    ///
    /// # Errors
    /// None so far.
    pub fn any_within(
        &mut self,
        lattice: &Lattice,
        reference: &[f32],
        points: &[f32],
        cutoff: f64,
        near: &mut [bool],
    ) -> Result<()> {
        near.fill(false);
        let (reference, points) = (reference.as_chunks::<3>().0, points.as_chunks::<3>().0);
        if reference.is_empty() || points.is_empty() {
            return Ok(());
        }
        let axes = axes(lattice, reference, cutoff, BINS * (reference.len() + points.len()) + 64);
        let lengths = lattice.basis().iter().map(length).sum::<f64>();
        if axes.iter().all(|axis| axis.periodic) && cutoff > lengths {
            // a nearest image is at most half as long
            near.fill(true);
            return Ok(());
        }
        let furthest = reference.iter().chain(points).flatten().fold(0.0_f32, |most, x| most.max(x.abs()));
        let is_open = axes.iter().any(|axis| !axis.periodic);
        let scale = 2.0 * (lengths + cutoff) + if is_open { f64::from(furthest) } else { 0.0 };
        let doubt = ROUNDED * scale;
        let sure = ((cutoff - doubt).max(0.0).powi(2) - doubt * doubt) as f32;
        let most = ((cutoff + doubt).powi(2) + doubt * doubt) as f32;
        self.sort(&axes, reference);
        self.mark(&axes);
        for (runs, axis) in self.runs.iter_mut().zip(&axes) {
            runs.fill(axis);
        }
        for (point, near) in points.iter().zip(near) {
            let original = point.map(f64::from);
            let Some((bin, moved)) = place(&axes, original) else { continue };
            if inside(&axes, bin) && !self.marked[number(&axes, bin)] {
                continue;
            }
            *near = self.search(&axes, bin, moved.map(|x| x as f32), most, |square, of| {
                square <= sure || {
                    let of = reference[of as usize].map(f64::from);
                    length(&lattice.nearest([0, 1, 2].map(|c| original[c] - of[c]))) <= cutoff
                }
            });
        }
        Ok(())
    }

    /// Sorts the reference by bins.
    fn sort(&mut self, axes: &[Axis; 3], reference: &[[f32; 3]]) {
        let n_bins = axes.iter().map(|axis| axis.bins as usize).product::<usize>();
        self.starts.clear();
        self.starts.resize(n_bins + 1, 0);
        self.moved.clear();
        for atom in reference {
            // the grid has all atoms of the reference
            let (bin, moved) = place(axes, atom.map(f64::from)).unwrap_or_default();
            let bin = number(axes, [0, 1, 2].map(|i| bin[i].clamp(0, axes[i].bins - 1)));
            self.moved.push((moved, bin as u32));
            self.starts[bin + 1] += 1;
        }
        for bin in 0..n_bins {
            self.starts[bin + 1] += self.starts[bin];
        }
        self.numbers.clear();
        self.numbers.resize(reference.len(), 0);
        for sorted in &mut self.sorted {
            sorted.clear();
            sorted.resize(reference.len(), 0.0);
        }
        // from the last on, so that each bin's end becomes its start
        self.next.clear();
        self.next.extend_from_slice(&self.starts[1..]);
        for (atom, (moved, bin)) in self.moved.iter().enumerate().rev() {
            let next = &mut self.next[*bin as usize];
            *next -= 1;
            self.numbers[*next as usize] = atom as u32;
            for (sorted, x) in self.sorted.iter_mut().zip(moved) {
                sorted[*next as usize] = *x as f32;
            }
        }
    }

    /// Marks the bins from which an atom can be found.
    fn mark(&mut self, axes: &[Axis; 3]) {
        self.marked.clear();
        let n_bins = self.starts.len() - 1;
        let is_narrow = axes.iter().any(|axis| axis.reach > 1);
        self.marked.resize(n_bins, is_narrow);
        if is_narrow {
            return;
        }
        let [nx, ny, nz] = axes.map(|axis| axis.bins);
        let wrapped = |axis: &Axis, bin: i64| {
            if axis.periodic { Some(bin.rem_euclid(axis.bins)) } else { (0..axis.bins).contains(&bin).then_some(bin) }
        };
        for bin in 0..n_bins {
            if self.starts[bin] == self.starts[bin + 1] {
                continue;
            }
            let bin = bin as i64;
            let [x, y, z] = [bin % nx, bin / nx % ny, bin / (nx * ny) % nz];
            for z in (z - 1..=z + 1).filter_map(|z| wrapped(&axes[2], z)) {
                for y in (y - 1..=y + 1).filter_map(|y| wrapped(&axes[1], y)) {
                    for x in (x - 1..=x + 1).filter_map(|x| wrapped(&axes[0], x)) {
                        self.marked[((z * ny + y) * nx + x) as usize] = true;
                    }
                }
            }
        }
    }

    /// Whether an atom of the bins around is near. `is_near` is asked about those whose distance has a square of at most
    /// `most`, by the square and their number.
    fn search(
        &self,
        axes: &[Axis; 3],
        bin: [i64; 3],
        point: [f32; 3],
        most: f32,
        is_near: impl Fn(f32, u32) -> bool,
    ) -> bool {
        let [nx, ny, _] = axes.map(|axis| axis.bins as u32);
        let edges = axes.map(|axis| axis.basis.map(|x| x as f32));
        let less = |from: [f32; 3], image: f32, edge: [f32; 3]| [0, 1, 2].map(|c| from[c] - image * edge[c]);
        let [along_x, along_y, along_z] = [0, 1, 2].map(|i| self.runs[i].from(bin[i], &axes[i]));
        for &(first_z, end_z, image) in along_z {
            let from = less(point, image, edges[2]);
            for &(first_y, end_y, image) in along_y {
                let from = less(from, image, edges[1]);
                for &(first_x, end_x, image) in along_x {
                    let from = less(from, image, edges[0]);
                    for z in first_z..end_z {
                        for y in first_y..end_y {
                            let row = (z * ny + y) * nx;
                            let first = self.starts[(row + first_x) as usize] as usize;
                            let end = self.starts[(row + end_x) as usize] as usize;
                            if first < end && self.row_has(first..end, from, most, &is_near) {
                                return true;
                            }
                        }
                    }
                }
            }
        }
        false
    }

    #[inline(always)]
    fn row_has(&self, row: Range<usize>, from: [f32; 3], most: f32, is_near: &impl Fn(f32, u32) -> bool) -> bool {
        let [x, y, z] = self.sorted.each_ref().map(|sorted| &sorted[row.clone()]);
        let square = |x: f32, y: f32, z: f32| {
            let [x, y, z] = [from[0] - x, from[1] - y, from[2] - z];
            x * x + y * y + z * z
        };
        // without a branch: several at a time
        let mut any = false;
        for ((x, y), z) in x.iter().zip(y).zip(z) {
            any |= square(*x, *y, *z) <= most;
        }
        any && x.iter().zip(y).zip(z).zip(&self.numbers[row.clone()]).any(|(((x, y), z), number)| {
            let square = square(*x, *y, *z);
            square <= most && is_near(square, *number)
        })
    }
}

fn number(axes: &[Axis; 3], [x, y, z]: [i64; 3]) -> usize {
    ((z * axes[1].bins + y) * axes[0].bins + x) as usize
}

fn inside(axes: &[Axis; 3], bin: [i64; 3]) -> bool {
    bin.iter().zip(axes).all(|(bin, axis)| (0..axis.bins).contains(bin))
}

/// The bin of a position and the position moved into the cell; `None` if no bin of the grid is searched from there.
fn place(axes: &[Axis; 3], position: Vector) -> Option<([i64; 3], Vector)> {
    let (mut bin, mut moved) = ([0; 3], position);
    for (bin, axis) in bin.iter_mut().zip(axes) {
        let mut coordinate = dot(&axis.along, &position);
        if axis.periodic {
            let count = floor(coordinate) as f64;
            coordinate -= count;
            moved.iter_mut().zip(axis.basis).for_each(|(x, basis)| *x -= count * basis);
        }
        *bin = floor((coordinate - axis.lowest) * axis.per_unit);
        if axis.periodic {
            // a coordinate of 1 by rounding
            *bin = (*bin).clamp(0, axis.bins - 1);
        } else if *bin < -axis.reach || *bin >= axis.bins + axis.reach {
            return None;
        }
    }
    Some((bin, moved))
}

/// The grid for a cutoff, of at most `most` bins.
fn axes(lattice: &Lattice, reference: &[[f32; 3]], cutoff: f64, most: usize) -> [Axis; 3] {
    let basis = *lattice.basis();
    let rank = basis.iter().filter(|vector| **vector != [0.0; 3]).count();
    let open = open_directions(&basis[..rank]);
    let found: [(Vector, f64, f64); 3] = std::array::from_fn(|i| {
        if i < rank {
            let along = lattice.dual()[i];
            return (along, 0.0, 1.0 / length(&along));
        }
        let along = open[i - rank];
        let coordinates = reference.iter().map(|atom| dot(&along, &atom.map(f64::from)));
        let (low, high) = coordinates.fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(x), high.max(x)));
        (along, low, (high - low).max(f64::MIN_POSITIVE))
    });
    let mut width = cutoff * WIDER;
    let mut counts = [1; 3];
    for _ in 0..64 {
        counts = found.map(|(_, _, extent)| (extent / width).floor().clamp(1.0, 1e6) as i64);
        if counts.iter().map(|count| *count as f64).product::<f64>() <= most as f64 {
            break;
        }
        width *= 1.26;
    }
    std::array::from_fn(|i| {
        let (along, lowest, extent) = found[i];
        let bins = counts[i];
        let size = extent / bins as f64;
        let periodic = i < rank;
        let per_unit = if periodic { bins as f64 } else { bins as f64 / extent };
        if !periodic && bins == 1 {
            // all of the reference is in one bin, however narrow
            let per_unit = 1.0 / extent.max(cutoff * WIDER);
            return Axis { along, basis: [0.0; 3], periodic, lowest, per_unit, bins, reach: 1 };
        }
        // a nearest image is at most one basis vector away
        let reach = (cutoff / size).ceil().clamp(1.0, bins as f64 + 1.0) as i64;
        Axis { along, basis: if periodic { basis[i] } else { [0.0; 3] }, periodic, lowest, per_unit, bins, reach }
    })
}

/// Unit vectors across the periodic ones and each other.
fn open_directions(periodic: &[Vector]) -> Vec<Vector> {
    let mut all: Vec<Vector> = Vec::new();
    let mut found = Vec::new();
    let candidates = periodic.iter().copied().chain([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]);
    for (number, candidate) in candidates.enumerate() {
        let mut rest = candidate;
        // twice, for rounding
        for one in all.iter().chain(&all) {
            let along = dot(one, &rest);
            rest.iter_mut().zip(one).for_each(|(x, one)| *x -= along * one);
        }
        let size = length(&rest);
        if number < periodic.len() || size > 0.5 {
            let unit = rest.map(|x| x / size);
            all.push(unit);
            if number >= periodic.len() {
                found.push(unit);
            }
        }
    }
    found
}

/// The next lower whole number; `f64::floor` is a call on processors that are not known to have it.
#[inline(always)]
fn floor(x: f64) -> i64 {
    let whole = x as i64;
    whole - i64::from(x < whole as f64)
}

fn dot(u: &Vector, v: &Vector) -> f64 {
    u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
}

fn length(vector: &Vector) -> f64 {
    dot(vector, vector).sqrt()
}
