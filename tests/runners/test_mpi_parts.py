"""What the MPI runner is made of: the launcher's variables, the shared counter, the array of bytes over all ranks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kinema.runners.mpi_launch import Launch, launched

# MPICH takes every second rank for one of another node
TWO_NODES = {"MPIR_CVAR_ODD_EVEN_CLIQUES": "1"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"PMI_SIZE": "4", "PMI_RANK": "3"}, Launch(4, 3, "PMI_SIZE")),
        ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}, Launch(2, 0, "OMPI_COMM_WORLD_SIZE")),
        ({"SLURM_STEP_NUM_TASKS": "96", "SLURM_PROCID": "95"}, Launch(96, 95, "SLURM_STEP_NUM_TASKS")),
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
        [sys.executable, "-c", script], cwd=tmp_path, env=mpi.environment(), capture_output=True, text=True, check=True
    )
    assert found.stdout == "[]\n"


COUNTING = """
import time
from kinema.runners.mpi_ranks import Ranks
ranks = Ranks(MPI.COMM_WORLD)
for again in range(2):
    if rank == 0:
        ranks.counter.reset()
    ranks.comm.Barrier()
    mine = []
    with ranks.counter.serving():
        if rank == 0:
            # busy, and does not call MPI
            until = time.monotonic() + 0.3
            while time.monotonic() < until:
                np.ones((300, 300)) @ np.ones((300, 300))
        while (number := ranks.counter.next()) < 500:
            mine.append(number)
            time.sleep(0.0002)
        ranks.comm.Barrier()
    everyone = ranks.comm.gather(mine)
    if rank == 0:
        assert sorted(number for one in everyone for number in one) == list(range(500))
        # the others were given numbers while the owner was busy
        assert len(everyone[0]) < 500
        say("once each")
ranks.free()
"""


@pytest.mark.parametrize("more", [{}, TWO_NODES])
def test_every_number_goes_to_one_rank(mpi: Any, more: dict[str, str], tmp_path: Path) -> None:
    assert mpi.script(3, COUNTING, tmp_path, **more) == "once each\n" * 2


BYTES = """
from kinema.runners.mpi_gathering import GlobalBytes
size = MPI.COMM_WORLD.Get_size()
for whole in (0, 1, 7, 1000):
    array = GlobalBytes(MPI.COMM_WORLD, whole)
    pattern = bytes(i % 251 for i in range(whole))
    begin, end = whole * rank // size, whole * (rank + 1) // size
    array.put(begin, pattern[begin:end])
    array.meet()
    for first, last in ((0, whole), (whole // 3, whole // 2), (whole, whole)):
        assert bytes(array.get(first, last - first)) == pattern[first:last]
    array.meet()
    array.free()
if rank == 0:
    say("as put")
"""


@pytest.mark.parametrize(("n_ranks", "more"), [(1, {}), (3, {}), (4, TWO_NODES)])
def test_any_rank_gets_what_any_has_put(mpi: Any, n_ranks: int, more: dict[str, str], tmp_path: Path) -> None:
    assert mpi.script(n_ranks, BYTES, tmp_path, **more) == "as put\n"


def test_without_mpi4py_the_error_says_what_to_install(mpi: Any, tmp_path: Path) -> None:
    script = "import sys; sys.modules['mpi4py'] = None\nimport kinema as kn\nkn.runners.choose_runner('mpi')"
    found = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=mpi.environment(), capture_output=True, text=True
    )
    assert found.returncode == 1
    assert "ArgumentError: the MPI runner needs mpi4py" in found.stderr
    assert "kinema[mpi-local]" in found.stderr
