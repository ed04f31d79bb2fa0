//! Least distances of groups of atoms in each frame, and how many pairs and atoms are within a cutoff.
//!
//! `min |r_j - r_i|`, angstrom, i of one group and j of another, with nearest images; or of a group and its own images,
//! which are not at the same place of the cell. As `gmx mindist`, also `-pi`.

use std::sync::Arc;

use kinema_core::frame::{Fields, Lattice};
use kinema_core::reduce::{Frame, Needs, Values};
use kinema_core::{Error, ErrorKind, Result};

use super::neighbors::explained;
use crate::analyses::lists_per_frame::{ListPerFrame, ListRows};
use crate::analyses::of_members;
use crate::arguments::Arguments;
use crate::changing::{AtomsOfFrame, AtomsScratch};
use crate::geometry::cell_list::{CellList, FoundPair, PairImages, has_one_image};
use crate::partials::lists::{ListChunk, ListColumn};
use crate::registry::KernelInfo;

/// Two groups with at most this number of pairs of atoms are compared without a search.
const FEW_PAIRS: usize = 4096;
/// Growth of the distance within which own images are looked for.
const GROWTH: f64 = 1.5;

/// A row for each pair of a group of `atoms` (with `ends`) and one of `other` (with `other_ends`), in this order. Columns:
/// "i", "j", the nearest atoms, numbers in the trajectory, the first such pair if several are; "pairs", how many pairs of
/// atoms are within `cutoff`; "atoms", how many atoms are in these pairs; "distance". Without `other`, a row for all
/// `atoms` and their own images, for which the cell has to be known. Nearest images unless `minimum_image` is false. `group`
/// and `other_group` instead change with the frame and are one group each; frames in which one is empty have no row.
pub const KERNEL: KernelInfo = KernelInfo {
    id: MinimumDistance::ID,
    make: |arguments| {
        let first = Side::from_arguments(arguments, ["atoms", "group"], "ends")?;
        let given = arguments.has("other") || arguments.has("other_group");
        let second = given.then(|| Side::from_arguments(arguments, ["other", "other_group"], "other_ends"));
        let second = second.transpose()?;
        let (cutoff, minimum_image) = (arguments.positive("cutoff")?, arguments.flag("minimum_image", true)?);
        if second.is_none() && !minimum_image {
            return Err(arguments.wrong("minimum_image", "true for own images"));
        }
        Ok(Arc::new(ListRows(MinimumDistance { first, second, cutoff, minimum_image })))
    },
    examples: |n_atoms, _| {
        let (half, rest): (Vec<u32>, Vec<u32>) = (0..n_atoms).partition(|atom| *atom <= n_atoms / 2);
        let rest = if rest.is_empty() { half.clone() } else { rest };
        let ends: Vec<u32> =
            (1..=half.len() as u32).filter(|end| end % 5 == 0 || *end as usize == half.len()).collect();
        let two = |cutoff: f64| {
            Arguments::new(n_atoms).with("atoms", half.clone()).with("other", rest.clone()).with("cutoff", cutoff)
        };
        let group = of_members::example(n_atoms);
        let changing = Arguments::new(n_atoms).with("group", group).with("other", rest.clone()).with("cutoff", 5.0);
        vec![two(9.0), two(2.0).with("ends", ends).with("minimum_image", false), changing]
    },
};

/// Which of some atoms are in which group: each is in one.
#[derive(Debug, Default)]
struct Partition {
    /// The group of each atom of the set.
    group_of: Vec<u32>,
    /// Places in the set, by group.
    members: Vec<Vec<u32>>,
}

impl Partition {
    /// One group of a number of atoms.
    fn whole(&mut self, n_atoms: usize) {
        self.group_of.clear();
        self.group_of.resize(n_atoms, 0);
        self.members.resize_with(1, Vec::new);
        self.members[0].clear();
        self.members[0].extend(0..n_atoms as u32);
    }
}

/// The atoms of one side.
struct Side {
    atoms: AtomsOfFrame,
    /// If they are the same in all frames.
    groups: Partition,
}

