//! HDF5 trajectories: conversion of `kinema.formats.h5md.H5mdDescription` to a decoder.
//!
//! It opens no trajectory; libhdf5 is called by Python (`describe`), and by the readers of rows that Rust cannot read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kinema_core::container::hdf5::array::{Array, ArrayDescription};
use kinema_core::container::hdf5::filters::StoredFilter;
use kinema_core::container::hdf5::number::Number;
use kinema_core::error::catch_panics;
use kinema_core::format::h5md::{Field, H5mdDecoder, H5mdDescription, ReadRows, RowValues, Rows};
use kinema_core::format::{Decoder, ReadStructure};
use kinema_core::source::{Files, OpenSource};
use kinema_core::{Error, ErrorKind, Result};
use numpy::ndarray::ArrayViewD;
use numpy::{AllowTypeChange, PyArray1, PyArrayLike1, PyArrayLikeDyn, PyReadonlyArray1, PyReadonlyArrayDyn};
use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{from_python, to_python};
use crate::signals::Stops;

/// The Python functions that describe a file: path -> `kinema.formats.h5md.H5mdDescription`.
pub struct Describe {
    /// Describes HDF5 files.
    pub hdf5: Option<Py<PyAny>>,
    /// Describes files in which no format is found; returns `None` for files that it does not know. It also takes a
    /// function that says whether to stop.
    pub other: Option<Py<PyAny>>,
    /// Stops of the calls that open files.
    pub stops: Stops,
}

impl ReadStructure for Describe {
    fn open(&self, path: &Path) -> Result<Arc<dyn Decoder>> {
        let Some(describe) = &self.hdf5 else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "HDF5 files are opened with libhdf5, which is not used here",
            ));
        };
        let description = Python::attach(|py| read_description(&python(describe.bind(py).call1((path,)))?))?;
        Ok(Arc::new(H5mdDecoder::new(description)?))
    }

    fn open_other(&self, path: &Path) -> Result<Option<Arc<dyn Decoder>>> {
        let Some(describe) = &self.other else { return Ok(None) };
        let description = Python::attach(|py| {
            let stops = Bound::new(py, self.stops.clone());
            let described = python(stops.and_then(|stops| describe.bind(py).call1((path, stops))))?;
            if described.is_none() { Ok(None) } else { read_description(&described).map(Some) }
        })?;
        match description {
            None => Ok(None),
            Some(description) => Ok(Some(Arc::new(H5mdDecoder::new(description)?))),
        }
    }
}

/// A Python function that reads rows: (n,) int64 -> (n, atoms, 3) of float32, or of any type that fits into float64.
struct RowReader(Py<PyAny>);

impl ReadRows for RowReader {
    fn read(&self, rows: &[i64]) -> Result<RowValues> {
        let read = |py: Python<'_>| -> PyResult<RowValues> {
            let found = self.0.bind(py).call1((PyArray1::from_slice(py, rows),))?;
            if let Ok(narrow) = found.extract::<PyReadonlyArrayDyn<'_, f32>>() {
                return Ok(RowValues::Narrow(standard_order(narrow.as_array())));
            }
            let wide: PyArrayLikeDyn<'_, f64, AllowTypeChange> = found.extract()?;
            Ok(RowValues::Wide(standard_order(wide.as_array())))
        };
        python(Python::attach(read))
    }
}

fn standard_order<T: Copy>(values: ArrayViewD<'_, T>) -> Vec<T> {
    match values.as_slice() {
        Some(values) => values.to_vec(),
        None => values.iter().copied().collect(),
    }
}

/// Python's result as the core's.
fn python<T>(result: PyResult<T>) -> Result<T> {
    result.map_err(|error| from_python(&error))
}

/// An attribute of a description.
fn get<'py, T: FromPyObjectOwned<'py>>(described: &Bound<'py, PyAny>, name: &str) -> Result<T> {
    python(described.getattr(name).and_then(|value| value.extract().map_err(Into::into)))
}

