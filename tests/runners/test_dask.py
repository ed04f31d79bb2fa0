"""The runner on Dask: the suite of all runners on a cluster of this machine, and what is sent to its workers.

Lost workers and schedulers are tested in `test_dask_losses`.
"""

from __future__ import annotations

import contextlib
import operator
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
from distributed import Client, LocalCluster

import kinema as kn
from kinema import _core
from kinema.analysis import Analysis
from kinema.base.serialisation import serialize
from kinema.model.snapshot import TrajectorySnapshot
from kinema.runners import PassRequest, Runner, choose_runner
from kinema.runners.dask import runner as dask_runner
from kinema.runners.dask.runner import Dask
from kinema.runners.dask.tasks import SharedFiles, SharedSetup
from kinema.runners.local.worker import WorkerSetup
from kinema.runners.scheduler import SchedulePolicy
from kinema.testing import RunnerTests, random_walk, write_dcd, write_xtc
from kinema.testing.amounts import LONG
from kinema.testing.runner_work import Sealed, SealedCount, save_at_work, slow_corner
from kinema.testing.traces import all_events, events_of, spans

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    # workers cannot import this module: its functions go with their code
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with (
        LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0) as cluster,
        Client(cluster, set_as_default=False) as made,
    ):
        yield made


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """After every test the cluster of this module has no task, no data and no plugin of ours."""
    yield
    if "client" not in request.fixturenames:
        return
    client = request.getfixturevalue("client")
    until = time.monotonic() + 120
    while (left := client.run_on_scheduler(_tasks_and_plugins)) and time.monotonic() < until:
        time.sleep(0.05)
    assert left == []
    while (metrics := client.run(_metrics)) and any(metrics.values()) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(metrics.values())


def _metrics(dask_worker: Any) -> list[str]:
    return [name for name in dask_worker.metrics if "kinema" in name]


def _tasks_and_plugins(dask_scheduler: Any) -> list[str]:
    return [str(name) for name in (*dask_scheduler.tasks, *dask_scheduler.plugins) if "kinema" in str(name)]


class TestDask(RunnerTests):
    # all three, and some
    worker_counts = (None, 2)

    @pytest.fixture(autouse=True)
    def cluster(self, client: Client) -> None:
        self.client = client

    def make(self) -> Runner:
        return Dask(self.client)


@pytest.fixture
def rmsd(tmp_path: Path) -> Analysis:
    write_dcd(tmp_path / "a.dcd", random_walk(300, 20))
    return kn.analysis.RMSD(kn.open(tmp_path / "a.dcd"))


# -- which cluster ------------------------------------------------------------------------------------------------


def test_a_cluster_of_its_own_for_all_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(100, 20))
    traj = kn.open(tmp_path / "a.dcd")
    expected = kn.analysis.RMSF(traj, align="average").run(runner="serial").results.values
    started: list[int] = []
    enter = dask_runner.OwnCluster.__enter__

    def count(self: dask_runner.OwnCluster) -> dask_runner.OwnCluster:
        started.append(1)
        return enter(self)

    snapshots: list[int] = []
    of = dask_runner.TrajectorySnapshot.take
    monkeypatch.setattr(dask_runner.OwnCluster, "__enter__", count)
    monkeypatch.setattr(
        dask_runner.TrajectorySnapshot, "take", lambda *rest, **options: snapshots.append(1) or of(*rest, **options)
    )
    found = kn.analysis.RMSF(traj, align="average").run(runner="dask", workers=2)
    assert found.results.values.tobytes() == expected.tobytes()
    assert len(found.timings.passes) == 2
    assert started == snapshots == [1]
    assert found.plan is not None and "of this run's own" in found.plan


def test_the_current_client_and_addresses(client: Client, rmsd: Analysis) -> None:
    expected = rmsd.run(runner="serial").results.values
    with client.as_current():
        rmsd.run(runner="dask")
    assert rmsd.plan is not None and client.scheduler.address in rmsd.plan
    assert rmsd.results.values.tobytes() == expected.tobytes()
    rmsd.run(runner=Dask(client.scheduler.address))
    assert rmsd.plan is not None and client.scheduler.address in rmsd.plan
    assert rmsd.timings.n_workers == 3


