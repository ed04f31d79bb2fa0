//! `Kernel` and `Partial`: the analyses, pickled as the calls that made them.

use std::sync::{Arc, Mutex, PoisonError};

use kinema_analysis::{Arguments, KERNELS, registry};
use kinema_core::reduce::{AnyKernel, AnyPartial, ResultArray};
use kinema_core::{Error, Result, with_numbers};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::arguments;
use crate::callback::{PythonCallback, or_raised};
use crate::errors::{invalid, to_python};
use crate::kernel_arguments::{from_python, shaped, to_python as argument_to_python};
use crate::python_kernel::{PythonKernel, PythonPartial};

fn checked<T>(result: Result<T>) -> PyResult<T> {
    result.map_err(|error: Error| to_python(&error))
}

/// The name of kernels written in Python; their arguments are Python objects.
const PYTHON: &str = "python";

/// How a kernel is made again in another process: its name and its arguments.
struct Recipe {
    name: String,
    arguments: Py<PyDict>,
}

/// Called by pickle for kernels and transforms: `restore("Kernel", "rmsd", arguments)`.
#[pyfunction]
pub fn restore<'py>(
    py: Python<'py>,
    kind: &str,
    name: &str,
    arguments: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    py.import("kinema._core")?.getattr(kind)?.call((name,), Some(arguments))
}

/// `restore`, and the arguments of its call.
pub type Reduced<'py> = (Bound<'py, PyAny>, (&'static str, String, Py<PyDict>));

/// Form in which pickle stores an object of that class.
pub fn reduced<'py>(py: Python<'py>, class: &'static str, name: &str, arguments: Py<PyDict>) -> PyResult<Reduced<'py>> {
    Ok((py.import("kinema._core")?.getattr("restore")?, (class, name.to_owned(), arguments)))
}

/// The kernels that there are: name and version.
#[pyfunction]
pub fn kernels(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let kernels = PyList::empty(py);
    for info in KERNELS {
        let row = PyDict::new(py);
        row.set_item("name", info.name())?;
        row.set_item("version", info.version())?;
        kernels.append(row)?;
    }
    Ok(kernels)
}

/// Arguments of a kernel that show all it can do.
#[pyfunction]
pub fn kernel_examples<'py>(
    py: Python<'py>,
    name: &str,
    n_atoms: u32,
    reference: PyReadonlyArray2<'py, f64>,
) -> PyResult<Bound<'py, PyList>> {
    let info = checked(registry::named(name))?;
    let structure: Vec<f64> = reference.as_array().iter().copied().collect();
    let (structure, rest) = structure.as_chunks::<3>();
    if structure.len() != n_atoms as usize || !rest.is_empty() {
        return Err(invalid(format!("reference must be ({n_atoms}, 3), found {:?}", reference.as_array().shape())));
    }
    let examples = PyList::empty(py);
    for arguments in (info.examples)(n_atoms, structure) {
        let named = PyDict::new(py);
        for (name, argument) in arguments.iter() {
            named.set_item(name, argument_to_python(py, argument)?)?;
        }
        examples.append(named)?;
    }
    Ok(examples)
}

/// An analysis kernel.
#[pyclass(name = "Kernel", module = "kinema._core", frozen)]
pub struct PyKernel {
    pub(crate) inner: Arc<dyn AnyKernel>,
    /// Set for a kernel written in Python.
    pub(crate) adapter: Option<Arc<PythonCallback>>,
    recipe: Recipe,
}

#[pymethods]
impl PyKernel {
    #[new]
    #[pyo3(signature = (name, n_atoms, **arguments))]
    fn new(py: Python<'_>, name: String, n_atoms: u32, arguments: Option<Bound<'_, PyDict>>) -> PyResult<Self> {
        let arguments = arguments.unwrap_or_else(|| PyDict::new(py));
        let (inner, adapter): (Arc<dyn AnyKernel>, _) = if name == PYTHON {
            let kernel = python_kernel(n_atoms, &arguments)?;
            let adapter = kernel.adapter();
            (Arc::new(kernel), Some(adapter))
        } else {
            let info = checked(registry::named(&name))?;
            let mut given = Arguments::new(n_atoms);
            for (name, value) in arguments.iter() {
                let name: String = name.extract()?;
                let argument = from_python(&name, &value)?;
                given = given.with(&name, argument);
            }
            (checked(info.kernel(&given))?, None)
        };
        let recipe = arguments.copy()?;
        recipe.set_item("n_atoms", n_atoms)?;
        Ok(Self { inner, adapter, recipe: Recipe { name, arguments: recipe.unbind() } })
    }

