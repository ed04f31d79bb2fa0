"""A table of atoms in an H5MD file: masses, charges, species, identifiers, names, residues, and tuples of atoms.

Columns for which the specification has a place are there (`mass`, `charge`, `species`, `id`, group `connectivity`);
names and residues are as `kinema.formats.h5md.schema` lists them. `kinema.formats.h5md.read.atoms` reads the same table
back.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinema.base.errors import ArgumentError
from kinema.formats.given_frames import real_array
from kinema.formats.h5md.schema import CONNECTIVITY, GUESSED, NAMES, NUMBERS, SYMBOLS, TABLE
from kinema.formats.h5md.write.metadata import Dialect
from kinema.model.atom_table import TUPLES, Atoms

_GUESSER = "MDAnalysis"
# an enumeration is part of its data set's header, which has at most 64 KiB
_MOST_SPECIES = 500


@dataclass(frozen=True)
class FileAtoms:
    """The atoms of a file.

    `species`: (n_atoms,) whole numbers or names instead of elements and types, or None.

    Raises ArgumentError for text that HDF5 cannot hold.
    """

    atoms: Atoms
    species: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        # raises errors before there is a file
        _ = self._tables

    def notes(self) -> list[str]:
        """Notes for users of the file: what was guessed, and what it cannot hold."""
        notes = []
        if self.atoms.guessed:
            columns = [column for column in self.atoms.columns if column in self.atoms.guessed]
            notes.append(
                f"{' and '.join(columns)} of {self.atoms.name} were guessed by {_GUESSER}; they are written with the "
                f"attribute {GUESSED}"
            )
        if self._ids is None and "ids" in self.atoms.columns:
            notes.append(f"ids of {self.atoms.name} occur several times and are left out: ids in a file are unique")
        return notes

    @property
    def stored(self) -> Atoms:
        """The table as it is read back."""
        return self.atoms.replace(ids=None) if self._ids is None else self.atoms

    def write(self, root: h5py.Group, group: h5py.Group, dialect: Dialect) -> None:
        """Writes the whole table into the particles group, and tuples into `connectivity` of the root."""
        self.write_columns(group, dialect)
        for column, members in TUPLES.items():
            tuples = self.atoms.get(column)
            if tuples is None:
                continue
            # tuples are made of identifiers if particles have any
            named = tuples if self._ids is None else self._ids[tuples]
            attributes = {"particles_group": group.ref, **self._mark(column)}
            dialect.write_values(root, f"{CONNECTIVITY}/{column}", named.reshape(-1, members), attributes)

    def write_columns(self, group: h5py.Group, dialect: Dialect) -> None:
        """Writes the columns that have a value for each atom and are not in the particles group yet."""
        for column, name, unit in (
            ("masses", "mass", "u"),
            ("charges", "charge", "e"),
            ("radii", "radius", "Angstrom"),
        ):
            values = self.atoms.get(column)
            if values is not None and name not in group:
                dialect.write_values(group, name, values, {"unit": unit, **self._mark(column)})
        if self._ids is not None and "id" not in group:
            dialect.write_values(group, "id", self._ids, self._mark("ids"))
        elements_said = self._write_species(group, dialect)
        for column, name in NAMES.items():
            if column in self.atoms.columns and not (column == "elements" and elements_said):
                self._write_table(group, name, column, dialect)
        for column, name in NUMBERS.items():
            values = self.atoms.get(column)
            if column != "resindices" and values is not None and name not in group:
                dialect.write_values(group, name, values, self._mark(column))
        self.write_residues(group, dialect)

    def write_residues(self, group: h5py.Group, dialect: Dialect) -> None:
        """Writes the residue of each atom, if the columns of residue numbers and names do not imply it."""
        residues, name = self.atoms.get("resindices"), NUMBERS["resindices"]
        following = self.atoms.replace(resindices=None).get("resindices")
        follow = following is not None and np.array_equal(residues, following)  # type: ignore[arg-type]
        if residues is not None and not follow and name not in group:
            dialect.write_values(group, name, residues)

    @property
    def _ids(self) -> NDArray[np.int64] | None:
        """Identifiers, if they are unique."""
        ids = self.atoms.get("ids")
        return None if ids is None or len(np.unique(ids)) < len(ids) else ids

    def _write_species(self, group: h5py.Group, dialect: Dialect) -> bool:
        """Writes the species, if known; returns whether the elements can be read back from them completely."""
        if "species" in group:
            return False
        elements, types = self.atoms.get("elements"), self.atoms.get("types")
        symbols = None if elements is None else np.char.capitalize(elements)
        kind: np.dtype[Any] | None = None
        if self.species is None and symbols is not None and symbols.size and set(symbols.tolist()) <= set(SYMBOLS):
            values, kind = _enumerated(symbols, {symbol: i for i, symbol in enumerate(SYMBOLS, 1)})
            dialect.write_values(group, "species", values, self._mark("elements"), dtype=kind)
            return np.array_equal(symbols, self.atoms.elements)
        species = types if self.species is None else self.species
        if species is None or not species.size:
            return False
        if species.dtype.kind == "U":
            known = np.unique(species)
            if "" in known or len(known) > _MOST_SPECIES:
                return False
            values, kind = _enumerated(species, {str(word): i for i, word in enumerate(known)})
        else:
            small = np.iinfo(np.int32)
            fits = species.min() >= small.min and species.max() <= small.max
            values = species.astype("<i4" if fits else "<i8")
        dialect.write_values(group, "species", values, self._mark("types") if self.species is None else {}, dtype=kind)
        return False

    def _write_table(self, group: h5py.Group, name: str, column: str, dialect: Dialect) -> None:
        """Writes text as indices into a table of distinct words."""
        if name in group or name + TABLE in group:
            return
        numbers, words = self._tables[column]
        dialect.write_values(group, name, numbers, self._mark(column))
        kind = h5py.string_dtype("utf-8", max(1, words.dtype.itemsize))
        dialect.write_values(group, name + TABLE, words.astype(kind), dtype=kind)

    @functools.cached_property
    def _tables(self) -> dict[str, tuple[NDArray[np.int32], NDArray[np.bytes_]]]:
        """For each column of text, the index of each atom's word, and the words as UTF-8."""
        tables = {}
        for column in NAMES:
            values = self.atoms.get(column)
            if values is None:
                continue
            words, numbers = np.unique(values, return_inverse=True)
            try:
                encoded = np.char.encode(words, "utf-8")
            except UnicodeEncodeError as error:
                raise ArgumentError(
                    f"{column} of {self.atoms.name} cannot be written as UTF-8: {error.reason}"
                ) from None
            if any("\0" in word for word in words.tolist()):
                raise ArgumentError(f"{column} of {self.atoms.name} have a zero character, which ends a text in HDF5")
            tables[column] = numbers.astype(np.int32), encoded
        return tables

    def _mark(self, column: str) -> dict[str, str]:
        """The attribute of a column that was guessed."""
        return {GUESSED: _GUESSER} if column in self.atoms.guessed else {}


