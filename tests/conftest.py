"""Fixtures that several test folders share: small systems, the real adenylate kinase, a launcher of MPI programs.

`mpi` starts programs with the launcher of this environment.
"""

from __future__ import annotations

import faulthandler
import gc
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis.internal.conjecture.providers
import pytest
from hypothesis import settings

# Few examples, the same in each run, so that a red run is red again; `make test-long` asks for many.
settings.register_profile("few", deadline=None, database=None, derandomize=True, max_examples=50)
settings.register_profile("many", deadline=None, database=None, max_examples=1000)
# before the suites of kinema.testing, which take over what is set when they are imported
settings.load_profile("many" if "KINEMA_TEST_KILLS" in os.environ else "few")
if settings.default.derandomize:
    # constants of modules that happen to be imported would be tried as well: examples would depend on the tests before,
    # and each process would parse the whole package
    hypothesis.internal.conjecture.providers.is_local_module_file = lambda path: False

# netCDF4 sets it to a folder of its own filters when it is imported, unless it is set: the name of a filter is in HDF5
# files, so that their bytes would depend on whether libhdf5 or netCDF4 is loaded first. This is libhdf5's default.
os.environ.setdefault("HDF5_PLUGIN_PATH", "/usr/local/hdf5/lib/plugin")

import kinema as kn  # noqa: E402
from kinema.base import notes  # noqa: E402
from kinema.cache.counts import emit_troubles  # noqa: E402
from kinema.testing import random_walk, write_dcd  # noqa: E402
from kinema.testing.amounts import wanted_kills  # noqa: E402
from kinema.testing.programs.children import end_children, restore_sigint, start_child  # noqa: E402
from kinema.testing.programs.dask_cluster import DaskCluster  # noqa: E402
from kinema.testing.programs.dask_cluster import dask_forks as forks_of_dask  # noqa: E402
from kinema.testing.programs.forks import Forks  # noqa: E402
from kinema.testing.programs.standing_ranks import StandingRanks  # noqa: E402

# -- how tests end -----------------------------------------------------------------------------------------------------

# a test with its fixtures, in multiples of `timeout` of pyproject.toml
HANGS = 2


# what tests write to a disk waits for it, at each `fsync` some 20 ms; and room for the files of a whole run
IN_MEMORY, ROOM = Path("/dev/shm"), 4 << 30
STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Tests send SIGINT, also where they run in the background; their files lie in memory if that has room."""
    restore_sigint()
    if IN_MEMORY.is_dir() and shutil.disk_usage(IN_MEMORY).free > ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))
    # later on 2 is a file that what tests print goes to
    config.stash[STDERR] = os.dup(2)
    # what a collection makes stays: to look for garbage in it takes a third of the time
    gc.disable()


def pytest_collection_finish() -> None:
    """From here on garbage is looked for in what tests make alone."""
    gc.freeze()
    gc.enable()


# number of tests after which modules that they have imported are taken out of the search for garbage as well
FREEZES = 400
tests_done = itertools.count(1)


def pytest_runtest_logfinish() -> None:
    """Modules that tests have imported stay too."""
    if next(tests_done) % FREEZES == 0:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests of processes have a lane of their own, so that none takes the core of another at the wrong moment."""
    from kinema.testing.programs.lanes import Lanes

    return Lanes(config, log)


# seconds of a test, with its fixtures, from which on `tools/check_slow_tests.py` wants a reason
SLOW = 30.0


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Keeps which tests were slow, for `make lint`."""
    seconds: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "duration"):
                seconds[report.nodeid] += report.duration
    # there is none with -p no:cacheprovider
    if cache := getattr(config, "cache", None):
        cache.set("kinema/seconds", round(sum(seconds.values())))
        cache.set("kinema/slow", {name: round(took, 1) for name, took in seconds.items() if took > SLOW})


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Ends the process, with the stacks of all threads, where a test hangs in code that hears no signal."""
    seconds = HANGS * float(item.config.getini("timeout"))
    if seconds > 0:
        faulthandler.dump_traceback_later(seconds, exit=True, file=item.config.stash[STDERR])
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """It has ended."""
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