def test_wrong_arguments(client: Client, rmsd: Analysis) -> None:
    with pytest.raises(kn.ArgumentError, match="cluster is a client"):
        Dask(3)
    with pytest.raises(kn.ArgumentError, match="schedule must be"):
        Dask(client, schedule="lottery")
    with pytest.raises(kn.ArgumentError, match="threads_per_worker must be a whole number"):
        Dask(client, threads_per_worker=0)
    with pytest.raises(kn.ArgumentError, match=r"runs 3 tasks of 1 threads at a time, asked for 4"):
        rmsd.run(runner=Dask(client), workers=4)
    with Client(client.scheduler.address, set_as_default=False) as closed:
        pass
    with pytest.raises(kn.ArgumentError, match="client is closed"):
        rmsd.run(runner=Dask(closed))


def test_another_version(client: Client, rmsd: Analysis, monkeypatch: pytest.MonkeyPatch) -> None:
    version = _core.__version__
    monkeypatch.setattr(_core, "__version__", "0.0.1")
    with pytest.raises(kn.ArgumentError, match=rf"has another version of Kinema, expected 0\.0\.1, found {version}"):
        rmsd.run(runner=Dask(client))


# -- pieces and shared data ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["dynamic", "static"])
@pytest.mark.parametrize("oversubscribe", [1, 7])
def test_schedules(client: Client, rmsd: Analysis, schedule: str, oversubscribe: int) -> None:
    expected = rmsd.run(runner="serial").results.values
    rmsd.run(runner=Dask(client, schedule=schedule, oversubscribe=oversubscribe))
    assert rmsd.results.values.tobytes() == expected.tobytes()
    (one,) = rmsd.timings.passes
    assert len(one.workers) == 3
    if schedule == "static":
        # each has its share, whether or not another would have been free
        assert all(0 < worker.frames < 200 for worker in one.workers)


