"""Arguments that analyses share: atoms in ascending order for kernels, weights, and how they are told.

It resolves no reference structure; see `kinema.analysis.reference`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.errors import ArgumentError
from kinema.selection import Selection
from kinema.trajectory import Trajectory

__all__ = ["told", "unique_order", "weights_of"]


def unique_order(selection: Selection) -> NDArray[np.intp]:
    """The order that sorts the selection's atoms, (n,); ArgumentError where an atom is named twice."""
    order = np.argsort(selection.indices, kind="stable")
    rising = selection.indices[order]
    twice = rising[1:] == rising[:-1]
    if twice.any():
        raise ArgumentError(
            f"{selection.description} names atom {int(rising[1:][twice][0])} twice; an analysis takes each atom once"
        )
    return order


def weights_of(
    weights: Any, selection: Selection, trajectory: Trajectory, what: str = "weights"
) -> NDArray[np.float64] | None:
    """(n,) float64 in the selection's order, or None for equal weights.

    `weights` is None, "mass", or one number an atom. Raises ArgumentError for anything else, for "mass" without a
    topology, and for weights that are negative, not numbers or all zero.
    """
    if weights is None or weights is False:
        return None
    if isinstance(weights, str):
        if weights != "mass":
            raise ArgumentError(f"{what} is 'mass', None or one number an atom, found {weights!r}")
        topology = trajectory.topology
        if topology is None:
            raise ArgumentError(
                f"{what}='mass' needs a topology: open the trajectory with topology=, or give {what}=None or an array"
            )
        return topology.masses(selection.indices)
    try:
        found = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(f"{what} is 'mass', None or one number an atom, found {weights!r}") from None
    if found.shape != (selection.n_atoms,):
        raise ArgumentError(f"{what} needs one number an atom, expected {selection.n_atoms}, found shape {found.shape}")
    if not np.isfinite(found).all() or (found < 0).any() or not found.any():
        raise ArgumentError(f"{what} must be numbers from 0 on and not all 0")
    return found


def told(value: Any) -> str:
    """An argument in a few words, for provenance."""
    if isinstance(value, Selection):
        return repr(value.description)
    if isinstance(value, np.ndarray):
        return f"array{value.shape}"
    if value is None or isinstance(value, (str, int, float, bool)):
        return repr(value)
    if isinstance(value, (list, tuple)) and len(value) <= 20:
        return "[" + ", ".join(told(item) for item in value) + "]"
    if isinstance(value, Trajectory):
        return repr(value.paths[0])
    return f"{type(value).__name__}"
