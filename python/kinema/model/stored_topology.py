"""Records of a topology file in the user's cache folder: its table of atoms, and the atoms of selections.

With them a second run with the same topology and selections does not import MDAnalysis. A record is kept only if it
follows from the file, the words of a selection, and the versions of MDAnalysis and Kinema alone:

- the format has one file (`_FORMATS`), which is unchanged by its `FileIdentity`;
- the selection uses only words in `_WORDS`, and columns that the topology has and that were not guessed: no
  coordinates;
- a released MDAnalysis read it that this process had not imported before: a user may have changed parsers, masses or
  residue names of an imported one. So a process that has imported MDAnalysis uses no record.

Warnings of reading are kept with the table, and are shown again.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import CorruptFileError, Error
from kinema.base.notes import emit
from kinema.model.atom_table import COLUMNS, TUPLES, Atoms
from kinema.model.universe import installed_mdanalysis, is_imported
from kinema.storage.stored_records import Record, RecordFolder

# extensions of formats that MDAnalysis reads from this one file; an ITP includes others
_FORMATS = (
    *(".psf", ".gro", ".pdb", ".ent", ".pqr", ".pdbqt", ".tpr", ".prmtop", ".parm7", ".top", ".mol2", ".crd"),
    ".data",
)
_COMPRESSED = (".gz", ".bz2")
# version of the layout of the values and arrays below
_LAYOUT = 1
# words of MDAnalysis' selection language, and the columns that they need; selections with others are not kept
_WORDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("and", "or", "not", "global", "all", "index", "bynum"), ()),
    "byres": ("resindices",),
    "name": ("names",),
    "type": ("types",),
    "element": ("elements",),
    "id": ("ids",),
    "resid": ("resids",),
    "resname": ("resnames",),
    "segid": ("segids",),
    "chainID": ("chainIDs",),
    "atom": ("segids", "resids", "names"),
    **dict.fromkeys(("protein", "nucleic", "water"), ("resnames",)),
    **dict.fromkeys(("backbone", "nucleicbackbone", "nucleicbase", "nucleicsugar"), ("resnames", "names")),
}
# the same for "same X as"
_SAME: Mapping[str, tuple[str, ...]] = {
    "residue": ("resindices",),
    **{word: _WORDS[word] for word in ("name", "type", "resid", "resname", "segid")},
}
_MODULES = ("MDAnalysis.core.selection", "MDAnalysis.core.selection._selectors")
_KINDS = (UserWarning, DeprecationWarning, PendingDeprecationWarning, RuntimeWarning, FutureWarning)
_CATEGORIES = {kind.__name__: kind for kind in _KINDS}
# the warnings that Python has shown, as a module keeps them
_shown: dict[Any, Any] = {}


class _Warning(NamedTuple):
    """A warning that reading gave, with its place in the code."""

    category: type[Warning]
    message: str
    place: str
    line: int

    def is_of_mdanalysis(self) -> bool:
        """Whether code of MDAnalysis gave it, with a category that can be named."""
        installed = installed_mdanalysis()
        own = installed is not None and self.place.startswith(installed.folder + os.sep)
        return own and _CATEGORIES.get(self.category.__name__) is self.category


class StoredTopology:
    """The records of one topology file.

    `index`: {"auto", "rebuild", "memory"}; as of `kinema.open`.
    """

    def __init__(self, path: str, index: str) -> None:
        self._path = path
        self._atoms_folder = RecordFolder("atoms", index)
        self._selections_folder = RecordFolder("selections", index, most=64 << 20)
        self._atoms: Atoms | None = None
        self._asked = False
        # identity of the file when it was first seen; None if nothing is kept of it
        self._identity: _core.FileIdentity | None = None
        # tables of the classes of selections, as imported; None if others may have changed them
        self._tables: dict[str, Any] | None = None

    # -- what is there ------------------------------------------------------------------------------------------

    def atoms(self) -> Atoms | None:
        """The table that is kept of the unchanged file, or None. It is looked up once."""
        if not self._asked:
            self._asked = True
            self._atoms = self._load_atoms()
        return self._atoms

    def selected(self, text: str) -> NDArray[np.int64] | None:
        """The kept indices of a selection's atoms, or None."""
        if self.atoms() is None or self._identity is None:
            return None
        facts = self._facts("selection", text)
        if facts is None:
            return None
        record, why_not = self._selections_folder.load(self._name(text), self._identity, facts)
        try:
            if record is not None:
                return _indices_of(record, len(self._required_atoms()))
        except (ValueError, KeyError, TypeError) as error:
            why_not = str(error)
        self._say_unused(f"the atoms of selection {text!r}", why_not)
        return None

    def _load_atoms(self) -> Atoms | None:
        facts = self._facts("atoms", "")
        if is_imported() or facts is None:
            return None
        try:
            self._identity = _core.FileIdentity.of(self._path, places=0)
        except Error:
            return None  # reading the file raises the error
        record, why_not = self._atoms_folder.load(self._name(""), self._identity, facts)
        if record is not None:
            try:
                table, caught = _atoms_of(record, self._path), _warnings_of(record)
            except (ValueError, KeyError, TypeError, AttributeError, Error) as error:
                why_not = str(error)
            else:
                _warn_again(caught)
                return table
        self._say_unused("its atoms", why_not)
        return None

    def _say_unused(self, what: str, why_not: str) -> None:
        if why_not:
            emit([f"{self._path}: what is stored of {what} was not used, and is made again: {why_not}"])

    # -- what is made -------------------------------------------------------------------------------------------

    def read(self, load: Callable[[], Any]) -> Any:
        """The Universe that `load` makes from the file; its table is kept.

        Raises CorruptFileError if a table that `atoms` returned no longer matches the file.
        """
        known = self.atoms()
        if is_imported() or self._identity is None:
            universe = load()
            self._check(known, universe)
            self._identity = None
            return universe
        with warnings.catch_warnings(record=True) as recorded:
            # each once: MDAnalysis repeats some for every atom
            warnings.simplefilter("default")
            universe = load()
        caught = [_Warning(one.category, str(one.message), one.filename, one.lineno) for one in recorded]
        _warn_again(caught)
        if not self._unchanged():
            self._check(known, universe)
            self._identity = None
            return universe
        self._tables = _tables()
        if known is None:
            self._keep_atoms(universe, caught)
        return universe

    def _check(self, known: Atoms | None, universe: Any) -> None:
        """Raises CorruptFileError if the table that was used differs from the Universe's."""
        if known is not None and known != Atoms.from_mdanalysis(universe, name=self._path):
            raise CorruptFileError("the topology file has changed since its atoms were read", at=self._path)

    def _unchanged(self) -> bool:
        assert self._identity is not None
        return self._identity.is_unchanged(_core.FileIdentity.of(self._path, places=0))

    def _keep_atoms(self, universe: Any, caught: list[_Warning]) -> None:
        facts = self._facts("atoms", "")
        # a message with the file's name depends on how the name was spelled
        name = os.path.basename(self._path)
        if facts is None or not all(one.is_of_mdanalysis() and name not in one.message for one in caught):
            return
        try:
            record = _record_of(Atoms.from_mdanalysis(universe, name=self._path), caught)
        except (Error, ValueError, TypeError, AttributeError, LookupError):
            return  # a column cannot be read: whoever needs it gets the error
        assert self._identity is not None
        self._say_not_kept(self._atoms_folder.store(self._name(""), self._identity, facts, record))

    def keep_selection(self, text: str, tree: Any, atoms: Atoms, indices: NDArray[np.int64]) -> None:
        """Keeps the atoms of a selection, if they follow from the file and the words alone.

        `tree` is the selection as MDAnalysis parsed it, `atoms` the table of the Universe that it was applied to.
        """
        facts = self._facts("selection", text)
        if self._identity is None or facts is None or self._tables is None or self._tables != _tables():
            return
        needed = _columns_needed(tree)
        if needed is None or not needed <= set(atoms.columns) - atoms.guessed or not self._unchanged():
            return
        record = Record({"n_atoms": atoms.n_atoms}, {"indices": indices.astype(np.uint32)})
        self._say_not_kept(self._selections_folder.store(self._name(text), self._identity, facts, record))

    def _say_not_kept(self, why_not: str) -> None:
        if why_not:
            emit([f"{self._path}: its atoms are not kept for the next run: {why_not}"])

    # -- names --------------------------------------------------------------------------------------------------

    def _facts(self, what: str, selection: str) -> dict[str, Any] | None:
        """Facts besides the file's content that a record depends on; None if nothing is kept."""
        stem, ending = os.path.splitext(self._path.lower())
        format = os.path.splitext(stem)[1] if ending in _COMPRESSED else ending
        if format not in _FORMATS or not self._atoms_folder.stores:
            return None
        installed = installed_mdanalysis()
        if installed is None:
            return None
        return {
            "what": what,
            "selection": selection,
            # MDAnalysis tells the format by the extension
            "format": [format, ending in _COMPRESSED],
            "mdanalysis": [installed.version, installed.written],
            "kinema": _core.__version__,
            "layout": _LAYOUT,
        }

    def _name(self, selection: str) -> bytes:
        return b"\0".join((os.fsencode(os.path.abspath(self._path)), selection.encode("utf-8", "surrogatepass")))

    def _required_atoms(self) -> Atoms:
        atoms = self.atoms()
        assert atoms is not None
        return atoms


