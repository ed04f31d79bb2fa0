"""Frames of a NetCDF-4 file being written: its variables, which grow with the frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema._core import __version__
from kinema.base.errors import ArgumentError
from kinema.formats.given_frames import (
    FrameArrays,
    check_cells_kept,
    check_fields,
    check_rising,
    check_times_kept,
    counted_steps,
)
from kinema.formats.h5md.read.netcdf4.atoms import NAMES, NUMBERS
from kinema.formats.h5md.read.netcdf4.conventions import AMBER, ANGLES, LENGTHS, VECTORS, Convention
from kinema.formats.h5md.schema import GUESSED
from kinema.formats.hdf5.encoding import Preparation
from kinema.formats.hdf5.series import Series, set_rows
from kinema.formats.netcdf4.structure import FILL, Structure
from kinema.model.atom_table import Atoms
from kinema.storage.hdf5.storage import Layout, series_storage

NOT_COUNTED = "steps are not kept: AMBER's NetCDF convention has none, frames are counted from 0"
_TURNED = "cells are turned so that their first vector lies along x; positions are not"
_LABEL = 8
_OF_FIELD, _OF_SPACE = ("frame", "atom", "spatial"), ("frame", "cell_spatial")


@dataclass(frozen=True)
class NetcdfOptions:
    """All choices made before the first frame; checked by the writer."""

    convention: Convention
    n_atoms: int
    fields: tuple[str, ...] | None
    dtype: np.dtype[Any]
    layout: Layout
    n_frames: int | None
    native: bool
    atoms: Atoms | None
    workers: int


@dataclass
class FrameVariables:
    """The variables that frames are written into.

    `fields`: {"positions": Series, ...}.
    `others`: {"time": Series, ...}, by the names of variables.
    `frame`: the dimension scale of the frames.
    `rows`: frames taken.
    `last_step`, `last_time`: of the last frame; None without frames, or without times.
    """

    convention: Convention
    fields: dict[str, Series]
    others: dict[str, Series]
    frame: Any
    rows: int = 0
    last_step: int | None = None
    last_time: float | None = None

    def check(self, frames: FrameArrays, first: int) -> None:
        """Raises errors for frames that cannot be written; `first` is the number of the first frame.

        ArgumentError if this file cannot take them; UnsupportedFormatError if a reader would not give them back.
        """
        check_fields(frames, self.fields)
        has_cells = LENGTHS in self.others or "cell" in self.others
        for name, there, given in (("cell", has_cells, frames.cells), ("time", "time" in self.others, frames.times)):
            if given is not None and not there:
                raise ArgumentError(f"{name} is given, but the file has none: the first frame had none")
            if given is None and there:
                raise ArgumentError(f"{name} is missing, but the file has one for each frame")
        _check_kept(frames, self.convention, {name: one.preparation for name, one in self.fields.items()}, first)
        if frames.steps is not None and self.convention.has_steps:
            check_rising("step", frames.steps, self.last_step, strictly=True)
        if frames.times is not None:
            check_rising("time", frames.times, self._last_time_beside(frames.times), strictly=False)

    def _last_time_beside(self, times: NDArray[np.float64]) -> float | None:
        """`last_time`; the first of these times if the file, which rounds them, cannot tell the two apart."""
        dtype = self.others["time"].preparation.dtype
        if self.last_time is None or not len(times) or np.asarray(self.last_time, dtype) != times[0].astype(dtype):
            return self.last_time
        return float(times[0])

    def losses_of(self, frames: FrameArrays) -> list[str]:
        """Losses in frames that `check` has passed, rounding included."""
        lost = [
            f"{name} are rounded from float64 to float32"
            for name, values in frames.fields.items()
            if self.fields[name].preparation.dtype.itemsize == 4 and values.dtype == np.float64
        ]
        if not self.convention.has_steps and frames.steps is not None:
            counted = np.arange(self.rows, self.rows + len(frames))
            lost += [] if np.array_equal(frames.steps, counted) else [NOT_COUNTED]
        time = self.others.get("time")
        if time is not None and frames.times is not None and time.preparation.dtype.itemsize == 4:
            same = np.array_equal(frames.times.astype(np.float32), frames.times)
            lost += [] if same else ["times are rounded to float32"]
        if frames.cells is not None and not self.convention.has_vectors_of_cells:
            lost += [_TURNED] if frames.cells[:, [0, 0, 1], [1, 2, 2]].any() else []
        return lost

    def extend(self, frames: FrameArrays) -> None:
        """Takes frames that `check` has passed; without steps they are numbered on from the last."""
        steps = frames.steps
        if steps is None:
            steps = counted_steps(-1 if self.last_step is None else self.last_step, 1, len(frames))
        values = self._values(frames, steps)
        for name, series in self.fields.items():
            series.extend(frames.fields[name])
        for name, series in self.others.items():
            series.extend(values[name])
        self.last_step = int(steps[-1])
        self.last_time = None if frames.times is None else float(frames.times[-1])
        self.rows += len(frames)

    def flush(self) -> None:
        """Writes all frames; more may follow."""
        for series in self._all_series():
            series.flush()
        set_rows(self.frame, self.rows)

    def finish(self) -> None:
        """Writes all frames; no more may follow."""
        for series in self._all_series():
            series.finish()
        set_rows(self.frame, self.rows)

    def _all_series(self) -> list[Series]:
        return [*self.fields.values(), *self.others.values()]

    def _values(self, frames: FrameArrays, steps: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Values of the variables that are not fields."""
        n = len(frames)
        level = 2 if "forces" in self.fields else 1 if "velocities" in self.fields else 0
        values: dict[str, NDArray[Any]] = {
            "step": steps,
            "datalevel": np.full(n, level, np.int32),
            "imageconvention": np.zeros(n, np.int32),
            # the integrator's time step, which frames do not state
            "timestep": np.full(n, FILL),
        }
        if frames.times is not None:
            values["time"] = frames.times
        if frames.cells is not None:
            cells = _as_cells(frames.cells)
            both = _core.lengths_of_cells(cells)
            values |= {"cell": cells, LENGTHS: both[:, :3], ANGLES: both[:, 3:], "imageconvention": _images(cells)}
        return values


