//! Functions that sort atoms for the processes that write them.

use kinema_core::Result;
use kinema_core::pipeline::encode::atom_exchange::{Ordered, Partition, order, partition, place, scatter, see};
use numpy::{
    Element, IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyReadwriteArray2,
};
use pyo3::prelude::*;

use crate::errors::invalid;
use crate::signals::run_inline;

/// Rows of each range, and whether they were in this order.
type Sorted<'py> = (Bound<'py, PyArray1<u64>>, bool);

/// Rows in the order of the places of their atoms, and these places; `None` if each place has a row.
type InOrder<'py> = (Bound<'py, PyArray1<u32>>, Option<Bound<'py, PyArray1<u32>>>);

/// Duplicate rows, the first of them, missing atoms, the first of them.
type Found = (u64, Option<usize>, u64, Option<u64>);

fn contiguous<'a, T: Element>(array: &'a PyReadonlyArray1<'_, T>, name: &str) -> PyResult<&'a [T]> {
    array.as_slice().map_err(|_| invalid(format!("{name} must be C-contiguous")))
}

fn vectors<'a, T: Element>(array: &'a PyReadonlyArray2<'_, T>) -> PyResult<&'a [[T; 3]]> {
    let values = array.as_slice().map_err(|_| invalid("vectors must be C-contiguous"))?;
    check_shape(array.as_array().shape())?;
    Ok(values.as_chunks().0)
}

fn vectors_mut<'a, T: Element>(array: &'a mut PyReadwriteArray2<'_, T>) -> PyResult<&'a mut [[T; 3]]> {
    check_shape(array.as_array().shape())?;
    let values = array.as_slice_mut().map_err(|_| invalid("arrays to fill must be C-contiguous"))?;
    Ok(values.as_chunks_mut().0)
}

fn check_shape(shape: &[usize]) -> PyResult<()> {
    match shape {
        [_, 3] => Ok(()),
        _ => Err(invalid(format!("vectors have shape {shape:?}, expected [atoms, 3]"))),
    }
}

/// Sorts rows by the range in which the ids of their atoms lie.
#[pyfunction]
pub fn partition_atoms<'py>(
    py: Python<'py>,
    ids: &Bound<'py, PyAny>,
    bounds: Vec<u64>,
    sorted: &Bound<'py, PyArray1<u32>>,
    order: &Bound<'py, PyArray1<u32>>,
) -> PyResult<Sorted<'py>> {
    fn fill_typed<'py, I>(
        ids: &Bound<'py, PyArray1<I>>,
        bounds: &[u64],
        sorted: &mut [u32],
        order: &mut [u32],
    ) -> PyResult<Partition>
    where
        I: Element + Copy + TryInto<u64> + std::fmt::Display,
    {
        let ids_of = ids.try_readonly().map_err(|_| invalid("ids are written at the same time"))?;
        let values = contiguous(&ids_of, "ids")?;
        run_inline(ids.py(), |_| partition(values, bounds, sorted, order))
    }
    let writable = |_| invalid("arrays to fill must be writable, and two");
    let (mut sorted, mut order) = (sorted.try_readwrite().map_err(writable)?, order.try_readwrite().map_err(writable)?);
    let in_a_row = |_| invalid("arrays to fill must be C-contiguous");
    let (sorted, order) = (sorted.as_slice_mut().map_err(in_a_row)?, order.as_slice_mut().map_err(in_a_row)?);
    let found = if let Ok(ids) = ids.cast::<PyArray1<u32>>() {
        fill_typed(ids, &bounds, sorted, order)?
    } else if let Ok(ids) = ids.cast::<PyArray1<i64>>() {
        fill_typed(ids, &bounds, sorted, order)?
    } else if let Ok(ids) = ids.cast::<PyArray1<i32>>() {
        fill_typed(ids, &bounds, sorted, order)?
    } else if let Ok(ids) = ids.cast::<PyArray1<u64>>() {
        fill_typed(ids, &bounds, sorted, order)?
    } else {
        return Err(invalid("ids are an array (atoms,) of int32, int64, uint32 or uint64"));
    };
    Ok((found.counts.into_pyarray(py), found.is_sorted))
}

/// Finds the row for each of the `n` places from atom `first` on; `rows` are consecutive from a number on, or listed.
#[pyfunction]
pub fn order_atoms<'py>(
    py: Python<'py>,
    ids: PyReadonlyArray1<'py, u32>,
    rows: &Bound<'py, PyAny>,
    first: u32,
    n: usize,
) -> PyResult<InOrder<'py>> {
    let ids = contiguous(&ids, "ids")?;
    let Ordered { rows, places } = if let Ok(rows) = rows.cast::<PyArray1<u32>>() {
        let rows = rows.try_readonly().map_err(|_| invalid("rows are written at the same time"))?;
        let rows = contiguous(&rows, "rows")?;
        run_inline(py, |_| order(ids, rows.iter().copied(), first, n))?
    } else {
        let start: u32 = rows.extract()?;
        let rows = (0..ids.len()).map(move |row| start.wrapping_add(row as u32));
        run_inline(py, |_| order(ids, rows, first, n))?
    };
    Ok((rows.into_pyarray(py), places.map(|places| places.into_pyarray(py))))
}

