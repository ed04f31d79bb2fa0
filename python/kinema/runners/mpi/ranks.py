"""The ranks that work together in a run: communicators, broadcasts that leave others the processor, errors that travel.

It runs nothing; what the ranks do is in `round`.
"""

from __future__ import annotations

import pickle
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI

from kinema.errors import ArgumentError, CancelledError, says_enough
from kinema.runners.mpi.counter import Counter
from kinema.runners.mpi.launch import launched
from kinema.runners.pickling import pack_error

if TYPE_CHECKING:
    from kinema.runners.mpi.arrays import GlobalRows
    from kinema.runners.mpi.sharing import FilesOfRun

__all__ = ["Ended", "FreeRows", "Quit", "Ranks", "Travelling", "check_size", "note_rank", "sleep_between"]

# seconds between two looks at a request that is not done: short at first, long where nothing happens for a while
_SHORTEST, _LONGEST = 0.00005, 0.002


@dataclass(frozen=True)
class Travelling:
    """An exception with its notes, as bytes can carry it."""

    error: bytes
    notes: tuple[str, ...]

    @classmethod
    def of(cls, error: BaseException, rank: int) -> Travelling:
        """What others are told of an error that was raised on this rank, or that has arrived from another one."""
        here = _place(rank)
        notes = tuple(note for note in getattr(error, "__notes__", ()) if note != here)
        if not isinstance(error, Exception) or not any(map(_is_place, notes)):
            text = "" if says_enough(error) else ":\n" + "".join(traceback.format_exception(error))
            notes = (*notes, f"{here}{text}")
        if not isinstance(error, Exception):
            # Ctrl-C and its like end one process; for the others it is the run that ended
            error = CancelledError(f"the run was ended on rank {rank} by {type(error).__name__}")
        return cls(pack_error(error, f"on rank {rank}"), notes)

    def arrived(self) -> BaseException:
        """The exception, to be raised."""
        error: BaseException = pickle.loads(self.error)
        # not those that were pickled with it: the place may be among them without its traceback
        error.__notes__ = list(self.notes)
        return error


def note_rank(error: BaseException, rank: int) -> None:
    """Notes on an error where it was raised, unless it has arrived from another rank and says so."""
    if not any(map(_is_place, getattr(error, "__notes__", ()))):
        error.add_note(_place(rank))


def _place(rank: int) -> str:
    return f"on rank {rank} ({MPI.Get_processor_name()})"


def _is_place(note: str) -> bool:
    return note.startswith("on rank ")


@dataclass(frozen=True)
class Ended:
    """A run is over: what it gave, where that is told to all ranks, or why it failed; which rows are kept."""

    value: Any = None
    error: Travelling | None = None
    kept: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Quit:
    """Nothing more is to be done."""


@dataclass(frozen=True)
class FreeRows:
    """The rows of that number are to be given back."""

    number: int


class Ranks:
    """The ranks of a run, with messages of their own: a duplicate of the user's communicator.

    Made and freed by all ranks together.

    Attributes
    ----------
    comm, node : communicators
        All ranks, and those of this node, in the same order.
    leaders : communicator or None
        The first rank of each node; MPI's null on the others.
    counter : Counter
    arrays : list of GlobalRows
        All that were made, in the same order on all ranks.
    files : FilesOfRun or None
        What rank 0 knows of the files, for all rounds of a run.
    """

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.comm = comm.Dup()
        self.rank = self.comm.Get_rank()
        self.size = self.comm.Get_size()
        node = self.comm.Split_type(MPI.COMM_TYPE_SHARED, self.rank)
        assert isinstance(node, MPI.Intracomm)  # what is split off an intracommunicator is one
        self.node = node
        first = self.node.Get_rank() == 0
        self.leaders = self.comm.Split(0 if first else MPI.UNDEFINED, self.rank)
        self.counter = Counter(self.comm, node)
        self.name = MPI.Get_processor_name()
        self.arrays: list[GlobalRows] = []
        self.files: FilesOfRun | None = None

    @property
    def leads(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    def broadcast(self, message: Any = None) -> Any:
        """What rank 0 says, to all; those who wait leave their processor to others."""
        packed = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL) if self.leads else b""
        return pickle.loads(broadcast_bytes(self.comm, packed))

    def free(self, kept: frozenset[int] = frozenset()) -> None:
        """Gives everything back but the rows of these numbers; called by all ranks together."""
        for number, rows in enumerate(self.arrays):
            if number in kept:
                rows.outlive()
            else:
                rows.free_here()
        if self.files is not None:
            self.files.data.free()
        self.counter.free()
        if self.leaders != MPI.COMM_NULL:
            self.leaders.Free()
        self.node.Free()
        self.comm.Free()


def broadcast_bytes(comm: MPI.Intracomm, data: bytes) -> bytes:
    """The bytes of the communicator's first rank."""
    size = np.array([len(data)], np.int64)
    sleep_between(comm.Ibcast(size, 0))
    buffer = np.frombuffer(data, np.uint8) if comm.Get_rank() == 0 else np.empty(int(size[0]), np.uint8)
    sleep_between(comm.Ibcast(buffer, 0))
    return data if comm.Get_rank() == 0 else buffer.tobytes()


def sleep_between(request: MPI.Request) -> None:
    """Waits for a request. MPI's own wait takes a whole processor, which may be that of a rank with work to do."""
    pause = _SHORTEST
    while not request.Test():
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST)


def check_size() -> None:
    """ArgumentError where the launcher started more ranks than MPI knows: each would do all the work."""
    launch = launched()
    if launch is not None and launch.size != MPI.COMM_WORLD.Get_size():
        raise ArgumentError(
            f"the number of ranks differs, expected {launch.size} from the launcher ({launch.variable}), found "
            f"{MPI.COMM_WORLD.Get_size()} in MPI: launcher and MPI library ({_library()}) do not belong together; use "
            "the mpiexec of this library, or build mpi4py for the launcher's. To run as a program of its own, set "
            "KINEMA_MPI=off"
        )


def _library() -> str:
    return " ".join(MPI.Get_library_version().split("\n")[0].split(",")[0].strip("\0").split())
