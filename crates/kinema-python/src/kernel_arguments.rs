//! Arguments of kernels as Python objects, and back.

use kinema_analysis::Argument;
use numpy::ndarray::{ArrayD, IxDyn};
use numpy::{IntoPyArray, PyArrayDyn, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::errors::invalid;

/// None, bool, int, float, str, arrays of uint32 (atoms), float64 or float32, and lists or tuples of these.
pub fn from_python(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Argument> {
    if value.is_none() {
        return Ok(Argument::None);
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Argument::Flag(flag.is_true()));
    }
    if let Ok(number) = value.cast::<PyInt>() {
        return Ok(Argument::Integer(number.extract()?));
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(Argument::Number(number.extract()?));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Argument::Text(text.extract()?));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.map(|item| from_python(name, &item?));
        return Ok(Argument::List(items.collect::<PyResult<_>>()?));
    }
    if let Ok(atoms) = value.cast::<PyArrayDyn<u32>>() {
        let indices = atoms.readonly().as_array().iter().copied().collect();
        return Ok(Argument::Atoms { shape: atoms.shape().to_vec(), indices });
    }
    if let Ok(numbers) = value.cast::<PyArrayDyn<f64>>() {
        let values = numbers.readonly().as_array().iter().copied().collect();
        return Ok(Argument::Numbers { shape: numbers.shape().to_vec(), values });
    }
    if let Ok(numbers) = value.cast::<PyArrayDyn<f32>>() {
        let values = numbers.readonly().as_array().iter().copied().collect();
        return Ok(Argument::Singles { shape: numbers.shape().to_vec(), values });
    }
    let found = match value.cast::<PyUntypedArray>() {
        Ok(array) => format!("an array of {}", array.dtype()),
        Err(_) => value.get_type().name()?.to_string(),
    };
    Err(invalid(format!("argument {name} of a kernel cannot be {found}")))
}

/// An array of these dimensions.
pub fn shaped<T>(shape: &[usize], numbers: Vec<T>) -> PyResult<ArrayD<T>> {
    ArrayD::from_shape_vec(IxDyn(shape), numbers).map_err(|error| invalid(error.to_string()))
}

/// The same object again; a new array.
pub fn to_python<'py>(py: Python<'py>, argument: &Argument) -> PyResult<Bound<'py, PyAny>> {
    match argument {
        Argument::None => Ok(py.None().into_bound(py)),
        Argument::Flag(flag) => flag.into_bound_py_any(py),
        Argument::Integer(number) => number.into_bound_py_any(py),
        Argument::Number(number) => number.into_bound_py_any(py),
        Argument::Text(text) => text.into_bound_py_any(py),
        Argument::Atoms { shape, indices } => Ok(shaped(shape, indices.clone())?.into_pyarray(py).into_any()),
        Argument::Numbers { shape, values } => Ok(shaped(shape, values.clone())?.into_pyarray(py).into_any()),
        Argument::Singles { shape, values } => Ok(shaped(shape, values.clone())?.into_pyarray(py).into_any()),
        Argument::List(items) => {
            let items = items.iter().map(|item| to_python(py, item)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyTuple::new(py, items)?.into_any())
        }
    }
}
