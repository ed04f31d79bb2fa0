//! `dcd_header`: the header of a DCD file, for code that copies frames byte for byte.

use std::path::PathBuf;

use kinema_core::Result;
use kinema_core::format::Format;
use kinema_core::format::dcd::{Dcd, DcdHeader};
use kinema_core::source::{Files, OpenSource};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::to_python;

/// The header of a DCD file, and the sizes of its frames.
#[pyfunction]
pub fn dcd_header(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let read = || -> Result<(DcdHeader, Vec<u8>, u64)> {
        let source = Files.open(&path)?;
        let header = DcdHeader::read(&*source)?;
        let size = source.len()?;
        let mut data = vec![0; header.first_frame as usize];
        source.read_exact_at(0, &mut data)?;
        Ok((header, data, size))
    };
    let (header, data, size) =
        py.detach(read).map_err(|error| to_python(&error.with_format(Dcd.info().name).with_path(&path)))?;
    let (n_frames, leftover) = header.frames_in(size);
    let result = PyDict::new(py);
    result.set_item("data", PyBytes::new(py, &data))?;
    result.set_item("byte_order", if header.layout.big_endian { ">" } else { "<" })?;
    result.set_item("marker_bytes", header.layout.marker_len())?;
    result.set_item("kind", if header.velocities { "VELD" } else { "CORD" })?;
    result.set_item("control_offset", header.control_offset())?;
    result.set_item("n_atoms", header.n_atoms)?;
    result.set_item("n_fixed", header.free.as_ref().map_or(0, |free| header.n_atoms as usize - free.len()))?;
    result.set_item("has_cell", header.has_cell)?;
    result.set_item("first_step", header.spacing.first_step)?;
    result.set_item("stride", header.spacing.steps)?;
    result.set_item("claimed_frames", header.claimed_frames)?;
    result.set_item("n_frames", n_frames)?;
    result.set_item("first_frame_bytes", header.frame_len(header.stored_atoms(0)))?;
    result.set_item("frame_bytes", header.frame_len(header.stored_atoms(1)))?;
    result.set_item("leftover_bytes", leftover)?;
    result.set_item("control", header.control)?;
    Ok(result)
}
