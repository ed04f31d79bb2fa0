"""MDAnalysis' analyses on Kinema's runners: the results of its serial backend, progress, errors."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np
import psutil
import pytest

import kinema as kn
from kinema.base.resources import default_workers
from kinema.base.serialisation import serialize
from kinema.runners.local.processes import ProcessesRunner
from kinema.testing.amounts import each
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
base = lazy("MDAnalysis.analysis.base")
contacts = lazy("MDAnalysis.analysis.contacts")
results = lazy("MDAnalysis.analysis.results")
rms = lazy("MDAnalysis.analysis.rms")
datafiles = lazy("MDAnalysisTests.datafiles")
interop = lazy("kinema.interop.mdanalysis")

if TYPE_CHECKING:
    from distributed import Client

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    from distributed import Client, LocalCluster

    # workers cannot import this module: its classes go with their code
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0) as cluster,
        Client(cluster, set_as_default=False) as found,
    ):
        yield found


RUNNERS = ("serial", "processes", "dask")
READERS = ("MDAnalysis' reader", "KinemaReader")
# the two differ in the rows with two readers and three runners; together they have all
EACH_READER_AND_RUNNER = pytest.mark.parametrize(("universe", "runner"), each(READERS, RUNNERS), indirect=True)
EACH_RUNNER_AND_READER = pytest.mark.parametrize(("universe", "runner"), each(READERS[::-1], RUNNERS), indirect=True)


@pytest.fixture
def runner(request: pytest.FixtureRequest) -> Any:
    from kinema.runners.dask.runner import Dask

    return Dask(request.getfixturevalue("client")) if request.param == "dask" else request.param


@pytest.fixture(scope="module")
def atoms() -> Any:
    """The topology of the PSF file, parsed once."""
    return MDAnalysis.Universe(datafiles.PSF, to_guess=("types", "masses"))._topology


@pytest.fixture(params=READERS)
def universe(request: pytest.FixtureRequest, atoms: Any) -> MDAnalysis.Universe:
    options = {"format": interop.KinemaReader} if request.param == "KinemaReader" else {}
    return MDAnalysis.Universe(atoms.copy(), datafiles.DCD, **options)


@cache
def own() -> SimpleNamespace:
    """Analyses of the user's own; MDAnalysis, which has their base class, is imported when they are needed."""

    class Gyration(base.AnalysisBase):  # type: ignore[misc]
        """A user's analysis that does not come from MDAnalysis."""

        _analysis_algorithm_is_parallelizable = True

        def __init__(self, group: MDAnalysis.AtomGroup, fails_at: int = -1) -> None:
            super().__init__(group.universe.trajectory)
            self._group = group
            self._fails_at = fails_at

        @classmethod
        def get_supported_backends(cls) -> tuple[str, ...]:
            return ("serial",)

        def _prepare(self) -> None:
            self.results.radii = []

        def _single_frame(self) -> None:
            if self._ts.frame == self._fails_at:
                raise ArithmeticError("a frame that cannot be")
            self.results.radii.append(self._group.radius_of_gyration())

        def _get_aggregator(self) -> results.ResultsGroup:
            return results.ResultsGroup({"radii": results.ResultsGroup.flatten_sequence})

        def _conclude(self) -> None:
            self.results.radii = np.array(self.results.radii)

    class Departure(base.AnalysisBase):  # type: ignore[misc]
        """From where the atoms are when `run` is called; its results and the frame at hand are what a part changes."""

        _analysis_algorithm_is_parallelizable = True

        def __init__(self, group: MDAnalysis.AtomGroup) -> None:
            super().__init__(group.universe.trajectory)
            self._group = group
            self.results.far = []

        @classmethod
        def get_supported_backends(cls) -> tuple[str, ...]:
            return ("serial",)

        def _prepare(self) -> None:
            self._from = self._group.positions.copy()

        def _single_frame(self) -> None:
            self.results.far.append(np.abs(self._group.positions - self._from).max())

        def _get_aggregator(self) -> results.ResultsGroup:
            return results.ResultsGroup({"far": results.ResultsGroup.flatten_sequence})

    class Where(base.AnalysisBase):  # type: ignore[misc]
        """The process of each part, and the threads of Kinema's reader in it."""

        _analysis_algorithm_is_parallelizable = True

        @classmethod
        def get_supported_backends(cls) -> tuple[str, ...]:
            return ("serial",)

        def _prepare(self) -> None:
            self.results.threads = [getattr(self._trajectory, "_workers", 0)]
            self.results.processes = [os.getpid()]

        def _single_frame(self) -> None:
            pass

        def _get_aggregator(self) -> results.ResultsGroup:
            return results.ResultsGroup(dict.fromkeys(("threads", "processes"), results.ResultsGroup.flatten_sequence))

    class Doubling(Gyration):
        """Changes the Universe that it is of."""

        def _single_frame(self) -> None:
            super()._single_frame()
            self._group.masses = 2 * self._group.masses[::-1]

    return SimpleNamespace(Gyration=Gyration, Departure=Departure, Where=Where, Doubling=Doubling)


