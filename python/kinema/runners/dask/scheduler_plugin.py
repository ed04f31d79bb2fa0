"""A plugin of the Dask scheduler that records every state transition of the tasks of one pass.

`Transitions` runs in the scheduler's process; `Recording` is the client's side, which fetches what was recorded.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

from distributed import Client
from distributed.diagnostics.plugin import SchedulerPlugin

from kinema.base.timings import Transition
from kinema.base.tracing.recording import event

# a recorded transition: task, start, finish, worker, time, actions, bytes
_Row = tuple[str, str, str, str, float, list[tuple[str, float, float]], int]


class Transitions(SchedulerPlugin):  # type: ignore[misc]
    """Records transitions of tasks whose keys begin with `prefix`, and the workers that leave."""

    def __init__(self, prefix: str) -> None:
        self.name = prefix
        self.rows: list[_Row] = []
        self.lost: list[str] = []

    def transition(self, key: Any, start: str, finish: str, *_args: Any, **details: Any) -> None:
        """See distributed's `SchedulerPlugin`."""
        if not str(key).startswith(self.name):
            return
        actions = [(one["action"], one["start"], one["stop"]) for one in details.get("startstops") or ()]
        worker = str(details.get("worker") or "")
        self.rows.append((str(key), start, finish, worker, time.time(), actions, int(details.get("nbytes") or 0)))

    def remove_worker(self, scheduler: Any, worker: str, **_details: Any) -> None:
        """See distributed's `SchedulerPlugin`."""
        self.lost.append(worker)


class Recording:
    """The plugin of one pass: registered with the scheduler, read, and removed again.

    `refused`: why nothing was recorded, or "".
    """

    def __init__(self, client: Client, prefix: str) -> None:
        self._client = client
        self._prefix = prefix
        self.refused = ""
        try:
            client.register_plugin(Transitions(prefix), name=prefix)
        except Exception as error:
            # the scheduler may not unpickle objects of clients, or lacks Kinema: the run continues without a record
            self.refused = str(error).splitlines()[0] if str(error) else type(error).__name__

    def end(self) -> tuple[list[_Row], list[str]]:
        """The recorded transitions, and the workers that left. Removes the plugin."""
        if self.refused:
            return [], []
        rows: list[_Row]
        lost: list[str]
        try:
            rows, lost = self._client.run_on_scheduler(_recorded, name=self._prefix)
            self._client.unregister_scheduler_plugin(self._prefix)
        except OSError as error:
            # all results have arrived: the pass succeeds without its record
            self.refused = f"the scheduler was lost before the record was fetched ({error})"
            return [], []
        return rows, lost

    def abandon(self) -> None:
        """Removes the plugin after an error; drops errors of a lost scheduler in favour of the first error."""
        if not self.refused and self._client.status == "running":
            with contextlib.suppress(OSError):
                self._client.unregister_scheduler_plugin(self._prefix)


def transitions_since(rows: list[_Row], began: float) -> tuple[Transition, ...]:
    """The rows with times in seconds from the beginning of the pass."""
    return tuple(
        Transition(
            task,
            start,
            finish,
            worker,
            at - began,
            tuple((action, first - began, last - began) for action, first, last in actions),
            nbytes,
        )
        for task, start, finish, worker, at, actions, nbytes in rows
    )


def trace_transitions(rows: list[_Row]) -> None:
    """Adds each state of each task to the trace, as an event between the transitions into and out of the state."""
    left: dict[str, int] = {}
    for task, _start, finish, worker, at, _actions, _nbytes in reversed(rows):
        entered = round(at * 1e9)
        until, left[task] = left.get(task, entered), entered
        event(f"task.{finish}", "dask", entered, max(0, until - entered), task=task, worker=worker)


def _recorded(name: str, dask_scheduler: Any) -> tuple[list[_Row], list[str]]:
    plugin = dask_scheduler.plugins[name]
    return plugin.rows, plugin.lost
