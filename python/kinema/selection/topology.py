"""Topologies and the selection language: names, masses, and selection strings to atom indices.

Both come from MDAnalysis, which is imported when a topology is first used and not before.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kinema.errors import ArgumentError, CorruptFileError, FileNotFound, from_os
from kinema.files import check_regular
from kinema.notes import emit
from kinema.resources import physical_memory
from kinema.selection.universe import import_mdanalysis

__all__ = [
    "GEOMETRIC_KEYWORDS",
    "Topology",
    "TopologySnapshot",
    "UniverseSource",
    "is_atom_group",
    "is_universe",
    "refuse_updating",
]

# keywords of the selection language whose atoms depend on coordinates
GEOMETRIC_KEYWORDS = frozenset({"around", "sphlayer", "isolayer", "sphzone", "cyzone", "cylayer", "point"})
# A topology is read whole, and as objects: one larger than this, or than the memory of the machine, is none. PDB has 81
# bytes an atom. Of trajectories that serve as topologies the header or the first frame is read, whatever their size.
_MOST_BYTES = 16 << 30
_TRAJECTORIES = (
    *(".xtc", ".trr", ".dcd", ".tng", ".gsd", ".nc", ".ncdf", ".netcdf", ".trz", ".h5md", ".h5"),
    *(".lammpsdump", ".dump", ".lammpstrj", ".xyz", ".arc", ".history"),
)
# of the types that a note on masses names
_SHOWN_TYPES = 8
_COORDINATES = frozenset({"x", "y", "z", "position", "positions", "velocity", "force"})
_HINT = (
    "its atoms change with the frame and Kinema does not freeze them silently; "
    "to use the atoms of one frame on purpose, pass their indices (universe.select_atoms(...).indices) "
    "or write an index file"
)


@runtime_checkable
class UniverseSource(Protocol):
    """A source that makes a Universe when it is first needed, such as the topology within an H5MD file."""

    @property
    def name(self) -> str:
        """Of the file, for messages."""

    def to_universe(self) -> Any:
        """The MDAnalysis Universe."""


@dataclass(frozen=True)
class TopologySnapshot:
    """A topology that another process has read: name, and MDAnalysis' topology pickled or the error of reading it."""

    name: str
    data: bytes
    failed: Exception | None = None

    @classmethod
    def of(cls, topology: Topology) -> TopologySnapshot:
        """The snapshot of a topology, which is read now; it makes the same Universe, without coordinates."""
        try:
            return cls(topology.name, pickle.dumps(topology.universe._topology, protocol=pickle.HIGHEST_PROTOCOL))
        except Exception as error:
            # raised where the topology is used
            return cls(topology.name, b"", error)

    def to_universe(self) -> Any:
        """The MDAnalysis Universe; raises what reading it has raised."""
        if self.failed is not None:
            raise self.failed
        return import_mdanalysis().Universe(pickle.loads(self.data))


@dataclass(frozen=True)
class _TopologyFile:
    """A topology file as another process has seen it: its name there, its whole path, the SHA-256 of its content."""

    name: str
    path: str
    digest: str

    @classmethod
    def of(cls, name: str) -> _TopologyFile:
        return cls(name, os.path.abspath(name), _digest(name))

    def to_universe(self) -> Any:
        """The MDAnalysis Universe; CorruptFileError for a file with another content."""
        _check_readable(self.path)
        found = _digest(self.path)
        if found != self.digest:
            raise CorruptFileError(
                f"{self.path}: the topology file has changed since the trajectory was pickled, or is another one on "
                f"this machine, expected SHA-256 {self.digest[:16]}, found {found[:16]}",
                path=self.path,
            )
        return _load(self.path)


