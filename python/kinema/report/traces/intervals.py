"""Unions of time intervals, in whole nanoseconds: how long an activity lasted, and how long without another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Spans:
    """Times of an activity: ordered intervals that neither overlap nor touch.

    `begins`, `ends`: (n,) int64, ns.
    """

    begins: Whole
    ends: Whole

    @property
    def length(self) -> int:
        """Length of all intervals together, ns."""
        return int((self.ends - self.begins).sum())

    def common(self, other: Spans) -> int:
        """How long both are active at once, ns."""
        if len(self.begins) == 0 or len(other.begins) == 0:
            return 0
        return int((other._length_before(self.ends) - other._length_before(self.begins)).sum())

    def length_outside(self, other: Spans) -> int:
        """How long this one is active while the other is not, ns."""
        return self.length - self.common(other)

    def length_within(self, first: int, last: int) -> int:
        """How long this one is active from `first` to `last`, ns."""
        before, after = self._length_before(np.array([first, last]))
        return int(after - before)

    def shares(self, edges: Whole) -> NDArray[np.float64]:
        """(len(edges) - 1,) active share of the time between two edges."""
        taken: NDArray[np.float64] = np.diff(self._length_before(edges)) / np.maximum(1, np.diff(edges))
        return taken

    def _length_before(self, times: Whole) -> Whole:
        """Active time before each of the times."""
        if len(self.begins) == 0:
            return np.zeros(len(times), dtype=np.int64)
        before = np.concatenate([[0], np.cumsum(self.ends - self.begins)])
        at = np.searchsorted(self.begins, times, side="right") - 1
        within = np.minimum(times, self.ends[at]) - self.begins[at]
        found: Whole = np.where(at < 0, 0, before[at] + within)
        return found


def union(begins: Whole, ends: Whole) -> Spans:
    """The times that at least one interval covers; intervals of length 0 cover nothing."""
    some = ends > begins
    begins, ends = begins[some], ends[some]
    if len(begins) == 0:
        return Spans(begins, ends)
    order = np.argsort(begins, kind="stable")
    begins, latest = begins[order], np.maximum.accumulate(ends[order])
    first = np.concatenate([[True], begins[1:] > latest[:-1]])
    last = np.concatenate([first[1:], [True]])
    return Spans(begins[first], latest[last])
