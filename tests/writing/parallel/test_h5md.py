"""H5MD files that many ranks write: the values of one process, errors on all ranks, what is left of a file."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import psutil
import pytest

import kinema as kn
from kinema.testing.amounts import LONG
from kinema.testing.programs.children import all_ended

PROGRAM = Path(__file__).with_name("h5md_ranks.py")

pytestmark = pytest.mark.processes
PARALLEL_HDF5 = pytest.mark.skipif(
    not h5py.get_config().mpi, reason="h5py was built without MPI: make test-hdf5-mpi makes one"
)


@pytest.fixture(autouse=True)
def no_locks_of_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """HDF5 1.10 locks the sources of virtual data sets of a run that is alive, whatever is asked."""
    if h5py.version.hdf5_version_tuple < (1, 12):
        monkeypatch.setenv("HDF5_USE_FILE_LOCKING", "FALSE")


CALL = """
import warnings
warnings.simplefilter("ignore", kn.Note)
sys.path.insert(0, {folder!r})
import h5md_ranks
h5md_ranks.{name}(*{given!r})
"""


def run(mpi: Any, n_ranks: int, folder: Path, *words: str, **environment: str) -> str:
    """Output of rank 0 when all is well on all ranks."""
    name, *given = words
    text = CALL.format(folder=str(PROGRAM.parent), name=name, given=tuple(given))
    return str(mpi.compute(n_ranks, text, folder, **environment))


@pytest.mark.parametrize(("n_ranks", "storages"), [(1, "1"), (2, "4"), (3, "023"), (5, "1")])
def test_values_of_one_process(mpi: Any, n_ranks: int, storages: str, tmp_path: Path) -> None:
    assert run(mpi, n_ranks, tmp_path, "values", storages) == f"values {3 * len(storages)}\n"


def test_values_without_chunks(mpi: Any, tmp_path: Path) -> None:
    assert run(mpi, 3, tmp_path, "direct") == "direct\n"


@pytest.mark.parametrize(
    ("n_ranks", "nodes", "variable"),
    [(1, "", ""), (3, "", ""), (3, "7 8 9", ""), (3, "", "MPIR_CVAR_NUM_CLIQUES=2"), (2, "", "MPIR_CVAR_NOLOCAL=1")],
)
def test_another_rank_reads_them_back(mpi: Any, n_ranks: int, nodes: str, variable: str, tmp_path: Path) -> None:
    """Also one of another node: nodes are those that are given, or that MPICH pretends to have.

    All cases on three ranks of one node; elsewhere one of each strategy, or all if the run is long.
    """
    if variable and not mpi.is_mpich():
        pytest.skip(f"{variable} is a variable of MPICH")
    more = dict([variable.split("=")]) if variable else {}
    every = "every" if LONG or (n_ranks == 3 and not nodes and not variable) else "one"
    assert run(mpi, n_ranks, tmp_path, "verified", every, *nodes.split(), **more) == "verified\n"


def test_mdanalysis_reads_them(mpi: Any, tmp_path: Path) -> None:
    assert run(mpi, 3, tmp_path, "peers") == "peers\n"


def test_errors_are_those_of_all_ranks(mpi: Any, tmp_path: Path) -> None:
    assert run(mpi, 3, tmp_path, "errors") == "errors\n"


@pytest.mark.parametrize(("program", "n_ranks"), [("growth", 3), ("subfiles_growth", 1), ("subfiles_growth", 3)])
def test_files_that_grow_and_are_cut(mpi: Any, program: str, n_ranks: int, tmp_path: Path) -> None:
    assert run(mpi, n_ranks, tmp_path, program) == "growth\n"


def test_disk_full_on_one_rank(mpi: Any, tmp_path: Path) -> None:
    assert run(mpi, 2, tmp_path, "disk_full") == "disk full\n"


def killed(mpi: Any, folder: Path, words: list[str], wait: float) -> int:
    """Kills all ranks of a run after its first flush; how many frames it has said are flushed."""
    process = mpi.started(2, ["-m", "mpi4py", str(PROGRAM), "endless", *words], folder)
    try:
        # begun
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.strip().isdigit(), line
        time.sleep(wait)
    finally:
        # ranks are in process groups of their own, and would write on until they miss mpiexec
        ranks = psutil.Process(process.pid).children(recursive=True)
        for one in (process, *ranks):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        out, err = process.communicate(timeout=60)
    assert all_ended(ranks)
    said = [int(word) for word in (line + out).split("\n")[:-1] if word.isdigit()]
    assert said, err
    return max(said)


def test_killed_at_random_moments(mpi: Any, kills: Callable[..., int], tmp_path: Path) -> None:
    """All ranks of a run that continues a file are killed: the flushed frames are there."""
    path, moments, flushed = tmp_path / "grows.h5md", random.Random(os.urandom(8)), 0
    for _ in range(kills()):
        said = killed(mpi, tmp_path, [path.name, "zstd"], moments.uniform(0.0, 0.3))
        flushed = frames_of(path, said, flushed)


def test_subfiles_of_killed_ranks(mpi: Any, kills: Callable[..., int], tmp_path: Path) -> None:
    """The remaining file has the flushed frames: under its temporary name, which its user changes, or its own."""
    path, moments, flushed = tmp_path / "grows.h5md", random.Random(os.urandom(8)), 0
    for number in range(kills()):
        if number % 4 == 0:
            path.unlink(missing_ok=True)
        mode = "a" if path.exists() or number % 8 == 4 else "w"
        before = flushed if path.exists() else 0
        said = killed(mpi, tmp_path, [path.name, "zstd", "subfiles", mode], moments.uniform(0.0, 0.3))
        if mode == "w":
            (left,) = tmp_path.glob("grows.part-*-k*.h5md")
            frames_of(left, said, 0)
            left.rename(path)
        flushed = frames_of(path, said, before)


@PARALLEL_HDF5
def test_files_that_grow_through_mpiio(mpi: Any, tmp_path: Path) -> None:
    assert run(mpi, 3, tmp_path, "mpiio_growth") == "growth\n"


@PARALLEL_HDF5
def test_a_rank_that_fails_within_a_collective_call(mpi: Any, tmp_path: Path) -> None:
    """The others cannot be freed but by the end of the job, which that rank can ask for: it hangs nowhere."""
    process = mpi.started(3, ["-m", "mpi4py", str(PROGRAM), "fails_within"], tmp_path)
    code, out, err = mpi.ended(process)
    assert code == 3, out + err
    assert "cannot write: as was to be shown; on rank 2; other ranks wait for it within a collective call" in out


@PARALLEL_HDF5
def test_killed_while_they_write_through_mpiio(mpi: Any, kills: Callable[..., int], tmp_path: Path) -> None:
    path, moments, flushed = tmp_path / "grows.h5md", random.Random(os.urandom(8)), 0
    for _ in range(kills()):
        said = killed(mpi, tmp_path, [path.name, "none", "mpiio"], moments.uniform(0.0, 0.3))
        flushed = frames_of(path, said, flushed)


@pytest.mark.parametrize("place", ["exchange", "encode", "commit", "announce", "flush"])
def test_one_rank_ends_within_a_call(mpi: Any, kills: Callable[..., int], tmp_path: Path, place: str) -> None:
    """Flushed frames are there, whichever rank of "gather" ends, and where; the other ranks end with it."""
    path, moments, flushed = tmp_path / "grows.h5md", random.Random(os.urandom(8)), 0
    for _ in range(kills(1)):
        # what is done on rank 0 alone
        rank = moments.randrange(2) if place in ("exchange", "encode") else 0
        words = [path.name, str(rank), place, str(moments.randrange(6, 15))]
        code, out, err = mpi.ended(mpi.started(2, ["-m", "mpi4py", str(PROGRAM), "dies", *words], tmp_path))
        said = [int(word) for word in out.split("\n")[:-1] if word.isdigit()]
        assert code != 0 and said, (words, err)
        flushed = frames_of(path, max(said), flushed)


def frames_of(path: Path, said: int, before: int) -> int:
    """How many frames a file of `endless` has, which are whole, and not fewer than were flushed."""
    trajectory = kn.open(path, stored=False)
    n_frames = trajectory.n_frames
    assert n_frames >= said >= before, (n_frames, said, before)
    for frame in {0, n_frames // 2, n_frames - 1}:
        expected = frame % 97 + np.arange(900).reshape(300, 3) % 331 / 10
        assert np.array_equal(trajectory[frame].positions, expected.astype(np.float32))
    assert trajectory.steps.tolist() == [100 + 50 * frame for frame in range(n_frames)]
    return n_frames
