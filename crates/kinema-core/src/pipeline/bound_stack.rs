//! A stack of transforms prepared for the rows of one worker: states, places of atom sets, and frames to see first.

use crate::error::{Error, ErrorKind, Result};
use crate::frame::{Fields, Stamp};
use crate::pipeline::absent::lacks;
use crate::reduce::{AtomMap, FrameMut, Stack, Stage, TransformState};
use crate::selection::AtomSelection;

/// The vectors of one frame, empty if they are not read, and its stamp.
#[derive(Debug)]
pub struct Row<'a> {
    /// Its number in the trajectory.
    pub number: u64,
    /// Positions, velocities, forces.
    pub vectors: [&'a mut [f32]; 3],
    /// Its cell, step and time, and the fields present.
    pub stamp: &'a mut Stamp,
}

/// A frame that some transforms must see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Its number in the trajectory.
    pub frame: u64,
    /// How many transforms, from the first on.
    pub depth: usize,
    /// Bit `i`: transform `i` restarts with this frame.
    anew: u64,
}

struct BoundStage {
    stage: Stage,
    /// Vectors that must be in a frame.
    required: Fields,
    sets: Vec<AtomMap>,
    state: TransformState,
    /// Whether the next one takes a shift.
    next_takes_shift: bool,
    /// The last frame that its state includes; `None` if it must restart.
    seen: Option<u64>,
}

/// The stack of one worker.
pub struct BoundStack {
    stages: Vec<BoundStage>,
    looks_back: bool,
}

impl BoundStack {
    /// For rows of `atoms`; without the groups of atoms that positions may be computed from.
    ///
    /// # Errors
    /// `InvalidArgument` if `atoms` lacks some that are needed; errors of the transforms.
    pub fn new(stack: &Stack, atoms: &AtomSelection) -> Result<Self> {
        let vectors = Fields::VECTORS.into_iter().fold(Fields::NONE, |all, field| all | field);
        let stages = stack.atom_stages();
        let bind = |(number, stage): (usize, &Stage)| -> Result<BoundStage> {
            let needs = stage.transform.needs();
            let sets: Vec<AtomMap> =
                needs.atom_sets.iter().map(|set| AtomMap::new(set, atoms)).collect::<Result<_>>()?;
            let state = stage.transform.state(atoms, &sets)?;
            let required = needs.fields - (needs.fields - vectors);
            let next_takes_shift = stages.get(number + 1).is_some_and(|next| next.transform.takes_shift());
            Ok(BoundStage { stage: stage.clone(), required, sets, state, next_takes_shift, seen: None })
        };
        let stages = stages.iter().enumerate().map(bind).collect::<Result<_>>()?;
        Ok(Self { stages, looks_back: stack.looks_back() })
    }

    /// Whether some transform must have seen other frames first: rows are then requested in the order of
    /// [`BoundStack::steps`].
    pub fn looks_back(&self) -> bool {
        self.looks_back
    }

    /// A step with all transforms, none of which looks back.
    pub fn step(&self, frame: u64) -> Step {
        Step { frame, depth: self.stages.len(), anew: 0 }
    }

    /// Steps to apply now, ascending: the last is `frame`, after the frames that transforms must see first.
    pub fn steps(&self, frame: u64) -> Vec<Step> {
        let mut steps = vec![self.step(frame)];
        // what a transform must see is what those before it have made of it
        for (number, bound) in self.stages.iter().enumerate().rev() {
            if !bound.stage.transform.looks_back() {
                continue;
            }
            let (mut seen, mut grown) = (bound.seen, Vec::with_capacity(steps.len()));
            for mut step in steps {
                let run_up = bound.stage.transform.run_up(step.frame, seen.filter(|&seen| seen < step.frame));
                let mut anew = u64::from(run_up.anew) << number;
                for i in 0..run_up.frames.len() {
                    let frame = run_up.frames.get(i);
                    grown.push(Step { frame, depth: number + 1, anew: std::mem::take(&mut anew) });
                }
                step.anew |= anew;
                seen = Some(step.frame);
                grown.push(step);
            }
            steps = grown;
        }
        steps
    }

    /// Applies the transforms of a step to its row.
    ///
    /// # Errors
    /// Errors of the transforms, with the frame's number in the trajectory.
    pub fn apply(&mut self, step: Step, row: Row<'_>) -> Result<()> {
        let Row { number: frame, vectors: [positions, velocities, forces], stamp } = row;
        let mut shift = None;
        for (number, bound) in self.stages[..step.depth].iter_mut().enumerate() {
            let absent = bound.required - stamp.present;
            if !absent.is_empty() {
                return Err(lacks(absent).with_frame(frame));
            }
            let transform = &bound.stage.transform;
            // of a transform that fails nothing is known
            bound.seen = None;
            let seen = &mut FrameMut {
                number: frame,
                positions: &mut *positions,
                velocities: &mut *velocities,
                forces: &mut *forces,
                stamp: &mut *stamp,
                sets: &bound.sets,
                shift,
                // of a frame that the next one does not see nothing is left to it
                next_takes_shift: bound.next_takes_shift && number + 1 < step.depth,
            };
            let time = seen.stamp.time;
            let begun = if step.anew & 1 << number == 0 { Ok(()) } else { transform.begin(&mut bound.state, frame) };
            begun.and_then(|()| transform.apply(seen, &mut bound.state)).map_err(|error| error.with_frame(frame))?;
            shift = seen.shift;
            if shift.is_some() && !seen.next_takes_shift {
                let what = format!("{} leaves a shift that nobody adds", transform.id());
                return Err(Error::new(ErrorKind::Internal, what));
            }
            stamp.time = time;
            bound.seen = Some(frame);
        }
        Ok(())
    }
}
