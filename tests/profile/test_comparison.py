"""The rule of all recommendations: which way is faster, by recorded times; ties are ties."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from kinema.base.comparison import Comparison, Times, compare, is_faster
from kinema.base.timings import PassTimings, Timings, WorkerTimings
from kinema.report import Report
from kinema.report.verdicts import verdicts_of


def times(*seconds: float) -> Times:
    return dict(enumerate(seconds))


def test_the_better_one_wins_in_every_repeat_by_more_than_the_spread() -> None:
    slow = times(2.0, 2.0, 2.0, 2.0, 2.0)
    assert is_faster(times(1.0, 1.1, 0.9, 1.0, 1.2), slow)
    assert not is_faster(slow, times(1.0, 1.1, 0.9, 1.0, 1.2))
    # one repeat is lost, or as good as lost
    assert not is_faster(times(1.0, 1.1, 2.1, 1.0, 1.2), slow)
    assert not is_faster(times(1.0, 1.1, 1.9, 1.0, 1.2), slow)
    # four repeats are too few, however clear they are
    assert not is_faster(times(0.1, 0.1, 0.1, 0.1), slow)
    # a machine that is ten times as slow in one repeat is so for both
    assert is_faster(times(1.0, 11.0, 0.9, 1.0, 1.2), times(2.0, 20.0, 2.0, 2.0, 2.0))


def test_a_repeat_without_a_time_is_left_out() -> None:
    slow = times(2.0, 2.0, 2.0, 2.0, 2.0, 2.0)
    fast = dict.fromkeys(range(6), 1.0)
    assert is_faster({number: fast[number] for number in (0, 1, 3, 4, 5)}, slow)
    assert not is_faster({number: fast[number] for number in (0, 1, 3, 4)}, slow)


def test_what_is_said_of_a_comparison() -> None:
    found = compare({"a": times(*[1.0] * 5), "b": times(*[1.0] * 5), "c": times(*[3.0] * 5)})
    assert found == Comparison(("a", "b"), ("c",), 5)
    assert found.winner is None and found.in_words() == "a tie: a, b"
    found = compare({"a": times(*[1.0] * 5), "b": times(*[2.0] * 5), "nothing": {}})
    assert found.winner == "a" and found.in_words(str.upper) == "A is the fastest in each of 5 repeats"
    assert compare({"a": times(*[1.0] * 5)}).in_words() == "a: nothing to compare it with"
    assert compare({"a": times(1.0)}).in_words() == "not judged: 1 repeat, at least 5 are needed"
    assert compare({}).winner is None


# -- recorded times ----------------------------------------------------------------------------------------------------

RECORDED = Path(__file__).resolve().parents[1] / "data/recorded_times"


def draws(name: str) -> list[dict[str, Times]]:
    """Twenty runs of five repeats; loop "x: a" is the same as "x: b"."""
    found = json.loads((RECORDED / f"{name}.json").read_text())
    assert len(found) == 20
    return [{loop: times(*seconds) for loop, seconds in run.items()} for run in found]


@pytest.mark.parametrize("name", ["busy", "overloaded"])
def test_twenty_draws_of_noise_never_contradict_each_other(name: str) -> None:
    """One loop of a pair, twins or not, may win in some draws, and never the other in others."""
    runs = draws(name)
    for pair in combinations(runs[0], 2):
        assert len({compare({loop: run[loop] for loop in pair}).winner for run in runs} - {None}) <= 1, pair
    # all of them together, as one command compares them
    assert len({compare(run).winner for run in runs} - {None}) <= 1


def test_a_planted_difference_of_two_is_found_in_all_draws() -> None:
    for run in draws("busy"):
        first, second = run
        for planted, other in ((first, second), (second, first)):
            halved = {number: seconds / 2 for number, seconds in run[planted].items()}
            assert compare({other: run[other], planted: halved}).winner == planted


# -- series of `kinema scaling` ---------------------------------------------------------------------------------------


def a_report(seconds: float, workers: int, repeat: int, **extra: object) -> Report:
    one = WorkerTimings(0, 0.0, 0.0, 1.0, 1.0, 0.0, seconds, seconds, 10, 1, 1, 1)
    timings = Timings((PassTimings(seconds, 10, (one,), np.empty((0, 7))),), runner="threads")
    return Report({}, {"format": "XTC"}, {}, timings, (), (), (), {"workers": workers, "repeat": repeat, **extra})


def test_each_number_of_workers_is_judged_by_itself() -> None:
    seconds = {("xtc", 1): 2.0, ("dcd", 1): 1.0, ("xtc", 4): 0.5, ("dcd", 4): 1.0}
    reports = [
        a_report(took, workers, repeat, format=kind) for repeat in range(5) for (kind, workers), took in seconds.items()
    ]
    # another amount of work, and another source, are not compared with these
    reports += [a_report(0.1, 1, repeat, format="xtc", **extra) for repeat in range(5) for extra in (
        {"workload": 40}, {"source": "synthetic"},
    )]  # fmt: skip
    assert list(map(str, verdicts_of(reports))) == [
        "1 worker: threads, dcd is the fastest in each of 5 repeats",
        "4 workers: threads, xtc is the fastest in each of 5 repeats",
    ]
    few = [report for report in reports if report.extra["repeat"] < 4]
    assert [one.as_dict()["fastest"] for one in verdicts_of(few)] == [None, None]
