"""`Selection`: the selected atoms of a trajectory, the same in all frames.

`resolve` and `from_indices` make one from what users write: selection strings, atom groups, indices, masks.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, OutOfRangeError
from kinema.base.frozen_dataclass import dataclass
from kinema.model.topology import CHANGING_HINT, Topology, has_changing_words, is_atom_group, is_updating
from kinema.model.within import Within

# what users may write; Any: an MDAnalysis AtomGroup
AtomChoice = Any


@dataclass(frozen=True, eq=False)
class Selection:
    """Atoms of a trajectory.

    Attributes
    ----------
    indices : (n,) uint32, read-only
        Atom numbers from 0, in the requested order; the core sorts them and gives results in this order.
    description : str
        The request: the selection string, "group 'Protein' of index.ndx", "214 indices".
    names : (n,) str or None
        Atom names, if there is a topology.
    string : str or None
        The selection string, if there was one; a reference with a topology of its own applies it to that topology.
    file : str or None
        The index file that the selection was read from.
    expression : tuple
        How atoms that change with the frame are found (`changing.ChangingSelection`); else empty.
    """

    indices: NDArray[np.uint32]
    description: str
    names: NDArray[np.str_] | None = None
    string: str | None = None
    file: str | None = None
    expression: tuple[Any, ...] = ()

    @property
    def n_atoms(self) -> int:
        """Number of atoms selected."""
        return len(self.indices)

    @property
    def changes(self) -> bool:
        """Whether the atoms change with the frame; `indices` are then all that can be selected."""
        return bool(self.expression)

    @property
    def ascending(self) -> bool:
        """Whether the indices rise strictly: in the file's order, without repeats."""
        return bool((self.indices[1:] > self.indices[:-1]).all())

    def count(self, n_atoms: int) -> str:
        """The number of atoms in words, given the system's `n_atoms`: "all 3341 atoms", "214 atoms"."""
        number = f"{self.n_atoms} atom{'' if self.n_atoms == 1 else 's'}"
        return f"all {number}" if self.n_atoms == n_atoms > 1 else number

    def check_unique(self) -> None:
        """Raises ArgumentError if an atom is named twice."""
        if self.ascending:
            return
        counts = np.bincount(self.indices)
        if counts.max() > 1:
            named = _named(int(np.argmax(counts > 1)), self.file)
            raise ArgumentError(f"{self.description} names {named} twice; an analysis takes each atom once")

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        return f"<Selection of {self.n_atoms} atoms: {self.description}>"


def from_indices(
    given: Any,
    n_atoms: int,
    description: str | None = None,
    names: NDArray[np.str_] | None = None,
    string: str | None = None,
    file: str | None = None,
) -> Selection:
    """A selection from whole numbers or a boolean mask over the `n_atoms` of a trajectory.

    Raises ArgumentError if it is empty, has negative numbers or another type; OutOfRangeError beyond the last atom.
    """
    # a masked array implies that numpy.ma is imported; importing it takes a twentieth of a command's start
    if "numpy.ma" in sys.modules and np.ma.is_masked(given):
        raise ArgumentError("atoms are chosen by numbers or a mask, found an array with masked values; fill them")
    array = np.asarray(given)
    if array.ndim != 1:
        raise ArgumentError(f"atom indices must have one dimension, found {array.ndim}")
    if array.dtype == np.bool_:
        if len(array) != n_atoms:
            raise ArgumentError(f"a mask needs one value an atom, expected {n_atoms} values, found {len(array)}")
        array = np.flatnonzero(array)
        description = description or f"mask of {len(array)} atoms"
    if array.size == 0:
        raise ArgumentError(f"{description or 'the selection'} names no atoms; select at least one")
    if not np.issubdtype(array.dtype, np.integer):
        raise ArgumentError(f"atom indices are whole numbers or a mask, found values of type {array.dtype}")
    if array.min() < 0:
        raise ArgumentError(f"atom indices count from 0 and are never negative, found {array.min()}")
    if array.max() >= n_atoms:
        named = f"{description}: " if description else ""
        first = 0 if file is None else 1
        raise OutOfRangeError(
            f"{named}{_named(int(array.max()), file)} is out of range, the trajectory has {n_atoms} atoms "
            f"({first} to {n_atoms - 1 + first})"
        )
    # a copy, so that nobody changes a selection afterwards
    indices = np.array(array, dtype=np.uint32)
    indices.flags.writeable = False
    return Selection(indices, description or f"{len(indices)} indices", names, string, file)


