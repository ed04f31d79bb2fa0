//! RMSD of each frame from many structures, superposed pair by pair or as they stand; all pairs of frames of a run.
//!
//! `sqrt(sum_i w_i |R (x_i - c_x) - (y_i - c_y)|^2 / n)`, angstrom, with weights relative to their mean: the least value
//! that any rotation R gives, or R = 1 and c = 0. For all pairs of n frames, the row of a frame has its RMSDs from the
//! next n / 2 frames in a circle, so that each pair is there once and all rows take the same time.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::{Frame, Frames, Needs};
use kinema_core::selection::AtomSelection;

use crate::analyses::per_frame::{PerFrame, Rows};
use crate::arguments::{Argument, Arguments};
use crate::registry::KernelInfo;
use crate::superposition::many::{BATCH, Columns, Few, Structures};

/// Columns, angstrom. `structures`: (n, 3 * atoms) float32, angstrom; `weights`: one an atom; `superposed`: by default true.
///
/// With `atoms`, each frame is compared with all structures, whose atoms are in the same order: n columns. `n_frames` of
/// the run: for the memory that all rows take.
///
/// With `numbers`, ascending, structures are the frames of these numbers, and frames are not read: n / 2 columns, of the
/// frames that follow in a circle. If n is even, the last column of the later half of the frames is nan, as the
/// earlier half has their pairs. A frame that is not among them has nan.
pub const KERNEL: KernelInfo = KernelInfo {
    id: FrameRmsds::ID,
    make: |arguments| Ok(Arc::new(Rows(FrameRmsds::new(arguments)?))),
    examples: |n_atoms, structure| {
        let moved = |n: usize| -> Vec<f32> {
            let shift = |at: usize| move |x: &f64| (x * (1.0 + 0.01 * at as f64)) as f32;
            (0..n).flat_map(|at| structure.as_flattened().iter().map(shift(at))).collect()
        };
        let of = |n: usize| {
            let shape = vec![n, 3 * n_atoms as usize];
            Arguments::new(n_atoms).with("structures", Argument::Singles { shape, values: moved(n) })
        };
        let atoms: Vec<u32> = (0..n_atoms).collect();
        let backwards: Vec<u32> = (0..n_atoms).rev().collect();
        let weights: Vec<f64> = (0..n_atoms).map(|atom| 1.0 + f64::from(atom)).collect();
        let numbers = |numbers: &[u32]| numbers.iter().map(|number| f64::from(*number)).collect::<Vec<f64>>();
        // numbers of the frames that tests have
        vec![
            of(9).with("atoms", atoms.clone()),
            of(6).with("atoms", backwards).with("weights", weights.clone()).with("n_frames", 140),
            of(5).with("atoms", atoms).with("superposed", false),
            of(11).with("numbers", numbers(&[0, 1, 2, 3, 4, 5, 100, 103, 106, 109, 112])),
            of(10).with("numbers", numbers(&[0, 1, 2, 3, 4, 100, 103, 106, 109, 112])).with("weights", weights),
        ]
    },
};

/// As [`KERNEL`], with values rounded to single precision, which halves the memory of all rows.
pub const SINGLE: KernelInfo = KernelInfo {
    id: Rounded::ID,
    make: |arguments| Ok(Arc::new(Rows(Rounded(FrameRmsds::new(arguments)?)))),
    examples: KERNEL.examples,
};

/// Which frames are compared with the structures.
enum Compared {
    /// Frames of a trajectory, with all structures.
    Frames { atoms: AtomSelection, n_frames: usize },
    /// The structures themselves, each with the next ones in a circle; their frame numbers, ascending.
    Among { numbers: Vec<u64> },
}

pub(super) struct FrameRmsds {
    pub(super) structures: Structures,
    compared: Compared,
}

/// Structures with their atoms in the order of the set.
fn in_order_of_set(atoms: &AtomSelection, positions: &[f32]) -> Vec<f32> {
    let columns = atoms.columns().unwrap_or_default();
    let mut ordered = vec![0.0; positions.len()];
    for (from, to) in positions.chunks_exact(3 * columns.len()).zip(ordered.chunks_exact_mut(3 * columns.len())) {
        for (atom, &place) in from.as_chunks::<3>().0.iter().zip(columns) {
            to[3 * place as usize..][..3].copy_from_slice(atom);
        }
    }
    ordered
}

impl FrameRmsds {
    /// Arguments are those of [`KERNEL`].
    /// Errors: `InvalidArgument` for arguments that contradict each other.
    pub(super) fn new(arguments: &Arguments) -> Result<Self> {
        let (shape, positions) = arguments.singles("structures")?;
        let &[n, width] = shape else { return Err(arguments.wrong("structures", "single numbers (n, 3 * atoms)")) };
        let compared = if arguments.has("numbers") {
            let numbers: Vec<u64> = arguments.numbers("numbers")?.iter().map(|number| *number as u64).collect();
            if numbers.len() != n || !numbers.is_sorted_by(|a, b| a < b) {
                return Err(arguments.wrong("numbers", "one number for each structure, ascending"));
            }
            Compared::Among { numbers }
        } else {
            let n_frames = if arguments.has("n_frames") { arguments.count("n_frames", 0)? } else { 0 };
            let atoms = arguments.unique_atoms("atoms")?;
            if 3 * atoms.len() != width {
                return Err(arguments.wrong("structures", &format!("of {} atoms", atoms.len())));
            }
            Compared::Frames { atoms, n_frames }
        };
        let weights = arguments.optional_numbers("weights")?;
        let superposed = arguments.flag("superposed", true)?;
        let new = |positions: &[f32], weights: Option<&[f64]>| {
            Structures::new(arguments.cpu(), positions, width / 3, weights, superposed)
        };
        let structures = match &compared {
            Compared::Frames { atoms, .. } if atoms.columns().is_some() => {
                let weights = weights.map(|weights| atoms.reorder_as_set(weights, 1)).transpose()?;
                new(&in_order_of_set(atoms, positions), weights.as_deref())?
            }
            _ => new(positions, weights)?,
        };
        Ok(Self { structures, compared })
    }