def check_first(options: NetcdfOptions, first: FrameArrays) -> None:
    """Raises UnsupportedFormatError if a reader would not give back the first frames; nothing is created yet."""
    _check_kept(first, options.convention, {name: _preparation(name, options) for name in first.fields}, 0)


def _check_kept(
    frames: FrameArrays, convention: Convention, preparations: Mapping[str, Preparation], first: int
) -> None:
    """Raises UnsupportedFormatError for numbers, times and cells that a reader would not give back."""
    for name, values in frames.fields.items():
        if isinstance(values, np.ndarray):  # announced rows were checked by their encoder
            preparations[name].check(values, name, first=first)
    if frames.times is not None:
        with np.errstate(over="ignore", under="ignore"):
            stored = frames.times.astype(convention.times)
        check_times_kept(frames.times, stored, first=first)
    if frames.cells is not None:
        cells = _as_cells(frames.cells)
        by_vectors = convention.has_vectors_of_cells
        found = cells if by_vectors else _core.cells_of_lengths(_core.lengths_of_cells(cells))
        check_cells_kept(cells, found, first=first)


def _preparation(name: str, options: NetcdfOptions) -> Preparation:
    factor = 1.0 if options.native else 1.0 / options.convention.sizes[name]
    return Preparation(options.dtype, factor=factor)


def _as_cells(cells: NDArray[Any]) -> NDArray[np.float64]:
    return np.ascontiguousarray(cells, np.float64)


def _images(cells: NDArray[np.float64]) -> NDArray[np.int32]:
    """DL_POLY's image convention: 1 cubic, 2 orthorhombic, 3 parallelepiped, 6 a slab without a third edge."""
    edges = np.diagonal(cells, axis1=1, axis2=2)
    straight = np.count_nonzero(cells, axis=(1, 2)) == np.count_nonzero(edges, axis=1)
    equal = (edges == edges[:, :1]).all(axis=1)
    shapes = np.where(straight, np.where(equal, 1, 2), 3)
    return np.where(cells[:, 2].any(axis=1), shapes, 6).astype(np.int32)


def create(root: Any, options: NetcdfOptions, first: FrameArrays | None) -> FrameVariables:
    """Makes dimensions, attributes and variables for frames such as `first`, or else for the fields in `options`."""
    convention = options.convention
    has_cells, has_times = (first is not None and one is not None for one in _cells_and_times(first))
    file = Structure(root)
    _write_attributes(file, convention)
    _add_dimensions(file, options, with_cells=has_cells)
    names = options.fields or (tuple(first.fields) if first is not None else ("positions",))
    fields = {}
    for name in VECTORS:
        if name in names:
            make = partial(_make_field, file, name, options)
            fields[name] = Series(make(), preparation=_preparation(name, options), workers=options.workers, make=make)
    others = {
        name: Series(file.add_variable(name, dimensions, series_storage(np.dtype(kind), item), unit))
        for name, (kind, dimensions, item, unit) in _other_variables(convention, has_cells, has_times).items()
    }
    if options.atoms is not None and convention is not AMBER:
        _write_atoms(file, options.atoms)
    return FrameVariables(convention, fields, others, root["frame"])


def _cells_and_times(first: FrameArrays | None) -> tuple[Any, Any]:
    return (None, None) if first is None else (first.cells, first.times)


def _write_attributes(file: Structure, convention: Convention) -> None:
    attributes = {
        "application": convention.title,
        "program": "Kinema",
        "programVersion": __version__,
        "Conventions": convention.title,
        "ConventionVersion": convention.version,
    }
    for name, value in attributes.items():
        file.text(file.root, name, value)


