"""Ranks at work: whoever is free takes what is left, threads of a rank, progress within a piece, what ends them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kinema.testing import random_walk, write_dcd

pytestmark = pytest.mark.processes

# MPICH takes every second rank for one of another node
TWO_NODES = {"MPIR_CVAR_ODD_EVEN_CLIQUES": "1"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a trajectory."""
    write_dcd(tmp_path / "a.dcd", random_walk(400, 12))
    return tmp_path


DYNAMIC = """
import time
def stuck(frame):
    # rank 1 is at its first piece until the others have done nearly all
    until = time.monotonic() + 120
    while MPI.COMM_WORLD.Get_rank() == 1 and not os.path.exists("go"):
        if time.monotonic() > until:
            raise TimeoutError("the others do not take the pieces that are left")
        time.sleep(0.01)
    return 1.0

def heard(done, total):
    if done >= 340:
        open("go", "w").close()

with kn.runners.MPI() as mpi:
    if mpi.is_root:
        found = kn.analysis.from_function(stuck, kn.open("a.dcd")).run(runner=mpi, progress=heard)
        say(sum(worker.frames for worker in found.timings.workers))
"""


@pytest.mark.parametrize(("n_ranks", "more"), [(2, {}), (3, TWO_NODES)])
def test_whoever_is_free_takes_what_is_left(mpi: Any, n_ranks: int, more: dict[str, str], folder: Path) -> None:
    assert mpi.compute(n_ranks, DYNAMIC, folder, **more) == "400\n"


SERVED = """
import threading, time
def served(frame):
    # whoever is faster leaves some frames to rank 0
    until = time.monotonic() + 120
    while MPI.COMM_WORLD.Get_rank() and not os.path.exists("rank 0 is at work"):
        assert time.monotonic() < until, "rank 0 was given nothing"
        time.sleep(0.01)
    open("rank 0 is at work", "w").close()
    # rank 0 would answer ranks of other nodes ten times a second otherwise
    threads = [thread.name for thread in threading.enumerate()]
    return float(MPI.COMM_WORLD.Get_rank() == 0 and "kinema-mpi-progress" in threads)

with kn.runners.MPI() as mpi:
    if mpi.is_root:
        for schedule in ("dynamic", "static"):
            runner = mpi.configured(schedule=schedule)
            found = kn.analysis.from_function(served, kn.open("a.dcd")).run(runner=runner)
            of_rank_0 = found.timings.workers[0].frames
            say(schedule, of_rank_0 > 0, found.results.values.sum() == of_rank_0)
"""


def test_other_nodes_are_given_numbers_while_rank_0_computes(mpi: Any, folder: Path) -> None:
    if not mpi.is_mpich():
        pytest.skip("only MPICH takes ranks of one machine for those of two nodes")
    assert mpi.script(3, SERVED, folder, **TWO_NODES) == "dynamic True True\nstatic True False\n"


THREADS = """
from kinema.testing.runner_work import with_another_thread
with kn.runners.MPI(threads_per_worker=2, schedule="static", oversubscribe=1) as mpi:
    if mpi.is_root:
        found = kn.analysis.from_function(with_another_thread(), kn.open("a.dcd")).run(runner=mpi)
        say(*(worker.frames > 0 for worker in found.timings.workers))
"""


def test_threads_of_a_rank_work_at_the_same_time(mpi: Any, folder: Path) -> None:
    assert mpi.compute(2, THREADS, folder) == "True True\n"


# -- progress --------------------------------------------------------------------------------------------------------

WAITING = """
import time

def waiting(frame):
    # rank 0 at once, rank 1 after some frames of its only piece
    until = time.monotonic() + 120
    while (frame.frame < 200 or frame.frame >= 300) and not os.path.exists("go"):
        if time.monotonic() > until:
            raise TimeoutError("nobody was told of the frames before")
        time.sleep(0.01)
    return 1.0
"""

PROGRESS = """
from kinema.base import progress

class Heard:
    moved = False
    def __call__(self, done, total):
        self.moved |= 0 < done <= 100
    def slowest(self, worker, frames_per_second):
        if self.moved and worker == "rank 0":
            open("go", "w").close()

progress._BETWEEN_LINES = 0
with kn.runners.MPI(schedule="static", oversubscribe=1) as mpi:
    if mpi.is_root:
        traj = kn.open("a.dcd")
        kn.analysis.from_function(waiting, traj).run(runner=mpi, progress=Heard())
        kn.analysis.RMSD(traj).run(runner=mpi)
        os.write(2, b"no more\\n")
        kn.analysis.RMSD(traj).run(runner=mpi, progress=False)
"""


