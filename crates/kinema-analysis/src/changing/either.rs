//! `AtomsOfFrame`: the atoms of a kernel's argument, which are the same in all frames or change with the frame.

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::Frame;
use kinema_core::selection::AtomSelection;

use super::{ChangingGroup, GroupScratch};
use crate::arguments::Arguments;

/// Atoms that are the same in all frames, or that are found in each.
#[derive(Debug, Clone)]
pub enum AtomsOfFrame {
    /// The same in all frames.
    Fixed(AtomSelection),
    /// Found in each frame.
    Changing(ChangingGroup),
}

/// Buffers of one worker.
#[derive(Debug, Default)]
pub struct AtomsScratch {
    group: GroupScratch,
    numbers: Vec<u32>,
    positions: Vec<f32>,
}

/// The atoms of one frame, ascending.
#[derive(Debug, Clone, Copy)]
pub struct AtomsFound<'a> {
    /// `atoms x 3`, angstrom.
    pub positions: &'a [f32],
    /// Their numbers in the trajectory; `None` for all atoms.
    pub numbers: Option<&'a [u32]>,
}

impl AtomsFound<'_> {
    /// The number in the trajectory of an atom, by its place.
    pub fn number(&self, place: u32) -> u32 {
        self.numbers.map_or(place, |numbers| numbers[place as usize])
    }
}

impl AtomsOfFrame {
    /// Reads the argument `group`, or if it is left out `atoms`, each of them once.
    ///
    /// # Errors
    /// As [`ChangingGroup::new`] and [`Arguments::unique_atoms`].
    pub fn from_arguments(arguments: &Arguments, atoms: &'static str, group: &'static str) -> Result<Self> {
        if arguments.has(group) {
            return ChangingGroup::from_arguments(arguments, group).map(Self::Changing);
        }
        arguments.unique_atoms(atoms).map(Self::Fixed)
    }

    /// The atoms whose positions a kernel must read.
    pub fn read(&self) -> &AtomSelection {
        match self {
            Self::Fixed(atoms) => atoms,
            Self::Changing(group) => group.atoms(),
        }
    }

    /// The atoms that can be among them.
    pub fn candidates(&self) -> &AtomSelection {
        match self {
            Self::Fixed(atoms) => atoms,
            Self::Changing(group) => group.candidates(),
        }
    }

    /// Whether they change with the frame.
    pub fn change(&self) -> bool {
        matches!(self, Self::Changing(_))
    }

    /// The fields that finding them needs.
    pub fn fields(&self) -> Fields {
        match self {
            Self::Fixed(_) => Fields::POSITIONS,
            Self::Changing(group) => group.needs().fields,
        }
    }

    /// The atoms in a frame, whose set `set` has [`AtomsOfFrame::read`].
    ///
    /// # Errors
    /// As [`ChangingGroup::members`].
    pub fn find<'a>(&'a self, frame: &Frame<'a>, set: usize, scratch: &'a mut AtomsScratch) -> Result<AtomsFound<'a>> {
        let group = match self {
            Self::Fixed(atoms) => return Ok(AtomsFound { positions: frame.positions(set), numbers: atoms.indices() }),
            Self::Changing(group) => group,
        };
        let AtomsScratch { group: buffers, numbers, positions } = scratch;
        let members = group.members(frame, set, buffers)?;
        let row = frame.positions(set).as_chunks::<3>().0;
        positions.clear();
        positions.extend(members.iter().flat_map(|&place| row[place as usize]));
        numbers.clear();
        let all = group.atoms().indices();
        numbers.extend(members.iter().map(|&place| all.map_or(place, |all| all[place as usize])));
        Ok(AtomsFound { positions, numbers: Some(numbers) })
    }
}