impl Side {
    fn from_arguments(arguments: &Arguments, [atoms, group]: [&'static str; 2], ends: &'static str) -> Result<Self> {
        if arguments.has(group) {
            let atoms = AtomsOfFrame::from_arguments(arguments, atoms, group)?;
            return Ok(Self { atoms, groups: Partition::default() });
        }
        let groups = arguments.groups(atoms, ends)?;
        if groups.places.len() != groups.atoms.len() {
            return Err(arguments.wrong(atoms, "atoms that are in one group each"));
        }
        let mut group_of = vec![0; groups.places.len()];
        let mut members = Vec::new();
        for (number, range) in groups.ranges().enumerate() {
            let mut places = groups.places[range].to_vec();
            places.sort_unstable();
            places.iter().for_each(|place| group_of[*place as usize] = number as u32);
            members.push(places);
        }
        Ok(Self { atoms: AtomsOfFrame::Fixed(groups.atoms), groups: Partition { group_of, members } })
    }

    /// The groups of a frame with a number of atoms.
    fn groups<'a>(&'a self, n_atoms: usize, buffer: &'a mut Partition) -> &'a Partition {
        if !self.atoms.change() {
            return &self.groups;
        }
        buffer.whole(n_atoms);
        buffer
    }
}

struct MinimumDistance {
    first: Side,
    second: Option<Side>,
    cutoff: f64,
    minimum_image: bool,
}

/// A row of the results; atoms as places.
#[derive(Debug, Clone, Copy, Default)]
struct Least {
    nearest: Option<FoundPair>,
    n_pairs: u32,
    n_atoms: u32,
}

impl Least {
    fn add(&mut self, pair: FoundPair) {
        self.n_pairs += 1;
        if self.nearest.is_none_or(|nearest| pair.distance < nearest.distance) {
            self.nearest = Some(pair);
        }
    }
}

/// Buffers of a worker.
#[derive(Debug, Default)]
struct Scratch {
    atoms: [AtomsScratch; 2],
    groups: [Partition; 2],
    search: Search,
}

/// Buffers of the search.
#[derive(Debug, Default)]
struct Search {
    cells: CellList,
    found: Vec<FoundPair>,
    least: Vec<Least>,
    /// Rows, with the side and the place of an atom in a pair.
    near: Vec<(u32, u32)>,
    gathered: [Vec<f32>; 2],
}

impl ListPerFrame for MinimumDistance {
    const ID: &'static str = "mindist/1";
    const COLUMNS: &'static [ListColumn] = &[
        ("i", Values::U32(Vec::new())),
        ("j", Values::U32(Vec::new())),
        ("pairs", Values::U32(Vec::new())),
        ("atoms", Values::U32(Vec::new())),
        ("distance", Values::F64(Vec::new())),
    ];
    type Scratch = Scratch;

    fn needs(&self) -> Needs {
        let own = if self.minimum_image { Fields::POSITIONS | Fields::CELL } else { Fields::POSITIONS };
        let both = || [&self.first].into_iter().chain(&self.second);
        let fields = both().fold(own, |fields, one| fields | one.atoms.fields());
        Needs { fields, atom_sets: both().map(|one| one.atoms.read().clone()).collect() }
    }

    fn list(&self, frame: &Frame<'_>, scratch: &mut Scratch, rows: &mut ListChunk) -> Result<()> {
        let Scratch { atoms: [of_first, of_second], groups: [groups, other_groups], search } = scratch;
        let lattice = &*frame.lattice_if(self.minimum_image)?;
        let first = self.first.atoms.find(frame, 0, of_first)?;
        let second = self.second.as_ref().map(|second| second.atoms.find(frame, 1, of_second)).transpose()?;
        if first.positions.is_empty() || second.is_some_and(|second| second.positions.is_empty()) {
            return Ok(());
        }
        let searched = match (&self.second, second) {
            (Some(side), Some(second)) => {
                let groups = self.first.groups(first.positions.len() / 3, groups);
                let others = side.groups(second.positions.len() / 3, other_groups);
                self.of_groups([groups, others], lattice, [first.positions, second.positions], search)
            }
            _ => self.of_own_images(lattice, first.positions, search),
        };
        searched.map_err(|error| explained(frame, 1 + usize::from(self.second.is_some()), error))?;
        let second = second.unwrap_or(first);
        for least in &search.least {
            let Some(nearest) = least.nearest else {
                return Err(Error::new(ErrorKind::Internal, "two groups without a least distance"));
            };
            rows.column::<u32>(0).push(first.number(nearest.first));
            rows.column::<u32>(1).push(second.number(nearest.second));
            rows.column::<u32>(2).push(least.n_pairs);
            rows.column::<u32>(3).push(least.n_atoms);
            rows.column::<f64>(4).push(nearest.distance);
        }
        Ok(())
    }
}

