//! Hydrogen bonds of a frame: donors with their hydrogens, acceptors near them, and a criterion.
//!
//! The kernels of hydrogen bonds and of water bridges share it. Atoms are places in the row of positions of one atom
//! set, which has all atoms that take part.

use std::ops::Range;

use kinema_core::Result;
use kinema_core::frame::Lattice;
use kinema_core::reduce::Frame;
use kinema_core::selection::AtomSelection;

use crate::arguments::{Argument, Arguments};
use crate::changing::{ChangingGroup, GroupScratch};
use crate::cpu::Cpu;
use crate::geometry::CellList;
use crate::geometry::hydrogen_bond::{Criterion, FoundBond, Rule};

/// Words of the argument `criterion`.
const RULES: [(&str, Rule); 6] = [
    ("distance-angle", Rule::DistanceAngle),
    ("gromacs", Rule::Gromacs),
    ("baker-hubbard", Rule::BakerHubbard),
    ("wernet-nilsson", Rule::WernetNilsson),
    ("hydrogen", Rule::Hydrogen),
    ("heavy", Rule::Heavy),
];

/// Reads `criterion`, `distance` (angstrom) and `angle` (degrees).
/// Errors: `InvalidArgument` for a distance that is not above 0, and an angle beyond 0 to 180.
pub(super) fn criterion(arguments: &Arguments) -> Result<Criterion> {
    let rule = arguments.choice("criterion", &RULES)?;
    let (distance, angle) = (arguments.positive("distance")?, arguments.number("angle")?);
    if !(0.0..=180.0).contains(&angle) {
        return Err(arguments.wrong("angle", "from 0 to 180"));
    }
    Ok(Criterion::new(rule, distance, angle))
}

/// Donors with their hydrogens, ascending; a hydrogen may have several donors.
#[derive(Debug, Default, Clone)]
pub(super) struct Donors {
    heavy: Vec<u32>,
    /// Where the hydrogens of each begin, and their number.
    first: Vec<u32>,
    hydrogens: Vec<u32>,
    /// The donor of each of these.
    of_hydrogens: Vec<u32>,
}

impl Donors {
    /// Takes pairs of donor and hydrogen in ascending order.
    fn fill(&mut self, pairs: impl IntoIterator<Item = [u32; 2]>) {
        self.heavy.clear();
        self.first.clear();
        self.hydrogens.clear();
        self.of_hydrogens.clear();
        for [donor, hydrogen] in pairs {
            if self.heavy.last() != Some(&donor) {
                self.heavy.push(donor);
                self.first.push(self.hydrogens.len() as u32);
            }
            self.hydrogens.push(hydrogen);
            self.of_hydrogens.push(donor);
        }
        self.first.push(self.hydrogens.len() as u32);
    }

    /// The places of a donor's hydrogens in `hydrogens`.
    fn of(&self, donor: usize) -> Range<usize> {
        self.first[donor] as usize..self.first[donor + 1] as usize
    }
}

/// All atoms that can take part in hydrogen bonds.
#[derive(Debug)]
pub(super) struct Participants {
    atoms: AtomSelection,
    /// Pairs of donor and hydrogen, ascending: the same in all frames, or ...
    pairs: Vec<[u32; 2]>,
    /// ... the donors and hydrogens up to a distance of each other, angstrom, in each frame.
    near: Option<(Vec<u32>, Vec<u32>, f64)>,
    acceptors: Vec<u32>,
}

