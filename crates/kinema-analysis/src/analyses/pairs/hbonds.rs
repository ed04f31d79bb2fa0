//! Hydrogen bonds of each frame: donor, hydrogen, acceptor, the distance D-A and the angle D-H-A.
//!
//! The criterion is one of `geometry/hydrogen_bond.rs`, with nearest images in the frame's cell. A donor is bonded to its
//! hydrogens in all frames, or in those in which they are near it.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::{Frame, Needs, Values};

use super::bond_finder::{Changing, Finder, Group, Participants, criterion};
use crate::analyses::lists_per_frame::{ListPerFrame, ListRows};
use crate::analyses::of_members;
use crate::arguments::{Argument, Arguments};
use crate::changing::GroupScratch;
use crate::geometry::hydrogen_bond::{Criterion, FoundBond};
use crate::partials::lists::{ListChunk, ListColumn};
use crate::registry::KernelInfo;

/// Columns: "donor", "hydrogen" and "acceptor", atoms of the trajectory; "distance" D-A, angstrom; "angle" D-H-A, degrees;
/// in the order of these atoms.
///
/// `acceptors`, and `pairs` (n, 2) of donor and hydrogen, or `donors`, `hydrogens` and `d_h_cutoff`. `criterion`,
/// `distance`, `angle`: see [`criterion`]. `between`: pairs of groups; the donor is in one and the acceptor in the other.
/// `donors_group`, `hydrogens_group` and `acceptors_group` change with the frame (see `changing`): only bonds of their
/// members are listed. A group of `between` may change as well.
pub const KERNEL: KernelInfo = KernelInfo {
    id: HydrogenBonds::ID,
    make: |arguments| {
        let (atoms, criterion) = (Participants::from_arguments(arguments)?, criterion(arguments)?);
        let mut changing = Changing::default();
        let mut searches = Vec::new();
        for groups in arguments.tuples("between", &["first", "second"])? {
            let [first, second] = ["first", "second"].map(|name| changing.group(&atoms, &groups, name));
            let (first, second) = (first?, second?);
            let same = first == second;
            searches.push(Search::new(&atoms, first.clone(), &second));
            if !same {
                searches.push(Search::new(&atoms, second, &first));
            }
        }
        if searches.is_empty() {
            let all = Group { fixed: vec![true; atoms.atoms().len()], changing: None };
            searches.push(Search::new(&atoms, all.clone(), &all));
        }
        let mut of = |name| arguments.has(name).then(|| changing.add(&atoms, arguments, name)).transpose();
        let only = [of("donors_group")?, of("hydrogens_group")?, of("acceptors_group")?];
        let numbers = atoms.numbers();
        Ok(Arc::new(ListRows(HydrogenBonds { atoms, numbers, criterion, searches, changing, only })))
    },
    examples: |n_atoms, _| {
        let every = |step: usize| (0..n_atoms).step_by(step).collect::<Vec<_>>();
        let pairs: Vec<[u32; 2]> = every(2).iter().map(|atom| [*atom, (atom + 1) % n_atoms]).collect();
        let of = |rule: &str, distance: f64, angle: f64| {
            Arguments::new(n_atoms)
                .with("acceptors", every(3))
                .with("criterion", rule)
                .with("distance", distance)
                .with("angle", angle)
        };
        let group = of_members::example(n_atoms);
        let between = vec![Argument::List(vec![every(2).into(), every(1).into()])];
        let near = vec![Argument::List(vec![group.clone(), every(1).into()])];
        vec![
            of("distance-angle", 9.0, 70.0)
                .with("pairs", pairs.clone())
                .with("acceptors_group", group)
                .with("between", near),
            of("distance-angle", 8.0, 100.0).with("pairs", pairs.clone()),
            of("baker-hubbard", 8.0, 90.0).with("pairs", pairs).with("between", between),
            of("gromacs", 6.0, 60.0).with("donors", every(2)).with("hydrogens", every(5)).with("d_h_cutoff", 4.0),
        ]
    },
};

struct HydrogenBonds {
    atoms: Participants,
    numbers: Vec<u32>,
    criterion: Criterion,
    searches: Vec<Search>,
    changing: Changing,
    /// Groups that donors, hydrogens and acceptors must be in.
    only: [Option<usize>; 3],
}

/// Bonds from some donors to some acceptors.
struct Search {
    donors: Group,
    acceptors: Vec<u32>,
    acceptors_in: Option<usize>,
}

impl Search {
    fn new(atoms: &Participants, donors: Group, acceptors: &Group) -> Self {
        let of_group = atoms.acceptors(|atom| acceptors.fixed[atom as usize]);
        Self { donors, acceptors: of_group, acceptors_in: acceptors.changing }
    }
}

/// A worker's buffers.
#[derive(Debug, Default)]
struct Scratch {
    finder: Finder,
    bonds: Vec<FoundBond>,
    group: GroupScratch,
    /// For each changing group, whether each of the participants is in it.
    marks: Vec<Vec<bool>>,
    acceptors: Vec<u32>,
}

impl ListPerFrame for HydrogenBonds {
    const ID: &'static str = "hbonds/1";
    const COLUMNS: &'static [ListColumn] = &[
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
        let Scratch { finder, bonds, group, marks, acceptors } = scratch;
        let (lattice, row) = (frame.lattice()?, frame.finite_positions(0)?.as_chunks::<3>().0);
        self.changing.mark(frame, row.len(), group, marks)?;
        let is_in = |group: Option<usize>, atom: u32| group.is_none_or(|group| marks[group][atom as usize]);
        let [donors_in, hydrogens_in, acceptors_in] = self.only;
        bonds.clear();
        finder.prepare(&self.atoms, &lattice, row)?;
        for search in &self.searches {
            let Group { fixed, changing } = &search.donors;
            let wanted = |[donor, hydrogen]: [u32; 2]| {
                fixed[donor as usize]
                    && is_in(*changing, donor)
                    && is_in(donors_in, donor)
                    && is_in(hydrogens_in, hydrogen)
            };
            let mut near = &search.acceptors;
            if search.acceptors_in.is_some() || acceptors_in.is_some() {
                acceptors.clear();
                let of_both = |atom: &u32| is_in(search.acceptors_in, *atom) && is_in(acceptors_in, *atom);
                acceptors.extend(near.iter().copied().filter(of_both));
                near = acceptors;
            }
            finder.find(&self.atoms, &self.criterion, (&lattice, row), wanted, near, bonds)?;
        }
        if self.searches.len() > 1 {
            bonds.sort_unstable_by_key(FoundBond::key);
            bonds.dedup_by_key(|bond| bond.key());
        }
        for column in 0..3 {
            rows.column::<u32>(column).extend(bonds.iter().map(|bond| self.numbers[bond.key()[column] as usize]));
        }
        rows.column::<f64>(3).extend(bonds.iter().map(|bond| bond.bond.donor_acceptor));
        rows.column::<f64>(4).extend(bonds.iter().map(|bond| bond.bond.angle));
        Ok(())
    }
}
