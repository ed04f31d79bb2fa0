//! Rules for what a file keeps of a frame, the same for all writers. An accepted frame is read back; any other is
//! refused.

use super::cells::{is_mirrored_by_lengths, is_usable};
use super::{Cell, Fields, NO_CELL};
use crate::error::{Error, ErrorKind, Result};

/// Share by which single precision may change lengths and cosines of a cell.
pub const SINGLE: f64 = 1e-6;

/// Refuses a cell that a reader does not give back. `found` is the cell that a reader gets from the written one, with
/// NaN if it gets none. It may be turned, and lengths and cosines may differ by `share`, but its lattice and its open
/// edges are the same.
///
/// Both are in angstrom. [`NO_CELL`] passes if it is read as none.
///
/// # Errors
/// `Unsupported`, with the cell.
pub fn check_cell(given: &Cell, found: &Cell, share: f64) -> Result<()> {
    let (expected, hint) = if !is_usable(given) {
        ("finite numbers within single precision and, along the axes, no negative lengths".to_owned(), "")
    } else if given == found {
        return Ok(());
    } else if is_mirrored_by_lengths(given) && !is_mirrored_by_lengths(found) {
        let hint =
            ": lengths and angles would mirror it; XTC, TRR, H5MD and HISTORY hold it, and rotate_cell makes another";
        ("right-handed vectors".to_owned(), hint)
    } else if found.iter().flatten().any(|value| value.is_nan()) {
        ("a volume, or open edges of length 0".to_owned(), "")
    } else if is_usable(found) && is_same_lattice(given, found, share) {
        return Ok(());
    } else {
        (format!("numbers that the file holds, where these would be read as {found:?}"), "")
    };
    Err(Error::new(ErrorKind::Unsupported, format!("cell of the frame, expected {expected}, found {given:?}{hint}")))
}

/// Whether edges have the same lengths and lie at the same angles; an edge without length has no angle.
fn is_same_lattice(given: &Cell, found: &Cell, share: f64) -> bool {
    if *given == NO_CELL || *found == NO_CELL {
        return given == found;
    }
    let (given, found) = (given.map(Edge::from_vector), found.map(Edge::from_vector));
    let lengths = given.iter().zip(&found).all(|(a, b)| (a.length - b.length).abs() <= share * a.length);
    let cosines = [(0, 1), (0, 2), (1, 2)].into_iter().all(|(i, j)| {
        let cosine = |edges: &[Edge; 3]| (0..3).map(|k| edges[i].direction[k] * edges[j].direction[k]).sum::<f64>();
        (cosine(&given) - cosine(&found)).abs() <= share
    });
    lengths && cosines
}

/// A vector as its length and direction, of zeros without a length; squares neither overflow nor vanish.
struct Edge {
    length: f64,
    direction: [f64; 3],
}

impl Edge {
    fn from_vector(vector: [f64; 3]) -> Self {
        let largest = vector.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
        if largest == 0.0 {
            return Self { length: 0.0, direction: vector };
        }
        let scaled = vector.map(|value| value / largest);
        let norm = scaled.iter().map(|value| value * value).sum::<f64>().sqrt();
        Self { length: largest * norm, direction: scaled.map(|value| value / norm) }
    }
}

/// Refuses a time, in ps, that float32 would make infinite.
///
/// # Errors
/// `Unsupported`, with the time.
pub fn check_narrow_time(time: f64) -> Result<()> {
    if time.is_finite() && !(time as f32).is_finite() {
        let what = format!("time of the frame: at most {:e} ps, as float32 holds, expected, found {time:e}", f32::MAX);
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    Ok(())
}

/// The place of the first number of a field that was finite and is not after it was `scaled` to the type of the file.
pub fn first_infinite<G, S>(given: &[G], scaled: &[S]) -> Option<usize>
where
    G: Copy + Into<f64>,
    S: Copy + Into<f64>,
{
    let is_infinite = |value: &S| Into::<f64>::into(*value).is_infinite();
    // without a branch for each
    if !scaled.iter().fold(false, |any, value| any | is_infinite(value)) {
        return None;
    }
    let mut pairs = given.iter().zip(scaled);
    pairs.position(|(given, scaled)| is_infinite(scaled) && Into::<f64>::into(*given).is_finite())
}

/// The error for a number of an atom, counted from 0, that would be infinite.
pub fn infinite(field: Fields, atom: u64) -> Error {
    let names = field.names().join(", ");
    let what = format!(
        "{names} of atom {} (counted from 1): numbers that the file holds expected, found one beyond",
        atom + 1
    );
    Error::new(ErrorKind::Unsupported, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::NOT_A_CELL;

    const CELL: Cell = [[30.0, 0.0, 0.0], [5.0, 28.0, 0.0], [4.0, 7.0, 30.0]];

    fn times(factor: f64) -> Cell {
        CELL.map(|row| row.map(|value| value * factor))
    }

    #[test]
    fn cells_that_are_read_back_pass() {
        let turned = CELL.map(|[x, y, z]| [z, x, y]);
        let narrow = times(0.1).map(|row| row.map(|value| f64::from(value as f32)));
        let parallel = [[10.0, 0.0, 0.0], [20.0, 0.0, 0.0], [0.0, 0.0, 10.0]];
        let slab = [CELL[0], CELL[1], [0.0; 3]];
        for (given, found) in [
            (CELL, CELL),
            (CELL, turned),
            (times(0.1), narrow),
            (NO_CELL, NO_CELL),
            (parallel, parallel),
            (slab, slab),
            (times(1e-300), times(1e-300)),
            (times(1e36), times(1e36 * (1.0 + 1e-7))),
        ] {
            assert!(check_cell(&given, &found, SINGLE).is_ok(), "{given:?} {found:?}");
        }
    }

    #[test]
    fn cells_that_are_read_as_others_are_refused() {
        let left = CELL.map(|[x, y, z]| [x, y, -z]);
        let mut shorter = CELL;
        shorter[2][2] = 29.0;
        let mut open = CELL;
        open[2] = [0.0; 3];
        let negative = [[30.0, 0.0, 0.0], [0.0, -30.0, 0.0], [0.0, 0.0, 30.0]];
        for (given, found, word) in [
            (left, CELL, "right-handed"),
            (left, NOT_A_CELL, "right-handed"),
            (CELL, NOT_A_CELL, "a volume"),
            (CELL, shorter, "would be read as"),
            (CELL, open, "would be read as"),
            (CELL, NO_CELL, "would be read as"),
            (NO_CELL, CELL, "would be read as"),
            (times(1e300), times(1e300), "finite numbers"),
            (negative, negative, "no negative"),
            (CELL, times(1e38), "would be read as"),
        ] {
            let error = check_cell(&given, &found, SINGLE).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    #[test]
    fn numbers_that_become_infinite_are_found() {
        let given = [1.0, f64::NAN, f64::INFINITY, 2.0, -1e39, 3.0];
        let narrow = given.map(|value| value as f32);
        assert_eq!(first_infinite(&given, &narrow), Some(4));
        assert_eq!(first_infinite(&given[..4], &narrow[..4]), None);
        assert!(infinite(Fields::POSITIONS, 1).to_string().contains("positions of atom 2 (counted from 1)"));
        for time in [0.0, -3e38, f64::NAN] {
            assert!(check_narrow_time(time).is_ok());
        }
        assert!(check_narrow_time(-1e39).is_err());
    }
}
