//! What transforms of periodic systems are made of: molecules, and how many are broken.

use kinema_analysis::Cpu;
use kinema_analysis::transforms::whole::{WholeRow, WholeScratch};
use kinema_analysis::transforms::{Molecules, PeriodicCell};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray2, PyReadonlyArray3};
use pyo3::prelude::*;

use crate::errors::{invalid, to_python};

fn checked<T>(made: kinema_core::Result<T>) -> PyResult<T> {
    made.map_err(|error| to_python(&error))
}

/// Pairs of atoms.
fn pairs(bonds: &PyReadonlyArray2<'_, u32>) -> PyResult<Vec<[u32; 2]>> {
    let bonds = bonds.as_array();
    if bonds.ncols() != 2 {
        return Err(invalid(format!("bonds must be pairs of atoms, found {} a row", bonds.ncols())));
    }
    Ok(bonds.rows().into_iter().map(|row| [row[0], row[1]]).collect())
}

/// For each atom the first atom of its molecule.
#[pyfunction]
pub fn first_atoms_of_molecules<'py>(
    py: Python<'py>,
    n_atoms: usize,
    bonds: PyReadonlyArray2<'py, u32>,
) -> PyResult<Bound<'py, PyArray1<u32>>> {
    Ok(checked(Molecules::new(n_atoms, &pairs(&bonds)?))?.first_atoms().into_pyarray(py))
}

/// How many molecules are broken in each frame of positions (frames, atoms, 3) and cells (frames, 3, 3), of which the edges
/// `periodic` (frames, 3) repeat; -1 in frames without a cell.
#[pyfunction]
pub fn count_broken<'py>(
    py: Python<'py>,
    bonds: PyReadonlyArray2<'py, u32>,
    positions: PyReadonlyArray3<'py, f32>,
    cells: PyReadonlyArray3<'py, f64>,
    periodic: PyReadonlyArray2<'py, bool>,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let (positions, cells, periodic) = (positions.as_array(), cells.as_array(), periodic.as_array());
    let [rows, n_atoms, _] = *positions.shape() else { return Err(invalid("positions must be frames x atoms x 3")) };
    if cells.shape() != [rows, 3, 3] || periodic.shape() != [rows, 3] || positions.shape()[2] != 3 {
        return Err(invalid("there must be a cell for each frame, and which of its edges are periodic"));
    }
    let row = WholeRow::new(Cpu::detect(), checked(Molecules::new(n_atoms, &pairs(&bonds)?))?);
    let mut scratch = WholeScratch::default();
    let mut counts = Vec::with_capacity(rows);
    for ((positions, cell), edges) in positions.outer_iter().zip(cells.outer_iter()).zip(periodic.outer_iter()) {
        let cell = std::array::from_fn(|i| std::array::from_fn(|x| cell[[i, x]]));
        let Ok(cell) = PeriodicCell::new(&cell, std::array::from_fn(|i| edges[i])) else {
            counts.push(-1);
            continue;
        };
        let values: Vec<f32> = positions.iter().copied().collect();
        let found = row.count_broken(&values, &cell, &mut scratch);
        counts.push(checked(found.map_err(|fault| fault.into_error(u64::from)))? as i64);
    }
    Ok(counts.into_pyarray(py))
}
