"""Progress of running Dask tasks: numbers of frames as metrics of the workers' heartbeats, read from the scheduler.

The metric of a task ends with the task; a lost worker's metrics end with the worker.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

from distributed import Client

# seconds between polls of the scheduler; heartbeats come every half second, or less often on large clusters
_POLL_SECONDS = 1.0


@contextlib.contextmanager
def reporting_frames(worker: Any) -> Iterator[Callable[[int], None]]:
    """Context within a task: yields a function that takes the frames done so far, for the worker's heartbeats."""
    name = str(worker.get_current_task())
    done = [0]

    def report(frames: int) -> None:
        done[0] = frames

    # a metric as in `Worker(metrics=)`, inserted by the thread that iterates over metrics. The dashboard would show a
    # plain number as a column
    worker.loop.add_callback(worker.metrics.__setitem__, name, lambda _: {"frames": done[0]})
    try:
        yield report
    finally:
        worker.loop.add_callback(worker.metrics.pop, name, None)


class FramesInProgress:
    """Frames that the running tasks of a pass have done, by worker; polled once a second."""

    def __init__(self, client: Client, prefix: str) -> None:
        self._client = client
        self._prefix = prefix
        self._polled_at = time.monotonic()
        self._frames: dict[str, dict[str, int]] = {}

    def worker_frames(self, keys: Collection[str]) -> dict[str, int]:
        """Frames done by the tasks with these keys, by the address of the worker that runs them."""
        if time.monotonic() - self._polled_at >= _POLL_SECONDS:
            # `TaskSubmitter.completed` reports a lost scheduler
            with contextlib.suppress(OSError):
                polled = self._client.run_on_scheduler(_frames_in_heartbeats, prefix=self._prefix)
                # a task that has ended has no metric, and its result may not have arrived yet
                self._frames = {
                    worker: {**self._frames.get(worker, {}), **of_tasks} for worker, of_tasks in polled.items()
                }
            self._polled_at = time.monotonic()
        for worker, of_tasks in self._frames.items():
            self._frames[worker] = {key: frames for key, frames in of_tasks.items() if key in keys}
        return {worker: sum(of_tasks.values()) for worker, of_tasks in self._frames.items()}


def _frames_in_heartbeats(prefix: str, dask_scheduler: Any) -> dict[str, dict[str, int]]:
    """Frames by worker and key, as of the last heartbeats; called on the scheduler."""
    return {
        address: {name: metric["frames"] for name, metric in worker.metrics.items() if name.startswith(prefix)}
        for address, worker in dask_scheduler.workers.items()
    }
