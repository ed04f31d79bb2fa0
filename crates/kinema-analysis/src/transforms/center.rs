//! Moves all atoms of a frame so that the centre of some is in the middle of the cell, or at a point.
//!
//! The middle is half of the sum of the edges, as with MDAnalysis' `center_in_box` and `gmx trjconv -boxcenter tric`.

use super::groups::Groups;
use super::images::{Fault, PeriodicCell, Vector};

/// Moves the centre of the atoms of the first group.
#[derive(Debug, Clone)]
pub struct Center {
    group: Groups,
}

impl Center {
    /// Of all groups the first one counts.
    pub fn new(group: Groups) -> Self {
        Self { group }
    }

    /// Moves all atoms of a row, `atoms x 3`, angstrom, by one vector, so that the centre comes to a point.
    ///
    /// # Errors
    /// [`Fault`]
    pub fn apply(&self, positions: &mut [f32], point: Vector) -> Result<(), Fault> {
        let rows = positions.as_chunks::<3>().0;
        let centre = self.group.center(0, rows);
        if !centre.iter().all(|x| x.is_finite()) {
            return Err(Fault::not_finite(positions, self.group.atoms(0).iter().copied()));
        }
        let by = [0, 1, 2].map(|x| point[x] - centre[x]);
        for position in positions.as_chunks_mut::<3>().0 {
            super::images::shift(position, by);
        }
        Ok(())
    }
}

/// The middle of a cell.
pub fn middle(cell: &PeriodicCell) -> Vector {
    let [a, b, c] = cell.edges();
    [0, 1, 2].map(|x| 0.5 * (a[x] + b[x] + c[x]))
}