# -- words of selections ----------------------------------------------------------------------------------------------


def _columns_needed(tree: Any) -> set[str] | None:
    """The columns that a parsed selection needs; None if a part of it is not in `_WORDS`."""
    needed: set[str] = set()
    for node in _nodes(tree):
        token = getattr(node, "token", None)
        columns = _SAME.get(node.prop) if token == "same" else _WORDS.get(str(token))
        if columns is None or type(node).__module__ not in _MODULES:
            return None
        needed.update(columns)
    return needed


def _nodes(tree: Any) -> Iterator[Any]:
    """All nodes of MDAnalysis' selection tree."""
    yield tree
    for name, child in vars(tree).items():
        # every node holds the parser
        if name != "parser" and hasattr(child, "token") and hasattr(child, "apply"):
            yield from _nodes(child)


def _tables() -> dict[str, Any]:
    """Tables of the classes of MDAnalysis' selections, such as residue names, which users may have extended."""
    from MDAnalysis.core import selection

    return {
        f"{name}.{attribute}": value if not isinstance(value, (set, list, dict)) else type(value)(value)
        for name, kind in vars(selection).items()
        if isinstance(kind, type) and hasattr(kind, "token")
        for attribute, value in vars(kind).items()
        if attribute not in ("__dict__", "__weakref__", "__doc__")
    }


