"""`kn.Writer(comm=)` on the ranks of MPI programs: bytes, errors, what is left of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinema.testing.amounts import LONG

FOLDER = Path(__file__).parent

pytestmark = pytest.mark.processes

PROGRAM = """
import warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {folder!r})
import rank_{module} as programs
# a folder without the file of what ranks print
os.makedirs("files", exist_ok=True)
os.chdir("files")
programs.{name}(*{given!r})
"""


def run(mpi: Any, n_ranks: int, folder: Path, module: str, name: str, *given: object) -> str:
    """Output of rank 0 when all is well on all ranks."""
    return str(mpi.compute(n_ranks, PROGRAM.format(folder=str(FOLDER), module=module, name=name, given=given), folder))


@pytest.mark.parametrize(("n_ranks", "turn"), [(1, "0"), (2, "1"), (3, "0"), (5, "1")])
def test_bytes_of_one_process(mpi: Any, n_ranks: int, turn: str, tmp_path: Path) -> None:
    """Each case and strategy: one of two batches on one and three ranks, the other on two and five; all if long."""
    turns = ("0", "1") if LONG else (turn,)
    assert [run(mpi, n_ranks, tmp_path, "bytes", "same_bytes", one) for one in turns] == ["same bytes 47\n"] * len(
        turns
    )


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_atoms_as_they_come(mpi: Any, n_ranks: int, tmp_path: Path) -> None:
    assert run(mpi, n_ranks, tmp_path, "bytes", "given_order") == "given order 6\n"


def test_reference_libraries_read_many_frames(mpi: Any, tmp_path: Path) -> None:
    n_frames = 2000 if LONG else 300
    assert run(mpi, 2, tmp_path, "bytes", "many_frames", n_frames) == f"many frames {n_frames}\n"


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
def test_rank_0_cannot_write_while_others_do(mpi: Any, n_ranks: int, tmp_path: Path) -> None:
    assert run(mpi, n_ranks, tmp_path, "failures", "not_committed") == "not committed\n"


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
