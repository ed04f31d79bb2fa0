"""`WorkerPool`: the parent's side of the `processes` runner; starts, commands and ends the worker processes.

Each process executes `worker`.
"""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import tempfile
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from multiprocessing import Pipe
from typing import Self

from kinema.base.errors import Error, InternalError, WorkerError, from_os
from kinema.base.notes import emit
from kinema.runners import stalls
from kinema.runners.local.interpreter import describe_end, start_interpreter
from kinema.runners.local.worker import Begin, Message, PieceTimes, Progress, Ready
from kinema.runners.local.worker_server import ForkedWorker, WorkerProcess, WorkerServer
from kinema.runners.reduction import Leaves, describe_leaves
from kinema.runners.stalls import Stall
from kinema.runners.worker_timer import WorkerTimer

# seconds to wait for a killed process: it may hang in a call to a file server that does not answer
_PATIENCE = 10.0

# names the pieces from the first number up to but not including the last
DescribePiece = Callable[[Leaves], str]


class WorkerHandle:
    """One worker process, and the pieces that it has in this pass."""

    def __init__(self, folder: str, number: int, threads: int, server: WorkerServer | None) -> None:
        self.connection, other_end = Pipe()
        with other_end:
            self.process = start_worker(other_end.fileno(), folder, server)
        self._describe: DescribePiece = describe_leaves
        self._folder = ""
        self._planned = 0.0
        self.prepare(number, threads)

    def prepare(self, number: int, threads: int) -> None:
        """Makes this the worker of a number in the next pass, with no pieces and no times."""
        self.number = number
        self.worker_timer = WorkerTimer(number, threads)
        self.pieces: deque[Leaves] = deque()  # assigned but not done
        self.running = 0  # frames done of the first of them
        self._stall = Stall()
        self.frames = 0  # frames of the pieces that are done

    def begin(self, folder: str, describe: DescribePiece, planned: float) -> None:
        """Makes the worker load the setup of a pass from `folder`; `describe` names its pieces in errors, `planned` is
        the time of the pass until now.

        If the process is dead, `receive` raises.
        """
        self._describe = describe
        self._folder = folder
        self._planned = planned
        # stays if the pass ends before the worker is ready
        self.worker_timer.plan = planned
        self._send(Begin(folder))

    def matches_pass(self, ready: Ready) -> bool:
        """Whether the worker is ready for this pass, not for an earlier one that has ended meanwhile."""
        if ready.folder != self._folder:
            return False
        timer = self.worker_timer
        # the leading process plans while the worker starts
        planned = min(self._planned, ready.begun)
        # loading imports what the jobs need
        timer.start = ready.begun - planned + ready.loading
        timer.plan, timer.opening = planned + ready.planning, ready.opening
        timer.done_at = ready.begun + ready.loading + ready.opening + ready.planning
        timer.waited = 0.0
        return True

    def record(self, times: PieceTimes) -> None:
        """Adds the times around a piece to the worker's timer."""
        self.worker_timer.gather += times.packing
        self.worker_timer.waited = (self.worker_timer.waited or 0.0) + times.between
        self.worker_timer.done_at = times.done_at

    def order(self, piece: Leaves) -> None:
        """Assigns a piece; if the process is dead, `receive` raises."""
        self.pieces.append(piece)
        self._send(piece)

    def receive(self) -> Message:
        """The next message; raises WorkerError if the process is dead."""
        began = time.monotonic()
        # this thread waits for the rest of a message that has begun, even if the process is stopped by then
        watch = threading.Timer(stalls.NO_PROGRESS, copy_context().run, (self._note, stalls.NO_PROGRESS))
        watch.daemon = True
        watch.start()
        try:
            packed = self.connection.recv_bytes()
        except (EOFError, OSError):
            raise self.died() from None
        finally:
            watch.cancel()
        took = time.monotonic() - began
        message: Message = pickle.loads(packed)
        if not isinstance(message, Progress):
            self.worker_timer.received += took
        if not isinstance(message, Progress) or message.frames != self.running:
            self._stall.progressed()
        return message

    def note_stall(self, seconds: float, *, reports: bool = True) -> None:
        """Counts seconds in which the worker makes no progress; emits a note once, and again only after new progress.

        `reports`: whether the worker reports progress within a piece. If not, a note is emitted if it uses no CPU time.
        """
        if not self.pieces and self.worker_timer.start is not None:
            self._stall.progressed()
        elif self._stall.is_due(seconds, self._pid, reports=reports):
            self._note(self._stall.seconds)
            self._stall.noted()

    def _note(self, seconds: float) -> None:
        """Emits a note that the worker has made no progress for `seconds`."""
        emit([f"{self} has made no progress for {seconds:.0f} s {self._doing()}; {self._stall.reason(self._pid)}"])

    def kill(self) -> None:
        """Ends the process, whatever it is doing; does not wait."""
        self.connection.close()
        self.process.kill()

    def _send(self, order: Begin | Leaves) -> None:
        # a failed worker sends the reason and ends: `receive` first returns the reason, and then raises
        with suppress(OSError):
            self.connection.send(order)

    def died(self) -> Error:
        """The error for a worker that has closed its end of the connection."""
        try:
            code = self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            return InternalError(f"{self} has closed its connection and does not end")
        return WorkerError(describe_end(str(self), self._doing(), code))

    def _doing(self) -> str:
        """Says in words what the worker was doing last."""
        if self.worker_timer.start is None:
            return "before it was ready"
        if self.pieces:
            return f"while it had {self._describe((self.pieces[0][0], self.pieces[-1][1]))}"
        return "while it waited for work"

    @property
    def _pid(self) -> int | None:
        """Number of the process; None if it has not begun to start."""
        return self.process.known_pid if isinstance(self.process, ForkedWorker) else self.process.pid

    def __str__(self) -> str:
        return f"worker {self.number} (process {self._pid or 'that is to start'})"


