//! Water bridges of each frame: chains of hydrogen bonds from one group through waters to another.
//!
//! A bridge of n waters has n + 1 hydrogen bonds, each from an atom of one molecule to the next one of the chain; donor
//! and acceptor may be on either side. No water occurs twice. Waters are searched layer by layer from the first group,
//! so that only bonds of waters which can be part of a bridge are looked for.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::frame::{Fields, Lattice};
use kinema_core::reduce::{Frame, Needs, Values};

use super::bond_finder::{Changing, Finder, Participants, criterion};
use super::bridge_paths::{Edge, Paths};
use crate::analyses::lists_per_frame::{ListPerFrame, ListRows};
use crate::analyses::of_members;
use crate::arguments::{Argument, Arguments};
use crate::changing::GroupScratch;
use crate::geometry::hydrogen_bond::{Criterion, FoundBond};
use crate::partials::lists::{ListChunk, ListColumn};
use crate::registry::KernelInfo;

/// Rows are the hydrogen bonds of bridges, from the first group to the second; bridges of fewer waters come first.
/// Columns: "bridge", counted from 0 in the frame; "waters", how many the bridge has; "start", the donor or the acceptor,
/// whichever is on the side of the first group; "donor", "hydrogen" and "acceptor", all of them atoms of the trajectory;
/// "distance", H-A or D-A as the criterion limits it, angstrom; "angle" D-H-A, degrees.
///
/// Atoms and criterion as for hydrogen bonds; `first` and `second`: the groups; `waters`: the atoms of waters, `molecules`:
/// the water of each, any whole numbers; `order`: the most waters of a bridge. `first` and `second` may change with the
/// frame (see `changing`); `waters_group` does: only its atoms are of waters then. No bridge ends at an atom of `waters`.
pub const KERNEL: KernelInfo = KernelInfo { id: WaterBridges::ID, make, examples };

fn make(arguments: &Arguments) -> Result<Arc<dyn kinema_core::reduce::AnyKernel>> {
    let (atoms, criterion) = (Participants::from_arguments(arguments)?, criterion(arguments)?);
    let order = arguments.count("order", 1)?;
    let (waters, molecules) = (arguments.index_rows::<1>("waters")?, arguments.index_rows::<1>("molecules")?);
    if waters.len() != molecules.len() {
        return Err(arguments.wrong("molecules", "one number for each of waters"));
    }
    let mut of_atoms: Vec<_> = waters.iter().zip(molecules).map(|([atom], [molecule])| (*atom, *molecule)).collect();
    of_atoms.sort_unstable();
    let mut names: Vec<u32> = molecules.as_flattened().to_vec();
    names.sort_unstable();
    names.dedup();
    let molecule = |atom: &u32| {
        let found = of_atoms.binary_search_by_key(atom, |(atom, _)| *atom).ok()?;
        names.binary_search(&of_atoms[found].1).ok()
    };
    let numbers = atoms.numbers();
    let molecules: Vec<u32> = numbers.iter().map(|atom| molecule(atom).map_or(NONE, |found| found as u32)).collect();
    // an atom of waters in a group is never an end of bridges
    let dry = |members: Vec<bool>| members.into_iter().zip(&molecules).map(|(is, of)| is && *of == NONE).collect();
    let mut changing = Changing::default();
    let (first, second) = (changing.group(&atoms, arguments, "first")?, changing.group(&atoms, arguments, "second")?);
    let of_waters =
        arguments.has("waters_group").then(|| changing.add(&atoms, arguments, "waters_group")).transpose()?;
    let change = [first.changing, second.changing, of_waters];
    let all = Groups { first: dry(first.fixed), second: dry(second.fixed), molecules, acceptors: Default::default() };
    let all = all.with_acceptors(&atoms);
    let n_molecules = names.len();
    Ok(Arc::new(ListRows(WaterBridges { atoms, numbers, criterion, order, n_molecules, all, changing, change })))
}

fn examples(n_atoms: u32, _: &[[f64; 3]]) -> Vec<Arguments> {
    let all: Vec<u32> = (0..n_atoms).collect();
    let of = |order: i64, end: usize| {
        let end = end.min(all.len());
        let waters = all[end.min(all.len() - 1)..].to_vec();
        let molecules: Vec<u32> = waters.iter().map(|atom| atom / 3).collect();
        let pairs: Vec<[u32; 2]> = all.iter().map(|atom| [*atom, (atom + 1) % n_atoms]).collect();
        Arguments::new(n_atoms)
            .with("acceptors", all.clone())
            .with("pairs", pairs)
            .with("criterion", Argument::from("hydrogen"))
            .with("distance", 5.0)
            .with("angle", 100.0)
            .with("first", all[..end.div_ceil(2).max(1)].to_vec())
            .with("second", all[..end.max(1)].to_vec())
            .with("waters", waters)
            .with("molecules", molecules)
            .with("order", order)
    };
    let group = || of_members::example(n_atoms);
    let changing = of(2, all.len() / 3).with("first", group()).with("waters_group", group());
    vec![of(1, all.len() / 2), of(2, all.len() / 4), changing]
}

