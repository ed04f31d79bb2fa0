"""Description of a NetCDF-4 file of AMBER's or DL_POLY's convention, by which the decoder of HDF5 reads its frames.

Cells stored as lengths and angles are turned into vectors at opening, as the decoder of classic files does.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError, UnsupportedFormatError
from kinema.formats.h5md.description import ABSENT, FORBIDDEN, FieldDescription, H5mdDescription
from kinema.formats.h5md.file import H5mdFile
from kinema.formats.h5md.read.elements import Element
from kinema.formats.h5md.read.fields import LocatedElement, field_of, locate, scale_of, unless_wrong
from kinema.formats.h5md.read.netcdf4.conventions import ANGLES, CONVENTIONS, LENGTHS, RESTART, VECTORS, Convention
from kinema.formats.h5md.read.other_layouts import computed_cell, description_of, unit_of
from kinema.formats.h5md.units import Dimension
from kinema.storage.hdf5.chunks import read_series
from kinema.storage.hdf5.file import check_claim, numbers
from kinema.storage.hdf5.text import attribute, text_attribute

# integer variables in place of the ones in `VECTORS`, and the attribute by which they are divided
_QUANTISED = {"positions": "compressedpos", "velocities": "compressedvel", "forces": "compressedfrc"}
_DIVISOR = "icompressfac"
_DIMENSIONS: dict[str, Dimension] = {"positions": "length", "velocities": "velocity", "forces": "force"}
# lowest level of a DL_POLY frame that has the field
_LEVELS = {"positions": 0, "velocities": 1, "forces": 2}
_OF_UNITS = (ArgumentError, UnsupportedFormatError)
# netCDF's fill value for numbers that were never written
_FILL = 9.9692099683868690e36
_FILL_OF_INTEGERS = -(2**31) + 1
_CELLS_AT_ONCE = 1 << 16


def convention_of(file: Any) -> Convention | None:
    """The convention of a NetCDF-4 file, also of a restart; None if it has no known convention."""
    words = _conventions(file).replace(",", " ").split()
    names = {"AMBER": "amber", RESTART: "amber", "DL_POLY": "dl_poly"}
    return next((CONVENTIONS[names[word.upper()]] for word in words if word.upper() in names), None)


def has_vectors(file: Any) -> bool:
    """Whether any of the variables of positions, velocities and forces has values."""
    names = (*VECTORS.values(), *_QUANTISED.values())
    return any(isinstance(node, h5py.Dataset) and node.size for node in map(file.get, names))


def what_it_is(file: Any) -> str:
    """The kind of an HDF5 file without a known convention, for the error: "" if it is not NetCDF-4."""
    expected = "expected AMBER, AMBERRESTART or DL_POLY in its attribute Conventions"
    conventions = _conventions(file)
    if conventions:
        # MMTK, CF, ensembles of AMBER, ...
        return f"NetCDF-4 of the convention {conventions!r}, {expected}"
    if "_NCProperties" not in file.attrs:
        return ""
    inside = next((name for name, node in file.items() if isinstance(node, h5py.Group) and _conventions(node)), None)
    if inside is not None:
        return f"NetCDF-4 with the convention {_conventions(file[inside])!r} in its group {inside}; {expected}"
    return f"NetCDF-4 without a convention, {expected}"


def _conventions(node: Any) -> str:
    return text_attribute(node, "Conventions") or ""


def describe_netcdf4(opened: H5mdFile, convention: Convention) -> H5mdDescription:
    """The description of a file of this convention.

    Raises CorruptFileError for variables of other shapes and types, and for invalid cells; UnsupportedFormatError for a
    file without coordinates, velocities or forces.
    """
    opened.format = "NetCDF"
    restart = RESTART in _conventions(opened.file).upper()
    located, factors, quantised = _vectors(opened, restart)
    axis = _axis(opened, located)
    steps = None if restart else _steps(opened, convention)
    n_rows = axis.n_rows if steps is None else min(axis.n_rows, len(steps))
    find_times = partial(_time_of_restart, opened) if restart else partial(_times, opened, n_rows)
    times = unless_wrong(opened, "time", find_times, errors=_OF_UNITS)
    cells = _known_cells(opened, convention, restart, n_rows)
    if cells is not None and len(cells) < n_rows:
        opened.remark(f"{len(cells)} of {n_rows} frames have a cell in the file: the others are left out")
        n_rows = len(cells)
    axis = axis.cut(n_rows)
    levels = None if restart else _levels(opened, convention, n_rows)
    fields: dict[str, FieldDescription | None] = {}
    for name, one in located.items():
        if one.element.value.shape[-2] != axis.value.shape[-2]:
            raise opened.corrupt(f"{one.element.name} has another number of atoms than {axis.name}")
        unit = one.element.unit or convention.units[name]
        scale = partial(scale_of, opened, one.element.name, unit, _DIMENSIONS[name])
        known = (
            scale()
            if one.element.name == axis.name
            else unless_wrong(opened, one.element.name, scale, errors=_OF_UNITS)
        )
        if known is None:
            continue
        made = field_of(opened, one, axis, known[0] * factors[name], known[1])
        field = replace(made, fills=_fills(one.element.value))
        fields[name] = field if levels is None else _select_levels(opened, field, name, levels)
    if cells is not None:
        fields["cell"] = computed_cell(cells[:n_rows])
    known_times = None if times is None or np.isnan(times).all() else times[:n_rows]
    axis = replace(axis, steps=None if steps is None else steps[:n_rows], times=known_times)
    variant = _variant(opened.file, convention, restart, quantised)
    return description_of(opened, "/", int(axis.value.shape[-2]), axis, fields, variant, *located.values())


def _variant(file: Any, convention: Convention, restart: bool, quantised: list[str]) -> str:
    program = " ".join(filter(None, (text_attribute(file, name) for name in ("program", "programVersion"))))
    version = text_attribute(file, "ConventionVersion")
    return (
        f"{convention.title} convention{f' {version}' if version else ''}, NetCDF-4 (HDF5)"
        + (", restart" if restart else "")
        + (f", {' and '.join(quantised)} as integers" if quantised else "")
        + (f", written by {program}" if program else "")
    )


# -- variables --------------------------------------------------------------------------------------------------


def _variable(opened: H5mdFile, name: str, shape: tuple[int | None, ...], kinds: str = "iuf") -> Any:
    """The data set of a variable, or None; raises CorruptFileError for another shape (None: any length)."""
    node = opened.file.get(name)
    if node is None or (name not in opened.file):
        return None
    if not isinstance(node, h5py.Dataset) or node.shape is None or node.dtype.kind not in kinds:
        raise opened.corrupt(f"variable {name} holds no numbers")
    if len(node.shape) != len(shape) or any(n not in (None, m) for n, m in zip(shape, node.shape, strict=True)):
        expected = " x ".join("any" if n is None else str(n) for n in shape) or "one number"
        raise opened.corrupt(f"variable {name} has shape {node.shape}, expected {expected}")
    check_claim(opened, node)
    return node


def _vectors(opened: H5mdFile, restart: bool) -> tuple[dict[str, LocatedElement], dict[str, float], list[str]]:
    """The variables of fields, factors besides their units, and those that are integers."""
    located, factors, quantised = {}, {}, []
    nodes = {
        (field, name): _variable(opened, name, (None, 3) if restart else (None, None, 3))
        for field, usual in VECTORS.items()
        for name in (usual, _QUANTISED[field])
    }
    # DL_POLY has variables of velocities and forces even if no frame has any; a file without frames has them all
    has_frames = any(node is not None and 0 not in node.shape for node in nodes.values())
    for (field, name), node in nodes.items():
        if node is not None and field not in located and 0 not in node.shape[0 if has_frames else 1 :]:
            factor = _number(opened, node, "scale_factor", 1.0)
            if name != VECTORS[field]:
                factor /= _number(opened, node, _DIVISOR)
                quantised.append(field)
            rows = 1 if restart else int(node.shape[0])
            # row i of each variable is the same frame
            element = Element(name, node, restart, rows, np.arange(rows), None, unit_of(node), "ps", ("row",))
            located[field], factors[field] = locate(opened, element), factor
    if located:
        return located, factors, quantised
    names = ", ".join(VECTORS.values())
    raise UnsupportedFormatError(
        f"NetCDF-4 without frames: no variable of {names} has values", at=opened.path, format="NetCDF"
    )


def _axis(opened: H5mdFile, located: dict[str, LocatedElement]) -> Element:
    """The variable whose rows are the frames: that of `axis=`, or the first of the file."""
    wanted = opened.options.axis
    if wanted is not None and wanted not in located:
        raise ArgumentError(
            f"NetCDF has no {wanted} for axis=, only {', '.join(located)}", at=opened.path, format="NetCDF"
        )
    first = next(iter(located)) if wanted is None else wanted
    return located[first].element


def _number(opened: H5mdFile, node: Any, name: str, default: float | None = None) -> float:
    """An attribute that must be one number other than 0."""
    value = attribute(node, name)
    if value is None and default is not None:
        return default
    found = None if value is None else numbers(value)
    if found is None or found.size != 1 or not np.isfinite(found).all() or not found.all():
        raise opened.corrupt(f"variable {node.name.strip('/')}: {name}, expected a number other than 0, found {value}")
    return float(found.reshape(-1)[0])


def _fills(node: Any) -> tuple[float, ...]:
    """Values that mark numbers never written: fill values of the file, or netCDF's own."""
    stated = [
        numbers(value) for name in ("_FillValue", "missing_value") if (value := attribute(node, name)) is not None
    ]
    named = [number for one in stated if one is not None for number in one.reshape(-1).astype(np.float64).tolist()]
    usual = {"f": (_FILL, float(np.float32(_FILL)))}.get(node.dtype.kind, (float(_FILL_OF_INTEGERS),))
    return (*usual, *named)


