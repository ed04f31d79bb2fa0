"""Imports by task: neither MDAnalysis nor matplotlib nor pyarrow for a run from indices."""

import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kinema
from kinema.base import moved

HEAVY = ("MDAnalysis", "matplotlib", "pyarrow", "rich", "typer", "pytest", "pandas", "scipy")
CODE = """
import sys
import kinema as kn
traj = kn.open(sys.argv[1], stored=False)
atoms = traj.select(index_file=sys.argv[2])
analyses = [kn.analysis.RMSD(traj, select=atoms), kn.analysis.RMSF(traj, select=[1, 2], align="average")]
for analysis in kn.run(analyses):
    for suffix in (".csv", ".xvg", ".npy", ".dat"):
        analysis.save(sys.argv[3] + suffix)
print(",".join(name for name in %r if name in sys.modules))
"""


def run(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(Path(kinema.__file__).parents[1])}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, env=environment, timeout=120
    )


def test_a_run_from_indices_imports_little(small, tmp_path):
    (tmp_path / "index.ndx").write_text("[ some ]\n1 2 3 7\n")
    found = run("-c", CODE % (HEAVY,), small.paths[0], str(tmp_path / "index.ndx"), str(tmp_path / "out"))
    assert found.stdout.strip() == ""


COMMAND = """
import sys
from kinema.cli import main
sys.argv = ["kinema", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert end.code == 0, end.code
import gc
assert gc.isenabled()
print(",".join(sys.modules), file=sys.stderr)
"""
# of a command that reads a file whose frames are found by arithmetic, and writes nothing
NOT_FOR_A_COMMAND = (
    *(name for name in HEAVY if name != "typer"),
    "h5py", "hmac", "importlib.metadata", "multiprocessing", "secrets", "socket", "tempfile",
    "kinema.analysis.custom", "kinema.analysis.growing_outputs", "kinema.analysis.structure.rgyr",
    "kinema.analysis.structure.rmsf",
    "kinema.cache.node_cache", "kinema.cache.publishing", "kinema.cli.commands.convert",
    "kinema.execution.following", "kinema.execution.persistence", "kinema.trajectory.following.follow",
    "kinema.formats.h5md.read",
    "kinema.report", "kinema.runners.dask", "kinema.runners.local.processes", "kinema.runners.mpi.runner",
    "kinema.model.selection.readable_frames",
)  # fmt: skip
# beyond the modules of numpy, and of inspect, which numpy 2.0 does not import and newer versions do; 203 when this was
# written
MOST_MODULES = 205


def test_a_command_imports_what_it_needs(small, tmp_path):
    """The start of a command is what it imports."""
    found = run("-c", COMMAND, "rmsd", small.paths[0], "-q").stderr.split(",")
    assert [name for name in NOT_FOR_A_COMMAND if name in found] == []
    of_numpy = run("-c", "import sys, inspect, numpy; print(','.join(sys.modules))").stdout.split(",")
    assert len(set(found) - set(of_numpy)) <= MOST_MODULES


WITH_MASSES = """
import sys
import numpy as np
import kinema as kn
from kinema.trajectory import Trajectory
atoms = kn.Atoms(4, names=["A", "B", "C", "D"], masses=[1.0, 2.0, 3.0, 4.0])
with kn.Writer(sys.argv[1], 4, atoms=atoms) as out:
    out.write(np.random.default_rng(1).random((5, 4, 3)))
traj = kn.open(sys.argv[1])
assert kn.analysis.RadiusOfGyration(traj).run().results.rgyr.shape == (5,)
# as for the ranks of MPI
assert Trajectory.from_snapshot(traj.core, traj.snapshot()).atoms == atoms
print(",".join(name for name in %r if name in sys.modules))
"""


def test_masses_of_a_file_need_no_mdanalysis(tmp_path):
    assert run("-c", WITH_MASSES % (HEAVY,), str(tmp_path / "a.h5md")).stdout.strip() == ""


