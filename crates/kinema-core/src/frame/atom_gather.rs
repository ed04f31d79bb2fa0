//! Gather of selected atoms from a block into buffers of its own.

use super::BlockView;

/// Gathers some of the atoms of a block, for kernels that need fewer atoms than were read.
#[derive(Debug)]
pub struct AtomGather {
    columns: Vec<u32>,
    vectors: [Vec<f32>; 3],
}

impl AtomGather {
    /// Gathers the atoms at `columns` of each row.
    pub fn new(columns: Vec<u32>) -> Self {
        Self { columns, vectors: Default::default() }
    }

    /// Their values in all rows of a block, which must be as wide as `columns` say.
    pub fn gather<'a>(&'a mut self, block: BlockView<'a>) -> BlockView<'a> {
        let width = 3 * block.n_selected;
        let [positions, velocities, forces] = &mut self.vectors;
        for (gathered, values) in
            [(&mut *positions, block.positions), (&mut *velocities, block.velocities), (&mut *forces, block.forces)]
        {
            gathered.clear();
            for row in values.chunks_exact(width.max(1)) {
                let atoms = row.as_chunks::<3>().0;
                gathered.extend(self.columns.iter().flat_map(|&column| atoms[column as usize]));
            }
        }
        BlockView { n_selected: self.columns.len(), positions, velocities, forces, ..block }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Block, Fields};

    #[test]
    fn gathered_atoms_are_contiguous_in_every_field() {
        let mut block = Block::default();
        block.reset([7, 9], 4, Fields::POSITIONS | Fields::FORCES);
        for (i, (position, force)) in block.positions.iter_mut().zip(&mut block.forces).enumerate() {
            (*position, *force) = (i as f32, -(i as f32));
        }
        for (stamp, time) in block.stamps.iter_mut().zip([0.5, 1.5]) {
            stamp.time = time;
        }
        let mut gather = AtomGather::new(vec![1, 3]);
        let view = gather.gather(block.view());
        let expected = [3.0, 4.0, 5.0, 9.0, 10.0, 11.0, 15.0, 16.0, 17.0, 21.0, 22.0, 23.0];
        assert_eq!((view.n_selected, view.rows(), view.frames), (2, 2, &[7, 9][..]));
        assert_eq!(view.positions, expected);
        assert_eq!(view.forces, expected.map(|value| -value));
        assert!(view.velocities.is_empty());
        assert_eq!(view.stamps, block.stamps);
        assert_eq!(view.stamps[1].time, 1.5);
        // buffers are used again: nothing of the last block remains
        let one = gather.gather(block.view().rows_in(1..2));
        assert_eq!((one.rows(), one.positions), (1, &expected[6..]));
    }
}
