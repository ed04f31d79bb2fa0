//! DL_POLY's files for Python: their atoms, and the head of a HISTORY file for code that copies frames.

use std::path::PathBuf;

use kinema_core::Result;
use kinema_core::format::dlpoly::atoms::{AtomNames, read_atoms};
use kinema_core::format::dlpoly::{Config, Head, History};
use kinema_core::format::{Format, detect};
use kinema_core::source::{Files, OpenSource};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::to_python;

/// The head of a HISTORY file with records of one width.
#[pyfunction]
pub fn history_header(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let read = || -> Result<Head> { Head::read(&*Files.open(&path)?) };
    let head = py.detach(read).map_err(|error| to_python(&error.with_format(History.info().name).with_path(&path)))?;
    let result = PyDict::new(py);
    result.set_item("data", PyBytes::new(py, &head.data))?;
    result.set_item("record_bytes", head.width)?;
    result.set_item("frame_records", head.records)?;
    let [frames, records] = head.counts;
    result.set_item("frames_at", (frames.start, frames.end))?;
    result.set_item("records_at", (records.start, records.end))?;
    Ok(result)
}

/// Names, masses and charges of the atoms of a HISTORY or CONFIG file; None for values that the file lacks.
#[pyfunction]
pub fn dlpoly_atoms(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let read = || -> Result<AtomNames> { read_atoms(&*Files.open(&path)?) };
    let atoms = py.detach(read).map_err(|error| to_python(&error.with_path(&path)))?;
    let result = PyDict::new(py);
    result.set_item("names", atoms.names)?;
    result.set_item("masses", atoms.masses)?;
    result.set_item("charges", atoms.charges)?;
    Ok(result)
}

/// Whether a file is a HISTORY or CONFIG file by its first bytes.
#[pyfunction]
pub fn has_dlpoly_atoms(py: Python<'_>, path: PathBuf) -> bool {
    let ours = [History.info().name, Config.info().name];
    let found = py.detach(|| detect(&*Files.open(&path)?));
    found.is_ok_and(|format| ours.contains(&format.info().name))
}
