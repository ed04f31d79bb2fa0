"""MDAnalysis' analyses on Kinema's runners: the results of its serial backend, progress, errors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import cloudpickle
import MDAnalysis
import numpy as np
import pytest
from distributed import Client, LocalCluster
from MDAnalysis.analysis.base import AnalysisBase
from MDAnalysis.analysis.contacts import Contacts
from MDAnalysis.analysis.results import ResultsGroup
from MDAnalysis.analysis.rms import RMSD, RMSF
from MDAnalysisTests.datafiles import DCD, PSF

import kinema as kn
from kinema.interop.mdanalysis import Backend, KinemaReader
from kinema.runners.dask.runner import Dask


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    # workers cannot import this module: its classes go with their code
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0) as cluster,
        Client(cluster, set_as_default=False) as found,
    ):
        yield found


@pytest.fixture(params=["serial", "processes", "dask"])
def runner(request: pytest.FixtureRequest, client: Client) -> Any:
    return Dask(client) if request.param == "dask" else request.param


@pytest.fixture(params=["MDAnalysis' reader", "KinemaReader"])
def universe(request: pytest.FixtureRequest) -> MDAnalysis.Universe:
    options = {"format": KinemaReader} if request.param == "KinemaReader" else {}
    return MDAnalysis.Universe(PSF, DCD, **options)


class Gyration(AnalysisBase):  # type: ignore[misc]
    """Of the user's own."""

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

    def _get_aggregator(self) -> ResultsGroup:
        return ResultsGroup({"radii": ResultsGroup.flatten_sequence})

    def _conclude(self) -> None:
        self.results.radii = np.array(self.results.radii)


def _analyses(universe: MDAnalysis.Universe) -> list[tuple[AnalysisBase, str]]:
    acidic = universe.select_atoms("(resname ASP GLU) and (name OE* OD*)")
    basic = universe.select_atoms("(resname ARG LYS) and (name NH* NZ)")
    return [
        (RMSD(universe, select="name CA"), "rmsd"),
        (Contacts(universe, select=(acidic, basic), refgroup=(acidic, basic), radius=6.0), "timeseries"),
        (Gyration(universe.select_atoms("name CA")), "radii"),
    ]


def test_same_results_as_serial(universe: MDAnalysis.Universe, runner: Any) -> None:
    expected = [analysis.run(step=2).results[name] for analysis, name in _analyses(universe)]
    for (analysis, name), wanted in zip(_analyses(universe), expected, strict=True):
        seen: list[tuple[int, int]] = []
        backend = Backend(runner, progress=lambda done, total, seen=seen: seen.append((done, total)))
        analysis.run(step=2, backend=backend, unsupported_backend=True, n_parts=5)
        np.testing.assert_array_equal(analysis.results[name], wanted)
        assert analysis.frames.tolist() == list(range(0, 98, 2))
        assert len(seen) == 5
        assert seen[-1] == (49, 49)


def test_parts_are_as_many_as_workers(universe: MDAnalysis.Universe, client: Client) -> None:
    backend = Backend(Dask(client))
    assert backend.n_workers == 2
    seen: list[tuple[int, int]] = []
    backend = Backend(Dask(client), 1, progress=lambda *done: seen.append(done))
    RMSD(universe, select="name CA").run(stop=10, backend=backend, unsupported_backend=True)
    assert seen == [(10, 10)]


def test_no_frames(universe: MDAnalysis.Universe, runner: Any) -> None:
    found = Gyration(universe.atoms).run(stop=0, backend=Backend(runner), unsupported_backend=True)
    assert found.results.radii.tolist() == []


def test_errors_say_which_part(universe: MDAnalysis.Universe, runner: Any) -> None:
    with pytest.raises(ArithmeticError, match="a frame that cannot be") as caught:
        Gyration(universe.atoms, fails_at=42).run(backend=Backend(runner), unsupported_backend=True, n_parts=7)
    notes = "\n".join(caught.value.__notes__)
    assert "part 4 of 7" in notes
    assert "in frames 42 to 55" in notes


def test_analyses_that_cannot_be_split(universe: MDAnalysis.Universe) -> None:
    # MDAnalysis says so before it asks any backend; kinema.analysis.RMSF can be
    with pytest.raises(ValueError, match="Can not parallelize"):
        RMSF(universe.select_atoms("name CA")).run(backend=Backend("processes", 2), unsupported_backend=True)


def test_runners_that_have_no_parts() -> None:
    with pytest.raises(kn.ArgumentError, match="the runner 'threads' cannot compute parts"):
        Backend("threads")
    with pytest.raises(kn.ArgumentError, match="workers must be"):
        Backend("processes", 0)
    with pytest.raises(kn.ArgumentError, match="one worker"):
        Backend("serial", 2)
