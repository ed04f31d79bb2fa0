"""`Atoms`: one table of the atoms of a system: names, residues, masses, charges, ids, bonds.

A table is made from an MDAnalysis Universe (`Atoms.from_mdanalysis`), from a file (`kinema.read_atoms`) or from arrays;
analyses and writers take it. Using a missing column raises an error that names the column. The table knows which
columns were guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinema.base.errors import ArgumentError, OutOfRangeError
from kinema.base.frozen_dataclass import dataclass
from kinema.base.notes import emit

T = TypeVar("T", bound=np.generic)
ColumnSource: TypeAlias = "ArrayLike | Callable[[], Any] | None"

TUPLES: Mapping[str, int] = {"bonds": 2, "angles": 3, "dihedrals": 4, "impropers": 4}
"""Columns that list tuples of atoms, and the number of atoms in a tuple."""
# a new residue begins where one of these changes
_OF_RESIDUES = ("resids", "resnames", "icodes", "segids", "chainIDs")
# number of types that a note on masses names
_SHOWN_TYPES = 8


class _AtomColumn(Generic[T]):
    """Attribute of `Atoms` for one column; raises ArgumentError if the column is missing."""

    def __init__(self, kind: type[T], words: str) -> None:
        self.kind, self.words = kind, words

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, atoms: None, owner: type) -> _AtomColumn[T]: ...
    @overload
    def __get__(self, atoms: Atoms, owner: type) -> NDArray[T]: ...
    def __get__(self, atoms: Atoms | None, owner: type) -> _AtomColumn[T] | NDArray[T]:
        if atoms is None:
            return self
        values = atoms.get(self.name)
        if values is None:
            raise ArgumentError(
                f"{atoms.name} has no {self.name} ({self.words}); give a topology that has them with topology= (-s), "
                f"or the column itself with Atoms.replace({self.name}=...)"
            )
        return values

    def __set__(self, atoms: Atoms, value: Any) -> None:
        raise AttributeError(f"Atoms cannot be changed; replace({self.name}=...) gives another table")


class Atoms:
    """Immutable table of atoms, in the order of a trajectory, a selection or a file.

    Columns are named as MDAnalysis names them. Each may be missing: reading it as an attribute then raises
    ArgumentError, and `get` returns None. Columns are read-only arrays of shape (n_atoms,), except tuples.

    Parameters
    ----------
    n_atoms : int
    name : str
        Where the table comes from, for messages.
    guessed : names of columns
        Columns that nobody has stated: MDAnalysis guesses masses from types, and types from names.
    notes : str
        Notes for users of the table.
    columns : arrays, functions without arguments that return one when it is first needed, or None (missing)
    |    names, types, elements, resnames, icodes, segids, chainIDs : text, without leading or trailing blanks
    |    resids, ids, molnums : whole numbers; ids are those of the file
    |    resindices : whole numbers, the same for all atoms of a residue; residues are counted from 0 in their order; by
    |    default a residue begins where the columns of residues change
    |    masses : u
    |    charges : elementary charges
    |    radii : van der Waals radii in angstrom, which `analysis.SASA` takes with radii="column"
    |    bonds (m, 2), angles (m, 3), dihedrals (m, 4), impropers (m, 4) : atoms, counted from 0 in this table

    Raises
    ------
    ArgumentError
        If a column is unknown, has another shape or type, or a tuple names an atom that is not in the table. A column
        given as a function is checked when it is first needed.
    """

    names = _AtomColumn(np.str_, "names of atoms")
    types = _AtomColumn(np.str_, "types of atoms")
    elements = _AtomColumn(np.str_, "symbols of elements")
    masses = _AtomColumn(np.float64, "in u")
    charges = _AtomColumn(np.float64, "in elementary charges")
    radii = _AtomColumn(np.float64, "of spheres, in angstrom")
    ids = _AtomColumn(np.int64, "numbers of atoms in their file")
    resids = _AtomColumn(np.int64, "numbers of residues")
    resnames = _AtomColumn(np.str_, "names of residues")
    icodes = _AtomColumn(np.str_, "insertion codes of residues")
    resindices = _AtomColumn(np.int64, "residues, counted from 0")
    segids = _AtomColumn(np.str_, "names of segments")
    chainIDs = _AtomColumn(np.str_, "names of chains")  # noqa: N815
    molnums = _AtomColumn(np.int64, "numbers of molecules")
    bonds = _AtomColumn(np.int64, "pairs of atoms")
    angles = _AtomColumn(np.int64, "triples of atoms")
    dihedrals = _AtomColumn(np.int64, "quadruples of atoms")
    impropers = _AtomColumn(np.int64, "quadruples of atoms")

    def __init__(
        self,
        n_atoms: int,
        *,
        name: str = "the table of atoms",
        guessed: Iterable[str] = (),
        notes: Iterable[str] = (),
        **columns: ColumnSource,
    ) -> None:
        if isinstance(n_atoms, bool) or not hasattr(n_atoms, "__index__") or int(n_atoms) < 0:
            raise ArgumentError(f"n_atoms is a whole number from 0 on, found {n_atoms!r}")
        unknown = [column for column in columns if column not in COLUMNS]
        if unknown:
            raise ArgumentError(f"columns of atoms are {', '.join(COLUMNS)}, found {', '.join(unknown)}")
        self._n_atoms = int(n_atoms)
        self._name = name
        self._notes = tuple(notes)
        self._sources = {column: columns[column] for column in COLUMNS if columns.get(column) is not None}
        residues_known = any(column in self._sources for column in _OF_RESIDUES)
        self._residues_follow = residues_known and "resindices" not in self._sources
        if self._residues_follow:
            self._sources["resindices"] = self._runs_of_residues
            self._sources = {column: self._sources[column] for column in COLUMNS if column in self._sources}
        # residue numbers are derived, not guessed
        self._guessed = frozenset(guessed) & (self._sources.keys() - {"resindices"})
        self._values: dict[str, NDArray[Any]] = {}
        for column, source in self._sources.items():
            if not callable(source):
                # a copy: the caller's array may change
                self._values[column] = self._checked(column, np.array(source))

    @classmethod
    def from_mdanalysis(cls, source: Any, *, name: str | None = None) -> Atoms:
        """The table of a Universe, or of an AtomGroup in its order; a column is read when it is first needed.

        Tuples with atoms outside the group are left out; if the group has an atom several times, tuples name the first.
        Columns that MDAnalysis has guessed are listed in `guessed`.
        """
        universe = getattr(source, "universe", None)
        group = getattr(source, "atoms", None)
        if universe is None or group is None:
            raise ArgumentError(f"atoms are taken of a Universe or an AtomGroup, found {type(source).__name__}")
        if name is None:
            filename = getattr(universe, "filename", None)
            name = filename if isinstance(filename, str) else "the universe"
        # an updating group changes with the frame
        fixed = universe.atoms[np.array(group.indices)]
        known = universe._topology
        attributes = {column: getattr(known, column, None) for column in COLUMNS}
        columns: dict[str, Any] = {
            column: _GroupColumn(fixed, column) for column, stored in attributes.items() if stored is not None
        }
        guessed = [column for column, stored in attributes.items() if np.any(getattr(stored, "is_guessed", False))]
        return cls(len(fixed), name=name, guessed=guessed, **columns)

    # -- what is there ------------------------------------------------------------------------------------------

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return self._n_atoms

    def __len__(self) -> int:
        return self._n_atoms

    @property
    def name(self) -> str:
        """Where the table comes from, mostly the name of a file."""
        return self._name

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that the table has."""
        return tuple(self._sources)

    @property
    def guessed(self) -> frozenset[str]:
        """Names of the columns that were guessed."""
        return self._guessed

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for users of the table, for example on values that change with time in the file."""
        return self._notes

    def get(self, column: str) -> NDArray[Any] | None:
        """A column, or None if it is missing; raises ArgumentError for an unknown column."""
        if column not in COLUMNS:
            raise ArgumentError(f"columns of atoms are {', '.join(COLUMNS)}, found {column!r}")
        source = self._sources.get(column)
        if source is None:
            return None
        if column not in self._values:
            assert callable(source), "arrays were checked at once"
            self._values[column] = self._checked(column, np.asarray(source()))
        return self._values[column]

    def __eq__(self, other: object) -> bool:
        """Whether both have the same columns with the same values, and the same columns were guessed."""
        if not isinstance(other, Atoms):
            return NotImplemented
        if (self._n_atoms, self.columns, self._guessed) != (other._n_atoms, other.columns, other._guessed):
            return False
        return not self.differences(other)

    def differences(self, other: Atoms) -> tuple[str, ...]:
        """The columns of this table that the other lacks or has with other values; NaN equals NaN."""
        return tuple(column for column in self.columns if not _same(self._required(column), other.get(column)))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Atoms of {self._name}: {self._n_atoms} atoms with {', '.join(self.columns) or 'nothing known'}>"

    def __reduce__(self) -> tuple[Any, ...]:
        columns = {column: self.get(column) for column in self.columns}
        return _unpickled, (self._n_atoms, self._name, self._guessed, self._notes, columns)

    # -- other tables -------------------------------------------------------------------------------------------

    def replace(self, **columns: ColumnSource) -> Atoms:
        """The table with the given columns, which do not count as guessed; None removes a column."""
        kept: dict[str, ColumnSource] = {column: self._as_source(column) for column in self.columns}
        if self._residues_follow:
            del kept["resindices"]
        return Atoms(
            self._n_atoms,
            name=self._name,
            guessed=self._guessed - columns.keys(),
            notes=self._notes,
            **(kept | columns),
        )

    def with_guessed(self, **columns: ColumnSource) -> Atoms:
        """The table with the given columns, which count as guessed."""
        made = self.replace(**columns)
        made._guessed |= made._sources.keys() & columns.keys()
        return made

    def __getitem__(self, key: Any) -> Atoms:
        """The atoms of a slice, mask, list of numbers or Selection, in this order; an atom may appear several times.

        Tuples are renumbered; those that lose an atom are dropped. If an atom appears several times, tuples name the
        first. Raises OutOfRangeError for numbers beyond the table, ArgumentError if `key` does not choose atoms.
        """
        indices = getattr(key, "indices", None)
        if isinstance(indices, np.ndarray):
            # a Selection or an AtomGroup
            key = indices
        try:
            rows = np.arange(self._n_atoms)[key]
        except IndexError as error:
            if "out of bounds" in str(error):
                raise OutOfRangeError(f"{self._name} has {self._n_atoms} atoms: {error}") from None
            rows = None
        if not isinstance(rows, np.ndarray) or rows.ndim != 1:
            found = f"an array of shape {key.shape}" if isinstance(key, np.ndarray) else repr(key)
            raise ArgumentError(
                f"{self._name}: atoms are chosen by a slice, a mask with a value for each of the {self._n_atoms} "
                f"atoms, or a list of numbers, found {found}"
            )

        def read_column(column: str) -> Callable[[], Any]:
            if column in TUPLES:
                return lambda: _renumbered(self._required(column), rows, self._n_atoms)
            source = self._sources[column]
            if isinstance(source, _GroupColumn) and column not in self._values:
                # the column of all atoms is not needed
                return source.select(rows)
            return lambda: self._required(column)[rows]

        columns = {column: read_column(column) for column in self.columns}
        return Atoms(len(rows), name=self._name, guessed=self._guessed, notes=self._notes, **columns)

    # -- masses -------------------------------------------------------------------------------------------------

    def mass_weights(self) -> NDArray[np.float64]:
        """The masses as weights of an analysis, (n_atoms,) in u. Emits `mass_notes`.

        Raises ArgumentError if there are no masses, if one is negative or not finite, or if all are zero.
        """
        masses = self.get("masses")
        if masses is None:
            raise ArgumentError(
                f"{self._name} has no masses; give weights=None or an array of one weight an atom, or a topology that "
                "has them with topology= (-s)"
            )
        if not np.isfinite(masses).all() or (masses < 0).any() or not masses.any():
            raise ArgumentError(
                f"{self._name}: masses of the selected atoms are not usable (negative, not a number, or all zero); "
                "give weights=None or an array of one weight an atom"
            )
        emit(self.mass_notes())
        return masses

    def mass_notes(self) -> list[str]:
        """Notes for users of the masses: that they were guessed, and for which atoms they are zero."""
        masses = self.get("masses")
        if masses is None:
            return []
        notes = []
        if "masses" in self._guessed and masses.any():
            guessed = np.flatnonzero(masses)
            notes.append(
                f"{self._name}: masses of {_counted(len(guessed))} were guessed by MDAnalysis, {self._types(guessed)}"
            )
        if not masses.all():
            zero = np.flatnonzero(masses == 0)
            notes.append(f"{self._name}: masses of {_counted(len(zero))} are zero, {self._types(zero)}")
        return notes

    def fragindices(self) -> NDArray[np.int64]:
        """(n_atoms,) fragment of each atom: atoms that bonds connect, counted from 0 in the order of their first atoms.

        An atom without bonds is a fragment of its own. Emits notes on guessed bonds, and on atoms without bonds in
        residues of several atoms, because PDB files state only some bonds. Raises ArgumentError without bonds.
        """
        from kinema import _core

        bonds = self.bonds
        notes = []
        if "bonds" in self._guessed:
            notes.append(f"{self._name}: bonds were guessed by MDAnalysis")
        alone = np.ones(self._n_atoms, bool)
        alone[bonds] = False
        residues = self.get("resindices")
        if residues is not None and len(residues):
            alone &= np.bincount(residues)[residues] > 1
            if alone.any():
                notes.append(
                    f"{self._name}: {_counted(int(alone.sum()))} in residues of several atoms have no bonds, and each "
                    "counts as a fragment of its own; give a topology that has all bonds"
                )
        emit(notes)
        first = _core.first_atoms_of_molecules(self._n_atoms, np.ascontiguousarray(bonds, np.uint32))
        return np.asarray(np.unique(first, return_inverse=True)[1], np.int64)

    def _types(self, rows: NDArray[Any]) -> str:
        """The types of these atoms (without types, their elements or names), the first few in alphabetical order."""
        for kind in ("types", "elements", "names"):
            values = self.get(kind)
            if values is not None:
                distinct = np.unique(values[rows])
                shown = ", ".join(str(value) or "''" for value in distinct[:_SHOWN_TYPES])
                more = f" and {len(distinct) - _SHOWN_TYPES} more" if len(distinct) > _SHOWN_TYPES else ""
                return f"{kind[:-1] if len(distinct) == 1 else kind} {shown}{more}"
        return "of no known type"

    # -- inside -------------------------------------------------------------------------------------------------

    def _required(self, column: str) -> NDArray[Any]:
        values = self.get(column)
        assert values is not None
        return values

    def _as_source(self, column: str) -> Callable[[], Any]:
        return lambda: self._required(column)

    def _runs_of_residues(self) -> NDArray[np.int64]:
        """Residue number of each atom: a residue is a run of atoms that agree in all columns of residues."""
        starts = np.zeros(self._n_atoms, dtype=bool)
        for column in _OF_RESIDUES:
            values = self.get(column)
            if values is not None:
                starts[1:] |= values[1:] != values[:-1]
        return np.cumsum(starts, dtype=np.int64)

    def _checked(self, column: str, values: NDArray[Any]) -> NDArray[Any]:
        """A column of the right type and shape, read-only."""
        kind = COLUMNS[column]
        members = TUPLES.get(column)
        expected = (self._n_atoms,) if members is None else (len(values) if values.ndim else 0, members)
        if members is not None and not values.size:
            values = np.zeros((0, members), np.int64)
            expected = values.shape
        fits = values.dtype.kind in {np.str_: "UO", np.float64: "fiu", np.int64: "iu"}[kind]
        if kind is np.str_ and values.dtype.kind == "O":
            fits = all(isinstance(value, str) for value in values.flat)
        if values.shape != expected or not (fits or not values.size):
            shape = f"({self._n_atoms},)" if members is None else f"(m, {members})"
            what = {np.str_: "text", np.float64: "numbers", np.int64: "whole numbers"}[kind]
            raise ArgumentError(
                f"{self._name}: {column} have shape {values.shape} and type {values.dtype}, expected {shape} of {what}"
            )
        values = values.astype(kind, copy=False)
        if kind is np.str_:
            values = np.char.strip(values)
        if column == "resindices":
            values = np.unique(values, return_inverse=True)[1]
        if members is not None and values.size and (values.min() < 0 or values.max() >= self._n_atoms):
            raise ArgumentError(
                f"{self._name}: {column} name atoms from {values.min()} to {values.max()}, expected 0 to "
                f"{self._n_atoms - 1}"
            )
        values = values.view()
        values.flags.writeable = False
        return values


COLUMNS: Mapping[str, type[Any]] = {
    name: value.kind for name, value in vars(Atoms).items() if isinstance(value, _AtomColumn)
}
"""Columns of `Atoms` and the types of their values."""


def _unpickled(
    n_atoms: int, name: str, guessed: frozenset[str], notes: tuple[str, ...], columns: dict[str, NDArray[Any]]
) -> Atoms:
    return Atoms(n_atoms, name=name, guessed=guessed, notes=notes, **columns)


@dataclass(frozen=True)
class _GroupColumn:
    """A function that returns a column of a static AtomGroup."""

    group: Any
    column: str

    def __call__(self) -> Any:
        if self.column not in TUPLES:
            return getattr(self.group, self.column)
        return _renumbered(self._tuples(), self.group.indices, self.group.universe.atoms.n_atoms)

    def _tuples(self) -> NDArray[np.int64]:
        """The tuples of all atoms as `universe.bonds` has them, sorted and each once; MDAnalysis takes longer."""
        stored = getattr(self.group.universe._topology, self.column).values
        tuples = np.array(stored, dtype=np.int64).reshape(-1, TUPLES[self.column])
        tuples = tuples[np.lexsort(tuples.T[::-1])]
        is_new = np.ones(len(tuples), bool)
        is_new[1:] = (tuples[1:] != tuples[:-1]).any(axis=1)
        return tuples[is_new]

    def select(self, rows: NDArray[Any]) -> _GroupColumn:
        """The same column for some atoms of the group."""
        return _GroupColumn(self.group[rows], self.column)


def _renumbered(tuples: NDArray[np.int64], rows: NDArray[Any], n_atoms: int) -> NDArray[np.int64]:
    """Tuples of `n_atoms` atoms as tuples of `rows` of them; those with other atoms are left out."""
    place = np.full(n_atoms, -1, np.int64)
    # the last write wins, so each atom gets its first place
    place[rows[::-1]] = np.arange(len(rows))[::-1]
    placed = place[tuples]
    kept: NDArray[np.int64] = placed[(placed >= 0).all(axis=1)]
    return kept


def _same(one: NDArray[Any], other: NDArray[Any] | None) -> bool:
    return other is not None and bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))


def _counted(number: int) -> str:
    return f"{number} atom{'' if number == 1 else 's'}"