class Topology:
    """Atoms with names and masses, from a file that MDAnalysis reads, a Universe, or what makes one.

    That a file exists is checked at once; it is read when it is first used.
    """

    def __init__(self, source: str | os.PathLike[str] | UniverseSource | Any) -> None:
        self._universe: Any = None
        self._seconds = 0.0
        self._source: UniverseSource | None = None
        self._origin: object = source
        self._of_universe = False
        if is_universe(source):
            self._universe = source
            self._of_universe = True
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
        self._origin = os.path.abspath(self.name)
        _check_readable(self.name)

    def __getstate__(self) -> dict[str, Any]:
        # of a Universe its atoms; of a file its path and digest: unpickling reads nothing
        source: UniverseSource | None = self._source
        if self._of_universe:
            source = TopologySnapshot.of(self)
        elif source is None:
            source = _TopologyFile.of(self.name)
        return self.__dict__ | {"_universe": None, "_seconds": 0.0, "_source": source, "_of_universe": False}

    @property
    def universe(self) -> Any:
        """The MDAnalysis Universe; ArgumentError where MDAnalysis cannot read the file."""
        if self._universe is None:
            began = time.perf_counter()
            self._universe = _load(self.name) if self._source is None else self._source.to_universe()
            self._seconds = time.perf_counter() - began
        return self._universe

    def same_source(self, other: Topology) -> bool:
        """Whether both are of the same file, Universe or other source."""
        return bool(self._origin == other._origin)

    @property
    def seconds(self) -> float:
        """Seconds that reading it took, with the import of MDAnalysis; 0 for one that has not been read."""
        return self._seconds

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return int(self.universe.atoms.n_atoms)

    def masses(self, indices: NDArray[np.uint32]) -> NDArray[np.float64]:
        """Masses of these atoms as weights, (n,) float64 in u. Emits `mass_notes`.

        ArgumentError where the topology has none, where one is below zero, and where all are zero.
        """
        masses = self.stated_masses(indices)
        if masses is None:
            raise ArgumentError(
                f"{self.name} has no masses; give weights=None or an array of one weight an atom", path=self.name
            )
        if not np.isfinite(masses).all() or (masses < 0).any() or not masses.any():
            raise ArgumentError(
                f"{self.name}: masses of the selected atoms are not usable (negative, not a number, or all zero); "
                "give weights=None or an array of one weight an atom",
                path=self.name,
            )
        emit(self.mass_notes(indices))
        return masses

    def stated_masses(self, indices: NDArray[Any]) -> NDArray[np.float64] | None:
        """Masses of these atoms, (n,) float64 in u, as MDAnalysis gives them; None where there are none."""
        masses = getattr(self.universe.atoms, "masses", None)
        return None if masses is None else np.asarray(masses, dtype=np.float64)[indices]

    def mass_notes(self, indices: NDArray[Any]) -> list[str]:
        """What a user of these masses must know: that MDAnalysis guessed them, and for which atoms they are zero."""
        masses = self.stated_masses(indices)
        if masses is None:
            return []
        notes = []
        if getattr(getattr(self.universe._topology, "masses", None), "is_guessed", False):
            known = np.asarray(indices)[masses != 0]
            if known.size:
                notes.append(
                    f"{self.name}: masses of {_atoms(known.size)} were guessed by MDAnalysis, {self._types(known)}"
                )
        zero = np.asarray(indices)[masses == 0]
        if zero.size:
            notes.append(f"{self.name}: masses of {_atoms(zero.size)} are zero, {self._types(zero)}")
        return notes

    def _types(self, indices: NDArray[Any]) -> str:
        """The types of these atoms (their names where there are none), the first in alphabetical order."""
        kind, values = "types", self._attribute("types", indices)
        if values is None:
            kind, values = "names", self._attribute("names", indices)
        if values is None:
            return "of no known type"
        distinct = np.unique(values)
        shown = ", ".join(str(value) or "''" for value in distinct[:_SHOWN_TYPES])
        more = f" and {len(distinct) - _SHOWN_TYPES} more" if len(distinct) > _SHOWN_TYPES else ""
        return f"{kind[:-1] if len(distinct) == 1 else kind} {shown}{more}"

    def names(self, indices: NDArray[Any]) -> NDArray[np.str_] | None:
        """Names of these atoms, (n,); None where the topology has none."""
        return self._attribute("names", indices)

    def residue_names(self, indices: NDArray[Any]) -> NDArray[np.str_] | None:
        """Residue names of these atoms, (n,); None where the topology has none."""
        return self._attribute("resnames", indices)

    def residue_ids(self, indices: NDArray[Any]) -> NDArray[np.int64] | None:
        """Residue numbers of these atoms, (n,); None where the topology has none."""
        numbers = getattr(self.universe.atoms, "resids", None)
        return None if numbers is None else np.asarray(numbers, dtype=np.int64)[indices]

    def residue_indices(self, indices: NDArray[Any]) -> NDArray[np.int64]:
        """Which of the topology's residues each of these atoms is in, (n,), from 0."""
        residues: NDArray[np.int64] = np.asarray(self.universe.atoms.resindices, dtype=np.int64)[indices]
        return residues

    def segment_names(self, indices: NDArray[Any]) -> NDArray[np.str_] | None:
        """Names of the segments (chains) of these atoms, (n,); None where the topology has none."""
        return self._attribute("segids", indices)

    def select(self, selection: str) -> NDArray[np.int64]:
        """Ascending indices of the atoms that a selection string of MDAnalysis names; may be none.

        Raises ArgumentError for a string that MDAnalysis does not understand, and for one whose atoms depend on
        coordinates.
        """
        refuse_changing(selection)
        try:
            return np.asarray(self.universe.select_atoms(selection).indices, dtype=np.int64)
        except Exception as error:  # SelectionError, ValueError, NoDataError, ...: MDAnalysis has no common base
            if isinstance(error, AttributeError) and error.name:
                raise ArgumentError(
                    f"{self.name}: selection {selection!r} needs {error.name}, which this topology does not have",
                    path=self.name,
                ) from None
            raise _not_understood(selection, error) from None

    def _attribute(self, name: str, indices: NDArray[Any]) -> NDArray[np.str_] | None:
        values = getattr(self.universe.atoms, name, None)
        return None if values is None else np.asarray(values[indices], dtype=np.str_)