    #[getter]
    fn id(&self) -> &'static str {
        self.inner.id()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduced(py, "Kernel", &self.recipe.name, self.recipe.arguments.clone_ref(py))
    }

    fn empty(&self) -> PyPartial {
        PyPartial::new(self.inner.clone(), self.inner.empty())
    }

    #[expect(clippy::wrong_self_convention, reason = "the kernel knows how its partials are written")]
    fn from_bytes(&self, data: &[u8]) -> PyResult<PyPartial> {
        let partial = or_raised(self.adapter.as_deref(), checked(self.inner.from_bytes(data)))?;
        Ok(PyPartial::new(self.inner.clone(), partial))
    }
}

/// A kernel written in Python: `atoms`, names of `fields`, and the `adapter` that is called.
fn python_kernel(n_atoms: u32, given: &Bound<'_, PyDict>) -> PyResult<PythonKernel> {
    let argument = |name: &str| {
        given.get_item(name)?.ok_or_else(|| invalid(format!("a kernel written in Python needs the argument {name}")))
    };
    let atoms = argument("atoms")?.cast::<PyArray1<u32>>().map(|atoms| arguments::atoms(atoms, n_atoms))??;
    let fields = arguments::fields(&argument("fields")?.extract::<Vec<String>>()?)?;
    Ok(PythonKernel::new(argument("adapter")?.unbind(), atoms, fields))
}

/// Data that a kernel has gathered; empty after it was merged into another partial or finished.
#[pyclass(name = "Partial", module = "kinema._core", frozen)]
pub struct PyPartial {
    kernel: Arc<dyn AnyKernel>,
    gathered: Mutex<Option<AnyPartial>>,
}

impl PyPartial {
    /// A partial of that kernel.
    pub(crate) fn new(kernel: Arc<dyn AnyKernel>, gathered: AnyPartial) -> Self {
        Self { kernel, gathered: Mutex::new(Some(gathered)) }
    }

    /// Takes the gathered data; the partial is used up.
    pub(crate) fn take(&self) -> PyResult<AnyPartial> {
        let gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner).take();
        gathered.ok_or_else(|| invalid("this partial was used up by merge or finish"))
    }
}

#[pymethods]
impl PyPartial {
    #[getter]
    fn id(&self) -> &'static str {
        self.kernel.id()
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        let gathered = gathered.as_ref().ok_or_else(|| invalid("this partial was used up by merge or finish"))?;
        if let Some(python) = gathered.downcast_ref::<PythonPartial>() {
            return python.to_bytes(py);
        }
        Ok(PyBytes::new(py, &checked(self.kernel.to_bytes(gathered))?))
    }

    fn merge(&self, later: &Self) -> PyResult<()> {
        if std::ptr::eq(self, later) {
            return Err(invalid("a partial cannot be merged with itself"));
        }
        if self.kernel.id() != later.kernel.id() {
            return Err(invalid(format!("cannot merge a partial of {} into {}", later.kernel.id(), self.kernel.id())));
        }
        let mut gathered = self.take()?;
        let python = gathered.downcast_ref::<PythonPartial>().map(PythonPartial::adapter);
        or_raised(python.as_deref(), checked(self.kernel.merge(&mut gathered, later.take()?)))?;
        *self.gathered.lock().unwrap_or_else(PoisonError::into_inner) = Some(gathered);
        Ok(())
    }

    pub(crate) fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let gathered = match self.take()?.downcast::<PythonPartial>() {
            Ok(python) => return python.finish(py),
            Err(gathered) => gathered,
        };
        let results = checked(py.detach(|| self.kernel.finish(gathered)))?;
        let named = PyDict::new(py);
        for ResultArray { name, shape, values } in results {
            let array = with_numbers!(values, numbers => shaped(&shape, numbers)?.into_pyarray(py).into_any());
            named.set_item(name, array)?;
        }
        Ok(named)
    }
}
