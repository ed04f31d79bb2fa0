//! Centres of groups of atoms in each frame, of mass or of geometry, angstrom: as MDAnalysis' `center_of_mass` and
//! `center_of_geometry`. Positions are used as they are: molecules are not made whole.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::{Frame, Needs};
use kinema_core::selection::AtomSelection;

use crate::analyses::of_members::{self, OfAtoms};
use crate::analyses::per_frame::{PerFrame, Rows};
use crate::arguments::{Argument, Arguments};
use crate::cpu::Cpu;
use crate::geometry::Center;
use crate::registry::KernelInfo;

/// Columns: x, y and z of the centre of each of `groups`, (atoms, masses); masses may be left out.
/// With `group` and `masses` instead: of a group that changes with the frame.
pub const KERNEL: KernelInfo = KernelInfo {
    id: Centers::ID,
    make: |arguments| {
        if arguments.has("group") {
            return of_members::kernel(arguments, OfGroup);
        }
        let groups = arguments.tuples("groups", &["atoms", "masses"])?;
        if groups.is_empty() {
            return Err(arguments.wrong("groups", "a list of (atoms, masses), at least one"));
        }
        let sets = groups.iter().map(|group| group.unique_atoms("atoms")).collect::<Result<Vec<_>>>()?;
        let atoms = AtomSelection::union(arguments.n_atoms(), &sets);
        let groups = groups.iter().zip(&sets).map(|(group, set)| {
            let center = Center::mass_weighted(arguments.cpu(), &group.weights("masses", set)?)?;
            Ok(Group { center, places: Places::find(set, &atoms)? })
        });
        Ok(Arc::new(Rows(Centers { groups: groups.collect::<Result<_>>()?, atoms })))
    },
    examples: |n_atoms, _| {
        let group = |step, masses: Option<Vec<f64>>| {
            Argument::List(vec![(0..n_atoms).step_by(step).collect::<Vec<_>>().into(), masses.into()])
        };
        let masses = (0..n_atoms).step_by(2).map(|atom| 1.0 + f64::from(atom)).collect();
        let first = Argument::List(vec![vec![0_u32].into(), Argument::None]);
        let some = vec![group(2, Some(masses)), first, group(1, None)];
        let all = Arguments::new(n_atoms).with("groups", vec![group(1, None)]);
        let changing = Arguments::new(n_atoms).with("group", of_members::example(n_atoms));
        vec![all, Arguments::new(n_atoms).with("groups", some), changing]
    },
};

struct Centers {
    atoms: AtomSelection,
    groups: Vec<Group>,
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

struct Group {
    center: Center,
    places: Places,
}

/// Places of the atoms of a group among all atoms.
enum Places {
    /// The first atom, and the one after the last: adjacent atoms, as in residues.
    Run(usize, usize),
    Apart(Vec<u32>),
}

impl Places {
    fn find(set: &AtomSelection, atoms: &AtomSelection) -> Result<Self> {
        let Some(places) = set.positions_in(atoms)? else { return Ok(Self::Run(0, atoms.len())) };
        let first = places.first().map_or(0, |&first| first as usize);
        let is_run = places.iter().zip(first..).all(|(&place, expected)| place as usize == expected);
        Ok(if is_run { Self::Run(first, first + places.len()) } else { Self::Apart(places) })
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
        3 * self.groups.len()
    }

    fn row(&self, frame: &Frame<'_>, gathered: &mut Vec<f32>, values: &mut [f64]) -> Result<()> {
        let row = frame.positions(0);
        let (xyz, _) = row.as_chunks::<3>();
        for (group, center) in self.groups.iter().zip(values.as_chunks_mut::<3>().0) {
            *center = match &group.places {
                Places::Run(first, end) => group.center.compute(&row[3 * first..3 * end])?,
                Places::Apart(places) => {
                    gathered.clear();
                    gathered.extend(places.iter().flat_map(|&place| xyz[place as usize]));
                    group.center.compute(gathered)?
                }
            };
        }
        if values.iter().any(|value| !value.is_finite()) {
            return Err(frame.not_finite(Fields::POSITIONS, 0));
        }
        Ok(())
    }
}