# kinds of notes that the tests of each module expect
TESTS = Path(__file__).parent
NOTES: dict[str, list[str]] = tomllib.loads((TESTS / "notes.toml").read_text())


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A note that nobody expects fails the test; other warnings go to the summary."""
    texts: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", kn.Note)
        show_others = warnings.showwarning

        def show(message: Any, category: type[Warning], *more: Any) -> None:
            if issubclass(category, kn.Note):
                texts.append(str(message))
            else:
                show_others(message, category, *more)

        warnings.showwarning = show
        result = yield
    module = item.path.relative_to(TESTS).as_posix() if item.path.is_relative_to(TESTS) else ""
    expected = re.compile("|".join([*NOTES["everywhere"], *NOTES.get(module, [])]))
    unexpected = [text for text in texts if not expected.search(text)]
    assert not unexpected, f"notes that are not in tests/notes.toml: {unexpected}"
    return result


# Schedulers and workers of Dask sample their own state up to a hundred times a second, which takes a seventh of a core
# even if they are idle. Dask reads these variables when it is imported, here and in child processes.
UNWATCHED = {
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s",
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "30s",
}
for name, value in UNWATCHED.items():
    os.environ.setdefault(name, value)


# -- fixtures ----------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def own_cache_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds what another has stored, or what is the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(autouse=True)
def remember_topologies() -> None:
    """Lets MDAnalysis parse each topology once a process; every universe gets a copy of its own.

    To parse the same files again took a twelfth of the time of tests in process.
    """
    module: Any = sys.modules.get("MDAnalysis.core.universe")
    if module is None or hasattr(module._topology_from_file_like, "parsed"):
        return
    parse, parsed = module._topology_from_file_like, {}

    def remembered(file: Any, topology_format: Any = None, **options: Any) -> Any:
        if options or not isinstance(file, (str, Path)) or not Path(file).is_file():
            return parse(file, topology_format=topology_format, **options)
        key = (Path(file).name, hashlib.sha256(Path(file).read_bytes()).digest(), topology_format)
        if key not in parsed:
            with warnings.catch_warnings(record=True) as given:
                warnings.simplefilter("always")
                topology = parse(file, topology_format=topology_format)
            # a parser that warns does so each time
            parsed[key] = None if given else topology
        known = parsed[key]
        return parse(file, topology_format=topology_format) if known is None else known.copy()

    remembered.parsed = parsed  # type: ignore[attr-defined]
    module._topology_from_file_like = remembered


@pytest.fixture(autouse=True)
def no_children_left() -> Iterator[None]:
    """Ends whatever a test has started."""
    yield
    end_children()


class System(NamedTuple):
    """Files of one system."""

    topology: str
    trajectory: str


@pytest.fixture(scope="session")
def adk_dcd() -> System:
    """Adenylate kinase, PSF and DCD: 3341 atoms, 98 frames."""
    from MDAnalysisTests import datafiles

    return System(str(datafiles.PSF), str(datafiles.DCD))


@pytest.fixture(scope="session")
def adk_xtc() -> System:
    """Adenylate kinase in water, GRO and XTC: 47681 atoms, 10 frames."""
    from MDAnalysisTests import datafiles

    return System(str(datafiles.GRO), str(datafiles.XTC))


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of golden data."""
    return Path(__file__).parent / "data" / "golden"


@pytest.fixture(autouse=True)
def _forget_notes() -> None:
    """Warnings of earlier tests are given again; late troubles of their node caches are not notes of this test."""
    notes._ONCE.clear()
    with notes.collected():
        emit_troubles()


@pytest.fixture
def small(tmp_path: Path) -> kn.Trajectory:
    """20 frames of 15 atoms without a topology."""
    path = tmp_path / "small.dcd"
    write_dcd(path, random_walk(20, 15))
    return kn.open(path, stored=False)


@pytest.fixture
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system in memory, of 1 MiB unless a test gives its size; skips where this user may not mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = f"size={getattr(request, 'param', '1m')},mode=700"
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, timeout=60
    ).returncode:
        pytest.skip("this user may not mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True, timeout=60)


@pytest.fixture(scope="session")
def kills() -> Callable[..., int]:
    """How often a test that kills at random moments does so: 4 times unless it says fewer; more in `make test-long`."""
    return lambda fewer=4: wanted_kills(fewer)


# -- MPI programs ------------------------------------------------------------------------------------------------------

# the launcher that belongs to the MPI library of this environment comes first
MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")

# Open MPI starts nothing as root, and no more ranks than cores, unless told so; other launchers know none of this
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}

