"""Communicators of the MPI runner, for all ranks and for a node; broadcasts that do not spin; errors sent as values."""

from __future__ import annotations

import math
import pickle
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI

from kinema.base.errors import ArgumentError, CancelledError, WorkerError, says_enough
from kinema.base.serialisation import serialize_error
from kinema.cache.mpi.progress import sleep_between
from kinema.runners.mpi.launcher import launched
from kinema.runners.mpi.shared_counter import Counter

__all__ = [
    "ANSWER",
    "Ranks",
    "RemoteError",
    "answer_until",
    "check_communicator",
    "check_size",
    "note_rank",
    "signal_code",
    "sleep_between",
]

ANSWER = 2.5
"""Seconds that other ranks have to answer after a signal, before all of them are ended."""


@dataclass(frozen=True)
class RemoteError:
    """An exception with its notes, as a value that can be sent; the exception itself is pickled."""

    error: bytes
    notes: tuple[str, ...]

    @classmethod
    def wrap(cls, error: BaseException, rank: int) -> RemoteError:
        """Wraps an error that was raised on this rank, or that another rank has sent to it."""
        here = _place(rank)
        notes = tuple(note for note in getattr(error, "__notes__", ()) if note != here)
        if not isinstance(error, Exception) or not any(map(_is_place, notes)):
            text = "" if says_enough(error) else ":\n" + "".join(traceback.format_exception(error))
            notes = (*notes, f"{here}{text}")
        if not isinstance(error, Exception):
            # Ctrl-C and similar signals end one process; on the others the run is cancelled
            error = CancelledError(f"the run was ended on rank {rank} by {type(error).__name__}")
        return cls(serialize_error(error, f"on rank {rank}"), notes)

    def unwrap(self) -> BaseException:
        """The exception, to be raised."""
        error: BaseException = pickle.loads(self.error)
        # not the pickled notes: they may name the rank without its traceback
        error.__notes__ = list(self.notes)
        return error


def note_rank(error: BaseException, rank: int) -> None:
    """Notes the rank on an error, unless a rank is noted already."""
    if not any(map(_is_place, getattr(error, "__notes__", ()))):
        error.add_note(_place(rank))


def _place(rank: int) -> str:
    return f"on rank {rank} ({MPI.Get_processor_name()})"


def _is_place(note: str) -> bool:
    return note.startswith("on rank ")


class Ranks:
    """A duplicate of the user's communicator, and communicators derived from it. Making and freeing are collective.

    `comm`, `node`: all ranks, and the ranks of this node, in the same order.
    `leaders`: the first rank of each node; MPI's null on other ranks.
    `silent`: ranks that have not answered after a signal, so that collective calls are no longer possible; empty if
        these ranks are not known. None: all answer.
    """

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.comm = comm.Dup()
        self.rank = self.comm.Get_rank()
        self.size = self.comm.Get_size()
        node = self.comm.Split_type(MPI.COMM_TYPE_SHARED, self.rank)
        assert isinstance(node, MPI.Intracomm)  # a part of an intracommunicator is one as well
        self.node = node
        first = self.node.Get_rank() == 0
        self.leaders = self.comm.Split(0 if first else MPI.UNDEFINED, self.rank)
        # MPICH 4.2 never ends a duplicate of the world if one of its ranks is stopped. Later versions do, and to end
        # their world takes seconds longer and loses what ranks have said.
        vendor, version = MPI.get_vendor()
        same = MPI.Comm.Compare(self.comm, MPI.COMM_WORLD) in (MPI.CONGRUENT, MPI.SIMILAR)
        self._to_abort = MPI.COMM_WORLD if same and (vendor, version[:2]) == ("MPICH", (4, 2)) else self.comm
        self.counter = Counter(self.comm, node)
        self.name = MPI.Get_processor_name()
        self.silent: set[int] | None = None
        self._last_call: threading.Timer | None = None

    @property
    def is_root(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    def broadcast(self, message: Any = None) -> Any:
        """The message of rank 0 on all ranks; collective. Waiting sleeps between tests.

        Raises WorkerError on rank 0 if some ranks did not answer after a signal: they may still send messages of an
        earlier call.
        """
        if self.silent is not None:
            raise WorkerError(
                f"{self._silent_ranks()} did not answer after a signal; this MPI runner is of no use any more"
            )
        packed = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL) if self.is_root else b""
        return pickle.loads(broadcast_bytes(self.comm, packed))

    def arrive(self) -> None:
        """Returns when all ranks have called it. For use before MPI's own collective calls, which do not react to
        signals while they wait for a stopped rank.
        """
        sleep_between(self.comm.Ibarrier())

    def end_by(self, code: int, *, at_once: bool = True) -> None:
        """On rank 0, which a signal has ended: ends all ranks with this exit code if they do not free this in time.

        `at_once`: do not wait if some ranks have not answered before.
        """
        if at_once and self.silent is not None:
            self._abort(code)
        elif self.size > 1 and self._last_call is None:
            self._last_call = threading.Timer(ANSWER, self._abort, [code])
            self._last_call.daemon = True
            self._last_call.start()

    def _abort(self, code: int) -> None:
        """Ends all ranks, including stopped ones."""
        print(f"kinema: {self._silent_ranks()} does not answer, all ranks are ended", file=sys.stderr, flush=True)
        self._to_abort.Abort(code)

    def _silent_ranks(self) -> str:
        return ", ".join(f"rank {rank}" for rank in sorted(self.silent or ())) or "a rank"

    def free(self) -> None:
        """Frees everything; collective."""
        self.counter.free()
        if self.leaders != MPI.COMM_NULL:
            self.leaders.Free()
        self.node.Free()
        if self._last_call is not None:
            self._last_call.cancel()
        self.comm.Free()


def answer_until(error: BaseException) -> float:
    """The `time.monotonic` value until which other ranks may end their work: some seconds from now after a signal;
    without limit after an error, because the program may continue.
    """
    return math.inf if isinstance(error, Exception) else time.monotonic() + ANSWER


def signal_code(error: BaseException) -> int:
    """The exit code of a program that this error has ended, as shells report it."""
    return 128 + (signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM)


def check_communicator(comm: object) -> None:
    """Raises ArgumentError unless `comm` is an intracommunicator that contains this rank."""
    if not isinstance(comm, MPI.Intracomm) or comm == MPI.COMM_NULL:
        found = "MPI.COMM_NULL" if isinstance(comm, MPI.Comm) and comm == MPI.COMM_NULL else repr(comm)
        raise ArgumentError(f"comm must be an intracommunicator of mpi4py that has this rank, found {found}")


def broadcast_bytes(comm: MPI.Intracomm, data: bytes, root: int = 0) -> bytes:
    """Broadcasts the bytes of rank `root` of the communicator; returns them on each rank."""
    size = np.array([len(data)], np.int64)
    sleep_between(comm.Ibcast(size, root))
    is_root = comm.Get_rank() == root
    buffer = np.frombuffer(data, np.uint8) if is_root else np.empty(int(size[0]), np.uint8)
    sleep_between(comm.Ibcast(buffer, root))
    return data if is_root else buffer.tobytes()


def check_size() -> None:
    """Raises ArgumentError if launcher and MPI library disagree on the number of ranks: each would do all the work."""
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
