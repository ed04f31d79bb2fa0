"""`TaskSubmitter`: submits tasks to a Dask cluster, fetches their results, cancels the rest.

Objects that all tasks share (`SharedResult`) are results of a task, not scattered data: if all workers that hold one
are lost, Dask computes it again, and then the tasks that depend on it. `runner` decides the work, number and size of
the tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import dask
from distributed import Client, Future, KilledWorker

from kinema.base.errors import WorkerError
from kinema.base.notes import emit
from kinema.base.printable import counted
from kinema.runners.local.interpreter import describe_end

# seconds between polls of the cluster's workers
_POLL_SECONDS = 1.0
# seconds between two looks for tasks that still run
_SETTLE_SECONDS = 0.02
# states of a worker's tasks, of which nobody may want the result any more
_RUNNING = ("executing", "long-running", "cancelled", "resumed")
# most tasks that an error names
_NAMED = 2


@dataclass(frozen=True, eq=False)
class _Task:
    """A submitted task: its argument, and a description for error messages."""

    future: Future
    argument: Any
    description: str


class SharedResult:
    """An object that tasks share: one copy on each worker that runs one of them, until it is released."""

    def __init__(self, content: Any) -> None:
        self._content = content
        self._future: Future | None = None

    def future_for(self, client: Client) -> Future:
        """The future that tasks take as an argument; submitted by the first call."""
        if self._future is None or self._future.client is not client:
            # its own task group: the scheduler expects tasks of one group to take equally long
            key = f"kinema_shared-{uuid.uuid4().hex}"
            # Dask warns that large data should be scattered, but scattered data is lost with its workers
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
                self._future = client.submit(_identity, self._content, key=key, pure=False)
        return self._future

    def release(self) -> None:
        """Removes the object from all workers, even while a traceback still refers to this one."""
        if self._future is not None:
            self._future.release()
            self._future = None


class TaskSubmitter:
    """Submits tasks `function(*lasting_results, shared, argument)`; shared objects are sent to each worker once.

    Leaving the context cancels tasks that have not completed, and releases `shared`.

    `function`: a function of a module that workers can import.
    `lasting_results`: objects that tasks share beyond this context.
    `processes`: the workers of the run's own cluster: if all have ended, the submitter does not wait for others.
    `addresses`: workers to use as long as any of them is left; None: all workers, including those that join later.
    `patience`: seconds without any worker until `completed` raises.

    `threads`: threads of each worker, by its address, at the last poll.
    """

    def __init__(
        self,
        client: Client,
        prefix: str,
        function: Callable[..., Any],
        shared: Any,
        addresses: Sequence[str] | None,
        patience: float,
        *,
        lasting_results: Sequence[SharedResult] = (),
        processes: Sequence[subprocess.Popen[bytes]] = (),
    ) -> None:
        self.threads: dict[str, int] = {}
        self._client = client
        self._prefix = prefix
        self._function = function
        self._shared = [*lasting_results, SharedResult(shared)]
        self._addresses = None if addresses is None else list(addresses)
        self._patience = patience
        self._processes = processes
        self._pending: dict[str, _Task] = {}
        # keys of completed tasks with their results, or with the exception that Dask raised
        self._results: queue.SimpleQueue[tuple[str, Any, Exception | None]] = queue.SimpleQueue()
        self._submitted = 0
        # addresses of all workers at any poll
        self._seen: set[str] = set()
        self._polled_at = self._workers_at = time.monotonic()

    def __enter__(self) -> Self:
        self._poll_cluster()
        return self

    def __exit__(self, *_: object) -> None:
        if self._client.status == "running":
            # a connection that fails here has already failed elsewhere, with a better message
            with contextlib.suppress(OSError):
                self._client.cancel([task.future for task in self._pending.values()], force=True)
        self._pending.clear()
        self._shared[-1].release()

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def keys(self) -> set[str]:
        """Keys of the tasks that are submitted but not completed."""
        return set(self._pending)

    def submit(
        self,
        argument: Any,
        description: str,
        addresses: list[str] | None = None,
        *,
        function: Callable[..., Any] | None = None,
        inputs: Sequence[Future] = (),
    ) -> None:
        """Submits a task, to workers with these addresses if there are any; `description` is for error messages.

        With another `function`, the task also takes results of `keep`, after its argument, and runs before other tasks.
        """
        future = self._submitted_task(argument, addresses, function or self._function, inputs)
        key = future.key
        self._pending[key] = _Task(future, argument, description)
        asyncio.run_coroutine_threadsafe(self._fetch(key, future), self._client.loop.asyncio_loop)

    def keep(self, argument: Any) -> Future:
        """Submits a task whose result stays on its worker, until the future is released."""
        return self._submitted_task(argument, None, self._function, ())

    def _submitted_task(
        self, argument: Any, addresses: list[str] | None, function: Callable[..., Any], inputs: Sequence[Future]
    ) -> Future:
        addresses = self._addresses if addresses is None else addresses
        self._submitted += 1
        try:
            return self._client.submit(
                function,
                *(one.future_for(self._client) for one in self._shared),
                argument,
                *inputs,
                # the scheduler expects tasks of one group to take equally long
                key=f"{self._prefix}{function.__name__ if inputs else ''}-{self._submitted}",
                pure=False,
                workers=addresses,
                # the named workers may be lost
                allow_other_workers=addresses is not None,
                priority=1 if inputs else 0,
            )
        except OSError:
            raise self._connection_lost() from None

    async def _fetch(self, key: str, future: Future) -> None:
        try:
            self._results.put((key, await future, None))
        except Exception as error:
            self._results.put((key, None, error))

    def completed(self, timeout: float) -> list[tuple[Any, Any]]:
        """Arguments and results of tasks completed since the last call; waits at most `timeout` seconds.

        Raises WorkerError if the workers of a task were lost several times, if Dask cannot run a task, or if the
        cluster is lost.
        """
        arrived: list[tuple[str, Any, Exception | None]] = []
        with contextlib.suppress(queue.Empty):
            arrived.append(self._results.get(timeout=timeout))
            while True:
                arrived.append(self._results.get_nowait())
        if self._client.status != "running":
            raise self._connection_lost()
        results: list[tuple[Any, Any]] = []
        for key, result, error in arrived:
            task = self._pending.pop(key)
            # at once: if its worker is lost now, nobody needs the result
            task.future.release()
            if isinstance(error, OSError):
                raise self._connection_lost()
            if error is not None:
                raise _failure(error, task.description)
            results.append((task.argument, result))
        if time.monotonic() - self._polled_at >= _POLL_SECONDS:
            self._poll_cluster()
        return results

    def settle(self) -> None:
        """Waits until no task of this submitter runs, and none can run again; call it when all results have arrived.

        Dask runs a task again if its worker is lost before the scheduler knows that the result has arrived. Without
        this, such a task could write into a file that is already finished.
        """
        with contextlib.suppress(OSError):  # without a scheduler nobody runs tasks again
            while self._client.run_on_scheduler(_has_tasks, prefix=self._prefix):
                time.sleep(_SETTLE_SECONDS)
            # a task that the scheduler has forgotten runs to its end on its worker
            while self._seen - set(self._client.nthreads()) and self._is_running():
                time.sleep(_SETTLE_SECONDS)

    def _is_running(self) -> bool:
        return any(self._client.run(_has_running_tasks, prefix=self._prefix, on_error="ignore").values())

    def _poll_cluster(self) -> None:
        """Updates `threads`; raises WorkerError after `patience` seconds without workers, or if the scheduler is lost.

        When no worker is left, a note says so at once, with the tasks of the last workers.
        """
        had_workers = bool(self.threads)
        try:
            self.threads = self._client.nthreads()
        except OSError:
            raise self._connection_lost() from None
        self._polled_at = time.monotonic()
        self._seen |= set(self.threads)
        if self.threads:
            self._workers_at = self._polled_at
            return
        codes = [process.poll() for process in self._processes]
        if codes and None not in codes:
            last = f"the last of {counted(len(codes), 'Dask worker')} (process {self._processes[-1].pid})"
            raise WorkerError(describe_end(last, self._lost_work(), codes[-1] or 0))
        if self._polled_at - self._workers_at > self._patience:
            raise WorkerError(
                f"no Dask worker has been there for {self._patience:.0f} s; the scheduler is {self._address()}; the "
                f"last ones were lost {self._lost_work()}"
            )
        if had_workers:
            left = f"no Dask worker is left, the last ones were lost {self._lost_work()}"
            emit([f"{left}; waiting {self._patience:.0f} s for others"])

    def _lost_work(self) -> str:
        """Names the tasks whose workers were lost, those with the most lost workers first."""
        try:
            keys = self._client.run_on_scheduler(_suspicious_tasks, prefix=self._prefix)
        except OSError:
            raise self._connection_lost() from None
        named = [self._pending[key].description for key in keys if key in self._pending]
        more = f" and {counted(len(named) - _NAMED, 'more task')}" if len(named) > _NAMED else ""
        return f"while they had {', '.join(named[:_NAMED])}{more}" if named else "while they had no task"

    def _connection_lost(self) -> WorkerError:
        return WorkerError(
            f"the connection to the Dask scheduler {self._address()} is lost; with a checkpoint the same command "
            "continues, on any runner"
        )

    def _address(self) -> str:
        scheduler = self._client.scheduler
        return "that was" if scheduler is None else str(scheduler.address)


def _suspicious_tasks(prefix: str, dask_scheduler: Any) -> list[str]:
    """Keys of tasks whose workers were lost, those with the most lost workers first; called on the scheduler."""
    found = [task for key, task in dask_scheduler.tasks.items() if str(key).startswith(prefix) and task.suspicious]
    return [str(task.key) for task in sorted(found, key=lambda task: -task.suspicious)]


def _has_tasks(prefix: str, dask_scheduler: Any) -> bool:
    """Whether the scheduler knows a task; called on the scheduler."""
    return any(str(key).startswith(prefix) for key in dask_scheduler.tasks)


def _has_running_tasks(prefix: str, dask_worker: Any) -> bool:
    """Whether a worker runs a task; called on the worker."""
    tasks = dask_worker.state.tasks.items()
    return any(task.state in _RUNNING for key, task in tasks if str(key).startswith(prefix))


def _identity(content: Any) -> Any:
    """The task of a `SharedResult`."""
    return content


def _failure(error: Exception, description: str) -> WorkerError:
    if not isinstance(error, KilledWorker):
        return WorkerError(f"{description} could not be run by Dask: {type(error).__name__}: {error}")
    last = getattr(error.last_worker, "address", error.last_worker)
    return WorkerError(
        f"{error.allowed_failures + 1} Dask workers were lost while they had {description}, the last of them {last}; "
        "systems kill when memory runs out: use fewer workers on a machine"
    )
