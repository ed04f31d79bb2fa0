"""Results that are computed before they are asked for: their order, their errors, and what ends."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import kinema as kn
from kinema.base.prefetch import Prefetcher, prefetched


def _threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("kinema-prefetch")]


def _wait_for_threads() -> None:
    until = time.monotonic() + 120
    while _threads() and time.monotonic() < until:
        time.sleep(0.01)
    assert not _threads()


def test_the_next_is_computed_while_one_is_used() -> None:
    begun = [threading.Event() for _ in range(5)]

    def compute(number: int) -> int:
        begun[number].set()
        return number * number

    for number, result in enumerate(prefetched(compute, range(5))):
        assert result == number * number
        # in use is this one: the next begins without being asked for, and the one after that does not
        if number < 4:
            assert begun[number + 1].wait(120)
        assert not any(event.is_set() for event in begun[number + 2 :])
    assert not _threads()


def test_one_alone_needs_no_thread_and_none_no_call() -> None:
    seen: list[list[str]] = []
    assert list(prefetched(lambda _: seen.append(_threads()), [1])) == [None]
    assert list(prefetched(seen.append, [])) == []
    assert seen == [[]]


def test_errors_come_where_the_result_would() -> None:
    def compute(number: int) -> int:
        if number == 2:
            raise ValueError("two")
        return number

    results = prefetched(compute, range(4))
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="two"):
        next(results)
    _wait_for_threads()


def test_a_loop_that_is_left_ends_the_thread() -> None:
    for result in prefetched(str, range(100)):
        assert result == "0"
        break
    gc.collect()
    _wait_for_threads()


def test_what_was_started_in_vain_ends_first() -> None:
    at_work, overlaps = threading.Lock(), []

    def compute(number: int) -> int:
        overlaps.append(not at_work.acquire(blocking=False))
        time.sleep(0.01)
        at_work.release()
        return number

    prefetcher = Prefetcher(compute)
    for wanted, started in ((1, 1), (2, 3), (4, 4), (5, 6)):
        prefetcher.start(started)
        assert prefetcher.take(wanted) == wanted
    assert prefetcher.take(7) == 7
    assert not any(overlaps)
    prefetcher.close()
    prefetcher.start(8)  # it can be used again
    assert prefetcher.take(8) == 8
    del prefetcher
    gc.collect()
    _wait_for_threads()


FORK = """
import os
from kinema.base.prefetch import Prefetcher
prefetcher = Prefetcher(str)
prefetcher.start(1)
child = os.fork()
if child == 0:
    first = prefetcher.take(1)
    prefetcher.start(2)
    os._exit((first, prefetcher.take(2)) != ("1", "2"))
assert os.waitpid(child, 0)[1] == 0
assert prefetcher.take(1) == "1"
prefetcher.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_of_fork_computes_itself() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent)}
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], env=environment, check=True, timeout=120)
