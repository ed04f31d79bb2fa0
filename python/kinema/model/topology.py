"""Topologies and the selection language: tables of atoms, and selection strings to atom indices.

Both come from MDAnalysis, which is imported only when a topology is first used. The table of an HDF5 file is read
without MDAnalysis.
"""

from __future__ import annotations

import os
import pickle
import re
import sys
import time
import warnings
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, CorruptFileError, FileNotFound, os_errors
from kinema.base.frozen_dataclass import dataclass
from kinema.base.input_files import check_lines, check_regular, open_regular
from kinema.base.notes import emit
from kinema.base.resources import physical_memory
from kinema.model.atom_table import Atoms
from kinema.model.selection_tree import GEOMETRIC_KEYWORDS, Expression, changing_part, expression_of
from kinema.model.stored_topology import StoredTopology
from kinema.model.universe import import_mdanalysis, universe_of

# A topology is read whole, into objects: a file larger than this, or than the machine's memory, is refused. PDB has 81
# bytes an atom. If a trajectory serves as topology, only its header or first frame is read, whatever its size.
_MOST_BYTES = 16 << 30
_TRAJECTORIES = (
    *(".xtc", ".trr", ".dcd", ".tng", ".gsd", ".nc", ".ncdf", ".netcdf", ".trz", ".h5md", ".h5"),
    *(".lammpsdump", ".dump", ".lammpstrj", ".xyz", ".arc", ".history"),
)
# formats that MDAnalysis does not read as lines of text, which its parsers load one by one; XML may be one line
BINARY = frozenset(
    "XTC TRR DCD TNG GSD NC NCDF NETCDF NCRST TRZ H5MD H5 TPR DMS MMTF COOR NAMDBIN XML CHEMFILES".split()
)
# for a trajectory that serves as a topology: its first frame is read
_FIRST_BYTES = 1 << 28
_INCLUDE = re.compile(rb"""\s*#\s*include\s+["'<]?([^"'>\s]+)""")
#: why atoms must be the same in all frames, after a selection that changes
CHANGING_HINT = (
    "its atoms change with the frame and Kinema does not freeze them silently; counts, centres, radii of gyration, "
    "shapes, near pairs, least distances and hydrogen bonds take such atoms, but whatever has a column for each atom, "
    "residue or pair, read and convert need the same atoms in all frames; select(..., frame=0) of the trajectory takes "
    "the atoms of one frame"
)
# words of the selection language whose atoms may depend on coordinates
_POSSIBLY_CHANGING = GEOMETRIC_KEYWORDS | {"prop", "same"}


@runtime_checkable
class AtomsSource(Protocol):
    """A source that reads a table of atoms when it is first needed, such as the atoms of an H5MD file."""

    @property
    def name(self) -> str:
        """The file's name, for messages."""

    def read_atoms(self) -> Atoms:
        """The table."""


@runtime_checkable
class UniverseSource(Protocol):
    """A source that makes a Universe when it is first needed, such as a topology file in another process."""

    @property
    def name(self) -> str:
        """The file's name, for messages."""

    def to_universe(self) -> Any:
        """The MDAnalysis Universe."""


@dataclass(frozen=True)
class TopologySnapshot:
    """A topology that another process has read: name, and MDAnalysis' topology pickled or the error of reading it."""

    name: str
    data: bytes
    failed: Exception | None = None

    @classmethod
    def from_topology(cls, topology: Topology) -> TopologySnapshot:
        """The snapshot of a topology, which is read now; it makes the same Universe, without coordinates."""
        try:
            return cls(topology.name, pickle.dumps(topology._loaded()._topology, protocol=pickle.HIGHEST_PROTOCOL))
        except Exception as error:
            # raised when the topology is used
            return cls(topology.name, b"", error)

    def to_universe(self) -> Any:
        """The MDAnalysis Universe; raises the error that reading it raised."""
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
    def from_name(cls, name: str) -> _TopologyFile:
        return cls(name, os.path.abspath(name), _digest(name))

    def to_universe(self) -> Any:
        """The MDAnalysis Universe; raises CorruptFileError if the file's content has changed."""
        _check_readable(self.path)
        found = _digest(self.path)
        if found != self.digest:
            raise CorruptFileError(
                "the topology file has changed since the trajectory was pickled, or differs on this "
                f"machine, expected SHA-256 {self.digest[:16]}, found {found[:16]}",
                at=self.path,
            )
        return _load(self.path)


