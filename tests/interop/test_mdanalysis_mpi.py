"""KinemaReader on the ranks of an MPI program, and the arguments `comm` and `driver` in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.testing import random_walk, synthetic, write_dcd, write_h5md
from kinema.testing.h5md_files import add_element
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
interop = lazy("kinema.interop.mdanalysis")

pytestmark = pytest.mark.processes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a trajectory as DCD and as H5MD."""
    write_dcd(tmp_path / "md.dcd", random_walk(30, 12))
    with kn.Writer(tmp_path / "md.h5md", 12) as out:
        for frame in kn.open(tmp_path / "md.dcd"):
            out.write(frame)
    return tmp_path


# -- one process ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"comm": "not a communicator"}, "comm must be an intracommunicator of mpi4py"),
        ({"comm": "not a communicator", "driver": "mpio"}, "comm must be an intracommunicator of mpi4py"),
        ({"driver": "mpio"}, r"driver='mpio' needs comm="),
        ({"driver": "core"}, "driver must be 'mpio' or None, found 'core'"),
        ({"overlapp": "all"}, r"no argument overlapp=; did you mean overlap=\?"),
        ({"nonsense": 1}, "no argument nonsense="),
    ],
)
def test_wrong_arguments(folder: Path, options: dict[str, Any], words: str) -> None:
    universe = MDAnalysis.Universe.empty(12, trajectory=True)
    with pytest.raises(kn.ArgumentError, match=words):
        universe.load_new(str(folder / "md.h5md"), format=interop.KinemaReader, **options)


def test_arguments_of_topology_parsers_are_not_refused(folder: Path) -> None:
    reader = interop.KinemaReader(str(folder / "md.dcd"), atom_style="id type x y z", FLEXIBLE=True, n_atoms=12)
    assert reader.n_frames == 30


# -- ranks ---------------------------------------------------------------------------------------------------------

BEGIN = """
import warnings
import MDAnalysis
from kinema.interop.mdanalysis import install
from kinema.interop.mdanalysis import reader as readers
warnings.simplefilter("ignore")
install()
comm, traj = MPI.COMM_WORLD, "md.h5md"
u = MDAnalysis.Universe.empty(12, trajectory=True)
opened = []
open_trajectory = readers.open_trajectory
readers.open_trajectory = lambda *names, **options: (opened.append(names), open_trajectory(*names, **options))[1]
"""

# as in the publication of 2021
LISTING = 'u.load_new(traj, driver="mpio", comm=MPI.COMM_WORLD)\n'

READING = """
own = np.array_split(np.arange(u.trajectory.n_frames), comm.size)[comm.rank]
found = comm.gather({i: u.trajectory[i].positions.copy() for i in own.tolist()})
assert len(opened) == (1 if rank == 0 else 0), opened
if rank == 0:
    expected = kn.open("md.dcd").read()
    merged = {i: row for part in found for i, row in part.items()}
    assert sorted(merged) == list(range(30))
    for i, row in merged.items():
        np.testing.assert_allclose(row, expected[i], atol=1e-5)
copy = u.trajectory.copy()
assert copy[3].frame == 3
say("read")
"""


@pytest.mark.parametrize("n_ranks", [2, 3])
def test_ranks_open_once(mpi: Any, n_ranks: int, folder: Path) -> None:
    # a start of ranks takes longer than the reading
    text = BEGIN + "".join(
        f"traj = {name!r}\nopened.clear()\nu.load_new(traj, comm=MPI.COMM_WORLD){READING}comm.barrier()\n"
        for name in ("md.h5md", "md.dcd")
    )
    assert mpi.script(n_ranks, text, folder) == "read\n" * 2 * n_ranks


def test_an_error_is_raised_on_all_ranks(mpi: Any, folder: Path) -> None:
    text = f"""{BEGIN}
for name in ("absent.dcd", "script.py"):
    try:
        u.load_new(name, comm=comm, format=readers.KinemaReader)
    except kn.Error as error:
        say(type(error).__name__, "on rank 0" in "".join(error.__notes__))
# the communicator is as good as before
assert comm.allreduce(1) == comm.size
"""
    lines = mpi.script(2, text, folder).splitlines()
    assert sorted(lines) == ["FileNotFound True"] * 2 + ["UnsupportedFormatError True"] * 2


# -- driver="mpio" -------------------------------------------------------------------------------------------------

with_mpi = pytest.mark.skipif(not h5py.get_config().mpi, reason="h5py was built without MPI: make test-hdf5-mpi")

# makes an h5py that was built with MPI look as if it were not
PLAIN_H5PY = """
import types
import h5py
h5py.get_config = lambda: types.SimpleNamespace(mpi=False)
"""

