//! `Kernel` and `Partial`: the analyses, pickled as the calls that made them.

use std::sync::{Arc, Mutex, PoisonError};

use kinema_analysis::{AtomsAndReference, Average, Fit, Rgyr, Rmsd, Rmsf};
use kinema_core::reduce::{AnyKernel, AnyPartial, ResultArray};
use kinema_core::{Error, Result};
use numpy::ndarray::{ArrayD, IxDyn};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::arguments;
use crate::callback::{PythonCallback, or_raised};
use crate::errors::{invalid, to_python};
use crate::python_kernel::{PythonKernel, PythonPartial};

fn checked<T>(result: Result<T>) -> PyResult<T> {
    result.map_err(|error: Error| to_python(&error))
}

type Indices<'py> = Bound<'py, PyArray1<u32>>;
type Coordinates<'py> = Bound<'py, PyArray2<f64>>;
type Values<'py> = Bound<'py, PyArray1<f64>>;

fn list(values: Option<&Values<'_>>) -> Option<Vec<f64>> {
    values.map(|values| values.readonly().as_array().to_vec())
}

fn fitted(
    n_atoms: u32,
    atoms: &Indices<'_>,
    reference: &Coordinates<'_>,
    weights: Option<&Values<'_>>,
) -> PyResult<AtomsAndReference> {
    let coordinates: Vec<f64> = reference.readonly().as_array().iter().copied().collect();
    let weights = list(weights);
    checked(AtomsAndReference::new(arguments::atoms(atoms, n_atoms)?, &coordinates, weights.as_deref()))
}

/// How a kernel is made again in another process: a static method's name and its arguments.
type Recipe = (&'static str, Py<PyTuple>);

fn recipe<'py>(
    py: Python<'py>,
    name: &'static str,
    arguments: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
) -> PyResult<Recipe> {
    Ok((name, arguments.into_pyobject(py)?.unbind()))
}

/// What pickle calls: `restore("Kernel", "rmsd", arguments)`.
#[pyfunction]
pub fn restore<'py>(
    py: Python<'py>,
    kind: &str,
    name: &str,
    arguments: Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    py.import("kinema._core")?.getattr(kind)?.getattr(name)?.call1(arguments)
}

type Reduced<'py> = (Bound<'py, PyAny>, (&'static str, &'static str, Py<PyTuple>));

fn reduce<'py>(py: Python<'py>, class: &'static str, (name, arguments): &Recipe) -> PyResult<Reduced<'py>> {
    Ok((py.import("kinema._core")?.getattr("restore")?, (class, *name, arguments.clone_ref(py))))
}

/// An analysis kernel.
#[pyclass(name = "Kernel", module = "kinema._core", frozen)]
pub struct PyKernel {
    pub(crate) inner: Arc<dyn AnyKernel>,
    /// Of a kernel written in Python.
    pub(crate) adapter: Option<Arc<PythonCallback>>,
    recipe: Recipe,
}

impl PyKernel {
    fn of(kernel: impl AnyKernel + 'static, recipe: Recipe) -> Self {
        Self { inner: Arc::new(kernel), adapter: None, recipe }
    }
}

#[pymethods]
impl PyKernel {
    #[staticmethod]
    #[pyo3(signature = (n_atoms, atoms, reference, weights=None, groups=Vec::new(), superposition=true))]
    fn rmsd<'py>(
        py: Python<'py>,
        n_atoms: u32,
        atoms: &Indices<'py>,
        reference: &Coordinates<'py>,
        weights: Option<&Values<'py>>,
        groups: Vec<(Indices<'py>, Coordinates<'py>, Option<Values<'py>>)>,
        superposition: bool,
    ) -> PyResult<Self> {
        let recipe = recipe(py, "rmsd", (n_atoms, atoms, reference, weights, groups.clone(), superposition))?;
        let groups = groups
            .iter()
            .map(|(atoms, reference, weights)| fitted(n_atoms, atoms, reference, weights.as_ref()))
            .collect::<PyResult<_>>()?;
        let fit = if superposition { Fit::Superpose } else { Fit::None };
        Ok(Self::of(Rmsd::new(fitted(n_atoms, atoms, reference, weights)?, groups, fit), recipe))
    }

    #[staticmethod]
    fn rmsf<'py>(py: Python<'py>, n_atoms: u32, atoms: &Indices<'py>) -> PyResult<Self> {
        let kernel = checked(Rmsf::new(arguments::atoms(atoms, n_atoms)?))?;
        Ok(Self::of(kernel, recipe(py, "rmsf", (n_atoms, atoms))?))
    }

    #[staticmethod]
    #[pyo3(signature = (n_atoms, atoms, masses=None, axes=false))]
    fn rgyr<'py>(
        py: Python<'py>,
        n_atoms: u32,
        atoms: &Indices<'py>,
        masses: Option<&Values<'py>>,
        axes: bool,
    ) -> PyResult<Self> {
        let recipe = recipe(py, "rgyr", (n_atoms, atoms, masses, axes))?;
        let masses = list(masses);
        let kernel = checked(Rgyr::new(arguments::atoms(atoms, n_atoms)?, masses.as_deref(), axes))?;
        Ok(Self::of(kernel, recipe))
    }

    #[staticmethod]
    fn average<'py>(py: Python<'py>, n_atoms: u32, atoms: &Indices<'py>) -> PyResult<Self> {
        let kernel = checked(Average::new(arguments::atoms(atoms, n_atoms)?))?;
        Ok(Self::of(kernel, recipe(py, "average", (n_atoms, atoms))?))
    }

    #[getter]
    fn id(&self) -> &'static str {
        self.inner.id()
    }

    #[staticmethod]
    fn python<'py>(
        py: Python<'py>,
        n_atoms: u32,
        atoms: &Indices<'py>,
        fields: Vec<String>,
        adapter: &Bound<'py, PyAny>,
    ) -> PyResult<Self> {
        let needed = arguments::fields(&fields)?;
        let kernel = PythonKernel::new(adapter.clone().unbind(), arguments::atoms(atoms, n_atoms)?, needed);
        let recipe = recipe(py, "python", (n_atoms, atoms, fields, adapter))?;
        Ok(Self { adapter: Some(kernel.adapter()), ..Self::of(kernel, recipe) })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduce(py, "Kernel", &self.recipe)
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

/// What a kernel has gathered; empty once it was merged into another or finished.
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

    /// What was gathered; the partial is used up.
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
            let array = ArrayD::from_shape_vec(IxDyn(&shape), values).map_err(|error| invalid(error.to_string()))?;
            named.set_item(name, array.into_pyarray(py))?;
        }
        Ok(named)
    }
}
