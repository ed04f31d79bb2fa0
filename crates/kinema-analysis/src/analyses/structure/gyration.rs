//! The gyration tensor of a set of atoms in each frame, and its shape: see [`crate::geometry::Gyration`].
//!
//! Positions are used as they are: molecules are not made whole.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::{Frame, Needs};
use kinema_core::selection::AtomSelection;

use crate::analyses::of_members::{self, OfAtoms};
use crate::analyses::per_frame::{PerFrame, Rows};
use crate::arguments::Arguments;
use crate::cpu::Cpu;
use crate::geometry::{self, Shape};
use crate::registry::KernelInfo;

/// Columns: radius of gyration (angstrom), the three moments, least first, asphericity, acylindricity (angstrom^2),
/// relative shape anisotropy; with `tensor` also xx, xy, xz, yy, yz, zz (angstrom^2). `masses`: one an atom, in the
/// order of `atoms`. With `group` instead of `atoms`: of a group that changes with the frame.
pub const KERNEL: KernelInfo = KernelInfo {
    id: Gyration::ID,
    make: |arguments| {
        let tensor = arguments.flag("tensor", false)?;
        if arguments.has("group") {
            return of_members::kernel(arguments, OfGroup { tensor });
        }
        let atoms = arguments.unique_atoms("atoms")?;
        let of = geometry::Gyration::new(arguments.cpu(), &arguments.weights("masses", &atoms)?)?;
        Ok(Arc::new(Rows(Gyration { atoms, of, tensor })))
    },
    examples: |n_atoms, _| {
        let every = |step| (0..n_atoms).step_by(step).collect::<Vec<_>>();
        let masses: Vec<f64> = every(2).iter().map(|atom| 1.0 + f64::from(*atom)).collect();
        let plain = Arguments::new(n_atoms).with("atoms", every(1));
        let group = Arguments::new(n_atoms).with("group", of_members::example(n_atoms)).with("tensor", true);
        vec![plain, Arguments::new(n_atoms).with("atoms", every(2)).with("masses", masses).with("tensor", true), group]
    },
};

struct Gyration {
    atoms: AtomSelection,
    of: geometry::Gyration,
    tensor: bool,
}

impl PerFrame for Gyration {
    const ID: &'static str = "gyration/1";
    type Value = f64;
    type Scratch = ();

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS, atom_sets: vec![self.atoms.clone()] }
    }

    fn width(&self) -> usize {
        width(self.tensor)
    }

    fn row(&self, frame: &Frame<'_>, (): &mut (), values: &mut [f64]) -> Result<()> {
        let shape = self.of.shape(frame.positions(0))?;
        if !shape.radius_of_gyration.is_finite() {
            return Err(frame.not_finite(Fields::POSITIONS, 0));
        }
        fill(&shape, values);
        Ok(())
    }
}

struct OfGroup {
    tensor: bool,
}

impl OfAtoms for OfGroup {
    const ID: &'static str = Gyration::ID;

    fn width(&self) -> usize {
        width(self.tensor)
    }

    fn measure(&self, cpu: Cpu, masses: &[f64], positions: &[f32], values: &mut [f64]) -> Result<()> {
        fill(&geometry::Gyration::new(cpu, masses)?.shape(positions)?, values);
        Ok(())
    }
}

fn width(tensor: bool) -> usize {
    if tensor { 13 } else { 7 }
}

fn fill(shape: &Shape, values: &mut [f64]) {
    let Shape { tensor, moments, radius_of_gyration, asphericity, acylindricity, anisotropy } = *shape;
    let [least, middle, most] = moments;
    let [[xx, xy, xz], [_, yy, yz], [_, _, zz]] = tensor;
    let all = [radius_of_gyration, least, middle, most, asphericity, acylindricity, anisotropy, xx, xy, xz, yy, yz, zz];
    values.copy_from_slice(&all[..values.len()]);
}
