"""Time-dependent elements of an H5MD file, and which of them have a column per particle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, UnsupportedFormatError
from kinema.formats.h5md.file import H5mdFile
from kinema.formats.h5md.read.groups import choose_group, element_name, find_root, list_groups
from kinema.formats.h5md.schema import ELEMENTS
from kinema.storage.hdf5.chunks import read_series
from kinema.storage.hdf5.file import numbers, object_key
from kinema.storage.hdf5.text import attribute

Key = tuple[Any, ...]


@dataclass(frozen=True)
class TimedElement:
    """An element with rows: a group with `value`, and usually `step` and `time`."""

    path: str
    """Path of the group."""
    value: Any
    """`h5py.Dataset`."""
    step: Any | None
    time: Any | None
    n_columns: int | None
    """Number of particles, if the second dimension counts them."""
    particles: str | None
    """Path of the particles group that it is in."""
    name: str
    """"position", "velocity", ...; below `particles`, "box/edges"."""

    @property
    def is_position(self) -> bool:
        """Whether these are the positions of a particles group."""
        return self.particles is not None and self.name in ("position", "positions")


@dataclass(frozen=True)
class ParticlesGroup:
    """A particles group that holds vectors."""

    path: str
    n_atoms: int
    n_frames: int
    axes: Mapping[str, str]
    """Paths of the elements of "positions", "velocities", "forces" that change with time; the first defines the frames,
    unless another is asked for."""


@dataclass(frozen=True)
class Contents:
    """Parts of a file that can be rewritten."""

    root: Any
    groups: tuple[ParticlesGroup, ...]
    elements: tuple[TimedElement, ...]
    """In the order of discovery."""

    def element(self, path: str) -> TimedElement:
        """The element at a path, also if a link at the path leads to it."""
        file = self.root.file
        return next(one for one in self.elements if one.path == path or file[one.path] == file[path])


def contents_of(opened: H5mdFile) -> Contents:
    """The particles groups and elements of an H5MD file.

    Raises UnsupportedFormatError if the file is not H5MD, ArgumentError if `root=` is needed.
    """
    root = find_root(opened)
    if root is None:
        raise UnsupportedFormatError(
            "an HDF5 file, but not H5MD, and only H5MD files are rewritten", at=opened.path, format="H5MD"
        )
    groups = tuple(_particles_group(root, summary) for summary in list_groups(root) if summary.fields)
    columns = {group.path: group.n_atoms for group in groups}
    return Contents(root, groups, tuple(_elements(opened, root, columns)))


def group_of(opened: H5mdFile, contents: Contents, name: str) -> ParticlesGroup:
    """The particles group with the name "system" or "particles/system"; ArgumentError if there is none."""
    short = name.strip("/").rsplit("/", 1)[-1]
    for group in contents.groups:
        if group.path.rsplit("/", 1)[1] == short:
            return group
    names = ", ".join(group.path.strip("/") for group in contents.groups) or "none"
    raise ArgumentError(
        f"there is no particles group {name!r} that holds vectors, only {names}", at=opened.path, format="H5MD"
    )


def axis_of(opened: H5mdFile, contents: Contents) -> TimedElement:
    """The element whose rows are the frames: in the group of the options, or in the only group.

    Raises ArgumentError if a group must be named, or if nothing changes with time.
    """
    chosen = choose_group(opened, contents.root)
    group = next((one for one in contents.groups if opened.file[one.path] == chosen), None)
    wanted = opened.options.axis
    if group is not None and wanted is not None and wanted not in group.axes:
        raise ArgumentError(
            f"{group.path.strip('/')} has no {wanted} for axis=, only {', '.join(group.axes)}",
            at=opened.path,
            format="H5MD",
        )
    if group is None or not group.axes:
        raise ArgumentError(
            f"{chosen.name.strip('/')} has nothing that changes with time", at=opened.path, format="H5MD"
        )
    return contents.element(group.axes[wanted] if wanted is not None else next(iter(group.axes.values())))


def steps_of(opened: H5mdFile, element: TimedElement, what: str = "step") -> NDArray[Any] | None:
    """Steps (or times) of all rows in `step`; None if the element has none."""
    axis = getattr(element, what)
    if axis is None:
        return None
    if axis.shape != ():
        return read_series(opened, axis)
    offset = numbers(attribute(axis, "offset"))
    start = 0 if offset is None or offset.size != 1 else offset.reshape(-1)[0].item()
    count: NDArray[Any] = np.arange(element.value.shape[0], dtype=np.int64)
    values: NDArray[Any] = count * axis[()].item() + start
    return values


def _particles_group(root: Any, summary: Any) -> ParticlesGroup:
    group = root[summary.name]
    path = f"{root.name.rstrip('/')}/{summary.name}"
    axes = {}
    for field in summary.fields:
        member = element_name(group, ELEMENTS[field])
        node = None if member is None else group[member]
        if isinstance(node, h5py.Group):
            axes[field] = f"{path}/{member}"
    first = next(iter(axes.values()), None)
    n_frames = 1 if first is None else int(group[first.rsplit("/", 1)[1]]["value"].shape[0])
    return ParticlesGroup(path, summary.n_atoms, n_frames, axes)


def _elements(opened: H5mdFile, root: Any, columns: dict[str, int]) -> Iterator[TimedElement]:
    """All groups with a data set `value` that has rows, including groups in other files that links lead to.

    Each comes once, however many links lead to it. Elements in particles groups come first, whatever other groups they
    belong to.
    """
    seen: set[Key] = set()
    waiting = [(root.name, root), *((path, root.file[path]) for path in reversed(columns))]
    while waiting:
        path, group = waiting.pop()
        key = object_key(group)
        if key in seen:
            continue
        seen.add(key)
        element = _element(path, group, columns)
        if element is not None:
            yield element
        members = []
        for name in group:
            # only groups are opened: a file may have very many data sets
            link = group.get(name, getlink=True)
            if not isinstance(link, h5py.SoftLink) and group.get(name, getclass=True) is h5py.Group:
                members.append((f"{path.rstrip('/')}/{name}", group[name]))
        waiting += reversed(members)


def _element(path: str, group: Any, columns: dict[str, int]) -> TimedElement | None:
    value = group.get("value")
    if not isinstance(value, h5py.Dataset) or not value.shape:
        return None
    step, time = (_axis(group, name) for name in ("step", "time"))
    within = next((one for one in columns if path.startswith(one.rstrip("/") + "/")), None)
    if step is None and time is None and within is None:
        return None  # a private object of some program
    name = path if within is None else path[len(within) :].strip("/")
    n_columns = None
    if within is not None and "/" not in name and value.ndim > 1 and value.shape[1] == columns[within]:
        n_columns = columns[within]
    return TimedElement(path, value, step, time, n_columns, within, name)


def _axis(group: Any, name: str) -> Any | None:
    node = group.get(name)
    return node if isinstance(node, h5py.Dataset) and node.ndim <= 1 and node.dtype.kind in "iuf" else None
