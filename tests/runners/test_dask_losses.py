"""The runner on Dask where workers, the scheduler or the client are lost; all of them are processes of their own."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from distributed import Client, Future

import kinema as kn
from kinema.analysis import Analysis
from kinema.base.timings import TaskTimes
from kinema.execution.checkpoint.file import load
from kinema.runners.dask import runner as dask_runner
from kinema.runners.dask.client import DaskWorkers
from kinema.runners.dask.runner import Dask
from kinema.runners.dask.task_submitter import TaskSubmitter
from kinema.testing import random_walk, write_dcd
from kinema.testing.programs.children import all_ended, end_structure_walks, start_child
from kinema.testing.programs.dask_cluster import DaskCluster
from kinema.testing.programs.forks import ForkedProgram
from kinema.testing.runner_work import slow_corner

pytestmark = pytest.mark.processes

# seconds after which something that is waited for does not come any more
PATIENCE = 120

N_FRAMES = 600
# frames that a process runs before it waits, far more than the first pieces have; both workers wait, or the only one
AT_ONCE = 100


class Held:
    """An analysis whose workers wait after their first frames: what a test does is done in the midst of the run.

    Each process leaves a file with its number when it waits, and continues when there is a file `go`.
    """

    def __init__(self, folder: Path) -> None:
        self.go = folder / "go"
        self._folder = folder
        write_dcd(folder / "a.dcd", random_walk(N_FRAMES, 20))
        self.expected = kn.analysis.from_function(_corner, kn.open(folder / "a.dcd")).run(runner="serial")
        self.analysis = kn.analysis.from_function(self._function(), kn.open(folder / "a.dcd"))

    def _function(self) -> Callable[[kn.Frame], Any]:
        folder, seen = self._folder, [0]

        def held(frame: kn.Frame) -> Any:
            seen[0] += 1
            until = time.monotonic() + PATIENCE
            while seen[0] > AT_ONCE and not (folder / "go").exists():
                (folder / f"{os.getpid()} waits").touch()
                assert time.monotonic() < until, "the test has done nothing"
                time.sleep(0.01)
            return _corner(frame)

        return held

    def waits(self, process: int) -> bool:
        """Whether this process is in the midst of a piece, and stays there until `go`."""
        return (self._folder / f"{process} waits").exists()

    def run(self, **options: Any) -> TaskTimes:
        """Runs, and compares the results with those of the serial runner."""
        self.analysis.run(**options)
        assert self.analysis.results.values.tobytes() == self.expected.results.values.tobytes()
        tasks = self.analysis.timings.passes[0].tasks
        assert tasks is not None
        return tasks


def _corner(frame: kn.Frame) -> Any:
    return frame.positions[0].astype(np.float64)


@pytest.fixture
def slow(tmp_path: Path) -> Analysis:
    """Takes a second on one worker, for runs that are ended from elsewhere or never begin."""
    write_dcd(tmp_path / "a.dcd", random_walk(N_FRAMES, 20))
    return kn.analysis.from_function(slow_corner, kn.open(tmp_path / "a.dcd"))


@pytest.fixture
def held(tmp_path: Path) -> Held:
    """A run of which workers are lost in the midst."""
    return Held(tmp_path)


class Once:
    """A progress function that does something once, in the midst of a run, when something is so.

    Parameters
    ----------
    when : callable
        Given the frames done.
    action : callable
        Called before the waiting frames are let go.
    """

    def __init__(self, when: Callable[[int], bool], action: Callable[[], object]) -> None:
        self._when = when
        self._action = action
        self.done = False

    def __call__(self, done: int, total: int) -> None:
        if not self.done and self._when(done):
            self.done = True
            assert done < total
            self._action()


def _busy(cluster: Any) -> subprocess.Popen[bytes] | ForkedProgram:
    """The worker that is lost."""
    return cluster.workers[0]


def _act_at_work(cluster: Any, held: Held, action: Callable[[], object]) -> Once:
    """Does something when frames were reported and the worker that is to be lost is in the midst of a piece."""

    def act() -> None:
        action()
        held.go.touch()

    return Once(lambda done: done > 0 and held.waits(_busy(cluster).pid), act)


def _leaves_saved(path: Path) -> int:
    """Leaves of the first pass that a checkpoint has."""
    content = load(str(path))
    return sum(1 << level for level, _, _ in content.passes[0].nodes) if content is not None and content.passes else 0


def test_leaves_of_a_killed_worker_are_run_again(cluster: Any, held: Held) -> None:
    cluster.start(2)
    kill = _act_at_work(cluster, held, lambda: _busy(cluster).kill())
    tasks = held.run(runner=Dask(str(cluster.file)), progress=kill)
    assert kill.done
    assert len(tasks.lost_workers) == 1
    # it was in the midst of one
    assert tasks.redone >= 1
    timings = held.analysis.timings
    assert f"lost: {tasks.lost_workers[0]}; {tasks.redone} task" in str(timings)
    # completed tasks of the lost worker count, its others are run by the other worker
    assert sum(worker.frames for worker in timings.passes[0].workers) == N_FRAMES


def test_frames_of_a_lost_worker_are_taken_back(cluster: Any, tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(1024, 20))
    go = tmp_path / "go"
    reported: list[int] = []

    def corner(frame: Any) -> Any:
        # a hundred frames of each piece; the others after progress has gone back
        until = time.monotonic() + PATIENCE
        while frame.frame % 512 >= 100 and not go.exists():
            assert time.monotonic() < until, "no frames were taken back"
            time.sleep(0.01)
        return frame.positions[0].copy()

    def kill(done: int, total: int) -> None:
        assert done <= total
        # no piece has reported more than a hundred, so that these are frames of both workers; and more than the other
        # one will ever report before `go`, so that progress goes back whatever that does meanwhile
        if done > 100:
            _busy(cluster).kill()
            _busy(cluster).wait(PATIENCE)
        if reported and done < reported[-1]:
            go.touch()
        reported.append(done)

    cluster.start(2)
    waiting = kn.analysis.from_function(corner, kn.open(tmp_path / "a.dcd"))
    waiting.run(runner=Dask(str(cluster.file), schedule="static", oversubscribe=1), progress=kill)
    assert go.exists()
    assert reported[-1] == 1024


def _replace(cluster: Any) -> None:
    _busy(cluster).kill()
    _busy(cluster).wait(PATIENCE)
    cluster.add()


def test_shared_data_that_is_lost_with_the_only_worker_is_computed_again(cluster: Any, held: Held) -> None:
    cluster.start(1)
    kill = _act_at_work(cluster, held, lambda: _replace(cluster))
    tasks = held.run(runner=Dask(str(cluster.file)), progress=kill)
    assert kill.done
    assert tasks.redone > 0


@pytest.mark.parametrize("options", [{"workers": 1}, {"schedule": "static"}])
def test_another_worker_takes_what_was_meant_for_one_that_is_lost(
    cluster: Any, held: Held, options: dict[str, Any]
) -> None:
    cluster.start(1)
    kill = _act_at_work(cluster, held, lambda: _replace(cluster))
    schedule = options.get("schedule")
    tasks = held.run(runner=Dask(str(cluster.file), schedule=schedule), workers=options.get("workers"), progress=kill)
    assert kill.done
    assert tasks.redone > 0


def test_no_worker_left(cluster: Any, held: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_workers(*found: Any) -> DaskWorkers:
        # the first answer of a worker takes as long as importing Kinema does
        *others, _patience = found
        return find(*others, PATIENCE)

    find = dask_runner.find_workers
    monkeypatch.setattr(dask_runner, "find_workers", find_workers)
    cluster.start(1)
    path = tmp_path / "run.ckpt"
    kill = Once(
        lambda done: done > 0 and held.waits(_busy(cluster).pid) and _leaves_saved(path) > 0, _busy(cluster).kill
    )
    with (
        pytest.warns(kn.Note, match=r"no Dask worker is left, the last ones were lost while they had leaves \d+ to"),
        pytest.raises(kn.WorkerError, match=r"been there for 3 s; .*lost while they had leaves \d+ to \d+ \(frames"),
    ):
        held.analysis.run(
            runner=Dask(str(cluster.file), patience=3.0), progress=kill, checkpoint=path, checkpoint_interval=0
        )
    assert kill.done
    assert _leaves_saved(path) > 0


def test_leaves_that_end_their_workers(cluster: Any, tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(2, 20))
    cluster.start(3, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0")
    with pytest.raises(
        kn.WorkerError,
        match=r"1 Dask workers were lost while they had leaves ([01]) to \1 \(frames \1 to \1\), .*memory",
    ):
        kn.analysis.from_function(_ends, kn.open(tmp_path / "a.dcd")).run(runner=Dask(str(cluster.file)))


def test_leaves_that_end_a_worker_again_and_again(cluster: Any, tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(2, 20))
    cluster.start(0)
    cluster.add(nanny=True)
    with pytest.raises(kn.WorkerError, match=r"4 Dask workers were lost while they had leaves ([01]) to \1.*memory"):
        kn.analysis.from_function(_ends, kn.open(tmp_path / "a.dcd")).run(runner=Dask(str(cluster.file)))


@pytest.mark.parametrize("of", ["pass", "map"])
def test_a_function_that_ends_all_workers_of_its_own_cluster(tmp_path: Path, of: str) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(40, 20))
    work = r"leaves 0 to \d+ \(frames 0 to \d+\)" if of == "pass" else "part 1 of 1"
    # nobody waits for other workers
    runner = Dask(patience=1000.0)

    def run() -> None:
        if of == "pass":
            kn.analysis.from_function(_ends, kn.open(tmp_path / "a.dcd")).run(runner=runner, workers=1)
        else:
            runner.map(os._exit, [1], workers=1)

    with pytest.raises(
        kn.WorkerError, match=rf"the last of 1 Dask worker \(process \d+\) ended while they had {work}.*, exit code 1;"
    ):
        run()


def test_a_lost_scheduler(cluster: Any, held: Held, tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    cluster.start(2)
    scheduler = cluster.scheduler
    assert scheduler is not None
    logged: list[logging.LogRecord] = []
    noting = logging.Handler(logging.ERROR)
    noting.emit = logged.append  # type: ignore[method-assign]
    logging.getLogger("distributed.client").addHandler(noting)
    saved: list[int] = []

    def is_saved(done: int) -> bool:
        saved.append(_leaves_saved(path))
        return done > 0 and saved[-1] > 0

    with pytest.raises(kn.WorkerError, match=r"connection to the Dask scheduler tcp://127.0.0.1:\d+ is lost") as caught:
        held.analysis.run(
            runner=Dask(str(cluster.file)),
            progress=Once(is_saved, scheduler.kill),
            checkpoint=path,
            checkpoint_interval=0,
        )
    logging.getLogger("distributed.client").removeHandler(noting)
    assert str(path) in "".join(caught.value.__notes__)
    # the error says it all: no traceback of Dask's own
    assert logged == []
    left = _leaves_saved(path)
    assert left >= saved[-1] > 0
    held.go.touch()
    held.analysis.run(runner="processes", workers=2, checkpoint=path)
    assert left <= held.analysis.timings.frames_restored < N_FRAMES
    assert held.analysis.results.values.tobytes() == held.expected.results.values.tobytes()


def test_a_worker_that_has_been_stopped(cluster: Any, slow: Analysis) -> None:
    cluster.start(2)
    with Client(scheduler_file=str(cluster.file), set_as_default=False) as client:
        # the other one is to answer soon, and not to import Kinema first
        client.run(_import_kinema)
        processes = client.run(os.getpid)
        stopped, number = next(iter(processes.items()))
        os.kill(number, signal.SIGSTOP)
        # until its heartbeat is the oldest
        while client.run_on_scheduler(_least_recent_heartbeat) != stopped:
            time.sleep(0.05)
        with pytest.raises(kn.WorkerError, match=rf"Dask worker {stopped} has not answered for 5 s"):
            slow.run(runner=Dask(client, patience=5.0))
        os.kill(number, signal.SIGCONT)
        slow.run(runner=Dask(client))
    assert slow.timings.frames == N_FRAMES


def _import_kinema() -> None:
    import kinema.runners.dask.tasks  # noqa: F401


def test_workers_that_stop_meanwhile_are_lost(cluster: Any, held: Held) -> None:
    cluster.start(2)
    with Client(scheduler_file=str(cluster.file), set_as_default=False) as client:
        addresses = {number: address for address, number in client.run(os.getpid).items()}
        stopped = addresses[_busy(cluster).pid]

        def stop() -> None:
            _busy(cluster).send_signal(signal.SIGSTOP)
            client.run_on_scheduler(_miss_heartbeats, address=stopped)

        kill = _act_at_work(cluster, held, stop)
        tasks = held.run(runner=Dask(str(cluster.file)), progress=kill)
    assert kill.done
    assert list(tasks.lost_workers) == [stopped]


async def _miss_heartbeats(address: str, dask_scheduler: Any) -> None:
    """Has the scheduler find that a worker has sent no heartbeat for longer than it may."""
    dask_scheduler.workers[address].last_seen -= 2 * dask_scheduler.worker_ttl
    await dask_scheduler.check_worker_ttl()


def _least_recent_heartbeat(dask_scheduler: Any) -> str:
    return str(min(dask_scheduler.workers.values(), key=lambda worker: worker.last_seen).address)


def test_workers_that_join_take_part(cluster: Any, held: Held) -> None:
    cluster.start(1)
    # frames wait until the second worker has some
    join = Once(lambda done: done > 0 and held.waits(_busy(cluster).pid), cluster.add)

    def progress(done: int, total: int) -> None:
        join(done, total)
        if len(cluster.workers) > 1 and held.waits(cluster.workers[1].pid):
            held.go.touch()

    held.run(runner=Dask(str(cluster.file)), progress=progress)
    assert join.done
    assert len(held.analysis.timings.passes[0].workers) == 2
    assert held.analysis.timings.frames == N_FRAMES


SCRIPT = """
import os, signal, sys
import kinema as kn
from kinema.cli import main
from kinema.runners.dask import cluster as dask_cluster, runner as dask