/// Puts row `rows[i]` of `values` into row `places[i]` of `out`. Without `places` the row of `out` is `i`; without
/// `rows` the row of `values` is `i`. Rows of `out` need not be adjacent.
#[pyfunction]
pub fn place_atoms<'py>(
    values: &Bound<'py, PyAny>,
    rows: Option<PyReadonlyArray1<'py, u32>>,
    places: Option<PyReadonlyArray1<'py, u32>>,
    out: &Bound<'py, PyAny>,
) -> PyResult<()> {
    fn fill_typed<'py, T: Element + Copy + Send + Sync>(
        values: &Bound<'py, PyArray2<T>>,
        rows: Option<&[u32]>,
        places: Option<&[u32]>,
        out: &Bound<'py, PyArray2<T>>,
    ) -> PyResult<()> {
        let (from, mut to) = (values.try_readonly().map_err(borrow_error)?, out.try_readwrite().map_err(borrow_error)?);
        check_shape(to.as_array().shape())?;
        let from = vectors(&from)?;
        if to.as_slice().is_ok() {
            let to = vectors_mut(&mut to)?;
            return run_inline(out.py(), |_| place(from, rows, places, to.len(), |i, value| to[i] = value));
        }
        let mut to = to.as_array_mut();
        run_inline(out.py(), |_| {
            place(from, rows, places, to.nrows(), |i, value| {
                for (column, one) in value.into_iter().enumerate() {
                    to[[i, column]] = one;
                }
            })
        })
    }
    let rows = rows.as_ref().map(|rows| contiguous(rows, "rows")).transpose()?;
    let places = places.as_ref().map(|places| contiguous(places, "places")).transpose()?;
    if let (Ok(values), Ok(out)) = (values.cast::<PyArray2<f32>>(), out.cast::<PyArray2<f32>>()) {
        return fill_typed(values, rows, places, out);
    }
    if let (Ok(values), Ok(out)) = (values.cast::<PyArray2<f64>>(), out.cast::<PyArray2<f64>>()) {
        return fill_typed(values, rows, places, out);
    }
    Err(other_types())
}

fn borrow_error(_: numpy::BorrowError) -> PyErr {
    invalid("arrays to fill must be writable, and none of those that are read")
}

fn other_types() -> PyErr {
    invalid("vectors and the array to fill are both float32 or both float64, (atoms, 3)")
}

/// Puts row `i` of each of `values` into the row of atom `ids[i]` of the array in `out`, which begins with atom `first`.
#[pyfunction]
pub fn scatter_atoms<'py>(
    py: Python<'py>,
    ids: PyReadonlyArray1<'py, u32>,
    first: u32,
    values: Vec<Bound<'py, PyAny>>,
    out: Vec<Bound<'py, PyAny>>,
    seen: &Bound<'py, PyArray1<u8>>,
) -> PyResult<Found> {
    let ids = contiguous(&ids, "ids")?;
    if values.len() != out.len() {
        return Err(invalid(format!("arrays to fill, expected {}, found {}", values.len(), out.len())));
    }
    let faults = {
        let mut seen = seen.try_readwrite().map_err(|_| invalid("seen must be writable"))?;
        let seen = seen.as_slice_mut().map_err(|_| invalid("seen must be C-contiguous"))?;
        run_inline(py, |_| see(ids, first, seen))?
    };
    for (values, out) in values.iter().zip(&out) {
        let work = Work {
            single: &|from, to| scatter(ids, first, from, to),
            double: &|from, to| scatter(ids, first, from, to),
        };
        run_on_one_type(py, values, out, work)?;
    }
    Ok((faults.duplicates, faults.first_duplicate, faults.missing, faults.first_missing))
}

/// Work on vectors: the first argument is read, the second is filled.
type Fill<'a, T> = &'a (dyn Fn(&[[T; 3]], &mut [[T; 3]]) -> Result<()> + Sync);

/// The same work on vectors of float32 and of float64.
#[derive(Clone, Copy)]
struct Work<'a> {
    single: Fill<'a, f32>,
    double: Fill<'a, f64>,
}

fn run_on_one_type<'py>(
    py: Python<'py>,
    values: &Bound<'py, PyAny>,
    out: &Bound<'py, PyAny>,
    work: Work<'_>,
) -> PyResult<()> {
    if let (Ok(values), Ok(out)) = (values.cast::<PyArray2<f32>>(), out.cast::<PyArray2<f32>>()) {
        let (values, mut out) =
            (values.try_readonly().map_err(borrow_error)?, out.try_readwrite().map_err(borrow_error)?);
        let (from, to) = (vectors(&values)?, vectors_mut(&mut out)?);
        return run_inline(py, |_| (work.single)(from, to));
    }
    if let (Ok(values), Ok(out)) = (values.cast::<PyArray2<f64>>(), out.cast::<PyArray2<f64>>()) {
        let (values, mut out) =
            (values.try_readonly().map_err(borrow_error)?, out.try_readwrite().map_err(borrow_error)?);
        let (from, to) = (vectors(&values)?, vectors_mut(&mut out)?);
        return run_inline(py, |_| (work.double)(from, to));
    }
    Err(other_types())
}
