//! Sets of points that pairs are counted of: atoms, atoms that change with the frame, or centres of groups of atoms.

use std::collections::HashMap;

use kinema_core::Result;
use kinema_core::reduce::Frame;
use kinema_core::selection::AtomSelection;

use crate::arguments::Arguments;
use crate::changing::{AtomsOfFrame, AtomsScratch};
use crate::geometry::GroupCenters;

/// The points of a set.
pub(super) struct PointSet {
    atoms: AtomsOfFrame,
    /// Centres of the atoms, if these are the points.
    centers: Option<GroupCenters>,
    /// Numbers of the atoms, or of groups of atoms, if they are the same in all frames.
    numbers: Vec<u32>,
}

/// Buffers of one worker.
#[derive(Debug, Default)]
pub(super) struct PointScratch {
    atoms: AtomsScratch,
    gathered: Vec<f32>,
    centers: Vec<[f64; 3]>,
    positions: Vec<f32>,
}

/// The points of one frame.
pub(super) struct Found<'a> {
    /// `points x 3`, angstrom.
    pub(super) positions: &'a [f32],
    /// Numbers of the points, ascending if they are atoms; `None` for all atoms.
    numbers: Option<&'a [u32]>,
}

impl Found<'_> {
    pub(super) fn len(&self) -> usize {
        self.positions.len() / 3
    }

    /// Number of points that are in both sets of atoms.
    pub(super) fn n_shared(&self, other: &Self) -> u64 {
        match (self.numbers, other.numbers) {
            (None, _) => other.len() as u64,
            (_, None) => self.len() as u64,
            (Some(first), Some(mut second)) => {
                let mut n = 0;
                for number in first {
                    while second.first().is_some_and(|other| other < number) {
                        second = &second[1..];
                    }
                    n += u64::from(second.first() == Some(number));
                }
                n
            }
        }
    }
}

impl PointSet {
    /// The points of `atoms` or `group`, with `ends` and `masses`, and of `other` or `other_group`, if it is given, with
    /// `other_ends` and `other_masses`.
    /// Errors as [`AtomsOfFrame::from_arguments`] and [`GroupCenters::from_named`].
    pub(super) fn two_from_arguments(arguments: &Arguments) -> Result<[Option<Self>; 2]> {
        let mut known = HashMap::new();
        let mut read = |names: [&'static str; 4]| {
            let is_given = arguments.has(names[0]) || arguments.has(names[1]);
            is_given.then(|| Self::from_arguments(arguments, names, &mut known)).transpose()
        };
        Ok([read(["atoms", "group", "ends", "masses"])?, read(["other", "other_group", "other_ends", "other_masses"])?])
    }

    fn from_arguments(
        arguments: &Arguments,
        [atoms, group, ends, masses]: [&'static str; 4],
        known: &mut HashMap<Vec<u32>, u32>,
    ) -> Result<Self> {
        if !arguments.has(ends) {
            let atoms = AtomsOfFrame::from_arguments(arguments, atoms, group)?;
            let numbers = if atoms.change() { Vec::new() } else { atoms.read().iter().collect() };
            return Ok(Self { atoms, centers: None, numbers });
        }
        let grouped = arguments.groups(atoms, ends)?;
        let of_set: Vec<u32> = grouped.atoms.iter().collect();
        // a group of both sets has one number
        let numbers = grouped.ranges().map(|range| {
            let mut members: Vec<u32> = grouped.places[range].iter().map(|&place| of_set[place as usize]).collect();
            members.sort_unstable();
            let next = known.len() as u32;
            *known.entry(members).or_insert(next)
        });
        let numbers = numbers.collect();
        let (set, centers): (AtomSelection, _) = GroupCenters::from_named(arguments, [atoms, ends, masses])?;
        Ok(Self { atoms: AtomsOfFrame::Fixed(set), centers: Some(centers), numbers })
    }

    /// The atoms that points are, or are made of.
    pub(super) fn atoms(&self) -> &AtomsOfFrame {
        &self.atoms
    }

    /// Numbers of the points, if they are the same in all frames.
    pub(super) fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    /// Whether they change with the frame.
    pub(super) fn change(&self) -> bool {
        self.atoms.change()
    }

    /// Whether points have no labels, types or excluded pairs.
    pub(super) fn is_bare(&self) -> bool {
        self.change() || self.centers.is_some()
    }

    /// The points of a frame, of whose sets `set` has the atoms.
    /// Errors as [`AtomsOfFrame::find`] and [`GroupCenters::compute`].
    pub(super) fn find<'a>(
        &'a self,
        frame: &Frame<'a>,
        set: usize,
        scratch: &'a mut PointScratch,
    ) -> Result<Found<'a>> {
        let PointScratch { atoms, gathered, centers, positions } = scratch;
        let found = self.atoms.find(frame, set, atoms)?;
        let Some(groups) = &self.centers else {
            return Ok(Found { positions: found.positions, numbers: found.numbers });
        };
        centers.resize(groups.len(), [0.0; 3]);
        groups.compute(found.positions, gathered, centers)?;
        positions.clear();
        positions.extend(centers.as_flattened().iter().map(|x| *x as f32));
        Ok(Found { positions, numbers: Some(&self.numbers) })
    }
}