impl Participants {
    /// Reads `acceptors`, and either `pairs` of donor and hydrogen, or `donors`, `hydrogens` and `d_h_cutoff`.
    /// Errors: `InvalidArgument` or `OutOfRange` for wrong arguments.
    pub(super) fn from_arguments(arguments: &Arguments) -> Result<Self> {
        let n_atoms = arguments.n_atoms();
        let mut all = requested(&arguments.atoms("acceptors")?);
        let n_acceptors = all.len();
        let fixed = arguments.has("pairs");
        let mut n_donors = 0;
        if fixed {
            all.extend(arguments.index_rows::<2>("pairs")?.iter().flatten());
        } else {
            let donors = requested(&arguments.atoms("donors")?);
            n_donors = donors.len();
            all.extend(donors);
            all.extend(requested(&arguments.atoms("hydrogens")?));
        }
        let selection = AtomSelection::new(all, n_atoms)?;
        let places = match selection.columns() {
            Some(columns) => columns.to_vec(),
            None => (0..selection.n_requested() as u32).collect(),
        };
        let (acceptors, others) = places.split_at(n_acceptors);
        let (mut pairs, mut near) = (Vec::new(), None);
        if fixed {
            pairs = others.as_chunks::<2>().0.to_vec();
            pairs.sort_unstable();
            pairs.dedup();
        } else {
            let (donors, hydrogens) = others.split_at(n_donors);
            let cutoff = arguments.positive("d_h_cutoff")?;
            near = Some((ascending(donors), ascending(hydrogens), cutoff));
        }
        let atoms = AtomSelection::union(n_atoms, [&selection]);
        Ok(Self { atoms, pairs, near, acceptors: ascending(acceptors) })
    }

    /// The set of all atoms.
    pub(super) fn atoms(&self) -> &AtomSelection {
        &self.atoms
    }

    /// The atoms' numbers in the trajectory.
    pub(super) fn numbers(&self) -> Vec<u32> {
        self.atoms.iter().collect()
    }

    /// Whether each atom of the set is one of `group`.
    pub(super) fn members(&self, group: &AtomSelection) -> Vec<bool> {
        let mut group: Vec<u32> = group.iter().collect();
        group.sort_unstable();
        self.atoms.iter().map(|atom| group.binary_search(&atom).is_ok()).collect()
    }

    /// The acceptors that `wanted` names.
    pub(super) fn acceptors(&self, wanted: impl Fn(u32) -> bool) -> Vec<u32> {
        self.acceptors.iter().copied().filter(|atom| wanted(*atom)).collect()
    }
}

/// A group among the participants.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    pub(super) fixed: Vec<bool>,
    /// Which of the changing groups it is; `fixed` then has all that can be in it.
    pub(super) changing: Option<usize>,
}

/// Groups that change with the frame, and the place of each of their atoms among the participants.
#[derive(Default)]
pub(super) struct Changing(Vec<(ChangingGroup, Vec<Option<u32>>)>);

impl Changing {
    /// Adds the group of an argument and returns its number.
    pub(super) fn add(&mut self, atoms: &Participants, arguments: &Arguments, name: &'static str) -> Result<usize> {
        let group = ChangingGroup::from_arguments(arguments, name)?;
        let numbers = atoms.numbers();
        let place = |atom: u32| numbers.binary_search(&atom).ok().map(|place| place as u32);
        let places = group.atoms().iter().map(place).collect();
        self.0.push((group, places));
        Ok(self.0.len() - 1)
    }

    /// A group of an argument, which is atoms or an expression.
    pub(super) fn group(&mut self, atoms: &Participants, arguments: &Arguments, name: &'static str) -> Result<Group> {
        if !matches!(arguments.any(name), Argument::List(_)) {
            return Ok(Group { fixed: atoms.members(&arguments.atoms(name)?), changing: None });
        }
        let number = self.add(atoms, arguments, name)?;
        Ok(Group { fixed: atoms.members(self.0[number].0.candidates()), changing: Some(number) })
    }

    /// Whether no group changes.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sets of atoms of a kernel: the participants, and one for each group.
    pub(super) fn atom_sets(&self, atoms: &Participants) -> Vec<AtomSelection> {
        let groups = self.0.iter().map(|(group, _)| group.atoms());
        [atoms.atoms()].into_iter().chain(groups).cloned().collect()
    }

    /// Whether each of the participants is in each group in a frame, whose sets from 1 on are those of the groups.
    pub(super) fn mark(
        &self,
        frame: &Frame<'_>,
        n_atoms: usize,
        scratch: &mut GroupScratch,
        marks: &mut Vec<Vec<bool>>,
    ) -> Result<()> {
        marks.resize_with(self.0.len(), Vec::new);
        for (number, ((group, places), marks)) in self.0.iter().zip(marks).enumerate() {
            marks.clear();
            marks.resize(n_atoms, false);
            for &member in group.members(frame, 1 + number, scratch)? {
                if let Some(place) = places[member as usize] {
                    marks[place as usize] = true;
                }
            }
        }
        Ok(())
    }
}