class Topology:
    """Table of atoms, and their selection by strings.

    The source is a file that MDAnalysis reads, a Universe, a table of atoms, or an `AtomsSource` or `UniverseSource`,
    which makes one of these when it is first needed. A missing file is an error at once; the file is read when first
    used. `index` is that of `kinema.open`, or "memory": whether the table of a file that MDAnalysis reads, and the
    atoms of selections, are kept and used (`StoredTopology`).
    """

    def __init__(
        self, source: str | os.PathLike[str] | Atoms | AtomsSource | UniverseSource | Any, *, index: str = "memory"
    ) -> None:
        self._universe: Any = None
        self._atoms: Atoms | None = None
        self._seconds = 0.0
        self._source: AtomsSource | UniverseSource | None = None
        self._origin: object = source
        self._of_universe = False
        # until others get the Universe, which they may change
        self._stored: StoredTopology | None = None
        if isinstance(source, Atoms):
            self._atoms = source
            self.name = source.name
            return
        if is_universe(source):
            self._universe = source
            self._of_universe = True
            filename = getattr(source, "filename", None)
            self.name = os.fspath(filename) if isinstance(filename, (str, os.PathLike)) else "the universe"
            return
        if isinstance(source, (AtomsSource, UniverseSource)):
            self._source = source
            self.name = source.name
            return
        if isinstance(source, bytes) or not isinstance(source, (str, os.PathLike)):
            raise ArgumentError(
                f"topology is a file name, an MDAnalysis Universe or a table of atoms, found {type(source).__name__}"
            )
        self.name = os.fspath(source)
        self._origin = os.path.abspath(self.name)
        _check_readable(self.name)
        if index != "memory":
            self._stored = StoredTopology(self.name, index)

    def __getstate__(self) -> dict[str, Any]:
        # for a Universe its atoms, for a table all of it; for a file its path and digest: unpickling reads nothing
        source = self._source
        table = self._atoms if isinstance(self._origin, Atoms) else None
        if self._of_universe:
            source = TopologySnapshot.from_topology(self)
        elif source is None and table is None:
            source = _TopologyFile.from_name(self.name)
        changed = {"_universe": None, "_atoms": table, "_seconds": 0.0, "_source": source, "_of_universe": False}
        return self.__dict__ | changed | {"_stored": None}

    @property
    def universe(self) -> Any:
        """The MDAnalysis Universe; raises ArgumentError if MDAnalysis cannot read the file."""
        universe = self._loaded()
        self._stored = None
        return universe

    def _loaded(self) -> Any:
        """The Universe, for use within this class."""
        if self._universe is None:
            table = self._table()
            began = time.perf_counter()
            if table is not None:
                self._universe = universe_of(table)
            elif isinstance(self._source, UniverseSource):
                self._universe = self._source.to_universe()
            elif self._stored is not None:
                self._universe = self._stored.read(lambda: _load(self.name))
            else:
                self._universe = _load(self.name)
            self._seconds += time.perf_counter() - began
        return self._universe

    def _kept(self) -> Atoms | None:
        """The stored table of the file, as long as no Universe is loaded; None without one."""
        if self._stored is None or self._universe is not None:
            return None
        began = time.perf_counter()
        table = self._stored.atoms()
        self._seconds += time.perf_counter() - began
        return table

    @property
    def atoms(self) -> Atoms:
        """The table of all atoms; raises ArgumentError if the file has none.

        If a file's table has elements but no masses, MDAnalysis guesses the masses when they are first needed.
        """
        if (kept := self._kept()) is not None:
            return kept
        table = self._table()
        if table is None:
            # not cached: the Universe may have been changed
            return Atoms.from_mdanalysis(self._loaded(), name=self.name)
        if "masses" in table.columns or "elements" not in table.columns:
            return table
        return table.with_guessed(masses=lambda: self._loaded().atoms.masses)

    def _table(self) -> Atoms | None:
        """The table that the topology is made from; None if it is made from a Universe."""
        if self._atoms is None and isinstance(self._source, AtomsSource):
            began = time.perf_counter()
            self._atoms = self._source.read_atoms()
            self._seconds += time.perf_counter() - began
            emit(self._atoms.notes)
        return self._atoms

    @property
    def source(self) -> AtomsSource | UniverseSource | None:
        """Source of the atoms; None for a file that MDAnalysis reads, a Universe and a table."""
        return self._source

    def same_source(self, other: Topology) -> bool:
        """Whether both come from the same file, Universe or other source."""
        return bool(self._origin == other._origin)

    def snapshot(self) -> Atoms | TopologySnapshot:
        """Snapshot, read now, that makes the same topology in another process. An error of reading is raised there."""
        try:
            table = self._table()
        except Exception as error:
            return TopologySnapshot(self.name, b"", error)
        return TopologySnapshot.from_topology(self) if table is None else table

    @property
    def seconds(self) -> float:
        """Seconds that reading took, including the import of MDAnalysis; 0 if nothing has been read."""
        return self._seconds

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        table = self._kept() or self._table()
        return int(self._loaded().atoms.n_atoms) if table is None else table.n_atoms

    def select(self, selection: str) -> NDArray[np.int64]:
        """Ascending indices (n,) of the atoms that a selection string of MDAnalysis names; n may be 0.

        Raises ArgumentError for a string that MDAnalysis does not understand, and for one whose atoms depend on
        coordinates.
        """
        if self._stored is not None:
            found = None if self._kept() is None else self._stored.selected(selection)
            if found is not None:
                return found
            # first: nothing is kept if another call has imported MDAnalysis
            self._loaded()
        tree = refuse_changing(selection)
        universe = self._loaded()
        try:
            indices = np.asarray(universe.select_atoms(selection).indices, dtype=np.int64)
        except Exception as error:  # SelectionError, ValueError, NoDataError, ...: MDAnalysis has no common base
            raise self._refused(selection, error) from None
        if self._stored is not None:
            self._stored.keep_selection(selection, tree, self.atoms, indices)
        return indices

    def changing(self, selection: str) -> Expression | None:
        """The expression of a selection whose atoms depend on coordinates; None if they do not.

        Raises ArgumentError for a string that MDAnalysis does not understand.
        """
        if not has_changing_words(selection):
            return None
        tree, reason = _parsed(selection)
        return None if reason is None else self.expression(selection, tree)

    def expression(self, selection: str, tree: Any, base: Expression | None = None) -> Expression:
        """The expression of MDAnalysis' tree of a selection, applied to the atoms of `base` (None: all)."""
        try:
            return expression_of(tree, self._loaded(), base)
        except ArgumentError as error:
            raise ArgumentError(f"selection {selection!r}: {error}") from None
        except Exception as error:
            raise self._refused(selection, error) from None

    def _refused(self, selection: str, error: Exception) -> ArgumentError:
        """The error for a selection that MDAnalysis cannot apply."""
        if isinstance(error, RecursionError):
            return _too_deep(selection)
        if isinstance(error, AttributeError) and error.name:
            return ArgumentError(
                f"selection {selection!r} needs {error.name}, which this topology does not have", at=self.name
            )
        return _not_understood(selection, error)


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