def test_public_names():
    assert all(hasattr(kinema, name) for name in kinema.__all__)
    assert sorted(kinema.__all__) == sorted(set(kinema.__all__))
    assert kinema.__version__


@pytest.mark.parametrize(
    "name",
    [
        "Atoms",
        "Trajectory",
        "RMSD",
        "RMSF",
        "Dihedrals",
        "Features",
        "RadiusOfGyration",
        "open",
        "read_atoms",
        "run",
        "Selection",
        "Timings",
    ],
)
def test_public_things_are_documented(name):
    thing = getattr(kinema, name)
    assert thing.__doc__
    if isinstance(thing, type):
        for attribute, value in vars(thing).items():
            if not attribute.startswith("_") and (callable(value) or isinstance(value, property)):
                assert inspect.getdoc(getattr(thing, attribute)), f"{name}.{attribute}"


THREADS = """
import sys, threading
import kinema as kn
from kinema.model.topology import refuse_changing

topology, trajectory = sys.argv[1:]
start = threading.Barrier(6)
errors = []

def use(number):
    start.wait()
    try:
        if number % 3 == 0:
            kn.open(trajectory, topology, stored=False).select("name CA")
        elif number % 3 == 1:
            refuse_changing("name CA")
        else:
            from kinema.interop.mdanalysis import KinemaReader
    except BaseException as error:
        errors.append(repr(error))

threads = [threading.Thread(target=use, args=(number,)) for number in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(errors)
"""


def test_threads_that_are_the_first_to_use_mdanalysis(adk_dcd):
    found = run("-W", "ignore", "-c", THREADS, adk_dcd.topology, adk_dcd.trajectory)
    assert found.stdout == "[]\n"


def test_dir_lists_what_is_public_and_nothing_else():
    assert dir(kinema) == sorted(kinema.__all__)
    for name in dir(kinema):
        assert getattr(kinema, name) is not None


def test_dir_of_packages_whose_names_are_imported_later():
    root = Path(kinema.__file__).parent
    texts = {path.parent: path.read_text() for path in root.rglob("__init__.py")}
    packages = [path for path, text in texts.items() if re.search(r"^(def )?__getattr__\b", text, re.MULTILINE)]
    assert {"transforms", "analysis", "runners"} <= {path.name for path in packages}
    for path in packages:
        name = ".".join(["kinema", *path.relative_to(root).parts])
        assert dir(importlib.import_module(name)) == sorted(importlib.import_module(name).__all__), name


OLD_PATHS = """
import sys, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import kinema
    import kinema.errors
    from kinema.analysis.rmsd import RMSD
    from kinema.profile import stored
    import kinema.profile.stored
    assert RMSD is kinema.RMSD
    assert kinema.errors is sys.modules["kinema.base.errors"] is sys.modules["kinema.errors"]
    assert stored is sys.modules["kinema.report.stored"]
    assert kinema.base.errors.__spec__.name == "kinema.base.errors"
    try:
        import kinema.profile.nothing
    except ModuleNotFoundError as error:
        print(error)
for one in caught:
    print(one.category.__name__, one.filename, str(one.message).partition(";")[0])
"""


def test_old_paths_of_public_modules_lead_to_the_new_ones_and_warn():
    found = run("-c", OLD_PATHS)
    moved = [
        ("errors", "base.errors"),
        ("analysis.rmsd", "analysis.structure.rmsd"),
        ("profile", "report"),
        ("profile.stored", "report.stored"),
    ]
    assert found.stdout.splitlines() == [
        "No module named 'kinema.profile.nothing'",
        *(f"DeprecationWarning <string> kinema.{old} is kinema.{new} now" for old, new in moved),
    ]


def test_each_moved_module_is_there():
    for old, new in moved.MOVED.items():
        assert importlib.util.find_spec(new) is not None, old
