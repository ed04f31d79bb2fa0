//! The Python module `kinema._core`: a PyO3 skin that converts arguments, releases the GIL, checks signals and maps errors.
//!
//! Every loop over bytes, atoms or frames is in the crates below. The signatures are documented in `python/kinema/_core.pyi`.

mod arguments;
mod atom_checkpoints;
mod atom_exchange;
mod atom_records;
mod block_transfer;
mod callback;
mod changing;
mod clustering;
mod dcd;
mod dlpoly;
mod encode;
mod errors;
mod extended_xyz;
mod frame_transforms;
mod frames;
mod h5md;
mod hdf5;
mod identity;
mod kernel_arguments;
mod kernels;
mod merge_tree;
mod moments;
mod near_pairs;
mod netcdf;
mod node_cache;
mod opening;
mod part_rows;
mod peer;
mod periodic_transforms;
mod python_kernel;
mod python_transform;
mod read_arrays;
mod record_file;
mod rows;
mod run;
mod signals;
mod trace;
mod trajectory;
mod transforms;
mod xtc;

use kinema_core::container::hdf5::filters::COMPRESSIONS;
use kinema_core::container::zstandard::first_bytes;
use kinema_core::format::made::file_of;
use kinema_core::format::{FORMATS, find_by_head};
use kinema_core::frame::{Fields, Making, Precision};
use kinema_core::index::store;
use kinema_core::plan::Access;
use kinema_core::trajectory::{IndexPolicy, OnTruncated, Overlap};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

/// Facts about the formats, from the registry.
#[pyfunction]
fn formats(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for format in FORMATS {
        let info = format.info();
        let row = PyDict::new(py);
        row.set_item("name", info.name)?;
        row.set_item("extensions", info.extensions)?;
        row.set_item("file_names", info.file_names)?;
        row.set_item("description", info.description)?;
        row.set_item("reads", info.reads)?;
        row.set_item("writes", info.writes)?;
        row.set_item("encodes", info.encodes)?;
        row.set_item("places_atoms", info.places_atoms)?;
        row.set_item("fields", info.fields.names())?;
        row.set_item("length_unit", info.length_unit)?;
        row.set_item("time_unit", info.time_unit)?;
        row.set_item("reference", info.reference)?;
        list.append(row)?;
    }
    Ok(list)
}

/// The format of a file that begins with these bytes.
#[pyfunction]
fn format_of(head: &[u8]) -> Option<&'static str> {
    find_by_head(head).map(|format| format.info().name)
}

/// The file that stands for positions that each process makes in its memory.
#[pyfunction]
fn made_file(py: Python<'_>, seed: u64, n_atoms: u32, n_frames: u64, kept: u64) -> PyResult<Bound<'_, PyBytes>> {
    let bytes = file_of(Making { seed, n_atoms, n_frames, kept }).map_err(|error| errors::to_python(&error))?;
    Ok(PyBytes::new(py, &bytes))
}

/// At most `most` bytes of the content of a zstd frame, whose first bytes are given.
#[pyfunction]
fn zstd_head<'py>(py: Python<'py>, encoded: &[u8], most: usize) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = first_bytes(encoded, most).map_err(|error| errors::to_python(&error))?;
    Ok(PyBytes::new(py, &bytes))
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

/// Kinema's folder in the user's cache folder; it may not exist.
#[pyfunction]
fn cache_folder() -> Option<std::ffi::OsString> {
    store::cache_folder().map(Into::into)
}

