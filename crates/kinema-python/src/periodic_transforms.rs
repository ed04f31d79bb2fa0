//! Basis of the transforms of periodic systems: molecules, and how many are broken.

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

/// Counts molecules that are broken at the faces of the cell.
#[pyclass(name = "BrokenCounter", module = "kinema._core", frozen)]
pub struct PyBrokenCounter {
    row: WholeRow,
}

#[pymethods]
impl PyBrokenCounter {
    #[new]
    fn new(n_atoms: usize, bonds: PyReadonlyArray2<'_, u32>) -> PyResult<Self> {
        let molecules = checked(Molecules::new(n_atoms, &pairs(&bonds)?))?;
        Ok(Self { row: WholeRow::new(Cpu::detect(), molecules) })
    }

    /// The number of broken molecules in each frame, from positions (frames, atoms, 3) and cells (frames, 3, 3), whose
    /// edges `periodic` (frames, 3) repeat; -1 in frames without a cell.
    fn count<'py>(
        &self,
        py: Python<'py>,
        positions: PyReadonlyArray3<'py, f32>,
        cells: PyReadonlyArray3<'py, f64>,
        periodic: PyReadonlyArray2<'py, bool>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let values = positions.as_slice().map_err(|_| invalid("positions must be C-contiguous"))?;
        let (positions, cells, periodic) = (positions.as_array(), cells.as_array(), periodic.as_array());
        let [rows, n_atoms, 3] = *positions.shape() else {
            return Err(invalid("positions must be frames x atoms x 3"));
        };
        if cells.shape() != [rows, 3, 3] || periodic.shape() != [rows, 3] {
            return Err(invalid("there must be a cell for each frame, and which of its edges are periodic"));
        }
        let counts = py.detach(|| -> kinema_core::Result<Vec<i64>> {
            let mut scratch = WholeScratch::default();
            let count = |row: usize| {
                let cell = std::array::from_fn(|i| std::array::from_fn(|x| cells[[row, i, x]]));
                let Ok(cell) = PeriodicCell::new(&cell, std::array::from_fn(|i| periodic[[row, i]])) else {
                    return Ok(-1);
                };
                let found = self.row.count_broken(&values[row * 3 * n_atoms..][..3 * n_atoms], &cell, &mut scratch);
                found.map(|broken| broken as i64).map_err(|fault| fault.into_error(u64::from))
            };
            (0..rows).map(count).collect()
        });
        Ok(checked(counts)?.into_pyarray(py))
    }
}
