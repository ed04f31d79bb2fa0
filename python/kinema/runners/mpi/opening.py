"""Opens a trajectory on rank 0 only, for scripts that all ranks run: the others get its snapshot and topology.

Rank 0 reads the topology; other ranks make a Universe from it when they need one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema.model.snapshot import TrajectorySnapshot
from kinema.runners.access import access_method
from kinema.runners.mpi.communicator import Ranks, RemoteError
from kinema.runners.mpi.node_memory import NodeBytes
from kinema.runners.mpi.reading import RankReader, rank_reader
from kinema.trajectory import Trajectory


@dataclass(frozen=True)
class OpenedTrajectory:
    """Message of rank 0: a trajectory is open. Headers, indices and topology follow, once per node (`NodeBytes`)."""

    files: TrajectorySnapshot
    state_bytes: int


def broadcast_opened(ranks: Ranks, trajectory: Trajectory) -> None:
    """Sends the trajectory that rank 0 has opened and scanned to the other ranks; raises the error of any rank."""
    files, data = TrajectorySnapshot.take(trajectory.core)
    state = trajectory.snapshot()
    ranks.broadcast(OpenedTrajectory(files, len(state)))
    shared = NodeBytes(ranks, len(data) + len(state), np.concatenate([data, np.frombuffer(state, np.uint8)]))
    try:
        for failed in ranks.comm.allgather(None):
            if failed is not None:
                raise failed.unwrap()
    finally:
        shared.free()


def receive_opened(ranks: Ranks, command: OpenedTrajectory) -> Trajectory | None:
    """The trajectory on a rank other than 0; None if any rank has failed: then rank 0 raises the error."""
    trajectory: Trajectory | None = None
    failed: RemoteError | None = None
    shared = NodeBytes(ranks, command.files.size + command.state_bytes, None)
    try:
        core = command.files.open(shared.array)
        trajectory = Trajectory.from_snapshot(core, shared.array[command.files.size :].tobytes())
    except Exception as error:
        failed = RemoteError.wrap(error, ranks.rank)
    well = all(one is None for one in ranks.comm.allgather(failed))
    shared.free()
    return trajectory if well else None


def open_on_ranks(
    comm: MPI.Intracomm, open_on_root: Callable[[], Trajectory], access: str = "direct"
) -> tuple[Trajectory, Callable[[], None]]:
    """Opens and scans a trajectory on the first rank, and returns it on all ranks of a communicator; collective.

    `comm`: it is duplicated; the returned function frees the duplicate.
    `open_on_root`: opens the trajectory; called only on the first rank.
    `access`: access method by which ranks read.

    Returns
    -------
    trajectory : Trajectory
    close : callable
        Frees everything that the call made; collective. The trajectory must not be read after that, unless `access` is
        "direct".

    Raises
    ------
    kinema.Error
        The error of any rank is raised on all ranks, with a note that names the rank.
    """
    ranks = Ranks(comm)
    reader = rank_reader(access_method(access))(ranks, ranks.size)

    def close() -> None:
        reader.close()
        ranks.free()

    try:
        return _open_on_ranks(ranks, open_on_root, reader, access), close
    except BaseException:
        close()
        raise


def _open_on_ranks(ranks: Ranks, open_on_root: Callable[[], Trajectory], reader: RankReader, access: str) -> Trajectory:
    content: tuple[OpenedTrajectory, NDArray[np.uint8]] | RemoteError | None = None
    if ranks.is_root:
        try:
            content = _content(open_on_root(), reader, access)
        except Exception as error:
            content = RemoteError.wrap(error, ranks.rank)
    message = ranks.broadcast(content[0] if isinstance(content, tuple) else content)
    if isinstance(message, RemoteError):
        raise message.unwrap()
    trajectory: Trajectory | None = None
    failed: RemoteError | None = None
    size = message.files.size
    shared = NodeBytes(ranks, size + message.state_bytes, content[1] if isinstance(content, tuple) else None)
    try:
        core = reader.open(message.files, shared.array)
        trajectory = Trajectory.from_snapshot(core, shared.array[size:].tobytes())
    except Exception as error:
        failed = RemoteError.wrap(error, ranks.rank)
    failures = [one for one in ranks.comm.allgather(failed) if one is not None]
    shared.free()
    if failures or trajectory is None:
        raise failures[0].unwrap()
    return trajectory


def _content(trajectory: Trajectory, reader: RankReader, access: str) -> tuple[OpenedTrajectory, NDArray[np.uint8]]:
    """Scans a trajectory; returns the message and the bytes for the other ranks."""
    trajectory.scan()
    reader.check(access_method(access), trajectory.core)
    files, data = TrajectorySnapshot.take(trajectory.core, reader.describe)
    state = np.frombuffer(trajectory.snapshot(), np.uint8)
    return OpenedTrajectory(files, len(state)), np.concatenate([data, state])
