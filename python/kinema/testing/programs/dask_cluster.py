"""A Dask cluster of processes that tests end one by one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import kinema as kn
from kinema.runners.local.interpreter import module_command
from kinema.testing.programs.children import start_child
from kinema.testing.programs.forks import ForkedProgram, Forks

# seconds after which something that is waited for does not come any more
PATIENCE = 120


class DaskCluster:
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
        environment = environment_of_workers() | settings
        if not settings and "--nanny" not in words:
            return self._forks.start(module, words, folder=self.folder, log=path, environment=environment)
        with path.open("wb") as log:
            return start_child(
                module_command(module, *words),
                env=environment,
                stdout=log,
                stderr=log,
                text=False,
                cwd=self.folder,
            )


def environment_of_workers() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent)}


def dask_forks() -> Forks:
    """Forks schedulers and workers of Dask."""
    return Forks([f"distributed.cli.dask_{what}" for what in ("scheduler", "worker")], environment_of_workers())
