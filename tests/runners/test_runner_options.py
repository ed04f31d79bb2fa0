"""Options of runners as arguments of `run`: which runner takes which, and that it heeds them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.analysis import Analysis
from kinema.testing import random_walk, write_dcd
from kinema.testing.runner_work import with_another_thread


@pytest.fixture
def rmsd(tmp_path: Path) -> Analysis:
    path = tmp_path / "a.dcd"
    write_dcd(path, random_walk(300, 20))
    return kn.analysis.RMSD(kn.open(path))


def rows(analysis: Analysis) -> bytes:
    return np.asarray(analysis.results.rmsd).tobytes()


@pytest.mark.parametrize(
    ("runner", "options"),
    [
        ("threads", {"threads_per_worker": 2}),
        ("serial", {"oversubscribe": 2}),
        ("processes", {"gather": "one-sided"}),
        (None, {"schedule": "static"}),
    ],
)
def test_an_option_of_another_runner(rmsd: Analysis, runner: str | None, options: dict[str, Any]) -> None:
    (option,) = options
    with pytest.raises(kn.ArgumentError, match=f"{option} is for the runner .*and this is {runner or 'threads'}"):
        rmsd.run(runner=runner, **options)


@pytest.mark.parametrize("name", ["serial", "threads", "processes", "dask"])
def test_the_class_of_every_runner_is_public(name: str) -> None:
    made = type(kn.runners.choose_runner(name))
    assert made.__name__ in kn.runners.__all__
    assert getattr(kn.runners, made.__name__) is made


def test_an_option_that_no_runner_has(rmsd: Analysis) -> None:
    with pytest.raises(kn.ArgumentError, match="no runner takes the option thread"):
        rmsd.run(runner="processes", thread=2)  # type: ignore[call-arg]


def test_an_option_beside_a_runner_that_is_made(rmsd: Analysis) -> None:
    runner = kn.runners.choose_runner("processes")
    with pytest.raises(kn.ArgumentError, match=r"schedule goes to the runner when it is made: ProcessesRunner\(sch"):
        rmsd.run(runner=runner, schedule="static")
    # what is left out is as good as not named
    rmsd.run(runner=runner, workers=1, schedule=None)


@pytest.mark.parametrize("value", [0, -1, 1.5, "two"])
def test_threads_of_a_worker_that_are_no_number(rmsd: Analysis, value: Any) -> None:
    with pytest.raises(kn.ArgumentError):
        rmsd.run(runner="processes", threads_per_worker=value)


@pytest.mark.processes
@pytest.mark.parametrize("schedule", ["dynamic", "static"])
def test_processes_of_several_threads(rmsd: Analysis, schedule: str) -> None:
    expected = rows(rmsd.run(runner="serial"))
    rmsd.run(runner="processes", workers=2, threads_per_worker=2, schedule=schedule, oversubscribe=1)
    assert rows(rmsd) == expected
    assert f"2 threads, 2 of them, {schedule} schedule" in rmsd.plan
    (timings,) = rmsd.timings.passes
    assert len(timings.workers) == 2
    # seconds of threads
    assert all(worker.total == pytest.approx(2 * timings.wall) for worker in timings.workers)


@pytest.mark.processes
@pytest.mark.parametrize("runner", ["processes", "dask"])
def test_threads_of_a_worker_work_at_the_same_time(tmp_path: Path, runner: Any) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(512, 20))
    analysis = kn.analysis.from_function(with_another_thread(), kn.open(tmp_path / "a.dcd"))
    # one piece of many leaves for each worker
    analysis.run(runner=runner, workers=2, threads_per_worker=2, schedule="static", oversubscribe=1)
    assert [worker.frames > 0 for worker in analysis.timings.workers] == [True, True]


@pytest.mark.processes
def test_dask_by_name_with_options(rmsd: Analysis) -> None:
    expected = rows(rmsd.run(runner="serial"))
    rmsd.run(runner="dask", workers=1, threads_per_worker=2, schedule="static")
    assert rows(rmsd) == expected
    assert "2 threads" in rmsd.plan


class OwnRunner(kn.runners.Runner):
    """A user's own runner with nothing but what a runner must have."""

    name = "own"

    def map_reduce(self, request: kn.runners.PassRequest) -> kn.runners.PassResult:
        return kn.runners.SerialRunner().map_reduce(request)


def test_a_runner_of_the_users_own_needs_map_reduce_alone(rmsd: Analysis) -> None:
    expected = rows(rmsd.run(runner="serial"))
    assert rows(rmsd.run(runner=OwnRunner())) == expected
    assert (rmsd.timings.runner, rmsd.timings.gather) == ("own", "")
    assert OwnRunner().map(str, [1, 2]) == ["1", "2"]
    assert OwnRunner().on_root(lambda: 3) == 3


def test_a_runner_that_is_none(rmsd: Analysis) -> None:
    with pytest.raises(kn.ArgumentError, match=r"runner is a name or a kinema\.runners\.Runner, found int"):
        rmsd.run(runner=3)  # type: ignore[arg-type]


def test_a_runner_whose_package_is_missing(rmsd: Analysis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "kinema.runners.dask.runner", raising=False)
    with pytest.raises(
        kn.MissingPackageError, match=r"'dask' needs distributed .*pip install 'kinema\[dask\]'"
    ) as caught:
        rmsd.run(runner="dask")
    assert isinstance(caught.value, ImportError)
