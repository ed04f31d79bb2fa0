"""H5MD written through parallel HDF5: independent and collective writes give the values of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[2] / "writing" / "parallel" / "h5md_ranks.py"


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_values_of_one_process(mpi: Any, n_ranks: int, tmp_path: Path) -> None:
    command = ["-m", "mpi4py", str(PROGRAM), "values", "01234", "mpiio", "mpiio-collective"]
    code, out, err = mpi.ended(mpi.started(n_ranks, command, tmp_path))
    assert code == 0, out + err
    assert "values 10\n" in out


def test_strategies_without_parallel_hdf5_here_too(mpi: Any, tmp_path: Path) -> None:
    command = ["-m", "mpi4py", str(PROGRAM), "values", "01234", "gather", "subfiles"]
    code, out, err = mpi.ended(mpi.started(2, command, tmp_path))
    assert code == 0, out + err
    assert "values 10\n" in out
