"""The simulation box of a particles group: dimension, boundary, edges.

Choices: if no boundary is periodic, there is no cell, whatever the edges say. If some are, the cell has all edges;
`periodic` and a remark say which of them repeat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np

from kinema.base.errors import UnsupportedFormatError
from kinema.formats.h5md.file import H5mdFile
from kinema.formats.h5md.read.elements import Element, as_fixed, as_rows, find_element
from kinema.storage.hdf5.file import numbers
from kinema.storage.hdf5.text import as_texts, attribute


@dataclass(frozen=True)
class Box:
    """The box of a file."""

    periodic: tuple[bool, bool, bool]
    edges: Element | None
    """None if there is no cell."""


def find_box(opened: H5mdFile, group: Any, n_frames: int | None) -> Box:
    """The box of a particles group with this number of frames (None: its content is fixed).

    Raises UnsupportedFormatError unless it is three-dimensional, CorruptFileError if the edges do not form a box.
    """
    box = group.get("box")
    if not isinstance(box, h5py.Group):
        opened.remark(f"{group.name.strip('/')} has no box: no cell")
        return Box((False, False, False), None)
    dimension = _setting(box, "dimension")
    stored = None if dimension is None else numbers(dimension)
    if stored is not None and stored.size == 1 and int(stored.reshape(-1)[0]) != 3:
        raise not_three(opened, group, int(stored.reshape(-1)[0]))
    edges = find_element(opened, box, "edges")
    if edges is not None:
        edges = _rows_or_fixed(edges, n_frames)
    periodic = _boundary(opened, box, edges is not None)
    if edges is None:
        if any(periodic):
            opened.warn(f"{box.name.strip('/')} is periodic but has no edges: no cell")
        return Box(periodic, None)
    _check_shape(opened, edges)
    if not any(periodic):
        opened.remark(f"{box.name.strip('/')} has edges, but no boundary is periodic: no cell")
        return Box(periodic, None)
    if not all(periodic):
        along = ", ".join(axis for axis, is_periodic in zip("abc", periodic, strict=True) if is_periodic)
        opened.remark(f"{box.name.strip('/')} is periodic along {along} only; the cell has all edges")
    return Box(periodic, edges)


def _boundary(opened: H5mdFile, box: Any, has_edges: bool) -> tuple[bool, bool, bool]:
    stored = _setting(box, "boundary")
    words = [] if stored is None else [word.lower() for word in as_texts(stored)]
    if len(words) == 1:  # H5MD 1.0 allowed one word for all directions
        words *= 3
    if len(words) == 3 and all(word in ("periodic", "none", "nonperiodic") for word in words):
        a, b, c = (word == "periodic" for word in words)
        return a, b, c
    flags = None if box.get("pbc") is None else numbers(_setting(box, "pbc"))  # ZnH5MD
    if flags is None and isinstance(stored, np.ndarray):
        flags = numbers(stored)
    if flags is not None and flags.size and flags.size % 3 == 0:
        a, b, c = (bool(flag) for flag in flags.reshape(-1, 3)[0])
        return a, b, c
    if words:
        raise opened.corrupt(f"{box.name}: boundary must be periodic or none in 3 directions, found {', '.join(words)}")
    if has_edges:
        opened.warn(f"{box.name.strip('/')} does not say its boundary: taken as periodic")
    return has_edges, has_edges, has_edges


def _setting(box: Any, name: str) -> Any:
    """An attribute, or, as some programs write it, a data set of that name; for an element, its first row."""
    value = attribute(box, name)
    node = box.get(name)
    if value is None and isinstance(node, h5py.Group):
        node = node.get("value")
    if value is None and isinstance(node, h5py.Dataset) and 0 < node.size < 1_000_000 and node.nbytes < 1 << 24:
        value = node[()]
    return value


def _rows_or_fixed(edges: Element, n_frames: int | None) -> Element:
    """Edges without `step`, as fixed or with a row for each frame.

    In a group, a value of three lengths, or three vectors, holds for all frames; a data set with as many rows as there
    are frames has one for each.
    """
    shape = edges.value.shape
    if edges.fixed:
        if shape in ((3,), (3, 3)):
            return edges
        return as_rows(edges, n_frames, shape[1:] if shape[1:] in ((3,), (3, 3)) else (3,))
    if edges.steps is None and (shape == (3,) or (shape == (3, 3) and n_frames != 3)):
        return as_fixed(edges)
    return edges


def _check_shape(opened: H5mdFile, edges: Element) -> None:
    shape = edges.value.shape[0 if edges.fixed else 1 :]
    if shape not in ((3,), (3, 3)):
        raise opened.corrupt(f"{edges.name} has for each box {shape}, expected 3 lengths or 3 x 3 vectors")


def not_three(opened: H5mdFile, group: Any, found: int) -> UnsupportedFormatError:
    return UnsupportedFormatError(
        f"{group.name.strip('/')} has {found} dimensions, and only 3 are read", at=opened.path, format="H5MD"
    )
