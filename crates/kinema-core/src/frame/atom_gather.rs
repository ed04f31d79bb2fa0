//! Gather of selected atoms from a block into buffers of its own.

use super::BlockView;

/// Gathers some of the atoms of a block, for kernels that need fewer atoms than were read.
#[derive(Debug)]
pub struct AtomGather {
    columns: Vec<u32>,
    vectors: GatherRoom,
}

/// Room for gathered positions, velocities and forces.
pub type GatherRoom = [Vec<f32>; 3];

impl AtomGather {
    /// Gathers the atoms at `columns` of each row.
    pub fn new(columns: Vec<u32>) -> Self {
        Self { columns, vectors: Default::default() }
    }

    /// How many atoms these are.
    pub fn n_atoms(&self) -> usize {
        self.columns.len()
    }

    /// Gathers into this room from now on, and gives back the one before.
    pub fn exchange_room(&mut self, room: &mut GatherRoom) {
        std::mem::swap(&mut self.vectors, room);
    }

    /// Their values in all rows of a block, which must be as wide as `columns` say.
    pub fn gather<'a>(&'a mut self, block: BlockView<'a>) -> BlockView<'a> {
        self.fill(&block);
        self.view(block)
    }

    /// Gathers the values of a block, which [`AtomGather::view`] shows.
    pub fn fill(&mut self, block: &BlockView<'_>) {
        let n_atoms = self.columns.len();
        for (gathered, values) in self.vectors.iter_mut().zip([block.positions, block.velocities, block.forces]) {
            let rows = values.as_chunks::<3>().0.chunks_exact(block.n_selected.max(1));
            gathered.resize(rows.len() * n_atoms * 3, 0.0);
            for (atoms, gathered) in rows.zip(gathered.as_chunks_mut::<3>().0.chunks_exact_mut(n_atoms.max(1))) {
                for (gathered, &column) in gathered.iter_mut().zip(&self.columns) {
                    *gathered = atoms[column as usize];
                }
            }
        }
    }

    /// The block that was gathered last, as its atoms at `columns` alone.
    pub fn view<'a>(&'a self, block: BlockView<'a>) -> BlockView<'a> {
        let [positions, velocities, forces] = &self.vectors;
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
