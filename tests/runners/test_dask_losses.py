"""The runner on Dask where workers, the scheduler or the client are lost; all of them are processes of their own."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from distributed import Client

import kinema as kn
from kinema.analysis import Analysis
from kinema.execution.checkpoint.file import load
from kinema.runners.dask.runner import Dask
from kinema.testing import random_walk, write_dcd
from kinema.testing.children import start_child
from kinema.testing.runners import slow_corner


class Cluster:
    """A scheduler and workers without nannies, which nobody starts again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "scheduler.json"
        self.workers: list[subprocess.Popen[bytes]] = []
        self.scheduler: subprocess.Popen[bytes] | None = None

    def start(self, n_workers: int, *, threads: int = 1, **settings: str) -> None:
        words = ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(self.file), "--no-dashboard"]
        self.scheduler = self._run("scheduler", words, settings)
        for _ in range(n_workers):
            self.add(threads=threads)
        with Client(scheduler_file=str(self.file), set_as_default=False) as client:
            if n_workers:
                client.wait_for_workers(n_workers, timeout=60)

    def add(self, *, threads: int = 1, nanny: bool = False, **settings: str) -> None:
        words = ["--scheduler-file", str(self.file), "--nthreads", str(threads), "--no-dashboard"]
        words.append("--nanny" if nanny else "--no-nanny")
        words += ["--local-directory", str(self.folder / "local")]
        self.workers.append(self._run("worker", words, settings))

    def end(self) -> None:
        for process in [*self.workers, *([self.scheduler] if self.scheduler else [])]:
            process.kill()
            process.wait(30)

    def _run(self, what: str, words: list[str], settings: dict[str, str]) -> subprocess.Popen[bytes]:
        package = str(Path(kn.__file__).parent.parent)
        log = (self.folder / f"{what}-{len(self.workers)}.log").open("wb")
        with log:
            return start_child(
                [sys.executable, "-m", f"distributed.cli.dask_{what}", *words],
                env={**os.environ, "PYTHONPATH": package, **settings},
                stdout=log,
                stderr=log,
                text=False,
                cwd=self.folder,
            )


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("dask"))
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def slow(tmp_path: Path) -> Analysis:
    """Takes a second and more on one worker: there is time to lose workers in."""
    write_dcd(tmp_path / "a.dcd", random_walk(600, 20))
    return kn.analysis.from_function(slow_corner, kn.open(tmp_path / "a.dcd"))


class AtFirst:
    """A progress function that does something once, when that many frames are done."""

    def __init__(self, frames: int, action: object) -> None:
        self.frames = frames
        self.action = action
        self.done = False

    def __call__(self, done: int, total: int) -> None:
        if done >= self.frames and not self.done:
            self.done = True
            assert done < total
            self.action()  # type: ignore[operator]


def _busy(cluster: Cluster) -> subprocess.Popen[bytes]:
    """A worker; all of them have tasks while a run lasts."""
    return cluster.workers[0]


def test_leaves_of_a_killed_worker_are_run_again(cluster: Cluster, slow: Analysis) -> None:
    expected = slow.run(runner="serial").results.values
    cluster.start(2)
    kill = AtFirst(50, lambda: _busy(cluster).kill())
    slow.run(runner=Dask(str(cluster.file)), progress=kill)
    assert kill.done
    assert slow.results.values.tobytes() == expected.tobytes()
    (one,) = slow.timings.passes
    assert one.tasks is not None
    assert len(one.tasks.lost_workers) == 1
    # two were submitted for it
    assert one.tasks.redone >= 1
    assert f"lost: {one.tasks.lost_workers[0]}; {one.tasks.redone} task" in str(slow.timings)
    # completed tasks of the lost worker count, its others are run by the other worker
    assert sum(worker.frames for worker in one.workers) == 600


