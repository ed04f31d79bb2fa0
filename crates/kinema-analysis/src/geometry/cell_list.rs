//! Atoms near others, by brute force: to be replaced by the cell list of branch w-cells, which has this interface.

use kinema_core::Result;
use kinema_core::frame::lattice::Lattice;

/// Buffers of a worker.
#[derive(Debug, Default)]
pub struct CellList {}

impl CellList {
    /// Which points have an atom of the reference within the cutoff, angstrom.
    ///
    /// # Errors
    /// None.
    pub fn any_within(
        &mut self,
        lattice: &Lattice,
        reference: &[f32],
        points: &[f32],
        cutoff: f64,
        near: &mut [bool],
    ) -> Result<()> {
        for (point, near) in points.as_chunks::<3>().0.iter().zip(near) {
            *near = reference.as_chunks::<3>().0.iter().any(|of| {
                let [x, y, z] = lattice.nearest([0, 1, 2].map(|c| f64::from(point[c]) - f64::from(of[c])));
                (x * x + y * y + z * z).sqrt() <= cutoff
            });
        }
        Ok(())
    }
}