def _analyses(universe: MDAnalysis.Universe) -> list[tuple[base.AnalysisBase, str]]:
    acidic = universe.select_atoms("(resname ASP GLU) and (name OE* OD*)")
    basic = universe.select_atoms("(resname ARG LYS) and (name NH* NZ)")
    return [
        (rms.RMSD(universe, select="name CA"), "rmsd"),
        (contacts.Contacts(universe, select=(acidic, basic), refgroup=(acidic, basic), radius=6.0), "timeseries"),
        (own().Gyration(universe.select_atoms("name CA")), "radii"),
    ]


@EACH_READER_AND_RUNNER
def test_same_results_as_serial(universe: MDAnalysis.Universe, runner: Any) -> None:
    expected = [analysis.run(step=4).results[name] for analysis, name in _analyses(universe)]
    for (analysis, name), wanted in zip(_analyses(universe), expected, strict=True):
        seen: list[tuple[int, int]] = []
        backend = interop.Backend(runner, progress=lambda done, total, seen=seen: seen.append((done, total)))
        analysis.run(step=4, backend=backend, unsupported_backend=True, n_parts=5)
        np.testing.assert_array_equal(analysis.results[name], wanted)
        assert analysis.frames.tolist() == list(range(0, 98, 4))
        assert len(seen) == 5
        assert seen[-1] == (25, 25)


@EACH_RUNNER_AND_READER
def test_a_part_finds_nothing_of_another(universe: MDAnalysis.Universe, runner: Any) -> None:
    group = universe.select_atoms("name CA")
    universe.trajectory[50]
    expected = own().Departure(group).run().results.far
    universe.trajectory[50]
    found = own().Departure(group).run(backend=interop.Backend(runner), unsupported_backend=True, n_parts=7)
    assert found.results.far == expected
    assert expected[50] == 0.0


def test_readers_in_workers_leave_the_other_cores_to_these(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from kinema.runners.dask.runner import Dask

    universe = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD, format=interop.KinemaReader)
    for runner, threads in ((Dask(client), 1), ("processes", 1), (ProcessesRunner(threads_per_worker=2), 2)):
        backend = interop.Backend(runner, 2)
        found = own().Where(universe.trajectory).run(backend=backend, unsupported_backend=True, n_parts=2)
        # no more than the machine has
        assert found.results.threads == [min(threads, default_workers())] * 2
        assert os.getpid() not in found.results.processes
    asked = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD, format=interop.KinemaReader, workers=3)
    found = own().Where(asked.trajectory).run(backend=interop.Backend("processes", 2), unsupported_backend=True)
    assert found.results.threads == [3, 3]


def test_workers_of_a_block_stay_for_the_next_analysis(universe: MDAnalysis.Universe) -> None:
    before = set(psutil.Process().children(recursive=True))

    def seen(n_parts: int, backend: interop.Backend) -> set[int]:
        found = own().Where(universe.trajectory).run(backend=backend, unsupported_backend=True, n_parts=n_parts)
        # this one helps until workers are ready
        return set(found.results.processes) - {os.getpid()}

    with interop.Backend("processes", 1) as backend:
        first = seen(4, backend)
        assert len(first) == 1
        assert rms.RMSD(universe, select="name CA").run(backend=backend, unsupported_backend=True).results.rmsd.shape
        assert seen(1, backend) == first
        with pytest.raises(ArithmeticError):
            own().Gyration(universe.atoms, fails_at=42).run(backend=backend, unsupported_backend=True, n_parts=7)
        # after an error others begin, and after a loss
        second = seen(2, backend)
        assert second.isdisjoint(first)
        os.kill(*second, signal.SIGKILL)
        # until it is gone; its parent is to find that out
        psutil.wait_procs([psutil.Process(pid) for pid in second if psutil.pid_exists(pid)], timeout=60)
        assert seen(2, backend).isdisjoint(second)
    # what is left waits for the next block
    (server,) = set(psutil.Process().children(recursive=True)) - before
    assert "server_process" in " ".join(server.cmdline())
    # without a block they stay until the backend is gone
    third = seen(1, backend)
    assert seen(1, backend) == third
    processes = [psutil.Process(one) for one in third]
    del backend
    # the traceback of the error above holds it in a circle of references
    gc.collect()
    assert not psutil.wait_procs(processes, timeout=60)[1]


