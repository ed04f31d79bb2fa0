//! Opening a `Trajectory`: the arguments of its class, and those that another process needs to open the same one.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use kinema_core::format::{self, Format, ReadStructure};
use kinema_core::named::Named;
use kinema_core::source::{Files, ReadLog};
use kinema_core::trajectory::{IndexPolicy, OpenOptions, StatedTimes, StatedUnits, Trajectory};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::{self, named};
use crate::errors::invalid;
use crate::h5md::Describe;
use crate::node_cache::{PyNodeCache, cached};
use crate::rows::PyFilePool;
use crate::signals::{Stops, run_interruptible};

/// The arguments of the Python class `Trajectory`, except its transforms; see the stub.
pub(crate) struct OpenArguments<'a, 'py> {
    pub paths: Vec<PathBuf>,
    pub format: Option<&'a str>,
    pub overlap: &'a str,
    pub on_truncated: &'a str,
    pub absent: &'a str,
    pub index: &'a str,
    pub max_open_files: usize,
    pub units: Option<HashMap<String, f64>>,
    pub times: StatedTimes,
    pub describe: Option<Py<PyAny>>,
    pub external: Option<Py<PyAny>>,
    pub write_index: Option<Py<PyAny>>,
    pub snapshot: Option<PyReadonlyArray1<'py, u8>>,
    pub record_reads: bool,
    pub pool: Option<&'a PyFilePool>,
    pub catalogue: Option<PathBuf>,
    pub node_cache: Option<Py<PyNodeCache>>,
    pub growing: bool,
    pub settled: bool,
    pub previous: Option<Arc<Trajectory>>,
}

/// A trajectory that was opened, without transforms.
pub(crate) struct Opened {
    pub trajectory: Trajectory,
    pub recipe: Recipe,
    pub log: Option<ReadLog>,
    pub stops: Stops,
}

impl OpenArguments<'_, '_> {
    /// Opens the files.
    pub fn open(self, py: Python<'_>) -> PyResult<Opened> {
        let format = self.format.map(format_of).transpose()?;
        let units = stated_units(self.units.as_ref().unwrap_or(&HashMap::new()))?;
        let log = self.record_reads.then(ReadLog::default);
        let stops = Stops::default();
        let options = OpenOptions {
            structure: (self.describe.is_some() || self.external.is_some()).then(|| {
                let shared = |function: &Option<Py<PyAny>>| function.as_ref().map(|function| function.clone_ref(py));
                let (hdf5, other) = (shared(&self.describe), shared(&self.external));
                Arc::new(Describe { hdf5, other, stops: stops.clone() }) as Arc<dyn ReadStructure>
            }),
            write_index: self.write_index.as_ref().map(|function| arguments::index_writer(function.clone_ref(py))),
            sources: match (&log, self.pool) {
                (Some(_), Some(_)) => return Err(invalid("a pool of files records reads itself")),
                (Some(log), None) => cached(Arc::new(log.clone()), self.node_cache.as_ref().map(Py::get)),
                (None, Some(_)) if self.node_cache.is_some() => {
                    return Err(invalid("a pool of files has a node cache itself"));
                }
                (None, Some(pool)) => Arc::new(pool.inner.clone()),
                (None, None) => cached(Arc::new(Files), self.node_cache.as_ref().map(Py::get)),
            },
            format,
            overlap: named(self.overlap)?,
            on_truncated: named(self.on_truncated)?,
            absent: named(self.absent)?,
            index: named(self.index)?,
            units,
            times: self.times,
            max_open_files: self.max_open_files,
            catalogue: self.catalogue,
            growing: self.growing || self.previous.is_some(),
            settled: self.settled,
        };
        let (paths, previous) = (self.paths, self.previous);
        let snapshot = self.snapshot.as_ref().map(|array| array.as_slice()).transpose()?;
        let trajectory = run_interruptible(py, None, 0, |progress| {
            stops.add(progress);
            match snapshot {
                Some(bytes) => Trajectory::from_snapshot(paths, options, bytes),
                None => Trajectory::open_again(paths, options, previous.as_deref()),
            }
        })?;
        let recipe = Recipe {
            format: format.map(|format| format.info().name),
            overlap: self.overlap.to_owned(),
            on_truncated: self.on_truncated.to_owned(),
            absent: self.absent.to_owned(),
            index: self.index.to_owned(),
            max_open_files: self.max_open_files,
            units,
            times: self.times,
            describe: self.describe,
            external: self.external,
            write_index: self.write_index,
            node_cache: self.node_cache,
        };
        Ok(Opened { trajectory, recipe, log, stops })
    }
}

