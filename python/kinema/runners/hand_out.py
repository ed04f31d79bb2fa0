"""Which leaves which worker gets, and what became of them: pieces, their sizes, sums of their timings.

It sends nothing and waits for nobody: a runner asks for pieces and tells what they cost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.access import Access
from kinema.errors import ArgumentError
from kinema.runners.gathering import Leaves, PieceLimit
from kinema.runners.timings import BLOCK_COLUMNS, RoundTimings, WorkerTimings

__all__ = [
    "DEFAULT_PIECES",
    "Dealing",
    "HandOut",
    "Pace",
    "Schedule",
    "Tally",
    "round_timings",
]

# "dynamic": whoever is free takes the next piece; "static": every worker has a contiguous share of its own
Schedule = Literal["dynamic", "static"]

# pieces a worker gets at the least where each has the same speed
DEFAULT_PIECES = 4
# counts and times that add up over the pieces of a worker
_SUMS = ("open", "io", "decode", "compute", "wait", "frames", "blocks", "bytes_read", "reads")


class Dealing:
    """What a user has said of the hand-out; ArgumentError for another name, and for less than one piece a worker.

    None: dynamic, with DEFAULT_PIECES; where pieces are loaded whole (access "in-memory") static, one piece a worker;
    where all ranks read together ("hdf5-mpio-collective") static, and nothing else.
    """

    def __init__(self, schedule: str | None, oversubscribe: int | None) -> None:
        if schedule is not None and schedule not in get_args(Schedule):
            raise ArgumentError(f"schedule must be 'dynamic' or 'static', found {schedule!r}")
        told = oversubscribe
        if told is not None and (isinstance(told, bool) or not isinstance(told, int) or told < 1):
            raise ArgumentError(f"oversubscribe is a number of pieces a worker, from 1 on, found {oversubscribe!r}")
        self._schedule = schedule
        self._oversubscribe = oversubscribe

    def schedule(self, access: Access) -> Schedule:
        """Who gets which piece."""
        together = access == "hdf5-mpio-collective"
        if self._schedule is None:
            return "static" if access == "in-memory" or together else "dynamic"
        if self._schedule == "dynamic" and together:
            raise ArgumentError(
                f"with access {access!r} nobody reads ahead of the others: schedule 'dynamic' gains nothing"
            )
        return "static" if self._schedule == "static" else "dynamic"

    def oversubscribe(self, access: Access) -> int:
        """Pieces that a worker gets at the least."""
        if self._oversubscribe is None:
            return 1 if access == "in-memory" else DEFAULT_PIECES
        return self._oversubscribe


class HandOut:
    """Deals out the missing leaves of a plan, in pieces: subtrees of the merge tree, or runs of leaves with cheap ends.

    With "dynamic" a piece is the next one of all leaves, and its size a share of what is left (guided
    self-scheduling: Polychronopoulos and Kuck, IEEE Trans. Comput. 36, 1425 (1987)): large at first, small at the
    end, so that nobody waits long for a slow worker. With "static" each worker has a contiguous share, as in the
    publications on parallel MDAnalysis.

    Pieces end where compressed chunks do, or files. Where no leaf ends with a chunk, a chunk at the end of a piece is
    decoded twice: then pieces have three chunks, or one at the least, so that each worker gets one. Only where there
    are fewer chunks than half the workers several decode the same one, as that takes no longer. With "static" a share
    is one piece where cuts may cost something.

    Parameters
    ----------
    n_leaves : int
        Of the whole plan.
    missing : list of (start, stop)
        Leaves that are to be run.
    n_workers : int
    schedule : {"dynamic", "static"}
    oversubscribe : int
        Pieces that a worker gets at the least, where there are leaves and chunks enough.
    ahead : int
        Pieces that a worker holds at a time: one that is slow keeps all of them.
    limit : PieceLimit, optional
        How much a worker may gather before it hands it over.
    least_seconds : float
        What a piece of "dynamic" should take at the least, by what pieces have cost so far: for workers that cost a
        while to talk to. Each worker still gets one, as long as there are enough.
    cuts : Cuts, optional
        What it costs to cut before each leaf, from `Plan.cuts`; without it all cuts are alike.
    threads : int
        Threads of a worker, which share a piece.
    whole : bool
        Pieces are not cut to single subtrees, nor by `limit`, nor moved to cheap ends: what is loaded into memory is
        loaded at once, and the plan has reckoned with pieces of equal size.

    Attributes
    ----------
    left : int
        Leaves that have not been handed out.
    decoded_twice : int
        Frames that are decoded once more because chunks lie across the ends of the pieces so far.
    """

    def __init__(
        self,
        n_leaves: int,
        missing: Sequence[Leaves],
        n_workers: int,
        *,
        schedule: Schedule = "dynamic",
        oversubscribe: int = DEFAULT_PIECES,
        ahead: int = 1,
        limit: PieceLimit | None = None,
        least_seconds: float = 0.0,
        cuts: _core.Cuts | None = None,
        threads: int = 1,
        whole: bool = False,
    ) -> None:
        self.left = sum(stop - start for start, stop in missing)
        self.decoded_twice = 0
        self._n_leaves = n_leaves
        self._cuts = _core.Cuts() if cuts is None else cuts
        self._threads = threads
        self._pace = Pace(limit)
        self._least_seconds = least_seconds
        self._shares = oversubscribe * ahead
        self._n_workers = n_workers
        self._whole = whole
        self._static = schedule == "static"
        if self._static:
            self._queues = _contiguous_shares(missing, n_workers, _core.Cuts() if whole else self._cuts)
        else:
            self._queues = [deque(missing)]
        # "static": small pieces would gain nothing but news of what is done
        pieces = 1 if self._cuts.cost_something and not whole else oversubscribe
        shares = [sum(stop - start for start, stop in queue) for queue in self._queues]
        self._even = [-(-share // pieces) if whole else share // pieces for share in shares]
        self._fair = self.left // n_workers

    def take(self, worker: int) -> Leaves | None:
        """The next piece of a worker, or None where none is left for it."""
        number = worker if self._static else 0
        queue = self._queues[number]
        if not queue:
            return None
        first, end = queue[0]
        share = self._even[number] if self._static else self._share()
        if self._whole:
            piece = (first, min(end, first + max(1, share)))
        else:
            piece = self.cut((first, end), share, self._pace.longest())
        self.left -= piece[1] - first
        self.decoded_twice += self._cuts.cost(piece[1])
        if piece[1] == end:
            queue.popleft()
        else:
            queue[0] = (piece[1], end)
        return piece

    def cut(self, leaves: Leaves, share: int, longest: int | None) -> Leaves:
        """The first of some leaves as a piece of about `share` leaves, and `longest` at the most.

        A subtree of the merge tree where all cuts are alike; else it ends where least is decoded twice.
        """
        first, end = leaves
        if self._cuts.are_alike:
            return _aligned_piece(first, end, min(share, longest or share), self._n_leaves)
        left = self._fair if self._static else self.left // self._n_workers
        return first, self._cuts.end_of_piece(
            leaves, share=share, most=longest, fair=self._fair, left=left, threads=self._threads
        )

    def _share(self) -> int:
        """Leaves of the next piece of "dynamic"."""
        least = min(self._pace.leaves_in(self._least_seconds), self.left // self._n_workers)
        return max(least, self.left // (self._shares * self._n_workers))

    def account(self, leaves: int, seconds: float, size: int) -> None:
        """What a piece of so many leaves has cost: wall time, bytes that came back."""
        self._pace.account(leaves, seconds, size)

    def all_pieces(self) -> list[Leaves]:
        """All that are left, in order; for runners whose workers take those of "dynamic" by number."""
        found: list[Leaves] = []
        for worker in range(len(self._queues)):
            while (piece := self.take(worker)) is not None:
                found.append(piece)
        return found


class Pace:
    """How many leaves cost as much as a limit allows, by what those before have cost."""

    def __init__(self, limit: PieceLimit | None) -> None:
        self._limit = limit
        self._leaves = 0
        self._seconds = 0.0
        self._bytes = 0

    def account(self, leaves: int, seconds: float, size: int) -> None:
        """What a piece has cost: wall time, bytes of its nodes."""
        self._leaves += leaves
        self._seconds += seconds
        self._bytes += size

    def leaves_in(self, seconds: float) -> int:
        """Leaves that take so long; none where nothing is known yet."""
        return int(min(seconds * self._leaves / max(self._seconds, 1e-9), 1 << 62))

    def longest(self) -> int | None:
        """Leaves of a piece at the most: one where nothing is known yet, None where there is no limit."""
        if self._limit is None:
            return None
        if not self._leaves:
            return 1
        by_time = self._limit.seconds * self._leaves / max(self._seconds, 1e-9)
        by_size = self._limit.bytes * self._leaves / max(self._bytes, 1)
        return int(max(1, min(by_time, by_size, 1 << 62)))


def _aligned_piece(first: int, end: int, most: int, n_leaves: int) -> Leaves:
    """The largest subtree of the merge tree that begins with a leaf, has `most` leaves or fewer and ends by `end`."""
    size = 1 << (max(1, most).bit_length() - 1)
    if first:
        size = min(size, first & -first)
    # the tree's last nodes may lack leaves, others may not
    while first + size > end != n_leaves:
        size //= 2
    return first, min(first + size, end)


def _contiguous_shares(missing: Sequence[Leaves], n_workers: int, cuts: _core.Cuts) -> list[deque[Leaves]]:
    """The missing leaves, divided among the workers in order; a cut is moved by a quarter of a share to a cheap one."""
    total = sum(stop - start for start, stop in missing)
    share = total / n_workers
    queues: list[deque[Leaves]] = [deque() for _ in range(n_workers)]
    bounds = [0, *(round(worker * share) for worker in range(1, n_workers)), total]
    before = 0
    for start, stop in missing:
        # as numbers among the missing leaves
        inside = [before < bound < before + stop - start for bound in bounds]
        for number in [number for number, there in enumerate(inside) if there]:
            moved = before + cuts.between_shares(start + bounds[number] - before, int(share)) - start
            bounds[number] = min(max(moved, before), before + stop - start)
        before += stop - start
    before = 0
    for start, stop in missing:
        for queue, (lower, upper) in zip(queues, pairwise(bounds), strict=True):
            first = max(start, start + lower - before)
            last = min(stop, start + upper - before)
            if first < last:
                queue.append((first, last))
        before += stop - start
    return queues


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
    """

    def __init__(self, worker: int, threads: int = 1, node: str = "") -> None:
        self.worker = worker
        self.threads = threads
        self.node = node
        self.start: float | None = None
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
        blocks = timings["blocks"]
        blocks[:, BLOCK_COLUMNS.index("worker")] = self.worker
        self.blocks.append(blocks)

    def timings(self, wall: float) -> WorkerTimings:
        """Where its time went, in a round of `wall` seconds. A worker that was never ready has but started."""
        start = wall if self.start is None else min(self.start, wall)
        sums = self._sums
        idle = max(0.0, wall - start - self._busy - self.communicate - self.close)
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
