//! Pairs of atoms that are near each other in each frame, found among all pairs of one or two groups.
//!
//! A pair is near if `|r_j - r_i| <= cutoff`, angstrom, in double precision of single-precision positions, with the nearest
//! image; as MDAnalysis' `capped_distance` and `self_capped_distance`. An atom is not its own neighbour, and each pair
//! occurs once, also if the two groups share atoms.

use std::sync::Arc;

use kinema_core::frame::Fields;
use kinema_core::reduce::{Frame, Needs, Values};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, Result};

use crate::analyses::lists_per_frame::{ListPerFrame, ListRows};
use crate::analyses::of_members;
use crate::arguments::Arguments;
use crate::changing::{AtomsFound, AtomsOfFrame, AtomsScratch};
use crate::geometry::CellList;
use crate::partials::lists::{ListChunk, ListColumn};
use crate::registry::KernelInfo;

/// Columns: "i", an atom of `atoms`; "j", one of `other`, or of `atoms` with `i < j`; both are numbers in the trajectory, and
/// pairs ascend. "distance". `group` and `other_group` instead change with the frame. `excluded` are pairs that are left out, (n, 2). Nearest images unless `minimum_image` is false.
pub const KERNEL: KernelInfo = KernelInfo {
    id: Neighbors::ID,
    make: |arguments| {
        let atoms = AtomsOfFrame::from_arguments(arguments, "atoms", "group")?;
        let given = arguments.has("other") || arguments.has("other_group");
        let other = given.then(|| AtomsOfFrame::from_arguments(arguments, "other", "other_group")).transpose()?;
        let excluded = arguments.has("excluded").then(|| arguments.index_rows::<2>("excluded")).transpose()?;
        let excluded = excluded.map(|pairs| ExcludedPairs::new(arguments.n_atoms(), pairs));
        let excluded = excluded.transpose().map_err(|expected| arguments.wrong("excluded", &expected))?;
        let candidates = other.as_ref().map(|other| [atoms.candidates(), other.candidates()]);
        let shared = candidates.and_then(|both| SharedAtoms::new(arguments.n_atoms(), both));
        let (cutoff, minimum_image) = (arguments.positive("cutoff")?, arguments.flag("minimum_image", true)?);
        Ok(Arc::new(ListRows(Neighbors { atoms, other, excluded, shared, cutoff, minimum_image })))
    },
    examples: |n_atoms, _| {
        let every = |step| (0..n_atoms).step_by(step).collect::<Vec<_>>();
        let next: Vec<_> = (1..n_atoms).map(|atom| [atom, atom - 1]).collect();
        let of = |cutoff: f64| Arguments::new(n_atoms).with("atoms", every(1)).with("cutoff", cutoff);
        let group = of_members::example(n_atoms);
        vec![
            of(6.0).with("excluded", next),
            of(15.0).with("other", every(3)).with("minimum_image", false),
            of(9.0).with("other_group", group.clone()),
            Arguments::new(n_atoms).with("group", group).with("cutoff", 7.0),
        ]
    },
};

/// The error of a search in a frame: it names the first atom whose position is not finite.
#[cold]
pub(crate) fn explained(frame: &Frame<'_>, n_sets: usize, error: Error) -> Error {
    let is_bad = |set: &usize| frame.positions(*set).iter().any(|x| !x.is_finite());
    (0..n_sets).find(is_bad).map_or(error, |set| frame.not_finite(Fields::POSITIONS, set))
}

/// Pairs that are left out, by their lower atom.
pub(crate) struct ExcludedPairs {
    starts: Vec<u32>,
    higher: Vec<u32>,
}

impl ExcludedPairs {
    pub(crate) fn new(n_atoms: u32, pairs: &[[u32; 2]]) -> std::result::Result<Self, String> {
        if pairs.as_flattened().iter().any(|atom| *atom >= n_atoms) {
            return Err(format!("atoms below {n_atoms}, (n, 2)"));
        }
        let mut ordered: Vec<[u32; 2]> = pairs.iter().map(|[a, b]| [*a.min(b), *a.max(b)]).collect();
        ordered.sort_unstable();
        let mut starts = vec![0; n_atoms as usize + 1];
        for [lower, _] in &ordered {
            starts[*lower as usize + 1] += 1;
        }
        for atom in 0..n_atoms as usize {
            starts[atom + 1] += starts[atom];
        }
        Ok(Self { starts, higher: ordered.into_iter().map(|[_, higher]| higher).collect() })
    }

    #[inline]
    pub(crate) fn contains(&self, a: u32, b: u32) -> bool {
        let (lower, higher) = (a.min(b) as usize, a.max(b));
        self.higher[self.starts[lower] as usize..self.starts[lower + 1] as usize].contains(&higher)
    }

