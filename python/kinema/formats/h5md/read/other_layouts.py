"""HDF5 trajectories that are neither H5MD nor NetCDF-4: MDTraj's, and a bare data set that the user names.

Cells stored as lengths and angles are turned into matrices at opening.
"""

from __future__ import annotations

import itertools
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, UnsupportedFormatError
from kinema.formats.h5md.description import FieldDescription, H5mdDescription
from kinema.formats.h5md.file import H5mdFile
from kinema.formats.h5md.read.elements import Element
from kinema.formats.h5md.read.fields import LocatedElement, field_of, is_wide, locate, scale_of
from kinema.formats.h5md.read.row_readers import from_lengths_and_angles
from kinema.formats.h5md.units import scale_to_kinema
from kinema.storage.hdf5.chunks import numeric_type, read_series
from kinema.storage.hdf5.file import objects_below
from kinema.storage.hdf5.stored_dataset import StoredDataset
from kinema.storage.hdf5.text import text_attribute

_LISTED = 12
_NOTHING = "neither H5MD nor MDTraj nor AMBER nor DL_POLY"


def is_mdtraj(file: Any) -> bool:
    """Whether MDTraj wrote the file as its own format."""
    named = "Pande" in (text_attribute(file, "conventions") or "").split()
    return isinstance(file.get("coordinates"), h5py.Dataset) and (named or "topology" in file)


def describe_mdtraj(opened: H5mdFile) -> H5mdDescription:
    """MDTraj's own .h5 (conventions "Pande" 1.1): arrays at the root, nanometers, picoseconds, degrees."""
    version = text_attribute(opened.file, "programVersion")
    return _from_root(
        opened,
        {"positions": "coordinates", "velocities": "velocities", "forces": "forces"},
        {"length": "nm", "time": "ps", "velocity": "nm ps-1", "force": "kJ mol-1 nm-1"},
        "MDTraj HDF5, written by MDTraj" + (f" {version}" if version else ""),
    )


def describe_dataset(opened: H5mdFile, name: str) -> H5mdDescription:
    """A data set of positions, (frames, N, 3) or (frames, 3 N), in any HDF5 file.

    Its frames have no steps and no times. Its unit is that of `units=`, else its own attribute `unit` (or `units`),
    else angstrom, with a warning.
    """
    node = opened.file.get(name)
    if isinstance(node, h5py.Group) and isinstance(node.get("value"), h5py.Dataset):
        node = node["value"]
    if not isinstance(node, h5py.Dataset):
        raise ArgumentError(f"there is no data set {name!r}{_candidates(opened)}", at=opened.path, format="H5MD")
    shape, dtype = node.shape, numeric_type(node)
    fits = dtype is not None and ((len(shape) == 3 and shape[2] == 3) or (len(shape) == 2 and shape[1] % 3 == 0))
    if not fits or 0 in shape[1:]:
        raise ArgumentError(
            f"data set {node.name} has {node.dtype} {shape}, expected numbers of frames x atoms x 3 or "
            f"frames x 3 atoms{_candidates(opened)}",
            at=opened.path,
            format="H5MD",
        )
    unit = text_attribute(node, "unit") or text_attribute(node, "units")
    known = scale_of(opened, node.name, unit, "length")
    if known is None:
        opened.warn(f'{node.name} has no unit: taken as angstrom; state another unit with units={{"length": "nm"}}')
        known = (1.0, "angstrom")
    located = locate(opened, Element(node.name, node, False, int(shape[0]), None, None, unit, None, ()))
    positions = field_of(opened, located, located.element, *known)
    n_atoms = shape[1] if len(shape) == 3 else shape[1] // 3
    return description_of(
        opened, node.name.strip("/"), n_atoms, located.element, {"positions": positions}, None, located
    )


def no_trajectory(opened: H5mdFile, what: str = "") -> UnsupportedFormatError:
    """The error for an HDF5 file without a known structure; it names the data sets that could hold positions."""
    return UnsupportedFormatError(
        f"an HDF5 file, but {what or _NOTHING}{_candidates(opened)}", at=opened.path, format="H5MD"
    )


def _from_root(opened: H5mdFile, names: dict[str, str], units: dict[str, str], variant: str) -> H5mdDescription:
    """A file whose arrays lie at the root; row i of each is the same frame."""
    file, located = opened.file, {}
    times = times_of(opened, units["time"])
    n_times = None if times is None else len(times)
    for field, name in names.items():
        node = file.get(name)
        if not isinstance(node, h5py.Dataset):
            continue
        if node.ndim != 3 or node.shape[2] != 3 or 0 in node.shape[1:]:
            raise opened.corrupt(f"{name} has shape {node.shape}, expected frames x atoms x 3")
        rows = int(node.shape[0]) if n_times is None else min(n_times, int(node.shape[0]))
        located[field] = locate(opened, Element(name, node, False, rows, None, times, unit_of(node), "ps", ("row",)))
    if "positions" not in located:
        raise opened.corrupt(f"{names['positions']} is missing")
    axis = located["positions"].element
    n_rows = min(one.element.n_rows for one in located.values())
    cells = _cells(opened, units["length"], n_rows)
    axis = axis.cut(n_rows if cells is None else min(n_rows, len(cells)))
    fields: dict[str, FieldDescription | None] = {}
    for field, one in located.items():
        if one.element.value.shape[1] != axis.value.shape[1]:
            raise opened.corrupt(f"{one.element.name} has another number of atoms than {axis.name}")
        dimension = {"positions": "length", "velocities": "velocity", "forces": "force"}[field]
        known = scale_of(opened, one.element.name, one.element.unit or units[dimension], dimension)  # type: ignore[arg-type]
        assert known is not None
        fields[field] = field_of(opened, one, axis, *known)
    if cells is not None:
        fields["cell"] = computed_cell(cells[: axis.n_rows])
    return description_of(opened, "/", int(axis.value.shape[1]), axis, fields, variant, *located.values())