def test_tasks_are_sized_by_what_those_before_have_cost(
    client: Client, rmsd: Analysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tasks(least_seconds: float) -> int:
        monkeypatch.setattr(dask_runner, "_LEAST_SECONDS", least_seconds)
        rmsd.run(runner=Dask(client))
        found = rmsd.timings.passes[0].tasks
        assert found is not None
        return sum(worker.tasks for worker in found.workers)

    # no leaf takes that long: after the first results each worker gets its share of what is left
    assert 3 < tasks(1e9) < tasks(0.0) / 2


def test_workers_of_several_threads(tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(300, 20))
    analysis = kn.analysis.from_function(slow_corner, kn.open(tmp_path / "a.dcd"))
    expected = analysis.run(runner="serial").results.values
    with (
        LocalCluster(n_workers=1, threads_per_worker=4, dashboard_address="127.0.0.1:0", memory_limit=0) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        for threads, workers in ((1, 4), (2, 2), (4, 1), (9, 1)):
            analysis.run(runner=Dask(client, threads_per_worker=threads))
            assert analysis.results.values.tobytes() == expected.tobytes()
            assert analysis.timings.n_workers == workers
            for one in analysis.timings.workers:
                assert one.start + one.open + one.io + one.decode + one.compute + one.wait <= one.total + 1e-6
        analysis.run(runner=Dask(client), workers=2)
        assert analysis.timings.n_workers == 2


def test_functions_of_scripts_and_sessions(client: Client, tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(50, 20))
    traj = kn.open(tmp_path / "a.dcd")
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec("import numpy as np\ndef middle(frame):\n    return frame.positions.mean(axis=0).astype(np.float64)\n", scope)
    for function in (scope["middle"], lambda frame: float(frame.positions[3, 1])):
        found = kn.analysis.from_function(function, traj).run(runner=Dask(client)).results.values
        expected = kn.analysis.from_function(function, traj).run(runner="serial").results.values
        assert found.tobytes() == expected.tobytes()


def test_workers_touch_no_file_but_what_they_read(tmp_path: Path) -> None:
    names = [tmp_path / f"{number}.xtc" for number in range(5)]
    for number, name in enumerate(names):
        write_xtc(name, random_walk(10, 20), first_step=10 * number)
    traj = kn.open(names, stored=False)
    frames = kn.FrameSelection(range(traj.n_frames))
    one = next(kn.analysis.RMSD(traj)._passes(frames))
    jobs = [(one.kernel, tuple(one.transforms))]
    request = PassRequest(traj.core, frames, jobs)
    work_plan, _, _ = SchedulePolicy(None, None).divide(request, workers=1, threads=1, memory=1 << 24)
    setup = WorkerSetup(jobs, work_plan, 0.0)
    snapshot, data = TrajectorySnapshot.take(traj.core)
    snapshot.recipe["record_reads"] = True
    original = SharedFiles(serialize((snapshot, data))), SharedSetup(serialize(setup), 1, {})
    files, shared = pickle.loads(pickle.dumps(original))
    planned, opening, planning = shared.planned(files)
    assert opening > 0.0 and planning > 0.0
    assert shared.planned(files) == (planned, 0.0, 0.0)
    assert planned.trajectory is files.opened()
    assert planned.trajectory.take_opens() == []
    _core.run_leaves(planned.trajectory, planned.plan, planned.jobs, 0, 1)
    assert planned.trajectory.take_opens() == [str(names[0])]
    assert sys.getsizeof(files) > len(data)
    # what they have opened and planned is not pickled
    files, shared = pickle.loads(pickle.dumps((files, shared)))
    assert (files._trajectory, shared._planned) == (None, None)
    with pytest.raises(kn.InternalError, match="setup of a worker is none"):
        SharedSetup(serialize("something else"), 1, {}).planned(files)


@pytest.mark.parametrize("where", ["client", "address", "own"])
def test_the_snapshot_of_files_is_sent_once_for_all_passes(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    write_xtc(tmp_path / "md.xtc", random_walk(300, 20))
    sent: list[str] = []
    submit = Client.submit

    def watched(self: Client, function: object, *arguments: object, **options: object) -> object:
        if len(arguments) == 1:
            sent.append(type(arguments[0]).__name__)
        return submit(self, function, *arguments, **options)

    monkeypatch.setattr(Client, "submit", watched)
    runner = Dask({"client": client, "address": client.scheduler.address, "own": None}[where])
    # an average structure first, and then how far atoms are from it
    analysis = kn.analysis.RMSF(kn.open(tmp_path / "md.xtc"), align="average").run(runner=runner, workers=2)
    assert len(analysis.timings.passes) == 2
    assert sent == ["SharedFiles", "SharedSetup", "SharedSetup"]
    expected = kn.analysis.RMSF(kn.open(tmp_path / "md.xtc"), align="average").run(runner="serial").results.rmsf
    assert analysis.results.rmsf.tobytes() == expected.tobytes()


def test_hdf5_trajectories(client: Client, tmp_path: Path) -> None:
    from MDAnalysisTests.datafiles import H5MD_energy

    for path in (H5MD_energy,):
        traj = kn.open(path)
        expected = kn.analysis.RMSD(traj).run(runner="serial").results.values
        found = kn.analysis.RMSD(traj).run(runner=Dask(client)).results.values
        assert found.tobytes() == expected.tobytes()


# -- progress -----------------------------------------------------------------------------------------------------


class RecordedProgress:
    """A progress function that records its calls, and calls `then` after each."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.done: list[int] = []
        self.named: list[str] = []
        self.then = then

    def __call__(self, done: int, total: int) -> None:
        assert 0 <= done <= total == 512
        self.done.append(done)

    def slowest(self, worker: str, frames_per_second: float) -> None:
        assert frames_per_second >= 0.0
        self.named.append(worker)
        self.then()


def _waiting(folder: Path, before: int) -> Callable[[kn.Frame], float]:
    """A function of a frame: from `before` to 256 it leaves a file `PROCESS waits` and waits for a file `go`."""

    def waiting(frame: kn.Frame) -> float:
        until = time.monotonic() + 120
        while before <= frame.frame < 256 and not (folder / "go").exists():
            (folder / f"{os.getpid()} waits").touch()
            assert time.monotonic() < until, "the test waits for something else"
            time.sleep(0.01)
        return 1.0

    return waiting


def test_progress_moves_while_a_piece_runs(client: Client, tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(512, 20))

    processes = client.run(os.getpid)

    def go_on() -> None:
        # the other piece is done, and of the first all but what waits, whose worker falls behind from now on
        waiting = [int(file.name.split()[0]) for file in tmp_path.glob("* waits")]
        if recorded.done[-1] == 256 + 100 and [processes[recorded.named[-1]]] == waiting:
            (tmp_path / "go").touch()

    # two pieces, of which the first waits after a hundred frames
    analysis = kn.analysis.from_function(_waiting(tmp_path, 100), kn.open(tmp_path / "a.dcd"))
    recorded = RecordedProgress(go_on)
    analysis.run(runner=Dask(client, schedule="static", oversubscribe=1), workers=2, progress=recorded)
    workers = {one.worker for one in analysis.timings.passes[0].tasks.workers}  # type: ignore[union-attr]
    assert len(workers) == 2
    assert 256 + 100 in recorded.done
    assert recorded.done == sorted(recorded.done)
    assert recorded.done[-1] == 512
    assert set(recorded.named) <= workers


@pytest.mark.parametrize("listens", [False, True])
def test_tasks_report_frames_only_with_a_progress_function(client: Client, tmp_path: Path, listens: bool) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(512, 20))
    analysis = kn.analysis.from_function(_waiting(tmp_path, 0), kn.open(tmp_path / "a.dcd"))
    recorded = RecordedProgress() if listens else False
    runner = Dask(client, schedule="static", oversubscribe=1)
    running = threading.Thread(target=lambda: analysis.run(runner=runner, progress=recorded))
    running.start()
    try:
        until = time.monotonic() + 120
        # a task that has begun with its frames has its metric, if it is to have one
        while not list(tmp_path.glob("* waits")):
            assert time.monotonic() < until, "no task has begun"
            time.sleep(0.01)
        reported = any(client.run(_metrics).values())
    finally:
        (tmp_path / "go").touch()
        running.join()
    assert len(analysis.results.values) == 512
    assert reported == listens


def test_a_client_is_as_good_after_a_run_that_was_stopped(client: Client, rmsd: Analysis) -> None:
    """A client that was cancelled while it fetched answers gives that fetch to all that follow."""
    expected = rmsd.run(runner="serial").results.values
    for wanted in range(20) if LONG else (0, 3, 8, 15, 19):

        def stop(done: int, _total: int, wanted: int = wanted) -> None:
            if done >= wanted * 15:
                raise Mine

        with contextlib.suppress(Mine):
            rmsd.run(runner=Dask(client), progress=stop)
        assert rmsd.run(runner=Dask(client)).results.values.tobytes() == expected.tobytes()


def test_what_is_done_of_a_piece_is_saved(client: Client, tmp_path: Path) -> None:
    save_at_work(Dask(client, schedule="static", oversubscribe=1), tmp_path, workers=1)


# -- errors -------------------------------------------------------------------------------------------------------


class Mine(Exception):
    pass


def fails(frame: kn.Frame) -> float:
    if frame.frame == 77:
        raise Mine("seventy-seven")
    time.sleep(0.001)
    return 1.0


def test_an_exception_ends_the_run(client: Client, tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(300, 20))
    with pytest.raises(Mine, match="seventy-seven") as caught:
        kn.analysis.from_function(fails, kn.open(tmp_path / "a.dcd")).run(runner=Dask(client))
    notes = "\n".join(caught.value.__notes__)
    assert "on worker tcp://" in notes
    assert "Traceback" in notes
    assert "frames" in notes


class Unpicklable(Exception):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(first + second)


def fails_badly(frame: kn.Frame) -> float:
    raise Unpicklable("in two ", "parts")


def test_an_exception_that_cannot_be_pickled(client: Client, tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(300, 20))
    with pytest.raises(kn.InternalError, match=r"Unpicklable in a task of worker tcp://\S+: in two parts") as caught:
        kn.analysis.from_function(fails_badly, kn.open(tmp_path / "a.dcd")).run(runner=Dask(client))
    assert "Traceback" in "\n".join(caught.value.__notes__)


def test_errors_say_which_worker(client: Client, tmp_path: Path) -> None:
    positions = random_walk(300, 20)
    positions[217, 4] = np.nan
    write_dcd(tmp_path / "a.dcd", positions)
    with pytest.raises(kn.CorruptFileError) as caught:
        kn.analysis.RMSD(kn.open(tmp_path / "a.dcd")).run(runner=Dask(client))
    assert (caught.value.path, caught.value.frame) == (str(tmp_path / "a.dcd"), 217)
    (note,) = caught.value.__notes__
    assert note.startswith("on worker tcp://")


def test_ctrl_c_cancels_all_tasks(client: Client, tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(3000, 20))

    def stop(done: int, _total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kn.analysis.from_function(slow_corner, kn.open(tmp_path / "a.dcd")).run(runner=Dask(client), progress=stop)
    # by the same stream as the cancellation, so that the scheduler has heard of that before
    assert client.submit(abs, -1, pure=False).result(timeout=60) == 1
    # tasks end in the middle of their frames: `nothing_left` would wait for seconds otherwise
    assert all(not keys for keys in client.processing().values())


def test_tasks_that_run_end_with_the_run(client: Client, tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(512, 20))
    traj = kn.open(tmp_path / "a.dcd")
    traj.scan()
    done = tmp_path / "done"
    done.mkdir()

    def slow(frame: kn.Frame) -> float:
        (done / str(frame.frame)).touch()
        until = time.monotonic() + 120
        while frame.frame > 100 and not (tmp_path / "go").exists():
            assert time.monotonic() < until, "the run was not stopped"
            time.sleep(0.01)
        # those that are left would take some twenty seconds
        time.sleep(0.05 if frame.frame > 100 else 0.0)
        return 1.0

    def stop(_done: int, _total: int) -> None:
        if list(done.iterdir()):
            raise Mine

    # one piece, which waits in its midst until the run has been stopped
    with pytest.raises(Mine):
        kn.analysis.from_function(slow, traj).run(
            runner=Dask(client, schedule="static", oversubscribe=1), workers=1, progress=stop
        )
    (tmp_path / "go").touch()
    while any(client.run(_running).values()):
        time.sleep(0.05)
    assert len(list(done.iterdir())) < 512


def _running(dask_worker: Any) -> int:
    return len(dask_worker.state.executing)


# -- task times ---------------------------------------------------------------------------------------------------


def test_every_transition_is_recorded(client: Client, rmsd: Analysis) -> None:
    rmsd.run(runner=Dask(client))
    tasks = rmsd.timings.passes[0].tasks
    assert tasks is not None
    done = [one for one in tasks.transitions if (one.start, one.finish) == ("processing", "memory")]
    assert len(done) == sum(worker.tasks for worker in tasks.workers) > 3
    assert len({one.task for one in done}) == len(done)
    for one in done:
        assert [action for action, _, _ in one.actions].count("compute") == 1
        assert one.worker.startswith("tcp://")
        assert one.nbytes > 0
    assert {worker.worker for worker in tasks.workers} == {one.worker for one in done}
    # the scheduler's task time contains the function's, and the job both; clocks are compared with some slack
    assert tasks.function <= tasks.task + 1e-2 <= tasks.job + 2e-2
    assert (tasks.lost_workers, tasks.redone, tasks.note) == ((), 0, "")
    assert "slowest worker: function" in str(rmsd.timings)


def test_workers_record_into_the_trace_of_the_client(client: Client, rmsd: Analysis, tmp_path: Path) -> None:
    with kn.trace(tmp_path / "t") as trace:
        timings = rmsd.run(runner=Dask(client)).timings
    names = sorted(path.name for path in (tmp_path / "t").iterdir())
    # the workers were there before, and record no run that has no trace
    rmsd.run(runner=Dask(client))
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == names and len(names) > 1
    tasks = timings.passes[0].tasks
    assert tasks is not None
    own = spans(events_of(Path(str(trace.path))))
    states = [event for event in own if event["cat"] == "dask"]
    expected = sorted((f"task.{one.finish}", one.task, one.worker) for one in tasks.transitions)
    assert sorted((e["name"], e["args"]["task"], e["args"]["worker"]) for e in states) == expected
    assert all(event["args"]["ns"] > 0 for event in states if event["name"] == "task.processing")
    events = [e for e in all_events(tmp_path / "t", whole=False) if e["pid"] != os.getpid()]
    assert {e["args"]["runner"] for e in events if e["name"] == "process"} == {"dask"}
    computed = sum(e["args"]["frames"] for e in events if e["name"] == "compute")
    assert computed == timings.passes[0].frames


def test_what_is_packed_for_the_client_counts_as_messages(client: Client, tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(200, 10))
    found = kn.analysis.Custom(kn.open(tmp_path / "a.dcd"), SealedCount()).run(runner=Dask(client))
    assert found.results.frames == 200
    (one,) = found.timings.passes
    assert one.tasks is not None
    assert sum(worker.communicate for worker in one.workers) >= Sealed.SECONDS * sum(w.tasks for w in one.tasks.workers)
    # it is in the function's time, which is that of Kinema's code
    for times in one.tasks.workers:
        assert times.function >= Sealed.SECONDS * min(1, times.tasks)
    # the first task of a process unpickles the kernel and opens the files, which is timed apart
    assert max(worker.open for worker in one.workers) >= Sealed.SECONDS
    # the job is the whole pass, with what came before its first task; a worker may end an action after the client has
    # the last result
    assert one.tasks.job == one.wall
    assert one.wall >= max(start for each in one.tasks.transitions for _, start, _ in each.actions)


def test_a_scheduler_that_takes_no_plugin(client: Client, rmsd: Analysis, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ValueError("the scheduler has been explicitly disallowed from deserializing arbitrary bytestrings")

    monkeypatch.setattr(Client, "register_plugin", refuse)
    rmsd.run(runner=Dask(client))
    tasks = rmsd.timings.passes[0].tasks
    assert tasks is not None
    assert tasks.transitions == ()
    assert "were not recorded: the scheduler has been explicitly disallowed" in str(tasks)
    assert tasks.function > 0.0


# -- any function -------------------------------------------------------------------------------------------------


@pytest.fixture(params=["serial", "processes", "dask"])
def tasks(request: pytest.FixtureRequest) -> Runner:
    if request.param == "dask":
        return Dask(request.getfixturevalue("client"))
    return choose_runner(request.param)


def test_map(tasks: Runner) -> None:
    seen: list[int] = []
    found = tasks.map(operator.neg, list(range(20)), progress=seen.append)
    assert found == [-number for number in range(20)]
    assert sorted(seen) == list(range(20))
    assert tasks.map(operator.neg, []) == []


def test_map_names_the_computation_that_failed(tasks: Runner) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        tasks.map((1).__truediv__, [4, 2, 0, 1])
    assert "part 3 of 4" in "\n".join(caught.value.__notes__)


def test_threads_have_no_map() -> None:
    # functions of other libraries are rarely made for several threads
    with pytest.raises(kn.ArgumentError, match="the runner 'threads' cannot compute parts"):
        choose_runner("threads").map(operator.neg, [1])


def test_rows_of_lists_beyond_the_memory_limit(client: Client, tmp_path: Path) -> None:
    positions = np.random.default_rng(7).uniform(0, 9, (17_000, 12, 3)).astype(np.float32)
    cell = np.broadcast_to(np.diag([14.0, 14.0, 14.0]).astype(np.float32), (17_000, 3, 3))
    write_dcd(tmp_path / "long.dcd", positions, cell=cell)
    near = kn.analysis.Neighbors(kn.open(tmp_path / "long.dcd", stored=False), cutoff=8.0)
    runner = kn.runners.Dask(client)
    with pytest.raises(kn.MemoryLimitError, match=r"rows of neighbors take more than the 9437184 bytes .* out= writes"):
        near.run(memory="9 MiB", runner=runner)
    in_file = np.asarray(near.run(memory="9 MiB", runner=runner, out=tmp_path / "near.h5").results.distance)
    assert 16 * len(in_file) > 9 << 20
    in_memory = near.run(memory="64 MiB", runner=runner).results.distance
    np.testing.assert_array_equal(in_file, in_memory)
    np.testing.assert_array_equal(in_memory, near.run(memory="64 MiB", runner="serial").results.distance)