/// The module.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("TRACE_ERROR", trace::start_as_environment_says())?;
    module.add_function(wrap_pyfunction!(trace::trace_start, module)?)?;
    module.add_function(wrap_pyfunction!(trace::trace_stop, module)?)?;
    module.add_function(wrap_pyfunction!(trace::trace_flush, module)?)?;
    module.add_function(wrap_pyfunction!(trace::trace_enabled, module)?)?;
    module.add_function(wrap_pyfunction!(trace::trace_epoch_ns, module)?)?;
    module.add_function(wrap_pyfunction!(trace::trace_describe, module)?)?;
    module.add_function(wrap_pyfunction!(trace::trace_event, module)?)?;
    module.add_class::<trace::PySpan>()?;
    module.add_function(wrap_pyfunction!(formats, module)?)?;
    module.add_function(wrap_pyfunction!(format_of, module)?)?;
    module.add_function(wrap_pyfunction!(made_file, module)?)?;
    module.add_function(wrap_pyfunction!(zstd_head, module)?)?;
    module.add_function(wrap_pyfunction!(cpu_features, module)?)?;
    module.add_function(wrap_pyfunction!(cache_folder, module)?)?;
    module.add_class::<identity::PyFileIdentity>()?;
    module.add_function(wrap_pyfunction!(peer::file_checksum, module)?)?;
    module.add_function(wrap_pyfunction!(peer::check_node_folder, module)?)?;
    module.add_function(wrap_pyfunction!(peer::fetch_published, module)?)?;
    module.add_class::<peer::PyPeerServer>()?;
    let py = module.py();
    module.add("OVERLAP_VALUES", arguments::names::<Overlap>(py)?)?;
    module.add("ON_TRUNCATED_VALUES", arguments::names::<OnTruncated>(py)?)?;
    module.add("INDEX_VALUES", arguments::names::<IndexPolicy>(py)?)?;
    module.add("ACCESS_VALUES", arguments::names::<Access>(py)?)?;
    module.add("DTYPE_VALUES", arguments::names::<Precision>(py)?)?;
    module.add("FIELD_VALUES", PyTuple::new(py, Fields::ALL.names())?)?;
    let levels = PyDict::new(py);
    for compression in COMPRESSIONS {
        levels.set_item(compression.name, compression.levels.map(|levels| (levels.lowest, levels.highest)))?;
    }
    module.add("COMPRESSION_LEVELS", levels)?;
    module.add_function(wrap_pyfunction!(dcd::dcd_header, module)?)?;
    module.add_function(wrap_pyfunction!(netcdf::netcdf_header, module)?)?;
    module.add_function(wrap_pyfunction!(dlpoly::history_header, module)?)?;
    module.add_function(wrap_pyfunction!(dlpoly::dlpoly_atoms, module)?)?;
    module.add_function(wrap_pyfunction!(dlpoly::has_dlpoly_atoms, module)?)?;
    module.add_function(wrap_pyfunction!(netcdf::cells_of_lengths, module)?)?;
    module.add_function(wrap_pyfunction!(netcdf::lengths_of_cells, module)?)?;
    module.add_function(wrap_pyfunction!(netcdf::mirrored_by_lengths, module)?)?;
    module.add_function(wrap_pyfunction!(netcdf::first_cell_not_kept, module)?)?;
    module.add_function(wrap_pyfunction!(atom_checkpoints::store_atom_checkpoints, module)?)?;
    module.add_class::<trajectory::PyTrajectory>()?;
    module.add_class::<node_cache::PyNodeCache>()?;
    module.add_function(wrap_pyfunction!(node_cache::node_cache_counts, module)?)?;
    module.add_function(wrap_pyfunction!(node_cache::take_node_cache_troubles, module)?)?;
    module.add_class::<node_cache::PyCachedFile>()?;
    module.add_class::<node_cache::PyPrefetch>()?;
    module.add_class::<rows::PyFilePool>()?;
    module.add_class::<rows::PyThrottle>()?;
    module.add_class::<rows::PyRows>()?;
    module.add_class::<rows::PyUnchangedFiles>()?;
    module.add_function(wrap_pyfunction!(moments::column_moments, module)?)?;
    module.add_function(wrap_pyfunction!(moments::group_moments, module)?)?;
    module.add_function(wrap_pyfunction!(extended_xyz::extended_xyz, module)?)?;
    module.add_function(wrap_pyfunction!(rows::pread_rows, module)?)?;
    module.add_function(wrap_pyfunction!(rows::file_status, module)?)?;
    module.add_class::<frame_transforms::PyFrameTransforms>()?;
    module.add_function(wrap_pyfunction!(frames::read_frames, module)?)?;
    module.add_function(wrap_pyfunction!(frames::plan_frames, module)?)?;
    module.add_class::<encode::PyEncoder>()?;
    module.add_class::<encode::PyCommits>()?;
    module.add_class::<encode::PyFileOfRuns>()?;
    module.add_class::<encode::PyWrittenIndex>()?;
    module.add_class::<record_file::PyRecordFile>()?;
    module.add_class::<atom_records::PyAtomRecords>()?;
    module.add_class::<atom_records::PyFrameLayout>()?;
    module.add_function(wrap_pyfunction!(atom_exchange::partition_atoms, module)?)?;
    module.add_function(wrap_pyfunction!(atom_exchange::order_atoms, module)?)?;
    module.add_function(wrap_pyfunction!(atom_exchange::place_atoms, module)?)?;
    module.add_function(wrap_pyfunction!(atom_exchange::scatter_atoms, module)?)?;
    module.add_class::<kernels::PyKernel>()?;
    module.add_class::<changing::PyChangingGroup>()?;
    module.add_class::<transforms::PyTransform>()?;
    module.add_function(wrap_pyfunction!(periodic_transforms::first_atoms_of_molecules, module)?)?;
    module.add_class::<periodic_transforms::PyBrokenCounter>()?;
    module.add_function(wrap_pyfunction!(clustering::gromos_clusters, module)?)?;
    module.add_function(wrap_pyfunction!(clustering::sums_within_clusters, module)?)?;
    module.add_function(wrap_pyfunction!(near_pairs::near_pairs, module)?)?;
    module.add_function(wrap_pyfunction!(near_pairs::pair_distances, module)?)?;
    module.add_function(wrap_pyfunction!(near_pairs::nearest_images, module)?)?;
    module.add_class::<kernels::PyPartial>()?;
    module.add_class::<run::PyPlan>()?;
    module.add_class::<run::PyPartition>()?;
    module.add_class::<merge_tree::PyMergeTree>()?;
    module.add_function(wrap_pyfunction!(run::run_leaves, module)?)?;
    module.add_function(wrap_pyfunction!(run::run_into, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::restore, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::kernels, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::kernel_examples, module)?)?;
    module.add_function(wrap_pyfunction!(h5md::read_series, module)?)?;
    module.add_function(wrap_pyfunction!(hdf5::start_writeback, module)?)?;
    module.add_function(wrap_pyfunction!(hdf5::encode_chunks, module)?)?;
    module.add_function(wrap_pyfunction!(hdf5::creation_filters, module)?)?;
    module.add_function(wrap_pyfunction!(hdf5::filter_name, module)?)?;
    module.add_function(wrap_pyfunction!(hdf5::undecodable, module)?)?;
    module.add_function(wrap_pyfunction!(hdf5::decode_chunk, module)?)?;
    module.add_function(wrap_pyfunction!(xtc::encode_xtc_frame, module)?)?;
    module.add_function(wrap_pyfunction!(xtc::reencode_xtc_frame, module)?)?;
    Ok(())
}
