"""Results per frame that ranks put one-sided: same bits in every way, who has them, errors, arrays that stay spread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema.testing import random_walk, write_dcd
from kinema.testing.amounts import pairs

pytestmark = pytest.mark.processes

# MPICH takes every second rank for one of another node
TWO_NODES = {"MPIR_CVAR_ODD_EVEN_CLIQUES": "1"}

MODULE = """
import numpy as np
from mpi4py import MPI

def end_to_end(frame):
    return np.linalg.norm(frame.positions[-1] - frame.positions[0])

def mixed(frame):
    return frame.positions[:2].astype(float) if frame.frame > 200 else frame.positions[:2].round().astype(int)

def uneven(frame):
    return frame.positions[: 2 + MPI.COMM_WORLD.Get_rank()]

def words(frame):
    return np.array({"frame": frame.frame}, dtype=object)
"""

BEGIN = """
import functions
from kinema.execution.result_arrays import ResultColumns

Array = kn.runners.GlobalArray

def many(traj):
    return [
        kn.analysis.RMSD(traj, groups=[[0, 3], [1, 2]]),
        kn.analysis.RMSF(traj, align="average"),
        kn.analysis.RadiusOfGyration(traj, weights=None, axes=True),
        kn.analysis.from_function(functions.end_to_end, traj),
        kn.analysis.from_function(functions.mixed, traj),
    ]

def bits(analyses):
    return [
        (name, np.shape(one.results[name]), str(one.results[name].dtype), np.asarray(one.results[name]).tobytes())
        for one in analyses for name in one.results
    ]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a trajectory and a module of functions."""
    write_dcd(tmp_path / "a.dcd", random_walk(400, 12))
    (tmp_path / "functions.py").write_text(MODULE)
    return tmp_path


# -- the same bits ---------------------------------------------------------------------------------------------------

SAME = """
for choice, schedule, results in WAYS:
    traj = kn.open("a.dcd")
    expected = bits(kn.run(many(traj), runner="serial", **choice))
    runner = kn.runners.MPI(gather="one-sided", schedule=schedule, results=results)
    found = kn.run(many(traj), runner=runner, **choice)
    if rank == 0 or results != "root":
        assert bits(found) == expected, (choice, schedule, results)
        for at in (0, 2, 3, 4):
            arrays = [found[at].results[name] for name in found[at].results]
            assert all(isinstance(array, (Array, ResultColumns)) == (results == "spread") for array in arrays)
if rank == 0:
    say("all the same")
"""
RANKS: dict[int, dict[str, str]] = {1: {}, 2: {}, 3: {}, 5: TWO_NODES}
CHOICES: list[dict[str, Any]] = [
    {},
    {"frames": [7, 7, 380, 0, 12]},
    {"start": 390, "stop": 3, "step": -2},
    {"frames": [11]},
]
WAYS = pairs(CHOICES, ("dynamic", "static"), ("root", "all", "spread"), list(RANKS))


@pytest.mark.parametrize("n_ranks", RANKS)
def test_same_bits_as_serial(mpi: Any, n_ranks: int, folder: Path) -> None:
    ways = [way for *way, ranks in WAYS if ranks == n_ranks]
    text = f"WAYS = {ways!r}\n{BEGIN}{SAME}"
    assert mpi.compute(n_ranks, text, folder, **RANKS[n_ranks]) == "all the same\n"


NOBODY_WAITS = """
import time
from kinema.runners.mpi.passes import WorkerRank
run_pieces = WorkerRank.run_pieces
def late(self, *arguments):
    while rank == 2 and not os.path.exists("rank 1 has put its rows"):
        time.sleep(0.01)
    run_pieces(self, *arguments)
    if rank == 1:
        open("rank 1 has put its rows", "w").close()
WorkerRank.run_pieces = late
traj = kn.open("a.dcd")
found = kn.analysis.RMSD(traj).run(runner=kn.runners.MPI(gather="one-sided", schedule="static", results="all"))
assert bits([found]) == bits([kn.analysis.RMSD(traj).run(runner="serial")])
say(rank)
"""


def test_who_puts_rows_waits_for_nobody(mpi: Any, folder: Path) -> None:
    assert sorted(mpi.script(3, BEGIN + NOBODY_WAITS, folder).split()) == ["0", "1", "2"]


TOLD = """
from kinema.runners.mpi.session import MPISession, RunEnded
broadcast = MPISession.broadcast
def noted(self, message=None):
    told = broadcast(self, message)
    if isinstance(told, RunEnded):
        sizes.append(len(told.value))
    return told
MPISession.broadcast = noted
traj = kn.open("a.dcd")
traj.scan()
one = []
for frames in (range(10), range(400)):
    for gather in ("collective", "one-sided"):
        sizes = []
        runner = kn.runners.MPI(gather=gather, results="all", schedule="static")
        done = kn.analysis.RMSD(traj).run(frames=frames, runner=runner)
        assert done.timings.gather == gather
        one += sizes
