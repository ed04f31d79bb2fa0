//! Number, mass or charge of the atoms in each bin of a grid, over all frames.
//!
//! The grid lies still along x, y and z, or it has the edges of each frame's cell, into which positions are wrapped. Bins
//! are half open, the last one of an axis closed, as `numpy.histogramdd`; atoms outside of the grid have one more bin.
//! Leaves keep lists of the bins that were hit, and the sums of a process are one grid. Weights are added in fixed point.

use std::sync::Arc;

use kinema_core::frame::Fields;
use kinema_core::reduce::{Frame, Needs, ResultArray};
use kinema_core::{Error, ErrorKind, Result};

use crate::analyses::of_members;
use crate::analyses::sum_per_frame::{SumPerFrame, Sums};
use crate::arguments::Arguments;
use crate::bins::Bins;
use crate::changing::{AtomsOfFrame, AtomsScratch};
use crate::cpu::{Cpu, dispatch};
use crate::geometry::CellAxes;
use crate::lanes::{Quad, Sixteen};
use crate::partials::counts::Counts;
use crate::partials::fixed_point::FixedPoint;
use crate::registry::KernelInfo;

/// Results: "counts" (x, y, z), uint64, or with `weights` "sums", float64; "outside" (1), uint64, number of atoms outside
/// of the grid; "time"; "values" (frames, 1): number of atoms; with `cell` also the nine coordinates of the cell's edges.
///
/// The atoms are `atoms`, or `group` if they change with the frame. The grid has `shape` (3) bins from `least` (3) to
/// `most` (3), angstrom; with `cell` the range is that of the edges, in parts of them. With `occupied`, a bin counts once in a
/// frame in which it has an atom. `weights`: one for each atom that can be among them; then `n_frames` is that of the run.
pub const KERNEL: KernelInfo = KernelInfo {
    id: GridCounts::ID,
    make: |arguments| Ok(Arc::new(Sums(GridCounts::from_arguments(arguments)?))),
    examples: |n_atoms, _| {
        let atoms: Vec<u32> = (0..n_atoms).rev().collect();
        let of = |most: f64, shape: [u32; 3]| {
            Arguments::new(n_atoms)
                .with("least", vec![-5.0, 0.0, 1.0])
                .with("most", vec![most, most + 3.0, most + 20.0])
                .with("shape", shape.to_vec())
        };
        let weights: Vec<f64> = atoms.iter().map(|atom| 0.3 - f64::from(*atom % 3)).collect();
        let in_cell = Arguments::new(n_atoms).with("cell", true).with("shape", vec![3_u32, 20, 1]);
        vec![
            of(20.0, [7, 1, 30]).with("atoms", atoms.clone()).with("weights", weights).with("n_frames", 1000_i64),
            of(40.0, [60, 50, 40]).with("atoms", atoms.clone()).with("occupied", true),
            in_cell.with("group", of_members::example(n_atoms)),
        ]
    },
};

/// Bins at most: their numbers have 32 bits.
const MOST_BINS: u64 = 1 << 32;

/// In place of a bin that single steps decide.
const NOT_SURE: u32 = u32::MAX;

struct GridCounts {
    cpu: Cpu,
    atoms: AtomsOfFrame,
    axes: [Bins; 3],
    occupied: bool,
    cell: bool,
    /// In multiples of the unit, by the number of the atom; empty if each counts 1.
    weights: Vec<i64>,
    unit: f64,
}

/// The bins of x, y and z, or of the edges of the cell.
fn axes_of(arguments: &Arguments, cell: bool) -> Result<[Bins; 3]> {
    let three = |name: &'static str| -> Result<[f64; 3]> {
        let values = arguments.optional_numbers(name)?.unwrap_or(&[]);
        values.try_into().map_err(|_| arguments.wrong(name, "three numbers"))
    };
    let (least, most) = if cell { ([0.0; 3], [1.0; 3]) } else { (three("least")?, three("most")?) };
    let shape: [u32; 3] = arguments
        .index_rows::<1>("shape")?
        .as_flattened()
        .try_into()
        .map_err(|_| arguments.wrong("shape", "three whole numbers"))?;
    let n_bins = shape.iter().try_fold(1_u64, |product, n| product.checked_mul(u64::from(*n)));
    if !n_bins.is_some_and(|n| (1..MOST_BINS).contains(&n)) {
        return Err(arguments.wrong("shape", "three whole numbers from 1, with a product below 2^32"));
    }
    if (0..3).any(|axis| !((most[axis] - least[axis]).is_finite() && most[axis] > least[axis])) {
        return Err(arguments.wrong("most", "three finite numbers, each above that of least"));
    }
    Ok([0, 1, 2].map(|axis| Bins::new(least[axis], most[axis], shape[axis] as usize)))
}

