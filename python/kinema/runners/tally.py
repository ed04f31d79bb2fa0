"""Where the time of the workers of a round went, added up over the pieces of each.

It measures nothing: the core does for each piece, and runners tell what passed besides.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.runners.timings import BLOCK_COLUMNS, RoundTimings, WorkerTimings, block_column

__all__ = ["Tally", "round_timings"]

# counts and times that add up over the pieces of a worker
_SUMS = ("open", "io", "decode", "compute", "wait", "frames", "blocks", "bytes_read", "reads")


def round_timings(tallies: Sequence[Tally], wall: float, n_frames: int, restored: int) -> RoundTimings:
    """Where the time of all workers of a round went; `restored`: frames that were done earlier."""
    blocks = [rows for tally in tallies for rows in tally.blocks]
    return RoundTimings(
        wall,
        n_frames,
        tuple(tally.timings(wall) for tally in tallies),
        np.concatenate(blocks) if blocks else np.empty((0, len(BLOCK_COLUMNS))),
        restored,
    )


class Tally:
    """Where the time of one worker of a round went, summed over its pieces.

    A worker with several threads counts seconds of threads: all of its times are up to `threads` times the wall time.

    Attributes
    ----------
    start : float or None
        Seconds from the beginning of the round until the worker was ready.
    waited : float or None
        Seconds in which it waited, where it has a clock for that; what no clock saw is then told as such. None where
        others decide what it does besides its pieces: all of that is waiting.
    done_at : float or None
        Seconds from the beginning of the round from which on it has but waited for others.
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
        self._sums = dict.fromkeys(_SUMS, 0.0)
        self._busy = 0.0

    def add(self, timings: _core.RunTimings) -> None:
        """Adds what the core measured of a piece; block rows get this worker's number."""
        for found in timings["workers"]:
            for name in _SUMS:
                self._sums[name] += found[name]  # type: ignore[literal-required]
        self._busy += timings["wall"]
        block_column(timings["blocks"], "worker")[:] = self.worker
        self.blocks.append(timings["blocks"])

    @contextmanager
    def counting(self, what: Literal["waited", "communicate", "close"]) -> Iterator[None]:
        """The time of the block counts as that."""
        began = time.monotonic()
        try:
            yield
        finally:
            setattr(self, what, (getattr(self, what) or 0.0) + time.monotonic() - began)

    def timings(self, wall: float) -> WorkerTimings:
        """Where its time went, in a round of `wall` seconds. A worker that was never ready has but started."""
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
