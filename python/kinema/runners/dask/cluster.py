"""A Dask cluster of this run's own: a scheduler in this process, workers as processes of this machine.

It is for runs that name no cluster. Unlike distributed's LocalCluster it does not run the user's script once more in
each worker, and workers end with this process, also when it is killed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from types import TracebackType
from typing import Self

from distributed import Client, Scheduler, SpecCluster, Worker

from kinema.errors import ArgumentError, WorkerError, from_os
from kinema.runners.worker import PARENTS_SIGNALS

__all__ = ["OwnCluster", "work_for"]

_LOGGER = logging.getLogger("distributed")
# nobody else is to reach a scheduler that runs whatever it is sent
_HOST = "127.0.0.1"
# seconds until a killed process is given up, and until workers must have joined
_PATIENCE = 10.0
_JOINING = 120.0


class OwnCluster:
    """Workers of one thread each; leaving the context ends them all, whatever they do.

    Attributes
    ----------
    client : distributed.Client
    processes : list of Popen
    """

    client: Client

    def __init__(self, n_workers: int) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self._n_workers = n_workers

    def __enter__(self) -> Self:
        self._folder = _temporary_folder()
        # a pipe whose other end workers watch: it is closed when this process is gone, however it went
        self._watched, self._held = os.pipe()
        # that workers come and go is nobody's business; SpecCluster would speak again before all of it is over
        self._level = _LOGGER.level
        _LOGGER.setLevel(logging.ERROR)
        self._scheduler: SpecCluster | None = None
        self._connected: Client | None = None
        try:
            options = {"host": _HOST, "port": 0, "dashboard": False, "dashboard_address": f"{_HOST}:0"}
            self._scheduler = SpecCluster(
                scheduler={"cls": Scheduler, "options": options}, name="kinema", silence_logs=False
            )
            for _ in range(self._n_workers):
                self.processes.append(self._started(self._scheduler.scheduler_address))
            self._connected = self.client = Client(self._scheduler, set_as_default=False)
            self._wait()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _wait(self) -> None:
        """Until all workers have joined; WorkerError where one ended before."""
        for _ in range(int(_JOINING / 0.05)):
            if len(self.client.nthreads()) == self._n_workers:
                return
            for process in self.processes:
                try:
                    code = process.wait(0.05 / self._n_workers)
                except subprocess.TimeoutExpired:
                    continue
                raise WorkerError(
                    f"a Dask worker (process {process.pid}) ended before it was ready, exit code {code}; what it wrote "
                    "to stderr says why"
                )
        raise WorkerError(f"the Dask workers did not join within {_JOINING:.0f} s, expected {self._n_workers}")

    def _started(self, scheduler: str) -> subprocess.Popen[bytes]:
        if not sys.executable:
            raise ArgumentError(
                "the Dask workers need a Python interpreter to start, and this program has none to name"
            )
        # the paths first: the package is to be found where this process found it
        code = (
            f"import sys; sys.path[:] = {[str(path) for path in sys.path]!r}; "
            f"from kinema.runners.dask.cluster import work_for; work_for({scheduler!r}, {self._folder.name!r}, "
            f"{self._watched})"
        )
        # one thread each, also for the libraries that numpy calls
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        # they must not end the interpreter before the worker has said that it ignores them
        before = signal.pthread_sigmask(signal.SIG_BLOCK, PARENTS_SIGNALS)
        try:
            return subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                pass_fds=(self._watched,),
                env={**os.environ, **threads},
            )
        except OSError as error:
            raise from_os("cannot start a Dask worker", error, sys.executable) from None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _end(self) -> None:
        if self._connected is not None:
            self._connected.close()
        # before the workers, whose death it would report
        if self._scheduler is not None:
            self._scheduler.close()
        # they only read, and the folder is ours: there is nothing that they would have to tidy up
        for process in self.processes:
            process.kill()
        for process in self.processes:
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                warnings.warn(
                    f"a Dask worker (process {process.pid}) was killed and has not ended yet",
                    RuntimeWarning,
                    stacklevel=2,
                )
        _LOGGER.setLevel(self._level)
        os.close(self._watched)
        os.close(self._held)
        self._folder.cleanup()


def work_for(scheduler: str, folder: str, watched: int) -> None:
    """What a worker process does: it works for the scheduler until the process that holds the pipe is gone."""
    for number in PARENTS_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    # blocked by the parent from before this process began
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PARENTS_SIGNALS)
    _LOGGER.setLevel(logging.ERROR)
    threading.Thread(target=_end_with, args=(watched,), daemon=True).start()
    asyncio.run(_work(scheduler, folder))


def _end_with(watched: int) -> None:
    os.read(watched, 1)
    os._exit(0)


async def _work(scheduler: str, folder: str) -> None:
    # memory is Kinema's to bound; a worker that spilt or paused would but hide a wrong estimate
    worker = Worker(
        scheduler,
        nthreads=1,
        memory_limit=0,
        local_directory=folder,
        host=_HOST,
        dashboard=False,
        dashboard_address=f"{_HOST}:0",
    )
    async with worker:
        await worker.finished()


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="kinema-")
    except OSError as error:
        raise from_os("cannot make a temporary folder for Dask workers", error) from None
