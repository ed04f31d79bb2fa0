"""HDF5 files through libhdf5 and MPI-IO: the same bits as read directly, for all layouts and shares of ranks."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import kinema as kn
from kinema.testing import synthetic, write_h5md
from kinema.testing.h5md_files import CASES

pytestmark = pytest.mark.processes

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
    if mpi.is_root:
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
    out = mpi.compute(n_ranks, f"NAMES = {list(LAYOUTS)!r}\n{SAME}", folder)
    assert out.splitlines() == [f"{name} as read directly" for name in LAYOUTS]


CONFORMANCE = (
    BEGIN
    + """
from pathlib import Path
from kinema.testing.h5md_files import CASES
with kn.runners.MPI() as mpi:
    if mpi.is_root:
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

# what libhdf5 does not give as it is to be, or only from other files
NEVER = {
    *("virtual", "virtual_of_filtered", "virtual_joins_atoms", "external_link"),
    *("image_fixed_box", "image_triclinic", "image_cuboid", "id_with_absent_particles", "id_order_changes"),
}
# what HDF5 1.10.8 reads wrongly when ranks read together
NOT_TOGETHER = {"lzf", "edge_chunks_unfiltered", "filter_mask", "chunks_never_written", "chunks_never_written_fill"}
# filtered, and this version does not tell how each chunk was stored
UNKNOWN = {"nbit", "user_block"}


def test_every_conformance_file_is_read_alike_or_refused(mpi: Any, tmp_path: Path) -> None:
    (tmp_path / "functions.py").write_text(MODULE)
    lines = mpi.compute(2, CONFORMANCE, tmp_path).splitlines()
    assert {line.split()[0] for line in lines} == {case.name for case in CASES}
    assert [line for line in lines if line.endswith(" other")] == []
    refused = {tuple(line.split()[:2]) for line in lines if " refused " in line}
    assert all("take access='" in line for line in lines if " refused " in line)
    assert {name for name, access in refused if access.endswith("independent")} == NEVER
    together = {name for name, access in refused if access.endswith("collective")}
    assert NEVER | NOT_TOGETHER <= together <= NEVER | NOT_TOGETHER | UNKNOWN


# -- the command line --------------------------------------------------------------------------------------------------


def _values(path: Path) -> list[list[str]]:
    return list(csv.reader(line for line in path.read_text().splitlines() if not line.startswith("#")))


@pytest.mark.parametrize("access", ["hdf5-mpio-independent", "hdf5-mpio-collective"])
def test_the_command(mpi: Any, access: str, folder: Path) -> None:
    kn.analysis.RMSD(kn.open(folder / "gzip.h5md")).run().save(folder / "direct.csv")
    words = ["-m", "kinema", "rmsd", "-f", "gzip.h5md", "--access", access, "-o", f"{access}.csv"]
    code, out, err = mpi.ended(mpi.started(3, [*words, "--report", "report.json"], folder))
    assert (code, err) == (0, ""), out
    assert _values(folder / f"{access}.csv") == _values(folder / "direct.csv")
    assert json.loads((folder / "report.json").read_text())["run"]["access"] == access


def test_an_experiment_compares_the_accesses(mpi: Any, folder: Path) -> None:
    accesses = ["direct", "hdf5-mpio-independent", "hdf5-mpio-collective"]
    words = ["-m", "kinema", "scaling", "-f", "gzip.h5md", "--runner", "mpi", "--workers", "1,2", "--repeats", "1"]
    # no launcher starts it: it starts one itself
    found = mpi.run([*words, "--access", ",".join(accesses), "-o", "scaling"], folder)
    assert found.returncode == 0, found.stdout + found.stderr
    runs = [json.loads(line) for line in (folder / "scaling" / "results.jsonl").read_text().splitlines()]
    assert sorted((run["access"], run["workers"]) for run in runs) == sorted((a, n) for a in accesses for n in (1, 2))


def test_time_and_bytes_of_another_library_are_those_of_reading(mpi: Any, folder: Path) -> None:
    text = """
with kn.runners.MPI() as mpi:
    if mpi.is_root:
        for access in ("hdf5-mpio-independent", "hdf5-mpio-collective"):
            run = kn.analysis.RMSD(kn.open("contiguous.h5md")).run(runner=mpi, access=access, frames=slice(50, None))
            workers = run.timings.passes[-1].workers
            assert all(0 < worker.decode < worker.io for worker in workers), workers
            say(sum(worker.bytes_read for worker in workers))
"""
    whole_frames = 100 * N_ATOMS * 12
    assert mpi.compute(2, text, folder).split() == [str(whole_frames)] * 2


# stands before the MPI library and counts how bytes are asked for
COUNTING = r"""
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static long together, alone;

int MPI_File_read_at_all(MPI_File f, MPI_Offset at, void *to, int n, MPI_Datatype type, MPI_Status *status) {
    together++;
    return PMPI_File_read_at_all(f, at, to, n, type, status);
}

int MPI_File_read_at(MPI_File f, MPI_Offset at, void *to, int n, MPI_Datatype type, MPI_Status *status) {
    alone++;
    return PMPI_File_read_at(f, at, to, n, type, status);
}

__attribute__((destructor)) static void tell(void) {
    char name[32];
    snprintf(name, sizeof name, "calls-%d", (int)getpid());
    FILE *file = fopen(name, "w");
    fprintf(file, "%ld %ld\n", together, alone);
    fclose(file);
}
"""

READ = """
with kn.runners.MPI() as mpi:
    if mpi.is_root:
        traj = kn.open("contiguous.h5md")
        kn.run([kn.analysis.RMSD(traj)], runner=mpi, access=ACCESS)
        say("done")
"""


def test_ranks_read_together_or_each_by_itself_as_asked_for(mpi: Any, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "counting.c").write_text(COUNTING)
    compiler = ["mpicc.openmpi", "-shared", "-fPIC", "-o", "counting.so", "counting.c"]
    subprocess.run(compiler, cwd=tmp_path, check=True, timeout=120)
    (tmp_path / "contiguous.h5md").symlink_to(folder / "contiguous.h5md")
    found = {}
    for access in ("hdf5-mpio-independent", "hdf5-mpio-collective"):
        script = f"ACCESS = {access!r}\n{READ}"
        assert mpi.compute(2, script, tmp_path, LD_PRELOAD=str(tmp_path / "counting.so")) == "done\n"
        calls = [tuple(map(int, path.read_text().split())) for path in tmp_path.glob("calls-*")]
        found[access] = tuple(map(sum, zip(*calls, strict=True)))
        for path in tmp_path.glob("calls-*"):
            path.unlink()
    together, alone = zip(*(found[access] for access in sorted(found)), strict=True)
    # of two ranks each reads as often as the other where they read together; what opening reads is the same for both
    assert together[1] == 0 < together[0], found
    assert together[0] % 2 == 0, found
    assert alone[0] < alone[1], found
