//! Clusters of things from pairs of neighbours or condensed distances, for analyses in Python.

use kinema_analysis::clustering;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::to_python;

/// The cluster of each thing, (n,), and the thing with most neighbours of each cluster.
type LabelsAndCentres<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<u32>>);

/// Clusters of `n` things by the method of Daura and others, the largest first, from (pairs, 2) neighbours.
#[pyfunction]
pub fn gromos_clusters<'py>(
    py: Python<'py>,
    pairs: PyReadonlyArray2<'py, u32>,
    n: usize,
) -> PyResult<LabelsAndCentres<'py>> {
    if !pairs.is_c_contiguous() || pairs.shape()[1] != 2 {
        return Err(PyValueError::new_err("pairs are rows of two neighbours, one row after the other"));
    }
    let pairs = pairs.as_slice()?.as_chunks::<2>().0;
    let found = py.detach(|| clustering::gromos(pairs, n)).map_err(|error| to_python(&error))?;
    Ok((found.labels.into_pyarray(py), found.centres.into_pyarray(py)))
}

/// For each thing, (n,), the sum of its distances from those with the same label; 0 for labels below 0.
#[pyfunction]
pub fn sums_within_clusters<'py>(
    py: Python<'py>,
    condensed: PyReadonlyArray1<'py, f64>,
    labels: PyReadonlyArray1<'py, i64>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (condensed, labels) = (condensed.as_slice()?, labels.as_slice()?);
    let sums = py.detach(|| clustering::sums_within(condensed, labels)).map_err(|error| to_python(&error))?;
    Ok(sums.into_pyarray(py))
}
