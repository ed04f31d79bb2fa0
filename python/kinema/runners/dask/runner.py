"""The runner on a Dask cluster: pieces of the merge tree are tasks, on workers that see the files under the same paths.

With `schedule="dynamic"` Dask's scheduler chooses the worker of each piece. The tasks are in `tasks`.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kinema import _core
from kinema.base.errors import ArgumentError, missing_package
from kinema.base.progress import Report, report_slowest
from kinema.base.resources import LEAST_MEMORY, worker_count
from kinema.base.serialisation import serialize
from kinema.base.timings import PassTimings, TaskTimes, block_column, processed_again, worker_task_times
from kinema.cache.counts import add_counts
from kinema.model.snapshot import TrajectorySnapshot
from kinema.runners.base import PassRequest, PassResult, Runner
from kinema.runners.calls import CalledFunction, CallValues, OrderedWork, Received, unpacked_value
from kinema.runners.local.worker import WorkerSetup
from kinema.runners.reduction import Leaves, Reduction, describe_piece, insert_nodes
from kinema.runners.scheduler import SchedulePolicy, Scheduler
from kinema.runners.worker_timer import WorkerTimer, pass_timings

try:
    from distributed import Client
except ImportError as missing:
    raise missing_package("the runner 'dask'", "distributed", "dask", missing) from None

from kinema.runners.dask.client import DaskWorkers, check_running, connection, current_client, find_workers
from kinema.runners.dask.cluster import OwnCluster
from kinema.runners.dask.ordered import OrderedTasks, make_bytes
from kinema.runners.dask.progress import FramesInProgress
from kinema.runners.dask.scheduler_plugin import Recording, trace_transitions, transitions_since
from kinema.runners.dask.task_submitter import SharedResult, TaskSubmitter
from kinema.runners.dask.tasks import (
    PieceResult,
    SharedFiles,
    SharedSetup,
    TaskFailure,
    call_function,
    run_piece,
    task_error,
)

# submitted tasks per running task: a worker starts the second while the client fetches the result of the first
_AHEAD = 2
# smallest size of a task: the scheduler takes a few milliseconds for each
_LEAST_SECONDS = 0.05
# seconds between reports of progress
_TICK = 0.1


class Dask(Runner):
    """Runs on a Dask cluster; results are the same to the bit as those of threads.

    The argument of a task is a range of leaves. The setup of a pass (files, frames, kernels' arguments) and a snapshot
    of the files (headers, indices) are sent to each worker once; workers read only the parts that they need. Leaves of
    a lost worker are run again. Functions and classes of the calling script or session are sent with their code.

    Parameters
    ----------
    cluster : distributed.Client, str or None
        A client; the address of a scheduler ("tcp://host:8786") or its scheduler file ("scheduler.json"). None: the
        current client of this process; if there is none, a cluster on this machine for one run, with `workers` workers.
    threads_per_worker : int
        Threads of a task. Workers with several threads run several tasks of one thread by default.
    schedule : {"dynamic", "static"}
        Whether a free worker gets the next piece of work (default), or each worker a contiguous share.
    oversubscribe : int, optional
        Least number of pieces of work for each worker, if there are enough leaves; 4 by default.
    patience : float, seconds
        Time to wait for a first worker, and for another after all are lost.

    Raises
    ------
    WorkerError
        If the scheduler is lost, if the workers of some leaves were lost several times, or if no worker is left. Errors
        of a task are raised unchanged, with path, frame and byte, and a note that names the worker.
    ArgumentError
        If workers have another version of Kinema, or none, or if more workers are requested than exist.
    """

    name = "dask"

    def __init__(
        self,
        cluster: Client | str | None = None,
        *,
        threads_per_worker: int = 1,
        schedule: str | None = None,
        oversubscribe: int | None = None,
        patience: float = 60.0,
    ) -> None:
        if cluster is not None and not isinstance(cluster, Client | str):
            raise ArgumentError(f"cluster is a client, an address or a scheduler file, found {type(cluster).__name__}")
        if isinstance(cluster, Client) and cluster.asynchronous:
            raise ArgumentError("the Dask client is asynchronous; make one without asynchronous=True")
        self._cluster = cluster
        self._threads = worker_count(threads_per_worker, "threads_per_worker")
        self._policy = SchedulePolicy(schedule, oversubscribe)
        if isinstance(patience, bool) or not isinstance(patience, int | float) or not patience > 0:
            raise ArgumentError(f"patience is a number of seconds above 0, found {patience!r}")
        self._patience = patience
        # the session of each thread that is in one
        self._local = threading.local()

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        """Keeps cluster, connection and the workers' shared data for all passes of this thread within the context."""
        with self._use_session():
            yield

    @contextlib.contextmanager
    def _use_session(self) -> Iterator[_Session]:
        current: _Session | None = getattr(self._local, "session", None)
        if current is not None:
            yield current
            return
        with contextlib.ExitStack() as stack:
            session = self._local.session = _Session(stack)
            try:
                yield session
            finally:
                self._local.session = session.files = None

    def map_reduce(self, request: PassRequest) -> PassResult:
        """See `Runner.map_reduce`; `memory` is divided among all tasks that run at a time, on all machines together."""
        began = time.time()
        wanted = None if request.workers is None else worker_count(request.workers)
        # raises for missing frames and too small a limit before starting or waiting for a cluster
        request.plan(memory=request.memory, workers=1, access="direct")
        checked = time.time()
        with self._use_session() as session, self._connected(wanted) as dask_workers:
            started = time.time() - checked
            work_plan, plan, reduction = self._policy.divide(
                request,
                workers=dask_workers.size,
                threads=self._threads,
                memory=request.memory or LEAST_MEMORY * dask_workers.size * self._threads,
            )
            dask_workers = dask_workers.limited_to(work_plan.workers)
            setup = WorkerSetup(request.jobs, work_plan, began=0.0)
            files = session.files_of(request)
            shared = SharedSetup(
                serialize(setup), self._threads, dask_workers.limits, report_frames=request.progress is not None
            )
            partition = plan.partition(request.trajectory)
            piece_scheduler = work_plan.piece_scheduler(
                partition, ahead=_AHEAD, limit=reduction.limit, least_seconds=_LEAST_SECONDS
            )
            prefix = f"kinema-{uuid.uuid4().hex}"
            client = dask_workers.client
            recording = Recording(client, prefix)
            try:
                with TaskSubmitter(
                    client,
                    prefix,
                    run_piece,
                    shared,
                    dask_workers.addresses,
                    self._patience,
                    lasting_results=[files],
                    processes=dask_workers.processes,
                ) as submitter:
                    in_progress = FramesInProgress(client, prefix)
                    one = _DaskPass(
                        plan, request, reduction, piece_scheduler, dask_workers, submitter, in_progress, began, started
                    )
                    one.run(request.progress, work_plan.schedule == "static")
            except BaseException:
                recording.abandon()
                raise
            recorded = recording.end()
            note = f"note: {dask_workers.label}, {self._threads} threads a task"
        return PassResult(
            reduction.partials(),
            one.timings(recording, recorded),
            f"{plan.explain(piece_scheduler.decoded_twice)}\n{note}",
        )

    def local_threads(self, workers: int | None) -> int:
        """As many threads as this process may run: `workers` counts workers of the cluster."""
        return worker_count(None)

    def concurrency(self, workers: int | None) -> int:
        """See `Runner.concurrency`: tasks at a time; the call does not start a cluster."""
        wanted = None if workers is None else worker_count(workers)
        if self._cluster is None and current_client() is None:
            return worker_count(wanted)
        with self._connected(wanted) as dask_workers:
            return dask_workers.size

    def call_each(
        self, function: Callable[[Any], Any], computations: Sequence[Any], values: CallValues, *, workers: int | None
    ) -> None:
        """See `Runner.call_each`; computations of a lost worker are repeated."""
        packed = [serialize(item) for item in computations]
        with self._calling(call_function, function, workers) as (dask_workers, submitter):
            following = 0
            while not values.complete:
                while len(submitter) < dask_workers.size * _AHEAD and values.may_begin(following):
                    submitter.submit((following, packed[following]), f"part {following + 1} of {len(packed)}")
                    following += 1
                for (number, _), result in submitter.completed(_TICK):
                    if isinstance(result, TaskFailure):
                        raise task_error(result, f"part {number + 1} of {len(packed)}")
                    values.take(number, unpacked_value(result))

    def write_in_order(
        self,
        function: OrderedWork,
        computations: Sequence[Any],
        *,
        offset: int,
        ahead: int,
        received: Received,
        gathered: bool = False,
        workers: int | None = None,
    ) -> None:
        """See `Runner.write_in_order`: bytes stay on the worker that made them, which also writes them."""
        if gathered:
            super().write_in_order(
                function, computations, offset=offset, ahead=ahead, received=received, workers=workers
            )
            return
        packed = [serialize(item) for item in computations]
        with self._calling(make_bytes, function, workers) as (dask_workers, submitter):
            most = min(ahead, dask_workers.size * _AHEAD)
            OrderedTasks(submitter, packed, offset=offset, most=max(1, most), received=received).run()

    @contextlib.contextmanager
    def _calling(
        self, task: Callable[..., Any], function: Callable[[Any], Any], workers: int | None
    ) -> Iterator[tuple[DaskWorkers, TaskSubmitter]]:
        """The workers, and a submitter of tasks that share the function."""
        wanted = None if workers is None else worker_count(workers)
        with (
            self._connected(wanted) as dask_workers,
            TaskSubmitter(
                dask_workers.client,
                f"kinema-{uuid.uuid4().hex}",
                task,
                CalledFunction.from_function(function, self._threads),
                dask_workers.addresses,
                self._patience,
                processes=dask_workers.processes,
            ) as submitter,
        ):
            yield dask_workers, submitter
            submitter.settle()

    @contextlib.contextmanager
    def _connected(self, wanted: int | None) -> Iterator[DaskWorkers]:
        """The workers of the cluster. The run's own cluster ends with the session; others are left running."""
        cluster = current_client() if self._cluster is None else self._cluster
        with self._use_session() as session:
            if cluster is None:
                own = session.own_cluster(worker_count(wanted))
                found = find_workers(own.client, None, self._threads, "Dask cluster of this run's own", self._patience)
                yield replace(found, processes=own.processes)
                return
            client = cluster if isinstance(cluster, Client) else session.client_of(cluster)
            check_running(client)
            label = f"Dask cluster {client.scheduler.address}"
            yield find_workers(client, wanted, self._threads, label, self._patience)


@dataclass(eq=False)
class _Session:
    """State of all passes of a run: the run's own cluster (with its number of workers) or a connection to the user's,
    and the snapshot of the files that workers have (with the run that it belongs to).
    """

    stack: contextlib.ExitStack
    own: tuple[int, OwnCluster] | None = None
    client: Client | None = None
    files: tuple[object, SharedResult] | None = None

    def own_cluster(self, workers: int) -> OwnCluster:
        """The run's own cluster, which the first pass starts."""
        if self.own is None or self.own[0] != workers:
            self.own = workers, self.stack.enter_context(OwnCluster(workers))
        return self.own[1]

    def client_of(self, cluster: str) -> Client:
        """A client connected to the scheduler at an address. Raises as `connection`."""
        if self.client is None or self.client.status != "running":
            self.client = self.stack.enter_context(connection(cluster))
        return self.client

    def files_of(self, request: PassRequest) -> SharedResult:
        """The snapshot of the files, sent to each worker once for all passes of a run."""
        if self.files is None or self.files[0] is not request.run:
            # workers have working folders of their own
            snapshot = SharedResult(SharedFiles(serialize(TrajectorySnapshot.take(request.trajectory, absolute=True))))
            self.stack.callback(snapshot.release)
            self.files = request.run, snapshot
        return self.files[1]


class _DaskPass:
    """Submits the missing leaves of a plan and inserts the results into the merge tree."""

    def __init__(
        self,
        plan: _core.Plan,
        request: PassRequest,
        reduction: Reduction,
        piece_scheduler: Scheduler,
        workers: DaskWorkers,
        submitter: TaskSubmitter,
        in_progress: FramesInProgress,
        began: float,
        started: float,
    ) -> None:
        self._plan = plan
        self._kernels = request.kernels
        self._describe = partial(describe_piece, plan, request.frames)
        self._reduction = reduction
        self._piece_scheduler = piece_scheduler
        self._workers = workers
        self._submitter = submitter
        self._in_progress = in_progress
        self._began = began
        # the cluster's start, and all else before the first piece is submitted
        self._started, self._planning = started, time.time() - began - started
        self._frames_done = reduction.restored
        self._slots = [(address, slot) for address, number in workers.slots.items() for slot in range(number)]
        self._worker_timers: dict[tuple[str, int], WorkerTimer] = {}
        for key in self._slots:
            self._timer_of(*key)
        self._functions: list[tuple[str, float, float]] = []
        self._frames_of: Counter[str] = Counter()

    def run(self, progress: Report | None, static: bool) -> None:
        """Submits pieces and takes results until the tree is complete; `progress` is called ten times a second."""
        fill = self._fill_each if static else self._fill
        polled_at = time.monotonic()
        fill()
        while len(self._submitter):
            for piece, result in self._submitter.completed(_TICK):
                self._take(piece, result)
            fill()
            if time.monotonic() - polled_at >= _TICK:
                polled_at = time.monotonic()
                self._reduction.poll()
                if progress is not None:
                    self._report(progress)
        if progress is not None:
            progress(self._frames_done, self._plan.n_frames)

    def _report(self, progress: Report) -> None:
        """Reports the frames of completed and running tasks, and the slowest of the present workers."""
        running = self._in_progress.worker_frames(self._submitter.keys)
        progress(self._frames_done + sum(running.values()), self._plan.n_frames)
        present = set(self._submitter.threads)
        if self._workers.limited:
            present &= self._workers.slots.keys()
        frames = {address: self._frames_of[address] + running.get(address, 0) for address in present}
        report_slowest(progress, frames, time.time() - self._began)

    def _fill(self) -> None:
        """Submits pieces for free workers, including workers that have joined."""
        size = self._workers.size
        if not self._workers.limited:
            size = max(size, len(self._submitter.threads))
        while len(self._submitter) < size * _AHEAD and (piece := self._piece_scheduler.take(0)) is not None:
            self._submitter.submit(piece, self._describe(piece))

    def _fill_each(self) -> None:
        """Submits all pieces at once, each to the worker of its share; to another only if that worker is lost."""
        for number, (address, _) in enumerate(self._slots):
            while (piece := self._piece_scheduler.take(number)) is not None:
                self._submitter.submit(piece, self._describe(piece), [address])

    def _take(self, piece: Leaves, result: PieceResult | TaskFailure) -> None:
        if isinstance(result, TaskFailure):
            raise task_error(result, f"at {self._describe(piece)}")
        size = insert_nodes(self._reduction.tree, self._kernels, result.nodes)
        add_counts(result.counts)
        measured = result.timings
        frames = sum(worker["frames"] for worker in measured["workers"])
        self._piece_scheduler.record(piece[1] - piece[0], result.seconds, size)
        self._frames_done += frames
        self._frames_of[result.worker] += frames
        self._functions.append((result.worker, result.begun, result.begun + result.seconds))
        # clocks of two machines differ: no piece began before the pass, or ended after now
        begun = max(0.0, min(result.begun - self._began, time.time() - self._began - result.seconds))
        worker_timer = self._timer_of(result.worker, result.slot)
        # the cluster's start, and imports of the worker for its first piece, which need not arrive first
        start = max(self._started, begun - self._planning)
        before = worker_timer.start if worker_timer.blocks else None
        worker_timer.start = start if before is None else min(start, before)
        prepared = result.opening + result.planning
        worker_timer.gather += result.packing
        worker_timer.cpu += sum(worker["cpu"] for worker in measured["workers"])
        block_column(measured["blocks"], "start")[:] += begun + prepared
        worker_timer.opening += result.opening
        worker_timer.plan += result.planning
        worker_timer.add(measured)

    def _timer_of(self, address: str, slot: int) -> WorkerTimer:
        key = (address, slot)
        if key not in self._worker_timers:
            node = self._workers.hosts.get(address, address)
            made = WorkerTimer(len(self._worker_timers), self._workers.threads, node)
            made.start, made.plan = self._started, self._planning
            self._worker_timers[key] = made
        return self._worker_timers[key]

    def timings(self, recording: Recording, recorded: tuple[list[Any], list[str]]) -> PassTimings:
        """Times by the workers' clocks, and by the scheduler's."""
        wall = time.time() - self._began
        rows, lost = recorded
        trace_transitions(rows)
        transitions = transitions_since(rows, self._began)
        times = TaskTimes(
            wall,
            worker_task_times(self._functions, transitions),
            transitions,
            tuple(lost),
            processed_again(transitions),
            recording.refused,
        )
        timings = pass_timings(list(self._worker_timers.values()), wall, self._plan.n_frames, self._reduction.restored)
        return replace(timings, tasks=times)