BEGIN = """
import os, sys
import numpy as np
sys.path.insert(0, os.getcwd())
import kinema as kn
from mpi4py import MPI
rank = MPI.COMM_WORLD.Get_rank()

def say(*words):
    # in one piece: lines of other ranks may come between the words of print
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
"""


# MPICH: ranks that wait for others sleep, so that five of them do not fight for two cores
SLEEPING = {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"}


# variables of the MPI libraries and of the linker, which are read when a process starts
AT_START = ("MPIR_", "OMPI_", "LD_")


class MPI:
    """Starts MPI programs, and has ranks that stay."""

    begin = BEGIN

    def __init__(self) -> None:
        self._standing: dict[int, StandingRanks] = {}

    @staticmethod
    def is_mpich() -> bool:
        """Whether the launcher is MPICH's, and so are variables and options that only that knows."""
        return (
            MPIEXEC is not None
            and "HYDRA" in subprocess.run([MPIEXEC, "--version"], capture_output=True, text=True, timeout=120).stdout
        )

    @staticmethod
    def environment(**more: str) -> dict[str, str]:
        package = str(Path(kn.__file__).parent.parent)
        more = OPEN_MPI | SLEEPING | more
        return {**os.environ, "PYTHONPATH": package, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", **more}

    def started(
        self, n_ranks: int, words: list[str], folder: Path, *, program: str = sys.executable, **more: str
    ) -> subprocess.Popen[str]:
        assert MPIEXEC is not None, "no mpiexec: pip install kinema[mpi-local]"
        return start_child([MPIEXEC, "-n", str(n_ranks), program, *words], cwd=folder, env=self.environment(**more))

    def run(self, words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
        """A program of one process, which no launcher has started."""
        words = [sys.executable, *words]
        process = start_child(words, cwd=folder, env=self.environment())
        return subprocess.CompletedProcess(words, *self.ended(process))

    @staticmethod
    def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
        """Exit code, stdout, stderr. A run that hangs fails the test, and is ended."""
        try:
            out, err = process.communicate(timeout=180)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"the ranks did not end: {out}{err}")
        return process.returncode, out, err

    @staticmethod
    def is_gone(process: int) -> bool:
        """Whether a process has ended, or soon has: Open MPI's mpiexec does not wait for those that it has killed."""
        until = time.monotonic() + 120
        while time.monotonic() < until:
            try:
                os.kill(process, 0)
            except ProcessLookupError:
                return True
            time.sleep(0.05)
        return False

    def compute(self, n_ranks: int, text: str, folder: Path, **more: str) -> str:
        """Output of ranks that stay for other tests: for programs that compute values, and change no module.

        Variables that take effect at a start give the program ranks of its own.
        """
        if any(name.startswith(AT_START) for name in more):
            return self.script(n_ranks, text, folder, **more)
        assert MPIEXEC is not None, "no mpiexec: pip install kinema[mpi-local]"
        if n_ranks not in self._standing:
            self._standing[n_ranks] = StandingRanks(n_ranks, MPIEXEC, self.environment())
        return self._standing[n_ranks].run(BEGIN + text, folder, self.environment(**more))

    def close(self) -> None:
        """Ends the ranks that stay."""
        for ranks in self._standing.values():
            ranks.close()

    def script(self, n_ranks: int, text: str, folder: Path, **more: str) -> str:
        """Output of ranks that are started for a script."""
        (folder / "script.py").write_text(BEGIN + text)
        code, out, err = self.ended(self.started(n_ranks, ["script.py"], folder, **more))
        assert code == 0, out + err
        return out


@pytest.fixture(scope="session")
def mpi() -> Iterator[MPI]:
    """Starts MPI programs, and has ranks that stay."""
    found = MPI()
    yield found
    found.close()


@pytest.fixture(scope="session")
def dask_forks() -> Iterator[Forks]:
    """Forks schedulers and workers of Dask."""
    made = forks_of_dask()
    yield made
    made.close()


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory, dask_forks: Forks) -> Iterator[DaskCluster]:
    """A Dask cluster without workers; `start` adds them."""
    made = DaskCluster(tmp_path_factory.mktemp("dask"), dask_forks)
    try:
        yield made
    finally:
        made.end()
