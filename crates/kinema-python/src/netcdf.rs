//! `netcdf_header`: the header of an AMBER NetCDF file, for code that copies frames byte for byte.

use std::path::PathBuf;

use kinema_core::Result;
use kinema_core::format::Format;
use kinema_core::format::netcdf::{Head, Netcdf};
use kinema_core::source::{Files, OpenSource};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::to_python;

/// The header of an AMBER NetCDF file in a classic format, and the sizes of its frames.
#[pyfunction]
pub fn netcdf_header(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let read = || -> Result<Head> { Head::read(&*Files.open(&path)?) };
    let head = py.detach(read).map_err(|error| to_python(&error.in_format(Netcdf.info().name).at_path(&path)))?;
    let result = PyDict::new(py);
    result.set_item("data", PyBytes::new(py, &head.data))?;
    result.set_item("first_frame", head.first)?;
    result.set_item("count_bytes", head.count_len)?;
    result.set_item("stride", head.stride)?;
    result.set_item("frame_bytes", head.frame_len)?;
    Ok(result)
}
