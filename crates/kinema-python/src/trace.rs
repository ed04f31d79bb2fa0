//! The journal of the process for `kinema.base.tracing`.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use kinema_core::trace::{self, Options, Status, Text};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};

use crate::errors::to_python;

/// Begins to record into a folder.
#[pyfunction]
#[pyo3(signature = (folder, compress=false))]
pub fn trace_start(folder: PathBuf, compress: bool) -> PyResult<()> {
    trace::start(&Options { folder, compress }).map_err(|error| to_python(&error))
}

/// Begins to record if the environment asks for it: `KINEMA_TRACE`, `KINEMA_TRACE_COMPRESS`. Returns the message of a
/// failure: an import that raises would show it with the traceback of a defect.
pub fn start_as_environment_says() -> Option<String> {
    let folder = std::env::var_os("KINEMA_TRACE").filter(|folder| !folder.is_empty())?;
    let compress = std::env::var_os("KINEMA_TRACE_COMPRESS").is_some_and(|value| value == "1");
    trace::start(&Options { folder: folder.into(), compress }).err().map(|error| error.to_string())
}

/// Ends the journal, and returns its state.
#[pyfunction]
pub fn trace_stop(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    status_dict(py, py.detach(trace::stop))
}

/// Writes all that was recorded so far: what the journal has done.
#[pyfunction]
pub fn trace_flush(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let status = py.detach(|| {
        trace::flush();
        trace::status()
    });
    status_dict(py, status)
}

fn status_dict(py: Python<'_>, status: Status) -> PyResult<Bound<'_, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("folder", status.options.as_ref().map(|options| options.folder.as_os_str()))?;
    row.set_item("compress", status.options.is_some_and(|options| options.compress))?;
    row.set_item("path", status.path.map(PathBuf::into_os_string))?;
    row.set_item("events", status.events)?;
    row.set_item("lost", status.lost)?;
    row.set_item("failure", status.failure)?;
    Ok(row)
}

/// Whether events are recorded.
#[pyfunction]
pub fn trace_enabled() -> bool {
    trace::enabled()
}

/// The time now by the clock of events.
#[pyfunction]
pub fn trace_epoch_ns() -> i64 {
    trace::epoch_ns(Instant::now())
}

/// Says something of the process at the front of its file.
#[pyfunction]
pub fn trace_describe(label: &str, value: &str) {
    trace::describe(label, value);
}

/// Records an event that is over: its start in nanoseconds since the Unix epoch, and the nanoseconds that it took.
#[pyfunction]
#[pyo3(signature = (name, category, start_ns, ns, path=None, **arguments))]
pub fn trace_event(
    name: &str,
    category: &str,
    start_ns: i64,
    ns: u64,
    path: Option<PathBuf>,
    arguments: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    if trace::enabled() {
        let (file, arguments) = (path.as_deref(), &json(arguments)?);
        trace::record_text(&Text { name, category, start_ns, ns, file, arguments });
    }
    Ok(())
}

/// Arguments of an event as JSON.
fn json(arguments: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(String, String)>> {
    let Some(arguments) = arguments else { return Ok(Vec::new()) };
    arguments.iter().map(|(name, value)| Ok((name.extract()?, json_value(&value)?))).collect()
}

fn json_value(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if value.is_instance_of::<PyBool>() {
        return Ok(if value.extract()? { "true" } else { "false" }.to_owned());
    }
    if value.is_none() {
        return Ok("null".to_owned());
    }
    if value.is_instance_of::<PyString>() {
        return Ok(trace::quoted(&value.extract::<String>()?));
    }
    if value.is_instance_of::<PyFloat>() {
        let number: f64 = value.extract()?;
        return Ok(if number.is_finite() { format!("{number:?}") } else { "null".to_owned() });
    }
    if value.is_instance_of::<PyInt>() || value.hasattr("__index__")? {
        return Ok(value.call_method0("__index__")?.str()?.to_string());
    }
    let class = value.get_type().name()?.to_string();
    Err(PyTypeError::new_err(format!("arguments of events are numbers and text, found {class}")))
}

/// A span of Python: an event from `with` to its end.
#[pyclass(name = "Span", module = "kinema._core", frozen)]
pub struct PySpan {
    name: String,
    category: String,
    path: Option<PathBuf>,
    arguments: Vec<(String, String)>,
    begun: Mutex<Option<Instant>>,
}

#[pymethods]
impl PySpan {
    #[new]
    #[pyo3(signature = (name, category, path=None, **arguments))]
    fn new(
        name: String,
        category: String,
        path: Option<PathBuf>,
        arguments: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let arguments = if trace::enabled() { json(arguments)? } else { Vec::new() };
        Ok(Self { name, category, path, arguments, begun: Mutex::default() })
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        if let Ok(mut begun) = slf.begun.lock() {
            *begun = trace::begin();
        }
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, PyAny>) {
        let Some(begun) = self.begun.lock().ok().and_then(|mut begun| begun.take()) else { return };
        trace::record_text(&Text {
            name: &self.name,
            category: &self.category,
            start_ns: trace::epoch_ns(begun),
            ns: begun.elapsed().as_nanos() as u64,
            file: self.path.as_deref(),
            arguments: &self.arguments,
        });
    }
}