def test_frames_of_a_lost_worker_are_taken_back(cluster: Cluster, tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(1024, 20))
    go = tmp_path / "go"
    reported: list[int] = []

    def corner(frame: Any) -> Any:
        # a hundred frames of each piece; the others after progress has gone back
        until = time.monotonic() + 60
        while frame.frame % 512 >= 100 and not go.exists():
            assert time.monotonic() < until, "no frames were taken back"
            time.sleep(0.01)
        return frame.positions[0].copy()

    def kill(done: int, total: int) -> None:
        assert done <= total
        if done > 0 and _busy(cluster).poll() is None:
            _busy(cluster).kill()
            _busy(cluster).wait(30)
        if reported and done < reported[-1]:
            go.touch()
        reported.append(done)

    cluster.start(2)
    waiting = kn.analysis.from_function(corner, kn.open(tmp_path / "a.dcd"))
    waiting.run(runner=Dask(str(cluster.file), schedule="static", oversubscribe=1), progress=kill)
    assert go.exists()
    assert reported[-1] == 1024


def test_shared_data_that_is_lost_with_the_only_worker_is_computed_again(cluster: Cluster, slow: Analysis) -> None:
    expected = slow.run(runner="serial").results.values
    cluster.start(1)

    def replace() -> None:
        _busy(cluster).kill()
        _busy(cluster).wait(30)
        cluster.add()

    kill = AtFirst(50, replace)
    slow.run(runner=Dask(str(cluster.file)), progress=kill)
    assert kill.done
    assert slow.results.values.tobytes() == expected.tobytes()
    tasks = slow.timings.passes[0].tasks
    assert tasks is not None
    assert tasks.redone > 0


@pytest.mark.parametrize("options", [{"workers": 1}, {"schedule": "static"}])
def test_another_worker_takes_what_was_meant_for_one_that_is_lost(
    cluster: Cluster, slow: Analysis, options: dict[str, Any]
) -> None:
    expected = slow.run(runner="serial").results.values
    cluster.start(1)

    def replace() -> None:
        _busy(cluster).kill()
        _busy(cluster).wait(30)
        cluster.add()

    kill = AtFirst(50, replace)
    schedule = options.get("schedule")
    slow.run(runner=Dask(str(cluster.file), schedule=schedule), workers=options.get("workers"), progress=kill)
    assert kill.done
    assert slow.results.values.tobytes() == expected.tobytes()
    tasks = slow.timings.passes[0].tasks
    assert tasks is not None
    assert tasks.redone > 0


def test_no_worker_left(cluster: Cluster, slow: Analysis, tmp_path: Path) -> None:
    cluster.start(1)
    with pytest.raises(kn.WorkerError, match="no Dask worker has been there for 1 s"):
        slow.run(
            runner=Dask(str(cluster.file), patience=1.0),
            progress=AtFirst(50, lambda: _busy(cluster).kill()),
            checkpoint=tmp_path / "run.ckpt",
        )
    content = load(str(tmp_path / "run.ckpt"))
    assert content is not None
    assert content.passes[0].nodes