def _add_dimensions(file: Structure, options: NetcdfOptions, *, with_cells: bool) -> None:
    of_dl_poly = options.convention is not AMBER
    file.add_dimension("frame", None)
    file.add_dimension("spatial", 3, ("x", "y", "z"))
    file.add_dimension("atom", options.n_atoms)
    if of_dl_poly:
        file.add_dimension("dummy", 1)
    if of_dl_poly or with_cells:
        file.add_dimension("label", _LABEL if of_dl_poly else 5)
        file.add_dimension("cell_spatial", 3, ("a", "b", "c"))
        words = ("alpha", "beta", "gamma")
        width = _LABEL if of_dl_poly else 5
        file.add_dimension("cell_angular", 3, tuple(word.ljust(width) for word in words), over="label")


def _other_variables(
    convention: Convention, has_cells: bool, has_times: bool
) -> Mapping[str, tuple[str, tuple[str, ...], tuple[int, ...], str]]:
    """Type, dimensions, shape of a row and unit of the variables of frames that are not fields."""
    found: dict[str, tuple[str, tuple[str, ...], tuple[int, ...], str]] = {}
    if convention is not AMBER:
        # steps beyond 32 bits are kept; netCDF converts others to whatever a program asks for
        found = {
            "datalevel": ("<i4", ("frame",), (), ""),
            "imageconvention": ("<i4", ("frame",), (), ""),
            "timestep": ("<f8", ("frame",), (), convention.units["times"]),
            "step": ("<i8", ("frame",), (), ""),
        }
    if has_times:
        found["time"] = (convention.times, ("frame",), (), convention.units["times"])
    if has_cells:
        if convention.has_vectors_of_cells:
            found["cell"] = ("<f8", (*_OF_SPACE, "spatial"), (3, 3), convention.units["cell"])
        found[LENGTHS] = ("<f8", _OF_SPACE, (3,), convention.units["cell"])
        found[ANGLES] = ("<f8", ("frame", "cell_angular"), (3,), "degree")
    return found


def _make_field(file: Structure, name: str, options: NetcdfOptions, rows: int | None = None) -> Any:
    """The variable of a field, in place of an existing one; with chunks of `rows` frames if given."""
    variable, convention = VECTORS[name], options.convention
    if variable in file.root:
        file.remove_variable(variable, _OF_FIELD)
    storage = options.layout.new_field(options.n_atoms, options.dtype, options.n_frames)
    if rows is not None and storage.chunks is not None:
        storage = replace(storage, chunks=(rows, *storage.chunks[1:]))
    factor = convention.scale_factors.get(name)
    return file.add_variable(variable, _OF_FIELD, storage, convention.units[name], factor)


def _write_atoms(file: Structure, atoms: Atoms) -> None:
    """Writes names, indices, masses and charges, if known."""
    columns: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
        "ids": lambda values: values.astype(np.int64 if np.abs(values).max(initial=0) >= 2**31 else np.int32),
        "masses": lambda values: values.astype(np.float64),
        "charges": lambda values: values.astype(np.float64),
    }
    units = {"masses": "Dalton", "charges": "atomic charge units"}
    for column, as_stored in columns.items():
        values = atoms.get(column)
        if values is not None:
            file.add_values(NUMBERS[column], ("dummy", "atom"), as_stored(values)[None], units.get(column, ""))
            _mark(file, NUMBERS[column], column, atoms)
    names = atoms.get("names")
    if names is not None:
        texts = np.array([name.encode("latin-1", "replace")[:_LABEL].ljust(_LABEL) for name in names.tolist()])
        letters = texts.view("S1").reshape(1, atoms.n_atoms, _LABEL)
        file.add_values(NAMES, ("dummy", "atom", "label"), letters)
        _mark(file, NAMES, "names", atoms)


def _mark(file: Structure, variable: str, column: str, atoms: Atoms) -> None:
    """Marks a column as guessed, if it is."""
    if column in atoms.guessed:
        file.text(file.root[variable], GUESSED, "MDAnalysis")


def notes_of(convention: Convention, atoms: Atoms | None) -> list[str]:
    """Notes on the file's atoms for its users."""
    guessed = [] if atoms is None or convention is AMBER else [c for c in ("names", *NUMBERS) if c in atoms.guessed]
    if atoms is None or not guessed:
        return []
    which = f"{' and '.join(guessed)} of {atoms.name}"
    return [f"{which} were guessed by MDAnalysis; they are written with the attribute {GUESSED}"]


def label_losses(convention: Convention, atoms: Atoms | None) -> list[str]:
    """Losses in the data on atoms."""
    names = None if atoms is None or convention is AMBER else atoms.get("names")
    if names is None or all(len(name) <= _LABEL and name.isascii() for name in names.tolist()):
        return []
    return [f"names of atoms are cut to {_LABEL} letters"]
