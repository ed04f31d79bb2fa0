"""The `processes` runner: assigns pieces of the merge tree to idle worker processes of this machine.

Processes end with the run and share no memory. Each executes `worker`; `worker_pool` starts and ends them.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any

from kinema import _core
from kinema.base.errors import note_worker, says_enough
from kinema.base.progress import Report, report_slowest
from kinema.base.resources import default_memory, worker_count
from kinema.base.serialisation import serialize
from kinema.cache.counts import add_counts
from kinema.runners.base import PassRequest, PassResult, Runner
from kinema.runners.calls import CalledFunction, CallValues, unpacked_value
from kinema.runners.local.worker import (
    Calls,
    Done,
    PieceTimes,
    Progress,
    Ready,
    Returned,
    WorkerFailure,
    WorkerSetup,
    store_files,
)
from kinema.runners.local.worker_pool import WorkerHandle, WorkerPool
from kinema.runners.local.worker_server import start_server
from kinema.runners.reduction import Leaves, Reduction, describe_piece, frames_in, insert_nodes
from kinema.runners.scheduler import SchedulePolicy, Scheduler, WorkPlan
from kinema.runners.worker_timer import pass_timings

__all__ = ["ProcessesRunner"]

# pieces of work that a worker holds: it computes the second while the parent takes in the first
_PIECES_AHEAD = 2
# seconds between reports of progress
_TICK = 0.1
# most seconds between two polls that count as time without progress
_LONGEST_POLL = 1.0


class ProcessesRunner(Runner):
    """Runs on processes, by default of one thread each; results are the same to the bit as those of threads.

    Threads are as fast and start at once. Processes are for Python code that holds the interpreter lock, and for
    libraries that several threads must not use.

    No process is a fork of this one (which would copy threads and locks), and none imports the caller's script. So a
    script needs no `if __name__ == "__main__":`, and interactive sessions can use this runner. On Linux, workers are
    forked from a small process with one thread, which begins to import Kinema when the runner is made: a runner that is
    made early, or used again, has workers within milliseconds. That process ends with the runner. On other systems each
    worker is a fresh interpreter.

    Processes receive recipes (files, frames, kernels' arguments) and send back partials as bytes; frame indices go
    through a temporary folder. They end with the run, with an exception, and also when this process is killed.

    Parameters
    ----------
    threads_per_worker : int
        Threads of a process. Their times add up.
    schedule : {"dynamic", "static"}
        Whether a free worker gets the next piece of work (default), or each worker a contiguous share.
    oversubscribe : int, optional
        Least number of pieces of work for each worker, if there are enough leaves; 4 by default.

    Raises
    ------
    WorkerError
        If a process was killed or could not start. Errors of a worker are raised unchanged, with path, frame and byte.
    """

    name = "processes"

    def __init__(
        self, *, threads_per_worker: int = 1, schedule: str | None = None, oversubscribe: int | None = None
    ) -> None:
        self._threads = worker_count(threads_per_worker, "threads_per_worker")
        self._policy = SchedulePolicy(schedule, oversubscribe)
        # the pool of the session that a thread is in
        self._lasting = threading.local()
        self._modules: tuple[str, ...] = ()
        self._server = start_server()

    def preload(self, modules: Iterable[str]) -> None:
        """Lets workers import modules before they are needed; skips modules that cannot be imported."""
        self._modules = (*self._modules, *modules)
        if self._server is not None:
            with suppress(OSError):
                self._server.preload(self._modules)

    def map_reduce(self, request: PassRequest) -> PassResult:
        """See `Runner.map_reduce`; `memory` is divided among the processes."""
        began = time.monotonic()
        work_plan, plan, reduction = self._policy.divide(
            request,
            workers=self._wanted(request.workers),
            threads=self._threads,
            memory=request.memory or default_memory(),
        )
        describe = partial(describe_piece, plan, request.frames)
        with self._pool() as pool, pool.pass_workers(work_plan.workers, describe) as used_workers:
            store_files(request.trajectory, used_workers.folder)
            WorkerSetup(request.jobs, work_plan, began).store(used_workers.folder)
            used_workers.begin(time.monotonic() - began)
            cuts = plan.partition(request.trajectory)
            piece_scheduler = work_plan.piece_scheduler(cuts, ahead=_PIECES_AHEAD, limit=reduction.limit)
            _ProcessesPass(plan, request.kernels, used_workers.workers, reduction, piece_scheduler).run(
                request.progress
            )
            timers = [worker.worker_timer for worker in used_workers.workers]
        timings = pass_timings(timers, time.monotonic() - began, plan.n_frames, reduction.restored)
        words = f"{plan.explain(piece_scheduler.decoded_twice)}\nnote: {_describe(work_plan)}"
        return PassResult(reduction.partials(), timings, words)

    @contextmanager
    def session(self) -> Iterator[None]:
        """Context in which the processes of a pass or a `map` stay for the next one; they end with the context.

        It is valid only for the thread that enters it.
        """
        if getattr(self._lasting, "pool", None) is not None:
            yield
            return
        with self._new_pool() as pool:
            self._lasting.pool = pool
            try:
                yield
            finally:
                self._lasting.pool = None

    def fits(self) -> bool:
        """Whether started workers have the folder, environment and path of workers that would start now."""
        return self._server is None or self._server.fits()

    def _pool(self) -> AbstractContextManager[WorkerPool]:
        """The pool of the session, or one for this pass."""
        pool: WorkerPool | None = getattr(self._lasting, "pool", None)
        return self._new_pool() if pool is None else nullcontext(pool)

    def _new_pool(self) -> WorkerPool:
        if not self.fits():
            # so that workers are the same as if they were started now
            self._server = start_server()
            self.preload(())
        return WorkerPool(self._threads, self._server)

    def _wanted(self, workers: int | None) -> int:
        """Number of processes; by default, their threads together use all cores."""
        return max(1, worker_count(None) // self._threads) if workers is None else worker_count(workers)

    def local_threads(self, workers: int | None) -> int:
        """As many threads as all worker processes have together."""
        return self._wanted(workers) * self._threads

    def concurrency(self, workers: int | None) -> int:
        """See `Runner.concurrency`: as many calls as this process may run at once, or as requested."""
        return worker_count(workers)

    @property
    def threads_per_worker(self) -> int:
        """See `Runner.threads_per_worker`."""
        return self._threads

    def call_each(
        self, function: Callable[[Any], Any], computations: Sequence[Any], values: CallValues, *, workers: int | None
    ) -> None:
        """See `Runner.call_each`; workers return pickled values."""
        if not computations:
            return
        used = min(self._wanted(workers), len(computations))
        mapping = _MapCalls(values, function, computations)
        with self._pool() as pool, pool.pass_workers(used, mapping.describe) as used_workers:
            calls = Calls(
                CalledFunction.from_function(function, self._threads), [serialize(one) for one in computations]
            )
            calls.store(used_workers.folder)
            used_workers.begin()
            if getattr(function, "may_run_in_caller", False):
                mapping.help(used_workers.workers, calls)
            mapping.run(used_workers.workers)


def _describe(work_plan: WorkPlan) -> str:
    threads = "one thread" if work_plan.threads == 1 else f"{work_plan.threads} threads"
    return f"each worker is a process with {threads}, {work_plan.workers} of them, {work_plan.schedule} schedule"


def _note_stalls(workers: Sequence[WorkerHandle], polled: float, *, reports: bool = True) -> float:
    """Counts the time since `polled` for workers without progress (see `WorkerHandle.note_stall`); returns the time
    now."""
    now = time.monotonic()
    for worker in workers:
        # this process itself may have been stopped meanwhile
        worker.note_stall(min(now - polled, _LONGEST_POLL), reports=reports)
    return now


class _MapCalls:
    """Assigns the arguments of a function to workers, one at a time."""

    def __init__(self, values: CallValues, function: Callable[[Any], Any], computations: Sequence[Any]) -> None:
        self._values = values
        self._computations = computations
        self._in_words: Callable[[Any], str] | None = getattr(function, "describe", None)
        self._next = 0
        self._idle: deque[WorkerHandle] = deque()

    def describe(self, numbers: Leaves) -> str:
        """Names the first computation that a worker has."""
        first = numbers[0]
        frames = "" if self._in_words is None else f" ({self._in_words(self._computations[first])})"
        return f"part {first + 1} of {self._values.total}{frames}"

    def help(self, handles: list[WorkerHandle], calls: Calls) -> None:
        """Computes in this process until a worker is ready; workers already have their first computations."""
        for _ in range(_PIECES_AHEAD):
            for worker in handles:
                self._order_one(worker)
        workers = {worker.connection: worker for worker in handles}
        # workers that already run answer at once
        pause = _TICK / 2
        while not wait(list(workers), timeout=pause) and self._values.may_begin(self._next):
            pause = 0.0
            number, self._next = self._next, self._next + 1
            try:
                (value,) = calls.values(number, number + 1)
            except BaseException as error:
                error.add_note(f"in this process, part {number + 1} of {self._values.total}")
                raise
            self._values.take(number, unpacked_value(value))

    def run(self, handles: list[WorkerHandle]) -> None:
        """Passes the results of the function to the values, as they arrive."""
        workers = {worker.connection: worker for worker in handles}
        polled = time.monotonic()
        while not self._values.complete:
            for connection in wait(list(workers), timeout=_TICK):
                assert isinstance(connection, Connection)  # wait returns some of its arguments
                self._take(workers[connection])
            polled = _note_stalls(handles, polled, reports=False)

    def _take(self, worker: WorkerHandle) -> None:
        match worker.receive():
            case Ready() as ready:
                # `help` has already given it some
                if worker.matches_pass(ready) and not worker.pieces:
                    self._idle.append(worker)
                    self._order()
            case Returned([value]):
                number, _ = worker.pieces.popleft()
                # first, so that the worker continues meanwhile
                self._idle.append(worker)
                self._order()
                self._values.take(number, unpacked_value(value))
                self._order()
            case WorkerFailure(packed, text):
                error: BaseException = pickle.loads(packed)
                part = f", part {worker.pieces[0][0] + 1} of {self._values.total}" if worker.pieces else ""
                note_worker(error, f"on {worker}{part}", text)
                raise error

    def _order(self) -> None:
        """Gives each idle worker a computation, as long as one may start."""
        while self._idle and self._values.may_begin(self._next):
            self._order_one(self._idle.popleft())

    def _order_one(self, worker: WorkerHandle) -> None:
        """Gives a worker the next computation, if it may start."""
        if self._values.may_begin(self._next):
            self._next += 1
            worker.order((self._next - 1, self._next))


class _ProcessesPass:
    """Assigns the missing leaves of a plan to workers and inserts the nodes that they send into the tree."""

    def __init__(
        self,
        plan: _core.Plan,
        kernels: Sequence[_core.Kernel],
        workers: list[WorkerHandle],
        reduction: Reduction,
        piece_scheduler: Scheduler,
    ) -> None:
        self._plan = plan
        self._kernels = kernels
        self._workers = workers
        self._reduction = reduction
        self._piece_scheduler = piece_scheduler
        self._leaves_done = 0
        self._frames_done = reduction.restored

    def run(self, progress: Report | None) -> None:
        """Fills the tree."""
        workers = {worker.connection: worker for worker in self._workers}
        began = polled = time.monotonic()
        wanted = self._piece_scheduler.left
        while self._leaves_done < wanted:
            for connection in wait(list(workers), timeout=_TICK):
                assert isinstance(connection, Connection)  # wait returns some of its arguments
                self._take(workers[connection])
            if time.monotonic() - polled >= _TICK:
                polled = _note_stalls(self._workers, polled)
                self._reduction.poll()
                if progress is not None:
                    running = sum(worker.running for worker in self._workers)
                    progress(self._frames_done + running, self._plan.n_frames)
                    frames = {str(worker): worker.frames + worker.running for worker in self._workers}
                    report_slowest(progress, frames, time.monotonic() - began)
        if progress is not None:
            progress(self._frames_done, self._plan.n_frames)

    def _take(self, worker: WorkerHandle) -> None:
        """Handles one message."""
        message = worker.receive()
        match message:
            case Ready() as ready:
                if worker.matches_pass(ready):
                    for _ in range(_PIECES_AHEAD):
                        self._order(worker)
            case Progress():
                worker.running = message.frames
            case PieceTimes():
                worker.record(message)
            case Done():
                # first, so that the worker continues meanwhile
                self._order(worker)
                self._merge(worker, message)
            case WorkerFailure(packed, text):
                error: BaseException = pickle.loads(packed)
                note_worker(error, None if says_enough(error) else str(worker), text)
                raise error

    def _order(self, worker: WorkerHandle) -> None:
        """Assigns the next leaves to a worker, if any are left."""
        piece = self._piece_scheduler.take(worker.number)
        if piece is not None:
            worker.order(piece)

    def _merge(self, worker: WorkerHandle, done: Done) -> None:
        size = insert_nodes(self._reduction.tree, self._kernels, done.nodes)
        add_counts(done.counts)
        first, stop = piece = worker.pieces.popleft()
        worker.running = 0
        self._leaves_done += stop - first
        frames = frames_in(self._plan, piece)
        worker.frames += frames
        self._frames_done += frames
        self._piece_scheduler.record(stop - first, done.timings["wall"], size)
        worker.worker_timer.cpu = done.cpu
        worker.worker_timer.add(done.timings)
