"""How many cases the tests try: a few in each run, all in `make test-long`."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Any

#: whether this run is a long one: `make test-long` sets the number of kills
LONG = "KINEMA_TEST_KILLS" in os.environ


def wanted_kills(least: int) -> int:
    """Number of kills at random moments: `least`, or the number of a long run if that is larger."""
    return max(least, int(os.environ.get("KINEMA_TEST_KILLS", "0")))


def each(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Rows in which each value of each axis occurs, as many as the longest axis has values; all rows in a long run."""
    if LONG:
        return list(itertools.product(*axes))
    return [tuple(axis[row % len(axis)] for axis in axes) for row in range(max(map(len, axes)))]


def pairs(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Rows in which each pair of values of any two axes occurs; all rows of the product in a long run.

    The rows depend on the lengths of the axes alone, so that names of tests stay the same. Each row is the one that
    adds most pairs (a greedy covering array of strength 2).
    """
    everything = list(itertools.product(*map(range, map(len, axes))))
    if LONG:
        rows = everything
    else:
        pairs_of = {row: set(itertools.combinations(enumerate(row), 2)) for row in everything}
        left, rows = set().union(*pairs_of.values()), []
        while left:
            rows.append(max(everything, key=lambda row: len(pairs_of[row] & left)))
            left -= pairs_of[rows[-1]]
    return [tuple(axis[place] for axis, place in zip(axes, row, strict=True)) for row in rows]
