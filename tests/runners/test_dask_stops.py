"""The runner on Dask: progress while pieces run, errors of tasks, and runs that are stopped."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client
from tests.runners.dask_cases import client_of_three, metrics, nothing_left, rmsd_of_20  # noqa: F401

import kinema as kn
from kinema.analysis import Analysis
from kinema.runners.dask.runner import Dask
from kinema.testing import random_walk, write_dcd
from kinema.testing.amounts import LONG
from kinema.testing.runner_work import save_at_work, slow_corner

pytestmark = pytest.mark.processes


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
        reported = any(client.run(metrics).values())
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
