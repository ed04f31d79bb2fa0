"""`WorkerTimer`: the time of one worker of a pass, added up over its pieces.

The core measures each piece; runners add the time between pieces.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.timings import BLOCK_COLUMNS, PassTimings, WorkerTimings, block_column

__all__ = ["WorkerTimer", "pass_timings"]

# counts and times that add up over the pieces of a worker
_SUMS = ("open", "io", "decode", "compute", "wait", "frames", "blocks", "bytes_read", "reads")


def pass_timings(timers: Sequence[WorkerTimer], wall: float, n_frames: int, restored: int) -> PassTimings:
    """Timings of all workers of a pass; `restored`: frames of an earlier run."""
    blocks = [rows for timer in timers for rows in timer.blocks]
    return PassTimings(
        wall,
        n_frames,
        tuple(timer.timings(wall) for timer in timers),
        np.concatenate(blocks) if blocks else np.empty((0, len(BLOCK_COLUMNS))),
        restored,
        faults=tuple(sorted({fault for timer in timers for fault in timer.faults})),
    )


class WorkerTimer:
    """Timings of one worker of a pass, summed over its pieces.

    A worker with several threads counts thread seconds: each of its times is up to `threads` times the wall time.

    Attributes
    ----------
    start : float or None
        Seconds from the beginning of the pass until the worker was ready.
    waited : float or None
        Seconds that the worker waited, if it has a clock for waiting; time that no clock measured is then unaccounted.
        None if it has no such clock: all time outside its pieces counts as waiting.
    done_at : float or None
        Seconds from the beginning of the pass after which the worker only waited.
    faults : set
        Oddities of the frames that the worker has read.
    """

    def __init__(self, worker: int, threads: int = 1, node: str = "") -> None:
        self.worker = worker
        self.threads = threads
        self.node = node
        self.start: float | None = None
        self.waited: float | None = None
        self.done_at: float | None = None
        self.close = 0.0
        self.communicate = 0.0
        self.cpu = 0.0
        self.blocks: list[NDArray[np.float64]] = []
        self.faults: set[_core.FrameFault] = set()
        self._sums = dict.fromkeys(_SUMS, 0.0)
        self._busy = 0.0

    def add(self, timings: _core.RunTimings) -> None:
        """Adds the core's timings of a piece; block rows get this worker's number."""
        for found in timings["workers"]:
            for name in _SUMS:
                self._sums[name] += found[name]  # type: ignore[literal-required]
        self._busy += timings["wall"]
        block_column(timings["blocks"], "worker")[:] = self.worker
        self.blocks.append(timings["blocks"])
        self.faults.update(timings.get("faults", ()))

    @contextmanager
    def counting(self, what: Literal["waited", "communicate", "close"]) -> Iterator[None]:
        """Context whose time counts as `what`."""
        began = time.monotonic()
        try:
            yield
        finally:
            setattr(self, what, (getattr(self, what) or 0.0) + time.monotonic() - began)

    def timings(self, wall: float) -> WorkerTimings:
        """The worker's timings in a pass of `wall` seconds. A worker that was never ready has only start time."""
        start = wall if self.start is None else min(self.start, wall)
        sums = self._sums
        rest = max(0.0, wall - start - self._busy - self.communicate - self.close)
        idle = rest
        if self.waited is not None:
            at_the_end = 0.0 if self.done_at is None else wall - self.done_at
            idle = min(rest, max(0.0, self.waited + at_the_end))
        return WorkerTimings(
            worker=self.worker,
            open=sums["open"],
            io=sums["io"],
            decode=sums["decode"],
            compute=sums["compute"],
            wait=sums["wait"] + idle * self.threads,
            total=wall * self.threads,
            cpu=self.cpu,
            frames=int(sums["frames"]),
            blocks=int(sums["blocks"]),
            bytes_read=int(sums["bytes_read"]),
            reads=int(sums["reads"]),
            start=start * self.threads,
            communicate=self.communicate * self.threads,
            close=self.close * self.threads,
            node=self.node,
        )
