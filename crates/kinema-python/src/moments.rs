//! Moments of arrays of the caller: of their columns, or of vectors in groups.

use kinema_core::pipeline::arrays::moments::{self, Accumulator, Moments, NumberType};
use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{invalid, to_python};
use crate::signals::run_inline;

/// As a dictionary; see the stub.
pub fn arrays(py: Python<'_>, moments: Moments) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("count", moments.count)?;
    dict.set_item("mean", moments.mean.into_pyarray(py))?;
    dict.set_item("squares", moments.squares.into_pyarray(py))?;
    dict.set_item("least", moments.least.into_pyarray(py))?;
    dict.set_item("largest", moments.largest.into_pyarray(py))?;
    Ok(dict)
}

/// Moments of the columns of rows; see the stub.
#[pyfunction]
pub fn column_moments<'py>(
    py: Python<'py>,
    values: PyReadonlyArray1<'py, u8>,
    columns: usize,
    dtype: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let number = NumberType::named(dtype).map_err(|error| to_python(&error))?;
    let bytes = values.as_slice().map_err(|_| invalid("values must be C-contiguous"))?;
    if columns == 0 || !bytes.len().is_multiple_of(columns * number.size()) {
        return Err(invalid("values are not whole rows"));
    }
    let found = run_inline(py, |_| {
        let mut all = Accumulator::new(number, columns);
        all.add(bytes);
        Ok(all.finish())
    })?;
    arrays(py, found)
}

/// Moments of the vectors of each group; see the stub.
#[pyfunction]
pub fn group_moments<'py>(
    py: Python<'py>,
    vectors: &Bound<'py, PyAny>,
    groups: PyReadonlyArray1<'py, u8>,
    n_groups: usize,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let groups = groups.as_slice().map_err(|_| invalid("groups must be C-contiguous"))?;
    let flat = |_| invalid("vectors must be C-contiguous");
    let found = if let Ok(values) = vectors.extract::<PyReadonlyArray1<'py, f32>>() {
        let values = values.as_slice().map_err(flat)?.as_chunks::<3>().0;
        run_inline(py, |_| moments::measure_groups(values, groups, n_groups))?
    } else {
        let values = vectors.extract::<PyReadonlyArray1<'py, f64>>()?;
        let values = values.as_slice().map_err(flat)?.as_chunks::<3>().0;
        run_inline(py, |_| moments::measure_groups(values, groups, n_groups))?
    };
    found.into_iter().map(|one| arrays(py, one)).collect()
}