def file_atoms(
    n_atoms: int,
    *,
    atoms: Atoms | None = None,
    masses: ArrayLike | None = None,
    charges: ArrayLike | None = None,
    species: ArrayLike | Sequence[str] | None = None,
    ids: ArrayLike | None = None,
    bonds: ArrayLike | None = None,
) -> FileAtoms:
    """The checked data of `n_atoms` atoms to be written; single arguments override the columns of `atoms`.

    Raises ArgumentError for another number of atoms, other lengths, identifiers that occur twice, bonds to atoms that
    do not exist.
    """
    if atoms is not None and atoms.n_atoms != n_atoms:
        raise ArgumentError(f"{atoms.name} has {atoms.n_atoms} atoms, expected n_atoms={n_atoms}")
    given: dict[str, Any] = {}
    for column, values in (("masses", masses), ("charges", charges), ("ids", ids), ("bonds", bonds)):
        if values is not None:
            given[column] = real_array(column, values)
    table = (Atoms(n_atoms, name="the file") if atoms is None else atoms).replace(**given)
    for column in given.keys() & {"masses", "charges"}:
        if not np.isfinite(table.get(column)).all():  # type: ignore[arg-type]
            raise ArgumentError(f"{column} have values that are not finite numbers")
    if "ids" in given:
        values, counts = np.unique(table.ids, return_counts=True)
        if len(values) < n_atoms:
            raise ArgumentError(f"ids occur once each, found {int(values[np.argmax(counts > 1)])} more than once")
    return FileAtoms(table, None if species is None else _species_given(species, n_atoms))


def _species_given(species: ArrayLike | Sequence[str], n_atoms: int) -> NDArray[Any]:
    array = np.asarray(species)
    if array.dtype.kind not in "UOiu" or (array.dtype.kind == "O" and not all(isinstance(s, str) for s in array.flat)):
        raise ArgumentError(f"species are whole numbers or names, found {array.dtype}")
    if array.shape != (n_atoms,):
        raise ArgumentError(f"species have shape {array.shape}, expected {n_atoms}, one for each atom")
    return array.astype(np.str_) if array.dtype.kind == "O" else array


def _enumerated(words: NDArray[np.str_], numbers: dict[str, int]) -> tuple[NDArray[np.int32], np.dtype[Any]]:
    """The numbers of words, and the type: an enumeration of the words that occur."""
    known, places = np.unique(words, return_inverse=True)
    values = np.array([numbers[str(word)] for word in known], dtype=np.int32)
    return values[places], h5py.enum_dtype({str(word): numbers[str(word)] for word in known}, basetype="<i4")
