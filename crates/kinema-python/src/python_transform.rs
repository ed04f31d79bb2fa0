//! Transforms written in Python: a function that is called frame by frame, with the GIL taken for the call.
//!
//! An exception that it raises becomes an error with the frame, and this error carries the exception to the caller.

use std::sync::Arc;

use kinema_core::frame::Fields;
use kinema_core::reduce::{AtomMap, FrameMut, Needs, Transform};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray2, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::from_python;

/// A transform that calls Python: an object like `kinema.trajectory.function_transform.FunctionAdapter`, for some atoms
/// in their requested order.
pub struct PythonTransform {
    adapter: Py<PyAny>,
    atoms: AtomSelection,
    vectors: Fields,
}

impl PythonTransform {
    /// A transform of `vectors` of `atoms`, each of which occurs once, and of the cell.
    pub fn new(adapter: Py<PyAny>, atoms: AtomSelection, vectors: Fields) -> Self {
        Self { adapter, atoms, vectors }
    }

    fn call(&self, py: Python<'_>, frame: &mut FrameMut<'_>, places: &[u32]) -> PyResult<()> {
        let vectors = PyDict::new(py);
        for (field, values) in Fields::VECTORS.into_iter().zip([&*frame.positions, &*frame.velocities, &*frame.forces])
        {
            if self.vectors.contains(field) {
                let atoms = values.as_chunks::<3>().0;
                let chosen: Vec<f32> = places.iter().flat_map(|&place| atoms[place as usize]).collect();
                let shaped = Array2::from_shape_vec((places.len(), 3), chosen);
                let shaped = shaped.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
                vectors.set_item(field.names()[0], shaped.into_pyarray(py))?;
            }
        }
        let cell = PyArray2::from_vec2(py, &frame.stamp.cell.map(|row| row.to_vec()))?;
        let place = (frame.number, frame.stamp.step, frame.stamp.time);
        let changed = self.adapter.bind(py).call1((place, cell, vectors))?;
        let (cell, vectors): (Bound<'_, PyArray2<f64>>, Bound<'_, PyDict>) = changed.extract()?;
        for (row, given) in frame.stamp.cell.iter_mut().zip(cell.readonly().as_array().rows()) {
            row.iter_mut().zip(given).for_each(|(value, given)| *value = *given);
        }
        let fields = [&mut *frame.positions, &mut *frame.velocities, &mut *frame.forces];
        for (field, values) in Fields::VECTORS.into_iter().zip(fields) {
            let Some(given) = vectors.get_item(field.names()[0])? else { continue };
            let given = given.cast::<PyArray2<f32>>()?;
            if given.shape() != [places.len(), 3] {
                return Err(PyRuntimeError::new_err("the adapter has passed on an array of another shape"));
            }
            let atoms = values.as_chunks_mut::<3>().0;
            for (&place, given) in places.iter().zip(given.readonly().as_array().rows()) {
                atoms[place as usize].iter_mut().zip(given).for_each(|(value, given)| *value = *given);
            }
        }
        Ok(())
    }
}

impl Transform for PythonTransform {
    /// Places of the atoms in a row, in their requested order.
    type State = Vec<u32>;

    fn id(&self) -> &'static str {
        "python/1"
    }

    fn needs(&self) -> Needs {
        Needs { fields: self.vectors | Fields::CELL, atom_sets: vec![self.atoms.clone()] }
    }

    fn state(&self, _: &AtomSelection, sets: &[AtomMap]) -> Result<Vec<u32>> {
        let places = sets.first().and_then(AtomMap::places);
        let place = |at: u32| places.map_or(at, |places| places[at as usize]);
        Ok(match self.atoms.columns() {
            None => (0..self.atoms.len() as u32).map(place).collect(),
            Some(columns) => columns.iter().map(|&at| place(at)).collect(),
        })
    }

    fn apply(&self, frame: &mut FrameMut<'_>, places: &mut Vec<u32>) -> Result<()> {
        Python::attach(|py| self.call(py, frame, places).map_err(|raised| carried(py, raised)))
    }
}

/// The error of what a function has raised. Kinema's own keep their kind.
fn carried(py: Python<'_>, raised: PyErr) -> Error {
    let error = from_python(&raised);
    let kind = match error.kind() {
        _ if !raised.is_instance_of::<pyo3::exceptions::PyException>(py) => ErrorKind::Cancelled,
        ErrorKind::Internal => ErrorKind::InvalidArgument,
        known => known,
    };
    Error::new(kind, error.what()).caused_by(Arc::new(raised))
}
