"""HDF5 files through libhdf5 and MPI-IO: the same bits as read directly, whatever the layout, and shares of any size."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.testing import synthetic, write_h5md
from kinema.testing.h5md_files import CASES

N_FRAMES, N_ATOMS = 150, 40

LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "frames": {"chunks": (1, N_ATOMS, 3)},
    "gzip": {"chunks": (1, N_ATOMS, 3), "compression": "gzip", "compression_opts": 1},
    "gzip of frames": {"chunks": (8, N_ATOMS, 3), "compression": "gzip", "shuffle": True},
    "automatic": {"chunks": (13, 7, 1)},
}

MODULE = """
import numpy as np

def seen(frame):
    # of positions and cells, which are two data sets
    return np.array([frame.positions.astype(float).sum(), frame.cell.astype(float).sum(), float(frame.frame)])
"""

BEGIN = """
from functions import seen
ACCESSES = ("hdf5-mpio-independent", "hdf5-mpio-collective")

def bits(analyses):
    return [np.asarray(one.results[name]).tobytes() for one in analyses for name in one.results]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of each layout, and a module of functions."""
    folder = tmp_path_factory.mktemp("mpio")
    (folder / "functions.py").write_text(MODULE)
    made = synthetic(N_FRAMES, N_ATOMS, cell="growing", velocities=True)
    for name, storage in LAYOUTS.items():
        write_h5md(folder / f"{name}.h5md", made, **storage)
    return folder


SAME = (
    BEGIN
    + """
def analyses(traj):
    return [kn.analysis.RMSD(traj, select=[3, 4, 30], groups=[[0, 7]]), kn.analysis.RMSF(traj, align="average"),
            kn.analysis.from_function(seen, traj)]

with kn.runners.MPI() as mpi:
    if mpi.leads:
        for name in NAMES:
            traj = kn.open(f"{name}.h5md")
            # all frames; more frames than ranks get the same number of; fewer leaves than ranks; rows here and there
            for frames in (None, slice(1, 90, 7), slice(0, 2), [149, 3, 4, 5, 80, 3]):
                expected = bits(kn.run(analyses(traj), frames=frames, runner="serial"))
                for access in ACCESSES:
                    for gather, threads in (("collective", 1), ("one-sided", 2)):
                        runner = mpi.configured(gather=gather, threads_per_worker=threads)
                        found = kn.run(analyses(traj), frames=frames, runner=runner, access=access)
                        assert bits(found) == expected, (name, frames, access, gather)
                        assert access in found[0].plan, found[0].plan
            say(name, "as read directly")
"""
)


@pytest.mark.parametrize("n_ranks", [1, 2, 3])
def test_the_same_bits_as_read_directly(mpi: Any, n_ranks: int, folder: Path) -> None:
    out = mpi.script(n_ranks, f"NAMES = {list(LAYOUTS)!r}\n{SAME}", folder)
    assert out.splitlines() == [f"{name} as read directly" for name in LAYOUTS]


CONFORMANCE = (
    BEGIN
    + """
from pathlib import Path
from kinema.testing.h5md_files import CASES
with kn.runners.MPI() as mpi:
    if mpi.leads:
        for number, case in enumerate(CASES):
            os.makedirs(str(number))
            path = Path(str(number), "case.h5md")
            traj = kn.open(path, **case.write(path).options)
            if "positions" not in traj.fields:
                say(case, "without positions")
                continue
            expected = bits([kn.analysis.from_function(seen, traj).run(runner="serial")])
            for access in ACCESSES:
                try:
                    found = bits([kn.analysis.from_function(seen, traj).run(runner=mpi, access=access)])
                    said = "same" if found == expected else "other"
                except kn.ArgumentError as error:
                    said = f"refused {error}"
                say(case, access, said)
"""
)

# what libhdf5 does not give as the file has it, or only from other files
REFUSED = "image|unwrap|id_|virtual|external_link|mdtraj|masked|reorder"


def test_every_conformance_file_is_read_alike_or_refused(mpi: Any, tmp_path: Path) -> None:
    (tmp_path / "functions.py").write_text(MODULE)
    lines = mpi.script(2, CONFORMANCE, tmp_path).splitlines()
    assert not [line for line in lines if line.endswith(" other")]
    assert {line.split()[0] for line in lines} == {case.name for case in CASES}
    print(*[line for line in lines if "refused" in line or "without" in line], sep="\n")
