"""The runner with processes: pieces of the merge tree are handed out, as they come free, to processes of this machine.

Nothing outlives the run, and no process shares memory with another; what each of them does is in `worker`, how they
start and end in `team`.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from multiprocessing.connection import Connection, wait
from typing import Any

from kinema import _core
from kinema.errors import says_enough
from kinema.progress import Report, tell_slowest
from kinema.resources import worker_count
from kinema.runners.base import Outcome, RoundRequest
from kinema.runners.gathering import Gathering, Leaves, frames_in, insert_nodes
from kinema.runners.hand_out import Dealing, Division, HandOut
from kinema.runners.pickling import pack
from kinema.runners.tally import round_timings
from kinema.runners.team import Member, Team
from kinema.runners.worker import Account, Calls, Done, Failed, Progress, Ready, Returned, Setup

__all__ = ["ProcessesRunner"]

# bytes for all workers together where the caller states no limit, as with threads
_DEFAULT_MEMORY = 64 << 20
# pieces of work that a worker holds: it goes on with the second while the parent takes in the first
_PIECES_AHEAD = 2
# seconds between reports of progress
_TICK = 0.1


class ProcessesRunner:
    """Runs on processes, by default of one thread each; results are the same to the bit as those of threads.

    Threads are as fast and start at once; processes are for Python code that holds the interpreter lock, and for
    libraries that are not to be used from several threads.

    Each process is a fresh interpreter (no fork: threads and locks would be copied) that imports Kinema and not the
    caller's script. So a script needs no `if __name__ == "__main__":`, and interactive sessions can use this runner.
    Processes get recipes (files, frames, kernels' arguments) and give back partials as bytes; frame indices go through
    a temporary folder. They end with the run, with an exception, and also when this process is killed.

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
        # of the session that a thread is in
        self._lasting = threading.local()

    def map_reduce(self, request: RoundRequest) -> Outcome:
        """See `Runner.map_reduce`; `memory` is divided among the processes."""
        began = time.monotonic()
        division, plan, gathering = self._dealing.divide(
            request,
            workers=self._wanted(request.workers),
            threads=self._threads,
            memory=request.memory or _DEFAULT_MEMORY,
        )
        with self._team() as team, team.round(division.workers) as shift:
            request.trajectory.store_indices(shift.folder)
            recipe = request.trajectory.recipe()
            Setup(recipe, request.jobs, plan.fingerprints, division, began).store(shift.folder)
            shift.begin()
            cuts = plan.cuts(request.trajectory)
            hand_out = division.hand_out(cuts, ahead=_PIECES_AHEAD, limit=gathering.limit)
            _Round(plan, request.kernels, shift.members, gathering, hand_out).run(request.progress)
            tallies = [member.tally for member in shift.members]
        timings = round_timings(tallies, time.monotonic() - began, plan.n_frames, gathering.restored)
        words = f"{plan.explain(hand_out.decoded_twice)}\nnote: {_in_words(division)}"
        return Outcome(gathering.partials(), timings, words)

    @contextmanager
    def session(self) -> Iterator[None]:
        """While it lasts, the processes of a round, or of a `map`, stay for the next one; they end with the context.

        It counts for the thread that enters it.
        """
        if getattr(self._lasting, "team", None) is not None:
            yield
            return
        with Team(self._threads) as team:
            self._lasting.team = team
            try:
                yield
            finally:
                self._lasting.team = None

    def _team(self) -> AbstractContextManager[Team]:
        """The session's, or one for this round."""
        team: Team | None = getattr(self._lasting, "team", None)
        return Team(self._threads) if team is None else nullcontext(team)

    def _wanted(self, workers: int | None) -> int:
        """Processes; those that the caller does not count share the cores with their threads."""
        return max(1, worker_count(None) // self._threads) if workers is None else worker_count(workers)

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
        used = min(worker_count(workers), len(computations))
        mapping = _Mapping(len(computations), progress)
        with self._team() as team, team.round(used, mapping.naming) as shift:
            Calls(pack(function), [pack(one) for one in computations], self._threads).store(shift.folder)
            shift.begin()
            return mapping.run(shift.members)


def _in_words(division: Division) -> str:
    threads = "one thread" if division.threads == 1 else f"{division.threads} threads"
    return f"each worker is a process with {threads}, {division.workers} of them, {division.schedule} schedule"


class _Mapping:
    """Hands out the arguments of a function one by one."""

    def __init__(self, total: int, progress: Callable[[int], None] | None) -> None:
        self._total = total
        self._progress = progress
        self._next = 0
        self._values: dict[int, Any] = {}

    def naming(self, numbers: Leaves) -> str:
        """A worker has one at a time."""
        return f"part {numbers[0] + 1} of {self._total}"

    def run(self, team: list[Member]) -> list[Any]:
        """What the function returned, in the order of its arguments."""
        members = {member.connection: member for member in team}
        while len(self._values) < self._total:
            for connection in wait(list(members), timeout=_TICK):
                assert isinstance(connection, Connection)  # wait gives back some of what it was given
                self._take(members[connection])
        return [self._values[number] for number in range(self._total)]

    def _take(self, member: Member) -> None:
        match member.receive():
            case Ready() as ready:
                if member.takes_part(ready):
                    self._order(member)
            case Returned([value]):
                number, _ = member.pieces.popleft()
                self._order(member)
                self._values[number] = pickle.loads(value)
                if self._progress is not None:
                    self._progress(number)
            case Failed(packed, text):
                error: BaseException = pickle.loads(packed)
                part = f", {self.naming(member.pieces[0])}" if member.pieces else ""
                error.add_note(f"on {member}{part}:\n{text}")
                raise error

    def _order(self, member: Member) -> None:
        if self._next < self._total:
            self._next += 1
            member.order((self._next - 1, self._next))


class _Round:
    """Hands out the missing leaves of a plan and puts what comes back into the tree."""

    def __init__(
        self,
        plan: _core.Plan,
        kernels: Sequence[_core.Kernel],
        members: list[Member],
        gathering: Gathering,
        hand_out: HandOut,
    ) -> None:
        self._plan = plan
        self._kernels = kernels
        self._members = members
        self._gathering = gathering
        self._hand_out = hand_out
        self._leaves_done = 0
        self._frames_done = gathering.restored

    def run(self, progress: Report | None) -> None:
        """Fills the tree."""
        members = {member.connection: member for member in self._members}
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
                    running = sum(member.running for member in self._members)
                    progress(self._frames_done + running, self._plan.n_frames)
                    frames = {str(member): member.frames + member.running for member in self._members}
                    tell_slowest(progress, frames, time.monotonic() - began)
        if progress is not None:
            progress(self._frames_done, self._plan.n_frames)

    def _take(self, member: Member) -> None:
        """Takes in one message."""
        message = member.receive()
        match message:
            case Ready() as ready:
                if member.takes_part(ready):
                    for _ in range(_PIECES_AHEAD):
                        self._order(member)
            case Progress():
                member.running = message.frames
            case Account() as told:
                member.account(told)
            case Done():
                # first, so that the worker goes on meanwhile
                self._order(member)
                self._merge(member, message)
            case Failed(packed, text):
                error: BaseException = pickle.loads(packed)
                if not says_enough(error):
                    error.add_note(f"{member}:\n{text}")
                raise error

    def _order(self, member: Member) -> None:
        """Hands out the next leaves, if any are left."""
        piece = self._hand_out.take(member.number)
        if piece is not None:
            member.order(piece)

    def _merge(self, member: Member, done: Done) -> None:
        size = insert_nodes(self._gathering.tree, self._kernels, done.nodes)
        first, stop = piece = member.pieces.popleft()
        member.running = 0
        self._leaves_done += stop - first
        frames = frames_in(self._plan, piece)
        member.frames += frames
        self._frames_done += frames
        self._hand_out.account(stop - first, done.timings["wall"], size)
        member.tally.cpu = done.cpu
        member.tally.add(done.timings)
