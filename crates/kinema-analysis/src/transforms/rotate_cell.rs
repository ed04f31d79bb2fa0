//! Rotates each frame so that its cell has the orientation that lengths and angles imply: the first edge along x, the
//! second in the xy plane, right-handed.
//!
//! A rotation keeps the handedness of the edges, so the third edge of a left-handed cell is reversed first. The lattice
//! stays the same, as an edge and its opposite are both vectors of it, and no atom moves. Positions, velocities and
//! forces turn with the cell. Frames stay as they are if they have no cell, if the cell has this orientation already,
//! or if its edges lie in one plane, which no rotation changes.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::frame::{Cell, Fields};
use kinema_core::reduce::{AtomMap, FrameMut, Needs, Transform};
use kinema_core::selection::AtomSelection;

use super::TransformInfo;
use super::images::{Vector, dot, minus};
use super::superpose::move_frame;
use crate::superposition::qcp::Motion;

/// Without arguments.
pub(super) const TRANSFORM: TransformInfo = TransformInfo { id: "rotate_cell/1", make: |_| Ok(Arc::new(RotateCell)) };

/// An edge counts as lying along the others if no more than this share of it remains: the cell is then flat.
const FLAT: f64 = 1e-7;

/// Rotates cells, and their content.
#[derive(Debug, Clone, Copy)]
pub struct RotateCell;

impl Transform for RotateCell {
    type State = ();

    fn id(&self) -> &'static str {
        TRANSFORM.id
    }

    fn needs(&self) -> Needs {
        Needs { fields: Fields::CELL, atom_sets: Vec::new() }
    }

    fn state(&self, _: &AtomSelection, _: &[AtomMap]) -> Result<()> {
        Ok(())
    }

    fn apply(&self, frame: &mut FrameMut<'_>, (): &mut ()) -> Result<()> {
        if !frame.stamp.present.contains(Fields::CELL) {
            return Ok(());
        }
        if let Some((rotation, cell)) = upright(&frame.stamp.cell) {
            move_frame(frame, &Motion { rotation, ..Motion::NONE }, true);
            frame.stamp.cell = cell;
        }
        Ok(())
    }
}

/// The rotation, as rows, that gives a cell the orientation that lengths and angles imply, and the rotated cell; `None`
/// if the cell need not be rotated.
fn upright(cell: &Cell) -> Option<([Vector; 3], Cell)> {
    let has_length = cell.map(|edge| edge != [0.0; 3]);
    // no other edge has a share along an edge without a length
    let stays = |i: usize, j: usize| j <= i && has_length[j];
    let lies = (0..3).all(|i| cell[i][i] >= 0.0 && (0..3).all(|j| stays(i, j) || cell[i][j] == 0.0));
    if lies {
        return None;
    }
    let mut axes: [Option<Vector>; 3] = [None; 3];
    for (i, edge) in cell.iter().enumerate().filter(|(i, _)| has_length[*i]) {
        let mut rest = *edge;
        // twice, for edges that nearly lie along the others
        for axis in axes.iter().flatten().chain(axes.iter().flatten()) {
            rest = minus(rest, axis.map(|value| value * dot(rest, *axis)));
        }
        axes[i] = Some(unit(rest, *edge)?);
    }
    let axes = right_handed(axes);
    let mut made = [[0.0; 3]; 3];
    for (i, edge) in cell.iter().enumerate() {
        let sign = if dot(*edge, axes[i]) < 0.0 { -1.0 } else { 1.0 };
        for j in (0..3).filter(|&j| stays(i, j)) {
            made[i][j] = sign * dot(*edge, axes[j]);
        }
    }
    Some((axes, made))
}

/// The rest of an edge, as a direction.
fn unit(rest: Vector, edge: Vector) -> Option<Vector> {
    let length = dot(rest, rest).sqrt();
    (length > FLAT * dot(edge, edge).sqrt()).then(|| rest.map(|value| value / length))
}

/// Three right-handed axes: the last is reversed if necessary, and missing ones are made.
fn right_handed(axes: [Option<Vector>; 3]) -> [Vector; 3] {
    match axes {
        [Some(a), Some(b), _] => [a, b, cross(a, b)],
        [Some(a), None, Some(c)] => [a, cross(c, a), c],
        [None, Some(b), Some(c)] => [cross(b, c), b, c],
        [Some(a), None, None] => {
            let b = perpendicular(a);
            [a, b, cross(a, b)]
        }
        [None, Some(b), None] => {
            let c = perpendicular(b);
            [cross(b, c), b, c]
        }
        [None, None, Some(c)] => {
            let a = perpendicular(c);
            [a, cross(c, a), c]
        }
        [None, None, None] => [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    }
}

fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// A direction perpendicular to another, in the plane of the two axes along which the other is longest.
fn perpendicular(axis: Vector) -> Vector {
    let shortest = (0..3).fold(0, |least, i| if axis[i].abs() < axis[least].abs() { i } else { least });
    let mut along = [0.0; 3];
    along[shortest] = 1.0;
    let made = cross(axis, along);
    let length = dot(made, made).sqrt();
    made.map(|value| value / length)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CELL: Cell = [[30.0, 0.0, 0.0], [5.0, 28.0, 0.0], [4.0, 7.0, 30.0]];

    fn products(cell: &Cell) -> [f64; 6] {
        let of = |i: usize, j: usize| dot(cell[i], cell[j]);
        [of(0, 0), of(1, 1), of(2, 2), of(0, 1), of(0, 2), of(1, 2)]
    }

    #[test]
    fn cells_that_lie_so_and_flat_ones_stay() {
        let slab = [CELL[0], CELL[1], [0.0; 3]];
        let flat = [[0.0, 10.0, 0.0], [10.0, 0.0, 0.0], [3.0, 4.0, 0.0]];
        for cell in [CELL, slab, [[0.0; 3]; 3], flat] {
            assert!(upright(&cell).is_none(), "{cell:?}");
        }
    }

    #[test]
    fn others_keep_their_lattice_and_are_rotated_not_mirrored() {
        let turned = CELL.map(|[x, y, z]| [z, x, y]);
        let left = CELL.map(|[x, y, z]| [x, y, -z]);
        let none = [0.0; 3];
        let wire = [none, none, [3.0, 4.0, 0.0]];
        let without = [[none, turned[1], turned[2]], [turned[0], none, turned[2]], [turned[0], turned[1], none]];
        let others = [[none, turned[1], none], [turned[0], none, none], wire, [none, CELL[1], CELL[2]]];
        let swapped = [CELL[1], CELL[0], CELL[2]];
        for cell in without.into_iter().chain(others).chain([turned, left, swapped]) {
            let (axes, made) = upright(&cell).unwrap();
            let (x, y, z) = (axes[0], axes[1], axes[2]);
            assert!((dot(cross(x, y), z) - 1.0).abs() < 1e-12, "a reflection: {axes:?}");
            assert!(upright(&made).is_none(), "{made:?}");
            let is_left = dot(cross(cell[0], cell[1]), cell[2]) < 0.0;
            let same = [cell[0], cell[1], cell[2].map(|value| if is_left { -value } else { value })];
            for (expected, found) in products(&same).iter().zip(products(&made)) {
                assert!((expected - found).abs() < 1e-9, "{cell:?} {made:?}");
            }
            // a vector at an edge is still at that edge, or at its opposite
            for (edge, new) in same.iter().zip(made) {
                let moved = axes.map(|axis| dot(*edge, axis));
                assert!(moved.iter().zip(new).all(|(a, b)| (a - b).abs() < 1e-9), "{cell:?} {made:?}");
            }
        }
    }
}