def has_changing_words(selection: str) -> bool:
    """Whether a selection string has a word that makes atoms depend on coordinates, or may do so."""
    return bool(_POSSIBLY_CHANGING & set(selection.replace("(", " ").replace(")", " ").split()))


def is_updating(group: Any) -> bool:
    """Whether an AtomGroup updates itself with the frame."""
    from MDAnalysis.core.groups import UpdatingAtomGroup

    return isinstance(group, UpdatingAtomGroup)


def refuse_changing(selection: str) -> Any:
    """MDAnalysis' tree of a selection string.

    Raises ArgumentError if its atoms depend on coordinates, naming the part that does.
    """
    tree, reason = _parsed(selection)
    if reason is not None:
        raise ArgumentError(f"selection {selection!r} depends on coordinates ({reason}): {CHANGING_HINT}")
    return tree


def _parsed(selection: str) -> tuple[Any, str | None]:
    """MDAnalysis' tree of a selection string, and its first part that depends on coordinates."""
    import_mdanalysis()
    from MDAnalysis.core.selection import Parser

    try:
        tree = Parser.parse(selection, {}, periodic=True)
        return tree, changing_part(tree, seen=set())
    except RecursionError:
        raise _too_deep(selection) from None
    except Exception as error:
        raise _not_understood(selection, error) from None


