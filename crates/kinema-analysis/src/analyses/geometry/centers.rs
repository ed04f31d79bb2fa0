//! Centres of groups of atoms in each frame, of mass or of geometry, angstrom: as MDAnalysis' `center_of_mass` and
//! `center_of_geometry`. Positions are used as they are: molecules are not made whole.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::{Frame, Needs};
use kinema_core::selection::AtomSelection;

use crate::analyses::of_members::{self, OfAtoms};
use crate::analyses::per_frame::{PerFrame, Rows};
use crate::arguments::Arguments;
use crate::cpu::Cpu;
use crate::geometry::{Center, GroupCenters};
use crate::registry::KernelInfo;

/// Columns: x, y and z of the centre of each group; `atoms` are those of all groups, `ends` the end of each among them;
/// `masses`, one for each of `atoms`, may be left out. With `group`
/// and its `masses` instead: of a group that changes with the frame.
pub const KERNEL: KernelInfo = KernelInfo {
    id: Centers::ID,
    make: |arguments| {
        if arguments.has("group") {
            return of_members::kernel(arguments, OfGroup);
        }
        let (atoms, centers) = GroupCenters::from_arguments(arguments)?;
        Ok(Arc::new(Rows(Centers { atoms, centers })))
    },
    examples: |n_atoms, _| {
        let all = Arguments::new(n_atoms).with("atoms", (0..n_atoms).collect::<Vec<_>>());
        let every_second = (0..n_atoms).step_by(2);
        let atoms: Vec<u32> = every_second.clone().chain([0]).chain(0..n_atoms).collect();
        let n_first = every_second.len() as u32;
        let masses: Vec<f64> = atoms.iter().map(|atom| 1.0 + f64::from(*atom)).collect();
        let ends = vec![n_first, n_first + 1, n_first + 1 + n_atoms];
        let some = Arguments::new(n_atoms).with("atoms", atoms).with("ends", ends);
        let changing = Arguments::new(n_atoms).with("group", of_members::example(n_atoms));
        vec![all, some.clone(), some.with("masses", masses), changing]
    },
};

struct Centers {
    atoms: AtomSelection,
    centers: GroupCenters,
}

struct OfGroup;

impl OfAtoms for OfGroup {
    const ID: &'static str = Centers::ID;

    fn width(&self) -> usize {
        3
    }

    fn measure(&self, cpu: Cpu, masses: &[f64], positions: &[f32], values: &mut [f64]) -> Result<()> {
        values.copy_from_slice(&Center::mass_weighted(cpu, masses)?.compute(positions)?);
        Ok(())
    }
}

impl PerFrame for Centers {
    const ID: &'static str = "centers/1";
    type Value = f64;
    /// Gathered atoms of a group whose atoms are not adjacent.
    type Scratch = Vec<f32>;

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS, atom_sets: vec![self.atoms.clone()] }
    }

    fn width(&self) -> usize {
        3 * self.centers.len()
    }

    fn row(&self, frame: &Frame<'_>, gathered: &mut Vec<f32>, values: &mut [f64]) -> Result<()> {
        self.centers.compute(frame.positions(0), gathered, values.as_chunks_mut::<3>().0)?;
        if values.iter().any(|value| !value.is_finite()) {
            return Err(frame.not_finite(Fields::POSITIONS, 0));
        }
        Ok(())
    }
}
