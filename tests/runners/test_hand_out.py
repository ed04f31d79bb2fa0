"""Pieces of work: all leaves once, each piece a subtree, and no long wait for a slow worker (on a simulated clock)."""

from __future__ import annotations

import heapq
from collections import deque
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinema as kn
from kinema.errors import ArgumentError
from kinema.runners.gathering import PieceLimit
from kinema.runners.hand_out import DEFAULT_PIECES, Dealing, HandOut, Schedule, part_cuts
from kinema.testing import random_walk, write_dcd


def _all(hand_out: HandOut, n_workers: int) -> list[list[tuple[int, int]]]:
    """What each worker gets where they ask in turn."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(n_workers)]
    asking = set(range(n_workers))
    while asking:
        for worker in sorted(asking):
            piece = hand_out.take(worker)
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
        hand_out = HandOut(n_leaves, missing, n_workers, schedule=schedule)
        pieces = sorted(piece for one in _all(hand_out, n_workers) for piece in one)
        wanted = [leaf for start, stop in missing for leaf in range(start, stop)]
        assert [leaf for first, stop in pieces for leaf in range(first, stop)] == wanted
        assert hand_out.left == 0
        assert all(_is_subtree(piece, n_leaves) for piece in pieces)


def test_static_shares_are_contiguous_and_equal() -> None:
    shares = _all(HandOut(1000, [(0, 1000)], 7, schedule="static"), 7)
    at = 0
    for share in shares:
        assert share[0][0] == at
        at = share[-1][1]
        assert all(one[1] == other[0] for one, other in pairwise(share))
        assert sum(stop - start for start, stop in share) in (142, 143)


def test_static_shares_begin_with_files_where_these_are_near() -> None:
    shares = _all(HandOut(100, [(0, 100)], 4, schedule="static", cuts=[27, 40, 76]), 4)
    assert [share[0][0] for share in shares] == [0, 27, 50, 76]


def test_cuts_are_the_leaves_with_which_files_begin(tmp_path: Path) -> None:
    names = [tmp_path / f"{name}.dcd" for name in "abc"]
    for name in names:
        write_dcd(name, random_walk(40, 3))
    traj = kn.open(names, overlap="all")
    traj.scan()
    assert part_cuts(traj.core, (0, 1, 120), 10) == [4, 8]
    assert part_cuts(traj.core, (20, 1, 50), 10) == [2]
    assert part_cuts(traj.core, (0, 2, 60), 10) == [2, 4]
    assert part_cuts(traj.core, (119, -1, 120), 10) == []


@pytest.mark.parametrize("n_leaves", [512, 1000, 4096])
@pytest.mark.parametrize("ahead", [1, 2])
def test_oversubscribe_is_a_least_number_of_pieces(n_leaves: int, ahead: int) -> None:
    for pieces in (1, 3, 8):
        schedules: tuple[Schedule, ...] = ("dynamic", "static")
        for schedule in schedules:
            made = HandOut(n_leaves, [(0, n_leaves)], 4, schedule=schedule, oversubscribe=pieces, ahead=ahead)
            assert min(map(len, _all(made, 4))) >= pieces, schedule


def test_a_limit_is_heeded_as_soon_as_the_cost_is_known() -> None:
    hand_out = HandOut(1024, [(0, 1024)], 2, limit=PieceLimit(seconds=1.0, bytes=1 << 20))
    assert hand_out.take(0) == (0, 1)
    assert hand_out.take(1) == (1, 2)
    hand_out.account(1, seconds=0.1, size=100)
    first, stop = hand_out.take(0) or (0, 0)
    assert 1 <= stop - first <= 10
    hand_out.account(1, seconds=0.0, size=1 << 19)
    for _ in range(20):
        first, stop = hand_out.take(1) or (0, 0)
        assert 1 <= stop - first <= 3


def test_pieces_take_a_least_time() -> None:
    hand_out = HandOut(1000, [(0, 1000)], 2, oversubscribe=8, least_seconds=1.0)
    first = hand_out.take(0)
    # nothing is known yet
    assert first == (0, 32)
    hand_out.account(32, seconds=0.25, size=1)
    pieces = hand_out.all_pieces()
    # 128 leaves take a second; at the end there is still one for each worker
    assert max(stop - start for start, stop in pieces) == 128
    assert len(pieces) < 25
    assert [leaf for start, stop in pieces for leaf in range(start, stop)] == list(range(32, 1000))


def _simulated(schedule: Schedule, speeds: list[float], n_leaves: int, ahead: int) -> float:
    """When the last worker ends, as a multiple of the least possible; a leaf takes a worker 1/speed."""
    hand_out = HandOut(n_leaves, [(0, n_leaves)], len(speeds), schedule=schedule, ahead=ahead)
    held: list[deque[tuple[int, int]]] = [deque() for _ in speeds]
    events = [(0.0, worker) for worker in range(len(speeds))]
    end = 0.0
    while events:
        now, worker = heapq.heappop(events)
        end = max(end, now)
        # what is held is filled up whenever a piece is done, as the runners do
        while len(held[worker]) < ahead and (piece := hand_out.take(worker)) is not None:
            held[worker].append(piece)
        if held[worker]:
            first, stop = held[worker].popleft()
            heapq.heappush(events, (now + (stop - first) / speeds[worker], worker))
    assert hand_out.left == 0
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


def test_names_and_numbers_are_checked() -> None:
    told = Dealing("static", None)
    assert (told.schedule("direct"), told.oversubscribe("direct")) == ("static", DEFAULT_PIECES)
    told = Dealing("dynamic", 7)
    assert (told.schedule("in-memory"), told.oversubscribe("in-memory")) == ("dynamic", 7)
    usual = Dealing(None, None)
    assert (usual.schedule("frame"), usual.oversubscribe("frame")) == ("dynamic", DEFAULT_PIECES)
    # what is loaded is loaded once
    assert (usual.schedule("in-memory"), usual.oversubscribe("in-memory")) == ("static", 1)
    with pytest.raises(ArgumentError, match="'dynamic' or 'static', found 'guided'"):
        Dealing("guided", None)
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(ArgumentError, match="number of pieces"):
            Dealing("dynamic", wrong)  # type: ignore[arg-type]


@given(n_leaves=st.integers(1, 300), n_workers=st.integers(1, 7), oversubscribe=st.integers(1, 5), static=st.booleans())
def test_whole_pieces_are_no_larger_than_reckoned_and_one_a_worker_is_its_share(
    n_leaves: int, n_workers: int, oversubscribe: int, static: bool
) -> None:
    schedule: Schedule = "static" if static else "dynamic"
    hand_out = HandOut(
        n_leaves, [(0, n_leaves)], n_workers, schedule=schedule, oversubscribe=oversubscribe, cuts=[1, 5, 50],
        whole=True, limit=PieceLimit(1.0, 1),
    )  # fmt: skip
    pieces = [piece for found in _all(hand_out, n_workers) for piece in found]
    assert sorted(leaf for first, stop in pieces for leaf in range(first, stop)) == list(range(n_leaves))
    # what the core's plan makes room for
    assert max(stop - first for first, stop in pieces) <= -(-n_leaves // (n_workers * oversubscribe))
    if static and oversubscribe == 1:
        assert len(pieces) == min(n_workers, n_leaves)
