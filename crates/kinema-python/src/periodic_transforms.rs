//! What transforms of periodic systems are made of: molecules, and jumps that are counted.

use kinema_analysis::Cpu;
use kinema_analysis::transforms::nojump::Tracks;
use kinema_analysis::transforms::whole::{WholeRow, WholeScratch};
use kinema_analysis::transforms::{Molecules, PeriodicCell};
use numpy::ndarray::{Array2, Axis};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray2, PyReadonlyArray3};
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

    /// How many are broken in each frame of positions (frames, atoms, 3) and cells (frames, 3, 3), of which the edges
    /// `periodic` (frames, 3) repeat; -1 in frames without a cell.
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

/// Counts jumps of all atoms from frame to frame.
#[pyclass(name = "JumpCounter", module = "kinema._core")]
pub struct PyJumpCounter {
    tracks: Tracks,
    seen: u64,
}

#[pymethods]
impl PyJumpCounter {
    #[new]
    fn new(n_atoms: u32) -> Self {
        let columns: Vec<u32> = (0..n_atoms).collect();
        Self { tracks: Tracks::new(Cpu::detect(), &columns, n_atoms as usize), seen: 0 }
    }

    /// Sees the next frames; gives the longest step of a reduced coordinate in each, without its jump.
    fn add<'py>(
        &mut self,
        py: Python<'py>,
        positions: PyReadonlyArray3<'py, f32>,
        cells: PyReadonlyArray3<'py, f64>,
        periodic: PyReadonlyArray2<'py, bool>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let values = positions.as_slice().map_err(|_| invalid("positions must be C-contiguous"))?;
        let (positions, cells, periodic) = (positions.as_array(), cells.as_array(), periodic.as_array());
        let width = positions.len_of(Axis(1)) * positions.len_of(Axis(2));
        let rows = positions.len_of(Axis(0));
        if cells.shape() != [rows, 3, 3] || periodic.shape() != [rows, 3] {
            return Err(invalid("there must be a cell for each frame, and which of its edges are periodic"));
        }
        let mut longest = Vec::with_capacity(cells.len_of(Axis(0)));
        for ((row, cell), edges) in values.chunks_exact(width.max(1)).zip(cells.outer_iter()).zip(periodic.outer_iter())
        {
            let number = self.seen;
            let at = |error: kinema_core::Error| to_python(&error.at_frame(number));
            let cell = std::array::from_fn(|i| std::array::from_fn(|x| cell[[i, x]]));
            let cell = PeriodicCell::new(&cell, std::array::from_fn(|i| edges[i])).map_err(at)?;
            let seen = self.tracks.see(row, &cell, self.seen == 0);
            longest.push(seen.map_err(|fault| at(fault.into_error(u64::from)))?);
            self.seen += 1;
        }
        Ok(longest.into_pyarray(py))
    }

    /// The edges that are added to each atom in the last frame that was seen: (atoms, 3).
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<i32>>> {
        let counts: Vec<i32> = self.tracks.counts().flatten().collect();
        let made = Array2::from_shape_vec((counts.len() / 3, 3), counts);
        Ok(made.map_err(|error| invalid(error.to_string()))?.into_pyarray(py))
    }
}
