"""A plugin of the Dask scheduler that records every change of state of the tasks of one round.

It runs in the scheduler's process and judges nothing; what it has recorded is fetched by the client.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

from distributed import Client
from distributed.diagnostics.plugin import SchedulerPlugin

from kinema.runners.task_times import Transition

__all__ = ["Recording", "Transitions"]

# what a transition is recorded as until the client has it: task, start, finish, worker, time, actions, bytes
_Row = tuple[str, str, str, str, float, list[tuple[str, float, float]], int]


class Transitions(SchedulerPlugin):  # type: ignore[misc]
    """Writes down what happens to tasks whose keys begin with `prefix`, and which workers leave."""

    def __init__(self, prefix: str) -> None:
        self.name = prefix
        self.rows: list[_Row] = []
        self.lost: list[str] = []

    def transition(self, key: Any, start: str, finish: str, *_args: Any, **said: Any) -> None:
        """See distributed's `SchedulerPlugin`."""
        if not str(key).startswith(self.name):
            return
        actions = [(one["action"], one["start"], one["stop"]) for one in said.get("startstops") or ()]
        worker = said.get("worker") or ""
        self.rows.append((str(key), start, finish, str(worker), time.time(), actions, int(said.get("nbytes") or 0)))

    def remove_worker(self, scheduler: Any, worker: str, **_said: Any) -> None:
        """See distributed's `SchedulerPlugin`."""
        self.lost.append(worker)


class Recording:
    """The plugin of a round as the client sees it: registered, asked, and removed again.

    Attributes
    ----------
    refused : str
        Why the scheduler did not take the plugin, or did not tell what it recorded, or "".
    """

    def __init__(self, client: Client, prefix: str) -> None:
        self._client = client
        self._prefix = prefix
        self.refused = ""
        try:
            client.register_plugin(Transitions(prefix), name=prefix)
        except Exception as error:
            # a scheduler that may not unpickle what clients send, or that has no Kinema: a run goes without the record
            self.refused = str(error).splitlines()[0] if str(error) else type(error).__name__

    def end(self) -> tuple[list[_Row], list[str]]:
        """What was recorded, and the workers that left. The plugin is removed."""
        if self.refused:
            return [], []
        rows: list[_Row]
        lost: list[str]
        try:
            rows, lost = self._client.run_on_scheduler(_recorded, name=self._prefix)
            self._client.unregister_scheduler_plugin(self._prefix)
        except OSError as error:
            # all leaves are there: the run is not lost for its account
            self.refused = f"the scheduler was lost before it was asked ({error})"
            return [], []
        return rows, lost

    def abandon(self) -> None:
        """Removes the plugin after an error, which must not hide behind one of a scheduler that is gone as well."""
        if not self.refused and self._client.status == "running":
            with contextlib.suppress(OSError):
                self._client.unregister_scheduler_plugin(self._prefix)


def transitions_since(rows: list[_Row], began: float) -> tuple[Transition, ...]:
    """The rows with times in seconds from the beginning of the round."""
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


def _recorded(name: str, dask_scheduler: Any) -> tuple[list[_Row], list[str]]:
    plugin = dask_scheduler.plugins[name]
    return plugin.rows, plugin.lost