    /// Calls `see` with the places of each ordered pair of atoms of two sets that is excluded; `numbers` are those of their
    /// atoms, each once.
    pub(crate) fn each_within(&self, numbers: &[Vec<u32>; 2], mut see: impl FnMut(u32, u32)) {
        let n_atoms = self.starts.len() - 1;
        let places = numbers.each_ref().map(|numbers| {
            let mut places = vec![u32::MAX; n_atoms];
            (0..).zip(numbers).for_each(|(place, number)| places[*number as usize] = place);
            places
        });
        for lower in 0..n_atoms {
            let mut before = u32::MAX;
            for &higher in &self.higher[self.starts[lower] as usize..self.starts[lower + 1] as usize] {
                if std::mem::replace(&mut before, higher) == higher {
                    continue;
                }
                let orders = [[lower, higher as usize], [higher as usize, lower]];
                for [i, j] in &orders[..if lower == higher as usize { 1 } else { 2 }] {
                    if places[0][*i] != u32::MAX && places[1][*j] != u32::MAX {
                        see(places[0][*i], places[1][*j]);
                    }
                }
            }
        }
    }
}

/// Which atoms are in both groups, or can be.
struct SharedAtoms(Vec<bool>);

impl SharedAtoms {
    /// `None` if the groups share no atom.
    fn new(n_atoms: u32, [first, second]: [&AtomSelection; 2]) -> Option<Self> {
        let mut in_first = vec![false; n_atoms as usize];
        first.iter().for_each(|atom| in_first[atom as usize] = true);
        let mut shared = vec![false; n_atoms as usize];
        second.iter().for_each(|atom| shared[atom as usize] = in_first[atom as usize]);
        shared.contains(&true).then_some(Self(shared))
    }

    /// Whether a pair is an atom and itself, or may be found again in the other order.
    fn is_repeated(&self, i: u32, j: u32) -> bool {
        i == j || (i > j && self.0[i as usize] && self.0[j as usize])
    }
}

struct Neighbors {
    atoms: AtomsOfFrame,
    other: Option<AtomsOfFrame>,
    excluded: Option<ExcludedPairs>,
    shared: Option<SharedAtoms>,
    cutoff: f64,
    minimum_image: bool,
}

impl ListPerFrame for Neighbors {
    const ID: &'static str = "neighbors/1";
    const COLUMNS: &'static [ListColumn] =
        &[("i", Values::U32(Vec::new())), ("j", Values::U32(Vec::new())), ("distance", Values::F64(Vec::new()))];
    type Scratch = Scratch;

    fn needs(&self) -> Needs {
        let own = if self.minimum_image { Fields::POSITIONS | Fields::CELL } else { Fields::POSITIONS };
        let both = || [&self.atoms].into_iter().chain(&self.other);
        let fields = both().fold(own, |fields, one| fields | one.fields());
        Needs { fields, atom_sets: both().map(AtomsOfFrame::read).cloned().collect() }
    }

    fn list(&self, frame: &Frame<'_>, scratch: &mut Scratch, rows: &mut ListChunk) -> Result<()> {
        let Scratch { cells, atoms } = scratch;
        let [of_first, of_second] = atoms;
        let lattice = &*frame.lattice_if(self.minimum_image)?;
        let first = self.atoms.find(frame, 0, of_first)?;
        let second = self.other.as_ref().map(|other| other.find(frame, 1, of_second)).transpose()?;
        let of_second = second.unwrap_or(first);
        let changing = self.atoms.change() || self.other.as_ref().is_some_and(AtomsOfFrame::change);
        // a pair that is an atom and itself, or is found in the other order, too
        let is_repeated = |shared: &SharedAtoms, i: u32, j: u32| {
            let has = |atoms: &AtomsFound<'_>, number: u32| {
                atoms.numbers.is_none_or(|numbers| numbers.binary_search(&number).is_ok())
            };
            // atoms that can be in both groups may be in one
            shared.is_repeated(i, j) && (i == j || !changing || (has(&first, j) && has(&of_second, i)))
        };
        let add = |i: u32, near: &[u32], distances: &[f64]| {
            let i = first.number(i);
            if self.shared.is_none() && self.excluded.is_none() {
                rows.column::<u32>(0).extend(std::iter::repeat_n(i, near.len()));
                match of_second.numbers {
                    None => rows.column::<u32>(1).extend_from_slice(near),
                    Some(numbers) => rows.column::<u32>(1).extend(near.iter().map(|place| numbers[*place as usize])),
                }
                rows.column::<f64>(2).extend_from_slice(distances);
                return;
            }
            for (place, distance) in near.iter().zip(distances) {
                let j = of_second.number(*place);
                let repeated = self.shared.as_ref().is_some_and(|shared| is_repeated(shared, i, j));
                if !(repeated || self.excluded.as_ref().is_some_and(|excluded| excluded.contains(i, j))) {
                    rows.column::<u32>(0).push(i);
                    rows.column::<u32>(1).push(j);
                    rows.column::<f64>(2).push(*distance);
                }
            }
        };
        let searched = match &second {
            None => cells.neighbors_within(lattice, first.positions, self.cutoff, add),
            Some(second) => cells.neighbors_between(lattice, first.positions, second.positions, self.cutoff, add),
        };
        searched.map_err(|error| explained(frame, 1 + usize::from(self.other.is_some()), error))?;
        Ok(())
    }
}

/// Buffers of one worker.
#[derive(Debug, Default)]
struct Scratch {
    cells: CellList,
    atoms: [AtomsScratch; 2],
}
