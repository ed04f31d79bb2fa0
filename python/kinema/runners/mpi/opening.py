"""Opening a trajectory on rank 0 alone, for scripts that all ranks run: the others make theirs of what they are told.

It runs nothing and reads no frame. A topology is read by rank 0, and made into a Universe where a rank needs one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinema.runners.known_files import KnownFiles
from kinema.runners.mpi.ranks import Ranks, Travelling
from kinema.runners.mpi.sharing import NodeBytes
from kinema.trajectory import Trajectory

__all__ = ["Opened", "take_opened", "tell_opened"]


@dataclass(frozen=True)
class Opened:
    """What rank 0 tells all of a trajectory; headers, indices and topology go once to each node (`NodeBytes`)."""

    files: KnownFiles
    told_bytes: int


def tell_opened(ranks: Ranks, trajectory: Trajectory) -> None:
    """Gives the other ranks the trajectory that rank 0 has opened and scanned; raises what goes wrong on any."""
    files, known = KnownFiles.of(trajectory.core)
    told = trajectory.told()
    ranks.broadcast(Opened(files, len(told)))
    shared = NodeBytes(ranks, len(known) + len(told), np.concatenate([known, np.frombuffer(told, np.uint8)]))
    try:
        for failed in ranks.comm.allgather(None):
            if failed is not None:
                raise failed.arrived()
    finally:
        shared.free()


def take_opened(ranks: Ranks, command: Opened) -> Trajectory | None:
    """The trajectory on a rank other than 0; None where any rank has failed, which rank 0 then tells."""
    found: Trajectory | None = None
    failed: Travelling | None = None
    shared = NodeBytes(ranks, command.files.size + command.told_bytes, None)
    try:
        core = command.files.open(shared.array)
        found = Trajectory.of_told(core, shared.array[command.files.size :].tobytes())
    except Exception as error:
        failed = Travelling.of(error, ranks.rank)
    well = all(one is None for one in ranks.comm.allgather(failed))
    shared.free()
    return found if well else None