/// No water.
const NONE: u32 = u32::MAX;

struct WaterBridges {
    atoms: Participants,
    numbers: Vec<u32>,
    criterion: Criterion,
    order: usize,
    n_molecules: usize,
    /// The groups with all atoms that can be in them.
    all: Groups,
    changing: Changing,
    /// Which of the changing groups the first, the second and the waters are.
    change: [Option<usize>; 3],
}

/// The atoms of each group.
#[derive(Debug, Default)]
struct Groups {
    first: Vec<bool>,
    second: Vec<bool>,
    /// The water of each place, counted from 0; `NONE` for other atoms.
    molecules: Vec<u32>,
    /// Acceptors of the first group, of the second, and of waters.
    acceptors: [Vec<u32>; 3],
}

impl Groups {
    fn with_acceptors(mut self, atoms: &Participants) -> Self {
        let Self { first, second, molecules, .. } = &self;
        self.acceptors = [
            atoms.acceptors(|atom| first[atom as usize]),
            atoms.acceptors(|atom| second[atom as usize]),
            atoms.acceptors(|atom| molecules[atom as usize] != NONE),
        ];
        self
    }

    /// The water of an atom.
    fn water(&self, atom: u32) -> Option<u32> {
        Some(self.molecules[atom as usize]).filter(|molecule| *molecule != NONE)
    }

    /// The atom of a group and the water of a bond between them.
    fn end_and_water(&self, bond: &FoundBond) -> (u32, u32) {
        match self.water(bond.donor) {
            Some(water) => (bond.acceptor, water),
            None => (bond.donor, self.molecules[bond.acceptor as usize]),
        }
    }
}

/// A worker's buffers.
#[derive(Debug, Default)]
struct Scratch {
    search: Search,
    group: GroupScratch,
    /// For each changing group, whether each of the participants is in it.
    marks: Vec<Vec<bool>>,
    groups: Groups,
}

/// Buffers of the search.
#[derive(Debug, Default)]
struct Search {
    finder: Finder,
    bonds: Vec<FoundBond>,
    /// After how many waters each water is reached; 0 for those that are not.
    depths: Vec<usize>,
    paths: Paths,
}

impl WaterBridges {
    /// The groups of a frame, by the marks of those that change.
    fn groups_of(&self, marks: &[Vec<bool>]) -> Groups {
        let [first, second, waters] = self.change.map(|group| group.map(|group| &marks[group]));
        let is_in = |marks: Option<&Vec<bool>>, place: usize| marks.is_none_or(|marks| marks[place]);
        let left = |members: &[bool], marks: Option<&Vec<bool>>| -> Vec<bool> {
            members.iter().enumerate().map(|(place, member)| *member && is_in(marks, place)).collect()
        };
        let molecules = self.all.molecules.iter().enumerate();
        let groups = Groups {
            first: left(&self.all.first, first),
            second: left(&self.all.second, second),
            molecules: molecules.map(|(place, of)| if is_in(waters, place) { *of } else { NONE }).collect(),
            acceptors: Default::default(),
        };
        groups.with_acceptors(&self.atoms)
    }

    /// Adds the bonds between a group and the waters that are wanted.
    fn bonds_of_group(
        &self,
        groups: &Groups,
        finder: &mut Finder,
        frame: (&Lattice, &[[f32; 3]]),
        (group, acceptors): (&[bool], &[u32]),
        wanted: impl Fn(u32) -> bool + Copy,
        bonds: &mut Vec<FoundBond>,
    ) -> Result<()> {
        bonds.clear();
        let is_wanted = |atom: u32| groups.water(atom).is_some_and(wanted);
        let near: Vec<u32> = groups.acceptors[2].iter().copied().filter(|atom| is_wanted(*atom)).collect();
        finder.find(&self.atoms, &self.criterion, frame, |[donor, _]| group[donor as usize], &near, bonds)?;
        finder.find(&self.atoms, &self.criterion, frame, |[donor, _]| is_wanted(donor), acceptors, bonds)
    }

