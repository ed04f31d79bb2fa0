//! NetCDF: the header of a classic file, for code that copies frames byte for byte; cells of NetCDF-4 files, whose structure
//! Python reads.

use std::path::PathBuf;

use kinema_core::Result;
use kinema_core::format::Format;
use kinema_core::format::netcdf::{Head, Netcdf, cell_of, lengths_and_degrees};
use kinema_core::frame::kept::check_cell;
use kinema_core::frame::{Cell, is_mirrored_by_lengths};
use kinema_core::source::{Files, OpenSource};
use numpy::ndarray::{Array2, Array3, ArrayView2};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArray3, PyReadonlyArray2, PyReadonlyArray3};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::to_python;

/// The header of an AMBER NetCDF file in a classic format, and the sizes of its frames.
#[pyfunction]
pub fn netcdf_header(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let read = || -> Result<Head> { Head::read(&*Files.open(&path)?) };
    let head = py.detach(read).map_err(|error| to_python(&error.with_format(Netcdf.info().name).with_path(&path)))?;
    let result = PyDict::new(py);
    result.set_item("data", PyBytes::new(py, &head.data))?;
    result.set_item("first_frame", head.first)?;
    result.set_item("count_bytes", head.count_len)?;
    result.set_item("stride", head.stride)?;
    result.set_item("frame_bytes", head.frame_len)?;
    Ok(result)
}

/// Cells (n, 3, 3) from lengths and angles in degrees (n, 6), computed as for classic files; NaN if there is no such
/// cell.
#[pyfunction]
pub fn cells_of_lengths<'py>(py: Python<'py>, values: PyReadonlyArray2<'py, f64>) -> Bound<'py, PyArray3<f64>> {
    let values = values.as_array();
    let mut cells = Array3::zeros((values.nrows(), 3, 3));
    for (row, mut out) in values.rows().into_iter().zip(cells.outer_iter_mut()) {
        let three = |from: usize| [0, 1, 2].map(|i| row.get(from + i).copied().unwrap_or(f64::NAN));
        let cell = cell_of(three(0), three(3));
        out.iter_mut().zip(cell.iter().flatten()).for_each(|(out, value)| *out = *value);
    }
    cells.into_pyarray(py)
}

/// Which of the cells (n, 3, 3) lengths and angles would mirror, (n,).
#[pyfunction]
pub fn mirrored_by_lengths<'py>(py: Python<'py>, cells: PyReadonlyArray3<'py, f64>) -> Bound<'py, PyArray1<bool>> {
    let found: Vec<bool> = cells.as_array().outer_iter().map(|cell| is_mirrored_by_lengths(&cell_at(cell))).collect();
    found.into_pyarray(py)
}

/// The first of the cells (n, 3, 3) that a file cannot hold, given that each would be read as the cell of `found` with
/// the same number; with the reason. Lengths and cosines may differ by `share`. All in angstrom.
#[pyfunction]
pub fn first_cell_not_kept(
    given: PyReadonlyArray3<'_, f64>,
    found: PyReadonlyArray3<'_, f64>,
    share: f64,
) -> Option<(usize, String)> {
    let (given, found) = (given.as_array(), found.as_array());
    let mut pairs = given.outer_iter().zip(found.outer_iter()).enumerate();
    pairs.find_map(|(row, (given, found))| {
        let refused = check_cell(&cell_at(given), &cell_at(found), share).err()?;
        Some((row, refused.what().to_owned()))
    })
}

fn cell_at(cell: ArrayView2<'_, f64>) -> Cell {
    [0, 1, 2].map(|i| [0, 1, 2].map(|j| cell.get([i, j]).copied().unwrap_or(f64::NAN)))
}

/// Lengths and angles in degrees (n, 6) of cells (n, 3, 3), as written into classic files.
#[pyfunction]
pub fn lengths_of_cells<'py>(py: Python<'py>, cells: PyReadonlyArray3<'py, f64>) -> Bound<'py, PyArray2<f64>> {
    let cells = cells.as_array();
    let mut values = Array2::zeros((cells.shape()[0], 6));
    for (cell, mut out) in cells.outer_iter().zip(values.outer_iter_mut()) {
        let (lengths, degrees) = lengths_and_degrees(&cell_at(cell));
        out.iter_mut().zip(lengths.into_iter().chain(degrees)).for_each(|(out, value)| *out = value);
    }
    values.into_pyarray(py)
}
