//! Moves each frame by the best superposition of an atom set on its reference, before a kernel sees it.
//!
//! It does not report the deviation: that is [`crate::analyses::rmsd`]. All atoms of the row move, not only those of the set;
//! positions are `f32` as before, the motion is found and applied in `f64`. A position outside the set that is not finite
//! stays so: the kernel behind it refuses it, or nobody asked for it.

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::{AtomMap, Buffers, Needs, Transform};

use crate::blocks;
use crate::superposition::AtomsAndReference;

const ID: &str = "superpose";

/// Superposes each frame; the set may hold more atoms than the kernel behind it, or others.
#[derive(Debug, Clone)]
pub struct Superpose {
    fitted: AtomsAndReference,
}

impl Superpose {
    /// On the reference (and with the weights) of `fitted`.
    pub fn new(fitted: AtomsAndReference) -> Self {
        Self { fitted }
    }
}

impl Transform for Superpose {
    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS, atom_sets: vec![self.fitted.atoms().clone()] }
    }

    fn apply(&self, row: &mut [f32], maps: &[AtomMap], buffers: &mut Buffers) -> Result<()> {
        blocks::check_maps(ID, maps, &[self.fitted.atoms()])?;
        for map in maps {
            let gathered = blocks::gather(ID, map, row, &mut buffers.first)?;
            let motion = self.fitted.reference().best_motion(gathered);
            let motion = motion.ok_or_else(|| blocks::not_finite(self.fitted.atoms(), gathered))?;
            for atom in row.as_chunks_mut::<3>().0 {
                *atom = motion.apply(atom.map(f64::from)).map(|x| x as f32);
            }
        }
        Ok(())
    }
}
