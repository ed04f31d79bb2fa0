"""Pairs of atoms that a few bonds connect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError

if TYPE_CHECKING:
    from kinema.model.atom_table import Atoms


def pairs_by_bonds(atoms: Atoms | None, n_bonds: int, argument: str) -> NDArray[np.uint32]:
    """(n, 2) pairs of atoms, the lower first, that 1 to `n_bonds` bonds connect.

    Raises ArgumentError, naming the argument, without a topology or without bonds.
    """
    from scipy.sparse import csr_array

    if atoms is None:
        raise ArgumentError(f"{argument}={n_bonds} needs a topology: open the trajectory with topology=")
    bonds = atoms.get("bonds")
    if bonds is None:
        raise ArgumentError(
            f"{atoms.name} has no bonds, which {argument}={n_bonds} needs; give a topology that has them with topology= "
            "(-s), or the column itself with Atoms.replace(bonds=...)"
        )
    shape = (atoms.n_atoms, atoms.n_atoms)
    first, second = np.asarray(bonds).reshape(-1, 2).T
    ends = np.concatenate([first, second]), np.concatenate([second, first])
    bonded = csr_array((np.ones(len(ends[0]), np.int32), ends), shape=shape)
    connected = bonded
    for _ in range(n_bonds - 1):
        connected = connected @ bonded + connected
        # numbers of paths, which would overflow
        connected.data[:] = 1
    found = np.column_stack(connected.nonzero())
    return found[found[:, 0] < found[:, 1]].astype(np.uint32)
