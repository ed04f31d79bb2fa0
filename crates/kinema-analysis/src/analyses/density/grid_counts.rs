//! Number of atoms in each bin of a grid along x, y and z, over all frames.
//!
//! Positions are used as they are. Bins are half open, the last one of an axis closed, as `numpy.histogramdd`; atoms outside
//! of the grid have one more bin. Leaves keep lists of the bins that were hit, and the counts of a process are one grid.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::{Frames, Kernel, Needs, ResultArray};
use kinema_core::selection::AtomSelection;

use crate::arguments::Arguments;
use crate::bins::Bins;
use crate::partials::counts::Counts;
use crate::partials::series::nothing_gathered;
use crate::registry::KernelInfo;

/// Results: "counts" (x, y, z), uint64; "outside" (1), uint64, number of atoms outside of the grid; "n_frames" (1), uint64. The grid has `shape` (3) bins from `least` (3) to `most`
/// (3), angstrom. With `occupied`, a bin counts once in a frame in which it has an atom.
pub const KERNEL: KernelInfo = KernelInfo {
    id: ID,
    make: |arguments| {
        let atoms = arguments.unique_atoms("atoms")?;
        let occupied = arguments.flag("occupied", false)?;
        Ok(Arc::new(GridCounts { atoms, axes: axes_of(arguments)?, occupied }))
    },
    examples: |n_atoms, _| {
        let of = |most: f64, shape: [u32; 3]| {
            Arguments::new(n_atoms)
                .with("atoms", (0..n_atoms).rev().collect::<Vec<_>>())
                .with("least", vec![-5.0, 0.0, 1.0])
                .with("most", vec![most, most + 3.0, most + 20.0])
                .with("shape", shape.to_vec())
        };
        vec![of(20.0, [7, 1, 30]), of(40.0, [60, 50, 40]).with("occupied", true)]
    },
};

const ID: &str = "grid_counts/1";

/// Bins at most: their numbers have 32 bits.
const MOST_BINS: u64 = 1 << 32;

struct GridCounts {
    atoms: AtomSelection,
    axes: [Bins; 3],
    occupied: bool,
}

/// The bins of x, y and z.
fn axes_of(arguments: &Arguments) -> Result<[Bins; 3]> {
    let three = |name: &'static str| -> Result<[f64; 3]> {
        let values = arguments.optional_numbers(name)?.unwrap_or(&[]);
        values.try_into().map_err(|_| arguments.wrong(name, "three numbers"))
    };
    let (least, most) = (three("least")?, three("most")?);
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
    /// Bins of the grid, and that of what is outside.
    fn n_bins(&self) -> usize {
        self.axes.iter().map(Bins::len).product::<usize>() + 1
    }

    /// The bin of a position; `None` outside of the grid.
    #[inline]
    fn bin(&self, position: &[f32; 3]) -> Option<u32> {
        let [x, y, z] = [0, 1, 2].map(|axis| self.axes[axis].number(f64::from(position[axis])));
        let [ny, nz] = [self.axes[1].len() as u32, self.axes[2].len() as u32];
        Some((x? * ny + y?) * nz + z?)
    }
}

impl Kernel for GridCounts {
    type Partial = Counts;
    /// Bins of a frame.
    type Scratch = Vec<u32>;

    fn id(&self) -> &'static str {
        ID
    }

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS, atom_sets: vec![self.atoms.clone()] }
    }

    fn empty(&self) -> Counts {
        Counts::default()
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn partial_bytes(&self) -> u64 {
        size_of::<u64>() as u64 * self.n_bins() as u64
    }

    fn accumulate(&self, partial: &mut Counts, frames: &Frames<'_>, hits: &mut Self::Scratch) -> Result<()> {
        let n_bins = self.n_bins();
        for frame in frames.iter() {
            let positions = frame.finite_positions(0).map_err(|error| error.with_frame(frame.number))?;
            let outside = (n_bins - 1) as u32;
            hits.clear();
            hits.extend(positions.as_chunks::<3>().0.iter().map(|position| self.bin(position).unwrap_or(outside)));
            if self.occupied {
                hits.sort_unstable();
                hits.dedup_by(|later, hit| later == hit && *hit != outside);
            }
            partial.add_frame(n_bins, hits);
        }
        Ok(())
    }

    fn merge(&self, left: &mut Counts, right: Counts) -> Result<()> {
        left.merge(self.n_bins(), right);
        Ok(())
    }

    fn finish(&self, partial: Counts) -> Result<Vec<ResultArray>> {
        let (n_frames, mut counts) = partial.into_counts(self.n_bins());
        if n_frames == 0 {
            return Err(nothing_gathered(ID));
        }
        let outside = counts.pop().unwrap_or(0);
        let shape = self.axes.iter().map(Bins::len).collect();
        Ok(vec![
            ResultArray::new("counts", shape, counts),
            ResultArray::new("outside", vec![1], vec![outside]),
            ResultArray::new("n_frames", vec![1], vec![n_frames]),
        ])
    }

    fn to_bytes(&self, partial: &Counts) -> Result<Vec<u8>> {
        Ok(partial.to_bytes(ID, self.n_bins()))
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Counts> {
        Counts::from_bytes(ID, self.n_bins(), bytes)
    }
}