@pytest.mark.parametrize(("universe", "chosen"), each(READERS, ("all", "name CA")), indirect=["universe"])
def test_a_universe_is_sent_once(universe: MDAnalysis.Universe, monkeypatch: pytest.MonkeyPatch, chosen: str) -> None:
    sent: list[object] = []

    def serialized(content: object) -> bytes:
        sent.append(content)
        return serialize(content)

    monkeypatch.setattr("kinema.interop.mdanalysis.kept_universes.serialize", serialized)
    group = universe.select_atoms(chosen)

    def found(analysis: base.AnalysisBase, name: str, **backend: Any) -> Any:
        return analysis.run(stop=20, **backend).results[name]

    with interop.Backend("processes", 2) as backend:
        on_workers = {"backend": backend, "unsupported_backend": True, "n_parts": 5}
        for frame in (0, 7, 3):
            universe.trajectory[frame]
            expected = found(own().Departure(group), "far")
            universe.trajectory[frame]
            assert found(own().Departure(group), "far", **on_workers) == expected
        np.testing.assert_array_equal(
            found(own().Gyration(group), "radii", **on_workers), found(own().Gyration(group), "radii")
        )
        # each part has the Universe as it is here
        found(own().Doubling(group), "radii", **on_workers)
        np.testing.assert_array_equal(
            found(own().Gyration(group), "radii", **on_workers), found(own().Gyration(group), "radii")
        )
        assert sent == [universe]
        group.masses = np.arange(1.0, 1.0 + len(group))
        np.testing.assert_array_equal(
            found(own().Gyration(group), "radii", **on_workers), found(own().Gyration(group), "radii")
        )
        assert sent == [universe, universe]
        (file,) = os.listdir(backend._universes._folder.name)
        assert file.startswith("universe-")
        universe.load_new(datafiles.DCD, in_memory=True)
        universe.trajectory.coordinate_array[:] *= 2
        np.testing.assert_array_equal(
            found(own().Gyration(group), "radii", **on_workers), found(own().Gyration(group), "radii")
        )
        assert sent == [universe, universe], "sent with each analysis, as its arrays may be changed"


def test_a_start_that_takes_longer_than_the_work_is_noted() -> None:
    # 3 s in all, of which two workers computed 0.4 s each at a time
    note = interop.backend.starting_note(3.0, [0.2] * 4, 2)
    assert note is not None and "took 2.600 s, the work of all parts 0.800 s: the serial backend is faster" in note
    assert interop.backend.starting_note(3.0, [1.0] * 4, 2) is None
    assert interop.backend.starting_note(0.1, [], 2) is None


def test_parts_are_as_many_as_workers(universe: MDAnalysis.Universe, client: Client) -> None:
    from kinema.runners.dask.runner import Dask

    backend = interop.Backend(Dask(client))
    assert backend.n_workers == 2
    seen: list[tuple[int, int]] = []
    backend = interop.Backend(Dask(client), 1, progress=lambda *done: seen.append(done))
    rms.RMSD(universe, select="name CA").run(stop=10, backend=backend, unsupported_backend=True)
    assert seen == [(10, 10)]


@EACH_READER_AND_RUNNER
def test_no_frames(universe: MDAnalysis.Universe, runner: Any) -> None:
    found = own().Gyration(universe.atoms).run(stop=0, backend=interop.Backend(runner), unsupported_backend=True)
    assert found.results.radii.tolist() == []


@EACH_RUNNER_AND_READER
def test_errors_say_which_part(universe: MDAnalysis.Universe, runner: Any) -> None:
    with pytest.raises(ArithmeticError, match="a frame that cannot be") as caught:
        own().Gyration(universe.atoms, fails_at=42).run(
            backend=interop.Backend(runner), unsupported_backend=True, n_parts=7
        )
    notes = "\n".join(caught.value.__notes__)
    assert "part 4 of 7" in notes
    assert "in frames 42 to 55" in notes


def test_analyses_that_a_script_defines(tmp_path: Path) -> None:
    text = (
        "import MDAnalysis\n"
        "from MDAnalysis.analysis.base import AnalysisBase\n"
        "from MDAnalysis.analysis.results import ResultsGroup\n"
        "from kinema.interop.mdanalysis import Backend\n"
        "class Mine(AnalysisBase):\n"
        "    _analysis_algorithm_is_parallelizable = True\n"
        "    get_supported_backends = classmethod(lambda cls: ('serial',))\n"
        "    def _prepare(self):\n"
        "        self.results.frames = []\n"
        "    def _single_frame(self):\n"
        "        self.results.frames.append(self._ts.frame)\n"
        "    def _get_aggregator(self):\n"
        "        return ResultsGroup({'frames': ResultsGroup.flatten_sequence})\n"
        f"mine = Mine(MDAnalysis.Universe({datafiles.PSF!r}, {datafiles.DCD!r}).trajectory)\n"
        # its workers stay until the interpreter ends
        "backend = Backend('processes', 2, progress=False)\n"
        "mine.run(backend=backend, unsupported_backend=True, n_parts=3)\n"
        "print(mine.results.frames == list(range(98)))\n"
    )
    (tmp_path / "script.py").write_text(text)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout == "True\n" and "Traceback" not in done.stderr, done.stderr


def test_analyses_that_cannot_be_split(universe: MDAnalysis.Universe) -> None:
    # MDAnalysis says so before it asks any backend; kinema.analysis.RMSF can be
    with pytest.raises(ValueError, match="Can not parallelize"):
        rms.RMSF(universe.select_atoms("name CA")).run(
            backend=interop.Backend("processes", 2), unsupported_backend=True
        )


def test_runners_that_have_no_parts() -> None:
    with pytest.raises(kn.ArgumentError, match="the runner 'threads' cannot compute parts"):
        interop.Backend("threads")
    with pytest.raises(kn.ArgumentError, match="workers must be"):
        interop.Backend("processes", 0)
    with pytest.raises(kn.ArgumentError, match="one worker"):
        interop.Backend("serial", 2)
