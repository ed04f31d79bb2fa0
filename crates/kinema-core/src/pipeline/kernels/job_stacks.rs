//! Transforms of single jobs: each distinct stack is applied once to a block, for all jobs that have it.

use crate::error::Result;
use crate::frame::{Block, BlockView};
use crate::pipeline::bound_stack::{BoundStack, Row};
use crate::plan::{Job, Plan, grouped};

/// Jobs with the same transforms.
struct Group {
    jobs: Vec<usize>,
    /// `None` if frames are not changed.
    stack: Option<BoundStack>,
}

/// A block as the jobs of a group see it.
pub(super) struct Moved<'a> {
    /// Their numbers.
    pub jobs: &'a [usize],
    pub view: BlockView<'a>,
    /// Whether it was made just now.
    pub is_copy: bool,
}

pub(super) struct JobStacks {
    groups: Vec<Group>,
    /// Whether frames of this block were changed in place.
    is_in_place: bool,
    moved: Block,
}

impl JobStacks {
    /// The stacks of these jobs, for rows of the plan's atoms.
    ///
    /// # Errors
    /// As [`BoundStack::new`].
    pub fn new(plan: &Plan, jobs: &[Job]) -> Result<Self> {
        let groups = grouped(jobs).into_iter().map(|(stack, jobs)| {
            let stack = (!stack.is_empty()).then(|| BoundStack::new(stack, &plan.atoms)).transpose()?;
            Ok(Group { jobs, stack })
        });
        Ok(Self { groups: groups.collect::<Result<_>>()?, is_in_place: false, moved: Block::default() })
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Changes the block itself if all jobs have the same transforms. Returns whether it did.
    ///
    /// # Errors
    /// Errors of the transforms, with the frame's number in the trajectory.
    pub fn apply_in_place(&mut self, block: &mut Block) -> Result<bool> {
        let [Group { stack: Some(stack), .. }] = &mut self.groups[..] else { return Ok(false) };
        apply(stack, block)?;
        self.is_in_place = true;
        Ok(true)
    }

    /// Some rows of a block as the jobs of a group see them.
    ///
    /// # Errors
    /// Errors of the transforms, with the frame's number in the trajectory.
    pub fn apply<'a>(&'a mut self, group: usize, view: BlockView<'a>) -> Result<Moved<'a>> {
        let Group { jobs, stack } = &mut self.groups[group];
        let Some(stack) = stack.as_mut().filter(|_| !self.is_in_place) else {
            return Ok(Moved { jobs, view, is_copy: false });
        };
        self.moved.copy_from(&view);
        apply(stack, &mut self.moved)?;
        Ok(Moved { jobs, view: self.moved.view(), is_copy: true })
    }
}

fn apply(stack: &mut BoundStack, block: &mut Block) -> Result<()> {
    let width = 3 * block.n_selected();
    for row in 0..block.rows() {
        let number = block.frames[row];
        let vectors = [&mut block.positions, &mut block.velocities, &mut block.forces];
        let vectors = vectors.map(|values| values.get_mut(row * width..(row + 1) * width).unwrap_or_default());
        let step = stack.step(number);
        stack.apply(step, Row { number, vectors, stamp: &mut block.stamps[row] })?;
    }
    Ok(())
}