# counts the frames that libhdf5 reads through MPI-IO
COUNTED = """
from kinema.studies.parallel_hdf5.datasets import MpioFiles
through_mpio = {}
read_rows = MpioFiles.read

def counted(self, source, rows, out):
    name = source.name.split("/")[-2]
    through_mpio[name] = through_mpio.get(name, 0) + rows.count
    return read_rows(self, source, rows, out)

MpioFiles.read = counted
"""

COMPARED = """
def compare(names, **options):
    plain = readers.KinemaReader(names, **options)
    through_mpio.clear()
    u = MDAnalysis.Universe.empty(plain.n_atoms, trajectory=True)
    u.load_new(names, driver="mpio", comm=MPI.COMM_WORLD, format=readers.KinemaReader, **options)
    assert u.trajectory.n_frames == plain.n_frames
    for frame in np.array_split(np.arange(plain.n_frames), comm.size)[rank].tolist():
        own, expected = u.trajectory[frame], plain[frame]
        assert (own.frame, own.time, own.data.keys()) == (frame, expected.time, expected.data.keys())
        for name in own.data:
            np.testing.assert_array_equal(own.data[name], expected.data[name])
        np.testing.assert_array_equal(own.dimensions, expected.dimensions)
        for name in ("positions", "velocities", "forces"):
            assert getattr(own, f"has_{name}") == getattr(expected, f"has_{name}")
            if getattr(own, f"has_{name}"):
                np.testing.assert_array_equal(getattr(own, name), getattr(expected, name))
    read = dict(through_mpio)
    np.testing.assert_array_equal(u.trajectory.timeseries(step=3), plain.timeseries(step=3))
    assert through_mpio["position"] > read["position"]
    u.trajectory.close()
    return read
"""


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """H5MD files: compressed with a cell that varies; contiguous, with velocities, forces, observables; two parts."""
    made = synthetic(40, 30, velocities=True, seed=3)
    write_h5md(tmp_path / "compressed.h5md", made, chunks=(4, 30, 3), compression="gzip", shuffle=True)
    write_h5md(tmp_path / "contiguous.h5md", made)
    with h5py.File(tmp_path / "contiguous.h5md", "a") as file:
        group = file["particles/all"]
        clock = {"steps": group["position/step"], "times": group["position/time"]}
        add_element(group, "force", made.positions * 2, unit="kJ mol-1 nm-1", **clock)
        add_element(file.create_group("observables"), "energy", np.arange(40.0), **clock)
    for name, part in (("first.h5md", slice(0, 25)), ("second.h5md", slice(25, 40))):
        with kn.Writer(tmp_path / name, 30) as out:
            for frame in kn.open(tmp_path / "compressed.h5md")[part]:
                out.write(frame)
    return tmp_path


@with_mpi
@pytest.mark.parametrize("n_ranks", [2, 3])
def test_values_through_mpi_io(mpi: Any, n_ranks: int, cases: Path) -> None:
    text = f"""{BEGIN}{COUNTED}{COMPARED}
read = compare("compressed.h5md")
assert read["position"] >= 40 // comm.size and "edges" in read, read
read = compare("contiguous.h5md")
assert {{"position", "velocity", "force"}} <= read.keys(), read
compare("contiguous.h5md", sub=[7, 3, 21], convert_units=False)
compare("contiguous.h5md", dt=0.5, time_offset=3.0)
compare(["first.h5md", "second.h5md"])
say("equal")
"""
    assert mpi.compute(n_ranks, text, cases) == "equal\n" * n_ranks


@with_mpi
@pytest.mark.parametrize("n_ranks", [2, 3])
def test_the_listing_of_the_publication(mpi: Any, n_ranks: int, folder: Path) -> None:
    text = f"{BEGIN}{COUNTED}{LISTING}assert through_mpio\n{READING}"
    code, out, err = mpi.ended(mpi.started(n_ranks, [_script(mpi, folder, text)], folder))
    # nothing is closed by the script; what its end has to say is an error
    assert (code, out, err) == (0, "read\n" * n_ranks, "")


@with_mpi
def test_readers_that_were_not_closed_are_collected_at_any_time(mpi: Any, cases: Path) -> None:
    text = f"""{BEGIN}{COUNTED}
import gc
gc.disable()
for name in ("compressed.h5md", "contiguous.h5md"):
    u = MDAnalysis.Universe.empty(30, trajectory=True)
    for _ in range(2):
        u.load_new(name, driver="mpio", comm=comm)
        assert u.trajectory[rank].frame == rank
    if rank == 0:
        # a Universe is in circles of references
        u = None
        gc.collect()
    comm.barrier()
with readers.KinemaReader("compressed.h5md", driver="mpio", comm=comm) as reader:
    pass
try:
    reader.rewind()
except kn.ArgumentError as error:
    say(error)
"""
    expected = "compressed.h5md: the reader was closed; with driver='mpio' all ranks make a new one\n"
    assert mpi.compute(2, text, cases) == expected * 2


