"""Opening of an existing NetCDF-4 file for adding frames.

Files are continued if they have the variables that Kinema writes, whichever program wrote them. Others are refused with
the reason: restarts, quantised files, further variables of frames.
"""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np

from kinema.base.errors import ArgumentError, UnsupportedFormatError
from kinema.formats.h5md.read.netcdf4.conventions import ANGLES, LENGTHS, RESTART, VECTORS, Convention
from kinema.formats.h5md.read.netcdf4.read import convention_of
from kinema.formats.h5md.units import Dimension, scale_to_kinema
from kinema.formats.hdf5.encoding import Preparation
from kinema.formats.hdf5.series import Series
from kinema.formats.hdf5.writer import check_given
from kinema.formats.netcdf4.write import FrameVariables
from kinema.storage.hdf5.file import numbers
from kinema.storage.hdf5.text import attribute, text_attribute

_DIMENSIONS: dict[str, Dimension] = {"positions": "length", "velocities": "velocity", "forces": "force"}
_OTHERS = ("time", "step", "timestep", "datalevel", "imageconvention", "cell", LENGTHS, ANGLES)
# units of the variables that are written without conversion
_UNITS = {"time": ("picosecond", "ps"), "cell": ("angstrom",), LENGTHS: ("angstrom",), ANGLES: ("degree",)}


class ExistingNetcdf:
    """Description of an existing file, for continuing it.

    `dtype`: of the first field.
    """

    def __init__(self, root: h5py.File, path: str, *, native: bool = False) -> None:
        """Reads the description; `native`: values are given in the units of the file.

        Raises UnsupportedFormatError for a file that cannot be continued.
        """
        self._root, self.path, self._native = root, path, native
        found = convention_of(root)
        if found is None or RESTART in (text_attribute(root, "Conventions") or "").upper():
            raise self._refused("it is not a trajectory of AMBER's or DL_POLY's convention")
        self.convention: Convention = found
        variables = {name: root[variable] for name, variable in VECTORS.items() if self._holds_rows(variable)}
        if not variables:
            variables = {name: root[variable] for name, variable in VECTORS.items() if variable in root}
        if not variables:
            raise self._refused(f"it has no variable of {', '.join(VECTORS.values())}")
        self._variables = variables
        self.fields = tuple(variables)
        first = next(iter(variables.values()))
        self.n_atoms = int(first.shape[1]) if len(first.shape) == 3 else 0
        self.dtype: np.dtype[Any] = first.dtype
        self._check_structure()

    def check(self, given: dict[str, Any]) -> None:
        """Raises ArgumentError if a given value (None: not given) differs from the file's."""
        stored = {
            "n_atoms": self.n_atoms,
            "fields": self.fields,
            "dtype": self.dtype,
            "convention": self.convention.name,
        }
        check_given(self.path, given, stored)

    def open_variables(self, workers: int) -> FrameVariables:
        """The variables, positioned after the last whole frame."""
        others = {name: self._root[name] for name in _OTHERS if self._holds_rows(name) or self._is_ours(name)}
        rows = min(len(dataset) for dataset in (*self._variables.values(), *others.values()))
        fields = {}
        for name, dataset in self._variables.items():
            factor = 1.0 if self._native else 1.0 / self._size(name, dataset)
            preparation = Preparation(dataset.dtype, factor=factor)
            fields[name] = Series(dataset, rows=rows, preparation=preparation, workers=workers)
        series = {name: Series(dataset, rows=rows) for name, dataset in others.items()}
        last_step = rows - 1 if rows else None
        if rows and "step" in others:
            last_step = int(others["step"][rows - 1])
        last_time = float(others["time"][rows - 1]) if rows and "time" in others else None
        return FrameVariables(self.convention, fields, series, self._root["frame"], rows, last_step, last_time)

    def _holds_rows(self, name: str) -> bool:
        node = self._root.get(name)
        return isinstance(node, h5py.Dataset) and len(node.shape) > 0 and node.maxshape[0] is None and len(node) > 0

    def _is_ours(self, name: str) -> bool:
        """Whether a variable without rows is empty only because the file has no frames at all."""
        return name in self._root and not any(len(one) for one in self._variables.values())

    def _check_structure(self) -> None:
        for variable in self._variables.values():
            if variable.ndim != 3 or variable.shape[1:] != (self.n_atoms, 3) or variable.dtype.kind != "f":
                raise self._refused(f"{variable.name} has shape {variable.shape} and type {variable.dtype}")
            if variable.chunks is None or variable.maxshape[0] is not None:
                raise self._refused(f"{variable.name} has a fixed number of frames")
        for name, units in _UNITS.items():
            unit = text_attribute(self._root[name], "units") if self._holds_rows(name) else None
            if unit is not None and unit.lower().removesuffix("s") not in units:
                raise self._refused(f"variable {name} has units {unit!r}")
        known = {*_OTHERS, *(VECTORS[name] for name in self._variables), "frame"}
        for name in self._root:
            if name not in known and self._holds_rows(name):
                raise self._refused(f"variable {name} has a value for each frame, and would not have the new frames")
        if "frame" not in self._root:
            raise self._refused("it has no dimension frame")

    def _size(self, name: str, dataset: Any) -> float:
        """Size of the variable's unit in Kinema's units."""
        unit = text_attribute(dataset, "units") or self.convention.units[name]
        stated = attribute(dataset, "scale_factor")
        factor = None if stated is None else numbers(stated)
        if factor is not None and (factor.size != 1 or not factor.all() or not np.isfinite(factor).all()):
            raise self._refused(f"{dataset.name} has scale_factor {stated}")
        try:
            scale = scale_to_kinema(unit, _DIMENSIONS[name])
        except ArgumentError as error:
            raise self._refused(f"{dataset.name}: {error}") from None
        return scale * (1.0 if factor is None else float(factor.reshape(-1)[0]))

    def _refused(self, why: str) -> UnsupportedFormatError:
        return UnsupportedFormatError(f"cannot append: {why}", at=self.path, format="NetCDF")
