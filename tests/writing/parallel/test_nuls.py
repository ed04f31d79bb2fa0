"""The error of a rank about bytes that were written and are missing: where they begin, and how many."""

from __future__ import annotations

import numpy as np

from kinema.parallel.verification import _RUN, _nuls


def test_the_longest_of_several_runs_of_nuls() -> None:
    data = np.ones(100, np.uint8)
    data[2:5] = data[20:45] = data[60 : 60 + _RUN] = 0
    assert _nuls(data) == (20, 25)
    # up to the end
    data[70:] = 0
    assert _nuls(data) == (70, 30)


def test_runs_that_values_have_are_none() -> None:
    data = np.ones(100, np.uint8)
    assert _nuls(data) is None
    data[10 : 10 + _RUN - 1] = 0
    assert _nuls(data) is None
    data[10 : 10 + _RUN] = 0
    assert _nuls(data) == (10, _RUN)
