//! The transform interface: changes of each frame before anybody sees it, and stacks of several transforms.
//!
//! Transforms see one frame after another, never paths; they live in `kinema-analysis`.

use std::any::Any;
use std::sync::Arc;

use super::{Grouping, Needs};
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{Fields, Stamp};
use crate::selection::{AtomSelection, FrameSelection};

/// The atoms that a transform works on.
///
/// `positions` are the places of these atoms in the block; `None` means that the block is the set itself.
#[derive(Debug, Clone)]
pub struct AtomMap {
    positions: Option<Arc<[u32]>>,
    len: usize,
}

impl AtomMap {
    /// The map from `set` into a block that holds `block`.
    ///
    /// # Errors
    /// `InvalidArgument` when the block lacks an atom of the set.
    pub fn new(set: &AtomSelection, block: &AtomSelection) -> Result<Self> {
        Ok(Self { positions: set.positions_in(block)?.map(Into::into), len: set.len() })
    }

    /// Number of atoms in the set.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Places of its atoms in a row; `None` if the row is the set.
    pub fn places(&self) -> Option<&[u32]> {
        self.positions.as_deref()
    }

    /// The set's coordinates in one row of the block: the row itself, or gathered into `buffer`.
    pub fn gather<'a>(&self, row: &'a [f32], buffer: &'a mut Vec<f32>) -> &'a [f32] {
        let Some(positions) = &self.positions else {
            return row;
        };
        buffer.resize(positions.len() * 3, 0.0);
        let triples = row.as_chunks::<3>().0;
        for (out, &position) in buffer.as_chunks_mut::<3>().0.iter_mut().zip(positions.iter()) {
            *out = triples[position as usize];
        }
        buffer
    }
}

/// A frame with the atoms that the users of a stack and the stack itself need. Vectors are `atoms x 3`, in angstrom,
/// angstrom/ps and kJ/(mol angstrom). They are empty if they are not read, and NaN if the frame lacks the field
/// (`stamp.present`).
#[derive(Debug)]
pub struct FrameMut<'a> {
    /// Its number in the trajectory.
    pub number: u64,
    /// Positions.
    pub positions: &'a mut [f32],
    /// Velocities.
    pub velocities: &'a mut [f32],
    /// Forces.
    pub forces: &'a mut [f32],
    /// Cell (angstrom; all zero if there is none), step, time in ps (which no transform changes), and the fields
    /// present.
    pub stamp: &'a mut Stamp,
    /// Places of the atoms of each set of [`Transform::needs`].
    pub sets: &'a [AtomMap],
    /// Shift that is still to be added to each position ([`shifted`]); only for a transform that takes it
    /// ([`Transform::takes_shift`]).
    pub shift: Option<[f64; 3]>,
    /// Whether the next transform takes a shift: then this one may leave a translation of all atoms in `shift`.
    pub next_takes_shift: bool,
}

/// The sum of a position and a shift, rounded once.
#[inline(always)]
pub fn shifted(position: [f32; 3], by: [f64; 3]) -> [f32; 3] {
    [0, 1, 2].map(|x| (f64::from(position[x]) + by[x]) as f32)
}

impl FrameMut<'_> {
    /// Places of the atoms of a set of [`Transform::needs`].
    ///
    /// # Errors
    /// `Internal` if the transform does not have that set.
    pub fn set(&self, number: usize) -> Result<&AtomMap> {
        self.sets.get(number).ok_or_else(|| Error::new(ErrorKind::Internal, format!("there is no atom set {number}")))
    }

    /// The positions of a set of [`Transform::needs`], with the shift added: the row itself, or gathered into `buffer`.
    ///
    /// # Errors
    /// `Internal` if the transform does not have that set.
    pub fn positions_of<'b>(&'b self, number: usize, buffer: &'b mut Vec<f32>) -> Result<&'b [f32]> {
        let set = self.set(number)?;
        let Some(by) = self.shift else { return Ok(set.gather(self.positions, buffer)) };
        if set.places().is_some() {
            set.gather(self.positions, buffer);
        } else {
            buffer.clear();
            buffer.extend_from_slice(self.positions);
        }
        buffer.as_chunks_mut::<3>().0.iter_mut().for_each(|position| *position = shifted(*position, by));
        Ok(buffer)
    }
}

