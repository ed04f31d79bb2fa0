"""Pieces of work: all leaves once, cheap ends, and no long wait for a slow worker (on a simulated clock).

How often chunks of real files are decoded is tested in `test_chunks`.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinema as kn
from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.base.timings import PHASES
from kinema.model.selection.frames import FrameSelection
from kinema.runners.reduction import PieceLimit
from kinema.runners.scheduler import DEFAULT_PIECES, Schedule, SchedulePolicy, Scheduler
from kinema.runners.worker_timer import WorkerTimer, pass_timings
from kinema.testing import random_walk, write_dcd


def _all(piece_scheduler: Scheduler, n_workers: int) -> list[list[tuple[int, int]]]:
    """Pieces of each worker if all ask in turn."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(n_workers)]
    asking = set(range(n_workers))
    while asking:
        for worker in sorted(asking):
            piece = piece_scheduler.take(worker)
            if piece is None:
                asking.discard(worker)
            else:
                found[worker].append(piece)
    return found


def _is_subtree(piece: tuple[int, int], n_leaves: int) -> bool:
    first, stop = piece
    size = 1 << (stop - first - 1).bit_length()
    return first % size == 0 and (size == stop - first or stop == n_leaves)


@pytest.mark.parametrize("schedule", ["dynamic", "static"])
@pytest.mark.parametrize("n_workers", [1, 2, 5])
@pytest.mark.parametrize("n_leaves", [1, 2, 3, 7, 64, 100, 1001])
def test_pieces_are_subtrees_that_cover_all_leaves(n_leaves: int, n_workers: int, schedule: Schedule) -> None:
    for missing in ([(0, n_leaves)], [(n // 3, n // 2) for n in [n_leaves] if n // 3 < n // 2]):
        piece_scheduler = Scheduler(n_leaves, missing, n_workers, schedule=schedule)
        pieces = sorted(piece for one in _all(piece_scheduler, n_workers) for piece in one)
        wanted = [leaf for start, stop in missing for leaf in range(start, stop)]
        assert [leaf for first, stop in pieces for leaf in range(first, stop)] == wanted
        assert piece_scheduler.left == 0
        assert all(_is_subtree(piece, n_leaves) for piece in pieces)


def test_static_shares_are_contiguous_and_equal() -> None:
    shares = _all(Scheduler(1000, [(0, 1000)], 7, schedule="static"), 7)
    at = 0
    for share in shares:
        assert share[0][0] == at
        at = share[-1][1]
        assert all(one[1] == other[0] for one, other in pairwise(share))
        assert sum(stop - start for start, stop in share) in (142, 143)


def test_static_shares_begin_with_files_where_these_are_near() -> None:
    cuts = _core.Partition(100, 1, file_starts=[76, 27, 40])
    shares = _all(Scheduler(100, [(0, 100)], 4, schedule="static", cuts=cuts), 4)
    assert [share[0][0] for share in shares] == [0, 27, 50, 76]


def test_pieces_begin_with_files_where_these_are_near() -> None:
    starts = list(range(13, 1000, 13))
    piece_scheduler = Scheduler(1000, [(0, 1000)], 4, cuts=_core.Partition(1000, 1, file_starts=starts))
    pieces = piece_scheduler.all_pieces()
    # from 13 leaves on there is one within a quarter of a piece
    large = [piece for piece in pieces if piece[1] - piece[0] > 32]
    assert len(large) > 5
    assert {end for _, end in large} <= set(starts)
    assert piece_scheduler.decoded_twice == 0


def _plan(trajectory: kn.Trajectory, frames: FrameSelection) -> _core.Plan:
    one = next(kn.analysis.RMSD(trajectory)._passes(frames))
    return _core.Plan(trajectory.core, frames, [(one.kernel, tuple(one.transforms))], workers=1)


def test_cuts_are_the_leaves_with_which_files_begin(tmp_path: Path) -> None:
    names = [tmp_path / f"{name}.dcd" for name in "abc"]
    for name in names:
        write_dcd(name, random_walk(1200, 3))
    traj = kn.open(names, overlap="all")
    traj.scan()
    cases: list[tuple[FrameSelection, tuple[int, ...]]] = [
        (FrameSelection(range(3600)), (1200, 2400)),
        (FrameSelection(range(700, 2200)), (500,)),
        (FrameSelection(range(0, 3600, 2)), (600, 1200)),
        (FrameSelection(range(3600)[::-1]), (1200, 2400)),
        (FrameSelection(np.r_[0:1000, 3000:3600].astype(np.uint64)), (1000,)),
    ]
    for frames, position in cases:
        plan = _plan(traj, frames)
        assert plan.leaf_frames >= 4
        cuts = plan.partition(traj.core)
        nearest = [(2 * at + plan.leaf_frames - 1) // (2 * plan.leaf_frames) for at in position]
        assert cuts.file_starts == nearest
        assert not cuts.has_costs
        assert not cuts.is_uniform


@pytest.mark.parametrize("n_leaves", [512, 1000, 4096])
@pytest.mark.parametrize("ahead", [1, 2])
def test_oversubscribe_is_a_least_number_of_pieces(n_leaves: int, ahead: int) -> None:
    for pieces in (1, 3, 8):
        schedules: tuple[Schedule, ...] = ("dynamic", "static")
        for schedule in schedules:
            made = Scheduler(n_leaves, [(0, n_leaves)], 4, schedule=schedule, oversubscribe=pieces, ahead=ahead)
            assert min(map(len, _all(made, 4))) >= pieces, schedule


def test_a_limit_is_heeded_as_soon_as_the_cost_is_known() -> None:
    piece_scheduler = Scheduler(1024, [(0, 1024)], 2, limit=PieceLimit(seconds=1.0, bytes=1 << 20))
    assert piece_scheduler.take(0) == (0, 1)
    assert piece_scheduler.take(1) == (1, 2)
    piece_scheduler.record(1, seconds=0.1, size=100)
    first, stop = piece_scheduler.take(0) or (0, 0)
    assert 1 <= stop - first <= 10
    piece_scheduler.record(1, seconds=0.0, size=1 << 19)
    for _ in range(20):
        first, stop = piece_scheduler.take(1) or (0, 0)
        assert 1 <= stop - first <= 3


def test_pieces_take_a_least_time() -> None:
    piece_scheduler = Scheduler(1000, [(0, 1000)], 2, oversubscribe=8, least_seconds=1.0)
    first = piece_scheduler.take(0)
    # nothing is known yet
    assert first == (0, 32)
    piece_scheduler.record(32, seconds=0.25, size=1)
    pieces = piece_scheduler.all_pieces()
    # 128 leaves take a second; at the end there is still one for each worker
    assert max(stop - start for start, stop in pieces) == 128
    assert len(pieces) < 25
    assert [leaf for start, stop in pieces for leaf in range(start, stop)] == list(range(32, 1000))


class _Chunks:
    """Chunks of `chunk` frames, of which leaves of `leaf` frames are made."""

    def __init__(self, n_leaves: int, leaf: int, chunk: int) -> None:
        self.n_leaves, self.leaf, self.chunk = n_leaves, leaf, chunk
        costs = [chunk if at * leaf % chunk else 0 for at in range(n_leaves)]
        self.cuts = _core.Partition(n_leaves, leaf, costs)

    def decoded(self, piece: tuple[int, int]) -> int:
        """Chunks that a piece decodes."""
        first, stop = piece[0] * self.leaf, piece[1] * self.leaf
        return -(-stop // self.chunk) - first // self.chunk

    @property
    def all(self) -> int:
        return -(-self.n_leaves * self.leaf // self.chunk)


@given(
    n_leaves=st.integers(1, 300),
    leaf=st.sampled_from([1, 4, 16, 256]),
    chunk=st.integers(1, 6000),
    starts=st.lists(st.integers(1, 299), max_size=5),
    done=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 40)), max_size=3),
    n_workers=st.integers(1, 6),
    schedule=st.sampled_from(["dynamic", "static"]),
    ahead=st.integers(1, 2),
    threads=st.integers(1, 3),
    limited=st.booleans(),
)
def test_any_chunks_and_files(
    n_leaves: int,
    leaf: int,
    chunk: int,
    starts: list[int],
    done: list[tuple[int, int]],
    n_workers: int,
    schedule: Schedule,
    ahead: int,
    threads: int,
    limited: bool,
) -> None:
    chunks = _Chunks(n_leaves, leaf, chunk)
    costs = [chunks.cuts.cost(at) for at in range(n_leaves)]
    cuts = _core.Partition(n_leaves, leaf, costs, [start for start in starts if start < n_leaves])
    left = [True] * n_leaves
    for start, length in done:
        left[start : start + length] = [False] * len(left[start : start + length])
    edges = np.flatnonzero(np.diff([False, *left, False]))
    missing = [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]
    limit = PieceLimit(seconds=1.0, bytes=1 << 30) if limited else None
    piece_scheduler = Scheduler(
        n_leaves, missing, n_workers, schedule=schedule, ahead=ahead, limit=limit, cuts=cuts, threads=threads
    )
    found: list[tuple[int, int]] = []
    asking = set(range(n_workers))
    while asking:
        for worker in sorted(asking):
            piece = piece_scheduler.take(worker)
            if piece is None:
                asking.discard(worker)
                continue
            assert not limited or piece[1] - piece[0] <= (5 if found else 1)
            found.append(piece)
            # a fifth of the limit each
            piece_scheduler.record(piece[1] - piece[0], seconds=0.2 * (piece[1] - piece[0]), size=1)
    wanted = [at for start, stop in missing for at in range(start, stop)]
    assert [at for first, stop in sorted(found) for at in range(first, stop)] == wanted
    assert piece_scheduler.left == 0
    if schedule == "dynamic":
        assert found == sorted(found)
    assert piece_scheduler.decoded_twice == sum(chunks.cuts.cost(stop) for _, stop in found)
    if schedule == "dynamic" and not limited and not done and -(-chunk // leaf) < 2 * (n_leaves // n_workers):
        # every piece is worth its cut
        assert all((stop - first) * leaf >= chunk for first, stop in found if cuts.cost(stop))


@pytest.mark.parametrize("schedule", ["dynamic", "static"])
@pytest.mark.parametrize("chunk", [64, 1280, 5120, 2560 * 3])
def test_chunks_that_end_with_leaves_are_never_cut(chunk: int, schedule: Schedule) -> None:
    chunks = _Chunks(1000, 256, chunk)
    piece_scheduler = Scheduler(1000, [(0, 1000)], 4, schedule=schedule, cuts=chunks.cuts)
    pieces = [piece for one in _all(piece_scheduler, 4) for piece in one]
    assert sum(map(chunks.decoded, pieces)) == chunks.all
    assert piece_scheduler.decoded_twice == 0
    # a share of "static" is one piece where cuts may cost something
    assert len(pieces) >= (4 if schedule == "static" and chunk > 256 else 16)


def test_few_chunks_and_many_workers() -> None:
    """Nobody is idle, as decoding what another decodes as well takes no longer; still no piece needs two chunks."""
    chunks = _Chunks(400, 256, 256 * 200)
    for schedule in ("dynamic", "static"):
        piece_scheduler = Scheduler(400, [(0, 400)], 8, schedule=schedule, cuts=chunks.cuts)  # type: ignore[arg-type]
        shares = _all(piece_scheduler, 8)
        assert all(shares)
        assert {chunks.decoded(piece) for one in shares for piece in one} == {1}
    # but none gets half a chunk where others get a whole one
    chunks = _Chunks(100, 256, 256 * 20)
    for schedule in ("dynamic", "static"):
        piece_scheduler = Scheduler(100, [(0, 100)], 8, schedule=schedule, cuts=chunks.cuts)  # type: ignore[arg-type]
        pieces = sorted(piece for one in _all(piece_scheduler, 8) for piece in one)
        assert pieces == [(0, 20), (20, 40), (40, 60), (60, 80), (80, 100)]


@pytest.mark.parametrize("schedule", ["dynamic", "static"])
@pytest.mark.parametrize(("n_leaves", "chunk"), [(391, 5000), (1954, 5000), (1000, 700), (1000, 300), (256, 100)])
def test_chunks_that_no_leaf_ends_with_are_decoded_little_more_than_once(
    n_leaves: int, chunk: int, schedule: Schedule
) -> None:
    chunks = _Chunks(n_leaves, 256, chunk)
    piece_scheduler = Scheduler(n_leaves, [(0, n_leaves)], 4, schedule=schedule, ahead=2, cuts=chunks.cuts)
    pieces = [piece for one in _all(piece_scheduler, 4) for piece in one]
    decoded = sum(map(chunks.decoded, pieces))
    regardless = Scheduler(n_leaves, [(0, n_leaves)], 4, schedule=schedule, ahead=2)
    before = sum(chunks.decoded(piece) for one in _all(regardless, 4) for piece in one)
    assert decoded <= before
    # the last pieces, one or more for each worker, have no three chunks
    assert decoded <= 1.34 * chunks.all + (8 if schedule == "dynamic" else 4)
    assert (decoded - chunks.all) * chunk == piece_scheduler.decoded_twice


def _simulated(
    schedule: Schedule, speeds: list[float], n_leaves: int, ahead: int, chunks: _Chunks | None = None
) -> float:
    """When the last worker ends, as a multiple of the least possible; a leaf takes a worker 1/speed."""
    cuts = None if chunks is None else chunks.cuts
    piece_scheduler = Scheduler(n_leaves, [(0, n_leaves)], len(speeds), schedule=schedule, ahead=ahead, cuts=cuts)
    held: list[deque[tuple[int, int]]] = [deque() for _ in speeds]
    events = [(0.0, worker) for worker in range(len(speeds))]
    end = 0.0
    while events:
        now, worker = heapq.heappop(events)
        end = max(end, now)
        # what is held is filled up whenever a piece is done, as the runners do
        while len(held[worker]) < ahead and (piece := piece_scheduler.take(worker)) is not None:
            held[worker].append(piece)
        if held[worker]:
            first, stop = held[worker].popleft()
            # chunks are decoded whole, and that takes all of the time
            work = stop - first if chunks is None else chunks.decoded((first, stop)) * chunks.chunk / chunks.leaf
            heapq.heappush(events, (now + work / speeds[worker], worker))
    assert piece_scheduler.left == 0
    return end / (n_leaves / sum(speeds))


@pytest.mark.parametrize("ahead", [1, 2])
@pytest.mark.parametrize("n_leaves", [1000, 5000])
def test_one_of_eight_workers_that_is_slow(n_leaves: int, ahead: int) -> None:
    speeds = [1.0] * 7 + [0.25]
    dynamic = _simulated("dynamic", speeds, n_leaves, ahead)
    static = _simulated("static", speeds, n_leaves, ahead)
    print(f"{n_leaves} leaves, {ahead} ahead: dynamic {dynamic:.3f}, static {static:.3f} of the ideal")
    assert 1.0 <= dynamic <= 1.15
    # what the slow worker's share takes it: an eighth at a quarter of the speed
    assert static == pytest.approx(7.25 / 8 * 4, rel=0.01)


@pytest.mark.parametrize("chunk", [100, 512, 1024, 5000])
def test_one_of_eight_workers_that_is_slow_with_chunks(chunk: int) -> None:
    speeds = [1.0] * 7 + [0.25]
    chunks = _Chunks(30_000, 256, chunk)
    dynamic = _simulated("dynamic", speeds, chunks.n_leaves, 1, chunks)
    print(f"chunks of {chunk} frames: dynamic {dynamic:.3f} of the ideal")
    assert 1.0 <= dynamic <= 1.15


def test_names_and_numbers_are_checked() -> None:
    told = SchedulePolicy("static", None)
    assert (told.schedule("direct"), told.oversubscribe("direct")) == ("static", DEFAULT_PIECES)
    told = SchedulePolicy("dynamic", 7)
    assert (told.schedule("in-memory"), told.oversubscribe("in-memory")) == ("dynamic", 7)
    usual = SchedulePolicy(None, None)
    assert (usual.schedule("frame"), usual.oversubscribe("frame")) == ("dynamic", DEFAULT_PIECES)
    # what is loaded is loaded once
    assert (usual.schedule("in-memory"), usual.oversubscribe("in-memory")) == ("static", 1)
    # nobody reads ahead of the others
    assert usual.schedule("hdf5-mpio-collective") == "static"
    with pytest.raises(ArgumentError, match=r"'hdf5-mpio-collective' .* 'dynamic' gains nothing"):
        told.schedule("hdf5-mpio-collective")
    with pytest.raises(ArgumentError, match="'dynamic' or 'static', found 'guided'"):
        SchedulePolicy("guided", None)
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(ArgumentError, match="number of pieces"):
            SchedulePolicy("dynamic", wrong)  # type: ignore[arg-type]


@given(n_leaves=st.integers(1, 300), n_workers=st.integers(1, 7), oversubscribe=st.integers(1, 5), static=st.booleans())
def test_whole_pieces_are_no_larger_than_reckoned_and_one_a_worker_is_its_share(
    n_leaves: int, n_workers: int, oversubscribe: int, static: bool
) -> None:
    schedule: Schedule = "static" if static else "dynamic"
    piece_scheduler = Scheduler(
        n_leaves, [(0, n_leaves)], n_workers, schedule=schedule, oversubscribe=oversubscribe,
        cuts=_core.Partition(n_leaves, 1, [7] * n_leaves, [1, 5, 50]),
        whole=True, limit=PieceLimit(1.0, 1),
    )  # fmt: skip
    pieces = [piece for found in _all(piece_scheduler, n_workers) for piece in found]
    assert sorted(leaf for first, stop in pieces for leaf in range(first, stop)) == list(range(n_leaves))
    # what the core's plan makes room for
    assert max(stop - first for first, stop in pieces) <= -(-n_leaves // (n_workers * oversubscribe))
    if static and oversubscribe == 1:
        assert len(pieces) == min(n_workers, n_leaves)


# -- sums of timings ----------------------------------------------------------------------------------------------


def _measured(wall: float) -> _core.RunTimings:
    """Timings from the core for a piece of one worker: no clock saw a tenth of a second of it."""
    worker = {
        "worker": 0, "open": 0.01, "io": 0.02, "decode": 0.04, "compute": 0.08, "wait": wall - 0.25, "total": wall,
        "cpu": 9.0, "frames": 7, "blocks": 2, "bytes_read": 100, "reads": 3,
    }  # fmt: skip
    blocks = np.array([[0, 5, 3, 0.0, 0.01, 0.01, 0.02], [0, 5, 4, 0.1, 0.02, 0.03, 0.06]])
    return {"wall": wall, "workers": [worker], "blocks": blocks}  # type: ignore[list-item]


def _worker_timer(threads: int = 1) -> WorkerTimer:
    """Ready after a second, two pieces of a second, a quarter of a second of messages, closed in an eighth."""
    worker_timer = WorkerTimer(3, threads, "node")
    worker_timer.start = 1.0
    worker_timer.add(_measured(1.0))
    worker_timer.add(_measured(1.0))
    worker_timer.communicate, worker_timer.close, worker_timer.cpu = 0.25, 0.125, 0.5
    return worker_timer


@pytest.mark.parametrize("threads", [1, 2])
def test_all_of_the_time_of_a_worker_is_somewhere(threads: int) -> None:
    found = _worker_timer(threads).timings(10.0)
    sums = {"open": 0.02, "io": 0.04, "decode": 0.08, "compute": 0.16}
    assert {name: getattr(found, name) for name in sums} == pytest.approx(sums)
    assert (found.start, found.communicate, found.close) == (1.0 * threads, 0.25 * threads, 0.125 * threads)
    assert (found.total, found.cpu) == (10.0 * threads, 0.5)
    # a worker without a clock for it has waited whenever it had no piece
    idle = 10.0 - 1.0 - 2.0 - 0.25 - 0.125
    assert found.wait == pytest.approx(1.5 + idle * threads)
    assert found.unaccounted == pytest.approx(2.0 * threads - 1.5 - sum(sums.values()))
    assert (found.worker, found.node, found.frames, found.blocks, found.bytes_read, found.reads) == (
        3, "node", 14, 4, 200, 6
    )  # fmt: skip


def test_a_worker_with_a_clock_for_waiting_has_waited_as_long_as_that_says() -> None:
    worker_timer = _worker_timer()
    worker_timer.waited, worker_timer.done_at = 0.5, 8.0
    found = worker_timer.timings(10.0)
    assert found.wait == pytest.approx(1.5 + 0.5 + 2.0)
    # the rest is told, and hidden nowhere
    assert found.unaccounted == pytest.approx(10.0 - sum(getattr(found, name) for name in PHASES))
    assert found.unaccounted == pytest.approx(0.2 + 10.0 - 1.0 - 2.0 - 0.25 - 0.125 - 2.5)
    # clocks that overlap make no more of the time than there is
    worker_timer.waited = 99.0
    assert worker_timer.timings(10.0).unaccounted == pytest.approx(0.2)


def test_a_worker_that_was_never_ready_has_but_started() -> None:
    found = WorkerTimer(0).timings(4.0)
    assert (found.start, found.wait, found.unaccounted, found.total) == (4.0, 0.0, 0.0, 4.0)
    # the leading process has planned for it, too
    worker_timer = WorkerTimer(0, 2)
    worker_timer.plan = 1.0
    found = worker_timer.timings(4.0)
    assert (found.plan, found.start, found.wait, found.unaccounted, found.total) == (2.0, 6.0, 0.0, 0.0, 8.0)


def test_a_round_has_all_workers_and_their_blocks() -> None:
    found = pass_timings([_worker_timer(), WorkerTimer(1), _worker_timer()], 10.0, 28, 4)
    assert [worker.worker for worker in found.workers] == [3, 1, 3]
    assert (found.wall, found.frames, found.restored, found.blocks.shape) == (10.0, 28, 4, (8, 7))
    # rows get the number of their worker
    assert set(found.blocks[:, 0]) == {3.0}


def test_a_clock_counts_what_is_in_its_block() -> None:
    worker_timer = WorkerTimer(0)
    for what in ("waited", "communicate", "close"):
        for _ in range(2):
            with worker_timer.counting(what):  # type: ignore[arg-type]
                time.sleep(0.01)
        assert (getattr(worker_timer, what) or 0.0) >= 0.02