    /// Ends and edges of all bridges of a frame, as far as their waters are reached.
    fn search(&self, groups: &Groups, search: &mut Search, frame: (&Lattice, &[[f32; 3]])) -> Result<()> {
        let Search { finder, bonds, depths, paths } = search;
        finder.prepare(&self.atoms, frame.0, frame.1)?;
        depths.clear();
        depths.resize(self.n_molecules, 0);
        paths.clear();
        self.bonds_of_group(groups, finder, frame, (&groups.first, &groups.acceptors[0]), |_| true, bonds)?;
        for bond in bonds.iter() {
            let (end, water) = groups.end_and_water(bond);
            depths[water as usize] = 1;
            paths.starts.push(Edge { from: end, to: water, bond: *bond, from_donor: end == bond.donor });
        }
        for depth in 1..self.order {
            let expanded = |water: u32| depths[water as usize] == depth;
            let wanted = |atom: u32| groups.water(atom).is_some_and(expanded);
            let near: Vec<u32> = groups.acceptors[2].iter().copied().filter(|atom| wanted(*atom)).collect();
            bonds.clear();
            let all = |atom: u32| groups.water(atom).is_some();
            finder.find(
                &self.atoms,
                &self.criterion,
                frame,
                |[donor, _]| wanted(donor),
                &groups.acceptors[2],
                bonds,
            )?;
            finder.find(&self.atoms, &self.criterion, frame, |[donor, _]| all(donor), &near, bonds)?;
            let of = |atom: u32| groups.molecules[atom as usize];
            let before = paths.between.len();
            for bond in bonds.iter() {
                let (donor, acceptor) = (of(bond.donor), of(bond.acceptor));
                for (from, to, from_donor) in [(donor, acceptor, true), (acceptor, donor, false)] {
                    if from != to && expanded(from) {
                        paths.between.push(Edge { from, to, bond: *bond, from_donor });
                    }
                }
            }
            for edge in &paths.between[before..] {
                let reached = &mut depths[edge.to as usize];
                if *reached == 0 {
                    *reached = depth + 1;
                }
            }
        }
        self.bonds_of_group(
            groups,
            finder,
            frame,
            (&groups.second, &groups.acceptors[1]),
            |water| depths[water as usize] > 0,
            bonds,
        )?;
        for bond in bonds.iter() {
            let (end, water) = groups.end_and_water(bond);
            paths.ends.push(Edge { from: water, to: end, bond: *bond, from_donor: end == bond.acceptor });
        }
        Ok(())
    }
}

impl ListPerFrame for WaterBridges {
    const ID: &'static str = "water_bridges/1";
    const COLUMNS: &'static [ListColumn] = &[
        ("bridge", Values::U32(Vec::new())),
        ("waters", Values::U32(Vec::new())),
        ("start", Values::U32(Vec::new())),
        ("donor", Values::U32(Vec::new())),
        ("hydrogen", Values::U32(Vec::new())),
        ("acceptor", Values::U32(Vec::new())),
        ("distance", Values::F64(Vec::new())),
        ("angle", Values::F64(Vec::new())),
    ];
    type Scratch = Scratch;

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS | Fields::CELL, atom_sets: self.changing.atom_sets(&self.atoms) }
    }

    fn list(&self, frame: &Frame<'_>, scratch: &mut Scratch, rows: &mut ListChunk) -> Result<()> {
        let (lattice, row) = (frame.lattice()?, frame.finite_positions(0)?.as_chunks::<3>().0);
        let Scratch { search, group, marks, groups } = scratch;
        let groups = if self.changing.is_empty() {
            &self.all
        } else {
            self.changing.mark(frame, row.len(), group, marks)?;
            *groups = self.groups_of(marks);
            groups
        };
        self.search(groups, search, (&lattice, row))?;
        // a bridge whose ends are in both groups is found from both sides, and counts once
        let either = |atom: u32| groups.first[atom as usize] && groups.second[atom as usize];
        let of_hydrogens = self.criterion.is_of_hydrogens();
        let bridges = search.paths.find(self.order, |start, end| start < end || !(either(start) && either(end)));
        for (number, bridge) in (0_u32..).zip(bridges) {
            for Edge { bond, from_donor, .. } in bridge {
                let atoms = bond.key().map(|atom| self.numbers[atom as usize]);
                let start = if *from_donor { atoms[0] } else { atoms[2] };
                let [donor, hydrogen, acceptor] = atoms;
                let of_row = [number, bridge.len() as u32 - 1, start, donor, hydrogen, acceptor];
                of_row.into_iter().enumerate().for_each(|(column, value)| rows.column::<u32>(column).push(value));
                let numbers = bond.bond;
                let distance = if of_hydrogens { numbers.hydrogen_acceptor } else { numbers.donor_acceptor };
                rows.column::<f64>(6).push(distance);
                rows.column::<f64>(7).push(numbers.angle);
            }
        }
        Ok(())
    }
}
