"""How many frames the tasks that run on a Dask cluster have done: workers' heartbeats carry it to the scheduler.

Nothing of it is kept: a task's number goes with the task, and that of a lost worker with the worker.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

from distributed import Client

__all__ = ["FramesUnderway", "telling"]

# seconds between two questions to the scheduler; heartbeats come every half second, or more rarely on large clusters
_ASKING = 1.0


@contextlib.contextmanager
def telling(worker: Any) -> Iterator[Callable[[int], None]]:
    """Within a task: what it gives is called with the frames done, which the worker's heartbeats tell until it ends."""
    name = str(worker.get_current_task())
    done = [0]

    def tell(frames: int) -> None:
        done[0] = frames

    # a metric of its own, as of `Worker(metrics=)`; put in by the thread that goes through them. No bare number:
    # the dashboard would make a column of it
    worker.loop.add_callback(worker.metrics.__setitem__, name, lambda _: {"frames": done[0]})
    try:
        yield tell
    finally:
        worker.loop.add_callback(worker.metrics.pop, name, None)


class FramesUnderway:
    """What the tasks of a flight have done so far, as of a moment ago.

    Parameters
    ----------
    client : distributed.Client
    prefix : str
        What the keys of the tasks begin with.
    """

    def __init__(self, client: Client, prefix: str) -> None:
        self._client = client
        self._prefix = prefix
        self._asked = time.monotonic()
        self._frames: dict[str, dict[str, int]] = {}

    def by_worker(self, keys: Collection[str]) -> dict[str, int]:
        """Frames of the tasks with these keys, by the address of the worker that runs them: none where none run."""
        if time.monotonic() - self._asked >= _ASKING:
            # a scheduler that is gone is noticed, and told, where answers are waited for
            with contextlib.suppress(OSError):
                told = self._client.run_on_scheduler(_told, prefix=self._prefix)
                # a task that has ended tells nothing, and its answer may not have landed yet
                self._frames = {
                    worker: {**self._frames.get(worker, {}), **of_tasks} for worker, of_tasks in told.items()
                }
            self._asked = time.monotonic()
        for worker, of_tasks in self._frames.items():
            self._frames[worker] = {key: frames for key, frames in of_tasks.items() if key in keys}
        return {worker: sum(of_tasks.values()) for worker, of_tasks in self._frames.items()}


def _told(prefix: str, dask_scheduler: Any) -> dict[str, dict[str, int]]:
    """What heartbeats have told, by worker and key."""
    return {
        address: {name: told["frames"] for name, told in worker.metrics.items() if name.startswith(prefix)}
        for address, worker in dask_scheduler.workers.items()
    }