if rank == 0:
    say(*one)
"""


def test_rank_0_sends_no_rows_to_all(mpi: Any, folder: Path) -> None:
    short, few, long, many = map(int, mpi.script(1, TOLD, folder).split())
    row = 8 * (1 + 1 + 1)  # frame, time and value; the table is made of them if it is asked for
    # what is left is of both: timings of blocks
    assert (long - many) - (short - few) > 389 * row


# -- who has what ----------------------------------------------------------------------------------------------------

SPREAD = """
import pickle
mpi = kn.runners.MPI(gather="one-sided", results="spread")
traj = kn.open("a.dcd")
rmsd, rmsf = kn.run([kn.analysis.RMSD(traj), kn.analysis.RMSF(traj)], runner=mpi)
expected = kn.analysis.RMSD(traj).run(runner="serial").results
size = MPI.COMM_WORLD.Get_size()
block = -(-400 // size)
with rmsd.results.rmsd as array:
    assert array.shape == (400, 3) and array.ndim == 2 and len(array) == 400
    own = array.local_rows
    assert own == range(rank * block, min(400, rank * block + block))
    assert array.local.tobytes() == expected.rmsd[own.start : own.stop].tobytes()
    # of the rank before this one, which need not take part
    other = (own.start - 5) % 395
    assert array[other : other + 5].tobytes() == expected.rmsd[other : other + 5].tobytes()
    assert array[-1, 2] == expected.rmsd[-1, 2]
    assert array[3:9, 2].tolist() == expected.rmsd[3:9, 2].tolist()
    assert rmsd.table().columns[2].values.tobytes() == expected.values[:, 0].tobytes()
    assert isinstance(rmsf.results.rmsf, np.ndarray)
    said = []
    for wrong in (lambda: array[400], lambda: array[-401], lambda: array[[1, 2]], lambda: pickle.dumps(array)):
        try:
            wrong()
        except (kn.OutOfRangeError, kn.ArgumentError) as error:
            said.append(f"{type(error).__name__}: {error}")
left = rmsd.results
for gone in (lambda: array[0], lambda: left.values[3:5], lambda: left.time.local, lambda: np.asarray(array)):
    try:
        gone()
    except kn.ArgumentError as error:
        said.append(str(error))
array.free()  # twice is once
assert "freed" in repr(array)
if rank == size - 1:
    for line in said:
        say(line)
"""


@pytest.mark.parametrize(("n_ranks", "more"), [(1, {}), (3, {}), (4, TWO_NODES)])
def test_arrays_that_stay_spread(mpi: Any, n_ranks: int, more: dict[str, str], folder: Path) -> None:
    lines = mpi.compute(n_ranks, BEGIN + SPREAD, folder, **more).splitlines()
    assert lines[:2] == [f"OutOfRangeError: row {row} is out of range, the array has 400 rows" for row in (400, -401)]
    assert lines[2].startswith("ArgumentError: rows of a distributed array are a number or a slice")
    assert lines[3].startswith("ArgumentError: a distributed array cannot be pickled")
    assert lines[4:] == ["this array was freed; its rows are not there any more"] * 4


LED = """
with kn.runners.MPI() as mpi:
    if mpi.is_root:
        traj = kn.open("a.dcd")
        runner = mpi.configured(gather="one-sided", results="spread")
        expected = kn.analysis.RMSD(traj).run(runner="serial").results.rmsd
        first = kn.analysis.RMSD(traj).run(runner=runner).results.rmsd
        second = kn.analysis.RMSD(traj).run(runner=runner).results.rmsd
        assert isinstance(first, Array) and np.asarray(first).tobytes() == expected.tobytes()
        first.free()
        assert second[100:200].tobytes() == expected[100:200].tobytes()
        third = kn.analysis.RMSD(traj).run(runner=mpi.configured(gather="one-sided")).results.rmsd
        assert isinstance(third, np.ndarray) and third.tobytes() == expected.tobytes()
if rank == 0:
    try:
        second[0]
    except kn.ArgumentError as error:
        say(error)

mpi = kn.runners.MPI(gather="one-sided", results="spread")
def analyse():
    dropped = kn.analysis.RMSD(kn.open("a.dcd")).run(runner=mpi)
    return {"rmsd": kn.analysis.RMSD(kn.open("a.dcd")).run(runner=mpi).results.rmsd, "n": 3}
found = mpi.on_root(analyse)
assert found["n"] == 3
say(rank, found["rmsd"][250, 2] == kn.analysis.RMSD(kn.open("a.dcd")).run(runner="serial").results.rmsd[250, 2])
mpi = kn.runners.MPI(gather="one-sided", results="all")
found = mpi.on_root(analyse)["rmsd"]
assert isinstance(found, np.ndarray) and len(found) == 400
"""


def test_in_a_block_and_in_a_function(mpi: Any, folder: Path) -> None:
    lines = mpi.compute(3, BEGIN + LED, folder).splitlines()
    assert "this array was freed; its rows are not there any more" in lines
    assert sorted(line for line in lines if line.endswith("True")) == ["0 True", "1 True", "2 True"]
    assert len(lines) == 4


KEPT = """
traj = kn.open("a.dcd")
expected = kn.analysis.RMSD(traj).run(runner="serial").results.rmsd
for kept in ({"checkpoint": "run.ckpt"}, {"out": "rows.h5"}):
    for results in ("root", "spread"):
        found = kn.analysis.RMSD(traj).run(runner=kn.runners.MPI(gather="one-sided", results=results), **kept)
        if rank == 0 or results != "root":
            assert not isinstance(found.results.rmsd, Array)
            assert np.asarray(found.results.rmsd).tobytes() == expected.tobytes()
say(rank)
"""


def test_rows_that_are_kept_go_to_rank_0(mpi: Any, folder: Path) -> None:
    assert sorted(mpi.compute(2, BEGIN + KEPT, folder).split()) == ["0", "1"]


# -- failure ---------------------------------------------------------------------------------------------------------

FAILING = """
from kinema.runners.mpi.row_windows import RowsOfPass
mpi = kn.runners.MPI(gather="one-sided", schedule="static", results="all")
traj = kn.open("a.dcd")
for function in (functions.uneven, functions.words):
    try:
        kn.analysis.from_function(function, traj, over="frames").run(runner=mpi)
    except kn.ArgumentError as error:
        say(rank, error)
put = RowsOfPass.put
def failing(self, *arguments):
    found = put(self, *arguments)
    if rank == 1:
        raise ZeroDivisionError("after some rows were put")
    return found
RowsOfPass.put = failing
try:
    kn.analysis.RMSD(traj).run(runner=mpi)
except ZeroDivisionError as error:
    say(rank, error)
RowsOfPass.put = put
assert len(kn.analysis.RMSD(traj).run(runner=mpi).results.rmsd) == 400
try:
    kn.runners.MPI(results="spread")
except kn.ArgumentError as error:
    say(rank, error)
"""


@pytest.mark.parametrize(("n_ranks", "more"), [(2, {}), (3, TWO_NODES)])
def test_errors_are_raised_on_all_ranks(mpi: Any, n_ranks: int, more: dict[str, str], folder: Path) -> None:
    lines = mpi.compute(n_ranks, BEGIN + FAILING, folder, **more).splitlines()
    for rank in range(n_ranks):
        mine = [line.partition(" ")[2] for line in lines if line.startswith(f"{rank} ")]
        assert len(mine) == 4, lines
        assert "rows of different shapes, expected (2, 3), found (3, 3)" in mine[0]
        assert "values of type object cannot be put into an array distributed over ranks" in mine[1]
        assert mine[2] == "after some rows were put"
        assert "needs gather='one-sided'" in mine[3]


DYING = """
array = kn.analysis.RMSD(kn.open("a.dcd")).run(runner=kn.runners.MPI(gather="one-sided", results="spread")).results.rmsd
MPI.COMM_WORLD.Barrier()
if rank == 1:
    os.kill(os.getpid(), 9)
while True:
    array[:]
"""


def test_a_rank_that_dies_ends_those_that_read_its_rows(mpi: Any, folder: Path) -> None:
    (folder / "script.py").write_text(mpi.begin + BEGIN + DYING)
    code, _, _ = mpi.ended(mpi.started(3, ["script.py"], folder))
    assert code != 0


# -- rows of lists ---------------------------------------------------------------------------------------------------

LISTED = """
traj = kn.open("long.dcd", stored=False)
def near():
    return kn.analysis.Neighbors(traj, cutoff=8.0)
try:
    near().run(memory="9 MiB", runner="mpi")
except kn.MemoryLimitError as error:
    assert "out= writes them to a file" in str(error), error
    say("refused")
in_file = near().run(memory="9 MiB", runner="mpi", out="near.h5")
in_memory = near().run(memory="64 MiB", runner="mpi")
if rank == 0:
    alone = near().run(memory="64 MiB", runner="serial").results
    assert 16 * alone.first_row[-1] > 9 << 20
    for name in alone:
        for found in (in_file, in_memory):
            assert np.array_equal(np.asarray(found.results[name]), alone[name]), name
    say("the same")
"""


def test_rows_of_lists_beyond_the_memory_limit(mpi: Any, tmp_path: Path) -> None:
    positions = np.random.default_rng(7).uniform(0, 9, (17_000, 12, 3)).astype(np.float32)
    cell = np.broadcast_to(np.diag([14.0, 14.0, 14.0]).astype(np.float32), (17_000, 3, 3))
    write_dcd(tmp_path / "long.dcd", positions, cell=cell)
    assert sorted(mpi.compute(3, LISTED, tmp_path).splitlines()) == ["refused"] * 3 + ["the same"]
