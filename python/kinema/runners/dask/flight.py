"""Tasks on their way through a Dask cluster: sent, watched, fetched, sent again when they were lost, cancelled.

It does not know what the tasks do, and decides neither their number nor their size.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from distributed import Client, Future, KilledWorker

from kinema.errors import WorkerError

__all__ = ["Flight", "Scattered", "beckon"]

# seconds between two questions whether the cluster is still there
_ASKING = 1.0
# seconds until data is scattered to whoever is there
_SCATTERING = 10.0
# seconds until an answer that is being fetched when all ends is left to itself
_FETCHING = 1.0
# times that a task is sent before it is given up; the scheduler counts in the same way where one of several workers is
# lost (distributed.scheduler.allowed-failures), but knows nothing of a task whose last worker took all data with it
_ATTEMPTS = 4


@dataclass(frozen=True, eq=False)
class _Task:
    """A task on its way: what it is called with, what it does in words, workers that it is meant for."""

    argument: Any
    doing: str
    where: list[str] | None
    attempt: int = 1


class Scattered:
    """What tasks share: once on each worker, and again when it was lost with the last worker that had it."""

    def __init__(self, content: Any) -> None:
        self._content = content
        self._future: Future | None = None

    def future_for(self, client: Client) -> Future | None:
        """What tasks take; None where it has to be put on workers first."""
        future = self._future
        return future if future is not None and future.client is client and future.status == "finished" else None

    def put(self, client: Client, workers: list[str] | None) -> None:
        """Puts it on these workers, or on all; what Dask raises where they are not there."""
        self._future = None
        # in a list, as Dask would take a collection for as many things
        (self._future,) = client.scatter(
            [self._content], broadcast=True, hash=False, workers=workers, timeout=_SCATTERING
        )


class Flight:
    """Tasks `function(*lasting, shared, argument)`, where what is shared is scattered once to all workers.

    Leaving the context cancels what has not come back, and releases `shared`.

    Parameters
    ----------
    client : distributed.Client
    prefix : str
        What the keys of all tasks begin with.
    function : callable
        Of a module that workers can import.
    shared : object
    lasting : sequence of Scattered
        What tasks share beyond this flight.
    addresses : list of str or None
        Workers that are to be used as long as any of them is there; None: all, also those that join later.
    patience : float
        Seconds without any worker until the flight is given up.

    Attributes
    ----------
    redone : int
        Tasks that were sent more than once by this client; those that the scheduler sends again are not among them.
    threads : dict of str to int
        Threads of each worker, by its address, as they were a moment ago.
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
        lasting: Sequence[Scattered] = (),
    ) -> None:
        self.redone = 0
        self.threads: dict[str, int] = {}
        self._client = client
        self._prefix = prefix
        self._function = function
        self._shared = [*lasting, Scattered(shared)]
        self._addresses = None if addresses is None else list(addresses)
        self._patience = patience
        self._beckoning: Future | None = None
        self._flying: dict[Future, _Task] = {}
        # lost with the data that they need, to be sent again when there is a worker
        self._grounded: list[_Task] = []
        self._fetching: dict[concurrent.futures.Future[list[Any]], list[Future]] = {}
        self._landed = threading.Event()
        self._sent = 0
        self._asked = self._seen = time.monotonic()

    def __enter__(self) -> Self:
        self._scatter()
        self._ask()
        return self

    def __exit__(self, *_: object) -> None:
        if self._client.status == "running":
            # not cancelled: a client that was cancelled while it fetched gives that very fetch to all that follow
            concurrent.futures.wait(self._fetching, timeout=_FETCHING)
            flying = [*self._flying, *(one for batch in self._fetching.values() for one in batch)]
            # what fails here has failed before, and said more
            with contextlib.suppress(OSError):
                self._client.cancel(flying, force=True)
        self._flying.clear()
        self._fetching.clear()
        self._grounded.clear()
        self._shared.clear()
        self._beckoning = None

    def __len__(self) -> int:
        return len(self._flying) + len(self._grounded)

    @property
    def keys(self) -> set[str]:
        """Keys of the tasks that have been sent and have not landed."""
        return {str(future.key) for future in self._flying}

    def send(self, argument: Any, doing: str, where: list[str] | None = None) -> None:
        """Sends a task; `doing` says in words what it does; `where` names workers that it is meant for."""
        self._send(_Task(argument, doing, where))

    def _send(self, task: _Task) -> None:
        shared = [one.future_for(self._client) for one in self._shared]
        if None in shared:
            self._grounded.append(task)
            return
        addresses = self._addresses if task.where is None else task.where
        self._sent += 1
        try:
            future = self._client.submit(
                self._function,
                *shared,
                task.argument,
                key=f"{self._prefix}-{self._sent}",
                pure=False,
                workers=addresses,
                # those that are named may be gone
                allow_other_workers=addresses is not None,
            )
        except OSError:
            raise self._gone() from None
        self._flying[future] = task
        future.add_done_callback(self._wake)

    def landed(self, timeout: float) -> list[tuple[Any, Any]]:
        """Arguments and answers of tasks that have come back, after `timeout` seconds at the most.

        Raises
        ------
        WorkerError
            For a task that ended several workers, one that Dask cannot run, and a cluster that is gone.
        """
        self._landed.wait(timeout)
        self._landed.clear()
        if self._client.status != "running":
            raise self._gone()
        found = self._fetched()
        if not self._fetching:
            self._fetch()
        if time.monotonic() - self._asked >= _ASKING:
            self._ask()
        if self._grounded and self.threads:
            self._send_again()
        return found

    def _send_again(self) -> None:
        """Sends what was lost, with the data that it needs."""
        if not self._scatter():
            return
        grounded, self._grounded = self._grounded, []
        for task in grounded:
            if task.attempt > _ATTEMPTS:
                raise _killers(task.doing, _ATTEMPTS, "")
            self.redone += task.attempt > 1
            self._send(task)

    def _wake(self, _: object) -> None:
        self._landed.set()

    def _fetch(self) -> None:
        """Begins to fetch the answers of tasks that are done; those that were lost are to be sent again."""
        done: list[Future] = []
        for future, task in list(self._flying.items()):
            match future.status:
                case "finished":
                    done.append(future)
                case "error":
                    raise _failure(future, task.doing)
                case "cancelled" | "lost":
                    # what was scattered, or the answer itself, went with the last worker that had it
                    del self._flying[future]
                    self._grounded.append(replace(task, attempt=task.attempt + 1))
                    self._asked = -_ASKING
        if done:
            gathered = self._client.gather(done, asynchronous=True)
            fetching = asyncio.run_coroutine_threadsafe(_awaited(gathered), self._client.loop.asyncio_loop)
            self._fetching[fetching] = done
            fetching.add_done_callback(self._wake)

    def _fetched(self) -> list[tuple[Any, Any]]:
        found: list[tuple[Any, Any]] = []
        for fetching in [one for one in self._fetching if one.done()]:
            batch = self._fetching.pop(fetching)
            try:
                answers = fetching.result()
            except concurrent.futures.CancelledError:
                # lost on the way; their state says so, and they are sent again
                continue
            except OSError:
                # workers that do not answer are the scheduler's to report
                raise self._gone() from None
            except Exception:
                # likewise, or an error that `_fetch` finds in their state
                if all(future.status == "finished" for future in batch):
                    raise
                continue
            for future, answer in zip(batch, answers, strict=True):
                found.append((self._flying.pop(future).argument, answer))
        return found

    def _scatter(self) -> bool:
        """Gives all workers what they share and lack; False where those that were there a moment ago are not."""
        try:
            for one in self._shared:
                if one.future_for(self._client) is None:
                    one.put(self._client, self._present())
        except (TimeoutError, KeyError):
            # none that takes any, or one that has left between the two questions: `_ask` says for how long
            return False
        except OSError:
            raise self._gone() from None
        return True

    def _present(self) -> list[str] | None:
        """Those of the chosen workers that are there; None where none is, or none was chosen."""
        if self._addresses is None:
            return None
        there = self._client.nthreads()
        return [address for address in self._addresses if address in there] or None

    def _ask(self) -> None:
        """Which workers there are; WorkerError where none has been for a while, or the scheduler does not answer."""
        try:
            self.threads = self._client.nthreads()
            if self.threads:
                self._beckoning = None
            elif self._beckoning is None:
                self._beckoning = beckon(self._client)
        except OSError:
            raise self._gone() from None
        self._asked = time.monotonic()
        if self.threads:
            self._seen = self._asked
        elif self._asked - self._seen > self._patience:
            raise WorkerError(
                f"no Dask worker has been there for {self._patience:.0f} s; the scheduler is {self._address()}"
            )

    def _gone(self) -> WorkerError:
        return WorkerError(
            f"the connection to the Dask scheduler {self._address()} is lost; with a checkpoint the same command goes "
            "on, on any runner"
        )

    def _address(self) -> str:
        scheduler = self._client.scheduler
        return "that was" if scheduler is None else str(scheduler.address)


def beckon(client: Client) -> Future:
    """A task without any work: a cluster that adapts to what there is to do starts workers for it, if it has none."""
    return client.submit(int, key=f"kinema-{uuid.uuid4().hex}")


async def _awaited(gathered: Any) -> list[Any]:
    answers: list[Any] = await gathered
    return answers


def _failure(future: Future, doing: str) -> WorkerError:
    error = future.exception()
    if isinstance(error, KilledWorker):
        last = getattr(error.last_worker, "address", error.last_worker)
        return _killers(doing, error.allowed_failures + 1, f", the last of them {last}")
    return WorkerError(f"{doing} could not be run by Dask: {type(error).__name__}: {error}")


def _killers(doing: str, times: int, last: str) -> WorkerError:
    return WorkerError(
        f"{times} Dask workers were lost while they had {doing}{last}; systems kill when memory runs out: use fewer "
        "workers on a machine"
    )
