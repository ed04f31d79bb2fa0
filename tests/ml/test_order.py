"""The order of samples: every sample once, golden orders of version 1, chunks and ranks, uniformity."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinema.base.errors import ArgumentError, OutOfRangeError
from kinema.ml import Order
from kinema.ml.loading.permutation import derived_key, permuted

# Orders of version 1, written down once. Another order under the same version would make restarts of runs wrong: if the
# construction changes, it needs a new version, and the old one is kept for states that have it.
GOLDEN: list[tuple[dict[str, Any], str]] = [
    ({"n": 20}, "7 8 16 11 3 19 14 0 1 18 13 5 17 12 9 2 10 4 6 15"),
    ({"n": 20, "seed": 7, "epoch": 3}, "1 9 7 18 5 4 0 10 11 6 12 15 17 8 14 19 3 2 13 16"),
    (
        {"n": 24, "chunk": 3, "window": 6, "lanes": 2},
        "22 13 23 14 21 12 5 18 4 20 3 19 2 7 0 8 1 6 17 10 16 11 15 9",
    ),
    (
        {"n": 23, "chunk": 4, "window": 8, "lanes": 1, "seed": 5, "epoch": 1, "bounds": [0, 9, 23]},
        "10 18 9 19 12 20 11 17 13 16 6 7 4 14 5 15 21 8 22 1 3 2 0",
    ),
    ({"n": 5, "shuffle": False}, "0 1 2 3 4"),
]
GOLDEN_FAR = [945014555728, 517993231624, 755535026485, 392280256387, 150696004335]


@pytest.mark.parametrize(("arguments", "expected"), GOLDEN)
def test_golden_orders(arguments: dict[str, Any], expected: str) -> None:
    order = Order(**arguments)
    assert order.version == 1
    samples = [int(word) for word in expected.split()]
    assert list(order) == samples
    assert [order[place] for place in range(len(order))] == samples


def test_golden_places_of_a_large_order() -> None:
    order = Order(10**12, seed=1, epoch=2)
    places = [0, 1, 10**6, 10**11, 10**12 - 1]
    assert [order[place] for place in places] == GOLDEN_FAR


@st.composite
def orders(draw: st.DrawFn) -> Order:
    n = draw(st.integers(0, 400))
    windowed = draw(st.booleans())
    files = sorted(draw(st.lists(st.integers(0, n), max_size=4)))
    return Order(
        n,
        draw(st.integers(0, 2**64 - 1)),
        draw(st.integers(0, 50)),
        draw(st.integers(1, 500)) if windowed else None,
        draw(st.sampled_from([1, 2, 3, 8, 48, 64])),
        draw(st.booleans()),
        draw(st.integers(2, 40)) if windowed else 1,
        [0, *files, n],
    )


@given(orders(), st.data())
def test_each_sample_once_at_any_place(order: Order, data: st.DataObject) -> None:
    everything = order.positions(0, len(order))
    assert sorted(everything.tolist()) == list(range(len(order)))
    start = data.draw(st.integers(0, len(order)))
    stop = data.draw(st.integers(start, len(order)))
    np.testing.assert_array_equal(order.positions(start, stop), everything[start:stop])


def test_places_that_are_computed_in_several_pieces() -> None:
    order = Order(100_000, window=3000, chunk=7, lanes=4, bounds=[0, 33_333, 100_000])
    everything = order.positions(0, len(order))
    np.testing.assert_array_equal(np.sort(everything), np.arange(100_000))
    some = np.array([0, 16_383, 16_384, 65_536, 99_999])
    np.testing.assert_array_equal(order.samples_at(some), everything[some])


def test_epochs_and_seeds_differ() -> None:
    found = {tuple(Order(50, seed, epoch)) for seed in range(5) for epoch in range(5)}
    assert len(found) == 25
    order = Order(50, 1)
    order.set_epoch(4)
    assert list(order) == list(Order(50, 1, 4)) == list(Order(50, 1).with_epoch(4))


def test_windows_stay_within_chunks_and_each_chunk_is_of_one_rank() -> None:
    # 40 chunks of 10, dealt to 4 lanes: 10 a lane, windows of 2 chunks a lane
    order = Order(400, window=80, chunk=10, lanes=4, seed=3)
    everything = order.positions(0, 400)
    assert order.window_samples == 80
    for window in everything.reshape(5, 80):
        chunks, counts = np.unique(window // 10, return_counts=True)
        assert len(chunks) == 8 and (counts == 10).all()
        assert not np.array_equal(np.sort(window), window)
    for rank in range(4):
        own = set((everything[rank::4] // 10).tolist())
        others = set((np.delete(everything.reshape(100, 4), rank, axis=1).ravel() // 10).tolist())
        assert len(own) == 10 and not own & others


def test_what_fills_no_chunk_is_somewhere_else_in_each_epoch() -> None:
    order = Order(1003, window=20, chunk=10, lanes=1)
    places = {list(order.with_epoch(epoch)).index(1002) // 20 for epoch in range(20)}
    assert len(places) > 8


@pytest.mark.parametrize("limit", [2, 3, 4])
def test_all_permutations_are_as_likely(limit: int) -> None:
    draws = 100 * math.factorial(limit)
    found = Counter(tuple(permuted(np.arange(limit), limit, derived_key(seed))) for seed in range(draws))
    freedom = math.factorial(limit) - 1
    difference = sum((found[one] - 100) ** 2 / 100 for one in itertools.permutations(range(limit)))
    # six deviations of chi squared
    assert difference < freedom + 6 * math.sqrt(2 * freedom)


def test_neighbours_part_and_places_are_uniform() -> None:
    n = 4096
    order = Order(n).positions(0, n)
    # of a random order 2 in n pairs are neighbours: about 2 in all
    assert (np.abs(np.diff(order)) == 1).sum() < 12
    assert abs(np.corrcoef(np.arange(n), order)[0, 1]) < 6 / math.sqrt(n)
    counts = np.zeros((16, 16))
    for seed in range(1600):
        counts[np.arange(16), permuted(np.arange(16), 16, derived_key(seed))] += 1
    assert ((counts - 100) ** 2 / 100).sum() < 225 + 6 * math.sqrt(450)


def test_tweaks_are_different_permutations() -> None:
    numbers = np.tile(np.arange(30), 50)
    images = permuted(numbers, 30, 9, np.repeat(np.arange(50), 30).astype(np.uint64)).reshape(50, 30)
    assert (np.sort(images, axis=1) == np.arange(30)).all()
    assert len({tuple(row) for row in images}) == 50


@pytest.mark.parametrize("ranks", [3, 6, 5])
def test_ranks_that_do_not_divide_the_lanes(ranks: int) -> None:
    with pytest.raises(ArgumentError, match=f"with {ranks} ranks give lanes=") as caught:
        Order(10).check_ranks(ranks)
    for lanes in str(caught.value).split("lanes=")[1].split(" or "):
        Order(10, lanes=int(lanes)).check_ranks(ranks)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n": -1}, "n must be"),
        ({"n": 2.5}, "n must be"),
        ({"n": 5, "seed": -1}, "seed must be"),
        ({"n": 5, "epoch": True}, "epoch must be"),
        ({"n": 5, "window": 3}, "expected chunk="),
        ({"n": 5, "window": 0, "chunk": 2}, "window must be"),
        ({"n": 5, "lanes": 0}, "lanes must be"),
        ({"n": 5, "bounds": [0, 4]}, "bounds must be"),
        ({"n": 5, "bounds": [0, 3, 2, 5]}, "bounds must be"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        Order(**arguments)


def test_places_beyond() -> None:
    with pytest.raises(OutOfRangeError, match="place 5 of an order of 5"):
        Order(5)[5]
    assert Order(5)[-1] == list(Order(5))[-1]
    with pytest.raises(OutOfRangeError):
        Order(5).positions(3, 6)
