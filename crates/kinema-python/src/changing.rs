//! `ChangingGroup`: which atoms can be in a group that changes with the frame, and which are in given frames.

use kinema_analysis::changing::{ChangingGroup, GroupScratch};
use kinema_core::frame::lattice::Lattice;
use kinema_core::reduce::all_finite;
use kinema_core::{Error, ErrorKind, Result};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray2, PyReadonlyArray3};
use pyo3::prelude::*;

use crate::errors::{invalid, to_python};
use crate::kernel_arguments::from_python;

/// A group of atoms that changes with the frame.
#[pyclass(name = "ChangingGroup", module = "kinema._core", frozen)]
pub struct PyChangingGroup {
    group: ChangingGroup,
}

#[pymethods]
impl PyChangingGroup {
    #[new]
    fn new(n_atoms: u32, expression: &Bound<'_, PyAny>) -> PyResult<Self> {
        let given = from_python("group", expression)?;
        let group = ChangingGroup::new(&given, n_atoms).map_err(|error| to_python(&error))?;
        Ok(Self { group })
    }

    /// The atoms that can be in the group.
    #[getter]
    fn candidates<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        self.group.candidates().iter().collect::<Vec<_>>().into_pyarray(py)
    }

    /// The atoms whose positions `members` takes.
    #[getter]
    fn atoms<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        self.group.atoms().iter().collect::<Vec<_>>().into_pyarray(py)
    }

    /// The members in each frame, from positions (frames, atoms, 3) of `atoms` and cells (frames, 3, 3), whose edges
    /// `periodic` (frames, 3) repeat.
    fn members<'py>(
        &self,
        py: Python<'py>,
        positions: PyReadonlyArray3<'py, f32>,
        cells: PyReadonlyArray3<'py, f64>,
        periodic: PyReadonlyArray2<'py, bool>,
    ) -> PyResult<Vec<Bound<'py, PyArray1<u32>>>> {
        let values = positions.as_slice().map_err(|_| invalid("positions must be C-contiguous"))?;
        let (cells, periodic) = (cells.as_array(), periodic.as_array());
        let (rows, width) = (cells.len() / 9, 3 * self.group.atoms().len());
        if values.len() != rows * width || cells.shape() != [rows, 3, 3] || periodic.shape() != [rows, 3] {
            return Err(invalid("there must be positions of the group's atoms and a cell for each frame"));
        }
        let atoms: Vec<u32> = self.group.atoms().iter().collect();
        let found = py.detach(|| -> Result<Vec<Vec<u32>>> {
            let mut scratch = GroupScratch::default();
            let members = |row: usize| {
                let edge =
                    |i: usize| std::array::from_fn(|x| if periodic[[row, i]] { cells[[row, i, x]] } else { 0.0 });
                let (cell, positions) = (std::array::from_fn(edge), &values[row * width..][..width]);
                if !all_finite(positions) {
                    let at = positions.iter().position(|x| !x.is_finite()).unwrap_or_default();
                    let what = format!("position of atom {} (counted from 1) is not finite", atoms[at / 3] + 1);
                    return Err(Error::new(ErrorKind::Corrupt, what));
                }
                let lattice = Lattice::from_cell(&cell)?;
                let members = self.group.members_at(positions, &lattice, &cell, &mut scratch)?;
                Ok(members.iter().map(|&place| atoms[place as usize]).collect())
            };
            (0..rows).map(members).collect()
        });
        let found = found.map_err(|error| to_python(&error))?;
        Ok(found.into_iter().map(|members| members.into_pyarray(py)).collect())
    }
}
