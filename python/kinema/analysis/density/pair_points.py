"""Points whose pairs are counted: atoms or centres of two groups, with exclusions and columns for pairs of types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kinema.analysis.declared import group_arguments
from kinema.analysis.density.shells import NO_COLUMN
from kinema.base.choices import COMPOUND
from kinema.base.errors import ArgumentError
from kinema.model.elements import symbols_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinema.model.atom_table import Atoms
    from kinema.model.selection.atoms import Selection
    from kinema.trajectory import Trajectory

__all__ = ["POINTS", "PairPoints", "check_rules"]

POINTS = ("atoms", *COMPOUND[1:])
_COLUMNS = {"name": "names", "type": "types", "element": "elements", "resname": "resnames"}
_SAME_COLUMNS = {"residue": "resindices", "segment": "segids", "chain": "chainIDs"}


def check_rules(given: Mapping[str, Any], selections: Sequence[Selection] = ()) -> None:
    """Raises ArgumentError for rules that exclude each other, or are not of centres or of atoms that change.

    `given` has the arguments of `InterRDF`; those that are left out are at their defaults.
    """
    found = [name for name in ("exclusion_block", "exclude_same") if given.get(name) is not None]
    found += ["intra"] if given.get("intra", "all") != "all" else []
    if len(found) > 1:
        raise ArgumentError(f"{found[0]} and {found[1]} exclude each other; give one of them")
    found += ["by"] if given.get("by") is not None else []
    found += ["exclude_bonds"] if given.get("exclude_bonds") else []
    has_centres = given.get("compound", "atoms") != "atoms"
    if found and has_centres:
        raise ArgumentError(f"{found[0]}= is of atoms, not of the centres of compound=; leave one of them out")
    found += ["compound"] if has_centres else []
    changing = next((one for one in selections if one.changes), None)
    if changing is not None and found:
        raise ArgumentError(
            f"{found[0]}= needs the same atoms in all frames, but {changing.description!r} changes; leave it out"
        )


class PairPoints:
    """Two groups of atoms, or one, and the arguments of the kernel for their pairs.

    `other`: if None, pairs within the first group.
    `labels`: names of the columns: "rdf", or pairs of types.
    `n_first`: (columns,) int; points of the first group, of each column.
    """

    def __init__(
        self, trajectory: Trajectory, first: Selection, other: Selection | None, given: Mapping[str, Any]
    ) -> None:
        """`given` has the arguments of `InterRDF`. Raises ArgumentError for what the topology does not have."""
        self._trajectory, self.first, self.other = trajectory, first, other
        self.notes: list[str] = []
        self.n_first = np.array([first.n_atoms])
        self.arguments = self._exclusions(
            given["exclusion_block"], given["exclude_same"], given["intra"], int(given["exclude_bonds"])
        )
        self.arguments |= self._points(self.first, given["compound"], "atoms", "")
        if self.other is not None:
            self.arguments |= self._points(self.other, given["compound"], "other", "other_")
        self.labels = self._types(given["by"])

    @property
    def selections(self) -> Sequence[Selection]:
        """One group or two."""
        return (self.first,) if self.other is None else (self.first, self.other)

    @property
    def change(self) -> bool:
        """Whether a group changes with the frame."""
        return any(one.changes for one in self.selections)

    def _points(self, selection: Selection, compound: str, atoms: str, prefix: str) -> dict[str, Any]:
        if compound == "atoms":
            return group_arguments(selection, atoms, f"{prefix}group")
        from kinema.model.selection.compounds import GroupedAtoms, groups_of

        table = self._atoms(f"compound={compound!r}")
        groups = groups_of(selection, table, compound)
        given: dict[str, Any] = {}
        if table.get("masses") is None:
            self.notes.append(f"{table.name} has no masses: pairs are of centres of geometry")
        else:
            given[f"{prefix}masses"] = np.concatenate([table[one.indices].mass_weights() for one in groups])
        grouped = GroupedAtoms.from_groups(groups)
        if selection is self.first:
            self.n_first = np.array([len(groups)])
        return {atoms: grouped.atoms, f"{prefix}ends": grouped.ends, **given}

    def _atoms(self, why: str) -> Atoms:
        topology = self._trajectory.topology
        if topology is None:
            raise ArgumentError(f"{why} needs a topology: open the trajectory with topology=, or leave it out")
        return topology.atoms

    def _column(self, argument: str, value: str, columns: Mapping[str, str]) -> NDArray[Any]:
        """(n_atoms,) a column of the topology."""
        why = f"{argument}={value!r}"
        table = self._atoms(why)
        if value == "element":
            return symbols_of(table, why)
        values = table.get(columns[value])
        if values is None and value == "chain":
            values = table.get("segids")
        if values is None:
            raise ArgumentError(f"{table.name} has no {columns[value]}, which {why} needs; choose another")
        return np.asarray(values)

    def _both(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Values of atoms, for both groups."""
        second = self.first if self.other is None else self.other
        return values[self.first.indices], values[second.indices]

    def _two_sets(self, first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.uint32]:
        """An argument of the kernel with a value for each atom of each group."""
        return np.concatenate([first] if self.other is None else [first, second]).astype(np.uint32)

    def _exclusions(
        self, block: Sequence[int] | None, same: str | None, intra: str, exclude_bonds: int
    ) -> dict[str, Any]:
        """Arguments of the kernel for the pairs that are left out."""
        from kinema.model.selection.bonded_pairs import pairs_by_bonds
        from kinema.model.selection.compounds import marks_of

        found: dict[str, Any] = {}
        if exclude_bonds:
            found["excluded"] = pairs_by_bonds(self._atoms("exclude_bonds"), exclude_bonds, "exclude_bonds")
        if block is not None:
            sizes = [int(one) for one in block]
            if len(sizes) != 2 or min(sizes) < 1 or any(one != size for one, size in zip(block, sizes, strict=True)):
                raise ArgumentError(f"exclusion_block is two whole numbers from 1 on, found {tuple(block)}")
            second = self.first if self.other is None else self.other
            blocks = [np.arange(one.n_atoms) // size for one, size in zip((self.first, second), sizes, strict=True)]
            if self.other is None and sizes[0] != sizes[1]:
                # blocks of one group that differ by the order of a pair
                self.other = self.first
            return found | {"same": "different", "labels": self._two_sets(*blocks)}
        if same is not None:
            marks = np.unique(self._column("exclude_same", same, _SAME_COLUMNS), return_inverse=True)[1]
        elif intra != "all":
            marks = np.unique(marks_of(self._atoms(f"intra={intra!r}"), "molecules", "intra"), return_inverse=True)[1]
        else:
            return found
        rule = "only" if intra == "only" else "different"
        return found | {"same": rule, "labels": self._two_sets(*self._both(marks))}

    def _types(self, by: str | None) -> list[str]:
        """Names of the columns: one, or pairs of types, which become arguments of the kernel."""
        if by is None:
            return ["rdf"]
        marks = self._column("by", by, _COLUMNS)
        first, second = self._both(marks)
        names = [np.unique(one) for one in (first, second)]
        places = [np.searchsorted(known, one) for known, one in zip(names, (first, second), strict=True)]
        columns = np.full((len(names[0]), len(names[1])), NO_COLUMN)
        labels: list[str] = []
        of_first: list[int] = []
        numbers = np.bincount(places[0])
        for i, one in enumerate(names[0]):
            for j, other in enumerate(names[1]):
                # within one group (a, b) stands for (b, a) as well
                if self.other is None and j < i:
                    continue
                columns[i, j] = len(labels)
                labels.append(f"{one} - {other}")
                of_first.append(int(numbers[i]))
        self.n_first = np.array(of_first)
        self.arguments |= {"types": self._two_sets(*places), "columns": columns.astype(np.uint32)}
        return labels
