"""The MPI runner with Open MPI on two nodes, which are pretended; on one it must pass `tests/runners/test_mpi*.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes

HERE = Path(__file__).parent


@pytest.mark.parametrize(("n_ranks", "options"), [(3, []), (5, ["schedule=static", "gather=one-sided"])])
def test_the_suite_of_every_runner_between_nodes(mpi: Any, n_ranks: int, options: list[str], tmp_path: Path) -> None:
    words = [str(HERE / "pretended_nodes.py"), *options, f"--basetemp={tmp_path / 'cases'}"]
    code, out, err = mpi.ended(mpi.started(n_ranks, words, tmp_path))
    assert code == 0, out + err
    assert " passed" in out
