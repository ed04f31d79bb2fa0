//! `Transform`: what is done to each frame, pickled as the call that made it.

use std::sync::Arc;

use kinema_analysis::{AtomsAndReference, Superpose, Superposition};
use kinema_core::reduce::{AnyTransform, Stack, Stage};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::arguments;
use crate::errors::{invalid, to_python};
use crate::periodic_transforms::{self, Given};

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

    /// What it was made of, by name.
    #[getter]
    fn arguments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.arguments.bind(py).copy()
    }

    /// Whether it must have seen other frames before one.
    #[getter]
    fn looks_back(&self) -> bool {
        self.stage.transform.looks_back()
    }

    fn __repr__(&self) -> String {
        format!("<Transform {}>", self.stage.label)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Call<'py>)> {
        let restore = py.import("kinema._core")?.getattr("restore_transform")?;
        Ok((restore, (self.name.clone(), self.n_atoms, self.stage.label.to_string(), self.arguments(py)?)))
    }
}

type Call<'py> = (String, u32, String, Bound<'py, PyDict>);

/// What pickle calls.
#[pyfunction]
pub fn restore_transform(
    py: Python<'_>,
    name: &str,
    n_atoms: u32,
    label: &str,
    arguments: Bound<'_, PyDict>,
) -> PyResult<PyTransform> {
    PyTransform::new(py, name, n_atoms, Some(label), Some(arguments))
}

/// The stack of these.
pub fn stack_of(transforms: &[PyRef<'_, PyTransform>]) -> PyResult<Stack> {
    let stages = transforms.iter().map(|transform| transform.stage.clone()).collect();
    Stack::new(stages).map_err(|error| to_python(&error))
}

fn made(name: &str, n_atoms: u32, arguments: &Bound<'_, PyDict>) -> PyResult<Arc<dyn AnyTransform>> {
    let known: &[&str] = match name {
        "superpose" => &["atoms", "reference", "weights", "mode"],
        _ => match periodic_transforms::known(name) {
            Some(known) => known,
            None => return Err(invalid(format!("there is no transform \"{name}\""))),
        },
    };
    for key in arguments.keys() {
        let key: String = key.extract()?;
        if !known.contains(&key.as_str()) {
            return Err(invalid(format!("transform \"{name}\" has no argument {key}; it has {}", known.join(", "))));
        }
    }
    if name != "superpose" {
        return periodic_transforms::made(&Given { name, n_atoms, arguments });
    }
    let required = |key: &str| {
        let value = arguments.get_item(key)?;
        value.ok_or_else(|| invalid(format!("transform \"{name}\" needs the argument {key}")))
    };
    let atoms = required("atoms")?;
    let atoms = atoms.cast::<PyArray1<u32>>()?;
    let reference = required("reference")?;
    let reference: Vec<f64> = reference.cast::<PyArray2<f64>>()?.readonly().as_array().iter().copied().collect();
    let weights = arguments.get_item("weights")?.filter(|value| !value.is_none());
    let weights = weights.map(|values| Ok::<_, PyErr>(values.cast::<PyArray1<f64>>()?.readonly().as_array().to_vec()));
    let weights = weights.transpose()?;
    let mode = match arguments.get_item("mode")? {
        None => Superposition::RotationAndTranslation,
        Some(mode) => match mode.extract::<String>()?.as_str() {
            "rot+trans" => Superposition::RotationAndTranslation,
            "trans" => Superposition::Translation,
            other => return Err(invalid(format!("mode must be \"rot+trans\" or \"trans\", found \"{other}\""))),
        },
    };
    let fitted = AtomsAndReference::new(arguments::atoms(atoms, n_atoms)?, &reference, weights.as_deref());
    Ok(Arc::new(Superpose::new(fitted.map_err(|error| to_python(&error))?, mode)))
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
        // an adapter of a function, which says itself what tells it from others
        put(b'o', value.getattr("identity")?.cast::<PyBytes>()?.as_bytes());
    }
    Ok(())
}