def test_leaves_that_end_their_workers(cluster: Cluster, tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(2, 20))
    cluster.start(3, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0")
    with pytest.raises(kn.WorkerError, match=r"1 Dask workers were lost while they had leaves ([01]) to \1, .*memory"):
        kn.analysis.from_function(_ends, kn.open(tmp_path / "a.dcd")).run(runner=Dask(str(cluster.file)))


def test_leaves_that_end_a_worker_again_and_again(cluster: Cluster, tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(2, 20))
    cluster.start(0)
    cluster.add(nanny=True)
    with pytest.raises(kn.WorkerError, match=r"4 Dask workers were lost while they had leaves ([01]) to \1.*memory"):
        kn.analysis.from_function(_ends, kn.open(tmp_path / "a.dcd")).run(runner=Dask(str(cluster.file)))


def test_a_lost_scheduler(cluster: Cluster, slow: Analysis, tmp_path: Path) -> None:
    expected = slow.run(runner="serial").results.values
    path = tmp_path / "run.ckpt"
    cluster.start(2)
    scheduler = cluster.scheduler
    assert scheduler is not None
    logged: list[logging.LogRecord] = []
    noting = logging.Handler(logging.ERROR)
    noting.emit = logged.append  # type: ignore[method-assign]
    logging.getLogger("distributed.client").addHandler(noting)
    with pytest.raises(kn.WorkerError, match=r"connection to the Dask scheduler tcp://127.0.0.1:\d+ is lost") as caught:
        slow.run(runner=Dask(str(cluster.file)), progress=AtFirst(100, scheduler.kill), checkpoint=path)
    logging.getLogger("distributed.client").removeHandler(noting)
    assert str(path) in "".join(caught.value.__notes__)
    # the error says it all: no traceback of Dask's own
    assert logged == []
    slow.run(runner="processes", workers=2, checkpoint=path)
    assert slow.timings.frames_restored >= 100
    assert slow.results.values.tobytes() == expected.tobytes()


def test_a_worker_that_has_been_stopped(cluster: Cluster, slow: Analysis) -> None:
    cluster.start(2)
    with Client(scheduler_file=str(cluster.file), set_as_default=False) as client:
        processes = client.run(os.getpid)
        stopped, number = next(iter(processes.items()))
        os.kill(number, signal.SIGSTOP)
        # until its heartbeat is the oldest
        while client.run_on_scheduler(_least_recent_heartbeat) != stopped:
            time.sleep(0.05)
        with pytest.raises(kn.WorkerError, match=rf"Dask worker {stopped} has not answered for 1 s"):
            slow.run(runner=Dask(client, patience=1.0))
        os.kill(number, signal.SIGCONT)
        slow.run(runner=Dask(client))
    assert slow.timings.frames == 600


def test_workers_that_stop_meanwhile_are_lost(cluster: Cluster, slow: Analysis) -> None:
    expected = slow.run(runner="serial").results.values
    cluster.start(2, DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL="2s")
    stop = AtFirst(50, lambda: _busy(cluster).send_signal(signal.SIGSTOP))
    slow.run(runner=Dask(str(cluster.file)), progress=stop)
    assert stop.done
    assert slow.results.values.tobytes() == expected.tobytes()
    tasks = slow.timings.passes[0].tasks
    assert tasks is not None
    assert len(tasks.lost_workers) == 1


def _least_recent_heartbeat(dask_scheduler: Any) -> str:
    return str(min(dask_scheduler.workers.values(), key=lambda worker: worker.last_seen).address)


def test_no_scheduler(slow: Analysis, tmp_path: Path) -> None:
    import dask

    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(kn.WorkerError, match=r"cannot connect to the Dask scheduler tcp://127.0.0.1:9"),
    ):
        slow.run(runner=Dask("tcp://127.0.0.1:9"))
    with pytest.raises(kn.ArgumentError, match="neither the address of a Dask scheduler"):
        slow.run(runner=Dask(str(tmp_path / "nowhere.json")))


def test_no_workers(cluster: Cluster, slow: Analysis) -> None:
    cluster.start(0)
    with pytest.raises(kn.WorkerError, match="has no workers after 1 s"):
        slow.run(runner=Dask(str(cluster.file), patience=1.0))


def test_workers_that_join_take_part(cluster: Cluster, slow: Analysis) -> None:
    cluster.start(1)
    slow.run(runner=Dask(str(cluster.file)), progress=AtFirst(20, cluster.add))
    # one that is added may come too late; it does no harm then
    assert 1 <= len(slow.timings.passes[0].workers) <= 2
    assert slow.timings.frames == 600


def test_files_that_a_worker_does_not_see(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(20, 20))
    monkeypatch.chdir(tmp_path)
    cluster.start(1)
    # the folder of each process is another, as another machine's disk would be
    path = "/proc/self/cwd/a.dcd"
    with pytest.raises(kn.FileNotFound, match=r"the Dask worker tcp://\S+ on \S+ must see the files") as caught:
        kn.analysis.RMSD(kn.open(path)).run(runner=Dask(str(cluster.file)))
    assert caught.value.path == path


def test_another_file_that_a_worker_sees(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(20, 20))
    monkeypatch.chdir(tmp_path)
    cluster.start(1)
    path = "/proc/self/cwd/a.dcd"
    for there, kind in (
        (random_walk(20, 20, seed=5), kn.CorruptFileError),
        (random_walk(19, 20), kn.TruncatedFileError),
        (None, kn.TruncatedFileError),
    ):
        if there is None:
            (cluster.folder / "a.dcd").write_bytes(b"")
        else:
            write_dcd(cluster.folder / "a.dcd", there)
        with pytest.raises(kind, match="has changed since it was opened, or is another one on this machine") as caught:
            kn.analysis.RMSD(kn.open(path)).run(runner=Dask(str(cluster.file)))
        assert caught.value.path == path
        assert "on worker tcp://" in caught.value.__notes__[0]


