//! Interpretation of frames' cells: the one rule for all formats.
//!
//! An edge of length zero is an open direction. A cell with a number that is not finite, or with a negative length,
//! cannot be used: the frame then has no cell, and an analysis that needs it gets an error. Decoders give
//! [`NOT_A_CELL`] for lengths and angles that do not make a cell.

use super::{Cell, Fields, NO_CELL, Stamp};

/// The cell of a frame whose cell is not known, or cannot be used: [`super::Lattice::new`] refuses it.
pub const NOT_A_CELL: Cell = [[f64::NAN; 3]; 3];

/// Cells up to this edge, angstrom, stand for none in some programs: no two atoms of a molecule are that close.
const DUMMY_EDGE: f64 = 1.0 + 1e-5;

impl Stamp {
    /// Applies the rule to a cell as it was decoded. Whether the frame has a cell that cannot be used.
    pub fn settle_cell(&mut self) -> bool {
        if !self.present.contains(Fields::CELL) {
            // decoders may leave any values there; NaN says that the cell is unknown
            if !self.cell.iter().flatten().any(|value| value.is_nan()) {
                self.cell = NO_CELL;
            }
            return false;
        }
        if !is_usable(&self.cell) {
            self.cell = NOT_A_CELL;
            self.present = self.present - Fields::CELL;
            return true;
        }
        if self.cell == NO_CELL {
            self.present = self.present - Fields::CELL;
            return false;
        }
        for (periodic, edge) in self.periodic.iter_mut().zip(&self.cell) {
            *periodic = *periodic && *edge != [0.0; 3];
        }
        false
    }

    /// Whether the cell, times `length` in angstrom, is so small along all edges that it holds no molecule.
    pub fn has_dummy_cell(&self, length: f64) -> bool {
        let is_short = |edge: &[f64; 3]| {
            let squared = edge.iter().map(|value| value * value).sum::<f64>() * length * length;
            squared > 0.0 && squared <= DUMMY_EDGE * DUMMY_EDGE
        };
        self.present.contains(Fields::CELL) && self.cell.iter().all(is_short)
    }
}

/// Whether all numbers are finite in single precision, in which positions are, and no length is negative.
pub(super) fn is_usable(cell: &Cell) -> bool {
    let finite = cell.iter().flatten().all(|value| (*value as f32).is_finite());
    // of other cells signs are those of directions
    let is_diagonal = (0..3).all(|i| (0..3).all(|k| i == k || cell[i][k] == 0.0));
    finite && !(is_diagonal && (0..3).any(|i| cell[i][i] < 0.0))
}

/// Whether lengths and angles give another lattice: that of the mirror image, as they do for left-handed vectors unless these
/// are perpendicular to each other.
pub fn is_mirrored_by_lengths(cell: &Cell) -> bool {
    let dot = |a: &[f64; 3], b: &[f64; 3]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let [a, b, c] = cell;
    let normal = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
    let is_perpendicular = dot(a, b) == 0.0 && dot(b, c) == 0.0 && dot(c, a) == 0.0;
    dot(&normal, c) < 0.0 && !is_perpendicular
}

/// Whether the first vector lies along x and the second in the xy plane: lengths and angles say no more.
pub fn is_lower(cell: &Cell) -> bool {
    cell[0][1] == 0.0 && cell[0][2] == 0.0 && cell[1][2] == 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(cell: Cell) -> (Stamp, bool) {
        let mut stamp = Stamp { cell, present: Fields::POSITIONS | Fields::CELL, ..Stamp::default() };
        let refused = stamp.settle_cell();
        (stamp, refused)
    }

    #[test]
    fn edges_without_a_length_are_open() {
        let edge = |i: usize, length: f64| std::array::from_fn(|k| if k == i { length } else { 0.0 });
        for open in 1..7_u8 {
            let lengths = [0, 1, 2].map(|i| if open >> i & 1 == 1 { 0.0 } else { 10.0 });
            let (stamp, refused) = settled([edge(0, lengths[0]), edge(1, lengths[1]), edge(2, lengths[2])]);
            assert_eq!(stamp.periodic, lengths.map(|length| length > 0.0));
            assert!(!refused && stamp.present.contains(Fields::CELL));
        }
        let (stamp, refused) = settled(NO_CELL);
        assert!(!refused && stamp.present == Fields::POSITIONS && stamp.cell == NO_CELL);
    }

    #[test]
    fn cells_that_cannot_be_used_are_absent_and_no_open_ones() {
        let right = [[10.0, 0.0, 0.0], [0.0, 10.0, 0.0], [0.0, 0.0, 10.0]];
        for (row, column, value) in [(0, 0, f64::NAN), (2, 1, f64::INFINITY), (1, 1, -10.0), (2, 2, 1e300)] {
            let mut cell: Cell = right;
            cell[row][column] = value;
            let (stamp, refused) = settled(cell);
            assert!(refused && stamp.present == Fields::POSITIONS, "{cell:?}");
            assert!(super::super::Lattice::new(&stamp.cell, stamp.periodic).is_err());
        }
        // left-handed cells are some: a rotated one, a triclinic one
        for cell in [
            [[0.0, -10.0, 0.0], [10.0, 0.0, 0.0], [0.0, 0.0, -10.0]],
            [[30.0, 0.0, 0.0], [5.0, 28.0, 0.0], [4.0, 7.0, -30.0]],
        ] {
            let (stamp, refused) = settled(cell);
            assert!(!refused && stamp.periodic == [true; 3]);
        }
    }

    #[test]
    fn lengths_and_angles_mirror_left_handed_cells_unless_they_are_right_angled() {
        let cells = [
            ([[30.0, 0.0, 0.0], [5.0, 28.0, 0.0], [4.0, 7.0, -30.0]], true),
            ([[30.0, 0.0, 0.0], [5.0, 28.0, 0.0], [-4.0, -7.0, 30.0]], false),
            ([[5.0, 28.0, 0.0], [30.0, 0.0, 0.0], [4.0, 7.0, 30.0]], true),
            ([[0.0, -10.0, 0.0], [10.0, 0.0, 0.0], [0.0, 0.0, -10.0]], false),
            ([[10.0, 0.0, 0.0], [5.0, 10.0, 0.0], [0.0, 0.0, 0.0]], false),
            (NO_CELL, false),
        ];
        for (cell, expected) in cells {
            assert_eq!(is_mirrored_by_lengths(&cell), expected, "{cell:?}");
        }
    }
}
