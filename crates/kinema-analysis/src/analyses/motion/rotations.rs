//! Rotations that bring frames of an atom set to the orientation of the first frame, each by way of the frame before
//! it.
//!
//! `R_0 = 1, R_i = R_(i-1) S_i`, where `S_i` is the best rotation (Theobald's QCP) of frame `i` on frame `i - 1`, both
//! as read. This equals the rotation of frame `i` on frame `i - 1` as fitted, since the best rotation on a frame turns
//! with that frame: `gmx trjconv -fit progressive`. Every `S_i` depends on two frames alone, so leaves compute them
//! however the work is divided; they are multiplied in the order of frames once all are known.

use std::sync::Arc;

use kinema_core::frame::Fields;
use kinema_core::reduce::{Frames, Kernel, Needs, ResultArray};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};

use crate::arguments::Arguments;
use crate::partials::bytes::{Reader, Writer};
use crate::partials::series::nothing_gathered;
use crate::registry::KernelInfo;
use crate::superposition::steps::{Steps, turned};
use crate::superposition::{AtomsAndReference, IDENTITY, Matrix3};
use crate::transforms::superpose::not_finite;

/// Arguments as in the transform `superpose`: `atoms`, `reference`, to which only the first frame is rotated, and
/// `weights`; `every`, frames from station to station; `n_frames` of the run; `start` (3, 3), the rotation of the run's
/// first frame, if it is known. Result: "stations" (stations, 3, 3), the rotations of the first frame, of frame
/// `every`, and so on.
pub const KERNEL: KernelInfo = KernelInfo {
    id: "rotations/2",
    make: |arguments| {
        let fitted = AtomsAndReference::from_arguments(arguments)?;
        let start = match arguments.has("start").then(|| arguments.vectors("start")).transpose()? {
            None => IDENTITY,
            Some(&[x, y, z]) => [x, y, z],
            Some(_) => return Err(arguments.wrong("start", "numbers (3, 3)")),
        };
        Ok(Arc::new(Rotations {
            steps: Steps::from_reference(fitted.reference()),
            atoms: fitted.atoms().clone(),
            every: arguments.count("every", 1)?,
            n_frames: arguments.count("n_frames", 0)? as u64,
            start,
        }))
    },
    examples: |n_atoms, structure| {
        let of = |step| {
            let atoms: Vec<u32> = (0..n_atoms).step_by(step).collect();
            let reference: Vec<[f64; 3]> = atoms.iter().map(|&atom| structure[atom as usize]).collect();
            Arguments::new(n_atoms)
                .with("reference", reference)
                .with("atoms", atoms)
                .with("every", 2)
                .with("n_frames", 140)
        };
        let weights: Vec<f64> = (0..n_atoms).step_by(2).map(|atom| 1.0 + f64::from(atom)).collect();
        vec![of(1), of(2).with("weights", weights)]
    },
};

struct Rotations {
    steps: Steps,
    atoms: AtomSelection,
    every: usize,
    n_frames: u64,
    start: Matrix3,
}

/// Frames that follow each other.
#[derive(Debug, Default, Clone)]
pub struct Run {
    /// Positions of the first frame; empty without frames.
    first: Vec<f32>,
    /// Positions of the last frame.
    last: Vec<f32>,
    /// The rotation of each frame but the first on the one before.
    rotations: Vec<Matrix3>,
}

impl Rotations {
    fn step(&self, before: &[f32], row: &[f32]) -> Result<Matrix3> {
        self.steps.rotation(before, row)?.ok_or_else(|| not_finite(&self.atoms, row))
    }
}

impl Kernel for Rotations {
    type Partial = Run;
    type Scratch = ();

    fn id(&self) -> &'static str {
        KERNEL.id
    }

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS, atom_sets: vec![self.atoms.clone()] }
    }

    fn empty(&self) -> Run {
        Run::default()
    }

    fn partial_bytes(&self) -> u64 {
        // two rows
        24 * self.atoms.len() as u64
    }

    fn kept_bytes(&self) -> u64 {
        (size_of::<Matrix3>() as u64).saturating_mul(self.n_frames)
    }

    fn accumulate(&self, partial: &mut Run, frames: &Frames<'_>, (): &mut ()) -> Result<()> {
        for frame in frames.iter() {
            let row = frame.positions(0);
            if row.iter().any(|x| !x.is_finite()) {
                return Err(not_finite(&self.atoms, row).with_frame(frame.number));
            }
            if partial.first.is_empty() {
                partial.first = row.to_vec();
            } else {
                let rotation = self.step(&partial.last, row).map_err(|error| error.with_frame(frame.number))?;
                partial.rotations.push(rotation);
            }
            partial.last.clear();
            partial.last.extend_from_slice(row);
        }
        Ok(())
    }

    fn merge(&self, left: &mut Run, right: Run) -> Result<()> {
        if right.first.is_empty() {
            return Ok(());
        }
        if left.first.is_empty() {
            *left = right;
            return Ok(());
        }
        left.rotations.push(self.step(&left.last, &right.first)?);
        left.rotations.extend(right.rotations);
        left.last = right.last;
        Ok(())
    }

    fn finish(&self, partial: Run) -> Result<Vec<ResultArray>> {
        if partial.first.is_empty() {
            return Err(nothing_gathered(KERNEL.id));
        }
        let (mut behind, mut values) = (self.start, Vec::new());
        for frame in 0..=partial.rotations.len() {
            if frame > 0 {
                behind = turned(&behind, &partial.rotations[frame - 1]);
            }
            if frame.is_multiple_of(self.every) {
                values.extend_from_slice(behind.as_flattened());
            }
        }
        Ok(vec![ResultArray::new("stations", vec![values.len() / 9, 3, 3], values)])
    }

    fn to_bytes(&self, partial: &Run) -> Result<Vec<u8>> {
        let mut writer = Writer::new(KERNEL.id);
        writer.u64(partial.first.len() as u64);
        writer.u64(partial.rotations.len() as u64);
        writer.numbers(&partial.first);
        writer.numbers(&partial.last);
        writer.numbers(partial.rotations.as_flattened().as_flattened());
        Ok(writer.finish())
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Run> {
        let mut reader = Reader::new(KERNEL.id, bytes)?;
        let width = reader.u64("number of coordinates")?;
        let expected = 3 * self.atoms.len() as u64;
        if width != 0 && width != expected {
            return Err(reader.wrong("number of coordinates", expected, width));
        }
        let n_steps = reader.u64("number of rotations")?;
        let (first, last) = (reader.numbers(width, "first positions")?, reader.numbers(width, "last positions")?);
        let values: Vec<f64> = reader.numbers(n_steps.saturating_mul(9), "rotations")?;
        reader.finish()?;
        let rotations = values.as_chunks::<3>().0.as_chunks::<3>().0.to_vec();
        if width == 0 && !rotations.is_empty() {
            return Err(Error::new(ErrorKind::Corrupt, "rotations without frames in a partial"));
        }
        Ok(Run { first, last, rotations })
    }
}
