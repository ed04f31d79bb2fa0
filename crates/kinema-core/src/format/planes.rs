//! Coordinates in planes, all x before all y and z: which bytes of them are read, and how they become x, y, z of each atom.

use std::ops::Range;

use super::{Request, Segment};
use crate::selection::AtomSelection;
use crate::source::{Extent, MAX_GAP};

/// Frames up to this size are read whole: skipping inside them would save no time.
const WHOLE_FRAME_BYTES: u64 = 4 * MAX_GAP;

/// Runs of selected atoms, which are read one by one from each plane.
pub(super) struct PlaneRuns {
    runs: Vec<Range<u32>>,
    /// Atoms in all of them, and of the trajectory.
    covered: u64,
    n_atoms: u64,
    /// Bytes of a number.
    width: u64,
}

impl PlaneRuns {
    /// The runs for planes whose numbers have `width` bytes.
    pub fn new(atoms: &AtomSelection, width: u64) -> Self {
        let runs = atoms.runs((MAX_GAP / width) as u32);
        let covered = runs.iter().map(|run| u64::from(run.end - run.start)).sum();
        Self { runs, covered, n_atoms: u64::from(atoms.n_atoms()), width }
    }

    /// Whether planes of `len` bytes are read whole: they are small, or most of them is needed anyway.
    pub fn need_whole(&self, len: u64) -> bool {
        len <= WHOLE_FRAME_BYTES || 4 * self.covered > 3 * self.n_atoms
    }

    /// Each run, and its bytes in the plane whose first number is at `first`.
    pub fn plane_extents(&self, first: u64) -> impl Iterator<Item = (Range<u32>, Extent)> + '_ {
        self.runs.iter().map(move |run| {
            let offset = first + self.width * u64::from(run.start);
            (run.clone(), Extent { offset, len: self.width * u64::from(run.end - run.start) })
        })
    }
}

/// Three planes into x, y, z, x, y, z, ...: all atoms, or those in `indices`.
#[inline(always)]
pub(super) fn interleave<R, const N: usize>(
    planes: [&[[u8; N]]; 3],
    indices: Option<&[u32]>,
    values: &mut [[R; 3]],
    number: impl Fn([u8; N]) -> R,
) {
    let [x, y, z] = planes;
    let out = values.iter_mut();
    match indices {
        None => {
            for (((out, x), y), z) in out.zip(x).zip(y).zip(z) {
                *out = [number(*x), number(*y), number(*z)];
            }
        }
        Some(indices) => {
            // one length for all three, so that one check serves three loads
            let n = x.len().min(y.len()).min(z.len());
            let (x, y, z) = (&x[..n], &y[..n], &z[..n]);
            for (out, &atom) in out.zip(indices) {
                let atom = atom as usize;
                *out = [number(x[atom]), number(y[atom]), number(z[atom])];
            }
        }
    }
}

/// One coordinate of the selected atoms in a run of one plane.
#[inline(always)]
pub(super) fn gather_run<R, const N: usize>(
    plane: &[[u8; N]],
    axis: usize,
    segment: &Segment,
    request: &Request,
    values: &mut [[R; 3]],
    number: impl Fn([u8; N]) -> R,
) {
    let first = segment.atoms.start;
    let indices = request.atoms.indices().unwrap_or_default();
    let from = indices.partition_point(|&atom| atom < first);
    let columns = values.iter_mut().zip(indices).skip(from);
    for (out, &atom) in columns.take_while(|(_, atom)| **atom < segment.atoms.end) {
        out[axis] = number(plane[(atom - first) as usize]);
    }
}
