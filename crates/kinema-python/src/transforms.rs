//! `Transform`: a change of each frame, pickled as the call that made it.

use std::sync::Arc;

use kinema_analysis::{Arguments, transforms};
use kinema_core::Error;
use kinema_core::reduce::{AnyTransform, Stack, Stage};
use numpy::{PyArray1, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::arguments;
use crate::errors::{invalid, to_python};
use crate::kernel_arguments::from_python;
use crate::kernels::{Reduced, reduced};
use crate::python_transform::PythonTransform;

/// Changes frames before anybody sees them.
#[pyclass(name = "Transform", module = "kinema._core", frozen)]
pub struct PyTransform {
    pub(crate) stage: Stage,
    name: String,
    n_atoms: u32,
    arguments: Py<PyDict>,
}

#[pymethods]
impl PyTransform {
    #[new]
    #[pyo3(signature = (name, n_atoms, *, label=None, **arguments))]
    fn new(
        py: Python<'_>,
        name: &str,
        n_atoms: u32,
        label: Option<&str>,
        arguments: Option<Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let arguments = arguments.unwrap_or_else(|| PyDict::new(py));
        let transform = made(name, n_atoms, &arguments)?;
        let mut bytes = n_atoms.to_le_bytes().to_vec();
        put_bytes(&arguments, &mut bytes)?;
        let stage = Stage { transform, label: label.unwrap_or(name).into(), arguments: bytes.into() };
        Ok(Self { stage, name: name.to_owned(), n_atoms, arguments: arguments.unbind() })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Name and version.
    #[getter]
    fn id(&self) -> &'static str {
        self.stage.transform.id()
    }

    /// The call that made it, in words.
    #[getter]
    fn label(&self) -> &str {
        &self.stage.label
    }

    /// The arguments that it was made from, by name.
    #[getter]
    fn arguments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.arguments.bind(py).copy()
    }

    /// Bytes that only the same transform with the same arguments has.
    #[getter]
    fn identity<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let mut bytes = self.stage.transform.id().as_bytes().to_vec();
        bytes.push(0);
        bytes.extend_from_slice(&self.stage.arguments);
        PyBytes::new(py, &bytes)
    }

    /// Whether it must have seen other frames before one.
    #[getter]
    fn looks_back(&self) -> bool {
        self.stage.transform.looks_back()
    }

    fn __repr__(&self) -> String {
        format!("<Transform {}>", self.stage.label)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        let arguments = self.arguments(py)?;
        arguments.set_item("n_atoms", self.n_atoms)?;
        arguments.set_item("label", &*self.stage.label)?;
        reduced(py, "Transform", &self.name, arguments.unbind())
    }
}

/// The stack of these.
pub fn stack_of(transforms: &[PyRef<'_, PyTransform>]) -> PyResult<Stack> {
    let stages = transforms.iter().map(|transform| transform.stage.clone()).collect();
    Stack::new(stages).map_err(|error| to_python(&error))
}

/// The name of transforms written in Python; their arguments are Python objects.
const PYTHON: &str = "python";

fn made(name: &str, n_atoms: u32, arguments: &Bound<'_, PyDict>) -> PyResult<Arc<dyn AnyTransform>> {
    let checked = |error: Error| to_python(&error);
    if name == PYTHON {
        return Ok(Arc::new(python_transform(n_atoms, arguments)?));
    }
    let info = transforms::named(name).map_err(checked)?;
    let mut given = Arguments::new(n_atoms);
    for (key, value) in arguments.iter() {
        let key: String = key.extract()?;
        let argument = from_python(&key, &value)?;
        given = given.with(&key, argument);
    }
    info.transform(&given).map_err(checked)
}

/// A transform written in Python: `atoms`, names of `fields`, and the `adapter` that is called.
fn python_transform(n_atoms: u32, given: &Bound<'_, PyDict>) -> PyResult<PythonTransform> {
    let argument = |name: &str| {
        given.get_item(name)?.ok_or_else(|| invalid(format!("a transform written in Python needs the argument {name}")))
    };
    let atoms = argument("atoms")?.cast::<PyArray1<u32>>().map(|atoms| arguments::atoms(atoms, n_atoms))??;
    atoms.check_unique().map_err(|error| to_python(&error))?;
    let fields = arguments::fields(&argument("fields")?.extract::<Vec<String>>()?)?;
    Ok(PythonTransform::new(argument("adapter")?.unbind(), atoms, fields))
}

/// Appends bytes that only equal values have.
fn put_bytes(value: &Bound<'_, PyAny>, bytes: &mut Vec<u8>) -> PyResult<()> {
    let mut put = |tag: u8, content: &[u8]| {
        bytes.push(tag);
        bytes.extend_from_slice(&(content.len() as u64).to_le_bytes());
        bytes.extend_from_slice(content);
    };
    if value.is_none() {
        put(b'n', &[]);
    } else if let Ok(flag) = value.cast::<PyBool>() {
        put(b'b', &[u8::from(flag.is_true())]);
    } else if value.is_instance_of::<PyInt>() {
        put(b'i', value.str()?.to_str()?.as_bytes());
    } else if let Ok(number) = value.cast::<PyFloat>() {
        put(b'f', &number.value().to_le_bytes());
    } else if let Ok(text) = value.cast::<PyString>() {
        put(b't', text.to_str()?.as_bytes());
    } else if let Ok(content) = value.cast::<PyBytes>() {
        put(b'y', content.as_bytes());
    } else if let Ok(array) = value.cast::<PyUntypedArray>() {
        put(b'a', format!("{} {:?}", array.dtype().str()?, array.shape()).as_bytes());
        put(b'v', value.call_method0("tobytes")?.cast::<PyBytes>()?.as_bytes());
    } else if let Ok(dict) = value.cast::<PyDict>() {
        let keys = dict.keys();
        keys.sort()?;
        put(b'd', &(keys.len() as u64).to_le_bytes());
        for key in keys {
            put_bytes(&key, bytes)?;
            put_bytes(&value.get_item(key)?, bytes)?;
        }
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items: Vec<Bound<'_, PyAny>> = value.extract()?;
        put(b'l', &(items.len() as u64).to_le_bytes());
        for item in items {
            put_bytes(&item, bytes)?;
        }
    } else {
        // an adapter of a function, which states its own identity
        put(b'o', value.getattr("identity_bytes")?.cast::<PyBytes>()?.as_bytes());
    }
    Ok(())
}
