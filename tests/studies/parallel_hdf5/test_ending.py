"""Reading through MPI-IO that does not go well: all ranks end, none waits for another that has failed, nothing is lost.

`mpi.ended` fails a test whose ranks do not end.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.execution.checkpoint.file import load
from kinema.testing import random_walk, synthetic, write_dcd, write_h5md

pytestmark = pytest.mark.processes

N_FRAMES, N_ATOMS = 240, 20
ACCESSES = ["hdf5-mpio-independent", "hdf5-mpio-collective"]

MODULE = """
import os, time
from mpi4py import MPI

def corner(frame):
    # a run that is to be found at work takes more than ten seconds: Open MPI's mpiexec passes a signal on after one
    time.sleep(0.2 if "WAIT" in os.environ else 0)
    return frame.positions[0].astype(float)

def failing(frame):
    # on a rank that the variable names, in the middle of its share
    if MPI.COMM_WORLD.Get_rank() == int(os.environ["FAILS"]) and frame.frame % 80 > 40:
        raise ZeroDivisionError("as was to be shown")
    return frame.positions[0].astype(float)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a trajectory in compressed chunks and a module of functions."""
    (tmp_path / "functions.py").write_text(MODULE)
    made = synthetic(N_FRAMES, N_ATOMS)
    write_h5md(tmp_path / "a.h5md", made, chunks=(1, N_ATOMS, 3), compression="gzip")
    return tmp_path


def _damage(path: Path, frame: int) -> None:
    """Makes the stored bytes of one frame such that they cannot be inflated."""
    with h5py.File(path) as file:
        place = file["particles/all/position/value"].id.get_chunk_info_by_coord((frame, 0, 0))
    with path.open("r+b") as bytes_of:
        bytes_of.seek(place.byte_offset + 2)
        bytes_of.write(b"\xff" * 30)


# -- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("frame", [20, 100, 239])
def test_a_damaged_chunk_ends_the_command(mpi: Any, access: str, frame: int, folder: Path) -> None:
    _damage(folder / "a.h5md", frame)
    words = ["-m", "kinema", "rmsd", "-f", "a.h5md", "--access", access, "--schedule", "static", "-o", "rmsd.csv"]
    code, _, err = mpi.ended(mpi.started(3, words, folder))
    assert code == 2
    said = [line for line in err.splitlines() if line.startswith("kinema:")]
    assert len(said) == 1
    assert f"a.h5md: H5MD frame {frame}: HDF5 values cannot be read: inflate() failed" in said[0]
    assert f"on rank {frame // 80}" in err or frame < 80
    assert not (folder / "rmsd.csv").exists()


FAILING = """
from functions import failing
for access in ("hdf5-mpio-independent", "hdf5-mpio-collective"):
    runner = kn.runners.MPI(schedule="static")
    try:
        kn.analysis.from_function(failing, kn.open("a.h5md")).run(runner=runner, access=access, **KEPT)
    except ZeroDivisionError as error:
        # the rank itself needs not be told
        told = f"on rank {os.environ['FAILS']}" in " ".join(error.__notes__)
        say(rank, str(error), told or os.environ["FAILS"] == "0" == str(rank))
    # and the next run goes well
    rmsd = kn.analysis.RMSD(kn.open("a.h5md")).run(runner=kn.runners.MPI(results="all"), access=access)
    assert len(rmsd.results.rmsd) == 240
"""


@pytest.mark.parametrize("kept", ["{}", "dict(checkpoint=f'{access}.ckpt', checkpoint_interval=0)"])
@pytest.mark.parametrize("fails", [0, 1, 2])
def test_an_exception_of_one_rank_is_raised_on_all(mpi: Any, fails: int, kept: str, folder: Path) -> None:
    out = mpi.compute(3, FAILING.replace("KEPT", kept), folder, FAILS=str(fails))
    assert sorted(out.splitlines()) == sorted(f"{rank} as was to be shown True" for rank in (0, 1, 2) * 2)


REFUSED = """
def refused(path, options=None, runner=None, **arguments):
    try:
        traj = kn.open(path, **(options or {}))
        kn.analysis.RMSD(traj).run(runner=runner or "mpi", **arguments)
    except kn.ArgumentError as error:
        if rank == 0:
            say(error)

for access in ("hdf5-mpio-independent", "hdf5-mpio-collective"):
    refused("a.dcd", access=access)
    refused(["a.h5md", "b.h5md"], {"overlap": "all"}, access=access, workers=9)
    refused("images.h5md", {"unwrap": True}, access=access)
    if rank == 0:
        refused("a.h5md", runner="threads", access=access)
    refused("a.h5md", runner=kn.runners.MPI(schedule="dynamic"), access=access)
"""


def test_what_is_refused(mpi: Any, folder: Path) -> None:
    from kinema.testing.h5md_files import CASES

    write_dcd(folder / "a.dcd", random_walk(10, N_ATOMS))
    write_h5md(folder / "b.h5md", synthetic(10, N_ATOMS))
    next(case for case in CASES if case.name == "image_cuboid").write(folder / "images.h5md")
    lines = mpi.compute(2, REFUSED, folder).splitlines()
    expected = [
        "is for H5MD files, and this is a DCD file",
        "there are 2 ranks, asked for 9 workers",
        "unwrapped by its images) cannot be read through MPI-IO; take access='direct'",
        "is for runner='mpi', and this is 'threads'",
    ]
    # by itself each rank may take what it likes
    together = [*expected, "schedule 'dynamic' gains nothing"]
    assert len(lines) == len(expected) + len(together), lines
    for line, said in zip(lines, expected + together, strict=True):
        assert said in line


OPENING = """
# the files of one rank are elsewhere, as on a node that does not see them
if rank == 1:
    from kinema.studies.parallel_hdf5 import collective
    check_readable = collective._check_readable
    collective._check_readable = lambda paths: check_readable("elsewhere/" + path for path in paths)
