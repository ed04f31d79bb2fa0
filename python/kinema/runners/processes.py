"""The runner with processes: pieces of the merge tree are handed out, as they come free, to processes of this machine.

Nothing outlives the round, and no process shares memory with another; what each of them does is in `worker`.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Self

from kinema import _core
from kinema.errors import ArgumentError, Error, InternalError, WorkerError, from_os
from kinema.progress import Report, tell_slowest
from kinema.resources import worker_count
from kinema.runners.base import Outcome, RoundRequest
from kinema.runners.gathering import Gathering, Leaves
from kinema.runners.hand_out import Dealing, HandOut, Schedule, Tally, insert_nodes, round_timings
from kinema.runners.pickling import pack
from kinema.runners.worker import (
    PARENTS_SIGNALS,
    Calls,
    Done,
    Failed,
    Message,
    Progress,
    Ready,
    Returned,
    Setup,
)

__all__ = ["ProcessesRunner"]

# bytes for all workers together where the caller states no limit, as with threads
_DEFAULT_MEMORY = 64 << 20
# pieces of work that a worker holds: it goes on with the second while the parent takes in the first
_PIECES_AHEAD = 2
# seconds between reports of progress
_TICK = 0.1
# seconds until a killed process is given up: it may hang in a call to a file server that does not answer
_PATIENCE = 10.0


class ProcessesRunner:
    """Runs on processes, by default of one thread each; results are the same to the bit as those of threads.

    Threads are as fast and start at once; processes are for Python code that holds the interpreter lock, and for
    libraries that are not to be used from several threads.

    Each process is a fresh interpreter (no fork: threads and locks would be copied) that imports Kinema and not the
    caller's script. So a script needs no `if __name__ == "__main__":`, and interactive sessions can use this runner.
    Processes get recipes (files, frames, kernels' arguments) and give back partials as bytes; frame indices go through
    a temporary folder. They end with the round, with an exception, and also when this process is killed.

    Parameters
    ----------
    threads_per_worker : int
        Threads of a process. Their times add up.
    schedule : {"dynamic", "static"}
        Whether whoever is free gets the next piece of work (default), or each a contiguous share.
    oversubscribe : int, optional
        Pieces of work that a worker gets at the least, where there are leaves enough; 4 by default.

    Raises
    ------
    WorkerError
        For a process that was killed or could not start. Errors of a worker are raised as they are, with path, frame
        and byte.
    """

    name = "processes"

    def __init__(
        self, *, threads_per_worker: int = 1, schedule: str | None = None, oversubscribe: int | None = None
    ) -> None:
        self._threads = worker_count(threads_per_worker, "threads_per_worker")
        self._dealing = Dealing(schedule, oversubscribe)

    def map_reduce(self, request: RoundRequest) -> Outcome:
        """See `Runner.map_reduce`; `memory` is divided among the processes."""
        began = time.monotonic()
        limit = request.memory or _DEFAULT_MEMORY
        threads = self._wanted(request.workers) * self._threads
        schedule, oversubscribe = self._dealing.schedule(request.access), self._dealing.oversubscribe(request.access)
        pieces = threads * oversubscribe
        plan = request.plan(memory=limit, workers=threads, pieces=pieces)
        used = max(1, plan.workers // self._threads)
        gathering = request.gathering or Gathering(plan, request.kernels)
        with _temporary_folder() as folder:
            request.trajectory.store_indices(folder)
            Setup(
                recipe=request.trajectory.recipe(),
                frames=request.frames,
                jobs=[(kernel, tuple(transforms)) for kernel, transforms in request.jobs],
                fingerprints=plan.fingerprints,
                n_leaves=plan.n_leaves,
                memory=limit // used,
                threads=self._threads,
                began=began,
                access=request.access,
                n_pieces=pieces,
            ).store(folder)
            with _Team(used, folder, threads=self._threads) as team:
                hand_out = HandOut(
                    plan.n_leaves,
                    gathering.missing,
                    used,
                    schedule=schedule,
                    oversubscribe=oversubscribe,
                    ahead=_PIECES_AHEAD,
                    limit=gathering.limit,
                    cuts=plan.cuts(request.trajectory),
                    threads=self._threads,
                    whole=request.access == "in-memory",
                )
                _Round(plan, request.kernels, team, gathering, hand_out).run(request.progress)
        wall = time.monotonic() - began
        tallies = [member.tally for member in team.members]
        timings = round_timings(tallies, wall, plan.n_frames, gathering.restored)
        words = f"{plan.explain(hand_out.decoded_twice)}\nnote: {self._in_words(used, schedule)}"
        return Outcome(gathering.partials(), timings, words)

    def _wanted(self, workers: int | None) -> int:
        """Processes; those that the caller does not count share the cores with their threads."""
        return max(1, worker_count(None) // self._threads) if workers is None else worker_count(workers)

    def _in_words(self, used: int, schedule: Schedule) -> str:
        threads = "one thread" if self._threads == 1 else f"{self._threads} threads"
        return f"each worker is a process with {threads}, {used} of them, {schedule} schedule"

    def concurrency(self, workers: int | None) -> int:
        """See `TaskRunner.concurrency`: as many as this process may run at once, or as asked for."""
        return worker_count(workers)

    def map(
        self,
        function: Callable[[Any], Any],
        computations: Sequence[Any],
        *,
        workers: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[Any]:
        """See `TaskRunner.map`; results come back pickled."""
        if not computations:
            return []
        calls = Calls(pack(function), [pack(one) for one in computations])
        with _temporary_folder() as folder:
            calls.store(folder)
            with _Team(min(worker_count(workers), len(computations)), folder, "computations") as team:
                return _Mapping(team, len(computations), progress).run()


class _Mapping:
    """Hands out the arguments of a function one by one."""

    def __init__(self, team: _Team, total: int, progress: Callable[[int], None] | None) -> None:
        self._team = team
        self._total = total
        self._progress = progress
        self._next = 0
        self._values: dict[int, Any] = {}

    def run(self) -> list[Any]:
        """What the function returned, in the order of its arguments."""
        members = {member.connection: member for member in self._team.members}
        while len(self._values) < self._total:
            for connection in wait(list(members), timeout=_TICK):
                assert isinstance(connection, Connection)  # wait gives back some of what it was given
                self._take(members[connection])
        return [self._values[number] for number in range(self._total)]

    def _take(self, member: _Member) -> None:
        match member.receive():
            case Ready(start):
                member.tally.start = start
                self._order(member)
            case Returned([value]):
                number, _ = member.pieces.popleft()
                self._order(member)
                self._values[number] = pickle.loads(value)
                if self._progress is not None:
                    self._progress(number)
            case Failed(packed, text):
                error: BaseException = pickle.loads(packed)
                part = f", part {member.pieces[0][0] + 1} of {self._total}" if member.pieces else ""
                error.add_note(f"on {member}{part}:\n{text}")
                raise error

    def _order(self, member: _Member) -> None:
        if self._next < self._total:
            self._next += 1
            member.order((self._next - 1, self._next))


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="kinema-")
    except OSError as error:
        raise from_os("cannot make a temporary folder for worker processes", error) from None


class _Member:
    """One worker process as the parent sees it."""

    def __init__(self, number: int, folder: str, work: str, threads: int) -> None:
        self.number = number
        self._work = work
        self.tally = Tally(number, threads)
        self.pieces: deque[Leaves] = deque()  # handed out and not done
        self.running = 0  # frames done of the first of them
        self.frames = 0  # of the pieces that are done
        self.connection, other_end = Pipe()
        with other_end:
            self.process = _started(other_end, folder)

    def order(self, piece: Leaves) -> None:
        """Hands out a piece; WorkerError where the process is dead."""
        self.pieces.append(piece)
        try:
            self.connection.send(piece)
        except OSError:
            raise self.died() from None

    def receive(self) -> Message:
        """The next message; WorkerError where the process is dead."""
        try:
            message: Message = self.connection.recv()
        except (EOFError, OSError):
            raise self.died() from None
        return message

    def died(self) -> Error:
        """What is to be raised when the other end of the connection is closed."""
        try:
            code = self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            return InternalError(f"{self} has closed its connection and does not end")
        if self.tally.start is None:
            doing = "before it was ready"
        elif self.pieces:
            doing = f"while it had {self._work} {self.pieces[0][0]} to {self.pieces[-1][1] - 1}"
        else:
            doing = "while it waited for work"
        if code >= 0:
            return WorkerError(f"{self} ended {doing}, exit code {code}; what it wrote to stderr says why")
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        hint = "; systems kill when memory runs out: use fewer workers" if name == "SIGKILL" else ""
        return WorkerError(f"{self} was ended by {name} {doing}{hint}")

    def __str__(self) -> str:
        return f"worker {self.number} (process {self.process.pid})"


def _started(connection: Connection, folder: str) -> subprocess.Popen[bytes]:
    """A process that works at this end of a connection."""
    if not sys.executable:
        raise ArgumentError("worker processes need a Python interpreter to start, and this program has none to name")
    # the paths first: the package is to be found where this process found it
    code = (
        f"import sys; sys.path[:] = {[str(path) for path in sys.path]!r}; from kinema.runners.worker import main; "
        f"main({connection.fileno()}, {folder!r}, {os.getpid()})"
    )
    # one thread each, also for the libraries that numpy calls
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    # they must not end the interpreter before the worker has said that it ignores them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, PARENTS_SIGNALS)
    try:
        return subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            pass_fds=(connection.fileno(),),
            env={**os.environ, **threads},
        )
    except OSError as error:
        raise from_os("cannot start a worker process", error, sys.executable) from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Team:
    """The processes of a round; leaving the context ends them all, whatever they do."""

    def __init__(self, n_workers: int, folder: str, work: str = "leaves", threads: int = 1) -> None:
        self.members: list[_Member] = []
        self._work = work
        self._n_workers = n_workers
        self._folder = folder
        self._threads = threads

    def __enter__(self) -> Self:
        try:
            for number in range(self._n_workers):
                self.members.append(_Member(number, self._folder, self._work, self._threads))
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        # they only read, and the folder is ours: there is nothing that they would have to tidy up
        for member in self.members:
            member.connection.close()
            member.process.kill()
        until = time.monotonic() + _PATIENCE
        for member in self.members:
            try:
                member.process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                warnings.warn(f"{member} was killed and has not ended yet", RuntimeWarning, stacklevel=2)


class _Round:
    """Hands out the missing leaves of a plan and puts what comes back into the tree."""

    def __init__(
        self,
        plan: _core.Plan,
        kernels: Sequence[_core.Kernel],
        team: _Team,
        gathering: Gathering,
        hand_out: HandOut,
    ) -> None:
        self._plan = plan
        self._kernels = kernels
        self._team = team
        self._gathering = gathering
        self._hand_out = hand_out
        self._leaves_done = 0
        self._frames_done = gathering.restored

    def run(self, progress: Report | None) -> None:
        """Fills the tree."""
        members = {member.connection: member for member in self._team.members}
        began = looked = time.monotonic()
        wanted = self._hand_out.left
        while self._leaves_done < wanted:
            for connection in wait(list(members), timeout=_TICK):
                assert isinstance(connection, Connection)  # wait gives back some of what it was given
                self._take(members[connection])
            if time.monotonic() - looked >= _TICK:
                looked = time.monotonic()
                self._gathering.look()
                if progress is not None:
                    running = sum(member.running for member in self._team.members)
                    progress(self._frames_done + running, self._plan.n_frames)
                    frames = {str(member): member.frames + member.running for member in self._team.members}
                    tell_slowest(progress, frames, time.monotonic() - began)
        if progress is not None:
            progress(self._frames_done, self._plan.n_frames)

    def _take(self, member: _Member) -> None:
        """Takes in one message."""
        message = member.receive()
        match message:
            case Ready():
                member.tally.start = message.start
                for _ in range(_PIECES_AHEAD):
                    self._order(member)
            case Progress():
                member.running = message.frames
            case Done():
                # first, so that the worker goes on meanwhile
                self._order(member)
                self._merge(member, message)
            case Failed():
                error: BaseException = pickle.loads(message.error)
                if not isinstance(error, Error):
                    error.add_note(f"{member}:\n{message.text}")
                raise error

    def _order(self, member: _Member) -> None:
        """Hands out the next leaves, if any are left."""
        piece = self._hand_out.take(member.number)
        if piece is not None:
            member.order(piece)

    def _merge(self, member: _Member, done: Done) -> None:
        size = insert_nodes(self._gathering, self._kernels, done.nodes)
        first, stop = member.pieces.popleft()
        member.running = 0
        self._leaves_done += stop - first
        frames = self._plan.leaf(stop - 1)[1] - self._plan.leaf(first)[0]
        member.frames += frames
        self._frames_done += frames
        self._hand_out.account(stop - first, done.timings["wall"], size)
        member.tally.cpu = done.cpu
        member.tally.add(done.timings)