def _not_understood(selection: str, error: Exception) -> ArgumentError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return ArgumentError(f"selection {selection!r} is not understood by MDAnalysis: {reason.rstrip('.')}")


def _too_deep(selection: str) -> ArgumentError:
    words = len(selection.split())
    return ArgumentError(
        f"a selection of {words:,} words is nested too deeply for MDAnalysis; select with index groups"
    )


def _check_readable(path: str) -> None:
    if not os.path.exists(path):
        raise FileNotFound("no such topology file", at=path)
    whole = not path.lower().endswith(_TRAJECTORIES)
    check_regular(path, "topology file", most=min(_MOST_BYTES, physical_memory() or _MOST_BYTES) if whole else None)
    if not os.path.getsize(path):
        raise ArgumentError("the topology file is empty", at=path)


def _digest(path: str) -> str:
    import hashlib

    with os_errors("cannot read the topology file", path), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _load(path: str) -> Any:
    kind = os.path.splitext(re.sub(r"\.(gz|bz2)$", "", path, flags=re.IGNORECASE))[1]
    if kind[1:].upper() not in BINARY:
        check_lines(path, "topology file", _FIRST_BYTES if path.lower().endswith(_TRAJECTORIES) else None)
    if kind.lower() == ".itp":
        _check_included(path)
    mda = import_mdanalysis()
    try:
        with warnings.catch_warnings():
            # a topology needs no coordinates
            warnings.filterwarnings("ignore", message="No coordinate reader found")
            return mda.Universe(path)
    except Exception as error:  # MDAnalysis' parsers raise errors of any class
        raise ArgumentError(f"MDAnalysis cannot read this topology{_reason(path, error)}", at=path) from None


def _check_included(path: str) -> None:
    """Raises ArgumentError or CorruptFileError if an included file is not regular or has an overlong line.

    Follows the includes of an ITP file, and theirs.
    """
    left, seen = [path], {path}
    while left:
        name = left.pop()
        check_lines(name, "topology file")
        with open_regular(name, "topology file") as file:
            for line in file:
                found = _INCLUDE.match(line)
                if found is None:
                    continue
                # MDAnalysis searches the working folder and the folder of the file
                stated = os.fsdecode(found[1])
                places = (stated, os.path.join(os.path.dirname(name), stated))
                there = {place for place in places if os.path.exists(place)} - seen
                seen |= there
                left += sorted(there)


def _reason(path: str, error: Exception) -> str:
    """The assumed format and the problem, without classes of MDAnalysis and without the path again."""
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
        # an error of code that met the unexpected, which says nothing about the file
        text = "its content is not of this format, or no atoms are in it"
    if text.startswith("is "):
        text = f"it {text}"
    return f" as {suffix[1:].upper()}: {text[:200].rstrip('.')}"
