//! Pairs of atoms of one structure that are near each other, distances of pairs, and nearest images of vectors.

use kinema_analysis::Cpu;
use kinema_analysis::geometry::{CellList, FoundPair, PairImages, Points, Results, distances};
use kinema_core::frame::Lattice;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::errors::{invalid, to_python};

/// Pairs, (m, 2), and their distances, (m,).
type PairsAndDistances<'py> = (Bound<'py, PyArray2<u32>>, Bound<'py, PyArray1<f64>>);

/// Pairs of an atom of `first` and one of `second`, (n, 3), at most `cutoff` apart: (m, 2) numbers, ascending, and (m,)
/// distances. Without `second` pairs of two of `first`, each once. Nearest images in a cell, (3, 3), whose edges
/// `periodic` repeat.
#[pyfunction]
pub fn near_pairs<'py>(
    py: Python<'py>,
    first: PyReadonlyArray2<'py, f32>,
    second: Option<PyReadonlyArray2<'py, f32>>,
    cell: [[f64; 3]; 3],
    periodic: [bool; 3],
    cutoff: f64,
) -> PyResult<PairsAndDistances<'py>> {
    if !(cutoff > 0.0 && cutoff.is_finite()) {
        return Err(invalid("the cutoff must be above 0 and finite"));
    }
    let (first, second) = (row(&first)?, second.as_ref().map(row).transpose()?);
    let found = py.detach(|| {
        let lattice = Lattice::new(&cell, periodic)?;
        let (mut cells, mut found) = (CellList::default(), Vec::<FoundPair>::new());
        match second {
            Some(second) => cells.between(&lattice, &first, &second, cutoff, PairImages::Minimum, &mut found)?,
            None => cells.within(&lattice, &first, cutoff, PairImages::Minimum, &mut found)?,
        }
        Ok(found)
    });
    let found = found.map_err(|error| to_python(&error))?;
    let pairs: Vec<u32> = found.iter().flat_map(|pair| [pair.first, pair.second]).collect();
    let distances: Vec<f64> = found.iter().map(|pair| pair.distance).collect();
    Ok((pairs.into_pyarray(py).reshape([found.len(), 2])?, distances.into_pyarray(py)))
}

fn row(positions: &PyReadonlyArray2<'_, f32>) -> PyResult<Vec<f32>> {
    match positions.as_slice() {
        Ok(row) if positions.shape()[1] == 3 => Ok(row.to_vec()),
        _ => Err(invalid("positions must be C-contiguous, (n, 3)")),
    }
}

/// The distance of each atom of `first` from the same one of `second`, (n, 3), as kernels of given pairs compute it.
/// Nearest images in a cell, (3, 3), whose edges `periodic` repeat.
#[pyfunction]
pub fn pair_distances<'py>(
    py: Python<'py>,
    first: PyReadonlyArray2<'py, f32>,
    second: PyReadonlyArray2<'py, f32>,
    cell: [[f64; 3]; 3],
    periodic: [bool; 3],
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let rows = [row(&first)?, row(&second)?];
    let mut apart = vec![0.0; rows[0].len() / 3];
    let computed = py.detach(|| {
        let lattice = Lattice::new(&cell, periodic)?;
        let points = [Points::row(&rows[0])?, Points::row(&rows[1])?];
        distances(Cpu::detect(), points, &lattice, Results::Double(&mut apart))
    });
    computed.map_err(|error| to_python(&error))?;
    Ok(apart.into_pyarray(py))
}

/// The shortest image of each vector, (n, 3), in a cell, (3, 3), whose edges `periodic` repeat.
#[pyfunction]
pub fn nearest_images<'py>(
    py: Python<'py>,
    vectors: PyReadonlyArray2<'py, f64>,
    cell: [[f64; 3]; 3],
    periodic: [bool; 3],
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let given = match vectors.as_slice() {
        Ok(given) if vectors.shape()[1] == 3 => given.as_chunks::<3>().0,
        _ => return Err(invalid("vectors must be C-contiguous, (n, 3)")),
    };
    let lattice = Lattice::new(&cell, periodic).map_err(|error| to_python(&error))?;
    let nearest: Vec<f64> = given.iter().flat_map(|vector| lattice.nearest(*vector)).collect();
    nearest.into_pyarray(py).reshape([given.len(), 3])
}
