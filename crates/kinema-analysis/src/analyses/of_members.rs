//! Rows of numbers of a group that changes with the frame, such as the radius of gyration of the atoms near a site.
//!
//! It knows no quantity: [`OfAtoms`] computes the row of any number of atoms. A frame without members has NaN.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::reduce::{AnyKernel, Frame, Needs};

use super::per_frame::{PerFrame, Rows};
use crate::arguments::{Argument, Arguments};
use crate::changing::{ChangingGroup, GroupScratch};
use crate::cpu::Cpu;
use crate::weights::check_each;

/// A row of numbers of some atoms.
pub(super) trait OfAtoms: Send + Sync + 'static {
    /// Name and version of the partial's bytes.
    const ID: &'static str;
    /// Number of columns.
    fn width(&self) -> usize;
    /// Computes the row of at least one atom, with a mass each, of positions (`atoms x 3`, finite).
    ///
    /// # Errors
    /// `InvalidArgument` for masses that are all zero.
    fn measure(&self, cpu: Cpu, masses: &[f64], positions: &[f32], values: &mut [f64]) -> Result<()>;
}

struct OfMembers<Q> {
    cpu: Cpu,
    group: ChangingGroup,
    /// One for each atom that the group looks at.
    masses: Vec<f64>,
    quantity: Q,
}

/// Buffers of one worker: of the group, positions and masses of its members.
#[derive(Default)]
pub(super) struct MemberScratch {
    group: GroupScratch,
    positions: Vec<f32>,
    masses: Vec<f64>,
}

/// The kernel of a quantity for the arguments `group` (see [`ChangingGroup`]) and `masses`, one for each atom that can be
/// in the group, all 1 by default.
/// Errors as [`ChangingGroup::new`]; `InvalidArgument` for masses that do not fit.
pub(super) fn kernel<Q: OfAtoms>(arguments: &Arguments, quantity: Q) -> Result<Arc<dyn AnyKernel>> {
    let group = ChangingGroup::from_arguments(arguments, "group")?;
    let n_candidates = group.candidates().len();
    let masses = match arguments.optional_numbers("masses")? {
        Some(masses) => {
            check_each(masses, n_candidates)?;
            masses.to_vec()
        }
        None => vec![1.0; n_candidates],
    };
    let masses = group.by_place(&masses, 0.0);
    Ok(Arc::new(Rows(OfMembers { cpu: arguments.cpu(), group, masses, quantity })))
}

/// A group for examples of kernels, of a trajectory of any number of atoms.
pub(super) fn example(n_atoms: u32) -> Argument {
    let list = |items: Vec<Argument>| Argument::List(items);
    let atoms = |step| list(vec!["atoms".into(), (0..n_atoms).step_by(step).collect::<Vec<u32>>().into()]);
    let near = list(vec!["near".into(), atoms(5), Argument::None, 4.0.into()]);
    let sphere = list(vec!["sphere".into(), atoms(3), 1.0.into(), 9.0.into()]);
    let bonds: Vec<[u32; 2]> = (0..n_atoms).map(|atom| [atom, (atom + 1) % n_atoms]).collect();
    list(vec!["or".into(), list(vec!["bonded".into(), sphere, bonds.into()]), list(vec!["and".into(), atoms(2), near])])
}

impl<Q: OfAtoms> PerFrame for OfMembers<Q> {
    const ID: &'static str = Q::ID;
    type Value = f64;
    type Scratch = MemberScratch;

    fn needs(&self) -> Needs {
        self.group.needs()
    }

    fn width(&self) -> usize {
        self.quantity.width()
    }

    fn row(&self, frame: &Frame<'_>, scratch: &mut MemberScratch, values: &mut [f64]) -> Result<()> {
        let MemberScratch { group, positions, masses } = scratch;
        let members = self.group.members(frame, 0, group)?;
        if members.is_empty() {
            values.fill(f64::NAN);
            return Ok(());
        }
        let (row, _) = frame.positions(0).as_chunks::<3>();
        positions.clear();
        positions.extend(members.iter().flat_map(|&place| row[place as usize]));
        masses.clear();
        masses.extend(members.iter().map(|&place| self.masses[place as usize]));
        self.quantity.measure(self.cpu, masses, positions, values)
    }
}