/// The arguments with which another process opens the same trajectory, except its transforms.
pub(crate) struct Recipe {
    /// The stated format: every part of the trajectory has it. `None`: each part is detected again.
    format: Option<&'static str>,
    overlap: String,
    on_truncated: String,
    absent: String,
    pub index: String,
    max_open_files: usize,
    units: StatedUnits,
    times: StatedTimes,
    describe: Option<Py<PyAny>>,
    external: Option<Py<PyAny>>,
    pub write_index: Option<Py<PyAny>>,
    node_cache: Option<Py<PyNodeCache>>,
}

impl Recipe {
    /// As keyword arguments of `Trajectory`, for these files.
    pub fn to_dict<'py>(&self, py: Python<'py>, paths: Vec<OsString>) -> PyResult<Bound<'py, PyDict>> {
        let recipe = PyDict::new(py);
        recipe.set_item("paths", paths)?;
        recipe.set_item("format", self.format)?;
        recipe.set_item("overlap", &self.overlap)?;
        recipe.set_item("on_truncated", &self.on_truncated)?;
        recipe.set_item("absent", &self.absent)?;
        // an index that is rebuilt once need not be rebuilt again
        recipe.set_item(
            "index",
            if self.index == IndexPolicy::Memory.name() { &self.index } else { IndexPolicy::Auto.name() },
        )?;
        recipe.set_item("max_open_files", self.max_open_files)?;
        let factors = PyDict::new(py);
        for (name, factor) in UNITS.iter().zip(factors_of(&self.units)) {
            if let Some(factor) = factor {
                factors.set_item(name, factor)?;
            }
        }
        recipe.set_item("units", factors)?;
        recipe.set_item("dt", self.times.dt)?;
        recipe.set_item("time_offset", self.times.offset)?;
        recipe.set_item("first_time", self.times.first)?;
        recipe.set_item("describe", &self.describe)?;
        recipe.set_item("external", &self.external)?;
        recipe.set_item("write_index", &self.write_index)?;
        recipe.set_item("node_cache", &self.node_cache)?;
        Ok(recipe)
    }
}

fn format_of(name: &str) -> PyResult<&'static dyn Format> {
    format::find_by_name(name).ok_or_else(|| {
        let known: Vec<&str> = format::FORMATS.iter().map(|format| format.info().name).collect();
        invalid(format!("no format \"{name}\"; Kinema reads {}", known.join(", ")))
    })
}

/// Dimensions whose unit can be stated.
const UNITS: [&str; 4] = ["length", "time", "velocity", "force"];

fn stated_units(factors: &HashMap<String, f64>) -> PyResult<StatedUnits> {
    if let Some(name) = factors.keys().find(|name| !UNITS.contains(&name.as_str())) {
        return Err(invalid(format!("units are of {}, found {name}", UNITS.join(", "))));
    }
    if let Some((name, factor)) = factors.iter().find(|(_, factor)| !(factor.is_finite() && **factor > 0.0)) {
        return Err(invalid(format!("the factor of {name} must be above 0, found {factor}")));
    }
    let [length, time, velocity, force] = UNITS.map(|name| factors.get(name).copied());
    Ok(StatedUnits { length, time, velocity, force })
}

fn factors_of(units: &StatedUnits) -> [Option<f64>; 4] {
    [units.length, units.time, units.velocity, units.force]
}
