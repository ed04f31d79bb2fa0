//! `encode_chunks` and related functions: arrays to the bytes of HDF5 chunks, on threads.
//!
//! It opens no file: h5py creates data sets and commits the chunks.

use std::os::fd::BorrowedFd;

use kinema_core::container::hdf5::encode::{self, ChunkedArray, EncodedChunk};
use kinema_core::container::hdf5::filters::{self, FilterScratch, Pipeline, StoredFilter};
use kinema_core::error::catch_panics;
use numpy::{PyArray1, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::arguments;
use crate::errors::{invalid, to_python};
use crate::signals::run_interruptible;

/// Filter id and client values.
type FilterTuple = (u32, Vec<u32>);

fn stored(filters: Vec<FilterTuple>) -> Vec<StoredFilter> {
    filters.into_iter().map(|(id, values)| StoredFilter { id, values }).collect()
}

/// All chunks of an array, encoded.
#[pyfunction]
pub fn encode_chunks<'py>(
    py: Python<'py>,
    array: &Bound<'py, PyUntypedArray>,
    chunk_shape: Vec<usize>,
    filters: Vec<FilterTuple>,
    workers: usize,
) -> PyResult<Bound<'py, PyList>> {
    if !array.is_c_contiguous() {
        return Err(invalid("the array to encode must be contiguous in C order"));
    }
    if array.dtype().has_object() {
        return Err(invalid("an array of Python objects cannot be encoded"));
    }
    let (shape, element_size) = (array.shape().to_vec(), array.dtype().itemsize());
    // views of the same memory: nothing is copied
    let flat = array.call_method1("reshape", (-1,))?.call_method1("view", ("u1",))?.cast_into::<PyArray1<u8>>()?;
    let flat = flat.readonly();
    let bytes = flat.as_slice()?;
    let filters = stored(filters);
    let chunks = run_interruptible(py, None, 0, |progress| {
        let array = ChunkedArray { bytes, element_size, shape: &shape, chunk_shape: &chunk_shape };
        encode::encode_chunks(array, &filters, arguments::workers(workers), &progress.cancel)
    })?;
    let list = PyList::empty(py);
    for EncodedChunk { offset, bytes } in chunks {
        list.append((PyTuple::new(py, offset)?, PyBytes::new(py, &bytes)))?;
    }
    Ok(list)
}

/// Asks the kernel to begin writing bytes of an open file to the storage, so that a sync waits less; by default all
/// bytes.
#[pyfunction]
#[pyo3(signature = (descriptor, offset = 0, length = 0))]
pub fn start_writeback(py: Python<'_>, descriptor: i32, offset: u64, length: u64) -> PyResult<()> {
    if descriptor < 0 {
        return Err(invalid(format!("no descriptor of an open file: {descriptor}")));
    }
    // SAFETY: the caller's file stays open during the call
    let file = unsafe { BorrowedFd::borrow_raw(descriptor) };
    py.detach(|| kinema_core::sink::start_writeback(&file, offset, length));
    Ok(())
}

/// The filters of one way to compress, by name.
#[pyfunction]
#[pyo3(signature = (name, level, element_size))]
pub fn creation_filters(name: &str, level: Option<u32>, element_size: usize) -> PyResult<Vec<FilterTuple>> {
    let filters = filters::creation_filters(name, level, element_size).map_err(|error| to_python(&error))?;
    Ok(filters.into_iter().map(|filter| (filter.id, filter.values)).collect())
}

/// The reason why chunks with these filters cannot be decoded here, in words; `None` if they can be decoded.
#[pyfunction]
pub fn undecodable(filters: Vec<FilterTuple>, element_size: usize, chunk_bytes: usize) -> Option<String> {
    let outcome = catch_panics(|| Pipeline::new(&stored(filters), element_size, chunk_bytes));
    outcome.err().map(|error| error.what().to_owned())
}

/// The name of an HDF5 filter id, if it is registered.
#[pyfunction]
pub fn filter_name(id: u32) -> Option<&'static str> {
    filters::filter_name(id)
}

/// One stored chunk, decoded `repeats` times over.
#[pyfunction]
#[pyo3(name = "_decode_chunk", signature = (chunk, mask, filters, element_size, chunk_bytes, repeats=1))]
pub fn decode_chunk<'py>(
    py: Python<'py>,
    chunk: &[u8],
    mask: u32,
    filters: Vec<FilterTuple>,
    element_size: usize,
    chunk_bytes: usize,
    repeats: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let filters = stored(filters);
    let decode = || {
        let pipeline = Pipeline::new(&filters, element_size, chunk_bytes)?;
        let (mut out, mut scratch) = (Vec::new(), FilterScratch::default());
        for _ in 0..repeats.max(1) {
            pipeline.decode(chunk, mask, &mut out, &mut scratch)?;
        }
        Ok(out)
    };
    let out = py.detach(|| catch_panics(decode)).map_err(|error| to_python(&error))?;
    Ok(PyBytes::new(py, &out))
}
