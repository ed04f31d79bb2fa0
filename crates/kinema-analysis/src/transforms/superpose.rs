//! Moves each frame by the best superposition of an atom set on its reference, before a kernel sees it.
//!
//! It does not report the deviation: that is [`crate::analyses::rmsd`]. All atoms of the row move, not only those of the set;
//! positions are `f32` as before, the motion is found and applied in `f64`. A position outside the set that is not finite
//! stays so: the kernel behind it refuses it, or nobody asked for it.

use kinema_core::frame::Fields;
use kinema_core::reduce::{AtomMap, Needs, Transform};
use kinema_core::{Error, ErrorKind, Result};

use crate::superposition::AtomsAndReference;

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

    #[cold]
    fn not_finite(&self, gathered: &[f32]) -> Error {
        let bad = gathered.as_chunks::<3>().0.iter().position(|atom| atom.iter().any(|x| !x.is_finite()));
        let atom = bad.and_then(|at| self.fitted.atoms().iter().nth(at)).map_or(0, |atom| atom + 1);
        Error::new(ErrorKind::Corrupt, format!("position of atom {atom} (counted from 1) is not finite"))
    }
}

impl Transform for Superpose {
    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS, atom_sets: vec![self.fitted.atoms().clone()] }
    }

    fn apply(&self, row: &mut [f32], maps: &[AtomMap], buffer: &mut Vec<f32>) -> Result<()> {
        for map in maps {
            let gathered = map.gather(row, buffer);
            let motion = self.fitted.reference().best_motion(gathered).ok_or_else(|| self.not_finite(gathered))?;
            for atom in row.as_chunks_mut::<3>().0 {
                *atom = motion.apply(atom.map(f64::from)).map(|x| x as f32);
            }
        }
        Ok(())
    }
}
