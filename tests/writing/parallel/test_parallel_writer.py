"""`kn.Writer(comm=)` on the ranks of MPI programs: bytes, errors, what is left of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent

pytestmark = pytest.mark.processes


def run(mpi: Any, n_ranks: int, folder: Path, program: str, *words: str) -> str:
    """What rank 0 prints when all is well on all ranks."""
    started = mpi.started(n_ranks, ["-m", "mpi4py", str(FOLDER / f"rank_{program}.py"), *words], folder)
    code, out, err = mpi.ended(started)
    assert code == 0, out + err
    return str(out)


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5])
def test_bytes_of_one_process(mpi: Any, n_ranks: int, tmp_path: Path) -> None:
    assert run(mpi, n_ranks, tmp_path, "bytes", "same_bytes") == "same bytes 94\n"


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_atoms_as_they_come(mpi: Any, n_ranks: int, tmp_path: Path) -> None:
    assert run(mpi, n_ranks, tmp_path, "bytes", "given_order") == "given order 6\n"


def test_reference_libraries_read_thousands_of_frames(mpi: Any, tmp_path: Path) -> None:
    assert run(mpi, 2, tmp_path, "bytes", "many_frames", "2000") == "many frames 2000\n"


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_missing_and_duplicate_atoms(mpi: Any, n_ranks: int, tmp_path: Path) -> None:
    assert run(mpi, n_ranks, tmp_path, "failures", "wrong_atoms").startswith("wrong atoms")


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_wrong_arguments(mpi: Any, n_ranks: int, tmp_path: Path) -> None:
    assert run(mpi, n_ranks, tmp_path, "failures", "wrong_arguments") == "wrong arguments\n"


def test_exceptions_in_the_block(mpi: Any, tmp_path: Path) -> None:
    assert run(mpi, 3, tmp_path, "failures", "left_block") == "left block\n"


def test_a_rank_that_has_left_for_good(mpi: Any, tmp_path: Path) -> None:
    assert run(mpi, 3, tmp_path, "failures", "left_for_good") == "left for good 2\n"


@pytest.mark.parametrize("n_ranks", [2, 3])
def test_disk_full_on_one_rank(mpi: Any, n_ranks: int, tmp_path: Path) -> None:
    assert run(mpi, n_ranks, tmp_path, "failures", "disk_full") == "disk full\n"


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_nuls_are_found(mpi: Any, n_ranks: int, tmp_path: Path) -> None:
    assert run(mpi, n_ranks, tmp_path, "failures", "verified") == "verified\n"


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_files_that_grow(mpi: Any, n_ranks: int, tmp_path: Path) -> None:
    assert run(mpi, n_ranks, tmp_path, "growth", "appended") == "appended\n"


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_restarts(mpi: Any, n_ranks: int, tmp_path: Path) -> None:
    assert run(mpi, n_ranks, tmp_path, "growth", "resumed") == "resumed\n"


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_writer_of_mdanalysis(mpi: Any, n_ranks: int, tmp_path: Path) -> None:
    assert run(mpi, n_ranks, tmp_path, "bytes", "mdanalysis") == "mdanalysis\n"
