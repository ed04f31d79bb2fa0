//! Radius of gyration, in total and about each axis.
//!
//! Positions are used as they are: molecules are not made whole. The formulas, with masses m and centre of mass c:
//! `sqrt(sum m |r - c|^2 / sum m)`, as MDAnalysis' `radius_of_gyration`; about x:
//! `sqrt(sum m ((r_y - c_y)^2 + (r_z - c_z)^2) / sum m)`, as `gmx gyrate`.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::{Frame, Needs};
use kinema_core::selection::AtomSelection;

use crate::analyses::of_members::{self, OfAtoms};
use crate::analyses::per_frame::{PerFrame, Rows};
use crate::arguments::Arguments;
use crate::cpu::Cpu;
use crate::geometry::Center;
use crate::registry::KernelInfo;

/// Columns, angstrom: the radius; with `axes` also the radii about x, y and z. `masses`: one an atom, in the order of
/// `atoms`. With `group` instead of `atoms`: of a group that changes with the frame.
pub const KERNEL: KernelInfo = KernelInfo {
    id: Rgyr::ID,
    make: |arguments| {
        let axes = arguments.flag("axes", false)?;
        if arguments.has("group") {
            return of_members::kernel(arguments, OfGroup { axes });
        }
        let atoms = arguments.unique_atoms("atoms")?;
        let center = Center::mass_weighted(arguments.cpu(), &arguments.weights("masses", &atoms)?)?;
        Ok(Arc::new(Rows(Rgyr { atoms, center, axes })))
    },
    examples: |n_atoms, _| {
        let every = |step| (0..n_atoms).step_by(step).collect::<Vec<_>>();
        let masses: Vec<f64> = every(2).iter().map(|atom| 1.0 + f64::from(*atom)).collect();
        let plain = Arguments::new(n_atoms).with("atoms", every(1));
        let group = Arguments::new(n_atoms).with("group", of_members::example(n_atoms)).with("axes", true);
        vec![plain, Arguments::new(n_atoms).with("atoms", every(2)).with("masses", masses).with("axes", true), group]
    },
};

struct Rgyr {
    atoms: AtomSelection,
    center: Center,
    axes: bool,
}

impl PerFrame for Rgyr {
    const ID: &'static str = "rgyr/1";
    type Value = f64;
    type Scratch = ();

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS, atom_sets: vec![self.atoms.clone()] }
    }

    fn width(&self) -> usize {
        width(self.axes)
    }

    fn row(&self, frame: &Frame<'_>, (): &mut (), values: &mut [f64]) -> Result<()> {
        let squares = self.center.mean_squares(frame.positions(0))?;
        if squares.iter().any(|square| !square.is_finite()) {
            return Err(frame.not_finite(Fields::POSITIONS, 0));
        }
        fill(squares, values);
        Ok(())
    }
}

struct OfGroup {
    axes: bool,
}

impl OfAtoms for OfGroup {
    const ID: &'static str = Rgyr::ID;

    fn width(&self) -> usize {
        width(self.axes)
    }

    fn measure(&self, cpu: Cpu, masses: &[f64], positions: &[f32], values: &mut [f64]) -> Result<()> {
        fill(Center::mass_weighted(cpu, masses)?.mean_squares(positions)?, values);
        Ok(())
    }
}

fn width(axes: bool) -> usize {
    if axes { 4 } else { 1 }
}

/// The radii of mean squares along x, y and z.
fn fill([x, y, z]: [f64; 3], values: &mut [f64]) {
    for (value, square) in values.iter_mut().zip([x + y + z, y + z, x + z, x + y]) {
        *value = square.max(0.0).sqrt();
    }
}
