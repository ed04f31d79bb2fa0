//! Weights of atoms, such as masses and charges, in slices of the cell along its axes, over frames.
//!
//! Slices are parts of the height of each frame's cell, along the normals of its faces. Sums are in fixed point, exact in
//! any order; densities are sums divided by the mean volume of a slice, which the caller computes from the rows.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::{Frame, Needs, ResultArray};
use kinema_core::selection::AtomSelection;

use super::slices::{Four, Points, Slices};
use crate::analyses::sum_per_frame::{SumPerFrame, Sums};
use crate::arguments::{Argument, Arguments};
use crate::cpu::Cpu;
use crate::geometry::{CellAxes, GroupCenters};
use crate::partials::bytes::{Reader, Writer};
use crate::partials::fixed_point::{FixedPoint, FixedSums};
use crate::registry::KernelInfo;
use crate::run_parts::RunParts;

/// Quantities at most.
const MOST_QUANTITIES: usize = 4;
/// Slices of an axis at most.
const MOST_SLICES: usize = 1 << 24;

/// `weights` (quantities, points): of `atoms`, or with `ends` of the centres of groups (`GroupCenters`). `slices` (3): number
/// along each axis. `n_frames`: that of the run, which the unit depends on. `blocks`: first frame of each part of the run.
/// `about`: atoms whose circular mean along `axis` is the middle of that axis; with `symmetrize` each slice also has the sums
/// of the one opposite of that middle.
///
/// Results, slices of x, y and z one after the other: "sums" (blocks, slices, quantities), int64, in "units" (quantities);
/// "n_frames" (blocks); "deviations" (slices, quantities), standard deviations of the sums of a frame. "values": heights of x, y
/// and z, volume, number of points outside of open edges, and how sure the circular mean is.
pub const KERNEL: KernelInfo = KernelInfo {
    id: DensityProfile::ID,
    make: |arguments| Ok(Arc::new(Sums(DensityProfile::new(arguments)?))),
    examples: |n_atoms, _| {
        let weights = |n: u32| Argument::Numbers {
            shape: vec![2, n as usize],
            values: (0..2 * n).map(|i| f64::from(i % 7) - 2.3).collect(),
        };
        let of = |n: u32| {
            let all = Arguments::new(n_atoms).with("atoms", (0..n_atoms).rev().collect::<Vec<_>>());
            all.with("weights", weights(n)).with("slices", vec![80_u32, 1, 33]).with("n_frames", 1000_i64)
        };
        let blocks = of(n_atoms).with("blocks", vec![0.0, 103.0, 106.0]);
        let about = vec![0, n_atoms / 2];
        let about = if about[0] == about[1] { vec![0] } else { about };
        let centred = of(n_atoms).with("about", about).with("axis", 2_i64).with("symmetrize", true);
        let ends: Vec<u32> = (0..n_atoms).filter(|end| *end > 0 && end % 3 == 0).chain([n_atoms]).collect();
        let masses: Vec<f64> = (0..n_atoms).map(|atom| 1.0 + f64::from(atom)).collect();
        let grouped = of(ends.len() as u32).with("ends", ends).with("masses", masses);
        vec![blocks, centred, grouped]
    },
};

struct DensityProfile {
    cpu: Cpu,
    /// The atoms, and those of the middle.
    atom_sets: Vec<AtomSelection>,
    /// None: points are atoms.
    centers: Option<GroupCenters>,
    weights: Vec<Four>,
    units: Vec<f64>,
    n_slices: [usize; 3],
    blocks: RunParts,
    /// The axis with a middle.
    axis: Option<usize>,
    symmetrize: bool,
}

/// Sums over frames.
#[derive(Debug, Clone)]
struct ProfileSums {
    /// One number a block.
    n_frames: Vec<u64>,
    /// Block by block, slice by slice, quantity by quantity.
    sums: FixedSums,
    /// Squares of the sums of a frame, added over all frames: below 2^126.
    squares: Vec<u128>,
}

