"""The runner on a Dask cluster: pieces of the merge tree as tasks, in workers anywhere that see the files.

It schedules no task itself; which worker runs which piece is the Dask scheduler's to say. What tasks do is in
`tasks`.
"""

from __future__ import annotations

import contextlib
import pickle
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kinema import _core
from kinema.errors import ArgumentError
from kinema.progress import Report, tell_slowest
from kinema.resources import worker_count
from kinema.runners.base import Outcome, RoundRequest
from kinema.runners.gathering import Gathering, Leaves, in_words, insert_nodes
from kinema.runners.hand_out import Dealing, HandOut
from kinema.runners.known_files import KnownFiles
from kinema.runners.pickling import pack
from kinema.runners.tally import Tally, round_timings
from kinema.runners.task_times import TaskTimes, by_worker, processed_again
from kinema.runners.timings import RoundTimings, block_column
from kinema.runners.worker import Setup

try:
    from distributed import Client
except ImportError as missing:
    raise ArgumentError(
        f"the runner 'dask' needs distributed ({missing}); install it with: pip install kinema[dask]"
    ) from None

from kinema.runners.dask.cluster import OwnCluster
from kinema.runners.dask.flight import Flight, Scattered
from kinema.runners.dask.progress import FramesUnderway
from kinema.runners.dask.tasks import Failed, Files, Run, Shared, call_one, run_piece, told
from kinema.runners.dask.team import Team, await_workers, connection, current_client, team_of
from kinema.runners.dask.transitions import Recording, transitions_since

__all__ = ["Dask"]

# bytes for each task where the caller states no limit
_DEFAULT_MEMORY = 32 << 20
# tasks in flight for each that can run: a worker goes on with the second while the first travels
_AHEAD = 2
# of a task: the scheduler takes a few milliseconds for each
_LEAST_SECONDS = 0.05
# seconds between reports of progress
_TICK = 0.1


