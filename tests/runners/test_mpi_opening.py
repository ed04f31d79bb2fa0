"""Scripts that all ranks run and that open once: what each rank opens and looks at, what it is told, errors."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kinema.testing import random_walk, write_dcd, write_xtc

pytestmark = pytest.mark.processes

# MPICH takes every second rank for one of another node
TWO_NODES = {"MPIR_CVAR_ODD_EVEN_CLIQUES": "1"}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a system, as a simulation has left it and as H5MD with masses."""
    import MDAnalysis
    from MDAnalysisTests.datafiles import DCD, PSF

    import kinema as kn

    made = tmp_path_factory.mktemp("system")
    shutil.copy(DCD, made / "md.dcd")
    shutil.copy(PSF, made / "top.psf")
    traj = kn.open(DCD)
    with kn.Writer(made / "md.h5md", traj.n_atoms, topology=MDAnalysis.Universe(PSF)) as out:
        for frame in traj:
            out.write(frame)
    return made


@pytest.fixture
def folder(tmp_path: Path, system: Path) -> Path:
    """A copy of it."""
    shutil.copytree(system, tmp_path, dirs_exist_ok=True)
    return tmp_path


# -- nothing is touched ----------------------------------------------------------------------------------------------

NOT_THERE = """
# for ranks other than 0 there are no files: to open or to look at any of these would fail
os.makedirs(f"elsewhere-{rank}")
if rank:
    os.chdir(f"elsewhere-{rank}")
mpi = kn.runners.MPI(results="all")
for names, some in ((("md.dcd", "top.psf"), "protein and name CA"), (("md.h5md",), "prop mass > 30")):
    traj = mpi.open(*names)
    made = [
        kn.analysis.RMSD(traj[5:80:3], select=some, weights="mass", groups=["prop mass > 13"]),
        kn.analysis.RadiusOfGyration(traj[5:80:3], select="prop mass > 2"),
        kn.analysis.RMSF(traj[5:80:3], select=some, align="average"),
    ]
    # one rank reads all frames
    kn.run(made, runner=mpi, workers=1)
    told = [traj.n_frames, traj.n_atoms, traj.format, traj.fields, traj.dt, traj.times.tobytes(), str(traj.parts),
            traj.atoms.masses[:5].tolist(), made[0].selection.indices.tobytes()]
    told += [np.asarray(one.results[name]).tobytes() for one in made for name in one.results]
    assert all(one == told for one in MPI.COMM_WORLD.allgather(told))
    if rank == 0:
        same = kn.open(*names)[5:80:3]
        expected = kn.analysis.RMSD(same, select=some, weights="mass", groups=["prop mass > 13"]).run(runner="serial")
        assert made[0].results.rmsd.tobytes() == expected.results.rmsd.tobytes()
say(rank)
"""


@pytest.mark.parametrize(("n_ranks", "more"), [(1, {}), (3, {}), (4, TWO_NODES)])
def test_other_ranks_need_no_file(mpi: Any, n_ranks: int, more: dict[str, str], folder: Path) -> None:
    assert sorted(mpi.compute(n_ranks, NOT_THERE, folder, **more).split()) == [str(rank) for rank in range(n_ranks)]


COUNTED = """
mpi = kn.runners.MPI(results="all", schedule="static", gather="one-sided")
traj = mpi.open([os.path.join(os.getcwd(), name) for name in ("a.dcd", "b.dcd", "c.dcd")], "top.pdb", overlap="all")
rmsd = kn.analysis.RMSD(traj, select="name CA").run(runner=mpi)
assert len(rmsd.results.rmsd) == 960
"""
TRACED = ("openat", "open", "stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2", "readlink")


def _pdb(n_atoms: int) -> str:
    atom = "ATOM  {0:5d}  CA  ALA A{0:4d}       0.000   0.000   0.000  1.00  0.00           C  \n"
    return "".join(atom.format(number + 1) for number in range(n_atoms))