impl MinimumDistance {
    fn of_groups(
        &self,
        [first, second]: [&Partition; 2],
        lattice: &Lattice,
        sets: [&[f32]; 2],
        search: &mut Search,
    ) -> Result<()> {
        let n_second = second.members.len();
        let Search { cells, least, near, gathered, .. } = search;
        least.clear();
        if (first.members.len(), n_second) == (1, 1) && has_one_image(lattice, self.cutoff) {
            let found = cells.least(lattice, sets[0], sets[1], self.cutoff)?;
            least.extend(found.map(|found| Least {
                nearest: Some(found.nearest),
                n_pairs: found.n_pairs as u32,
                n_atoms: found.n_points as u32,
            }));
            return Ok(());
        }
        least.resize(first.members.len() * n_second, Least::default());
        near.clear();
        cells.neighbors_between(lattice, sets[0], sets[1], self.cutoff, |i, others, distances| {
            let start = first.group_of[i as usize] as usize * n_second;
            for (&j, &distance) in others.iter().zip(distances) {
                let row = start + second.group_of[j as usize] as usize;
                least[row].add(FoundPair { first: i, second: j, distance, shift: [0; 3] });
                near.push((row as u32, 2 * i));
                near.push((row as u32, 2 * j + 1));
            }
        })?;
        count_atoms(near, least);
        for (row, least) in least.iter_mut().enumerate().filter(|(_, least)| least.nearest.is_none()) {
            let members = [&first.members[row / n_second], &second.members[row % n_second]];
            least.nearest = nearest_of(cells, lattice, members, sets, gathered)?;
        }
        Ok(())
    }

    /// The least distance to own images: up to the length of the shortest vector of the lattice.
    fn of_own_images(&self, lattice: &Lattice, positions: &[f32], search: &mut Search) -> Result<()> {
        if lattice.is_open() {
            return Err(Error::new(ErrorKind::Corrupt, "the frame has no cell, so that the group has no images"));
        }
        let Search { cells, found, least, near, .. } = search;
        let mut within = self.cutoff;
        loop {
            cells.within(lattice, positions, within, PairImages::All, found)?;
            found.retain(|pair| pair.shift != [0; 3]);
            if !found.is_empty() {
                break;
            }
            within *= GROWTH;
        }
        let mut one = Least::default();
        found.iter().for_each(|pair| one.add(*pair));
        found.retain(|pair| pair.distance <= self.cutoff);
        one.n_pairs = found.len() as u32;
        near.clear();
        near.extend(found.iter().flat_map(|pair| [(0, pair.first), (0, pair.second)]));
        least.clear();
        least.push(one);
        count_atoms(near, least);
        Ok(())
    }
}

/// Counts the distinct atoms of each row.
fn count_atoms(near: &mut Vec<(u32, u32)>, least: &mut [Least]) {
    near.sort_unstable();
    near.dedup();
    for (row, _) in near.iter() {
        least[*row as usize].n_atoms += 1;
    }
}

/// The nearest pair of two groups, which may be far apart.
fn nearest_of(
    cells: &mut CellList,
    lattice: &Lattice,
    members: [&Vec<u32>; 2],
    sets: [&[f32]; 2],
    gathered: &mut [Vec<f32>; 2],
) -> Result<Option<FoundPair>> {
    for ((gathered, members), set) in gathered.iter_mut().zip(members).zip(sets) {
        let atoms = set.as_chunks::<3>().0;
        gathered.clear();
        gathered.extend(members.iter().flat_map(|place| atoms[*place as usize]));
    }
    let [first, second] = &*gathered;
    let found = if members[0].len() * members[1].len() <= FEW_PAIRS {
        nearest_of_few(lattice, first.as_chunks::<3>().0, second.as_chunks::<3>().0)
    } else {
        cells.nearest(lattice, first, second)?
    };
    let place = |found: FoundPair| FoundPair {
        first: members[0][found.first as usize],
        second: members[1][found.second as usize],
        ..found
    };
    Ok(found.map(place))
}

fn nearest_of_few(lattice: &Lattice, first: &[[f32; 3]], second: &[[f32; 3]]) -> Option<FoundPair> {
    let mut least: Option<FoundPair> = None;
    for (i, u) in (0..).zip(first) {
        for (j, v) in (0..).zip(second) {
            let apart = lattice.nearest([0, 1, 2].map(|axis| f64::from(v[axis]) - f64::from(u[axis])));
            let distance = apart.iter().map(|x| x * x).sum::<f64>().sqrt();
            if least.is_none_or(|least| distance < least.distance) {
                least = Some(FoundPair { first: i, second: j, distance, shift: [0; 3] });
            }
        }
    }
    least
}