def test_paths_are_those_of_the_folder_of_the_client(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from MDAnalysisTests.datafiles import H5MD_energy

    write_dcd(tmp_path / "a.dcd", random_walk(20, 20))
    (tmp_path / "a.h5md").symlink_to(H5MD_energy)
    monkeypatch.chdir(tmp_path)
    cluster.start(1)
    # workers have another folder, and in it another file of that name
    write_dcd(cluster.folder / "a.dcd", random_walk(20, 20, seed=5))
    for name in ("a.dcd", "a.h5md"):
        analysis = kn.analysis.RMSD(kn.open(name))
        expected = analysis.run(runner="serial").results.values
        analysis.run(runner=Dask(str(cluster.file)))
        assert analysis.results.values.tobytes() == expected.tobytes()


def test_a_worker_of_another_version_that_joins(cluster: Cluster, tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(600, 20))
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import kinema\nkinema._core.__version__ = '0.0.1'\n")
    path = os.pathsep.join([str(folder), str(Path(kn.__file__).parent.parent)])

    def waits(frame: kn.Frame) -> float:
        # for the other, which takes its first task as soon as it is there
        time.sleep(0.1)
        return 1.0

    cluster.start(1)
    join = AtFirst(1, lambda: cluster.add(PYTHONPATH=path))
    with pytest.raises(kn.ArgumentError, match=r"Dask worker tcp://\S+ on \S+ has another version .*, found 0\.0\.1"):
        kn.analysis.from_function(waits, kn.open(tmp_path / "a.dcd")).run(runner=Dask(str(cluster.file)), progress=join)
    assert join.done


def test_workers_without_kinema(cluster: Cluster, slow: Analysis, tmp_path: Path) -> None:
    (tmp_path / "kinema").mkdir()
    (tmp_path / "kinema" / "__init__.py").write_text("raise ImportError('not for this machine')\n")
    cluster.start(0)
    cluster.add(PYTHONPATH=str(tmp_path))
    with pytest.raises(kn.ArgumentError, match=r"worker tcp://\S+ cannot import Kinema: ImportError: not for this"):
        slow.run(runner=Dask(str(cluster.file)))


def test_a_scheduler_without_kinema(cluster: Cluster, slow: Analysis, tmp_path: Path) -> None:
    (tmp_path / "kinema").mkdir()
    (tmp_path / "kinema" / "__init__.py").write_text("raise ImportError('not for this machine')\n")
    cluster.start(0, PYTHONPATH=str(tmp_path))
    cluster.add()
    with pytest.raises(kn.ArgumentError, match=r"scheduler tcp://\S+ cannot import Kinema: ImportError: not for this"):
        slow.run(runner=Dask(str(cluster.file)))


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
        assert process.wait(timeout=60) == code
    assert len(workers) == 2
    assert stderr == ("" if code < 0 else "kinema: stopped, nothing was written\n")
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert all(one.status() == psutil.STATUS_ZOMBIE for one in alive)


def test_a_worker_of_its_own_that_is_killed(slow: Analysis) -> None:
    expected = slow.run(runner="serial").results.values
    before = set(psutil.Process().children())

    def kill() -> None:
        started = sorted(set(psutil.Process().children()) - before, key=lambda one: one.pid)
        assert len(started) == 2
        started[0].send_signal(signal.SIGKILL)

    slow.run(runner="dask", workers=2, progress=AtFirst(50, kill))
    assert slow.results.values.tobytes() == expected.tobytes()
    tasks = slow.timings.passes[0].tasks
    assert tasks is not None
    assert len(tasks.lost_workers) == 1
    until = time.monotonic() + 30
    while set(psutil.Process().children()) - before and time.monotonic() < until:
        time.sleep(0.05)
    assert set(psutil.Process().children()) <= before


def test_a_worker_that_cannot_start(slow: Analysis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(kn.WorkerError, match="ended before it was ready, exit code 1"):
        slow.run(runner="dask", workers=2)
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(kn.FileNotFound, match="cannot start a Dask worker"):
        slow.run(runner="dask", workers=2)


def _ends(frame: kn.Frame) -> np.float64:
    os._exit(1)


def setup_module() -> None:
    """Workers cannot import this module: its functions go with their code."""
    import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
