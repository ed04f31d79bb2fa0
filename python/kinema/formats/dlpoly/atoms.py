"""Atoms of DL_POLY's HISTORY and CONFIG files: the table of a file, and the labels that are written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass
from kinema.base.notes import emit
from kinema.model.atom_table import Atoms
from kinema.model.topology import Topology

Kinds: TypeAlias = "tuple[list[str] | None, list[float] | None, list[float] | None]"
"""Names, masses (u) and charges (e), one for each kind of atom."""

DLPOLY = ("DL_POLY HISTORY", "DL_POLY CONFIG")
# most new kinds that are searched for one by one; for more the table is sorted
_FEW_KINDS = 64


@dataclass(frozen=True)
class DlpolyAtoms:
    """Names, and for HISTORY files masses and charges, of the atoms of a file; read when first needed."""

    path: str
    n_atoms: int = 0
    """Number of atoms, for a HISTORY file without a whole frame, whose atoms have no names yet."""

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path

    def read_atoms(self) -> Atoms:
        """The table; raises the errors of reading the file."""
        found = _core.dlpoly_atoms(self.path)
        if not found["names"]:
            return Atoms(self.n_atoms, name=self.path)
        columns = {name: np.asarray(values) for name, values in found.items() if values is not None}
        return Atoms(len(found["names"]), name=self.path, **columns)


def has_atoms(path: str | os.PathLike[str]) -> bool:
    """Whether it is a HISTORY or CONFIG file, by its first bytes."""
    return _core.has_dlpoly_atoms(os.fspath(path))


def describes_own_atoms(topology: Topology | None, paths: Sequence[str]) -> bool:
    """Whether the atoms are those that one of these files itself describes."""
    source = None if topology is None else topology.source
    return isinstance(source, DlpolyAtoms) and source.path in paths


def labels_of(atoms: Atoms | None, *, of_source: bool = False) -> _core.AtomLabels | None:
    """Names, masses and charges as the core's encoders take them; without names, elements or types.

    Emits a note if masses were guessed. Raises ArgumentError if `atoms` is not a table.
    """
    if atoms is None:
        return None
    check_table(atoms)
    names, masses, charges = _columns(atoms)
    return (
        None if names is None else names.tolist(),
        None if masses is None else masses.tolist(),
        None if charges is None else charges.tolist(),
        of_source,
    )


def kinds_of(atoms: Atoms) -> tuple[Kinds, NDArray[np.uint32]]:
    """Names, masses and charges of each kind of atom, and the kind of each atom, (n_atoms,): four bytes an atom."""
    check_table(atoms)
    columns = _columns(atoms)
    codes = np.zeros(atoms.n_atoms, np.uint32)
    firsts = np.zeros(min(1, atoms.n_atoms), np.int64)
    for column in columns:
        for words in _words_of(column):
            codes, firsts = _counted_anew(codes, firsts, words)
    names, masses, charges = (None if column is None else column[firsts].tolist() for column in columns)
    return (names, masses, charges), codes


def _counted_anew(
    codes: NDArray[np.uint32], firsts: NDArray[np.int64], words: NDArray[np.uint64]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Numbers of the pairs of code and word that occur, (n_atoms,), and an atom of each; `firsts` are those of codes.

    Systems have millions of atoms and few kinds: nothing is sorted as long as the kinds are few.
    """
    alike = words == words[firsts][codes]
    if alike.all():
        return codes, firsts
    new = list(firsts)
    found = codes.copy()
    left = ~alike
    for _ in range(_FEW_KINDS):
        first = int(np.argmax(left))
        if not left[first]:
            return found, np.array(new, np.int64)
        alike = left & (words == words[first]) & (codes == codes[first])
        found[alike] = len(new)
        new.append(first)
        left &= ~alike
    pairs = np.stack([codes.astype(np.uint64), words], axis=1)
    _, atoms, places = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    return places.reshape(-1).astype(np.uint32), atoms.astype(np.int64)


def check_table(atoms: Atoms) -> None:
    """Raises ArgumentError if `atoms` is not a table of atoms."""
    if not isinstance(atoms, Atoms):
        raise ArgumentError(
            f"atoms is a table of the class Atoms, found {type(atoms).__name__}; kinema.read_atoms makes one of a "
            "Universe, an AtomGroup or a file"
        )


def _columns(atoms: Atoms) -> tuple[NDArray[Any] | None, NDArray[Any] | None, NDArray[Any] | None]:
    """Names (without names, elements or types), masses, charges; emits a note if masses were guessed."""
    names = next((found for kind in ("names", "elements", "types") if (found := atoms.get(kind)) is not None), None)
    masses, charges = atoms.get("masses"), atoms.get("charges")
    if masses is not None and "masses" in atoms.guessed:
        emit(atoms.mass_notes())
    return names, masses, charges


def _words_of(column: NDArray[Any] | None) -> Iterator[NDArray[np.uint64]]:
    """The values of a column in words of eight bytes, (n_atoms,) each: equal values have equal words."""
    if column is None:
        return
    if column.dtype.kind == "U":
        width = column.dtype.itemsize // 4
        column = column.astype(f"<U{width + width % 2 or 2}")
    else:
        column = column.astype(np.float64)
    words = np.ascontiguousarray(column).view(np.uint64).reshape(len(column), column.dtype.itemsize // 8)
    for place in range(words.shape[1]):
        yield words[:, place]