    /// The structures with which a frame is compared; none for a frame that is not among them.
    pub(super) fn columns(&self, number: u64) -> Columns {
        let n = self.structures.len();
        match &self.compared {
            Compared::Frames { .. } => Columns { first: 0, len: n },
            Compared::Among { numbers } => match numbers.binary_search(&number) {
                Ok(place) => {
                    let first = if place + 1 == n { 0 } else { place + 1 };
                    let skips_last = n.is_multiple_of(2) && place >= n / 2;
                    Columns { first, len: n / 2 - usize::from(skips_last) }
                }
                Err(_) => Columns { first: 0, len: 0 },
            },
        }
    }

    /// Bytes of the structures, and of the rows of all frames with values of a size.
    fn bytes_with_rows(&self, size: usize) -> u64 {
        let n_frames = match &self.compared {
            Compared::Frames { n_frames, .. } => *n_frames,
            Compared::Among { numbers } => numbers.len(),
        };
        let rows = (size as u64 * self.width() as u64).saturating_mul(n_frames as u64);
        self.structures.bytes().saturating_add(rows)
    }

    /// Sets the rows of frames to their RMSDs, and the rest of each row to nan.
    /// Errors: `Corrupt` for positions that are not finite.
    pub(super) fn fill(&self, frames: &[Frame<'_>], few: &mut Few, values: &mut [f64]) -> Result<()> {
        few.clear();
        let columns: Vec<Columns> = frames.iter().map(|frame| self.columns(frame.number)).collect();
        for (frame, columns) in frames.iter().zip(&columns) {
            match &self.compared {
                Compared::Frames { .. } => self
                    .structures
                    .prepare(frame.finite_positions(0).map_err(|error| error.with_frame(frame.number))?, few)?,
                Compared::Among { .. } => {
                    // the frame before the first column; any for a frame that has none
                    let place = columns.first.checked_sub(1).unwrap_or(self.structures.len() - 1);
                    self.structures.take(place, few);
                }
            }
        }
        values.fill(f64::NAN);
        let mut rows: Vec<&mut [f64]> = values.chunks_exact_mut(self.width().max(1)).collect();
        self.structures.rmsds(few, &columns, &mut rows);
        Ok(())
    }
}

impl PerFrame for FrameRmsds {
    const ID: &'static str = "frame_rmsds/1";
    type Value = f64;
    type Scratch = Few;

    fn needs(&self) -> Needs {
        match &self.compared {
            Compared::Frames { atoms, .. } => Needs { fields: Fields::POSITIONS, atom_sets: vec![atoms.clone()] },
            Compared::Among { .. } => Needs { fields: Fields::NONE, atom_sets: Vec::new() },
        }
    }

    fn width(&self) -> usize {
        match &self.compared {
            Compared::Frames { .. } => self.structures.len(),
            Compared::Among { .. } => self.structures.len() / 2,
        }
    }

    fn kept_bytes(&self) -> u64 {
        self.bytes_with_rows(size_of::<f64>())
    }

    fn row(&self, frame: &Frame<'_>, few: &mut Few, values: &mut [f64]) -> Result<()> {
        self.fill(std::slice::from_ref(frame), few, values)
    }

    fn rows(&self, frames: &Frames<'_>, few: &mut Few, values: &mut [f64]) -> Result<()> {
        let all: Vec<Frame<'_>> = frames.iter().collect();
        for (frames, values) in all.chunks(BATCH).zip(values.chunks_mut(BATCH * self.width().max(1))) {
            self.fill(frames, few, values)?;
        }
        Ok(())
    }
}

/// The same values in single precision.
struct Rounded(FrameRmsds);

/// Buffers of [`Rounded`].
#[derive(Debug, Default)]
struct RoundedScratch {
    few: Few,
    values: Vec<f64>,
}

impl PerFrame for Rounded {
    const ID: &'static str = "frame_rmsds_single/1";
    type Value = f32;
    type Scratch = RoundedScratch;

    fn needs(&self) -> Needs {
        self.0.needs()
    }

    fn width(&self) -> usize {
        self.0.width()
    }

    fn kept_bytes(&self) -> u64 {
        self.0.bytes_with_rows(size_of::<f32>())
    }

    fn row(&self, frame: &Frame<'_>, scratch: &mut RoundedScratch, values: &mut [f32]) -> Result<()> {
        self.fill_rounded(std::slice::from_ref(frame), scratch, values)
    }

    fn rows(&self, frames: &Frames<'_>, scratch: &mut RoundedScratch, values: &mut [f32]) -> Result<()> {
        let all: Vec<Frame<'_>> = frames.iter().collect();
        for (frames, values) in all.chunks(BATCH).zip(values.chunks_mut(BATCH * self.width().max(1))) {
            self.fill_rounded(frames, scratch, values)?;
        }
        Ok(())
    }
}

impl Rounded {
    /// As [`FrameRmsds::fill`].
    fn fill_rounded(&self, frames: &[Frame<'_>], scratch: &mut RoundedScratch, values: &mut [f32]) -> Result<()> {
        scratch.values.resize(values.len(), 0.0);
        self.0.fill(frames, &mut scratch.few, &mut scratch.values)?;
        values.iter_mut().zip(&scratch.values).for_each(|(value, exact)| *value = *exact as f32);
        Ok(())
    }
}