impl DensityProfile {
    fn new(arguments: &Arguments) -> Result<Self> {
        let (atoms, centers) = if arguments.has("ends") {
            let (atoms, centers) = GroupCenters::from_arguments(arguments)?;
            (atoms, Some(centers))
        } else {
            (arguments.unique_atoms("atoms")?, None)
        };
        let n_points = centers.as_ref().map_or(atoms.len(), GroupCenters::len);
        let symmetrize = arguments.flag("symmetrize", false)?;
        let (shape, values) = match arguments.any("weights") {
            Argument::Numbers { shape, values } => (shape.as_slice(), values.as_slice()),
            _ => (&[][..], &[][..]),
        };
        if !matches!(shape, [1..=MOST_QUANTITIES, n] if *n == n_points) {
            return Err(arguments.wrong("weights", &format!("numbers (up to {MOST_QUANTITIES}, {n_points})")));
        }
        // a slice gets the sums of its mirror image as well
        let n_frames = arguments.count("n_frames", 1)? as u64 * if symmetrize { 2 } else { 1 };
        let mut weights = vec![Four::default(); n_points];
        let mut units = Vec::new();
        for (quantity, given) in values.chunks(n_points).enumerate() {
            let given = if centers.is_some() { given.into() } else { atoms.reorder_as_set(given, 1)? };
            let fixed = FixedPoint::new(&given, n_frames)?;
            units.push(fixed.unit());
            weights.iter_mut().zip(fixed.weights()).for_each(|(four, weight)| four.0[quantity] = *weight);
        }
        let wrong_slices = || arguments.wrong("slices", &format!("three whole numbers from 1 to {MOST_SLICES}"));
        let slices = arguments.index_rows::<1>("slices")?.as_flattened();
        let n_slices: [u32; 3] = slices.try_into().map_err(|_| wrong_slices())?;
        let n_slices = n_slices.map(|n| n as usize);
        if n_slices.iter().any(|n| !(1..=MOST_SLICES).contains(n)) {
            return Err(wrong_slices());
        }
        let blocks = RunParts::from_arguments(arguments)?;
        let (mut atom_sets, mut axis) = (vec![atoms], None);
        if arguments.has("about") {
            atom_sets.push(arguments.unique_atoms("about")?);
            axis = Some(arguments.count("axis", 0)?).filter(|axis| *axis < 3);
        }
        if axis.is_none() && (atom_sets.len() > 1 || symmetrize) {
            return Err(arguments.wrong("axis", "0, 1 or 2, with about and for symmetrize"));
        }
        Ok(Self { cpu: arguments.cpu(), atom_sets, centers, weights, units, n_slices, blocks, axis, symmetrize })
    }

    /// Slices of all axes.
    fn n_all(&self) -> usize {
        self.n_slices.iter().sum()
    }

    fn axes(frame: &Frame<'_>) -> Result<CellAxes> {
        let periodic = frame.stamp.periodic;
        if periodic == [true; 3] {
            CellAxes::of_lattice(&*frame.lattice()?, periodic)
        } else {
            CellAxes::new(&frame.stamp.cell, periodic)
        }
    }
}

/// Buffers of one worker: sums of a frame, centres of groups.
#[derive(Debug, Default)]
struct Scratch {
    slices: Slices,
    centers: Vec<[f64; 3]>,
    gathered: Vec<f32>,
}

