//! Single XTC frames, encoded: only for tests that compare them with other libraries.

use kinema_core::error::catch_panics;
use kinema_core::format::xtc::encode::{
    EncodeScratch, FrameToEncode, IntegersToEncode, decode_integers, encode, encode_integers,
};
use kinema_core::selection::AtomSelection;
use numpy::{PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{invalid, to_python};

/// One frame.
#[pyfunction]
#[pyo3(name = "_encode_xtc_frame", signature = (positions, cell, step, time, precision, long=false))]
pub fn encode_xtc_frame<'py>(
    py: Python<'py>,
    positions: PyReadonlyArray2<'py, f32>,
    cell: [[f32; 3]; 3],
    step: i32,
    time: f32,
    precision: f32,
    long: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    if positions.shape()[1] != 3 {
        return Err(invalid("positions must have three columns"));
    }
    let positions = positions.as_slice()?.as_chunks::<3>().0;
    let work = || {
        let mut out = Vec::new();
        let frame = FrameToEncode { step, time, cell, positions, precision, long };
        encode(&frame, &mut EncodeScratch::default(), &mut out)?;
        Ok(out)
    };
    let out = catch_panics(work).map_err(|error| to_python(&error))?;
    Ok(PyBytes::new(py, &out))
}

/// Some atoms of an encoded frame, through integers.
#[pyfunction]
#[pyo3(name = "_reencode_xtc_frame", signature = (frame, n_atoms, atoms=None))]
pub fn reencode_xtc_frame<'py>(
    py: Python<'py>,
    frame: &[u8],
    n_atoms: u32,
    atoms: Option<Vec<u32>>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let work = || {
        let atoms = match atoms {
            None => AtomSelection::all(n_atoms),
            Some(atoms) => AtomSelection::from_sorted(atoms, n_atoms)?,
        };
        let (mut integers, mut out) = (Vec::new(), Vec::new());
        let found = decode_integers(frame, 0, &atoms, &mut Vec::new(), &mut integers)?;
        let Some(precision) = found.precision else { return Ok(None) };
        encode_integers(
            &IntegersToEncode {
                step: found.step,
                time: found.time,
                cell: found.cell,
                integers: &integers,
                precision,
                long: found.long,
            },
            &mut out,
        )?;
        Ok(Some(out))
    };
    let out = catch_panics(work).map_err(|error| to_python(&error))?;
    Ok(out.map(|out| PyBytes::new(py, &out)))
}
