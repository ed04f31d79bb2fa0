"""`TupleAnalysis`: what analyses of pairs, triples and quadruples of atoms share. It knows no quantity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.analysis.declared import PerFrameAnalysis
from kinema.base.errors import ArgumentError
from kinema.base.notes import collected
from kinema.base.printable import counted
from kinema.model.topology import is_atom_group
from kinema.transforms.arguments import describe, select_atoms

if TYPE_CHECKING:
    from kinema.analysis.base import Passes
    from kinema.analysis.declaration import Quantity
    from kinema.model.selection.atoms import AtomChoice
    from kinema.model.selection.frames import FrameSelection
    from kinema.trajectory import Trajectory


def groups_or_tuples(given: Mapping[str, Any], tuples: str, groups: Sequence[str]) -> None:
    """ArgumentError unless either `tuples` or all of `groups` are among the arguments that are given."""
    named = [name for name in groups if given.get(name) is not None]
    if (given.get(tuples) is None) != (len(named) == len(groups)) or (named and len(named) < len(groups)):
        found = ", ".join([f"{name}=" for name in (tuples, *groups) if given.get(name) is not None])
        all_groups = " and ".join(f"{name}=" for name in groups)
        raise ArgumentError(f"atoms are given by {tuples}=, or by {all_groups}, found {found or 'neither'}")


def tuples_of(
    trajectory: Trajectory, given: Mapping[str, Any], tuples: str, atoms_each: int, groups: Sequence[str] = ()
) -> NDArray[np.uint32]:
    """(n, atoms_each) atoms of an array of tuples, of a list of atom groups with as many atoms, or of `groups`."""
    from kinema.model.selection.atom_tuples import atom_tuples

    select_atoms(trajectory, None)
    if groups:
        groups_or_tuples(given, tuples, groups)
    if given.get(tuples) is None:
        selections = [trajectory.select(given[name]) for name in groups]
        counts = {selection.n_atoms for selection in selections}
        if len(counts) > 1:
            found = ", ".join(str(selection.n_atoms) for selection in selections)
            raise ArgumentError(
                f"{', '.join(f'{name}=' for name in groups)} must have as many atoms each, found {found}"
            )
        return np.column_stack([selection.indices for selection in selections])
    values = given[tuples]
    if isinstance(values, Sequence) and values and all(is_atom_group(one) for one in values):
        # which checks that they are of this system
        values = [trajectory.select(one).indices for one in values]
        if any(len(one) != atoms_each for one in values):
            raise ArgumentError(f"{tuples}: atom groups must have {atoms_each} atoms each")
    return atom_tuples(values, atoms_each, trajectory.n_atoms, tuples, distinct=False)


def named_dihedrals(
    trajectory: Trajectory, select: AtomChoice, names: Sequence[str]
) -> tuple[NDArray[np.uint32], list[tuple[str, str]], list[str]]:
    """(n, 4) atoms of dihedral angles of residues, one name after the other; name and residue of each; notes."""
    from kinema.model.selection.residue_dihedrals import residue_dihedrals, residue_labels

    selection = select_atoms(trajectory, select)
    with collected() as notes:
        found = residue_dihedrals(trajectory.atoms, names, selection.indices)
    labels = [(one.name, label) for one in found for label in residue_labels(trajectory.atoms, one.residues)]
    return np.concatenate([one.atoms for one in found]).astype(np.uint32), labels, notes


class TupleAnalysis(PerFrameAnalysis):
    """A number of each of several tuples of atoms. A subclass names its kernel, and that kernel's argument."""

    kernel_name: ClassVar[str]
    kernel_tuples: ClassVar[str]
    #: what there is a number of, in words: "pair"
    tuple_name: ClassVar[str]
    #: False: a number may be nan
    always_defined: ClassVar[bool] = False
    summarised_column = None
    #: names of the columns; without any they are those of the atoms
    _labels: Sequence[tuple[str, Quantity]] = ()

    def __init__(
        self, trajectory: Trajectory, tuples: NDArray[np.uint32], minimum_image: bool, **arguments: Any
    ) -> None:
        """`arguments` are those of the constructor that say which tuples they are, for provenance."""
        super().__init__(trajectory, np.unique(tuples))
        self.arguments = {name: describe(value) for name, value in arguments.items() if value is not None}
        self.arguments |= {"minimum_image": describe(minimum_image)}
        #: (n, k) atoms of each number
        self.tuples = tuples
        self._minimum_image = bool(minimum_image)

    @property
    def subject(self) -> str:
        return f"{self.quantities[0].description} of {counted(len(self.tuples), self.tuple_name)}"

    @property
    def summarised_over(self) -> str | None:
        frames = super().summarised_over
        if len(self.tuples) == 1:
            return frames
        return None if self.quantities[0].period else f"all {self.tuple_name}s and {frames}"

    def _kernel(self) -> _core.Kernel:
        tuples = {self.kernel_tuples: self.tuples}
        return _core.Kernel(self.kernel_name, self.trajectory.n_atoms, **tuples, minimum_image=self._minimum_image)

    def _columns(self) -> Sequence[tuple[str, Quantity]]:
        return self._labels or self._columns_of_atoms(0)

    def _columns_from_one(self) -> Sequence[tuple[str, Quantity]]:
        return self._labels or self._columns_of_atoms(1)

    def _columns_of_atoms(self, first: int) -> list[tuple[str, Quantity]]:
        numbers = self.tuples.astype(np.int64) + first
        return [("-".join(map(str, atoms)), self.quantities[0]) for atoms in numbers.tolist()]

    def _passes(self, frames: FrameSelection) -> Passes:
        found = yield from super()._passes(frames)
        if self.always_defined:
            return found
        values, start = found.values, 0
        # what is spread over ranks stays there
        in_memory = [values] if isinstance(values, np.ndarray) else []
        for rows in values.chunks() if hasattr(values, "chunks") else in_memory:
            # of the sum: it is one number, and not a number where one of all is none
            if np.isnan(np.sum(rows)):
                row, column = np.argwhere(np.isnan(rows))[0]
                which = self._columns_from_one()[column][0]
                self._add_notes(
                    [
                        f"{self.quantities[0].description} {which} is not defined in frame "
                        f"{found.frames[start + row]}, where atoms are at one place or in a line: such values are nan"
                    ]
                )
                break
            start += len(rows)
        return found
