"""Topologies and the selection language: names, masses, and selection strings to atom indices.

Both come from MDAnalysis, which is imported when a topology is first used and not before. It reads no trajectory.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kinema.errors import ArgumentError, FileAccessError, FileNotFound

__all__ = ["ToldTopology", "Topology", "UniverseSource", "is_atom_group", "is_universe", "refuse_updating"]

# keywords of the selection language whose atoms depend on coordinates
_GEOMETRIC = frozenset({"around", "sphlayer", "isolayer", "sphzone", "cyzone", "cylayer", "point"})
_COORDINATES = frozenset({"x", "y", "z", "position", "positions", "velocity", "force"})
_HINT = (
    "its atoms change with the frame and Kinema does not freeze them silently; "
    "to use the atoms of one frame on purpose, pass their indices: select=universe.select_atoms(...).indices"
)


@runtime_checkable
class UniverseSource(Protocol):
    """What makes a Universe when it is first needed: the topology that an H5MD file holds itself."""

    @property
    def name(self) -> str:
        """Of the file, for messages."""

    def to_universe(self) -> Any:
        """The MDAnalysis Universe."""


@dataclass(frozen=True)
class ToldTopology:
    """A topology that another process has read: its name, and MDAnalysis' own pickled, or why it could not be read."""

    name: str
    data: bytes
    failed: Exception | None = None

    @classmethod
    def of(cls, topology: Topology) -> ToldTopology:
        """What makes the same Universe, without coordinates, where its file is not to be touched."""
        try:
            return cls(topology.name, pickle.dumps(topology.universe._topology, protocol=pickle.HIGHEST_PROTOCOL))
        except Exception as error:
            # whoever needs the topology is told; others do not
            return cls(topology.name, b"", error)

    def to_universe(self) -> Any:
        """The MDAnalysis Universe; raises what reading it has raised."""
        if self.failed is not None:
            raise self.failed
        import MDAnalysis

        return MDAnalysis.Universe(pickle.loads(self.data))


class Topology:
    """Atoms with names and masses, from a file that MDAnalysis reads, a Universe, or what makes one.

    A file is looked for at once, and read when something is first asked of it.
    """

    def __init__(self, source: str | os.PathLike[str] | UniverseSource | Any) -> None:
        self._universe: Any = None
        self._seconds = 0.0
        self._source: UniverseSource | None = None
        if is_universe(source):
            self._universe = source
            filename = getattr(source, "filename", None)
            self.name = os.fspath(filename) if isinstance(filename, (str, os.PathLike)) else "the universe"
            return
        if isinstance(source, UniverseSource):
            self._source = source
            self.name = source.name
            return
        if isinstance(source, bytes) or not isinstance(source, (str, os.PathLike)):
            raise ArgumentError(f"topology is a file name or an MDAnalysis Universe, found {type(source).__name__}")
        self.name = os.fspath(source)
        _check_readable(self.name)

    @property
    def universe(self) -> Any:
        """The MDAnalysis Universe; ArgumentError where MDAnalysis cannot read the file."""
        if self._universe is None:
            began = time.perf_counter()
            self._universe = _load(self.name) if self._source is None else self._source.to_universe()
            self._seconds = time.perf_counter() - began
        return self._universe

    @property
    def seconds(self) -> float:
        """What reading it took, with the import of MDAnalysis; 0 for one that has not been read."""
        return self._seconds

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return int(self.universe.atoms.n_atoms)

    def masses(self, indices: NDArray[np.uint32]) -> NDArray[np.float64]:
        """Masses of these atoms, (n,) float64 in u; ArgumentError where the topology has none, or one below zero.

        As MDAnalysis gives them: it guesses masses from element or name where the file states none.
        """
        try:
            masses = np.asarray(self.universe.atoms.masses, dtype=np.float64)[indices]
        except AttributeError:  # MDAnalysis' NoDataError is one
            raise ArgumentError(
                f"{self.name} has no masses; give weights=None or an array of one weight an atom", path=self.name
            ) from None
        if not np.isfinite(masses).all() or (masses < 0).any() or not masses.any():
            raise ArgumentError(
                f"{self.name}: masses of the selected atoms are not usable (negative, not a number, or all zero); "
                "give weights=None or an array of one weight an atom",
                path=self.name,
            )
        return masses

    def names(self, indices: NDArray[Any]) -> NDArray[np.str_] | None:
        """Names of these atoms, (n,); None where the topology has none."""
        return self._attribute("names", indices)

    def residue_names(self, indices: NDArray[Any]) -> NDArray[np.str_] | None:
        """Residue names of these atoms, (n,); None where the topology has none."""
        return self._attribute("resnames", indices)

    def residue_ids(self, indices: NDArray[Any]) -> NDArray[np.int64] | None:
        """Residue numbers of these atoms, (n,); None where the topology has none."""
        found = getattr(self.universe.atoms, "resids", None)
        return None if found is None else np.asarray(found, dtype=np.int64)[indices]

    def select(self, selection: str) -> NDArray[np.int64]:
        """Ascending indices of the atoms that a selection string of MDAnalysis names; may be none.

        Raises ArgumentError for a string that MDAnalysis does not understand, and for one whose atoms depend on
        coordinates.
        """
        refuse_changing(selection)
        try:
            return np.asarray(self.universe.select_atoms(selection).indices, dtype=np.int64)
        except Exception as error:  # SelectionError, ValueError, NoDataError, ...: MDAnalysis has no common base
            raise _not_understood(selection, error) from None

    def _attribute(self, name: str, indices: NDArray[Any]) -> NDArray[np.str_] | None:
        found = getattr(self.universe.atoms, name, None)
        return None if found is None else np.asarray(found[indices], dtype=np.str_)


