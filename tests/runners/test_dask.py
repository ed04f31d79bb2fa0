"""The runner on Dask: the suite of all runners on a cluster of this machine, and what is sent to its workers.

Lost workers and schedulers are tested in `test_dask_losses`.
"""

from __future__ import annotations

import operator
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster
from tests.runners.dask_cases import client_of_three, nothing_left, rmsd_of_20  # noqa: F401

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
from kinema.testing.runner_work import Sealed, SealedCount, slow_corner
from kinema.testing.traces import all_events, events_of, spans

pytestmark = pytest.mark.processes


class TestDask(RunnerTests):
    # all three, and some
    worker_counts = (None, 2)

    @pytest.fixture(autouse=True)
    def cluster(self, client: Client) -> None:
        self.client = client

    def make(self) -> Runner:
        return Dask(self.client)


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