def end(self, progress, static):
    for process in started[0].processes:
        print(process.pid, end=" ")
    print(flush=True)
    sys.stdin.read()
    {then}

started = []
enter = dask_cluster.OwnCluster.__enter__
dask_cluster.OwnCluster.__enter__ = lambda self: (started.append(self), enter(self))[1]
dask._DaskPass.run = end
main(["rgyr", "-f", {path!r}, "--weights", "none", "--runner", "dask", "-j", "2"])
"""


@pytest.mark.parametrize(
    ("then", "code"),
    [
        ("os.killpg(0, signal.SIGINT); signal.pause()", 130),
        ("os.kill(os.getpid(), signal.SIGTERM); signal.pause()", 143),
        ("os.kill(os.getpid(), signal.SIGKILL)", -9),
    ],
)
def test_workers_of_its_own_end_with_the_run(slow: Analysis, tmp_path: Path, then: str, code: int) -> None:
    package = str(Path(kn.__file__).parent.parent)
    process = start_child(
        [sys.executable, "-c", SCRIPT.format(then=then, path=slow.trajectory.paths[0])],
        env={**os.environ, "PYTHONPATH": package, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdin is not None
        workers = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
        process.stdin.close()
        stderr = process.stderr.read()
        assert process.wait(timeout=PATIENCE) == code
    assert len(workers) == 2
    assert stderr == ("" if code < 0 else "kinema: stopped, nothing was written\n")
    assert all_ended(workers)


def test_a_worker_of_its_own_that_is_killed(held: Held) -> None:
    end_structure_walks()
    before = set(psutil.Process().children())

    def started() -> list[psutil.Process]:
        return sorted(set(psutil.Process().children()) - before, key=lambda one: one.pid)

    def kill() -> None:
        first, _second = started()
        first.send_signal(signal.SIGKILL)
        held.go.touch()

    tasks = held.run(
        runner="dask", workers=2, progress=Once(lambda done: done > 0 and held.waits(started()[0].pid), kill)
    )
    assert len(tasks.lost_workers) == 1
    until = time.monotonic() + PATIENCE
    while set(psutil.Process().children()) - before and time.monotonic() < until:
        time.sleep(0.05)
    assert set(psutil.Process().children()) <= before


def _ends(frame: kn.Frame) -> np.float64:
    os._exit(1)


def setup_module() -> None:
    """Workers cannot import this module: its functions go with their code."""
    import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Remembering:
    """Returns its process; a second call with the same number, on whatever worker, takes a second."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, number: int) -> int:
        if (self._folder / f"{number}").exists():
            (self._folder / f"{number} begins again").touch()
            time.sleep(1.0)
            (self._folder / f"{number} ends again").touch()
        (self._folder / f"{number}").touch()
        return os.getpid()


def test_no_task_runs_after_the_call(tmp_path: Path, cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    # the scheduler does not know yet that results have arrived: it runs the tasks of a lost worker again
    unreleased: list[Future] = []
    release, settle = Future.release, TaskSubmitter.settle

    def release_and_settle(self: TaskSubmitter) -> None:
        until = time.monotonic() + PATIENCE
        while not list(tmp_path.glob("* begins again")):
            assert time.monotonic() < until, "no task is run again"
            time.sleep(0.01)
        for future in unreleased:
            release(future)
        settle(self)

    processes: list[int] = []

    def receive(_number: int, process: int) -> None:
        processes.append(process)
        if len(processes) == 8:
            os.kill(process, signal.SIGKILL)

    cluster.start(2)
    with Client(scheduler_file=str(cluster.file), set_as_default=False) as client:
        with monkeypatch.context() as patched:
            patched.setattr(Future, "release", lambda future: unreleased.append(future))
            patched.setattr(TaskSubmitter, "settle", release_and_settle)
            Dask(client).map(Remembering(tmp_path), range(8), receive=receive)
        begun = {path.name.split()[0] for path in tmp_path.glob("* begins again")}
        assert begun == {path.name.split()[0] for path in tmp_path.glob("* ends again")}