def is_universe(value: object) -> bool:
    """Whether it is an MDAnalysis Universe, told without importing MDAnalysis."""
    mda = sys.modules.get("MDAnalysis")
    return mda is not None and isinstance(value, mda.Universe)


def is_atom_group(value: object) -> bool:
    """Whether it is an MDAnalysis AtomGroup, told without importing MDAnalysis."""
    mda = sys.modules.get("MDAnalysis")
    return mda is not None and isinstance(value, mda.AtomGroup)


def refuse_updating(group: Any) -> None:
    """Raises ArgumentError for an AtomGroup that updates itself with the frame."""
    from MDAnalysis.core.groups import UpdatingAtomGroup

    if isinstance(group, UpdatingAtomGroup):
        raise ArgumentError(f"an updating atom group cannot be used: {_HINT}")


def refuse_changing(selection: str) -> None:
    """Raises ArgumentError for a selection string whose atoms depend on coordinates, naming the part that does."""
    from MDAnalysis.core.selection import Parser

    try:
        tree = Parser.parse(selection, {}, periodic=True)
    except Exception as error:
        raise _not_understood(selection, error) from None
    reason = _changing_part(tree, seen=set())
    if reason is not None:
        raise ArgumentError(f"selection {selection!r} depends on coordinates ({reason}): {_HINT}")


def _changing_part(node: Any, seen: set[int]) -> str | None:
    """The first keyword below a node of MDAnalysis' selection tree that looks at coordinates."""
    if id(node) in seen:
        return None
    seen.add(id(node))
    tokens = {getattr(cls, "token", None) for cls in type(node).__mro__}
    geometric = tokens & _GEOMETRIC
    if geometric:
        return f"'{sorted(map(str, geometric))[0]}'"
    if tokens & {"prop", "same"} and str(getattr(node, "prop", "")) in _COORDINATES:
        word = "prop" if "prop" in tokens else "same"
        return f"'{word} {node.prop}'"
    for name, child in vars(node).items():
        # every node holds the parser, which holds the groups of the last call
        if name != "parser" and type(child).__module__ == "MDAnalysis.core.selection":
            reason = _changing_part(child, seen)
            if reason is not None:
                return reason
    return None


def _not_understood(selection: str, error: Exception) -> ArgumentError:
    said = " ".join(str(error).split()) or type(error).__name__
    return ArgumentError(f"selection {selection!r} is not understood by MDAnalysis: {said.rstrip('.')}")


def _check_readable(path: str) -> None:
    if os.path.isdir(path):
        raise ArgumentError(f"{path}: is a directory, expected a topology file", path=path)
    if not os.path.exists(path):
        raise FileNotFound(f"{path}: no such topology file", path=path)
    if not os.access(path, os.R_OK):
        raise FileAccessError(f"{path}: the topology file may not be read", path=path)


def _load(path: str) -> Any:
    import MDAnalysis

    try:
        with warnings.catch_warnings():
            # a topology that has no coordinates is what is wanted here
            warnings.filterwarnings("ignore", message="No coordinate reader found")
            return MDAnalysis.Universe(path)
    except Exception as error:  # parsers raise whatever they stumble over
        said = " ".join(str(error).split()) or type(error).__name__
        raise ArgumentError(
            f"{path}: MDAnalysis cannot read this topology: {said[:200].rstrip('.')}", path=path
        ) from None
