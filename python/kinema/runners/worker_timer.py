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

Counted = Literal["plan", "opening", "calls", "waited", "communicate", "put", "get", "gather", "close"]

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

    `start`: seconds until the worker existed, beyond the planning of the leading process; None if it never did.
    `plan`, `opening`: seconds of planning, in the leading process and then in the worker; of opening before the first
        piece.
    `waited`: seconds that the worker waited, if it has a clock for waiting; time that no clock measured is then
        unaccounted. None if it has no such clock: all time outside its pieces counts as waiting.
    `done_at`: seconds from the beginning of the pass after which the worker only waited.
    `received`: seconds in which another process has received the results. Sending took as long: it is a part of what
        the worker waited, as far as it did not work meanwhile.
    `faults`: oddities of the frames that the worker has read.
    """

    def __init__(self, worker: int, threads: int = 1, node: str = "") -> None:
        self.worker = worker
        self.threads = threads
        self.node = node
        self.start: float | None = None
        self.plan = 0.0
        self.opening = 0.0
        self.calls = 0.0
        self.waited: float | None = None
        self.done_at: float | None = None
        self.close = 0.0
        self.communicate = 0.0
        self.put = 0.0
        self.get = 0.0
        self.gather = 0.0
        self.received = 0.0
        self.cpu = 0.0
        self.blocks: list[NDArray[np.float64]] = []
        self.faults: set[_core.FrameFault] = set()
        self._sums = dict.fromkeys(_SUMS, 0.0)
        self._busy = 0.0
        self._phase: Counted | None = None
        self._since = 0.0

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
    def counting(self, what: Counted) -> Iterator[None]:
        """Context whose time counts as `what`, and as nothing else; see `turn_to`."""
        before = self._phase
        self.turn_to(what)
        try:
            yield
        finally:
            self.turn_to(before)

    def turn_to(self, what: Counted | None) -> None:
        """Lets time from now on count as `what`; None: as nothing. "communicate" is messages besides "put", "get" and
        "gather", with handing out pieces; "calls" are calls of the core, of which its own timings are subtracted."""
        now = time.monotonic()
        if self._phase is not None:
            setattr(self, self._phase, (getattr(self, self._phase) or 0.0) + now - self._since)
        self._phase, self._since = what, now

    def timings(self, wall: float) -> WorkerTimings:
        """The worker's timings in a pass of `wall` seconds.

        A worker that was never there has only the planning of the leading process, and start time.
        """
        start = max(0.0, wall - self.plan) if self.start is None else min(self.start, wall)
        sums = self._sums
        messages = self.communicate + self.put + self.get + self.gather
        rest = max(0.0, wall - start - self.plan - self.opening - self._busy - messages - self.close)
        idle = rest
        if self.waited is not None:
            at_the_end = 0.0 if self.done_at is None else wall - self.done_at
            # a call of the core waits for a core beyond the core's own time: for its thread, and for this one after it
            for_a_core = max(0.0, self.calls - self._busy)
            idle = min(rest, max(0.0, self.waited + for_a_core + at_the_end))
        sent = min(self.received, idle)
        idle -= sent
        return WorkerTimings(
            worker=self.worker,
            open=sums["open"] + self.opening * self.threads,
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
            communicate=(messages + sent) * self.threads,
            close=self.close * self.threads,
            node=self.node,
            plan=self.plan * self.threads,
            put=self.put * self.threads,
            get=self.get * self.threads,
            gather=(self.gather + sent) * self.threads,
            threads=self.threads,
        )
