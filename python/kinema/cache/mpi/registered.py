"""Published files whose markers the ranks of a communicator keep, instead of a file system.

The table is an MPI attribute of the communicator. Each rank has its own copy, and all copies are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kinema.base.errors import ArgumentError
from kinema.cache.markers import Marker
from kinema.cache.mpi.ranks import duplicated, run_on_all_ranks

# of the attribute, once it is known
_key: list[int] = []


def registered(comm: Any) -> dict[str, Marker]:
    """This rank's table of the markers that were registered over a communicator, by the names of their files."""
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
    """Adds the result of `step(table)` on each rank to the tables of all; collective.

    If a step fails, all ranks raise the same WorkerError; if two ranks give different files for a name, the same
    ArgumentError. Nothing is added then.
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
                f"ranks {first} and {rank} publish different files under this name, expected {before.size} "
                f"bytes with checksum {before.xxh3}, found {marker.size} with {marker.xxh3}",
                at=name,
            )
    table.update({name: marker for name, (_, marker) in new.items()})
