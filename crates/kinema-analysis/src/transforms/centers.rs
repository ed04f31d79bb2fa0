//! Centres of groups of atoms in place of the atoms: one position a group, `sum w x / sum w`, with the velocity of that
//! point, `sum w v / sum w`, and the sum of the forces on the atoms.
//!
//! Positions are used as they are: a transform that makes molecules whole comes before. Sums are in `f64` and rounded
//! once.

use std::sync::Arc;

use kinema_core::frame::Fields;
use kinema_core::reduce::{AtomMap, FrameMut, GroupRows, Grouping, Needs, Transform};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};

use super::TransformInfo;
use super::superpose::not_finite;
use crate::arguments::Arguments;
use crate::cpu::Cpu;
use crate::geometry::Center;
use crate::weights::check_each;

/// `members`: the atoms of the first group, followed by those of the second, and so on; `sizes`, (groups, 1): number of
/// atoms of each group; `weights`: one a member, or none.
pub(super) const TRANSFORM: TransformInfo = TransformInfo {
    id: "centers/1",
    make: |arguments| Ok(Arc::new(Centers { groups: Arc::new(Groups::from_arguments(arguments)?) })),
};

#[derive(Debug)]
struct Centers {
    groups: Arc<Groups>,
}

#[derive(Debug)]
struct Groups {
    n_atoms: u32,
    members: Vec<u32>,
    /// Index of the first member of each group, followed by the number of all members.
    firsts: Vec<usize>,
    /// One weight a member.
    weights: Option<Vec<f64>>,
}

impl Groups {
    fn from_arguments(arguments: &Arguments) -> Result<Self> {
        let members: Vec<u32> = arguments.atoms("members")?.requested().collect();
        let sizes = arguments.index_rows::<1>("sizes")?;
        let mut firsts = vec![0];
        for [size] in sizes {
            firsts.push(firsts[firsts.len() - 1] + *size as usize);
        }
        let is_some = !sizes.is_empty() && sizes.iter().all(|[size]| *size > 0);
        if !is_some || firsts[sizes.len()] != members.len() || sizes.len() > u32::MAX as usize {
            return Err(arguments.wrong("sizes", &format!("groups of {} members in all", members.len())));
        }
        let weights = arguments.optional_numbers("weights")?.map(<[f64]>::to_vec);
        if let Some(weights) = &weights {
            check_each(weights, members.len())?;
        }
        Ok(Self { n_atoms: arguments.n_atoms(), members, firsts, weights })
    }

    fn range(&self, group: u32) -> std::ops::Range<usize> {
        self.firsts[group as usize]..self.firsts[group as usize + 1]
    }
}

impl Transform for Centers {
    type State = ();

    fn id(&self) -> &'static str {
        TRANSFORM.id
    }

    fn needs(&self) -> Needs {
        Needs { fields: Fields::NONE, atom_sets: Vec::new() }
    }

    fn grouping(&self) -> Option<&dyn Grouping> {
        Some(&*self.groups)
    }

    fn state(&self, _: &AtomSelection, _: &[AtomMap]) -> Result<()> {
        Ok(())
    }

    fn apply(&self, _: &mut FrameMut<'_>, (): &mut ()) -> Result<()> {
        Err(Error::new(ErrorKind::Internal, "centres are made in rows of their own"))
    }
}

impl Grouping for Groups {
    fn n_groups(&self) -> u32 {
        (self.firsts.len() - 1) as u32
    }

    fn members(&self, groups: &AtomSelection) -> Result<AtomSelection> {
        if groups.n_atoms() != self.n_groups() {
            let (expected, found) = (self.n_groups(), groups.n_atoms());
            let what = format!("wrong number of centres, expected {expected}, found {found}");
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let mut members: Vec<u32> = groups.iter().flat_map(|group| &self.members[self.range(group)]).copied().collect();
        members.sort_unstable();
        members.dedup();
        AtomSelection::from_sorted(members, self.n_atoms)
    }

    fn bind(&self, groups: &AtomSelection, atoms: &AtomSelection) -> Result<Box<dyn GroupRows>> {
        if atoms.n_atoms() != self.n_atoms {
            let (expected, found) = (self.n_atoms, atoms.n_atoms());
            let what = format!("the centres are of another number of atoms, expected {expected}, found {found}");
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let mut column_of = vec![u32::MAX; self.n_atoms as usize];
        for (column, atom) in atoms.iter().enumerate() {
            column_of[atom as usize] = column as u32;
        }
        let mut rows =
            CenterRows { atoms: atoms.clone(), columns: Vec::new(), centers: Vec::new(), gathered: Vec::new() };
        for group in groups.iter() {
            let members = self.range(group);
            for &member in &self.members[members.clone()] {
                let column = column_of[member as usize];
                if column == u32::MAX {
                    return Err(Error::new(ErrorKind::InvalidArgument, format!("atom {} is not there", member + 1)));
                }
                rows.columns.push(column);
            }
            rows.centers.push((members.len(), self.center(members)?));
        }
        Ok(Box::new(rows))
    }
}

impl Groups {
    fn center(&self, members: std::ops::Range<usize>) -> Result<Center> {
        match &self.weights {
            None => Center::unweighted(Cpu::detect(), members.len()),
            Some(weights) => Center::mass_weighted(Cpu::detect(), &weights[members]),
        }
    }
}

struct CenterRows {
    atoms: AtomSelection,
    /// Columns of the members of all groups.
    columns: Vec<u32>,
    /// Number of members, and their centre.
    centers: Vec<(usize, Center)>,
    gathered: Vec<f32>,
}

impl GroupRows for CenterRows {
    fn make(&mut self, field: Fields, row: &[f32], groups: &mut [f32]) -> Result<()> {
        let vectors = row.as_chunks::<3>().0;
        let mut columns = self.columns.as_slice();
        for ((n_members, center), made) in self.centers.iter().zip(groups.as_chunks_mut::<3>().0) {
            let (members, rest) = columns.split_at(*n_members);
            columns = rest;
            let members = members.iter().map(|&column| vectors[column as usize]);
            let value = if field == Fields::FORCES {
                members.fold([0.0; 3], |sum, force| [0, 1, 2].map(|c| sum[c] + f64::from(force[c])))
            } else {
                self.gathered.clear();
                self.gathered.extend(members.flatten());
                center.compute(&self.gathered)?
            };
            if field == Fields::POSITIONS && value.iter().any(|x| !x.is_finite()) {
                return Err(not_finite(&self.atoms, row));
            }
            *made = value.map(|x| x as f32);
        }
        Ok(())
    }
}
