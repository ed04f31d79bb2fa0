//! Positions of atoms as they are, for analyses that compare frames with frames: x, y and z of each atom, angstrom.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::{Frame, Needs};
use kinema_core::selection::AtomSelection;

use crate::analyses::per_frame::{PerFrame, Rows};
use crate::arguments::Arguments;
use crate::registry::KernelInfo;

/// Columns, float32: x, y and z of each of `atoms`, in their order. `n_frames` of the run, for the memory that all rows
/// take.
pub const KERNEL: KernelInfo = KernelInfo {
    id: Positions::ID,
    make: |arguments| {
        let n_frames = if arguments.has("n_frames") { arguments.count("n_frames", 0)? } else { 0 };
        Ok(Arc::new(Rows(Positions { atoms: arguments.unique_atoms("atoms")?, n_frames: n_frames as u64 })))
    },
    examples: |n_atoms, _| {
        let backwards: Vec<u32> = (0..n_atoms).rev().collect();
        let all: Vec<u32> = (0..n_atoms).collect();
        vec![
            Arguments::new(n_atoms).with("atoms", all),
            Arguments::new(n_atoms).with("atoms", backwards).with("n_frames", 140),
        ]
    },
};

struct Positions {
    atoms: AtomSelection,
    n_frames: u64,
}

impl PerFrame for Positions {
    const ID: &'static str = "positions/1";
    type Value = f32;
    type Scratch = ();

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS, atom_sets: vec![self.atoms.clone()] }
    }

    fn width(&self) -> usize {
        3 * self.atoms.len()
    }

    fn kept_bytes(&self) -> u64 {
        self.n_frames.saturating_mul(4 * self.width() as u64)
    }

    fn row(&self, frame: &Frame<'_>, (): &mut (), values: &mut [f32]) -> Result<()> {
        let positions = frame.finite_positions(0)?;
        match self.atoms.columns() {
            None => values.copy_from_slice(positions),
            Some(columns) => {
                let atoms = positions.as_chunks::<3>().0;
                for (value, &place) in values.as_chunks_mut::<3>().0.iter_mut().zip(columns) {
                    *value = atoms[place as usize];
                }
            }
        }
        Ok(())
    }
}
