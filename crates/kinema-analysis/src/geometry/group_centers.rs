//! Centres of groups of atoms, such as residues, of mass or of geometry.

use kinema_core::Result;
use kinema_core::selection::AtomSelection;

use super::Center;
use crate::arguments::Arguments;

/// Groups of atoms, and how their centres are computed.
#[derive(Debug, Clone)]
pub struct GroupCenters {
    groups: Vec<Group>,
}

#[derive(Debug, Clone)]
struct Group {
    center: Center,
    places: Places,
}

/// Places of the atoms of a group among all atoms.
#[derive(Debug, Clone)]
enum Places {
    /// The first atom, and the one after the last: adjacent atoms, as in residues.
    Run(usize, usize),
    Apart(Vec<u32>),
}

impl Places {
    /// Ascending places.
    fn of(places: Vec<u32>) -> Self {
        let first = places.first().map_or(0, |&first| first as usize);
        let is_run = places.iter().zip(first..).all(|(&place, expected)| place as usize == expected);
        if is_run { Self::Run(first, first + places.len()) } else { Self::Apart(places) }
    }
}

impl GroupCenters {
    /// The set of all atoms, and the groups: `atoms` and `ends` as [`Arguments::groups`]; `masses`, one for each of
    /// `atoms`, may be left out.
    ///
    /// # Errors
    /// As [`Arguments::groups`]; `InvalidArgument` for masses that are negative, not finite or all zero.
    pub fn from_arguments(arguments: &Arguments) -> Result<(AtomSelection, Self)> {
        Self::from_named(arguments, ["atoms", "ends", "masses"])
    }

    /// The same from arguments with other names.
    ///
    /// # Errors
    /// As [`GroupCenters::from_arguments`].
    pub fn from_named(
        arguments: &Arguments,
        [atoms, ends, weights]: [&'static str; 3],
    ) -> Result<(AtomSelection, Self)> {
        let grouped = arguments.groups(atoms, ends)?;
        let masses = arguments.optional_numbers(weights)?;
        if masses.is_some_and(|masses| masses.len() != grouped.places.len()) {
            return Err(arguments.wrong(weights, &format!("{} numbers", grouped.places.len())));
        }
        let groups = grouped.ranges().map(|range| {
            // in the order of the positions, whatever the order in which atoms are given
            let mut order: Vec<usize> = range.collect();
            order.sort_by_key(|&at| grouped.places[at]);
            let weights: Vec<f64> = order.iter().map(|&at| masses.map_or(1.0, |masses| masses[at])).collect();
            let center = Center::mass_weighted(arguments.cpu(), &weights)?;
            Ok(Group { center, places: Places::of(order.iter().map(|&at| grouped.places[at]).collect()) })
        });
        let groups = groups.collect::<Result<_>>()?;
        Ok((grouped.atoms, Self { groups }))
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there is no group.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The centre of each group, angstrom, from the positions of all atoms; NaN if a position is not finite. `gathered`
    /// is a buffer for groups whose atoms are not adjacent.
    ///
    /// # Errors
    /// `Internal` for a row with a different number of atoms.
    pub fn compute(&self, row: &[f32], gathered: &mut Vec<f32>, centers: &mut [[f64; 3]]) -> Result<()> {
        let (xyz, _) = row.as_chunks::<3>();
        for (group, center) in self.groups.iter().zip(centers) {
            *center = match &group.places {
                Places::Run(first, end) => group.center.compute(&row[3 * first..3 * end])?,
                Places::Apart(places) => {
                    gathered.clear();
                    gathered.extend(places.iter().flat_map(|&place| xyz[place as usize]));
                    group.center.compute(gathered)?
                }
            };
        }
        Ok(())
    }
}
