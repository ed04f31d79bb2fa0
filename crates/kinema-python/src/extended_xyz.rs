//! `extended_xyz`: frames in arrays of the caller as text.

use kinema_core::pipeline::arrays::extended_xyz::{Frames, Key, Numbers};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arguments;
use crate::errors::invalid;
use crate::signals::run_interruptible;

/// A one-dimensional array of one of three types.
#[derive(FromPyObject)]
pub enum Values<'py> {
    F32(PyReadonlyArray1<'py, f32>),
    F64(PyReadonlyArray1<'py, f64>),
    I64(PyReadonlyArray1<'py, i64>),
}

impl Values<'_> {
    fn numbers(&self) -> PyResult<Numbers<'_>> {
        let flat = |_| invalid("arrays must be C-contiguous");
        Ok(match self {
            Self::F32(values) => Numbers::F32(values.as_slice().map_err(flat)?),
            Self::F64(values) => Numbers::F64(values.as_slice().map_err(flat)?),
            Self::I64(values) => Numbers::I64(values.as_slice().map_err(flat)?),
        })
    }
}

/// Frames as text; see the stub.
#[pyfunction]
#[pyo3(signature = (begins, species, symbols, cells, properties, vectors, keys, workers=0))]
#[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub fn extended_xyz<'py>(
    py: Python<'py>,
    begins: PyReadonlyArray1<'py, i64>,
    species: PyReadonlyArray1<'py, u8>,
    symbols: Vec<String>,
    cells: PyReadonlyArray1<'py, f64>,
    properties: &str,
    vectors: Vec<Values<'py>>,
    keys: Vec<(String, Values<'py>, usize)>,
    workers: usize,
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let flat = |_| invalid("arrays must be C-contiguous");
    let vectors = vectors.iter().map(Values::numbers).collect::<PyResult<Vec<_>>>()?;
    let keys = keys
        .iter()
        .map(|(name, values, width)| Ok(Key { name: name.clone(), values: values.numbers()?, width: *width }));
    let keys = keys.collect::<PyResult<Vec<_>>>()?;
    let frames = Frames {
        begins: begins.as_slice().map_err(flat)?,
        species: species.as_slice().map_err(flat)?,
        symbols: &symbols,
        cells: cells.as_slice().map_err(flat)?,
        properties,
        vectors: &vectors,
        keys: &keys,
    };
    let workers = arguments::workers(workers);
    let texts = run_interruptible(py, None, 0, |progress| frames.text(workers, progress))?;
    Ok(texts.iter().map(|text| PyBytes::new(py, text.as_bytes())).collect())
}