def test_opens_and_stats_of_each_rank(mpi: Any, tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if (
        strace is None
        or subprocess.run(
            [strace, "-f", "--seccomp-bpf", "-o", "/dev/null", "true"], capture_output=True, timeout=60
        ).returncode
    ):
        pytest.skip("system calls cannot be traced here: no strace, or no right to trace")
    for name in "abc":
        write_dcd(tmp_path / f"{name}.dcd", random_walk(320, 5))
    (tmp_path / "top.pdb").write_text(_pdb(5))
    (tmp_path / "script.py").write_text(mpi.begin + COUNTED)
    own = "trace-${PMI_RANK:-$OMPI_COMM_WORLD_RANK}"
    trace = f"exec {strace} -f --seccomp-bpf -qq -e trace=file -o {own} {sys.executable} script.py"
    process = mpi.started(3, ["-c", trace], tmp_path, program="sh")
    code, out, err = mpi.ended(process)
    assert code == 0, out + err
    touched: dict[int, list[tuple[str, str]]] = {}
    for rank in range(3):
        calls = re.findall(r'(\w+)\((?:AT_FDCWD, )?"([^"]*)"', (tmp_path / f"trace-{rank}").read_text())
        mine = [(call, Path(name).name) for call, name in calls if name.endswith((".dcd", ".pdb", ".kinema"))]
        touched[rank] = [(call, name) for call, name in mine if call in TRACED]
    assert {name for _, name in touched[0]} >= {"a.dcd", "b.dcd", "c.dcd", "top.pdb"}
    # the part that a rank reads is opened once; after each read of a block it is looked at, and no other
    for rank, name in ((1, "b.dcd"), (2, "c.dcd")):
        assert [one for one in touched[rank] if one[0] == "openat"] == [("openat", name)]
        assert {looked for _, looked in touched[rank]} == {name}


INDEXED = """
import time
from kinema.runners.mpi import indexing as mpi_indexing, runner as runner_module
search = mpi_indexing.search
def noted(ranks, command, *rest):
    say(rank, "searches")
    time.sleep(0.25)
    return search(ranks, command, *rest)
runner_module.search = mpi_indexing.search = noted
mpi = kn.runners.MPI()
mpi._index_from = 0
traj = mpi.open("a.xtc")
assert traj.n_frames == 700
assert rank or traj.opening["frames"] >= 0.25
with kn.runners.MPI() as block:
    if block.is_root:
        say("led", block.open("a.xtc").n_frames)
"""


def test_all_ranks_search_a_file_without_an_index(mpi: Any, tmp_path: Path) -> None:
    write_xtc(tmp_path / "a.xtc", random_walk(700, 9))
    lines = sorted(mpi.script(2, INDEXED, tmp_path).splitlines())
    assert lines == ["0 searches", "1 searches", "led 700"]


BY_DEFAULT = """
from kinema.runners.mpi import indexing as mpi_indexing, runner as runner_module
search = mpi_indexing.search
def noted(ranks, command, *rest):
    say(rank, "searches", sum(stop - start for _, start, stop in command.ranges[rank :: ranks.size]) > 30 << 20)
    return search(ranks, command, *rest)
runner_module.search = mpi_indexing.search = noted
assert kn.runners.MPI().open("large.xtc").n_frames > 100
"""


def test_large_files_are_searched_by_all_ranks_by_default(mpi: Any, tmp_path: Path) -> None:
    write_xtc(tmp_path / "some.xtc", random_walk(2, 100_000))
    some = (tmp_path / "some.xtc").read_bytes()
    (tmp_path / "large.xtc").write_bytes(some * ((64 << 20) // len(some) + 1))
    assert sorted(mpi.script(2, BY_DEFAULT, tmp_path).splitlines()) == ["0 searches True", "1 searches True"]


# -- failure ---------------------------------------------------------------------------------------------------------

FAILING = """
from kinema.model import snapshot
mpi = kn.runners.MPI(results="all")
for names in (("none.dcd",), ("md.dcd", "none.psf"), ("md.dcd", None, "wrong")):
    try:
        mpi.open(*names[:2], **({"overlap": "wrong"} if names[2:] else {}))
    except kn.Error as error:
        say(rank, type(error).__name__)
open("bad.psf", "w").write("PSF nonsense") if rank == 0 else None
traj = mpi.open("md.dcd", "bad.psf")
assert len(kn.analysis.RMSD(traj, select=[1, 2, 3]).run(runner=mpi).results.rmsd) == 98
try:
    kn.analysis.RMSD(traj, select="name CA")
except kn.ArgumentError as error:
    say(rank, "MDAnalysis cannot read this topology" in str(error))
opening = snapshot.TrajectorySnapshot.open
def failing(self, data):
    if rank == 1:
        raise MemoryError("no room")
    return opening(self, data)
snapshot.TrajectorySnapshot.open = failing
try:
    mpi.open("md.dcd")
except MemoryError as error:
    say(rank, error, "on rank 1" in "".join(error.__notes__))
snapshot.TrajectorySnapshot.open = opening
assert mpi.open("md.dcd").n_frames == 98
"""


def test_errors_are_raised_on_all_ranks(mpi: Any, folder: Path) -> None:
    lines = mpi.compute(3, FAILING, folder).splitlines()
    said = ["FileNotFound", "FileNotFound", "ArgumentError", "True", "no room True"]
    for rank in range(3):
        assert [line.partition(" ")[2] for line in lines if line.startswith(f"{rank} ")] == said
