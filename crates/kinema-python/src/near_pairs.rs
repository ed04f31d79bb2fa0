//! Pairs of atoms of one structure that are near each other.

use kinema_analysis::Cpu;
use kinema_analysis::geometry;
use kinema_core::frame::Lattice;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::errors::{invalid, to_python};

/// Pairs, (m, 2), and their distances, (m,).
type PairsAndDistances<'py> = (Bound<'py, PyArray2<u32>>, Bound<'py, PyArray1<f64>>);

/// Pairs of an atom of `first` and one of `second`, (n, 3), at most `cutoff` apart: (m, 2) numbers, and (m,) distances.
/// Nearest images in a cell, (3, 3), whose edges `periodic` repeat.
#[pyfunction]
pub fn near_pairs<'py>(
    py: Python<'py>,
    first: PyReadonlyArray2<'py, f32>,
    second: PyReadonlyArray2<'py, f32>,
    cell: [[f64; 3]; 3],
    periodic: [bool; 3],
    cutoff: f64,
) -> PyResult<PairsAndDistances<'py>> {
    let row = |positions: &PyReadonlyArray2<'py, f32>| match positions.as_slice() {
        Ok(row) if positions.as_array().ncols() == 3 => Ok(row.to_vec()),
        _ => Err(invalid("positions must be C-contiguous, (n, 3)")),
    };
    let (first, second) = (row(&first)?, row(&second)?);
    let found = py.detach(|| {
        let lattice = Lattice::new(&cell, periodic)?;
        geometry::near_pairs(Cpu::detect(), [&first, &second], &lattice, cutoff)
    });
    let (pairs, distances) = found.map_err(|error| to_python(&error))?;
    let shape = [pairs.len(), 2];
    Ok((pairs.into_flattened().into_pyarray(py).reshape(shape)?, distances.into_pyarray(py)))
}
