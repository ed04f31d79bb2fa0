"""Functions of the core that sort atoms for the ranks that write them: against NumPy, and what they refuse."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import DTypeLike, NDArray

from kinema import _core
from kinema.base.errors import ArgumentError

N_ATOMS = 10_007


def partition(ids: NDArray[Any], bounds: list[int]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
    packed, order = np.empty(len(ids), np.uint32), np.full(len(ids), 77, np.uint32)
    counts, is_sorted = _core.partition_atoms(ids, bounds, packed, order)
    assert not is_sorted or (order == 77).all()
    return counts, packed, None if is_sorted else order


@pytest.mark.parametrize("dtype", [np.uint32, np.int64, np.int32, np.uint64])
@pytest.mark.parametrize("n_ranges", [1, 3, 700])
def test_partition_is_a_stable_sort(dtype: DTypeLike, n_ranges: int) -> None:
    rng = np.random.default_rng(n_ranges)
    ids = rng.permutation(N_ATOMS)[:6000].astype(dtype)
    inner = np.sort(rng.integers(0, N_ATOMS, n_ranges - 1)).tolist()
    bounds = [0, *inner, N_ATOMS]
    ranges = np.searchsorted(inner, ids.astype(np.int64), "right")
    counts, packed, order = partition(ids, bounds)
    expected = np.argsort(ranges, kind="stable")
    assert counts.tolist() == np.bincount(ranges, minlength=n_ranges).tolist()
    np.testing.assert_array_equal(packed, ids[expected].astype(np.uint32))
    if n_ranges == 1:
        assert order is None
    else:
        np.testing.assert_array_equal(order, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exchange_gives_each_atom_its_values(dtype: str) -> None:
    rng = np.random.default_rng(2)
    whole = [rng.uniform(-1, 1, (N_ATOMS, 3)).astype(dtype) for _ in range(2)]
    bounds = [0, 4000, 4000, 9001, N_ATOMS]
    senders = np.split(rng.permutation(N_ATOMS), [500, 500, 7000])
    ranges = list(itertools.pairwise(bounds))
    found = [[np.full((end - first, 3), np.nan, dtype) for _ in whole] for first, end in ranges]
    seen = [np.zeros(end - first, np.uint8) for first, end in ranges]
    for ids in senders:
        counts, packed, order = partition(ids, bounds)
        sent = [np.empty((len(ids), 3), dtype) for _ in whole]
        for values, out in zip(whole, sent, strict=True):
            mine = np.ascontiguousarray(values[ids])
            if order is None:
                out[:] = mine
            else:
                _core.place_atoms(mine, order, None, out)
        ends = np.cumsum(counts)
        for number, (first, _) in enumerate(ranges):
            rows = slice(int(ends[number] - counts[number]), int(ends[number]))
            values = [out[rows] for out in sent]
            faults = _core.scatter_atoms(packed[rows], first, values, found[number], seen[number])
            assert faults[:2] == (0, None)
            assert faults[2] == np.count_nonzero(seen[number] == 0)
    for number, (first, end) in enumerate(ranges):
        for values, out in zip(whole, found[number], strict=True):
            np.testing.assert_array_equal(out, values[first:end])


def test_what_is_no_atom_and_what_is_there_twice() -> None:
    with pytest.raises(ArgumentError, match="row 1, expected 0 to 9, found -3"):
        partition(np.array([2, -3]), [0, 5, 10])
    with pytest.raises(ArgumentError, match="row 0, expected 0 to 9, found 10"):
        partition(np.array([10], np.uint32), [0, 5, 10])
    with pytest.raises(ArgumentError, match="int32, int64, uint32 or uint64"):
        partition(np.array([1.0]), [0, 10])
    seen = np.zeros(4, np.uint8)
    ids = np.array([6, 4, 6, 6], np.uint32)
    out = np.zeros((4, 3))
    assert _core.scatter_atoms(ids, 4, [np.ones((4, 3))], [out], seen) == (2, 2, 2, 5)
    with pytest.raises(ArgumentError, match="expected 4 or more and below 8, found 8"):
        _core.scatter_atoms(np.array([8], np.uint32), 4, [np.ones((1, 3))], [out], seen)
    with pytest.raises(ArgumentError, match="both float32 or both float64"):
        _core.scatter_atoms(ids, 4, [np.ones((4, 3), np.float32)], [out], seen)
    with pytest.raises(ArgumentError, match="row of an atom, expected less than 4, found 4"):
        _core.place_atoms(out, np.array([4], np.uint32), None, np.empty((1, 3)))
    with pytest.raises(ArgumentError, match="place of an atom, expected less than 1, found 1"):
        _core.place_atoms(out, np.array([3], np.uint32), np.array([1], np.uint32), np.empty((1, 3)))
    with pytest.raises(ArgumentError, match="numbers of 4 atoms, expected each once, found 2"):
        _core.order_atoms(ids, 0, 4, 4)
    with pytest.raises(ArgumentError, match="writable, and two"):
        _core.partition_atoms(ids, [0, 10], ids, ids)


@pytest.mark.parametrize("n", [0, 1, 3000, N_ATOMS])
@pytest.mark.parametrize("first_row", [None, 5])
def test_rows_in_the_order_of_their_atoms(n: int, first_row: int | None) -> None:
    rng = np.random.default_rng(n)
    places = rng.permutation(N_ATOMS)[:n]
    rows = rng.permutation(n) + 5 if first_row is None else np.arange(n) + first_row
    listed = rows.astype(np.uint32) if first_row is None else first_row
    found, where = _core.order_atoms((places + 40).astype(np.uint32), listed, 40, N_ATOMS)
    order = np.argsort(places)
    np.testing.assert_array_equal(found, rows[order])
    assert (where is None) == (n == N_ATOMS)
    if where is not None:
        np.testing.assert_array_equal(where, places[order])
    values, out = rng.uniform(-1, 1, (n + 5, 3)), np.zeros((N_ATOMS, 3))
    _core.place_atoms(values, found, where, out)
    expected = np.zeros((N_ATOMS, 3))
    expected[places] = values[rows]
    np.testing.assert_array_equal(out, expected)
