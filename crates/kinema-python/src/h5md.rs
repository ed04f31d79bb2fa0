//! HDF5 trajectories: what `kinema.h5md` says of a file's structure becomes a decoder of its bytes.
//!
//! It opens no file; libhdf5 is called by Python (`describe`), and by the readers of rows that Rust cannot read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kinema_core::container::hdf5::array::{Array, Description};
use kinema_core::container::hdf5::filters::StoredFilter;
use kinema_core::container::hdf5::number::Number;
use kinema_core::format::h5md::{Field, H5mdDecoder, ReadRows, RowValues, Rows, Told};
use kinema_core::format::{Decoder, ReadStructure};
use kinema_core::{Error, ErrorKind, Result};
use numpy::ndarray::ArrayViewD;
use numpy::{AllowTypeChange, PyArray1, PyArrayLike1, PyArrayLikeDyn, PyReadonlyArray1, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::from_python;

/// The Python function that describes a file: path -> `kinema.h5md.H5mdDescription`.
pub struct Describe(pub Py<PyAny>);

impl ReadStructure for Describe {
    fn open(&self, path: &Path) -> Result<Arc<dyn Decoder>> {
        let told = Python::attach(|py| -> PyResult<Result<Told>> { told(&self.0.bind(py).call1((path,))?) });
        let told = told.map_err(|error| from_python(&error))??;
        Ok(Arc::new(H5mdDecoder::new(told)?))
    }
}

/// A Python function that reads rows: (n,) int64 -> (n, atoms, 3) of float32, or whatever float64 holds.
struct RowReader(Py<PyAny>);

impl ReadRows for RowReader {
    fn read(&self, rows: &[i64]) -> Result<RowValues> {
        let read = |py: Python<'_>| -> PyResult<RowValues> {
            let found = self.0.bind(py).call1((PyArray1::from_slice(py, rows),))?;
            if let Ok(narrow) = found.extract::<PyReadonlyArrayDyn<'_, f32>>() {
                return Ok(RowValues::Narrow(in_order(narrow.as_array())));
            }
            let wide: PyArrayLikeDyn<'_, f64, AllowTypeChange> = found.extract()?;
            Ok(RowValues::Wide(in_order(wide.as_array())))
        };
        Python::attach(read).map_err(|error| from_python(&error))
    }
}

fn in_order<T: Copy>(values: ArrayViewD<'_, T>) -> Vec<T> {
    match values.as_slice() {
        Some(values) => values.to_vec(),
        None => values.iter().copied().collect(),
    }
}

/// The outer result is Python's, the inner that of the checks.
fn told(described: &Bound<'_, PyAny>) -> PyResult<Result<Told>> {
    let get = |name| described.getattr(name);
    let mut vectors = [None, None, None];
    for (vector, name) in vectors.iter_mut().zip(["positions", "velocities", "forces"]) {
        *vector = match field(&get(name)?, name)? {
            Some(Ok(field)) => Some(field),
            Some(Err(error)) => return Ok(Err(error)),
            None => None,
        };
    }
    let cell = match field(&get("cell")?, "cell")? {
        Some(Ok(field)) => Some(field),
        Some(Err(error)) => return Ok(Err(error)),
        None => None,
    };
    let steps: Option<PyReadonlyArray1<'_, i64>> = get("steps")?.extract()?;
    let times: Option<PyReadonlyArray1<'_, f64>> = get("times")?.extract()?;
    Ok(Ok(Told {
        n_atoms: get("n_atoms")?.extract()?,
        n_frames: get("n_frames")?.extract()?,
        steps: steps.map(|steps| steps.as_array().to_vec()),
        times: times.map(|times| times.as_array().to_vec()),
        time_scale: get("time_scale")?.extract()?,
        vectors,
        cell,
        other_files: get("other_files")?.extract::<Vec<PathBuf>>()?,
        variant: get("variant")?.extract()?,
        remarks: get("remarks")?.extract()?,
        warnings: get("warnings")?.extract()?,
    }))
}

