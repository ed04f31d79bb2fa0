//! Python's frames, atoms and names as the core's types.

use kinema_core::frame::Fields;
use kinema_core::selection::{AtomSelection, FrameSelection};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;

use crate::errors::{invalid, to_python};

/// `(start, step, count)` or an array of frame numbers.
pub fn frames(value: &Bound<'_, PyAny>) -> PyResult<FrameSelection> {
    if let Ok((start, step, count)) = value.extract::<(u64, i64, u64)>() {
        return Ok(FrameSelection::Stride { start, step, count });
    }
    let array = value
        .cast::<PyArray1<u64>>()
        .map_err(|_| invalid("frames must be (start, step, count) or a one-dimensional uint64 array"))?;
    Ok(FrameSelection::List(array.readonly().as_array().to_vec().into()))
}

/// Strictly ascending atom indices.
pub fn atoms(value: &Bound<'_, PyArray1<u32>>, n_atoms: u32) -> PyResult<AtomSelection> {
    AtomSelection::from_sorted(value.readonly().as_array().to_vec(), n_atoms).map_err(|error| to_python(&error))
}

/// Atom indices in any order: the set to read, and the column of each index in it where that is not the identity.
pub fn columns(value: &Bound<'_, PyArray1<u32>>, n_atoms: u32) -> PyResult<(AtomSelection, Option<Vec<u32>>)> {
    let asked = value.readonly().as_array().to_vec();
    let mut sorted = asked.clone();
    sorted.sort_unstable();
    sorted.dedup();
    let plain = sorted == asked;
    let set = AtomSelection::from_sorted(sorted.clone(), n_atoms).map_err(|error| to_python(&error))?;
    if plain {
        return Ok((set, None));
    }
    // every asked atom is in `sorted`, so the position found is exact
    let columns = asked.iter().map(|atom| sorted.partition_point(|other| other < atom) as u32).collect();
    Ok((set, Some(columns)))
}

/// Field names as a set.
pub fn fields(names: &[String]) -> PyResult<Fields> {
    names.iter().try_fold(Fields::NONE, |all, name| {
        let field = Fields::from_name(name).ok_or_else(|| {
            invalid(format!("no field \"{name}\"; fields are positions, velocities, forces, cell, step, time"))
        })?;
        Ok(all | field)
    })
}

/// One of several words.
pub fn choice<T: Copy>(name: &str, value: &str, choices: &[(&str, T)]) -> PyResult<T> {
    choices.iter().find(|(word, _)| *word == value).map(|(_, choice)| *choice).ok_or_else(|| {
        let words: Vec<String> = choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        invalid(format!("{name}=\"{value}\" is not one of {}", words.join(", ")))
    })
}

/// Threads: as asked, or all that this process may use.
pub fn workers(asked: usize) -> usize {
    if asked > 0 { asked } else { std::thread::available_parallelism().map_or(1, |n| n.get()) }
}
