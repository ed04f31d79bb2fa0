//! The Python module `kinema._core`: arguments in, errors and arrays out.
//!
//! A skin: it converts, releases the GIL, watches for signals and maps errors; every loop over bytes, atoms or frames
//! is in the crates below. The signatures are documented in `python/kinema/_core.pyi`.

mod arguments;
mod called;
mod errors;
mod h5md;
mod hdf5;
mod kernels;
mod merge_tree;
mod python_kernel;
mod run;
mod signals;
mod trajectory;

use kinema_core::format::FORMATS;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Facts about the formats, from the registry.
#[pyfunction]
fn formats(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for format in FORMATS {
        let info = format.info();
        let row = PyDict::new(py);
        row.set_item("name", info.name)?;
        row.set_item("extensions", info.extensions)?;
        row.set_item("description", info.description)?;
        row.set_item("reads", info.reads)?;
        row.set_item("writes", info.writes)?;
        row.set_item("fields", info.fields.names())?;
        row.set_item("length_unit", info.length_unit)?;
        row.set_item("time_unit", info.time_unit)?;
        row.set_item("reference", info.reference)?;
        list.append(row)?;
    }
    Ok(list)
}

/// Names of the instruction sets that the hot loops use on this machine.
#[pyfunction]
fn cpu_features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        let known = [
            ("avx2", std::arch::is_x86_feature_detected!("avx2")),
            ("bmi2", std::arch::is_x86_feature_detected!("bmi2")),
            ("fma", std::arch::is_x86_feature_detected!("fma")),
        ];
        known.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    Vec::new()
}

/// The module.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(formats, module)?)?;
    module.add_function(wrap_pyfunction!(cpu_features, module)?)?;
    module.add_class::<trajectory::PyTrajectory>()?;
    module.add_class::<kernels::PyKernel>()?;
    module.add_class::<kernels::PyTransform>()?;
    module.add_class::<kernels::PyPartial>()?;
    module.add_class::<run::PyPlan>()?;
    module.add_class::<run::PyCuts>()?;
    module.add_class::<merge_tree::PyMergeTree>()?;
    module.add_function(wrap_pyfunction!(run::run_leaves, module)?)?;
    module.add_function(wrap_pyfunction!(run::run_into, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::restore, module)?)?;
    module.add_function(wrap_pyfunction!(hdf5::encode_chunks, module)?)?;
    module.add_function(wrap_pyfunction!(hdf5::creation_filters, module)?)?;
    module.add_function(wrap_pyfunction!(hdf5::filter_name, module)?)?;
    module.add_function(wrap_pyfunction!(hdf5::undecodable, module)?)?;
    module.add_function(wrap_pyfunction!(hdf5::decode_chunk, module)?)?;
    Ok(())
}