def resolve(select: AtomChoice, n_atoms: int, topology: Topology | None, what: str = "select") -> Selection:
    """The atoms that a string, AtomGroup, indices, mask, Selection or None (all) names.

    `topology` is the trajectory's, checked; None if it has none. Raises ArgumentError and OutOfRangeError.
    """
    if select is None:
        return from_indices(np.arange(n_atoms, dtype=np.uint32), n_atoms, "all")
    if isinstance(select, Within):
        raise ArgumentError(f"{what} is an object of within, which depends on coordinates: {CHANGING_HINT}")
    if isinstance(select, Selection):
        if select.changes:
            raise ArgumentError(f"selection {select.description!r} depends on coordinates: {CHANGING_HINT}")
        if select.indices.max() < n_atoms:
            return select
        return from_indices(select.indices, n_atoms, select.description, file=select.file)  # raises OutOfRangeError
    if isinstance(select, str):
        return _from_string(select, n_atoms, topology)
    if is_atom_group(select):
        return _from_atom_group(select, n_atoms)
    if isinstance(select, (np.ndarray, range, Sequence)) and not isinstance(select, (bytes, bytearray)):
        return from_indices(select, n_atoms)
    raise ArgumentError(f"{what} is a selection string, an AtomGroup, indices or a mask, found {type(select).__name__}")


def may_change(select: AtomChoice) -> bool:
    """Whether atoms that are chosen so may change with the frame; it looks for words in a string, and parses none."""
    if isinstance(select, str):
        return has_changing_words(select)
    if isinstance(select, Selection):
        return select.changes
    return isinstance(select, Within) or (is_atom_group(select) and is_updating(select))


def _named(index: int, file: str | None) -> str:
    """The atom as its user counts: index files from 1, Python from 0."""
    return f"atom index {index}" if file is None else f"atom {index + 1} (counted from 1)"


def _from_string(select: str, n_atoms: int, topology: Topology | None) -> Selection:
    if not select.strip():
        raise ArgumentError("the selection is an empty text; 'all' names all atoms")
    if select.strip() == "all":  # needs no topology
        return from_indices(np.arange(n_atoms, dtype=np.uint32), n_atoms, "all")
    if topology is None:
        raise ArgumentError(
            f"selection {select!r} needs a topology: give one with topology=, or a group of an index file with "
            "index_file="
        )
    indices = topology.select(select)
    if indices.size == 0:
        raise ArgumentError(
            f"selection {select!r} names no atoms of {topology.name}; compare its atom and residue names"
        )
    return from_indices(indices, n_atoms, select, topology.atoms[indices].get("names"), select)


def _from_atom_group(group: Any, n_atoms: int) -> Selection:
    if is_updating(group):
        raise ArgumentError(f"an updating atom group cannot be used here: {CHANGING_HINT}")
    universe_atoms = int(group.universe.atoms.n_atoms)
    if universe_atoms != n_atoms:
        raise ArgumentError(
            f"the atom group is of a universe of {universe_atoms} atoms, but the trajectory has {n_atoms}; "
            "take it from the universe of this trajectory's topology"
        )
    names = getattr(group, "names", None)
    return from_indices(
        group.indices,
        n_atoms,
        f"atom group of {len(group)} atoms",
        None if names is None else np.asarray(names, dtype=np.str_),
    )