/// Frames that a transform must see before a given frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunUp {
    /// Whether its state restarts with the first of them.
    pub anew: bool,
    /// The frames, ascending, all before the one that they are for.
    pub frames: FrameSelection,
}

impl RunUp {
    /// No frames, for a frame whose state is known.
    pub fn none() -> Self {
        Self { anew: true, frames: FrameSelection::Stride { start: 0, step: 1, count: 0 } }
    }

    /// All frames from `first` to the one before `frame`, given that all frames up to `seen` were seen: the frames not
    /// seen yet, or all from `first` on after a restart if `first` is later.
    pub fn new(first: u64, frame: u64, seen: Option<u64>) -> Self {
        let seen = seen.filter(|&seen| seen < frame && seen.saturating_add(1) >= first);
        let start = seen.map_or(first.min(frame), |seen| seen + 1);
        Self { anew: seen.is_none(), frames: FrameSelection::Stride { start, step: 1, count: frame - start } }
    }
}

/// Changes each frame. Laws, tested for each transform: a frame has the same bits whichever frames and whichever other
/// atoms were requested before or with it; applying the transform to more atoms does not change the others.
pub trait Transform: Send + Sync + 'static {
    /// State of one worker, kept from frame to frame: tables for the atoms of its rows, buffers, and, for a transform
    /// that looks back, what it has seen.
    type State: Send + 'static;

    /// Name and version: "superpose/1".
    fn id(&self) -> &'static str;

    /// Fields and atom sets that it reads. Vectors among the fields must be in every frame; a cell need not be.
    fn needs(&self) -> Needs;

    /// Atoms that it must see besides its sets so that `users` are correct: the rest of their molecules.
    ///
    /// # Errors
    /// `InvalidArgument` if it cannot be applied to them.
    fn required_atoms(&self, users: &AtomSelection) -> Result<Option<AtomSelection>> {
        let _ = users;
        Ok(None)
    }

    /// The groups of atoms, if the transform replaces the positions of atoms by positions of groups. It is then the
    /// last of its stack, has no needs, and [`Transform::apply`] is not called.
    fn grouping(&self) -> Option<&dyn Grouping> {
        None
    }

    /// The state of one worker, for rows of `atoms`; `sets` are the places of the sets of `needs` in them.
    ///
    /// # Errors
    /// `InvalidArgument` if it cannot be applied to them.
    fn state(&self, atoms: &AtomSelection, sets: &[AtomMap]) -> Result<Self::State>;

    /// Whether it must have seen other frames first. If so, [`Transform::run_up`] is called before each frame.
    fn looks_back(&self) -> bool {
        false
    }

    /// Whether it adds [`FrameMut::shift`] to all positions itself, together with its own change: positions then go
    /// through memory once, and are rounded once. Sets are read with the shift, rounded ([`FrameMut::positions_of`]).
    fn takes_shift(&self) -> bool {
        false
    }

    /// Frames that it must see before `frame`. Its state is the one after frame `seen`, which is an earlier frame; if
    /// `seen` is `None`, it has no state and must restart. The state after a frame must not depend on where it started.
    fn run_up(&self, frame: u64, seen: Option<u64>) -> RunUp {
        let _ = (frame, seen);
        RunUp::none()
    }

    /// Restarts: `frame` is the next one that it sees.
    ///
    /// # Errors
    /// If nothing is known at that frame.
    fn begin(&self, state: &mut Self::State, frame: u64) -> Result<()> {
        let _ = (state, frame);
        Ok(())
    }

    /// Changes a frame in place.
    ///
    /// # Errors
    /// `Corrupt` or `InvalidArgument` for values that it cannot work with; frame and file are added.
    fn apply(&self, frame: &mut FrameMut<'_>, state: &mut Self::State) -> Result<()>;
}

/// A state whose type is known to its transform only.
pub type TransformState = Box<dyn Any + Send>;

