"""A Dask cluster of one run: a scheduler in this process, workers as processes of this machine.

Kinema uses it if the user names no cluster. Unlike workers of distributed's LocalCluster, its workers do not run the
user's script again; unlike workers of its SubprocessCluster, they leave Ctrl-C to this process and end with it, even if
it is killed.

A program that connects to a scheduler or worker can run code there. So both accept only TLS connections with the
credentials of this one cluster. Like all temporary files of the cluster, the credentials are in a folder that no other
user can enter.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from typing import Any, Self

from distributed import Client, Scheduler, SpecCluster, Worker
from distributed.node import ServerNode
from distributed.security import Security

from kinema.base.errors import WorkerError, missing_package, os_errors
from kinema.runners.local.interpreter import ignore_job_signals, start_interpreter

_LOGGER = logging.getLogger("distributed")
# not reachable from other machines
_HOST = "127.0.0.1"
# seconds to wait for a killed process to end, and for workers to join
_PATIENCE = 10.0
_JOINING = 120.0


class OwnCluster:
    """Starts workers of one thread each; leaving the context kills them."""

    client: Client

    def __init__(self, n_workers: int) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self._n_workers = n_workers

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(_temporary_folder())
            # a pipe that workers read: it is closed when this process ends, even if it is killed
            watched, held = os.pipe()
            stack.callback(os.close, held)
            stack.callback(os.close, watched)
            # no log of workers that join and leave; `silence_logs` of SpecCluster ends too early
            stack.enter_context(_QUIET)
            # runs after the scheduler is closed, which would report lost workers otherwise
            stack.callback(self._kill)
            security = _new_credentials(folder)
            options = _node_options(folder, security) | {"port": 0}
            specification = {"cls": Scheduler, "options": options}
            scheduler = SpecCluster(scheduler=specification, name="kinema", silence_logs=False, security=security)
            stack.callback(scheduler.close)
            # a worker whose heartbeat meets a closed scheduler writes a traceback to stderr
            stack.callback(self._halt)
            scheduler.sync(_seclude, scheduler.scheduler)
            for _ in range(self._n_workers):
                address = scheduler.scheduler_address
                call = f"from kinema.runners.dask.cluster import work_for; work_for({address!r}, {folder!r}, {watched})"
                self.processes.append(start_interpreter(call, watched, "a Dask worker"))
            self.client = Client(scheduler, set_as_default=False)
            stack.callback(self.client.close)
            self._wait()
            self._ending = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def _wait(self) -> None:
        """Waits until all workers have joined; raises WorkerError if one ends before that."""
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

    def _halt(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGSTOP)

    def _kill(self) -> None:
        # workers only read, and their folder is removed here: they have nothing to clean up
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


class _Quiet:
    """Sets Dask's logger to level ERROR while any `OwnCluster` exists; several threads may have one each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clusters = 0
        self._level = logging.NOTSET

    def __enter__(self) -> None:
        with self._lock:
            if self._clusters == 0:
                self._level = _LOGGER.level
                _LOGGER.setLevel(logging.ERROR)
            self._clusters += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._clusters -= 1
            if self._clusters == 0:
                _LOGGER.setLevel(self._level)


_QUIET = _Quiet()


def work_for(scheduler: str, folder: str, watched: int) -> None:
    """Main function of a worker process: runs a Dask worker until the other end of the pipe is closed."""
    ignore_job_signals()
    _LOGGER.setLevel(logging.ERROR)
    threading.Thread(target=_end_with, args=(watched,), daemon=True).start()
    asyncio.run(_work(scheduler, folder))


def _end_with(watched: int) -> None:
    os.read(watched, 1)
    os._exit(0)


async def _work(scheduler: str, folder: str) -> None:
    # Kinema bounds memory itself; a worker that spills or pauses would hide a wrong estimate
    worker = Worker(scheduler, nthreads=1, memory_limit=0, **_node_options(folder, _credentials_in(folder)))
    async with worker:
        await _seclude(worker)
        await worker.finished()


def _node_options(folder: str, security: Security) -> dict[str, Any]:
    """Options of the scheduler and of the workers."""
    return {
        "host": _HOST,
        "security": security,
        "protocol": "tls://",
        # the default folder has a name that anybody could have created before in the folder for temporary files
        "local_directory": folder,
        "dashboard": False,
        "dashboard_address": f"{_HOST}:0",
    }


async def _seclude(node: ServerNode) -> None:
    """Stops the HTTP server of a node, which answers everybody, and takes the node's folder off the import path."""
    node.http_server.stop()
    sys.path[:] = [path for path in sys.path if path != node.local_directory]


def _new_credentials(folder: str) -> Security:
    """Makes new credentials, and files of them for workers: every user can read a command line."""
    try:
        security = Security.temporary()
    except ImportError as missing:
        raise missing_package("a Dask cluster of the run's own", "cryptography", "dask", missing) from None
    for name, content in (("certificate", security.tls_worker_cert), ("key", security.tls_worker_key)):
        with open(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(content)
    return security


def _credentials_in(folder: str) -> Security:
    certificate, key = (os.path.join(folder, name) for name in ("certificate", "key"))
    return Security(require_encryption=True, tls_ca_file=certificate, tls_worker_cert=certificate, tls_worker_key=key)


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    with os_errors("cannot make a temporary folder for Dask workers"):
        return tempfile.TemporaryDirectory(prefix="kinema-")
