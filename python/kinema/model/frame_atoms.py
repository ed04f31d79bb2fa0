"""`FrameAtoms`: which atoms the arrays of frames have, and where the atoms of a selection stand in them."""

from __future__ import annotations

import pickle
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.choices import positive_number
from kinema.base.errors import ArgumentError, CorruptFileError

if TYPE_CHECKING:
    from kinema.model.frame import Frame
    from kinema.model.selection.atoms import AtomChoice, Selection
    from kinema.model.selection.compounds import AtomsOfGroup
    from kinema.model.topology import Topology

# MDAnalysis reads a topology once, also if several threads ask for it
_READING = threading.Lock()


class PairsOfFrame(NamedTuple):
    """Pairs of near atoms: places `i` and `j` in the arrays of the frame, (n,), and `distance` (n,), angstrom."""

    i: NDArray[np.intp]
    j: NDArray[np.intp]
    distance: NDArray[np.float64]


class FrameAtoms:
    """The atoms of a trajectory whose vectors frames have, in their order.

    `indices`: (n,) uint32, or None; atoms of the trajectory; None: all of them.
    """

    def __init__(self, indices: NDArray[np.uint32] | None, n_atoms: int, topology: Topology | None) -> None:
        self.indices = indices
        self.n_atoms = n_atoms
        self._topology = topology
        # for other processes, which unpickle it when they need it
        self._packed: bytes | Exception | None = None
        self._by_string: dict[str, Selection] = {}
        self._places: NDArray[np.intp] | None = None

    def __getstate__(self) -> dict[str, Any]:
        if self._packed is None:
            try:
                self._packed = pickle.dumps(self._topology, protocol=pickle.HIGHEST_PROTOCOL)
            except Exception as error:
                # raised if the topology is needed there
                self._packed = error
        return self.__dict__ | {"_topology": None, "_by_string": {}, "_places": None}

    @property
    def topology(self) -> Topology | None:
        """The topology of selection strings and compounds; it is read when it is first needed, in each process."""
        if self._topology is None and self._packed is not None:
            if isinstance(self._packed, Exception):
                raise self._packed
            self._topology = pickle.loads(self._packed)
        return self._topology

    def places(self, frame: Frame, select: AtomChoice = None) -> NDArray[np.intp]:
        """See `Frame.places`."""
        n_here = self.n_atoms if self.indices is None else len(self.indices)
        if select is None:
            self._place_of_atoms()
            return np.arange(n_here)
        selection = self._resolved(select)
        if selection.changes:
            return self._located(self._members(frame, selection), selection)
        return self._located(selection.indices, selection)

    def groups(self, frame: Frame, compound: str, select: AtomChoice = None) -> list[AtomsOfGroup]:
        """See `Frame.groups`."""
        from dataclasses import replace

        from kinema.model.selection.atoms import from_indices
        from kinema.model.selection.compounds import groups_of

        places = self.places(frame, select)
        if not len(places):
            return []
        chosen = from_indices(self._numbers(places), self.n_atoms)
        with _READING:
            atoms = None if self.topology is None or compound == "group" else self.topology.atoms
        return [replace(one, places=places[one.places]) for one in groups_of(chosen, atoms, compound)]

    def pairs(self, frame: Frame, select: AtomChoice, cutoff: float, other: AtomChoice = None) -> PairsOfFrame:
        """See `Frame.pairs`."""
        cutoff = positive_number("cutoff", cutoff)
        first = self.places(frame, select)
        second = first if other is None else self.places(frame, other)
        rows = [self.positions(frame, one) for one in ((first,) if other is None else (first, second))]
        found, distance = _core.near_pairs(rows[0], None if other is None else rows[1], *cell_of(frame), cutoff)
        i, j = first[found[:, 0]], second[found[:, 1]]
        if other is None:
            # the order of the places, also if the selection has another
            return _ascending(np.minimum(i, j), np.maximum(i, j), distance)
        kept = i != j
        in_both = np.zeros(len(self._place_of_atoms()) + 1, bool)
        in_both[np.intersect1d(first, second)] = True
        # a pair of two atoms that both groups have is found twice
        kept &= ~(in_both[i] & in_both[j] & (i > j))
        return _ascending(i[kept], j[kept], distance[kept])

    def _resolved(self, select: AtomChoice) -> Selection:
        """The selection, which may change with the frame; strings are looked up once."""
        from kinema.model.selection import atoms, changing

        if isinstance(select, str) and select in self._by_string:
            return self._by_string[select]
        with _READING:
            found: Selection | None = None
            topology = self.topology
            if topology is not None and isinstance(select, str) and topology.n_atoms != self.n_atoms:
                raise ArgumentError(
                    f"topology {topology.name} has {topology.n_atoms} atoms, but the trajectory has {self.n_atoms}"
                )
            if atoms.may_change(select):
                found = changing.resolve(select, self.n_atoms, topology)
            found = atoms.resolve(select, self.n_atoms, topology) if found is None else found
        found.check_unique()
        if isinstance(select, str):
            self._by_string[select] = found
        return found

    def _members(self, frame: Frame, selection: Selection) -> NDArray[np.uint32]:
        """The atoms of a changing selection in a frame."""
        group = _core.ChangingGroup(self.n_atoms, selection.expression)
        row = self.positions(frame, self._located(group.atoms, selection))
        cell, periodic = cell_of(frame)
        (found,) = group.members(row[None], np.asarray(cell)[None], np.array([periodic]))
        return found

    def _place_of_atoms(self) -> NDArray[np.intp]:
        """(n_atoms,) place of each atom of the trajectory in the arrays; -1 if the frames do not have it."""
        if self._places is None:
            places = np.full(self.n_atoms, -1, np.intp)
            indices = np.arange(self.n_atoms) if self.indices is None else self.indices
            if len(np.unique(indices)) != len(indices):
                raise ArgumentError(
                    "select= of the analysis names an atom twice, so that atoms of the frame have no place of their "
                    "own; name each atom once"
                )
            places[indices] = np.arange(len(indices))
            self._places = places
        return self._places

    def _located(self, atoms: NDArray[np.uint32], selection: Selection) -> NDArray[np.intp]:
        places = self._place_of_atoms()[atoms]
        missing = np.flatnonzero(places < 0)
        if len(missing):
            raise ArgumentError(
                f"selection {selection.description!r} needs {len(missing)} atoms that the frame does not have, the "
                f"first is {atoms[missing[0]] + 1} (counted from 1); name them in select= of the analysis too"
            )
        return places

    def _numbers(self, places: NDArray[np.intp]) -> NDArray[Any]:
        return places if self.indices is None else self.indices[places]

    def positions(self, frame: Frame, places: NDArray[np.intp]) -> NDArray[np.float32]:
        """(n, 3) float32 positions at places of a frame; raises CorruptFileError if one is not finite."""
        if frame.positions is None:
            raise ArgumentError(
                f"frame {frame.frame} has no positions; name 'positions' in fields= too, or leave the frame out"
            )
        row = np.ascontiguousarray(frame.positions[places], np.float32)
        if not np.isfinite(row).all():
            bad = places[np.flatnonzero(~np.isfinite(row).all(axis=1))[:1]]
            number = int(self._numbers(bad)[0]) + 1
            raise CorruptFileError(f"frame {frame.frame}: position of atom {number} (counted from 1) is not finite")
        return row


def cell_of(frame: Frame) -> tuple[NDArray[np.float64], tuple[bool, bool, bool]]:
    """Box vectors, and which edges repeat, as functions of the core take them."""
    assert frame.periodic is not None, "frames with atoms have it"
    a, b, c = (bool(one) for one in frame.periodic)
    return frame.cell, (a, b, c)


def _ascending(i: NDArray[np.intp], j: NDArray[np.intp], distance: NDArray[np.float64]) -> PairsOfFrame:
    order = np.lexsort((j, i))
    return PairsOfFrame(i[order], j[order], distance[order])