/// [`Transform`] with its state's type hidden.
pub trait AnyTransform: Send + Sync {
    /// As [`Transform::id`].
    fn id(&self) -> &'static str;
    /// As [`Transform::needs`].
    fn needs(&self) -> Needs;
    /// As [`Transform::required_atoms`].
    ///
    /// # Errors
    /// As there.
    fn required_atoms(&self, users: &AtomSelection) -> Result<Option<AtomSelection>>;
    /// As [`Transform::grouping`].
    fn grouping(&self) -> Option<&dyn Grouping>;
    /// As [`Transform::state`].
    ///
    /// # Errors
    /// As there.
    fn state(&self, atoms: &AtomSelection, sets: &[AtomMap]) -> Result<TransformState>;
    /// As [`Transform::looks_back`].
    fn looks_back(&self) -> bool;
    /// As [`Transform::takes_shift`].
    fn takes_shift(&self) -> bool;
    /// As [`Transform::run_up`].
    fn run_up(&self, frame: u64, seen: Option<u64>) -> RunUp;
    /// As [`Transform::begin`].
    ///
    /// # Errors
    /// As there; `Internal` when the state is of another transform.
    fn begin(&self, state: &mut TransformState, frame: u64) -> Result<()>;
    /// As [`Transform::apply`].
    ///
    /// # Errors
    /// As there; `Internal` when the state is of another transform.
    fn apply(&self, frame: &mut FrameMut<'_>, state: &mut TransformState) -> Result<()>;
}

fn wrong_state(id: &str) -> Error {
    Error::new(ErrorKind::Internal, format!("the state of another transform was given to {id}"))
}

impl<T: Transform> AnyTransform for T {
    fn id(&self) -> &'static str {
        Transform::id(self)
    }
    fn needs(&self) -> Needs {
        Transform::needs(self)
    }
    fn required_atoms(&self, users: &AtomSelection) -> Result<Option<AtomSelection>> {
        Transform::required_atoms(self, users)
    }
    fn grouping(&self) -> Option<&dyn Grouping> {
        Transform::grouping(self)
    }
    fn state(&self, atoms: &AtomSelection, sets: &[AtomMap]) -> Result<TransformState> {
        Ok(Box::new(Transform::state(self, atoms, sets)?))
    }
    fn looks_back(&self) -> bool {
        Transform::looks_back(self)
    }
    fn takes_shift(&self) -> bool {
        Transform::takes_shift(self)
    }
    fn run_up(&self, frame: u64, seen: Option<u64>) -> RunUp {
        Transform::run_up(self, frame, seen)
    }
    fn begin(&self, state: &mut TransformState, frame: u64) -> Result<()> {
        let state = state.downcast_mut().ok_or_else(|| wrong_state(Transform::id(self)))?;
        Transform::begin(self, state, frame)
    }
    fn apply(&self, frame: &mut FrameMut<'_>, state: &mut TransformState) -> Result<()> {
        let state = state.downcast_mut().ok_or_else(|| wrong_state(Transform::id(self)))?;
        Transform::apply(self, frame, state)
    }
}

/// One transform of a stack, and its identity among others.
#[derive(Clone)]
pub struct Stage {
    /// The transform.
    pub transform: Arc<dyn AnyTransform>,
    /// The call that made it, in words.
    pub label: Arc<str>,
    /// All arguments of that call as bytes: stages with the same are the same.
    pub arguments: Arc<[u8]>,
}

impl PartialEq for Stage {
    fn eq(&self, other: &Self) -> bool {
        self.transform.id() == other.transform.id() && self.arguments == other.arguments
    }
}

/// Transforms that are applied one after the other.
#[derive(Clone, PartialEq, Default)]
pub struct Stack(Arc<[Stage]>);

impl Stack {
    /// Most transforms of a stack.
    pub const MOST: usize = 64;

