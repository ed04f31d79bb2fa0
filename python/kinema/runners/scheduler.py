"""Scheduling of a pass: `SchedulePolicy` (user's options), `WorkPlan` (sent to each worker), `Scheduler` (pieces)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from kinema import _core
from kinema.base.choices import SCHEDULE, Schedule, check_choice
from kinema.base.errors import ArgumentError, InternalError
from kinema.model.selection.frames import FrameSelection
from kinema.runners.access import access_method
from kinema.runners.base import Job, PassRequest
from kinema.runners.reduction import Leaves, PieceLimit, Reduction

__all__ = [
    "DEFAULT_PIECES",
    "RateEstimate",
    "Schedule",
    "SchedulePolicy",
    "Scheduler",
    "WorkPlan",
]

# least number of pieces for each worker, if all have the same speed
DEFAULT_PIECES = 4


class SchedulePolicy:
    """The user's scheduling options; raises ArgumentError for an unknown name, and for less than one piece a worker.

    None: dynamic, with DEFAULT_PIECES. If the access method loads whole pieces: static, with one piece a worker. If its
    reads are collective: static, and nothing else is allowed.
    """

    def __init__(self, schedule: str | None, oversubscribe: int | None) -> None:
        if schedule is not None:
            check_choice("schedule", schedule, SCHEDULE)
        pieces = oversubscribe
        if pieces is not None and (isinstance(pieces, bool) or not isinstance(pieces, int) or pieces < 1):
            raise ArgumentError(f"oversubscribe is a number of pieces a worker, from 1 on, found {oversubscribe!r}")
        self._schedule = schedule
        self._oversubscribe = oversubscribe

    def schedule(self, access: str) -> Schedule:
        """How pieces are assigned to workers."""
        method = access_method(access)
        if self._schedule is None:
            return "static" if method.loads_pieces or method.collective else "dynamic"
        if self._schedule == "dynamic" and method.collective:
            raise ArgumentError(
                f"with access {access!r} nobody reads ahead of the others: schedule 'dynamic' gains nothing"
            )
        return "static" if self._schedule == "static" else "dynamic"

    def oversubscribe(self, access: str) -> int:
        """Least number of pieces for each worker."""
        if self._oversubscribe is None:
            return 1 if access_method(access).loads_pieces else DEFAULT_PIECES
        return self._oversubscribe

    def divide(
        self, request: PassRequest, *, workers: int, threads: int, memory: int
    ) -> tuple[WorkPlan, _core.Plan, Reduction]:
        """Divides a pass among at most `workers` workers, which have `memory` bytes together; returns the work plan,
        the plan of the whole pass, and the tree."""
        schedule, oversubscribe = self.schedule(request.access), self.oversubscribe(request.access)
        n_pieces = workers * threads * oversubscribe
        plan = request.plan(memory=memory, workers=workers * threads, pieces=n_pieces)
        used = max(1, plan.workers // threads)
        reduction = request.reduction or Reduction(plan, request.kernels)
        work_plan = WorkPlan(
            frames=request.frames,
            n_leaves=plan.n_leaves,
            missing=reduction.missing,
            workers=used,
            threads=threads,
            memory=memory // used,
            access=access_method(request.access).plan_access,
            n_pieces=n_pieces,
            schedule=schedule,
            oversubscribe=oversubscribe,
        )
        return work_plan, plan, reduction


@dataclass(frozen=True, eq=False)
class WorkPlan:
    """Division of a pass, sent to every worker so that all make the same plan. It holds no handle.

    `missing`: list of (start, stop); leaves to be run.
    `workers`, `threads`: workers that get leaves, and the threads of each.
    `memory`: bytes of one worker.
    `access`: access method of plans (`AccessMethod.plan_access`).
    `n_pieces`: pieces for all threads of the requested workers; it determines how much "in-memory" loads at a time.
    `schedule`, `oversubscribe`: as in `Scheduler`.
    """

    frames: FrameSelection
    n_leaves: int
    missing: list[Leaves]
    workers: int
    threads: int
    memory: int
    access: str
    n_pieces: int
    schedule: Schedule
    oversubscribe: int

    @property
    def loads(self) -> bool:
        """Whether each piece is loaded into memory as a whole, and so is never cut."""
        return access_method(self.access).loads_pieces

    def plan(self, trajectory: _core.Trajectory, jobs: Sequence[Job]) -> _core.Plan:
        """The plan of one worker; raises InternalError if its leaves differ from those of the whole pass."""
        plan = _core.Plan(
            trajectory,
            self.frames,
            jobs,
            memory=self.memory,
            workers=self.threads,
            access=self.access,
            pieces=self.n_pieces,
        )
        if plan.n_leaves != self.n_leaves:
            raise InternalError(f"a worker plans otherwise, expected {self.n_leaves} leaves, found {plan.n_leaves}")
        return plan

    def piece_scheduler(
        self, cuts: _core.Partition, *, ahead: int = 1, limit: PieceLimit | None = None, least_seconds: float = 0.0
    ) -> Scheduler:
        """The scheduler of the pieces. Without a limit and a least duration it gives the same pieces in every
        process."""
        return Scheduler(
            self.n_leaves,
            self.missing,
            self.workers,
            schedule=self.schedule,
            oversubscribe=self.oversubscribe,
            ahead=ahead,
            limit=limit,
            least_seconds=0.0 if self.loads else least_seconds,
            cuts=cuts,
            threads=self.threads,
            whole=self.loads,
        )


class Scheduler:
    """Assigns the missing leaves of a plan, in pieces: subtrees of the merge tree, or runs of leaves with cheap ends.

    With "dynamic" a worker gets the next piece of all leaves, whose size is a share of the leaves that are left (guided
    self-scheduling: Polychronopoulos and Kuck, IEEE Trans. Comput. 36, 1425 (1987)): pieces are large at first and
    small at the end, so that no worker waits long for a slow one. With "static" each worker has a contiguous share, as
    in the publications on parallel MDAnalysis.

    Pieces end where compressed chunks or files end. If no leaf ends with a chunk, a chunk at the end of a piece is
    decoded twice: then pieces have three chunks, or at least one, so that each worker gets a piece. If there are fewer
    chunks than half the workers, several workers decode the same chunk, because that takes no longer. With "static" a
    share is one piece if cuts may cost something.

    `missing`: list of (start, stop); leaves to be run.
    `oversubscribe`: least number of pieces for each worker, if there are enough leaves and chunks.
    `ahead`: pieces that a worker holds at a time: a slow worker keeps all of them.
    `limit`: limits on the work that a worker may do before it sends its nodes.
    `least_seconds`: least time that a piece of "dynamic" should take, estimated from earlier pieces: for workers that
        are slow to communicate with. Each worker still gets a piece, as long as there are enough.
    `cuts`: cost of a cut before each leaf, from `Plan.partition`; without it all cuts are alike.
    `threads`: threads of a worker, which share a piece.
    `whole`: pieces are not cut to single subtrees, nor by `limit`, nor moved to cheap ends: each is loaded into memory
        as a whole, and the plan assumes pieces of equal size.

    `left`: leaves that are not assigned yet.
    `decoded_twice`: frames that are decoded again because chunks lie across the ends of the pieces so far.
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
        cuts: _core.Partition | None = None,
        threads: int = 1,
        whole: bool = False,
    ) -> None:
        self.left = sum(stop - start for start, stop in missing)
        self.decoded_twice = 0
        self._n_leaves = n_leaves
        self._cuts = _core.Partition() if cuts is None else cuts
        self._threads = threads
        self._rate = RateEstimate(limit)
        self._least_seconds = least_seconds
        self._shares = oversubscribe * ahead
        self._n_workers = n_workers
        self._whole = whole
        self._static = schedule == "static"
        if self._static:
            self._queues = _contiguous_shares(missing, n_workers, _core.Partition() if whole else self._cuts)
        else:
            self._queues = [deque(missing)]
        # "static": small pieces would only give earlier reports of progress
        pieces = 1 if self._cuts.has_costs and not whole else oversubscribe
        shares = [sum(stop - start for start, stop in queue) for queue in self._queues]
        self._even = [-(-share // pieces) if whole else share // pieces for share in shares]
        self._fair = self.left // n_workers

    def take(self, worker: int) -> Leaves | None:
        """The next piece for a worker, or None if none is left for it."""
        number = worker if self._static else 0
        queue = self._queues[number]
        if not queue:
            return None
        first, end = queue[0]
        share = self._even[number] if self._static else self._share()
        if self._whole:
            piece = (first, min(end, first + max(1, share)))
        else:
            piece = self.cut((first, end), share, self._rate.longest())
        self.left -= piece[1] - first
        self.decoded_twice += self._cuts.cost(piece[1])
        if piece[1] == end:
            queue.popleft()
        else:
            queue[0] = (piece[1], end)
        return piece

    def cut(self, leaves: Leaves, share: int, longest: int | None) -> Leaves:
        """Cuts a piece of about `share` leaves, and at most `longest`, from the start of some leaves.

        If all cuts are alike, the piece is a subtree of the merge tree; else it ends where least is decoded twice.
        """
        first, end = leaves
        if self._cuts.is_uniform:
            return _aligned_piece(first, end, min(share, longest or share), self._n_leaves)
        left = self._fair if self._static else self.left // self._n_workers
        return first, self._cuts.task_end(
            leaves, share=share, most=longest, fair=self._fair, left=left, threads=self._threads
        )

    def _share(self) -> int:
        """Number of leaves of the next "dynamic" piece."""
        least = min(self._rate.leaves_in(self._least_seconds), self.left // self._n_workers)
        return max(least, self.left // (self._shares * self._n_workers))

    def record(self, leaves: int, seconds: float, size: int) -> None:
        """Records the cost of a piece of `leaves` leaves: wall time, bytes of its nodes."""
        self._rate.record(leaves, seconds, size)

    def all_pieces(self) -> list[Leaves]:
        """All pieces that are left, in order; for runners whose workers take "dynamic" pieces by number."""
        pieces: list[Leaves] = []
        for worker in range(len(self._queues)):
            while (piece := self.take(worker)) is not None:
                pieces.append(piece)
        return pieces


class RateEstimate:
    """Estimates from the cost of earlier leaves how many leaves a limit allows."""

    def __init__(self, limit: PieceLimit | None) -> None:
        self._limit = limit
        self._leaves = 0
        self._seconds = 0.0
        self._bytes = 0

    def record(self, leaves: int, seconds: float, size: int) -> None:
        """Records the cost of a piece: wall time, bytes of its nodes."""
        self._leaves += leaves
        self._seconds += seconds
        self._bytes += size

    def leaves_in(self, seconds: float) -> int:
        """Number of leaves that take `seconds`; 0 if no cost is known yet."""
        return int(min(seconds * self._leaves / max(self._seconds, 1e-9), 1 << 62))

    def longest(self) -> int | None:
        """Most leaves of a piece: 1 if no cost is known yet, None if there is no limit."""
        if self._limit is None:
            return None
        if not self._leaves:
            return 1
        by_time = self._limit.seconds * self._leaves / max(self._seconds, 1e-9)
        by_size = self._limit.bytes * self._leaves / max(self._bytes, 1)
        return int(max(1, min(by_time, by_size, 1 << 62)))


def _aligned_piece(first: int, end: int, most: int, n_leaves: int) -> Leaves:
    """The largest subtree of the merge tree that begins with leaf `first`, has at most `most` leaves, and ends by
    `end`."""
    size = 1 << (max(1, most).bit_length() - 1)
    if first:
        size = min(size, first & -first)
    # the tree's last nodes may lack leaves, others may not
    while first + size > end != n_leaves:
        size //= 2
    return first, min(first + size, end)


def _contiguous_shares(missing: Sequence[Leaves], n_workers: int, cuts: _core.Partition) -> list[deque[Leaves]]:
    """The missing leaves, divided among the workers in order; a cut is moved by a quarter of a share to a cheap one."""
    total = sum(stop - start for start, stop in missing)
    share = total / n_workers
    queues: list[deque[Leaves]] = [deque() for _ in range(n_workers)]
    bounds = [0, *(round(worker * share) for worker in range(1, n_workers)), total]
    before = 0
    for start, stop in missing:
        # positions among the missing leaves
        inside = [before < bound < before + stop - start for bound in bounds]
        for number in [number for number, there in enumerate(inside) if there]:
            moved = before + cuts.share_boundary(start + bounds[number] - before, int(share)) - start
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
