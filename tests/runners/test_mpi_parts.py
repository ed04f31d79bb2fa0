"""The parts of the MPI runner: the launcher's variables, the shared counter, rows distributed over the ranks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kinema.runners.mpi.launcher import Launch, launched

pytestmark = pytest.mark.processes

# MPICH takes every second rank for one of another node
TWO_NODES = {"MPIR_CVAR_ODD_EVEN_CLIQUES": "1"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"PMI_SIZE": "4", "PMI_RANK": "3"}, Launch(4, 3, "PMI_SIZE")),
        ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}, Launch(2, 0, "OMPI_COMM_WORLD_SIZE")),
        ({"SLURM_STEP_NUM_TASKS": "96", "SLURM_PROCID": "95"}, Launch(96, 95, "SLURM_STEP_NUM_TASKS")),
        ({"JSM_NAMESPACE_SIZE": "6", "JSM_NAMESPACE_RANK": "5"}, Launch(6, 5, "JSM_NAMESPACE_SIZE")),
        # a batch script of many tasks is one process itself
        ({"SLURM_NTASKS": "96", "SLURM_PROCID": "0"}, None),
        ({"PMI_SIZE": "many", "PMI_RANK": "3"}, None),
        ({"PMI_SIZE": "4"}, None),
        ({"PMI_SIZE": "4", "PMI_RANK": "3", "KINEMA_MPI": "off"}, None),
    ],
)
def test_what_launchers_say(environment: dict[str, str], expected: Launch | None) -> None:
    assert launched(environment) == expected


def test_mpi_is_not_loaded_where_nobody_asks_for_it(mpi: Any, tmp_path: Path) -> None:
    script = "import sys, kinema, kinema.cli, kinema.runners; print([m for m in sys.modules if 'mpi4py' in m])"
    found = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=mpi.environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert found.stdout == "[]\n"


COUNTING = """
import time
from kinema.runners.mpi.communicator import Ranks
ranks = Ranks(MPI.COMM_WORLD)
for again in range(2):
    if rank == 0:
        ranks.counter.reset()
    ranks.comm.Barrier()
    mine = []
    with ranks.counter.serving():
        if rank == 0:
            # busy, and does not call MPI, until another rank was given some
            until = time.monotonic() + 120
            while not os.path.exists(f"enough {again}"):
                assert time.monotonic() < until, "nobody was given a number while their owner was busy"
                np.ones((300, 300)) @ np.ones((300, 300))
        while (number := ranks.counter.next()) < 500:
            mine.append(number)
            if rank and len(mine) == 100:
                open(f"enough {again}", "w").close()
        ranks.comm.Barrier()
    everyone = ranks.comm.gather(mine)
    if rank == 0:
        assert sorted(number for one in everyone for number in one) == list(range(500))
        # the others were given numbers while the owner was busy
        assert len(everyone[0]) <= 400
        say("once each")
ranks.free()
"""


@pytest.mark.parametrize("more", [{}, TWO_NODES])
def test_every_number_goes_to_one_rank(mpi: Any, more: dict[str, str], tmp_path: Path) -> None:
    assert mpi.compute(3, COUNTING, tmp_path, **more) == "once each\n" * 2


ROWS = """
from kinema.runners.mpi.global_array import GlobalArray
from kinema.runners.mpi.session import MPISession
ranks = MPISession(MPI.COMM_WORLD)
for n_rows in (1, 2, 7, 1000):
    for values in (np.dtype(np.float64), np.dtype((np.int16, (3, 2))), np.dtype("U5")):
        rows = ranks.new_rows(kn.FrameSelection(range(5, 5 + 2 * n_rows, 2)), values)
        whole = np.zeros(n_rows, rows.record)
        whole["time"] = np.arange(n_rows) / 3
        whole["values"] = np.arange(whole["values"].size).reshape(whole["values"].shape).astype(values.base)
        begin, end = n_rows * rank // ranks.size, n_rows * (rank + 1) // ranks.size
        rows.put(begin, whole[begin:end])
        rows.complete()
        rows.synchronize()
        for first, stop in ((0, n_rows), (n_rows // 3, n_rows // 2), (n_rows, n_rows)):
            assert rows.get(first, stop).tobytes() == whole[first:stop].tobytes()
        assert rows.local().tobytes() == whole[rows.own.start : rows.own.stop].tobytes()
        array = GlobalArray(rows, "values")
        assert (array.shape, array.dtype) == (whole["values"].shape, whole["values"].dtype)
        for key in (0, -1, slice(None), slice(3, 1), slice(-3, None, -2), slice(1, 900, 7), (slice(0, 5), ..., 0)[:2]):
            assert np.array_equal(array[key], whole["values"][key]), key
        assert [np.asarray(one).tolist() for one in array] == whole["values"].tolist()
        assert np.array_equal(GlobalArray(rows, "frames"), 5 + 2 * np.arange(n_rows))
ranks.free()
assert all(rows.freed for rows in ranks.arrays)
if rank == 0:
    say("as put")
"""


@pytest.mark.parametrize(("n_ranks", "more"), [(1, {}), (3, {}), (4, TWO_NODES)])
def test_any_rank_gets_what_any_has_put(mpi: Any, n_ranks: int, more: dict[str, str], tmp_path: Path) -> None:
    assert mpi.compute(n_ranks, ROWS, tmp_path, **more) == "as put\n"


def test_what_is_no_communicator_of_this_rank_is_refused(mpi: Any, tmp_path: Path) -> None:
    text = """
part = MPI.COMM_WORLD.Split(MPI.UNDEFINED if rank else 0)
for comm in (part, 3):
    try:
        say(rank, kn.runners.MPI(comm).size)
    except kn.ArgumentError as error:
        say(rank, str(error).partition("found ")[2])
"""
    assert sorted(mpi.compute(2, text, tmp_path).splitlines()) == ["0 1", "0 3", "1 3", "1 MPI.COMM_NULL"]


def test_without_mpi4py_the_error_says_what_to_install(mpi: Any, tmp_path: Path) -> None:
    script = "import sys; sys.modules['mpi4py'] = None\nimport kinema as kn\nkn.runners.choose_runner('mpi')"
    found = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=mpi.environment(), capture_output=True, text=True, timeout=120
    )
    assert found.returncode == 1
    assert "MissingPackageError: the runner 'mpi' needs mpi4py" in found.stderr
    assert "kinema[mpi-local]" in found.stderr
