"""`KeptUniverses`: Universes that worker processes keep from one analysis to the next, so that they are sent once.

Each Universe is in a file in a folder of the calling process. Code that is sent to workers names the file in place of
the Universe, its reader and its time step. A Universe that was changed, here or by an analysis on a worker, is sent
again.
"""

from __future__ import annotations

import functools
import io
import os
import pickle
import tempfile
import weakref
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from MDAnalysis import Universe
from MDAnalysis.coordinates.memory import MemoryReader

from kinema.base.errors import os_errors
from kinema.base.serialisation import serialize

# Universes that a worker keeps at a time
_MOST = 4
# attributes that each Universe has; all others are the user's
_OWN = {"atoms", "filename", "residues", "segments"}


class _UniverseFile(NamedTuple):
    """A Universe as it was written: the objects themselves, its state, its file."""

    universe: weakref.ref[Universe]
    reader: weakref.ref[Any]
    state: tuple[Any, ...]
    path: str


class KeptUniverses:
    """The Universes of the calling process; `close` removes their files."""

    def __init__(self) -> None:
        with os_errors("cannot make a temporary folder"):
            self._folder = tempfile.TemporaryDirectory(prefix="kinema-")
        self._files: dict[int, _UniverseFile] = {}
        self._number = 0

    def close(self) -> None:
        """Removes the files, and the Universes that this process has loaded from them."""
        for one in self._files.values():
            _LOADED.pop(one.path, None)
        self._folder.cleanup()

    def serialized(self, function: Callable[..., Any]) -> bytes:
        """Serialises a method of an analysis for `loaded`, without the Universes that its attributes belong to."""
        names: dict[int, tuple[str, int, str]] = {}
        for universe in _universes_of(function):
            path = self._file(universe)
            if path is not None:
                reader = universe.trajectory
                objects = {"universe": universe, "trajectory": reader, "ts": reader.ts}
                names |= {id(one): (path, int(reader.frame), what) for what, one in objects.items()}
        return _serialized(function, names)

    def _file(self, universe: Any) -> str | None:
        """The file of a Universe as it is now; None if the Universe is sent with each analysis."""
        state = _state(universe)
        if state is None:
            return None
        known = self._files.get(id(universe))
        if known is not None:
            reader: Any = universe.trajectory
            if known.universe() is universe and known.reader() is reader and known.state == state:
                return known.path
        self._remove_others(id(universe))
        self._number += 1
        path = f"{self._folder.name}/universe-{self._number}"
        with os_errors("cannot store the Universe for worker processes", path), open(path, "xb") as file:
            file.write(serialize(universe))
        self._files[id(universe)] = _UniverseFile(weakref.ref(universe), weakref.ref(universe.trajectory), state, path)
        return path

    def _remove_others(self, number: int) -> None:
        """Removes files of Universes that are gone, and of the Universe that is stored again."""
        for key, one in list(self._files.items()):
            if key == number or one.universe() is None:
                del self._files[key]
                _LOADED.pop(one.path, None)
                os.remove(one.path)


def loaded(packed: bytes) -> Any:
    """The function that `KeptUniverses.serialized` packed, on a worker; Universes are at the frame where they were."""
    at: set[str] = set()

    class NamedUnpickler(pickle.Unpickler):
        def persistent_load(self, name: tuple[str, int, str]) -> Any:
            path, frame, what = name
            universe = _universe(path)
            if path not in at:
                at.add(path)
                # the analysis before has left it at another frame
                universe.trajectory[frame]
            known = {"universe": universe, "trajectory": universe.trajectory, "ts": universe.trajectory.ts}
            return known[what]

    return NamedUnpickler(io.BytesIO(packed)).load()


# Universes of this process, the last used one last, with their readers and their state when they were loaded
_LOADED: dict[str, tuple[Universe, Any, tuple[Any, ...] | None]] = {}


def _universe(path: str) -> Universe:
    """The Universe of a file; it is loaded again if an analysis has changed it."""
    known = _LOADED.pop(path, None)
    if known is None or known[0].trajectory is not known[1] or _state(known[0]) != known[2]:
        with open(path, "rb") as file:
            universe = pickle.load(file)
        known = universe, universe.trajectory, _state(universe)
    _LOADED[path] = known
    while len(_LOADED) > _MOST:
        del _LOADED[next(iter(_LOADED))]
    return known[0]


def _universes_of(function: Callable[..., Any]) -> list[Universe]:
    """The Universes of an analysis, found from its method: among its attributes, in groups of atoms and in readers."""
    while isinstance(function, functools.partial):
        function = function.func
    analysis = getattr(function, "__self__", None)
    found: dict[int, Universe] = {}
    for value in getattr(analysis, "__dict__", {}).values():
        universe = value if isinstance(value, Universe) else getattr(value, "universe", None)
        if isinstance(universe, Universe):
            found[id(universe)] = universe
    return list(found.values())


def _serialized(function: Callable[..., Any], names: dict[int, tuple[str, int, str]]) -> bytes:
    # it takes longer to import than all else that a run on threads needs
    import cloudpickle

    class NamingPickler(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, item: Any) -> tuple[str, int, str] | None:
            return names.get(id(item))

    buffer = io.BytesIO()
    NamingPickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(function)
    return buffer.getvalue()


def _state(universe: Universe) -> tuple[Any, ...] | None:
    """The state of a Universe, apart from the current frame, for comparison in the same process.

    None if it may hold more than files have: arrays in memory, transformations, auxiliary data, the user's attributes.
    """
    if any(not name.startswith("_") for name in vars(universe).keys() - _OWN):
        return None
    reader = getattr(universe, "_trajectory", None)
    parts = [reader, *(getattr(reader, "readers", None) or [])]
    for one in parts:
        if one is None or isinstance(one, MemoryReader) or one.transformations or one.aux_list:
            return None
    topology = universe._topology
    tables = tuple(_digest(table) for table in (topology.tt._AR, topology.tt._RS))
    # the numbers of atoms, residues and segments have no values
    attributes = [(attr.attrname, _digest(attr.values)) for attr in topology.attrs if hasattr(attr, "values")]
    return (*tables, *attributes)


def _digest(values: Any) -> bytes | int:
    """Digest of the values of an attribute: numbers, strings, or tuples of bonds."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        return blake2b(values.tobytes(), digest_size=16).digest()
    return hash(tuple(values.tolist() if isinstance(values, np.ndarray) else values))
