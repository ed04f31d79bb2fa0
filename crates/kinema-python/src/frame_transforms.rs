//! `FrameTransforms`: transforms for frames that are in memory already, such as time steps of MDAnalysis.

use std::sync::{Mutex, PoisonError};

use kinema_core::frame::{Fields, NO_CELL, Stamp};
use kinema_core::pipeline::{BoundStack, Row};
use kinema_core::selection::AtomSelection;
use numpy::{PyArray2, PyReadonlyArray2, PyReadwriteArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::errors::{invalid, to_python};
use crate::transforms::{PyTransform, stack_of};

/// Changes frames in place, one at a time.
#[pyclass(name = "FrameTransforms", module = "kinema._core", frozen)]
pub struct PyFrameTransforms {
    stack: Mutex<BoundStack>,
    n_atoms: u32,
}

#[pymethods]
impl PyFrameTransforms {
    #[new]
    fn new(transforms: Vec<PyRef<'_, PyTransform>>, n_atoms: u32) -> PyResult<Self> {
        let stack = stack_of(&transforms)?;
        if let Some(stage) = stack.stages().iter().find(|stage| stage.transform.looks_back()) {
            return Err(invalid(format!("{} must see other frames first, and is given single ones", stage.label)));
        }
        if stack.grouping().is_some() {
            return Err(invalid(
                "centres of groups have other positions than the atoms of a frame, which are changed in place",
            ));
        }
        let stack = BoundStack::new(&stack, &AtomSelection::all(n_atoms)).map_err(|error| to_python(&error))?;
        Ok(Self { stack: Mutex::new(stack), n_atoms })
    }

    /// Changes these arrays, and gives the cell.
    #[pyo3(signature = (frame, positions, velocities, forces, cell, periodic, step, time))]
    #[expect(clippy::too_many_arguments, reason = "they are what a frame is")]
    fn apply<'py>(
        &self,
        py: Python<'py>,
        frame: u64,
        mut positions: PyReadwriteArray2<'py, f32>,
        mut velocities: Option<PyReadwriteArray2<'py, f32>>,
        mut forces: Option<PyReadwriteArray2<'py, f32>>,
        cell: PyReadonlyArray2<'py, f64>,
        periodic: [bool; 3],
        step: i64,
        time: f64,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let cell = cell.as_array();
        if cell.shape() != [3, 3] {
            return Err(invalid("a cell must be 3 x 3"));
        }
        let cell = std::array::from_fn(|i| std::array::from_fn(|x| cell[[i, x]]));
        let mut present = if cell == NO_CELL { Fields::NONE } else { Fields::CELL };
        for (field, is_there) in Fields::VECTORS.into_iter().zip([true, velocities.is_some(), forces.is_some()]) {
            if is_there {
                present = present | field;
            }
        }
        let mut stamp = Stamp { cell, periodic, step, time, present };
        let vectors =
            [self.values(Some(&mut positions))?, self.values(velocities.as_mut())?, self.values(forces.as_mut())?];
        let row = Row { number: frame, vectors, stamp: &mut stamp };
        let applied = py.detach(|| {
            let mut stack = self.stack.lock().unwrap_or_else(PoisonError::into_inner);
            let step = stack.step(frame);
            stack.apply(step, row)
        });
        applied.map_err(|error| to_python(&error))?;
        Ok(PyArray2::from_vec2(py, &stamp.cell.map(|row| row.to_vec()))?)
    }
}

impl PyFrameTransforms {
    fn values<'a>(&self, vectors: Option<&'a mut PyReadwriteArray2<'_, f32>>) -> PyResult<&'a mut [f32]> {
        let Some(vectors) = vectors else { return Ok(&mut []) };
        if vectors.shape() != [self.n_atoms as usize, 3] {
            return Err(invalid(format!("vectors must be of {} atoms x 3, found {:?}", self.n_atoms, vectors.shape())));
        }
        vectors.as_slice_mut().map_err(|_| invalid("vectors must be C-contiguous"))
    }
}