def test_progress_moves_within_a_piece_and_names_the_slowest(mpi: Any, folder: Path) -> None:
    (folder / "script.py").write_text(mpi.begin + WAITING + PROGRESS)
    code, out, err = mpi.ended(mpi.started(2, ["script.py"], folder))
    assert (code, out) == (0, ""), err
    # a launcher passes on what ranks write: there lines take the place of a bar, unless nobody wants to know
    lines, _, silent = err.partition("no more\n")
    assert all(re.match(r"RMSD: \d+ of 400 frames, [\d,]+ frames/s", line) for line in lines.splitlines()), err
    assert lines.splitlines()[-1].startswith("RMSD: 400 of 400 frames"), err
    assert silent == ""


KEPT = """
from pathlib import Path
from kinema.testing.runners import save_at_work
with kn.runners.MPI(schedule="static", oversubscribe=1) as mpi:
    if mpi.is_root:
        save_at_work(mpi, Path.cwd(), workers=1)
        say("saved")
"""


def test_what_is_done_of_a_piece_is_saved(mpi: Any, tmp_path: Path) -> None:
    assert mpi.compute(2, KEPT, tmp_path) == "saved\n"


KEPT_OF_OTHERS = """
from kinema.execution.checkpoint.file import load

def look(done, total):
    # rank 0 has nothing to save yet
    content = load("run.ckpt")
    if content is not None and content.passes[0].nodes:
        open("go", "w").close()

with kn.runners.MPI(schedule="static", oversubscribe=1) as mpi:
    if mpi.is_root:
        analysis = kn.analysis.from_function(waiting, kn.open("a.dcd"))
        analysis.run(runner=mpi, progress=look, checkpoint="run.ckpt", checkpoint_interval=0)
        say("saved")
"""


def test_what_other_ranks_have_done_is_saved(mpi: Any, folder: Path) -> None:
    assert mpi.compute(2, WAITING + KEPT_OF_OTHERS, folder) == "saved\n"


# -- failure ---------------------------------------------------------------------------------------------------------

STOPPING = """
import time
def failing_on(rank):
    def function(frame):
        if MPI.COMM_WORLD.Get_rank() == rank:
            open(f"{rank} has failed", "w").close()
            raise KeyError("at once")
        open(f"frame {frame.frame}", "w").close()
        until = time.monotonic() + 120
        while not os.path.exists(f"{rank} has failed"):
            assert time.monotonic() < until, "no rank has failed"
            time.sleep(0.01)
        # all that are left would take more than ten seconds
        time.sleep(0.1)
        return 1.0
    return function

for failing in (0, 1):
    try:
        kn.analysis.from_function(failing_on(failing), kn.open("a.dcd")).run(runner=kn.runners.MPI(schedule="static"))
    except KeyError:
        pass
    MPI.COMM_WORLD.Barrier()
    if rank == 0:
        done = [name for name in os.listdir() if name.startswith("frame ")]
        # the other two would have 266 together
        say(len(done) < 250)
        for name in done:
            os.remove(name)
    MPI.COMM_WORLD.Barrier()
"""


def test_an_exception_of_one_rank_stops_the_others(mpi: Any, folder: Path) -> None:
    assert mpi.compute(3, STOPPING, folder) == "True\nTrue\n"


def test_rounds_run_on_rank_0_alone(mpi: Any, folder: Path) -> None:
    text = """
traj = kn.open("a.dcd")
traj.scan()
try:
    kn.runners.MPI().map_reduce(kn.runners.PassRequest(traj.core, kn.FrameSelection(range(3)), []))
except kn.ArgumentError as error:
    say(error)
for wrong in (dict(gather="x"), dict(results="x"), dict(schedule="x"), dict(threads_per_worker=0)):
    try:
        kn.runners.MPI(**wrong)
    except kn.ArgumentError as error:
        say(error)
"""
    out = mpi.compute(1, text, folder)
    assert "runs passes on rank 0, within" in out
    assert "gather must be 'collective' or 'one-sided', found 'x'" in out
    assert "results must be 'root', 'all' or 'spread', found 'x'" in out