fn requested(atoms: &AtomSelection) -> Vec<u32> {
    atoms.iter().collect()
}

fn ascending(places: &[u32]) -> Vec<u32> {
    let mut sorted = places.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted
}

/// A worker's buffers.
#[derive(Debug, Default)]
pub(super) struct Finder {
    cells: CellList,
    first: Vec<f32>,
    second: Vec<f32>,
    /// Pairs of donor and hydrogen of this frame.
    pairs: Vec<[u32; 2]>,
    donors: Donors,
    /// Numbers of pairs, and places of acceptors that may be bonded to them.
    likely: Vec<[u32; 2]>,
    /// Which of these are of each donor, or hydrogen.
    ranges: Vec<Range<usize>>,
    /// Their atoms, in order.
    ordered: Vec<[u32; 3]>,
}

impl Finder {
    /// Finds the pairs of donor and hydrogen of a frame, if they are not the same in all.
    /// Errors as [`CellList::between`].
    pub(super) fn prepare(&mut self, atoms: &Participants, lattice: &Lattice, row: &[[f32; 3]]) -> Result<()> {
        if let Some((donors, hydrogens, cutoff)) = &atoms.near {
            gather(row, donors, &mut self.first);
            gather(row, hydrogens, &mut self.second);
            let (first, second) = (&self.first, &self.second);
            let pairs = &mut self.pairs;
            pairs.clear();
            self.cells.neighbors_between(lattice, first, second, *cutoff, |point, near, _| {
                let donor = donors[point as usize];
                let pair = |place: &u32| [donor, hydrogens[*place as usize]];
                pairs.extend(near.iter().map(pair).filter(|[donor, hydrogen]| donor != hydrogen));
            })?;
        }
        Ok(())
    }

    /// Adds the bonds to `acceptors` of the pairs of donor and hydrogen that are `wanted`, by donor, hydrogen and acceptor.
    /// Errors as [`CellList::between`].
    pub(super) fn find(
        &mut self,
        atoms: &Participants,
        criterion: &Criterion,
        (lattice, row): (&Lattice, &[[f32; 3]]),
        wanted: impl Fn([u32; 2]) -> bool,
        acceptors: &[u32],
        bonds: &mut Vec<FoundBond>,
    ) -> Result<()> {
        let pairs = if atoms.near.is_some() { &self.pairs } else { &atoms.pairs };
        self.donors.fill(pairs.iter().copied().filter(|pair| wanted(*pair)));
        if self.donors.heavy.is_empty() || acceptors.is_empty() {
            return Ok(());
        }
        let of_hydrogens = criterion.is_of_hydrogens();
        gather(row, if of_hydrogens { &self.donors.hydrogens } else { &self.donors.heavy }, &mut self.first);
        gather(row, acceptors, &mut self.second);
        let Self { cells, first, second, donors, likely, ranges, ordered, .. } = self;
        let cpu = Cpu::detect();
        likely.clear();
        ranges.clear();
        ranges.resize(first.len() / 3, 0..0);
        cells.visit_each(lattice, [first, second], criterion.reach(), |point, near| {
            let (point, begin) = (point as usize, likely.len());
            let pairs = if of_hydrogens { point..point + 1 } else { donors.of(point) };
            for pair in pairs {
                let atoms = [donors.of_hydrogens[pair], donors.hydrogens[pair]].map(|atom| &row[atom as usize]);
                criterion.list_likely((cpu, lattice), (pair as u32, atoms), near, likely);
            }
            ranges[point] = begin..likely.len();
        })?;
        ordered.clear();
        for range in ranges.drain(..) {
            let here = &mut likely[range];
            // places of acceptors ascend as their atoms do; a place is there twice if two of its images are near
            here.sort_unstable();
            let distinct = here.chunk_by(|one, other| one == other).map(|same| same[0]);
            ordered.extend(distinct.map(|[pair, place]| {
                let pair = pair as usize;
                [donors.of_hydrogens[pair], donors.hydrogens[pair], acceptors[place as usize]]
            }));
        }
        criterion.find((cpu, lattice), row, ordered, bonds);
        Ok(())
    }
}

fn gather(row: &[[f32; 3]], places: &[u32], points: &mut Vec<f32>) {
    points.clear();
    points.extend(places.iter().flat_map(|place| row[*place as usize]));
}