impl GridCounts {
    fn from_arguments(arguments: &Arguments) -> Result<Self> {
        let atoms = AtomsOfFrame::from_arguments(arguments, "atoms", "group")?;
        let (occupied, cell) = (arguments.flag("occupied", false)?, arguments.flag("cell", false)?);
        let (mut weights, mut unit) = (Vec::new(), 1.0);
        if let Some(given) = arguments.optional_numbers("weights")? {
            if occupied || given.len() != atoms.candidates().len() {
                return Err(arguments.wrong("weights", "one for each atom, without occupied"));
            }
            let in_order = atoms.candidates().reorder_as_set(given, 1)?;
            let fixed = FixedPoint::new(&in_order, arguments.count("n_frames", 1)? as u64)?;
            weights.resize(arguments.n_atoms() as usize, 0);
            let numbers = atoms.candidates().iter();
            numbers.zip(fixed.weights()).for_each(|(atom, weight)| weights[atom as usize] = *weight);
            unit = fixed.unit();
        }
        Ok(Self { cpu: arguments.cpu(), atoms, axes: axes_of(arguments, cell)?, occupied, cell, weights, unit })
    }

    /// Bins of the grid, and that of what is outside.
    fn n_bins(&self) -> usize {
        self.axes.iter().map(Bins::len).product::<usize>() + 1
    }

    /// The bin of a position; `None` outside of the grid.
    #[cold]
    fn bin(&self, position: [f64; 3]) -> Option<u32> {
        let [x, y, z] = [0, 1, 2].map(|axis| self.axes[axis].number(position[axis]));
        let [ny, nz] = [self.axes[1].len() as u32, self.axes[2].len() as u32];
        Some((x? * ny + y?) * nz + z?)
    }

    /// Writes the bin of each position, or `outside`. Returns whether all positions are finite.
    fn bins(&self, positions: &[f32], outside: u32, hits: &mut Vec<u32>) -> bool {
        let (points, axes) = (positions.as_chunks::<3>().0, &self.axes);
        hits.resize(points.len(), NOT_SURE);
        dispatch!(self.cpu, (), estimate_bins, (
            axes: &[Bins; 3] = axes, points: &[[f32; 3]] = points, hits: &mut [u32] = hits,
        ));
        let mut are_finite = true;
        for (hits, points) in hits.chunks_mut(16).zip(points.chunks(16)) {
            if hits.contains(&NOT_SURE) {
                for (hit, point) in hits.iter_mut().zip(points).filter(|(hit, _)| **hit == NOT_SURE) {
                    *hit = self.bin(point.map(f64::from)).unwrap_or(outside);
                    are_finite &= point.iter().all(|x| x.is_finite());
                }
            }
        }
        are_finite
    }

    /// The same of places along the axes of a cell: `place` is where a position is, in parts of the edges.
    fn bins_in_cell(&self, positions: &[f32], place: impl Fn([f32; 3]) -> [f64; 3], outside: u32, hits: &mut Vec<u32>) {
        let [along_x, along_y, along_z] = &self.axes;
        let [ny, nz] = [along_y.len() as u32, along_z.len() as u32];
        hits.clear();
        hits.extend(positions.as_chunks::<3>().0.iter().map(|position| {
            let position = place(*position);
            let (x, x_is_sure) = along_x.estimate(position[0]);
            let (y, y_is_sure) = along_y.estimate(position[1]);
            let (z, z_is_sure) = along_z.estimate(position[2]);
            if x_is_sure & y_is_sure & z_is_sure {
                (x * ny + y) * nz + z
            } else {
                self.bin(position).unwrap_or(outside)
            }
        }));
    }
}

/// Writes the bin of each point, or [`NOT_SURE`], sixteen at a time.
#[inline(always)]
fn estimate_bins<Q: Quad>(axes: &[Bins; 3], points: &[[f32; 3]], hits: &mut [u32]) {
    let (sixteens, rest) = points.as_chunks::<16>();
    let (of_sixteens, of_rest) = hits.as_chunks_mut::<16>();
    for (sixteen, hits) in sixteens.iter().zip(of_sixteens) {
        *hits = sixteen_bins::<Q::Sixteen>(axes, sixteen);
    }
    if let Some(first) = rest.first() {
        let last = std::array::from_fn(|i| *rest.get(i).unwrap_or(first));
        of_rest.copy_from_slice(&sixteen_bins::<Q::Sixteen>(axes, &last)[..rest.len()]);
    }
}