class Dask:
    """Runs on a Dask cluster; results are the same to the bit as those of threads.

    Tasks carry numbers of leaves. The recipe (files, frames, kernels' arguments) and what is known of the files
    (headers, indices) are scattered once; workers touch no file but the parts that they read. Leaves of a lost worker
    are run again. Functions and classes of the calling script or session are sent with their code.

    Parameters
    ----------
    cluster : distributed.Client, str or None
        A client; the address of a scheduler ("tcp://host:8786") or its scheduler file ("scheduler.json"); None: the
        current client of this process, and where there is none a cluster of this machine that lasts for one round,
        with a worker for each of `workers`.
    threads_per_worker : int
        Threads of a task. Workers of several threads run several tasks of one thread by default.
    schedule : {"dynamic", "static"}
        Whether whoever is free gets the next piece of work (default), or each a contiguous share.
    oversubscribe : int, optional
        Pieces of work that a worker gets at the least, where there are leaves enough; 4 by default.
    patience : float, seconds
        How long to wait for a first worker, and for another where all are lost.

    Raises
    ------
    WorkerError
        For a lost scheduler, for leaves that several workers were lost with, and where no worker is left. Errors of a
        task are raised as they are, with path, frame and byte, and a note that names the worker.
    ArgumentError
        For workers that have another version of Kinema, or none, and for more workers than there are.
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
        self._dealing = Dealing(schedule, oversubscribe)
        if isinstance(patience, bool) or not isinstance(patience, int | float) or not patience > 0:
            raise ArgumentError(f"patience is a number of seconds above 0, found {patience!r}")
        self._patience = patience
        # of the session that a thread is in
        self._lasting = threading.local()

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        """While it lasts, the next round of this thread finds the cluster, the connection and what workers have."""
        with self._in_session():
            yield

    @contextlib.contextmanager
    def _in_session(self) -> Iterator[_Session]:
        lasting: _Session | None = getattr(self._lasting, "session", None)
        if lasting is not None:
            yield lasting
            return
        with contextlib.ExitStack() as stack:
            session = self._lasting.session = _Session(stack)
            try:
                yield session
            finally:
                self._lasting.session = session.files = None

    def map_reduce(self, request: RoundRequest) -> Outcome:
        """See `Runner.map_reduce`; `memory` is divided among all tasks that run at a time, on whatever machine."""
        began = time.time()
        wanted = None if request.workers is None else worker_count(request.workers)
        # before anything is started or waited for: frames that are not there, a limit that is too small
        request.plan(memory=request.memory, workers=1, access="direct")
        with self._in_session() as session, self._connected(wanted) as team:
            division, plan, gathering = self._dealing.divide(
                request,
                workers=team.size,
                threads=self._threads,
                memory=request.memory or _DEFAULT_MEMORY * team.size * self._threads,
            )
            team = team.of_size(division.workers)
            setup = Setup(request.trajectory.recipe(), request.jobs, plan.fingerprints, division, began=0.0)
            files = session.files_of(request)
            shared = Shared(pack(setup), self._threads, team.limits, heard=request.progress is not None)
            cuts = plan.cuts(request.trajectory)
            hand_out = division.hand_out(cuts, ahead=_AHEAD, limit=gathering.limit, least_seconds=_LEAST_SECONDS)
            prefix = f"kinema-{uuid.uuid4().hex}"
            recording = Recording(team.client, prefix)
            try:
                with Flight(
                    team.client, prefix, run_piece, shared, team.addresses, self._patience, lasting=[files]
                ) as flight:
                    underway = FramesUnderway(team.client, prefix)
                    one = _Round(plan, request.kernels, gathering, hand_out, team, flight, underway, began)
                    one.run(request.progress, division.schedule == "static")
            except BaseException:
                recording.abandon()
                raise
            recorded = recording.end()
            note = f"note: {team.told}, {self._threads} threads a task"
        return Outcome(
            gathering.partials(), one.timings(recording, recorded), f"{plan.explain(hand_out.decoded_twice)}\n{note}"
        )

    def concurrency(self, workers: int | None) -> int:
        """See `TaskRunner.concurrency`: tasks at a time; no cluster is started for the question."""
        wanted = None if workers is None else worker_count(workers)
        if self._cluster is None and current_client() is None:
            return worker_count(wanted)
        with self._connected(wanted) as team:
            return team.size

    def map(
        self,
        function: Callable[[Any], Any],
        computations: Sequence[Any],
        *,
        workers: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[Any]:
        """See `TaskRunner.map`; a computation of a lost worker is done again."""
        wanted = None if workers is None else worker_count(workers)
        packed = [pack(item) for item in computations]
        found: dict[int, Any] = {}
        with (
            self._connected(wanted) as team,
            Flight(
                team.client,
                f"kinema-{uuid.uuid4().hex}",
                call_one,
                (pack(function), self._threads),
                team.addresses,
                self._patience,
            ) as flight,
        ):
            waiting = iter(enumerate(packed))
            while len(found) < len(packed):
                while len(flight) < team.size * _AHEAD and (following := next(waiting, None)) is not None:
                    flight.send(following, f"part {following[0] + 1} of {len(packed)}")
                for (number, _), answer in flight.landed(_TICK):
                    if isinstance(answer, Failed):
                        raise told(answer, f"part {number + 1} of {len(packed)}")
                    found[number] = pickle.loads(answer)
                    if progress is not None:
                        progress(number)
        return [found[number] for number in range(len(packed))]

    @contextlib.contextmanager
    def _connected(self, wanted: int | None) -> Iterator[Team]:
        """The cluster while the context lasts; one of our own is ended with the session, one that is given is left."""
        cluster = current_client() if self._cluster is None else self._cluster
        with self._in_session() as session:
            if cluster is None:
                own = session.own_client(worker_count(wanted))
                yield team_of(own, None, self._threads, "Dask cluster of this run's own", self._patience)
                return
            client = cluster if isinstance(cluster, Client) else session.client_of(cluster)
            await_workers(client, self._patience)
            yield team_of(client, wanted, self._threads, f"Dask cluster {client.scheduler.address}", self._patience)


@dataclass(eq=False)
class _Session:
    """What lasts for all rounds of a run: a cluster of our own for so many workers, or a connection to another; what
    workers were given of whose files.
    """

    stack: contextlib.ExitStack
    own: tuple[int, OwnCluster] | None = None
    client: Client | None = None
    files: tuple[object, Scattered] | None = None

    def own_client(self, workers: int) -> Client:
        """That of a cluster of our own, which is started for the first round."""
        if self.own is None or self.own[0] != workers:
            self.own = workers, self.stack.enter_context(OwnCluster(workers))
        return self.own[1].client

    def client_of(self, cluster: str) -> Client:
        """One that is connected to the scheduler at an address; what `connection` raises."""
        if self.client is None or self.client.status != "running":
            self.client = self.stack.enter_context(connection(cluster))
        return self.client

    def files_of(self, request: RoundRequest) -> Scattered:
        """What is known of the files, which reaches workers once for all rounds of a run."""
        if self.files is None or self.files[0] is not request.run:
            # workers have working folders of their own
            self.files = request.run, Scattered(Files(pack(KnownFiles.of(request.trajectory, absolute=True))))
        return self.files[1]


class _Round:
    """Sends the missing leaves of a plan and puts what comes back into the tree."""

    def __init__(
        self,
        plan: _core.Plan,
        kernels: Sequence[_core.Kernel],
        gathering: Gathering,
        hand_out: HandOut,
        team: Team,
        flight: Flight,
        underway: FramesUnderway,
        began: float,
    ) -> None:
        self._plan = plan
        self._kernels = kernels
        self._gathering = gathering
        self._hand_out = hand_out
        self._team = team
        self._flight = flight
        self._underway = underway
        self._began = began
        self._frames_done = gathering.restored
        self._slots = [(address, slot) for address, number in team.slots.items() for slot in range(number)]
        self._tallies: dict[tuple[str, int], Tally] = {}
        for key in self._slots:
            self._tally(*key)
        self._functions: list[tuple[str, float, float]] = []
        self._frames_of: Counter[str] = Counter()

    def run(self, progress: Report | None, static: bool) -> None:
        """Fills the tree."""
        fill = self._fill_each if static else self._fill
        looked = time.monotonic()
        fill()
        while len(self._flight):
            for piece, answer in self._flight.landed(_TICK):
                self._take(piece, answer)
            fill()
            if time.monotonic() - looked >= _TICK:
                looked = time.monotonic()
                self._gathering.look()
                if progress is not None:
                    self._report(progress)
        if progress is not None:
            progress(self._frames_done, self._plan.n_frames)

    def _report(self, progress: Report) -> None:
        """Frames of all that has landed and of what runs, and who has done fewest of those that are there."""
        running = self._underway.by_worker(self._flight.keys)
        progress(self._frames_done + sum(running.values()), self._plan.n_frames)
        there = self._flight.threads.keys() & self._team.slots if self._team.limited else self._flight.threads
        frames = {address: self._frames_of[address] + running.get(address, 0) for address in there}
        tell_slowest(progress, frames, time.time() - self._began)

    def _fill(self) -> None:
        """Sends pieces to whoever is free, also to workers that have joined."""
        size = self._team.size
        if not self._team.limited:
            size = max(size, len(self._flight.threads))
        while len(self._flight) < size * _AHEAD and (piece := self._hand_out.take(0)) is not None:
            self._flight.send(piece, in_words(piece))

    def _fill_each(self) -> None:
        """Sends all pieces at once, each to the worker whose share it is of; to others only if that is gone."""
        for number, (address, _) in enumerate(self._slots):
            while (piece := self._hand_out.take(number)) is not None:
                self._flight.send(piece, in_words(piece), [address])

    def _take(self, piece: Leaves, answer: Run | Failed) -> None:
        if isinstance(answer, Failed):
            raise told(answer, f"at {in_words(piece)}")
        size = insert_nodes(self._gathering.tree, self._kernels, answer.nodes)
        found = answer.timings
        frames = sum(worker["frames"] for worker in found["workers"])
        self._hand_out.account(piece[1] - piece[0], answer.seconds, size)
        self._frames_done += frames
        self._frames_of[answer.worker] += frames
        self._functions.append((answer.worker, answer.begun, answer.begun + answer.seconds))
        tally = self._tally(answer.worker, answer.slot)
        # clocks of two machines differ: no piece began before the round, or ended after now
        begun = max(0.0, min(answer.begun - self._began, time.time() - self._began - answer.seconds))
        if tally.start is None:
            tally.start = begun
        tally.communicate += max(0.0, answer.seconds - answer.opening - found["wall"])
        tally.cpu += sum(worker["cpu"] for worker in found["workers"])
        block_column(found["blocks"], "start")[:] += begun + answer.opening
        found["workers"][0]["open"] += answer.opening
        found["wall"] += answer.opening
        tally.add(found)

    def _tally(self, address: str, slot: int) -> Tally:
        key = (address, slot)
        if key not in self._tallies:
            node = self._team.hosts.get(address, address)
            self._tallies[key] = Tally(len(self._tallies), self._team.threads, node)
        return self._tallies[key]

    def timings(self, recording: Recording, recorded: tuple[list[Any], list[str]]) -> RoundTimings:
        """Where the time went, by the workers' clocks and by the scheduler's."""
        wall = time.time() - self._began
        rows, lost = recorded
        transitions = transitions_since(rows, self._began)
        times = TaskTimes(
            wall,
            by_worker(self._functions, transitions),
            transitions,
            tuple(lost),
            self._flight.redone + processed_again(transitions),
            recording.refused,
        )
        found = round_timings(list(self._tallies.values()), wall, self._plan.n_frames, self._gathering.restored)
        return replace(found, tasks=times)