fn read_description(described: &Bound<'_, PyAny>) -> Result<H5mdDescription> {
    let steps: Option<PyReadonlyArray1<'_, i64>> = get(described, "steps")?;
    let times: Option<PyReadonlyArray1<'_, f64>> = get(described, "times")?;
    let vectors = [field(described, "positions")?, field(described, "velocities")?, field(described, "forces")?];
    Ok(H5mdDescription {
        format: Some(get(described, "format")?),
        n_atoms: get(described, "n_atoms")?,
        n_frames: get(described, "n_frames")?,
        steps: steps.map(|steps| steps.as_array().to_vec()),
        times: times.map(|times| times.as_array().to_vec()),
        time_scale: get(described, "time_scale")?,
        vectors,
        cell: field(described, "cell")?,
        periodic: get(described, "periodic")?,
        other_files: get(described, "other_files")?,
        reads_forward: get(described, "reads_forward")?,
        cut_at: get(described, "cut_at")?,
        variant: get(described, "variant")?,
        remarks: get(described, "remarks")?,
        warnings: get(described, "warnings")?,
    })
}

fn field(described: &Bound<'_, PyAny>, name: &'static str) -> Result<Option<Field>> {
    let Some(described) = get::<Option<Bound<'_, PyAny>>>(described, name)? else { return Ok(None) };
    let fixed: bool = get(&described, "fixed")?;
    let mut flat = false;
    let mut pieces = Vec::new();
    for (first, stored) in get::<Vec<(u64, Bound<'_, PyAny>)>>(&described, "pieces")? {
        let (description, is_flat) = array(&stored, fixed, name)?;
        flat = is_flat;
        pieces.push((first, Array::new(description)?));
    }
    let rows = match get::<Option<Py<PyAny>>>(&described, "reader")? {
        None => Rows::Stored(pieces),
        Some(reader) => Rows::External(Arc::new(RowReader(reader)), pieces),
    };
    let row_of: Option<PyReadonlyArray1<'_, i64>> = get(&described, "rows")?;
    Ok(Some(Field {
        name,
        rows,
        row_of: row_of.map(|rows| rows.as_array().to_vec().into()),
        fixed,
        scale: get(&described, "scale")?,
        flat,
        fills: get(&described, "fills")?,
    }))
}

/// A stored array as frames x units x components, and whether its units are numbers rather than atoms.
pub(crate) fn array(stored: &Bound<'_, PyAny>, fixed: bool, field: &str) -> Result<(ArrayDescription, bool)> {
    let name: String = get(stored, "name")?;
    let shape: Vec<u64> = get(stored, "shape")?;
    let chunks: Option<Vec<u64>> = get(stored, "chunks")?;
    let flat = field != "cell" && shape.len() + usize::from(fixed) == 2;
    // a fixed array is one frame; a cuboid's edges are one vector; frames x 3N have numbers as units
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
    let shaped = three(shape.clone()).ok_or_else(unfit)?;
    let chunks = chunks.map(|chunks| three(chunks).ok_or_else(unfit)).transpose()?;
    let number = Number::from_name(&get::<String>(stored, "dtype")?)
        .map_err(|error| Error::new(error.kind(), format!("data set {name}: {}", error.what())))?;
    let addresses: PyArrayLike1<'_, u64> = get(stored, "addresses")?;
    let sizes: PyArrayLike1<'_, u64> = get(stored, "sizes")?;
    let masks: PyArrayLike1<'_, u32> = get(stored, "masks")?;
    let filters: Vec<(u32, Vec<u32>)> = get(stored, "filters")?;
    let inline: Option<Bound<'_, PyBytes>> = get(stored, "inline")?;
    let description = ArrayDescription {
        file: get(stored, "file")?,
        shape: shaped,
        number,
        chunks,
        addresses: addresses.as_array().to_vec(),
        sizes: sizes.as_array().to_vec(),
        masks: masks.as_array().to_vec(),
        filters: filters.into_iter().map(|(id, values)| StoredFilter { id, values }).collect(),
        partial_chunks_unfiltered: get(stored, "partial_chunks_unfiltered")?,
        fill: get::<Bound<'_, PyBytes>>(stored, "fill")?.as_bytes().to_vec(),
        inline: inline.map(|bytes| bytes.as_bytes().to_vec()),
        name,
    };
    Ok((description, flat))
}

/// The numbers of a stored one-dimensional array, as the bytes in the file.
#[pyfunction]
pub fn read_series<'py>(py: Python<'py>, path: PathBuf, stored: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    // as one frame of one unit
    let (description, _) = array(stored, true, "cell").map_err(|error| to_python(&error))?;
    let read = || Array::new(description)?.read_row(&*Files.open(&path)?);
    let bytes = py.detach(|| catch_panics(read)).map_err(|error| to_python(&error.with_path(&path)))?;
    Ok(PyBytes::new(py, &bytes))
}