@dataclass(frozen=True, eq=False)
class PassWorkers:
    """The processes of one pass, and the folder in which the parent stores their setup."""

    workers: list[WorkerHandle]
    folder: str
    describe: DescribePiece

    def begin(self, planned: float = 0.0) -> None:
        """Makes the workers load the setup; `receive` of a worker that has ended raises. `planned`: as in
        `WorkerHandle.begin`."""
        for worker in self.workers:
            worker.begin(self.folder, self.describe, planned)


class WorkerPool:
    """The processes of a pass, or of all passes of a session; leaving the context ends them, whatever they are doing.

    `server`: server that forks the processes; without it each process is a fresh interpreter.
    """

    def __init__(self, threads: int = 1, server: WorkerServer | None = None) -> None:
        self._workers: list[WorkerHandle] = []
        self._threads = threads
        self._server = server
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        try:
            self._folder = tempfile.TemporaryDirectory(prefix="kinema-")
        except OSError as error:
            raise _no_folder(error) from None
        return self

    def __exit__(self, *_: object) -> None:
        self._end(self._workers)
        if self._folder is not None:
            self._folder.cleanup()

    @contextmanager
    def pass_workers(self, n_workers: int, describe: DescribePiece = describe_leaves) -> Iterator[PassWorkers]:
        """`n_workers` processes for a pass, reusing those from the last pass; `describe` as in `WorkerHandle.begin`.

        They start while the caller prepares their setup. An exception ends all of them, because they may be working.
        """
        if self._folder is None:
            raise InternalError("a worker pool has workers within its context only")
        try:
            self._end([worker for worker in self._workers if worker.process.poll() is not None])
            for number, worker in enumerate(self._workers[:n_workers]):
                worker.prepare(number, self._threads)
            while len(self._workers) < n_workers:
                self._workers.append(WorkerHandle(self._folder.name, len(self._workers), self._threads, self._server))
            try:
                folder = tempfile.mkdtemp(dir=self._folder.name)
            except OSError as error:
                raise _no_folder(error) from None
            pass_workers = PassWorkers(self._workers[:n_workers], folder, describe)
            yield pass_workers
            # a late worker may still open the folder; then it is removed with the pool's folder
            if all(worker.worker_timer.start is not None for worker in pass_workers.workers):
                shutil.rmtree(folder, ignore_errors=True)
        except BaseException:
            self._end(self._workers)
            raise

    def _end(self, workers: list[WorkerHandle]) -> None:
        # workers only read, and the folder is ours: they have nothing to clean up
        self._workers = [worker for worker in self._workers if worker not in workers]
        for worker in workers:
            worker.kill()
        until = time.monotonic() + _PATIENCE
        for worker in workers:
            try:
                worker.process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                warnings.warn(f"{worker} was killed and has not ended yet", RuntimeWarning, stacklevel=2)


def start_worker(descriptor: int, folder: str, server: WorkerServer | None) -> WorkerProcess:
    """Starts a worker with the descriptor's socket, from the server if it runs. Raises as `start_interpreter`."""
    if server is not None:
        # the server may have ended; then a fresh interpreter reports the reason
        with suppress(OSError):
            return server.start(descriptor, folder)
    call = f"from kinema.runners.local.worker import main; main({descriptor}, {folder!r}, {os.getpid()})"
    return start_interpreter(call, descriptor, "a worker process")


def _no_folder(error: OSError) -> Error:
    return from_os("cannot make a temporary folder for worker processes", error)