def _atoms(number: int) -> str:
    return f"{number} atom{'' if number == 1 else 's'}"


def is_universe(value: object) -> bool:
    """Whether it is an MDAnalysis Universe, decided without importing MDAnalysis."""
    mda = sys.modules.get("MDAnalysis")
    # not there yet while another thread imports it
    kind = getattr(mda, "Universe", None)
    return kind is not None and isinstance(value, kind)


def is_atom_group(value: object) -> bool:
    """Whether it is an MDAnalysis AtomGroup, decided without importing MDAnalysis."""
    mda = sys.modules.get("MDAnalysis")
    kind = getattr(mda, "AtomGroup", None)
    return kind is not None and isinstance(value, kind)


def refuse_updating(group: Any) -> None:
    """Raises ArgumentError for an AtomGroup that updates itself with the frame."""
    import_mdanalysis()
    from MDAnalysis.core.groups import UpdatingAtomGroup

    if isinstance(group, UpdatingAtomGroup):
        raise ArgumentError(f"an updating atom group cannot be used: {_HINT}")


def refuse_changing(selection: str) -> None:
    """Raises ArgumentError for a selection string whose atoms depend on coordinates, naming the part that does."""
    import_mdanalysis()
    from MDAnalysis.core.selection import Parser

    try:
        tree = Parser.parse(selection, {}, periodic=True)
    except Exception as error:
        raise _not_understood(selection, error) from None
    reason = _changing_part(tree, seen=set())
    if reason is not None:
        raise ArgumentError(f"selection {selection!r} depends on coordinates ({reason}): {_HINT}")


def _changing_part(node: Any, seen: set[int]) -> str | None:
    """The first keyword below a node of MDAnalysis' selection tree that uses coordinates."""
    if id(node) in seen:
        return None
    seen.add(id(node))
    tokens = {getattr(cls, "token", None) for cls in type(node).__mro__}
    geometric = tokens & GEOMETRIC_KEYWORDS
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
    reason = " ".join(str(error).split()) or type(error).__name__
    return ArgumentError(f"selection {selection!r} is not understood by MDAnalysis: {reason.rstrip('.')}")


def _check_readable(path: str) -> None:
    if not os.path.exists(path):
        raise FileNotFound(f"{path}: no such topology file", path=path)
    whole = not path.lower().endswith(_TRAJECTORIES)
    check_regular(path, "topology file", most=min(_MOST_BYTES, physical_memory() or _MOST_BYTES) if whole else None)
    if not os.path.getsize(path):
        raise ArgumentError(f"{path}: the topology file is empty", path=path)


def _digest(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise from_os("cannot read the topology file", error, path) from None


def _load(path: str) -> Any:
    mda = import_mdanalysis()
    try:
        with warnings.catch_warnings():
            # a topology needs no coordinates
            warnings.filterwarnings("ignore", message="No coordinate reader found")
            return mda.Universe(path)
    except Exception as error:  # MDAnalysis' parsers raise errors of any class
        raise ArgumentError(f"{path}: MDAnalysis cannot read this topology{_reason(path, error)}", path=path) from None


def _reason(path: str, error: Exception) -> str:
    """What the format was taken for and what is wrong, without classes of MDAnalysis and without the path again."""
    suffix = os.path.splitext(path)[1]
    # "Failed to construct topology from file PATH with parser <class ...>. Error: ..."
    text = re.sub(r"^Failed to .* with parser .*?>\. Error: ", "", " ".join(str(error).split()))
    text = re.sub(r"^\w+Parser: ", "", text.replace(f"'{path}'", "").replace(path, "")).strip(" :.")
    if "isn't a valid topology format" in text:
        found = f"{suffix} is not one of them" if suffix else "this name has none"
        return f": its format follows from the ending of the file's name, and {found}"
    if "codec can't decode" in text:
        text = "it is not text"
    elif isinstance(error, (AttributeError, LookupError, StopIteration, TypeError)) or not text:
        # of code that met something else than it expects, and says nothing of the file
        text = "its content is not of this format, or no atoms are in it"
    if text.startswith("is "):
        text = f"it {text}"
    return f" as {suffix[1:].upper()}: {text[:200].rstrip('.')}"