#[inline(always)]
fn sixteen_bins<S: Sixteen>(axes: &[Bins; 3], points: &[[f32; 3]; 16]) -> [u32; 16] {
    let [nx, ny, nz] = [0, 1, 2].map(|axis: usize| axes[axis].len() as u32);
    let sure = axes.iter().map(Bins::sure_distance).fold(f32::INFINITY, f32::min);
    let [x, y, z] = S::xyz_of_row(points);
    let ((x, far_x), (y, far_y), (z, far_z)) = (axes[0].estimates(x), axes[1].estimates(y), axes[2].estimates(z));
    let far = far_x.maximum(far_y).maximum(far_z).store();
    let mut hits = [0; 16];
    for i in 0..16 {
        // a distance that is not a number is one of a value that is in no bin
        let is_sure = (x[i] < nx) & (y[i] < ny) & (z[i] < nz) & (far[i] < sure);
        let bin = x[i].wrapping_mul(ny).wrapping_add(y[i]).wrapping_mul(nz).wrapping_add(z[i]);
        hits[i] = if is_sure { bin } else { NOT_SURE };
    }
    hits
}

/// Buffers of one worker: of the group, bins of a frame, weights of its atoms.
#[derive(Debug, Default)]
struct Scratch {
    atoms: AtomsScratch,
    hits: Vec<u32>,
    weights: Vec<i64>,
}

impl SumPerFrame for GridCounts {
    const ID: &'static str = "grid_counts/2";
    type Sum = Counts;
    type Scratch = Scratch;

    fn needs(&self) -> Needs {
        let cell = if self.cell { Fields::CELL } else { Fields::POSITIONS };
        Needs { fields: self.atoms.fields() | cell, atom_sets: vec![self.atoms.read().clone()] }
    }

    fn empty(&self) -> Counts {
        Counts::default()
    }

    fn sum_bytes(&self) -> u64 {
        size_of::<u64>() as u64 * self.n_bins() as u64
    }

    fn leaf_bytes(&self, n_frames: u64) -> u64 {
        let n_hits = n_frames.saturating_mul(self.atoms.candidates().len() as u64);
        Counts::most_bytes(self.n_bins(), n_hits, !self.weights.is_empty())
    }

    fn width(&self) -> usize {
        if self.cell { 10 } else { 1 }
    }

    fn add(&self, frame: &Frame<'_>, scratch: &mut Scratch, sum: &mut Counts, row: &mut [f64]) -> Result<()> {
        let is_plain = !self.cell && !self.atoms.change();
        if !is_plain {
            frame.finite_positions(0)?;
        }
        let n_bins = self.n_bins();
        let outside = (n_bins - 1) as u32;
        let Scratch { atoms, hits, weights } = scratch;
        let found = self.atoms.find(frame, 0, atoms)?;
        row[0] = (found.positions.len() / 3) as f64;
        if self.cell {
            if frame.stamp.periodic != [true; 3] {
                let what = "the frame has no cell that is periodic along all edges, of which the grid is a part";
                return Err(Error::new(ErrorKind::Corrupt, what));
            }
            let cell = CellAxes::of_lattice(&*frame.lattice()?, [true; 3])?;
            let part = |along: [f64; 3], [x, y, z]: [f64; 3]| {
                let part = along[0] * x + along[1] * y + along[2] * z;
                part - part.floor()
            };
            let place = |position: [f32; 3]| cell.dual.map(|along| part(along, position.map(f64::from)));
            self.bins_in_cell(found.positions, place, outside, hits);
            row[1..].copy_from_slice(frame.stamp.cell.as_flattened());
        } else if !self.bins(found.positions, outside, hits) {
            // what is not finite is in no bin for sure
            return Err(frame.not_finite(Fields::POSITIONS, 0));
        }
        if self.occupied {
            hits.sort_unstable();
            hits.dedup_by(|later, hit| later == hit && *hit != outside);
        }
        weights.clear();
        if !self.weights.is_empty() {
            // what is outside is counted
            let of = |(place, bin): (u32, &u32)| {
                if *bin == outside { 1 } else { self.weights[found.number(place) as usize] }
            };
            weights.extend((0..).zip(hits.iter()).map(of));
        }
        sum.add_frame(n_bins, hits, weights);
        Ok(())
    }

    fn merge(&self, left: &mut Counts, right: Counts) {
        left.merge(self.n_bins(), right);
    }

    fn results(&self, sum: Counts) -> Vec<ResultArray> {
        let (_, mut counts) = sum.into_counts(self.n_bins());
        let outside = counts.pop().unwrap_or(0);
        let shape = self.axes.iter().map(Bins::len).collect();
        let of_bins = if self.weights.is_empty() {
            ResultArray::new("counts", shape, counts)
        } else {
            // the bits of signed numbers
            let sums: Vec<f64> = counts.iter().map(|units| units.cast_signed() as f64 * self.unit).collect();
            ResultArray::new("sums", shape, sums)
        };
        vec![of_bins, ResultArray::new("outside", vec![1], vec![outside])]
    }

    fn to_bytes(&self, sum: &Counts) -> Vec<u8> {
        sum.to_bytes(Self::ID, self.n_bins())
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Counts> {
        Counts::from_bytes(Self::ID, self.n_bins(), bytes)
    }
}
