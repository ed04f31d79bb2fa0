"""Published files whose markers are with the ranks of a communicator, and not on a file system.

The table belongs to the communicator, as an attribute of MPI: each rank has its own, and all are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kinema.base.errors import ArgumentError
from kinema.cache.markers import Marker
from kinema.cache.mpi.ranks import duplicated, run_on_all_ranks

__all__ = ["register", "registered"]

# of the attribute, once it is known
_key: list[int] = []


def registered(comm: Any) -> dict[str, Marker]:
    """The markers that were registered over this communicator, by the names of their files; of this rank's memory."""
    if not hasattr(comm, "Get_attr"):
        raise ArgumentError(f"comm is a communicator of mpi4py, found {type(comm).__name__}")
    if not _key:
        _key.append(comm.Create_keyval())
    table: dict[str, Marker] | None = comm.Get_attr(_key[0])
    if table is None:
        table = {}
        comm.Set_attr(_key[0], table)
    return table


def register(comm: Any, step: Callable[[dict[str, Marker]], tuple[str, Marker] | None]) -> None:
    """Adds what `step(table)` gives on each rank to the tables of all; collective.

    WorkerError, the same on all ranks, where a step has failed; ArgumentError, likewise, where two ranks give different
    files for a name. Then nothing is added.
    """
    table = registered(comm)
    with duplicated(comm) as own:
        found = run_on_all_ranks(own, lambda: step(table))
    new: dict[str, tuple[int, Marker]] = {}
    for rank, one in enumerate(found):
        if one is None:
            continue
        name, marker = one
        first, before = new.setdefault(name, (rank, marker))
        if not before.has_bytes_of(marker):
            raise ArgumentError(
                f"{name}: ranks {first} and {rank} publish different files under this name, expected {before.size} "
                f"bytes with checksum {before.xxh3}, found {marker.size} with {marker.xxh3}",
                path=name,
            )
    table.update({name: marker for name, (_, marker) in new.items()})
