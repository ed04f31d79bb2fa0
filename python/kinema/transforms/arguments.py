"""Arguments that analyses share: weights, and arguments in words."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.model.selection.atoms import AtomChoice, Selection
from kinema.model.selection.atoms import may_change as atoms_may_change
from kinema.model.topology import is_atom_group, is_universe
from kinema.trajectory import Trajectory


def select_atoms(trajectory: Trajectory | Any, select: AtomChoice, *, may_change: bool = False) -> Selection:
    """`trajectory.select(select)`; with `may_change` a `ChangingSelection` if the atoms change with the frame.

    Raises ArgumentError if `trajectory` is a path, a Universe or another type.
    """
    if not isinstance(trajectory, Trajectory):
        found, how = type(trajectory).__name__, "kinema.open makes one of files or a Universe, and select= names atoms"
        if is_atom_group(trajectory):
            how = "kinema.open(group.universe) makes one, and select=group names the atoms"
        elif is_universe(trajectory):
            how = "kinema.open(universe) makes one, and select= names atoms"
        elif isinstance(trajectory, (str, os.PathLike)):
            how = f"kinema.open({os.fspath(trajectory)!r}) makes one"
        raise ArgumentError(f"an analysis takes a Trajectory first, found {found}; {how}")
    if may_change and atoms_may_change(select):
        from kinema.trajectory.changing_groups import selection_that_may_change

        return selection_that_may_change(trajectory, select)
    return trajectory.select(select)


def selections_of(trajectory: Trajectory, given: Any, what: str) -> tuple[Selection, ...]:
    """The selections of a list, of a single selection, or none for None. Raises ArgumentError for other types."""
    if given is None:
        return ()
    if isinstance(given, (str, Selection)) or is_atom_group(given):
        given = (given,)
    if not isinstance(given, Sequence):
        raise ArgumentError(f"{what} is a list of selections, found {type(given).__name__}")
    return tuple(trajectory.select(one) for one in given)


def weights_of(
    weights: Any, selection: Selection, trajectory: Trajectory, what: str = "weights"
) -> NDArray[np.float64] | None:
    """(n,) float64 in the selection's order, or None for equal weights.

    `weights` is None, "mass", or one number per atom. Raises ArgumentError for anything else, for "mass" without a
    topology, and for weights that are negative, not numbers or all zero. Emits notes on guessed and zero masses.
    """
    if weights is None or weights is False:
        return None
    if isinstance(weights, str):
        if weights != "mass":
            raise ArgumentError(f"{what} is 'mass', None or one number an atom, found {weights!r}")
        topology = trajectory.topology
        if topology is None:
            raise ArgumentError(
                f"{what}='mass' needs a topology, from which masses come: give one with topology=, or {what}=None"
            )
        return topology.atoms[selection.indices].mass_weights()
    try:
        values = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(f"{what} is 'mass', None or one number an atom, found {weights!r}") from None
    if values.shape != (selection.n_atoms,):
        raise ArgumentError(
            f"{what} needs one number an atom, expected {selection.n_atoms}, found shape {values.shape}"
        )
    if not np.isfinite(values).all() or (values < 0).any() or not values.any():
        raise ArgumentError(f"{what} must be numbers from 0 on and not all 0")
    return values


def describe(value: Any) -> str:
    """An argument in a few words, for provenance."""
    if isinstance(value, Selection):
        return repr(value.description)
    if isinstance(value, np.ndarray):
        return f"array{value.shape}"
    if value is None or isinstance(value, (str, int, float, bool)):
        return repr(value)
    if isinstance(value, (list, tuple)) and len(value) <= 20:
        return "[" + ", ".join(describe(item) for item in value) + "]"
    if isinstance(value, Trajectory):
        return repr(value.paths[0])
    return f"{type(value).__name__}"
