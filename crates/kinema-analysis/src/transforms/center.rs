//! Moves all atoms of a frame so that the centre of some is in the middle of the cell, or at a point.
//!
//! The middle is half of the sum of the edges, as with MDAnalysis' `center_in_box` and `gmx trjconv -boxcenter tric`.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::{AtomMap, FrameMut, Needs, Transform};
use kinema_core::selection::AtomSelection;

use super::TransformInfo;
use super::images::{CellOfFrame, minus, shift_frame};
use super::superpose::not_finite;
use crate::cpu::Cpu;
use crate::geometry;

/// `atoms`, `masses`, one for each of them, and `point`: x, y and z.
pub(super) const TRANSFORM: TransformInfo = TransformInfo {
    id: "center/1",
    make: |arguments| {
        let point = match arguments.optional_numbers("point")? {
            None => None,
            Some(&[x, y, z]) => Some([x, y, z]),
            Some(_) => return Err(arguments.wrong("point", "x, y and z")),
        };
        Ok(Arc::new(Center::new(arguments.unique_atoms("atoms")?, arguments.optional_numbers("masses")?, point)?))
    },
};

/// Moves all atoms so that the centre of some of them is at a given place.
#[derive(Debug, Clone)]
pub struct Center {
    atoms: AtomSelection,
    center: geometry::Center,
    point: Option<[f64; 3]>,
}

impl Center {
    /// Moves the centre of mass, if there are masses, one for each of `atoms` in the requested order, otherwise the
    /// centre of geometry. It moves to a point (angstrom), or to the middle of the cell.
    ///
    /// # Errors
    /// `InvalidArgument` for no atoms, and for masses that are negative, not finite or all zero.
    pub fn new(atoms: AtomSelection, masses: Option<&[f64]>, point: Option<[f64; 3]>) -> Result<Self> {
        let center = match masses {
            Some(masses) => geometry::Center::mass_weighted(Cpu::detect(), &atoms.reorder_as_set(masses, 1)?)?,
            None => geometry::Center::unweighted(Cpu::detect(), atoms.len())?,
        };
        Ok(Self { atoms, center, point })
    }
}

/// Buffers of one worker.
#[derive(Debug, Default)]
pub struct CenterState {
    cell: CellOfFrame,
    gathered: Vec<f32>,
}

impl Transform for Center {
    type State = CenterState;

    fn id(&self) -> &'static str {
        TRANSFORM.id
    }

    fn needs(&self) -> Needs {
        let cell = if self.point.is_some() { Fields::NONE } else { Fields::CELL };
        Needs { fields: Fields::POSITIONS | cell, atom_sets: vec![self.atoms.clone()] }
    }

    fn state(&self, _: &AtomSelection, _: &[AtomMap]) -> Result<CenterState> {
        Ok(CenterState::default())
    }

    fn apply(&self, frame: &mut FrameMut<'_>, state: &mut CenterState) -> Result<()> {
        let gathered = frame.positions_of(0, &mut state.gathered)?;
        let center = self.center.compute(gathered)?;
        if !center.iter().all(|x| x.is_finite()) {
            return Err(not_finite(&self.atoms, gathered));
        }
        let point = match self.point {
            Some(point) => point,
            None => state.cell.get(frame.stamp)?.middle(),
        };
        let by = minus(point, center);
        if frame.next_takes_shift {
            frame.shift = Some(by);
        } else {
            shift_frame(frame, by);
        }
        Ok(())
    }
}
