"""Numbers that were once wrong without a word: the same values and notes on Dask workers and MPI ranks."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.runners import choose_runner
from kinema.testing import random_walk
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
datafiles = lazy("MDAnalysisTests.datafiles")

pytestmark = pytest.mark.processes

# mean RMSD of whole molecules, angstrom, as MDAnalysis has it after `unwrap` of frames and reference
WHOLE = 1.5152

PROGRAM = """
from MDAnalysisTests import datafiles

def opened():
    return kn.open("adk.xtc", topology=datafiles.TPR)

def values(runner, traj):
    whole = traj.with_transform(kn.transforms.whole())
    whole_rmsd = kn.analysis.RMSD(whole, "protein and name CA", reference=datafiles.GRO)
    alone_rmsd = kn.analysis.RMSD(whole, "protein and name CA", reference="protein.gro")
    broken = kn.analysis.RMSD(traj, "protein and name CA")
    slab = kn.analysis.Distances(kn.open("slab.trr"), [[0, 1]])
    damaged = kn.analysis.RadiusOfGyration(kn.open("damaged.xtc"), weights=None)
    whole_rmsd.run(runner=runner)
    alone_rmsd.run(runner=runner)
    broken.run(runner=runner)
    slab.run(runner=runner)
    try:
        damaged.run(runner=runner)
        error = "none"
    except kn.CorruptFileError as caught:
        error = f"frame {caught.frame}"
    rmsd, alone, distance = (one.results.values.mean() for one in (whole_rmsd, alone_rmsd, slab))
    noted = [sum("broken at the faces" in note for note in one.notes) for one in (whole_rmsd, broken)]
    dummy = kn.analysis.RadiusOfGyration(kn.open("dummy.trr"), weights=None).run(runner=runner)
    (cell,) = [note for note in dummy.notes if "is smaller than what is in it" in note]
    return f"{rmsd:.4f} {alone:.4f} {distance:.4f} {noted} {error}, {cell.split(': ')[1]}"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("numbers")
    shutil.copy(datafiles.XTC, folder / "adk.xtc")
    content = bytearray(Path(datafiles.XTC).read_bytes())
    content[500_000:500_004] = b"\xff" * 4
    (folder / "damaged.xtc").write_bytes(content)
    # broken, as the structure of all atoms is
    MDAnalysis.Universe(datafiles.GRO).select_atoms("protein").write(folder / "protein.gro")
    with kn.Writer(folder / "slab.trr", 2) as slab:
        slab.write(positions=np.array([[0.5, 0, 0], [9.5, 0, 0]]), cell=np.diag([10.0, 10.0, 0.0]))
    cells = np.broadcast_to(np.eye(3) * 30.0, (60, 3, 3)).copy()
    # two frames that the look for broken molecules passes over
    cells[[5, 44]] = np.eye(3)
    with kn.Writer(folder / "dummy.trr", 20) as dummy:
        dummy.write(positions=random_walk(60, 20), cell=cells)
    return folder


EXPECTED = f"{WHOLE} {WHOLE} 1.0000 [0, 1] frame 3, TRR frame 5"


def test_on_two_ranks(folder: Path, mpi: Any) -> None:
    program = PROGRAM + "\nwith kn.runners.MPI() as mpi:\n    if mpi.is_root:\n        say(values(mpi, opened()))\n"
    assert mpi.compute(2, program, folder).splitlines()[-1] == EXPECTED


def test_on_dask_and_processes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"kn": kn}
    exec(PROGRAM, names)
    # its topology takes seconds to read
    traj = names["opened"]()
    for name in ("threads", "processes", "dask"):
        runner = choose_runner(name)
        with runner.session():
            assert names["values"](runner, traj) == EXPECTED


CONVERSIONS = """
def notes_of_conversions(runner):
    found = []
    for target, strategy in (("o.dcd", "auto"), ("o.xtc", "auto"), ("o.h5md", "auto"), ("o.h5md", "subfiles")):
        # so that the process that leads reads no frame but the first
        made = kn.convert("dummy.trr", target, runner=runner, strategy=strategy, verify=False, overwrite=True)
        found += [note.split(": ")[1] for note in made.notes if "is smaller than what is in it" in note]
    return ", ".join(found)
"""


def test_notes_on_frames_that_workers_convert(folder: Path, mpi: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"kn": kn}
    exec(CONVERSIONS, names)
    expected = ", ".join(["TRR frame 5"] * 4)
    for name in ("processes", "dask"):
        runner = choose_runner(name)
        with runner.session():
            assert names["notes_of_conversions"](runner) == expected
    program = CONVERSIONS + "\nfound = notes_of_conversions('mpi')\nsay(found) if rank == 0 else None\n"
    assert mpi.compute(2, program, folder).splitlines()[-1] == expected