impl SumPerFrame for DensityProfile {
    const ID: &'static str = "density_profile/1";
    type Sum = ProfileSums;
    type Scratch = Scratch;

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS | Fields::CELL, atom_sets: self.atom_sets.clone() }
    }

    fn empty(&self) -> ProfileSums {
        let n = self.n_all() * self.units.len();
        let n_frames = vec![0; self.blocks.len()];
        ProfileSums { sums: FixedSums::new(n_frames.len() * n), n_frames, squares: vec![0; n] }
    }

    fn sum_bytes(&self) -> u64 {
        8 * (self.n_all() * self.units.len() * (self.blocks.len() + 2) + self.blocks.len()) as u64
    }

    fn width(&self) -> usize {
        6
    }

    fn add(&self, frame: &Frame<'_>, scratch: &mut Scratch, sum: &mut ProfileSums, row: &mut [f64]) -> Result<()> {
        let cell = Self::axes(frame)?;
        let positions = frame.finite_positions(0)?;
        let mut origins = [0.0; 3];
        let mut sure = 1.0;
        if let (Some(axis), Some(_)) = (self.axis, self.atom_sets.get(1)) {
            let about = frame.finite_positions(1)?.as_chunks::<3>().0;
            [origins[axis], sure] = cell.circular_mean(self.cpu, axis, about);
            origins[axis] -= 0.5;
        }
        let points = match &self.centers {
            None => Points::Atoms(positions.as_chunks::<3>().0),
            Some(groups) => {
                scratch.centers.resize(groups.len(), [0.0; 3]);
                groups.compute(positions, &mut scratch.gathered, &mut scratch.centers)?;
                Points::Centers(&scratch.centers)
            }
        };
        let outside = scratch.slices.fill(self.cpu, points, &self.weights, &cell, self.n_slices, origins);
        let [x, y, z] = cell.heights;
        row.copy_from_slice(&[x, y, z, cell.volume, outside as f64, sure]);

        let block = self.blocks.of(frame.number);
        sum.n_frames[block] += 1;
        let n_quantities = self.units.len();
        let n = self.n_all() * n_quantities;
        let mut sums = sum.sums.get_mut()[block * n..][..n].chunks_exact_mut(n_quantities);
        let mut squares = sum.squares.chunks_exact_mut(n_quantities);
        for axis in 0..3 {
            let found = scratch.slices.of_axis(axis);
            let reverse = self.symmetrize && self.axis == Some(axis);
            for at in 0..found.len() {
                let mut slice = found[at];
                if reverse {
                    slice.add(&found[found.len() - 1 - at]);
                }
                let (Some(sums), Some(squares)) = (sums.next(), squares.next()) else { break };
                for ((sum, square), value) in sums.iter_mut().zip(squares).zip(slice.0) {
                    *sum = sum.wrapping_add(value);
                    let size = u128::from(value.unsigned_abs());
                    *square = square.wrapping_add(size.wrapping_mul(size));
                }
            }
        }
        Ok(())
    }

    fn merge(&self, left: &mut ProfileSums, right: ProfileSums) {
        left.n_frames.iter_mut().zip(&right.n_frames).for_each(|(n, right)| *n = n.saturating_add(*right));
        left.sums.merge(&right.sums);
        left.squares.iter_mut().zip(&right.squares).for_each(|(sum, right)| *sum = sum.saturating_add(*right));
    }

    fn results(&self, sum: ProfileSums) -> Vec<ResultArray> {
        let (n_blocks, n_quantities, n_all) = (self.blocks.len(), self.units.len(), self.n_all());
        let n_frames: u64 = sum.n_frames.iter().sum();
        let deviations = sum.squares.iter().enumerate().map(|(at, square)| {
            let blocks = sum.sums.get().iter().skip(at).step_by(n_all * n_quantities);
            let total: i128 = blocks.map(|value| i128::from(*value)).sum();
            // n sum x^2 - (sum x)^2 is exact
            let spread =
                square.saturating_mul(u128::from(n_frames)).saturating_sub(total.unsigned_abs().saturating_pow(2));
            (spread as f64).sqrt() / n_frames as f64 * self.units[at % n_quantities]
        });
        let deviations = deviations.collect::<Vec<f64>>();
        vec![
            ResultArray::new("sums", vec![n_blocks, n_all, n_quantities], sum.sums.get().to_vec()),
            ResultArray::new("units", vec![n_quantities], self.units.clone()),
            ResultArray::new("n_frames", vec![n_blocks], sum.n_frames),
            ResultArray::new("deviations", vec![n_all, n_quantities], deviations),
        ]
    }

    fn to_bytes(&self, sum: &ProfileSums) -> Vec<u8> {
        let mut writer = Writer::new(Self::ID);
        writer.u64(sum.n_frames.len() as u64);
        writer.u64(sum.squares.len() as u64);
        writer.numbers(&sum.n_frames);
        sum.sums.write(&mut writer);
        for square in &sum.squares {
            writer.u64(*square as u64);
            writer.u64((square >> 64) as u64);
        }
        writer.finish()
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<ProfileSums> {
        let (n_blocks, n) = (self.blocks.len(), self.n_all() * self.units.len());
        let mut reader = Reader::new(Self::ID, bytes)?;
        reader.same(n_blocks as u64, "number of parts")?;
        reader.same(n as u64, "number of sums")?;
        let n_frames = reader.numbers(n_blocks as u64, "numbers of frames")?;
        let sums = FixedSums::read(&mut reader, n_blocks * n)?;
        let halves: Vec<u64> = reader.numbers(2 * n as u64, "sums of squares")?;
        reader.finish()?;
        let squares = halves.as_chunks::<2>().0.iter().map(|[low, high]| u128::from(*high) << 64 | u128::from(*low));
        Ok(ProfileSums { n_frames, sums, squares: squares.collect() })
    }
}
