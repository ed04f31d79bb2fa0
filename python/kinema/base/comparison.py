"""Which of several ways is faster, by repeated times: the one rule of everything that recommends.

One way is faster than another if it won in every repeat, in at least `LEAST_REPEATS` of them, by more than the spread
of the gains (their standard deviation). A gain is the logarithm of the ratio of the two times of a repeat, so a
machine that slows down for a while does not count. Repeats must be interleaved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from kinema.base.printable import counted

K = TypeVar("K", bound=Hashable)

Times = Mapping[int, float]
"""Seconds of one way by the number of the repeat; a repeat without a time is left out."""

LEAST_REPEATS = 5


@dataclass(frozen=True)
class Comparison(Generic[K]):
    """Result of a comparison.

    `leaders`: the way with the least median time, and those that it is not faster than.
    `beaten`: ways that every leader is faster than.
    `repeats`: the most repeats of any way.
    """

    leaders: tuple[K, ...]
    beaten: tuple[K, ...]
    repeats: int

    @property
    def winner(self) -> K | None:
        """The one way that is faster than all others; None if there is none, or nothing to compare it with."""
        return self.leaders[0] if len(self.leaders) == 1 and self.beaten else None

    @property
    def is_judged(self) -> bool:
        """Whether there are enough repeats to tell ways apart."""
        return self.repeats >= LEAST_REPEATS

    def in_words(self, name: Callable[[K], str] = str) -> str:
        """The verdict: the winner, a tie, or why there is none. `name` gives the name of a way."""
        if not self.is_judged:
            return f"not judged: {counted(self.repeats, 'repeat')}, at least {LEAST_REPEATS} are needed"
        if self.winner is not None:
            return f"{name(self.winner)} is the fastest in each of {self.repeats} repeats"
        if len(self.leaders) == 1:
            return f"{name(self.leaders[0])}: nothing to compare it with"
        return f"a tie: {', '.join(map(name, self.leaders))}"


def compare(times: Mapping[K, Times]) -> Comparison[K]:
    """Compares ways by their times. Ways without any time are left out."""
    found = {key: one for key, one in times.items() if one}
    if not found:
        return Comparison((), (), 0)
    ordered = sorted(found, key=lambda key: float(np.median(list(found[key].values()))))
    first = ordered[0]
    leaders = [key for key in ordered if key == first or not is_faster(found[first], found[key])]
    beaten = [
        key for key in ordered if key not in leaders and all(is_faster(found[one], found[key]) for one in leaders)
    ]
    return Comparison(tuple(leaders), tuple(beaten), max(map(len, found.values())))


def is_faster(one: Times, other: Times) -> bool:
    """Whether `one` is faster than `other` by the rule of this module."""
    gains = [math.log(other[repeat] / one[repeat]) for repeat in one if repeat in other]
    return len(gains) >= LEAST_REPEATS and min(gains) > 0 and min(gains) > float(np.std(gains, ddof=1))
