//! Rotations from frame to frame of one atom set: each frame on the one before it, and their product.

use kinema_core::Result;

use super::key_matrix::Matrix3;
use super::qcp::Reference;
use crate::cpu::Cpu;

/// How frames of an atom set are superposed on each other.
#[derive(Debug, Clone)]
pub(crate) struct Steps {
    cpu: Cpu,
    /// Relative to their mean.
    weights: Option<Vec<f64>>,
}

impl Steps {
    /// With the weights of the reference that frames are superposed on otherwise.
    pub(crate) fn from_reference(reference: &Reference) -> Self {
        Self { cpu: reference.cpu(), weights: reference.relative_weights().map(<[f64]>::to_vec) }
    }

    /// The best rotation of `row` on the row `before`, whose positions are finite; `None` if `row` has positions that
    /// are not.
    /// Errors: `InvalidArgument` for positions that are too far apart.
    pub(crate) fn rotation(&self, before: &[f32], row: &[f32]) -> Result<Option<Matrix3>> {
        let reference = Reference::from_row(self.cpu, before, self.weights.clone())?;
        Ok(reference.best_motion(row).map(|motion| motion.rotation))
    }
}

/// The rotation `step` followed by `behind`. A step of Newton's method for the nearest orthogonal matrix,
/// `R (3 - R'R) / 2`, brings the product back to a rotation, so that rounding does not grow with the number of frames.
pub(crate) fn turned(behind: &Matrix3, step: &Matrix3) -> Matrix3 {
    let product = times(behind, step);
    let transposed: Matrix3 = std::array::from_fn(|a| std::array::from_fn(|b| product[b][a]));
    let square = times(&transposed, &product);
    let correction: Matrix3 =
        std::array::from_fn(|a| std::array::from_fn(|b| 0.5 * (if a == b { 3.0 } else { 0.0 } - square[a][b])));
    times(&product, &correction)
}

fn times(a: &Matrix3, b: &Matrix3) -> Matrix3 {
    std::array::from_fn(|i| std::array::from_fn(|j| a[i][0] * b[0][j] + a[i][1] * b[1][j] + a[i][2] * b[2][j]))
}