def _indices_of(record: Record, n_atoms: int) -> NDArray[np.int64]:
    """The indices in a record; raises ValueError if they do not select from `n_atoms` atoms."""
    indices = record.arrays["indices"].astype(np.int64)
    if record.values["n_atoms"] != n_atoms or not (np.diff(indices) > 0).all() or (indices >= n_atoms).any():
        raise ValueError(f"its numbers are not those of some of {n_atoms} atoms")
    return indices


# -- tables -----------------------------------------------------------------------------------------------------------


def _record_of(atoms: Atoms, caught: list[_Warning]) -> Record:
    """The record of all columns: text as numbers of distinct words, the others as they are."""
    words: dict[str, list[str]] = {}
    arrays: dict[str, NDArray[Any]] = {}
    for column in atoms.columns:
        values = atoms.get(column)
        assert values is not None
        if COLUMNS[column] is np.str_:
            numbers: dict[str, int] = {}
            codes = np.array([numbers.setdefault(value, len(numbers)) for value in values.tolist()], np.uint32)
            words[column] = list(numbers)
            arrays[column] = codes.astype(np.min_scalar_type(max(0, len(numbers) - 1)))
        else:
            arrays[column] = values.reshape(-1)
    said = [[one.category.__name__, one.message, one.place, one.line] for one in caught]
    about = {"n_atoms": atoms.n_atoms, "guessed": sorted(atoms.guessed), "notes": list(atoms.notes)}
    return Record({**about, "columns": list(atoms.columns), "words": words, "warnings": said}, arrays)


def _atoms_of(record: Record, name: str) -> Atoms:
    """The table; columns of text are made when first needed. Raises ValueError and others if the record is damaged."""
    values = record.values
    n_atoms = values["n_atoms"]
    columns: dict[str, Any] = {}
    for column in values["columns"]:
        kind, stored = COLUMNS[column], record.arrays[column]
        if column not in TUPLES and len(stored) != n_atoms:
            raise ValueError(f"it has {len(stored)} {column} for {n_atoms} atoms")
        if kind is np.str_:
            columns[column] = _text(values["words"][column], stored)
        elif stored.dtype != kind:
            raise ValueError(f"it has {column} of type {stored.dtype}")
        else:
            columns[column] = stored.reshape(-1, TUPLES[column]) if column in TUPLES else stored
    return Atoms(n_atoms, name=name, guessed=values["guessed"], notes=values["notes"], **columns)


def _text(words: list[str], codes: NDArray[Any]) -> Callable[[], NDArray[np.str_]]:
    if not all(isinstance(word, str) for word in words) or (codes >= len(words)).any():
        raise ValueError("it has words that are none")
    return lambda: np.array(words, dtype=np.str_)[codes] if words else np.zeros(0, np.str_)


def _warnings_of(record: Record) -> list[_Warning]:
    return [
        _Warning(_CATEGORIES[category], str(message), str(place), int(line))
        for category, message, place, line in record.values["warnings"]
    ]


def _warn_again(caught: list[_Warning]) -> None:
    for one in caught:
        warnings.warn_explicit(one.message, one.category, one.place, one.line, registry=_shown)
