//! Moves each frame by the best superposition of an atom set on its reference, or on the frame before as it was moved.
//!
//! It does not report the deviation: [`crate::analyses::structure::rmsd`] does. All atoms of the row move, not only the
//! set; velocities, forces and the cell turn with them. Values stay `f32`; the motion is found and applied in `f64`. A
//! position outside the set that is not finite stays so: a kernel that needs it refuses it.

use std::sync::Arc;

use kinema_core::frame::Fields;
use kinema_core::reduce::{AtomMap, FrameMut, Needs, Transform};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};

use super::TransformInfo;
use super::images::minus;
use super::progressive::Progressive;
use crate::cpu::{Cpu, dispatch};
use crate::geometry::vectors::{Vectors, all, difference};
use crate::lanes::Quad;
use crate::superposition::AtomsAndReference;
use crate::superposition::qcp::Motion;

/// `atoms`, `reference`, `weights`, and `mode`: "rot+trans" or "trans". `rotations`, (3 x stations, 3), are the results
/// of the kernel "rotations" for every `every`th frame: with them, each frame is superposed on the one before, and the
/// reference is the first frame.
pub(super) const TRANSFORM: TransformInfo = TransformInfo {
    id: "superpose/1",
    make: |arguments| {
        let fitted = AtomsAndReference::from_arguments(arguments)?;
        if arguments.has("rotations") {
            return Ok(Arc::new(Progressive::from_arguments(fitted, arguments)?));
        }
        let modes = [("rot+trans", Superposition::RotationAndTranslation), ("trans", Superposition::Translation)];
        Ok(Arc::new(Superpose::new(fitted, arguments.choice("mode", &modes)?)))
    },
};

/// Motion applied to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Superposition {
    /// The rotation and translation that bring the set nearest to its reference.
    RotationAndTranslation,
    /// The translation that brings the centre of the set to the centre of its reference.
    Translation,
}

/// Superposes each frame; the set may differ from the atoms of the kernel that follows.
#[derive(Debug, Clone)]
pub struct Superpose {
    fitted: AtomsAndReference,
    mode: Superposition,
}

impl Superpose {
    /// On the reference (and with the weights) of `fitted`.
    pub fn new(fitted: AtomsAndReference, mode: Superposition) -> Self {
        Self { fitted, mode }
    }
}

impl Transform for Superpose {
    /// Positions of the set.
    type State = Vec<f32>;

    fn id(&self) -> &'static str {
        TRANSFORM.id
    }

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS, atom_sets: vec![self.fitted.atoms().clone()] }
    }

    fn state(&self, _: &AtomSelection, sets: &[AtomMap]) -> Result<Vec<f32>> {
        let (expected, found) = (self.fitted.atoms().len(), sets.first().map_or(0, AtomMap::len));
        if expected == found {
            return Ok(Vec::new());
        }
        let what = format!("{}: wrong number of atoms, expected {expected}, found {found}", TRANSFORM.id);
        Err(Error::new(ErrorKind::Internal, what))
    }

    fn takes_shift(&self) -> bool {
        true
    }

    fn apply(&self, frame: &mut FrameMut<'_>, gathered: &mut Vec<f32>) -> Result<()> {
        let positions = frame.positions_of(0, gathered)?;
        let reference = self.fitted.reference();
        let motion = match self.mode {
            Superposition::RotationAndTranslation => reference.best_motion(positions),
            Superposition::Translation => reference.centring(positions),
        };
        let motion = motion.ok_or_else(|| not_finite(self.fitted.atoms(), positions))?;
        move_frame(frame, &motion, self.mode == Superposition::RotationAndTranslation);
        Ok(())
    }
}

/// The error for positions of a set that are not finite, which names the first such atom.
#[cold]
pub(crate) fn not_finite(set: &AtomSelection, positions: &[f32]) -> Error {
    let bad = positions.as_chunks::<3>().0.iter().position(|atom| atom.iter().any(|x| !x.is_finite()));
    let what = match bad.and_then(|at| set.iter().nth(at)) {
        Some(atom) => format!("position of atom {} (counted from 1) is not finite", atom + 1),
        None => "sums over positions are not finite".to_owned(),
    };
    Error::new(ErrorKind::Corrupt, what)
}

/// Moves positions by the shift of the frame and by this motion at once; if `turns`, velocities, forces and the cell
/// turn too.
pub(crate) fn move_frame(frame: &mut FrameMut<'_>, motion: &Motion, turns: bool) {
    let cpu = Cpu::detect();
    let from = frame.shift.take().map_or(motion.from, |by| minus(motion.from, by));
    let positions = frame.positions.as_chunks_mut::<3>().0;
    let both = Motion { from, ..*motion };
    dispatch!(cpu, (), move_all, (rows: &mut [[f32; 3]] = positions, motion: &Motion = &both));
    if !turns {
        return;
    }
    // what has no place is turned about the origin
    let turn = Motion { rotation: motion.rotation, ..Motion::NONE };
    for vectors in [&mut *frame.velocities, &mut *frame.forces] {
        let vectors = vectors.as_chunks_mut::<3>().0;
        dispatch!(cpu, (), move_all, (rows: &mut [[f32; 3]] = vectors, motion: &Motion = &turn));
    }
    if frame.stamp.present.contains(Fields::CELL) {
        for vector in &mut frame.stamp.cell {
            *vector = motion.turn(*vector);
        }
    }
}

/// As [`Motion::apply`], rounded once.
#[inline(always)]
fn move_all<Q: Quad>(rows: &mut [[f32; 3]], motion: &Motion) {
    let (from, to) = (all::<Q>(motion.from), all::<Q>(motion.to));
    let [a, b, c] = &motion.rotation;
    let [a, b, c] = [all::<Q>(*a), all(*b), all(*c)];
    let (fours, rest) = rows.as_chunks_mut::<4>();
    for four in fours {
        let d = difference(Q::xyz_of_row(four), from);
        Q::put_xyz([unfused_dot(a, d).add(to[0]), unfused_dot(b, d).add(to[1]), unfused_dot(c, d).add(to[2])], four);
    }
    for atom in rest {
        *atom = motion.apply(atom.map(f64::from)).map(|x| x as f32);
    }
}

/// The product of two vectors. Nothing is fused, as in [`Motion::apply`].
#[inline(always)]
fn unfused_dot<Q: Quad>(u: Vectors<Q>, v: Vectors<Q>) -> Q {
    u[0].multiply(v[0]).add(u[1].multiply(v[1])).add(u[2].multiply(v[2]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_any_length_move_as_each_position_does() {
        let rotation = [[0.36, 0.48, -0.8], [-0.8, 0.6, 0.0], [0.48, 0.64, 0.6]];
        let motion = Motion { rotation, from: [1.1, -2.3, 40.7], to: [7.9, 0.3, -5.1] };
        for n_atoms in 0..11 {
            let row: Vec<[f32; 3]> =
                (0..n_atoms).map(|i| [0.37, 11.3, -7.7].map(|x: f32| x * (i as f32 + 0.1))).collect();
            let expected: Vec<[f32; 3]> =
                row.iter().map(|atom| motion.apply(atom.map(f64::from)).map(|x| x as f32)).collect();
            for cpu in [Cpu::detect(), Cpu::baseline()] {
                let mut found = row.clone();
                dispatch!(cpu, (), move_all, (rows: &mut [[f32; 3]] = &mut found, motion: &Motion = &motion));
                assert_eq!(found, expected);
            }
        }
    }
}
