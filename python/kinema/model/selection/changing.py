"""`ChangingSelection`: selected atoms that change with the frame; `resolve` makes one of what users write."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass
from kinema.model.selection import atoms as fixed_atoms
from kinema.model.selection.atoms import AtomChoice, Selection
from kinema.model.selection.compounds import marks_of
from kinema.model.selection_tree import Expression, fixed, intersection, labels_of
from kinema.model.topology import Topology, is_atom_group, is_updating
from kinema.model.within import Within


@dataclass(frozen=True, eq=False)
class ChangingSelection(Selection):
    """Atoms of a trajectory that change with the frame.

    `indices`: (n,) uint32, read-only; the atoms that can be in it.
    `expression`: the argument `group` of kernels, as `_core.ChangingGroup` takes it.
    """

    def count(self, n_atoms: int) -> str:
        """The atoms in words: "the atoms of 'name OW and around 3.5 protein'"."""
        return f"the atoms of {self.description!r}"

    def centers(self, n_atoms: int) -> list[NDArray[np.uint32]]:
        """The atoms, of the trajectory's `n_atoms`, that can be in each reference whose centre of geometry matters."""
        return [_core.ChangingGroup(n_atoms, one).candidates for one in _references(self.expression)]

    @property
    def uses_distances(self) -> bool:
        """Whether nearest images, and so the cell, matter."""
        return _uses_distances(self.expression)

    def __repr__(self) -> str:
        return f"<Selection of atoms that change with the frame: {self.description}>"


def resolve(select: AtomChoice, n_atoms: int, topology: Topology | None) -> ChangingSelection | None:
    """The selection of a string, an updating AtomGroup, a `Within` or a `ChangingSelection`; None if it stays the same.

    Raises ArgumentError if no atom can be in it, and as `atoms.resolve`.
    """
    if isinstance(select, ChangingSelection):
        return select
    if not fixed_atoms.may_change(select):
        return None
    expression = _expression(select, n_atoms, topology)
    if expression[0] == "atoms" and isinstance(select, str):
        return None
    description = _described(select)
    try:
        indices = _core.ChangingGroup(n_atoms, expression).candidates
    except ArgumentError as error:
        raise ArgumentError(f"selection {description!r}: {error}; compare its atom and residue names") from None
    indices.flags.writeable = False
    return ChangingSelection(indices, description, expression=expression)


def _expression(select: AtomChoice, n_atoms: int, topology: Topology | None) -> Expression:
    """The expression of any choice of atoms."""
    if isinstance(select, ChangingSelection):
        return select.expression
    if isinstance(select, Within):
        return _of_within(select, n_atoms, topology)
    if is_atom_group(select) and is_updating(select):
        return _of_updating(select, n_atoms, topology)
    if isinstance(select, str) and topology is not None:
        expression = topology.changing(select)
        if expression is not None:
            return expression
    return fixed(fixed_atoms.resolve(select, n_atoms, topology).indices)


def _of_within(given: Within, n_atoms: int, topology: Topology | None) -> Expression:
    of = _expression(given.of, n_atoms, topology)
    near: Expression = ("near", of, None, given.cutoff)
    if given.among is not None:
        near = intersection(_expression(given.among, n_atoms, topology), near)
    if given.whole is None:
        return near
    table = None if topology is None else topology.atoms
    return ("share", near, labels_of(marks_of(table, given.whole, "whole")))


def _of_updating(group: Any, n_atoms: int, topology: Topology | None) -> Expression:
    """The expression of an updating AtomGroup, which has the tree of its one selection."""
    if len(group._selections) != 1:
        raise ArgumentError("an updating atom group of several selections cannot be used: join them with 'or'")
    if topology is None or group.universe.atoms.n_atoms != n_atoms:
        found = group.universe.atoms.n_atoms
        raise ArgumentError(
            f"the atom group is of a universe of {found} atoms, but the trajectory has {n_atoms}, "
            "or no topology; open it with the topology of this universe"
        )
    base = group._base_group
    of_base = None
    if is_updating(base):
        of_base = _of_updating(base, n_atoms, topology)
    elif len(base) != n_atoms:
        of_base = fixed(base.indices)
    return topology.expression(group._selection_strings[0], group._selections[0], of_base)


def _described(select: AtomChoice) -> str:
    if isinstance(select, str):
        return select
    if isinstance(select, Within):
        among = "" if select.among is None else f"{_described(select.among)} and "
        near = f"{among}within {select.cutoff:g} angstrom of {_described(select.of)}"
        return near if select.whole is None else f"whole {select.whole} of ({near})"
    if isinstance(select, Selection):
        return select.description
    if is_atom_group(select) and is_updating(select):
        return f"updating atom group {' + '.join(select._selection_strings)}"
    return f"{len(select)} atoms"


def _references(expression: Expression) -> list[Expression]:
    """The references of spheres and cylinders in an expression, which stand about a centre."""
    inner = [part for part in expression[1:] if isinstance(part, tuple)]
    found = [one for part in inner for one in _references(part)]
    return [inner[0], *found] if expression[0] in ("sphere", "cylinder") else found


def _uses_distances(expression: Expression) -> bool:
    if expression[0] in ("near", "sphere", "point", "cylinder"):
        return True
    return any(_uses_distances(part) for part in expression[1:] if isinstance(part, tuple))