def _unfilled(node: Any, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The numbers of a variable, NaN if never written."""
    return np.where(np.isin(values, _fills(node)), np.nan, values)


# -- frames -----------------------------------------------------------------------------------------------------


def _times(opened: H5mdFile, n_rows: int) -> NDArray[np.float64] | None:
    """(rows,) in ps, NaN if never written: a variable may have fewer rows than others; None without times."""
    node = _variable(opened, "time", (None,))
    if node is None or not n_rows:
        return None
    values = np.full(n_rows, np.nan)
    found = np.asarray(read_series(opened, node) if node.shape[0] else [], np.float64)[:n_rows]
    values[: len(found)] = found
    return _noted_times(opened, _unfilled(node, values)) * _time_scale(opened, node)


def _time_of_restart(opened: H5mdFile) -> NDArray[np.float64] | None:
    if (node := opened.file.get("time")) is None:
        return None
    values = None if getattr(node, "size", 0) != 1 else numbers(node[()])
    if values is None:
        raise opened.corrupt("variable time of a restart, expected one number")
    times = _noted_times(opened, _unfilled(node, values.reshape(1).astype(np.float64)))
    return times * _time_scale(opened, node)


def _noted_times(opened: H5mdFile, times: NDArray[np.float64]) -> NDArray[np.float64]:
    """The times, with a note on those that were never written."""
    missing = np.flatnonzero(np.isnan(times))
    if len(missing):
        opened.warn(
            f"values of time were never written in {len(missing)} of {len(times)} frames, the first is frame "
            f"{missing[0]}: NaN is given"
        )
    return times


def _time_scale(opened: H5mdFile, node: Any) -> float:
    known = scale_of(opened, "time", unit_of(node) or "picosecond", "time")
    assert known is not None
    return known[0] * _number(opened, node, "scale_factor", 1.0)


def _steps(opened: H5mdFile, convention: Convention) -> NDArray[np.int64] | None:
    node = _variable(opened, "step", (None,), "iu") if convention.has_steps else None
    return None if node is None or not node.shape[0] else np.asarray(read_series(opened, node), np.int64)


def _levels(opened: H5mdFile, convention: Convention, n_rows: int) -> NDArray[np.int64] | None:
    """(rows,) the level of each frame of DL_POLY; None if all frames have all fields of the file."""
    node = _variable(opened, "datalevel", (None,), "iu") if convention.has_steps else None
    if node is None:
        return None
    levels = np.asarray(read_series(opened, node), np.int64)[:n_rows]
    if len(levels) < n_rows or not ((levels >= 0) & (levels <= 2)).all():
        raise opened.corrupt(f"variable datalevel, expected 0, 1 or 2 for each of {n_rows} frames")
    return levels


def _select_levels(
    opened: H5mdFile, field: FieldDescription, name: str, levels: NDArray[np.int64]
) -> FieldDescription | None:
    """The field, absent in frames of a lower level; None if no frame has it."""
    there = levels >= _LEVELS[name]
    if not there.any():
        return None
    if there.all():
        return field
    n = len(there)
    if opened.options.absent == "hold":
        last = np.maximum.accumulate(np.where(there, np.arange(n), -1))
        return replace(field, rows=np.where(last < 0, ABSENT, last))
    absent = ABSENT if opened.options.absent == "nan" else FORBIDDEN
    rows = np.arange(n) if field.rows is None else field.rows
    return replace(field, rows=np.where(there, rows, absent).astype(np.int64))


# -- cells ------------------------------------------------------------------------------------------------------


def _known_cells(opened: H5mdFile, convention: Convention, restart: bool, n_rows: int) -> NDArray[np.float64] | None:
    """As `_cells`; NaN, which is an unknown cell, with a note, if the variables are invalid."""
    found = partial(_cells, opened, convention, restart, n_rows)
    cells = unless_wrong(opened, "cell", lambda: (found(),), "the cell of no frame is known", _OF_UNITS)
    return np.full((n_rows, 3, 3), np.nan) if cells is None else cells[0]


def _cells(opened: H5mdFile, convention: Convention, restart: bool, n_rows: int) -> NDArray[np.float64] | None:
    """(rows, 3, 3) in angstrom; None if no frame has a cell."""
    rows = () if restart else (None,)
    vectors = _variable(opened, "cell", (*rows, 3, 3)) if convention.has_vectors_of_cells else None
    if vectors is not None and vectors.shape[0]:
        cells = _rows(vectors, n_rows) * _length_scale(opened, vectors)
        cells[~_has_cells(opened, len(cells))] = 0.0
    else:
        lengths, angles = _variable(opened, LENGTHS, (*rows, 3)), _variable(opened, ANGLES, (*rows, 3))
        if lengths is None or angles is None or 0 in (*lengths.shape, *angles.shape):
            return None
        if restart:
            both = [_unfilled(one, one[()][None].astype(np.float64)) for one in (lengths, angles)]
        else:
            n_rows = min(n_rows, lengths.shape[0], angles.shape[0])
            both = [_rows(lengths, n_rows), _rows(angles, n_rows)]
        # a scale factor may be negative, as may the numbers
        scale = _length_scale(opened, lengths)
        both = [both[0] * np.sign(scale), both[1] * _degrees(opened, angles)]
        cells = _core.cells_of_lengths(np.concatenate(both, axis=1)) * abs(scale)
    return cells if cells.any() else None


def _rows(node: Any, n_rows: int) -> NDArray[np.float64]:
    """The first rows of a small variable; libhdf5 reads them."""
    n_rows = min(n_rows, node.shape[0])
    values = np.empty((n_rows, *node.shape[1:]))
    for start in range(0, n_rows, _CELLS_AT_ONCE):
        stop = min(start + _CELLS_AT_ONCE, n_rows)
        values[start:stop] = node[start:stop]
    return _unfilled(node, values)


def _has_cells(opened: H5mdFile, n_rows: int) -> NDArray[np.bool_]:
    """Which frames of DL_POLY are periodic."""
    images = _variable(opened, "imageconvention", (None,), "iu")
    if images is None:
        return np.ones(n_rows, np.bool_)
    there = np.zeros(n_rows, np.bool_)
    found = np.asarray(read_series(opened, images), np.int64)[:n_rows]
    there[: len(found)] = found != 0
    return there


def _length_scale(opened: H5mdFile, node: Any) -> float:
    known = scale_of(opened, node.name.strip("/"), unit_of(node) or "angstrom", "length")
    assert known is not None
    return known[0] * _number(opened, node, "scale_factor", 1.0)


def _degrees(opened: H5mdFile, node: Any) -> float:
    unit = (unit_of(node) or "degree").lower().removesuffix("s")
    if unit not in ("degree", "radian"):
        raise UnsupportedFormatError(
            f"variable {ANGLES}: units, expected degree or radian, found {unit_of(node)!r}",
            at=opened.path,
            format="NetCDF",
        )
    return (1.0 if unit == "degree" else 180.0 / np.pi) * _number(opened, node, "scale_factor", 1.0)