@with_mpi
def test_an_analysis_and_copies(mpi: Any, cases: Path) -> None:
    text = f"""{BEGIN}{COUNTED}
import pickle
from MDAnalysis.analysis.base import AnalysisFromFunction
u = MDAnalysis.Universe.empty(30, trajectory=True)
u.load_new("compressed.h5md", driver="mpio", comm=comm)
own = range(u.trajectory.n_frames)[rank :: comm.size]
found = AnalysisFromFunction(lambda atoms: atoms.positions.sum(), u.trajectory, u.atoms).run(frames=list(own))
expected = kn.open("compressed.h5md").read()[list(own)].sum(axis=(1, 2))
np.testing.assert_allclose(found.results.timeseries, expected, rtol=1e-5)
# copies read by themselves, whatever other ranks do
through_mpio.clear()
if rank == 1:
    for copy in (u.trajectory.copy(), pickle.loads(pickle.dumps(u.trajectory))):
        np.testing.assert_array_equal(copy[5].positions, kn.open("compressed.h5md").read()[5])
    assert not through_mpio
say("done")
"""
    assert mpi.compute(2, text, cases) == "done\n" * 2


# a reader of the script itself is collected at its end, that of a Universe is in a circle of references
OWN_READER = 'reader = readers.KinemaReader("md.h5md", driver="mpio", comm=comm)\n'


@with_mpi
def test_a_script_that_closes_nothing_ends(mpi: Any, folder: Path) -> None:
    words = [_script(mpi, folder, f"{BEGIN}{OWN_READER}say(reader[3].frame)")]
    assert mpi.ended(mpi.started(2, words, folder)) == (0, "3\n" * 2, "")


@with_mpi
@pytest.mark.parametrize("opened", [LISTING, OWN_READER])
def test_an_exception_of_one_rank_ends_all(mpi: Any, opened: str, folder: Path) -> None:
    text = f"""{BEGIN}{opened}
if rank == 0:
    raise ZeroDivisionError("as was to be shown")
comm.barrier()
"""
    code, _, err = mpi.ended(mpi.started(2, ["-m", "mpi4py", _script(mpi, folder, text)], folder))
    assert code != 0
    assert "ZeroDivisionError: as was to be shown" in err


@with_mpi
def test_what_mpi_io_cannot_read(mpi: Any, folder: Path) -> None:
    write_h5md(folder / "linked.h5md", synthetic(30, 12))
    with h5py.File(folder / "linked.h5md", "a") as file:
        with h5py.File(folder / "values.h5", "w") as values:
            file.copy("particles/all/position/value", values)
        del file["particles/all/position/value"]
        file["particles/all/position/value"] = h5py.ExternalLink("values.h5", "/value")
    text = f"""{BEGIN}
for names in ("md.dcd", ["md.h5md", "md.dcd"], "absent.h5md", "linked.h5md"):
    try:
        u.load_new(names, driver="mpio", comm=comm, format=readers.KinemaReader)
    except kn.Error as error:
        say(error)
assert comm.allreduce(1) == comm.size
"""
    lines = sorted(mpi.script(2, text, folder).splitlines())[::2]
    assert lines[0].startswith("absent.h5md: no such file")
    assert lines[1].startswith(
        "linked.h5md: H5MD frame 0: positions (a virtual data set, or one of another file) cannot"
    )
    assert lines[1].endswith("take access='direct' (KinemaReader: no driver=)")
    assert lines[2:] == ["md.dcd: driver='mpio' is for HDF5 files, found DCD"] * 2


def test_without_a_parallel_h5py_the_listing_says_so(mpi: Any, folder: Path) -> None:
    plain = PLAIN_H5PY if h5py.get_config().mpi else ""
    text = f"{BEGIN}{plain}try:\n    {LISTING}except kn.ArgumentError as error:\n    say(error)"
    lines = mpi.script(2, text, folder).splitlines()
    assert len(lines) == 2
    assert all("driver='mpio' needs an h5py that was built with MPI" in line for line in lines)


def _script(mpi: Any, folder: Path, text: str) -> str:
    (folder / "script.py").write_text(mpi.begin + text)
    return "script.py"
