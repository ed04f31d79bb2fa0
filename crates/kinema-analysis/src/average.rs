//! Mean position of each atom over frames, for example as the reference of a second round that aligns to it.
//!
//! It does not superpose: frames are taken as they come, aligned beforehand by [`crate::superpose`] where wanted.

use kinema_core::Result;
use kinema_core::frame::{BlockView, Fields};
use kinema_core::kernel::{AtomMap, Buffers, Kernel, Needs, ResultArray};
use kinema_core::selection::AtomSelection;

use crate::blocks;
use crate::cpu::Cpu;
use crate::moments::{Gathering, Moments, Order};
use crate::series::nothing_gathered;

const ID: &str = "average/1";

/// The mean positions. Results: "mean_positions" (atoms, 3), angstrom.
#[derive(Debug, Clone)]
pub struct Average {
    cpu: Cpu,
    atoms: AtomSelection,
}

impl Average {
    /// Of `atoms`.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty set.
    pub fn new(atoms: AtomSelection) -> Result<Self> {
        blocks::check_set(&atoms, "atom set")?;
        Ok(Self { cpu: Cpu::detect(), atoms })
    }
}

impl Kernel for Average {
    type Partial = Moments;

    fn id(&self) -> &'static str {
        ID
    }

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS, atom_sets: vec![self.atoms.clone()] }
    }

    fn empty(&self) -> Moments {
        Moments::new(Order::First)
    }

    fn accumulate(
        &self,
        partial: &mut Moments,
        block: &BlockView<'_>,
        maps: &[AtomMap],
        buffers: &mut Buffers,
    ) -> Result<()> {
        blocks::check(ID, block, maps, &[&self.atoms])?;
        maps.iter().try_for_each(|map| {
            partial.add_block(self.cpu, &Gathering { id: ID, atoms: &self.atoms, map, block }, buffers)
        })
    }

    fn merge(&self, left: &mut Moments, right: Moments) {
        left.merge(right);
    }

    fn finish(&self, partial: Moments) -> Result<Vec<ResultArray>> {
        if partial.n_frames() == 0 {
            return Err(nothing_gathered(ID));
        }
        let shape = vec![self.atoms.len(), 3];
        Ok(vec![ResultArray { name: "mean_positions", shape, values: partial.means() }])
    }

    fn to_bytes(&self, partial: &Moments) -> Vec<u8> {
        partial.to_bytes(ID, self.atoms.len() * 3)
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Moments> {
        Moments::from_bytes(ID, Order::First, self.atoms.len() * 3, bytes)
    }
}