def times_of(opened: H5mdFile, unit: str) -> NDArray[np.float64] | None:
    """Times in ps; these files keep no steps."""
    time = opened.file.get("time")
    if not isinstance(time, h5py.Dataset) or time.ndim != 1 or time.dtype.kind not in "iuf" or not time.shape[0]:
        return None
    known = scale_of(opened, "time", unit_of(time) or unit, "time")
    assert known is not None
    return np.asarray(read_series(opened, time), np.float64) * known[0]


def unit_of(node: Any) -> str | None:
    return text_attribute(node, "units") or text_attribute(node, "unit")


def _cells(opened: H5mdFile, unit: str, n_rows: int) -> NDArray[np.float64] | None:
    """(rows, 3, 3) in angstrom; None if the file has no cell."""
    lengths, angles = opened.file.get("cell_lengths"), opened.file.get("cell_angles")
    if not isinstance(lengths, h5py.Dataset) or not isinstance(angles, h5py.Dataset):
        return None
    for node in (lengths, angles):
        if node.ndim != 2 or node.shape[1] != 3 or node.dtype.kind not in "iuf":
            raise opened.corrupt(f"{node.name} has {node.dtype} {node.shape}, expected frames x 3 numbers")
    n_rows = min(n_rows, lengths.shape[0], angles.shape[0])
    if n_rows == 0:
        return None
    scale = scale_to_kinema(unit_of(lengths) or unit, "length")
    return from_lengths_and_angles(lengths[:n_rows] * np.float64(scale), angles[:n_rows])


def computed_cell(cells: NDArray[np.float64]) -> FieldDescription:
    """A cell computed at opening, (rows, 3, 3) or once (3, 3), as an array that holds its own data."""
    array = StoredDataset(
        name="cell_lengths, cell_angles",
        file=0,
        shape=cells.shape,
        dtype="<f8",
        chunks=None,
        addresses=np.zeros(0, np.uint64),
        sizes=np.zeros(0, np.uint64),
        masks=np.zeros(0, np.uint32),
        filters=(),
        partial_chunks_unfiltered=False,
        fill=bytes(8),
        inline=np.ascontiguousarray(cells, "<f8").tobytes(),
    )
    return FieldDescription(
        pieces=((0, array),), rows=None, fixed=cells.ndim == 2, scale=1.0, unit="angstrom", reader=None, reason=""
    )


def description_of(
    opened: H5mdFile,
    group: str,
    n_atoms: int,
    axis: Element,
    fields: dict[str, FieldDescription | None],
    variant: str | None,
    *located: LocatedElement,
) -> H5mdDescription:
    return H5mdDescription(
        path=opened.path,
        other_files=tuple(opened.other_files),
        group=group,
        n_atoms=n_atoms,
        n_frames=axis.n_rows,
        steps=axis.steps,
        times=axis.times,
        time_scale=1.0,
        positions=fields.get("positions"),
        velocities=fields.get("velocities"),
        forces=fields.get("forces"),
        cell=fields.get("cell"),
        wide=is_wide(*located),
        variant=variant or f"HDF5, data set {group}",
        remarks=tuple(opened.remarks),
        warnings=tuple(opened.warnings),
        format=opened.format,
    )


def _candidates(opened: H5mdFile) -> str:
    """ "; one of its data sets is read with dataset=: /a (5, 3, 3), ..."."""
    listed = [f"{node.name} {node.shape}" for node in _numeric(opened.file)]
    if not listed:
        return "; it has no numeric data set of 2 or 3 dimensions"
    more = ", ..." if len(listed) > _LISTED else ""
    return f"; one of its data sets is read with dataset=: {', '.join(listed[:_LISTED])}{more}"


def _numeric(file: Any) -> list[Any]:
    """The first numeric data sets of 2 or 3 dimensions."""

    def is_meant(node: Any) -> bool:
        has_shape = isinstance(node, h5py.Dataset) and node.shape is not None and node.ndim in (2, 3)
        return has_shape and numeric_type(node) is not None

    return list(itertools.islice((node for _, node in objects_below(file) if is_meant(node)), _LISTED + 1))
