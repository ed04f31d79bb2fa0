"""A Dask cluster of processes that tests end one by one; what workers of this machine may not leave."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import kinema as kn
from kinema.analysis import Analysis
from kinema.testing import random_walk, write_dcd
from kinema.testing.programs.children import end_structure_walks, start_child
from kinema.testing.programs.forks import ForkedProgram, Forks

# seconds after which something that is waited for does not come any more
PATIENCE = 120


class Cluster:
    """A scheduler and workers without nannies, which nobody starts again.

    They are forked by a process that has imported Dask, except for those with variables of their own, which Dask may
    read when it is imported, and nannies, which start processes.
    """

    def __init__(self, folder: Path, forks: Forks) -> None:
        self.folder = folder
        self._forks = forks
        self.file = folder / "scheduler.json"
        self.workers: list[subprocess.Popen[bytes] | ForkedProgram] = []
        self.scheduler: subprocess.Popen[bytes] | ForkedProgram | None = None

    def start(self, n_workers: int, *, threads: int = 1, **settings: str) -> None:
        words = ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(self.file), "--no-dashboard"]
        self.scheduler = self._run("scheduler", words, settings)
        for _ in range(n_workers):
            self.add(threads=threads)
        # an environment for MPI alone has no Dask
        from distributed import Client

        with Client(scheduler_file=str(self.file), set_as_default=False) as client:
            if n_workers:
                client.wait_for_workers(n_workers, timeout=PATIENCE)

    def add(self, *, threads: int = 1, nanny: bool = False, **settings: str) -> None:
        words = ["--scheduler-file", str(self.file), "--nthreads", str(threads), "--no-dashboard"]
        words.append("--nanny" if nanny else "--no-nanny")
        words += ["--local-directory", str(self.folder / "local")]
        self.workers.append(self._run("worker", words, settings))

    def end(self) -> None:
        for process in [*self.workers, *([self.scheduler] if self.scheduler else [])]:
            process.kill()
            process.wait(PATIENCE)

    def _run(self, what: str, words: list[str], settings: dict[str, str]) -> subprocess.Popen[bytes] | ForkedProgram:
        module, path = f"distributed.cli.dask_{what}", self.folder / f"{what}-{len(self.workers)}.log"
        environment = _environment() | settings
        if not settings and "--nanny" not in words:
            return self._forks.start(module, words, folder=self.folder, log=path, environment=environment)
        with path.open("wb") as log:
            return start_child(
                [sys.executable, "-m", module, *words],
                env=environment,
                stdout=log,
                stderr=log,
                text=False,
                cwd=self.folder,
            )


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent)}


@pytest.fixture(scope="session")
def dask_forks() -> Iterator[Forks]:
    """Forks schedulers and workers of Dask."""
    made = Forks([f"distributed.cli.dask_{what}" for what in ("scheduler", "worker")], _environment())
    yield made
    made.close()


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory, dask_forks: Forks) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("dask"), dask_forks)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def nothing_left(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary files; after every test it is empty and no process of ours is left."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    before = set(psutil.Process().children(recursive=True))
    yield folder
    # a server of workers ends with its runner, which the traceback of an error may hold, or a thread that is ending
    end_structure_walks()
    until = time.monotonic() + 60
    while set(psutil.Process().children(recursive=True)) - before and time.monotonic() < until:
        gc.collect()
        time.sleep(0.01)
    assert set(psutil.Process().children(recursive=True)) <= before
    assert list(folder.iterdir()) == []


@pytest.fixture
def rmsd(tmp_path: Path) -> Analysis:
    """RMSD of 300 frames of a DCD file."""
    path = tmp_path / "a.dcd"
    write_dcd(path, random_walk(300, 20))
    return kn.analysis.RMSD(kn.open(path))
