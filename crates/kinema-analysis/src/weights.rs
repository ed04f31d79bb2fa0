//! Checks of weights and reference coordinates, as kernels take them in their constructors.
//!
//! It computes no result and reads no topology: masses come as numbers.

use kinema_core::{Error, ErrorKind, Result};

fn invalid(what: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, what)
}

/// Checks that there is one finite, non-negative weight for each of `n_atoms` atoms.
/// Errors: `InvalidArgument`, naming the first weight that does not fit.
pub(crate) fn check_each(weights: &[f64], n_atoms: usize) -> Result<()> {
    if weights.len() != n_atoms {
        return Err(invalid(format!("wrong number of weights, expected {n_atoms}, found {}", weights.len())));
    }
    if let Some((index, weight)) = weights.iter().enumerate().find(|(_, w)| !(w.is_finite() && **w >= 0.0)) {
        return Err(invalid(format!("weight at index {index} must be finite and not negative, found {weight}")));
    }
    Ok(())
}

/// Checks that there is one finite, non-negative weight for each of `n_atoms` atoms, and that not all are zero.
/// Errors as [`check_each`].
pub(crate) fn check_weights(weights: &[f64], n_atoms: usize) -> Result<()> {
    check_each(weights, n_atoms)?;
    let sum: f64 = weights.iter().sum();
    if !(sum > 0.0 && sum.is_finite()) {
        return Err(invalid(format!("sum of weights must be positive and finite, found {sum}")));
    }
    Ok(())
}

/// The weights divided by their mean, as MDAnalysis.analysis.rms.rmsd has them: they sum up to the number of atoms.
/// Errors as [`check_weights`].
pub(crate) fn relative_to_mean(weights: &[f64], n_atoms: usize) -> Result<Vec<f64>> {
    check_weights(weights, n_atoms)?;
    let mean = weights.iter().sum::<f64>() / n_atoms as f64;
    if !mean.is_normal() {
        return Err(invalid(format!("mean of weights is too small, found {mean}")));
    }
    Ok(weights.iter().map(|weight| weight / mean).collect())
}

/// Checks that `reference` holds x, y, z of at least one atom and nothing else, all finite; returns the atoms.
/// Errors: `InvalidArgument`, naming what does not fit.
pub(crate) fn reference_atoms(reference: &[f64]) -> Result<&[[f64; 3]]> {
    let (atoms, rest) = reference.as_chunks::<3>();
    if !rest.is_empty() {
        let found = reference.len();
        return Err(invalid(format!("reference coordinates must be atoms x 3 values, found {found} values")));
    }
    if atoms.is_empty() {
        return Err(invalid("reference has no atoms, expected at least one".to_owned()));
    }
    if let Some(index) = atoms.iter().position(|xyz| !xyz.iter().all(|value| value.is_finite())) {
        return Err(invalid(format!("reference position at index {index} is not finite")));
    }
    Ok(atoms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_relative_to_their_mean() {
        assert_eq!(relative_to_mean(&[1.0, 3.0], 2).unwrap(), [0.5, 1.5]);
    }

    #[test]
    fn useless_weights_and_references_are_refused() {
        for weights in [&[1.0][..], &[1.0, f64::NAN], &[1.0, -1.0], &[0.0, 0.0], &[f64::MAX, f64::MAX]] {
            let error = check_weights(weights, 2).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        }
        for reference in [&[][..], &[1.0, 2.0], &[1.0, 2.0, f64::INFINITY]] {
            let error = reference_atoms(reference).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        }
    }
}