with kn.runners.MPI() as mpi:
    if mpi.is_root:
        for access in ("hdf5-mpio-independent", "hdf5-mpio-collective"):
            try:
                kn.analysis.RMSD(kn.open("a.h5md")).run(runner=mpi, access=access)
            except kn.FileNotFound as error:
                say(error, *error.__notes__)
"""


def test_a_file_that_one_rank_does_not_see(mpi: Any, folder: Path) -> None:
    lines = mpi.compute(3, OPENING, folder).splitlines()
    assert len(lines) == 2
    said = "elsewhere/a.h5md: cannot read the HDF5 file: no such file"
    assert all(line.startswith(said) and "on rank 1" in line for line in lines)


# -- checkpoints and signals -------------------------------------------------------------------------------------------

KEPT = """
from functions import corner
access = os.environ.get("ACCESS", "direct")
def run(runner):
    said = []
    def progress(done, total):
        if done > 20 and not said and "WAIT" in os.environ:
            said.append(True)
            say("at work")
    traj = kn.open("a.h5md")
    return kn.run([kn.analysis.from_function(corner, traj), kn.analysis.RMSF(traj, align="average")], runner=runner,
                  access=access, checkpoint="run.ckpt", checkpoint_interval=0, progress=progress)
def save(made):
    np.savez("found.npz", **{f"{i}-{name}": one.results[name] for i, one in enumerate(made) for name in one.results})
"""
ON_RANKS = """
open(f"pid-{rank}", "w").write(str(os.getpid()))
with kn.runners.MPI() as mpi:
    if mpi.is_root:
        save(run(mpi))
"""


def _is_saved(path: Path) -> bool:
    content = load(str(path))
    return content is not None and bool(content.passes) and bool(content.passes[0].nodes)


def _results(folder: Path) -> dict[str, bytes]:
    with np.load(folder / "found.npz") as found:
        return {name: found[name].tobytes() for name in found}


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("victim", [None, 0, 2])
def test_a_run_that_is_ended_goes_on(mpi: Any, access: str, victim: int | None, folder: Path) -> None:
    mpi.compute(1, KEPT + 'save(run("threads"))', folder)
    expected = _results(folder)
    (folder / "found.npz").unlink()
    (folder / "script.py").write_text(mpi.begin + KEPT + ON_RANKS)
    process = mpi.started(3, ["script.py"], folder, WAIT="1", ACCESS=access)
    assert process.stdout is not None
    assert process.stdout.readline() == "at work\n"
    if victim is None:
        process.send_signal(signal.SIGTERM)
    else:
        until = time.monotonic() + 120
        while not _is_saved(folder / "run.ckpt"):
            assert time.monotonic() < until, "nothing was saved"
            time.sleep(0.01)
        os.kill(int((folder / f"pid-{victim}").read_text()), signal.SIGKILL)
    code, _, _ = mpi.ended(process)
    assert code != 0
    assert all(mpi.is_gone(int((folder / f"pid-{rank}").read_text())) for rank in range(3))
    assert not (folder / "found.npz").exists()
    content = load(str(folder / "run.ckpt"))
    assert content is not None
    assert content.passes[0].nodes
    # with another number of ranks
    mpi.compute(2, KEPT + ON_RANKS, folder, ACCESS=access)
    assert _results(folder) == expected
    assert not (folder / "run.ckpt").exists()


# -- which call ends, and how -----------------------------------------------------------------------------------------

STOPPED = """
import signal, threading
# Ctrl-C on rank 0 while it has finished its share and the others read on
with kn.runners.MPI() as mpi:
    if mpi.is_root:
        from kinema.studies.parallel_hdf5.collective import IndependentReader
        finish = IndependentReader.finish
        def finishing(self):
            finish(self)
            signal.raise_signal(signal.SIGINT)
        IndependentReader.finish = finishing
        from functions import corner
        try:
            kn.analysis.from_function(corner, kn.open("a.h5md")).run(runner=mpi, access=os.environ["ACCESS"])
        except KeyboardInterrupt:
            say("stopped")
        IndependentReader.finish = finish
        say(len(kn.analysis.RMSD(kn.open("a.h5md")).run(runner=mpi, access=os.environ["ACCESS"]).results.rmsd))
"""


@pytest.mark.parametrize("access", ACCESSES)
def test_ctrl_c_while_others_read_on(mpi: Any, access: str, folder: Path) -> None:
    assert mpi.compute(3, STOPPED, folder, ACCESS=access).split() == ["stopped", str(N_FRAMES)]


def test_without_parallel_hdf5_the_error_says_where_to_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Config:
        mpi = False

    monkeypatch.setattr(h5py, "get_config", Config)
    with pytest.raises(kn.ArgumentError, match=r"needs an h5py that was built with MPI.*docs/mpi\.md"):
        kn.analysis.RMSD(kn.open(folder / "a.h5md")).run(runner="mpi", access="hdf5-mpio-collective")