    /// A stack of these transforms, in this order.
    ///
    /// # Errors
    /// `InvalidArgument` for more than [`Stack::MOST`].
    pub fn new(stages: Vec<Stage>) -> Result<Self> {
        if stages.len() > Self::MOST {
            let what = format!("a stack of transforms has at most {}, found {}", Self::MOST, stages.len());
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let before = &stages[..stages.len().saturating_sub(1)];
        if let Some(stage) = before.iter().find(|stage| stage.transform.grouping().is_some()) {
            let what = format!("{} is the last of all transforms: others would see other atoms", stage.label);
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        Ok(Self(stages.into()))
    }

    /// The groups of atoms that positions are made of at the end, if any.
    pub fn grouping(&self) -> Option<&dyn Grouping> {
        self.0.last().and_then(|stage| stage.transform.grouping())
    }

    /// The transforms that change atoms.
    pub fn atom_stages(&self) -> &[Stage] {
        &self.0[..self.0.len() - usize::from(self.grouping().is_some())]
    }

    /// The transforms.
    pub fn stages(&self) -> &[Stage] {
        &self.0
    }
    /// Whether nothing is done.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Whether some transform must have seen other frames first.
    pub fn looks_back(&self) -> bool {
        self.0.iter().any(|stage| stage.transform.looks_back())
    }
    /// The transforms in words.
    pub fn labels(&self) -> Vec<String> {
        self.0.iter().map(|stage| stage.label.to_string()).collect()
    }

    /// All atoms and fields that rows hold when `atoms` and `fields` are computed: the result of [`Stack::united`],
    /// changed in place; only `atoms` and `fields` if positions of groups are computed.
    ///
    /// # Errors
    /// As [`Stack::united`].
    pub fn held(&self, atoms: &AtomSelection, fields: Fields) -> Result<(AtomSelection, Fields)> {
        if self.grouping().is_some() { Ok((atoms.clone(), fields)) } else { self.united(atoms, fields) }
    }

    /// All atoms and fields that must be read so that `atoms` and `fields` are computed correctly.
    ///
    /// # Errors
    /// `InvalidArgument` for sets of a different number of atoms; errors of [`Transform::required_atoms`].
    pub fn united(&self, atoms: &AtomSelection, fields: Fields) -> Result<(AtomSelection, Fields)> {
        let members = self.grouping().map(|grouping| grouping.members(atoms)).transpose()?;
        let (mut atoms, mut fields) = (members.unwrap_or_else(|| atoms.clone()), fields);
        for stage in self.atom_stages().iter().rev() {
            let needs = stage.transform.needs();
            fields = fields | needs.fields;
            let mut sets = needs.atom_sets;
            sets.extend(stage.transform.required_atoms(&atoms)?);
            let n_atoms = atoms.n_atoms();
            if let Some(other) = sets.iter().find(|set| set.n_atoms() != n_atoms) {
                let what = format!("{} is of another number of atoms than the trajectory", stage.label);
                let what = format!("{what}, expected {n_atoms}, found {}", other.n_atoms());
                return Err(Error::new(ErrorKind::InvalidArgument, what));
            }
            // the order in which users want their atoms is theirs
            if sets.iter().any(|set| set.positions_in(&atoms).is_err()) {
                atoms = AtomSelection::union(n_atoms, sets.iter().chain([&atoms]));
            }
        }
        Ok((atoms, fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_gathered_from_a_row_whatever_the_buffer_held() {
        let block = AtomSelection::from_sorted(vec![2, 5, 6, 9], 10).expect("four atoms");
        let row: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let mut buffer = vec![-1.0; 100];
        for (atoms, expected) in [
            (vec![5], vec![3.0, 4.0, 5.0]),
            (vec![2, 9], vec![0.0, 1.0, 2.0, 9.0, 10.0, 11.0]),
            (vec![], vec![]),
            (vec![2, 5, 6, 9], row.clone()),
        ] {
            let set = AtomSelection::from_sorted(atoms, 10).expect("ascending");
            assert_eq!(AtomMap::new(&set, &block).expect("in the block").gather(&row, &mut buffer), expected);
        }
    }

    #[test]
    fn a_run_up_has_the_frames_not_seen_yet_or_all_from_the_first_one_on() {
        for (first, frame, seen, anew, start) in [
            (10, 15, None, true, 10),
            (10, 15, Some(12), false, 13),
            (10, 15, Some(14), false, 15),
            // the frame before the first one leaves the state with which that one begins
            (10, 15, Some(9), false, 10),
            (10, 15, Some(8), true, 10),
            // a state of this frame or of a later one is of no use
            (10, 15, Some(15), true, 10),
            (10, 15, Some(u64::MAX), true, 10),
            (15, 15, None, true, 15),
            (20, 15, None, true, 15),
        ] {
            let frames = FrameSelection::Stride { start, step: 1, count: 15 - start };
            assert_eq!(RunUp::new(first, frame, seen), RunUp { anew, frames }, "{first}, {seen:?}");
        }
    }
}
