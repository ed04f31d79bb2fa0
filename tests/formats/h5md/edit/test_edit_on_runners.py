"""`repack`, `split` and `join` on runners: the same as by threads. MPI is tested beside it."""

from __future__ import annotations

import itertools
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kinema as kn
from kinema.runners.local.worker_pool import WorkerHandle
from kinema.runners.reduction import Leaves

sys.path.insert(0, str(Path(__file__).parent))
from edit_cases import assert_same, edited, make_sources

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Sources, and what threads make of them."""
    path = tmp_path_factory.mktemp("edits")
    make_sources(path)
    return path, edited(path, "threads", workers=2)


# a session keeps its processes, as each edit would start some by itself
RUNNERS: dict[str, Callable[[], kn.runners.Runner]] = {
    "serial": kn.runners.SerialRunner,
    "processes": lambda: kn.runners.ProcessesRunner(),
    "dask": lambda: kn.runners.Dask(),
}


@pytest.mark.parametrize(("runner", "workers"), [("serial", None), ("processes", 2), ("processes", 3), ("dask", 2)])
def test_same_as_threads(folder: tuple[Path, dict[str, Any]], runner: str, workers: int | None) -> None:
    path, expected = folder
    made = RUNNERS[runner]()
    with made.session():
        assert_same(edited(path, "made", runner=made, workers=workers), expected)
    assert not [found for found in path.rglob("*") if ".part-" in found.name]


def test_wrong_runners_are_refused(folder: tuple[Path, dict[str, Any]]) -> None:
    path, _ = folder
    with pytest.raises(kn.ArgumentError, match="runner must be one of"):
        kn.repack(path / "in.h5md", path / "no.h5md", runner="nobody")
    with pytest.raises(kn.ArgumentError, match="the serial runner has one worker"):
        kn.split(path / "in.xtc", path / "no", parts=2, runner="serial", workers=2)
    assert not list(path.glob("no*"))


@pytest.mark.parametrize("what", ["repack", "join"])
def test_a_killed_worker_leaves_nothing(
    folder: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    path, _ = folder
    order, ordered = WorkerHandle.order, itertools.count()

    def kill_and_order(worker: WorkerHandle, piece: Leaves) -> None:
        # the third piece of all: a piece before it is done
        if next(ordered) == 2:
            worker.process.send_signal(signal.SIGKILL)
        order(worker, piece)

    monkeypatch.setattr(WorkerHandle, "order", kill_and_order)
    how: dict[str, Any] = {"runner": "processes", "workers": 2, "memory": "16 MiB"}
    edits = {
        "repack": lambda: kn.repack(path / "in.h5md", tmp_path / "out.h5md", compression="zstd", **how),
        "join": lambda: kn.join([path / "in.history"] * 3, tmp_path / "out.history", overlap="all", **how),
    }
    with pytest.raises(kn.WorkerError, match="SIGKILL"):
        edits[what]()
    assert not list(tmp_path.iterdir())