fn field(described: &Bound<'_, PyAny>, name: &'static str) -> PyResult<Option<Result<Field>>> {
    if described.is_none() {
        return Ok(None);
    }
    let get = |name| described.getattr(name);
    let fixed: bool = get("fixed")?.extract()?;
    let mut flat = false;
    let mut pieces = Vec::new();
    for piece in get("pieces")?.try_iter()? {
        let (first, stored): (u64, Bound<'_, PyAny>) = piece?.extract()?;
        let (description, is_flat) = match array(&stored, fixed, name)? {
            Ok(found) => found,
            Err(error) => return Ok(Some(Err(error))),
        };
        flat = is_flat;
        match Array::new(description) {
            Ok(array) => pieces.push((first, array)),
            Err(error) => return Ok(Some(Err(error))),
        }
    }
    let reader = get("reader")?;
    let rows = if reader.is_none() {
        Rows::Stored(pieces)
    } else {
        Rows::Foreign(Arc::new(RowReader(reader.unbind())), pieces)
    };
    let row_of: Option<PyReadonlyArray1<'_, i64>> = get("rows")?.extract()?;
    Ok(Some(Ok(Field {
        name,
        rows,
        row_of: row_of.map(|rows| rows.as_array().to_vec().into()),
        fixed,
        scale: get("scale")?.extract()?,
        flat,
    })))
}

/// A stored array as frames x units x components, and whether its units are numbers rather than atoms.
fn array(stored: &Bound<'_, PyAny>, fixed: bool, field: &str) -> PyResult<Result<(Description, bool)>> {
    let get = |name| stored.getattr(name);
    let name: String = get("name")?.extract()?;
    let shape: Vec<u64> = get("shape")?.extract()?;
    let chunks: Option<Vec<u64>> = get("chunks")?.extract()?;
    let flat = field != "cell" && shape.len() + usize::from(fixed) == 2;
    // a fixed array is one frame; a cuboid's edges are one vector; frames x 3N have numbers for units
    let three = |mut dims: Vec<u64>| -> Option<[u64; 3]> {
        if fixed {
            dims.insert(0, 1);
        }
        if dims.len() == 2 {
            dims.insert(if flat { 2 } else { 1 }, 1);
        }
        dims.try_into().ok()
    };
    let unfit = || {
        let what = format!("data set {name} has a shape that is not read for {field}, found {shape:?}");
        Error::new(ErrorKind::Unsupported, what)
    };
    let Some(shaped) = three(shape.clone()) else { return Ok(Err(unfit())) };
    let chunked = match chunks {
        None => None,
        Some(chunks) => match three(chunks) {
            Some(chunks) => Some(chunks),
            None => return Ok(Err(unfit())),
        },
    };
    let number = match Number::from_name(&get("dtype")?.extract::<String>()?) {
        Ok(number) => number,
        Err(error) => return Ok(Err(Error::new(error.kind(), format!("data set {name}: {}", error.what())))),
    };
    let addresses: PyArrayLike1<'_, u64> = get("addresses")?.extract()?;
    let sizes: PyArrayLike1<'_, u64> = get("sizes")?.extract()?;
    let masks: PyArrayLike1<'_, u32> = get("masks")?.extract()?;
    let filters: Vec<(u32, Vec<u32>)> = get("filters")?.extract()?;
    let inline: Option<Bound<'_, PyBytes>> = get("inline")?.extract()?;
    let description = Description {
        file: get("file")?.extract()?,
        shape: shaped,
        number,
        chunks: chunked,
        addresses: addresses.as_array().to_vec(),
        sizes: sizes.as_array().to_vec(),
        masks: masks.as_array().to_vec(),
        filters: filters.into_iter().map(|(id, values)| StoredFilter { id, values }).collect(),
        partial_chunks_unfiltered: get("partial_chunks_unfiltered")?.extract()?,
        fill: get("fill")?.extract::<Bound<'_, PyBytes>>()?.as_bytes().to_vec(),
        inline: inline.map(|bytes| bytes.as_bytes().to_vec()),
        name,
    };
    Ok(Ok((description, flat)))
}
