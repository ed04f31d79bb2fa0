"""Positions in memory that worker processes make and keep before a run begins, so that no clock sees it."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kinema.runners import Runner
from kinema.trajectory import Trajectory
from kinema.trajectory.opening import open as open_trajectory

__all__ = ["held_by_workers"]

# a worker that has the positions leaves the next call to another worker, for at most `_MOST_ROUNDS` rounds
_PAUSE = 0.05
_MOST_ROUNDS = 40
# the trajectory that this process keeps, by its file: one at most
_HELD: dict[str, Trajectory] = {}


@dataclass(frozen=True)
class _Hold:
    """Makes the positions of a file in the process that calls it, and says which process it is."""

    path: str
    stated: Mapping[str, Any]

    def __call__(self, _number: int) -> tuple[str, int]:
        if self.path in _HELD:
            time.sleep(_PAUSE)
        else:
            _HELD.clear()
            _HELD[self.path] = open_trajectory(self.path, **self.stated)
        return platform.node(), os.getpid()


def _release(_number: int) -> None:
    _HELD.clear()


@contextmanager
def held_by_workers(settings: Mapping[str, Any], runner: Runner) -> Iterator[None]:
    """Context in which the worker processes of the runner have the positions of the file.

    Workers of a process share them. After many rounds, a worker that has had no call makes them when its pass begins.
    """
    (path,) = settings["files"]
    numbers = range(settings["workers"])
    with runner.session():
        found: set[tuple[str, int]] = set()
        for _ in range(_MOST_ROUNDS):
            found |= set(runner.map(_Hold(path, settings["stated"]), numbers, workers=len(numbers)))
            if len(found) == len(numbers):
                break
        try:
            yield
        finally:
            # workers of a standing cluster live on
            runner.map(_release, numbers, workers=len(numbers))
