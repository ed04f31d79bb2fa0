"""Chains of residues: the chain of each residue, and its place in the chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from kinema.model.atom_table import Atoms


def places_in_chains(atoms: Atoms) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(residues,) number of the chain of each residue, and (residues,) place of the residue in its chain, from 0.

    A chain is all residues of one segment and chain identifier, in the order of the table; without either column, all
    residues are one chain. Raises ArgumentError if the table has no residues.
    """
    first = np.unique(atoms.resindices, return_index=True)[1]
    chains = np.zeros(len(first), np.int64)
    for column in ("segids", "chainIDs"):
        marks = atoms.get(column)
        if marks is not None:
            numbers = np.unique(marks[first], return_inverse=True)[1]
            chains = np.unique(chains * (numbers.max(initial=0) + 1) + numbers, return_inverse=True)[1]
    places = np.zeros(len(first), np.int64)
    order = np.argsort(chains, kind="stable")
    sizes = np.bincount(chains, minlength=1)
    places[order] = np.arange(len(first)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return chains, places


def are_apart(
    atoms: Atoms, first: NDArray[np.integer], second: NDArray[np.integer], separation: int
) -> NDArray[np.bool_]:
    """(n,) whether residues first[k] and second[k] are in different chains, or at least `separation` places apart."""
    chains, places = places_in_chains(atoms)
    apart: NDArray[np.bool_] = (chains[first] != chains[second]) | (abs(places[first] - places[second]) >= separation)
    return apart
