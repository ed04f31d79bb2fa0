"""Features: the columns of analyses side by side, against the analyses alone, MDAnalysis and NumPy."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.analysis import Dihedrals, Distances, Features, RadiusOfGyration
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
datafiles = lazy("MDAnalysisTests.datafiles")

PAIRS = np.array([[0, 100], [5, 2000]])


@pytest.fixture(scope="module")
def adk() -> kn.Trajectory:
    return kn.open(datafiles.DCD, topology=datafiles.PSF, stored=False)


def members(trajectory: kn.Trajectory) -> list[Any]:
    angles = Dihedrals(trajectory, "resid 10:14", phi=True, psi=True)
    return [angles, Distances(trajectory, pairs=PAIRS), RadiusOfGyration(trajectory, "name CA")]


def test_features_are_the_columns_of_each_analysis_alone(adk: kn.Trajectory) -> None:
    found = Features(*members(adk)).run(step=7, workers=2)
    alone = [one.run(step=7).results.values for one in members(adk)]
    features = found.results.features
    assert features.shape == (14, 2 * 10 + 2 + 1) == (14, len(found.names)) and len(found.units) == 23
    np.testing.assert_array_equal(features[:, 20:22], alone[1])
    np.testing.assert_array_equal(features[:, 22:], alone[2])
    angles = np.radians(alone[0])
    np.testing.assert_allclose(features[:, 0:20:2], np.cos(angles), atol=1e-15)
    np.testing.assert_allclose(features[:, 1:20:2], np.sin(angles), atol=1e-15)
    assert found.names[:2] == ("cos phi GLY10", "sin phi GLY10")
    assert found.names[20:] == ("distances 0-100", "distances 5-2000", "rgyr")
    assert found.units == ("1",) * 20 + ("angstrom",) * 3
    np.testing.assert_array_equal(found.results.frames, np.arange(0, 98, 7))
    np.testing.assert_array_equal(found.results.time, adk.times[::7])
    assert found.plan.count("pass") == 0 and "Features" in repr(found)


def test_angles_and_distances_are_those_of_mdanalysis(adk: kn.Trajectory) -> None:
    found = Features(*members(adk)[:2]).run(step=20).results.features
    universe = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD)
    phi = [universe.residues[i].phi_selection() for i in range(9, 14)]
    for row, _ in zip(found, universe.trajectory[::20], strict=True):
        theirs = np.radians([group.dihedral.value() for group in phi])
        np.testing.assert_allclose(row[0:10:2], np.cos(theirs), atol=1e-5)
        np.testing.assert_allclose(row[1:10:2], np.sin(theirs), atol=1e-5)
        positions = universe.atoms.positions
        np.testing.assert_allclose(
            row[20:], np.linalg.norm(positions[PAIRS[:, 1]] - positions[PAIRS[:, 0]], axis=1), rtol=1e-6
        )


def test_scaled_features_have_mean_0_and_deviation_1(adk: kn.Trajectory) -> None:
    plain = Features(*members(adk)).run(step=3).results.features
    scaled = Features(*members(adk), scale="std").run(step=3)
    np.testing.assert_allclose(scaled.results.mean, plain.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(scaled.results.std, plain.std(axis=0, ddof=1), rtol=1e-9)
    expected = (plain - scaled.results.mean) / scaled.results.std
    np.testing.assert_array_equal(scaled.results.features, expected)
    assert not any("different units" in note for note in scaled.notes)
    degrees = Features(members(adk)[0], circular="none").run(step=3)
    np.testing.assert_array_equal(degrees.results.features, members(adk)[0].run(step=3).results.values)
    assert degrees.units == ("degree",) * 10 and degrees.names[0] == "phi GLY10"


@pytest.mark.parametrize("scale", ["none", "std"])
def test_the_same_bits_on_any_runner_and_in_a_file(adk: kn.Trajectory, tmp_path: Path, scale: str) -> None:
    expected = Features(*members(adk), scale=scale).run(runner="serial").results.features
    for workers in (1, 3):
        found = Features(*members(adk), scale=scale).run(workers=workers).results.features
        np.testing.assert_array_equal(found, expected)
    filed = Features(*members(adk), scale=scale).run(out=tmp_path / "features.h5")
    view = filed.results.features
    assert view.shape == expected.shape and not isinstance(view, np.ndarray)
    np.testing.assert_array_equal(np.asarray(view), expected)
    np.testing.assert_array_equal(view[3], expected[3])
    np.testing.assert_array_equal(view[10:20:3, 1], expected[10:20:3, 1])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(view))[5:7], expected[5:7])
    with h5py.File(tmp_path / "features.h5") as file:
        assert set(file) == {"frames", "time", "dihedrals", "distances", "rgyr"}
        assert file["dihedrals"].attrs["unit"] == "degree"
    followed = Features(*members(adk), scale=scale)
    followed.follow(until=98, timeout=20)
    np.testing.assert_array_equal(followed.results.features, expected)


RANKS = """
from kinema.analysis import Dihedrals, Features, RadiusOfGyration
from kinema.base.notes import collected
from kinema.runners import MPI
with collected():
    traj = kn.open("adk.dcd", topology="adk.psf", stored=False)
    made = [Dihedrals(traj, "resid 10:14", phi=True), RadiusOfGyration(traj, "name CA")]
    for more in ({}, {"results": "spread", "gather": "one-sided"}):
        found = Features(*made, scale="std").run(runner=MPI(**more))
        if rank == 0:
            expected = Features(*made, scale="std").run(runner="serial").results.features
            say(more.get("results"), np.array_equal(np.asarray(found.results.features), expected))
"""


@pytest.mark.processes
def test_the_same_bits_on_ranks(mpi: Any, tmp_path: Path) -> None:
    (tmp_path / "adk.dcd").symlink_to(datafiles.DCD)
    (tmp_path / "adk.psf").symlink_to(datafiles.PSF)
    assert mpi.compute(2, RANKS, tmp_path) == "None True\nspread True\n"


def test_a_run_together_with_others_continues_from_a_checkpoint(adk: kn.Trajectory, tmp_path: Path) -> None:
    expected = Features(*members(adk)).run(stop=40).results.features

    def stop(done: int, total: int) -> None:
        if done > 5:
            raise KeyboardInterrupt

    both = [Features(*members(adk)), kn.analysis.RMSF(adk, "name CA")]
    with pytest.raises(KeyboardInterrupt):
        kn.run(both, stop=40, checkpoint=tmp_path / "c", progress=stop, workers=1)
    both = [Features(*members(adk)), kn.analysis.RMSF(adk, "name CA")]
    kn.run(both, stop=40, checkpoint=tmp_path / "c")
    np.testing.assert_array_equal(both[0].results.features, expected)
    np.testing.assert_array_equal(both[1].results.rmsf, kn.analysis.RMSF(adk, "name CA").run(stop=40).results.rmsf)


def test_tables_and_files(adk: kn.Trajectory, tmp_path: Path) -> None:
    found = Features(*members(adk)).run(step=20)
    found.save(tmp_path / "features.csv")
    lines = [line for line in (tmp_path / "features.csv").read_text().splitlines() if not line.startswith("#")]
    assert lines[0].startswith("frame,time (ps),cos phi GLY10 (1),") and "distances 1-101 (angstrom)" in lines[0]
    values = np.array([line.split(",") for line in lines[1:]], float)[:, 2:]
    np.testing.assert_allclose(values, found.results.features, rtol=1e-6, atol=1e-6)
    found.save(tmp_path / "features.npz")
    with np.load(tmp_path / "features.npz") as archive:
        np.testing.assert_array_equal(archive["features"], found.results.features)
        assert tuple(archive["names"]) == found.names and tuple(archive["units"]) == found.units
    found.plot(tmp_path / "features.png")


def test_what_misleads_is_noted(adk: kn.Trajectory) -> None:
    mixed = Features(*members(adk))
    assert any("different units (1, angstrom)" in note for note in mixed.notes)
    constant = Features(Distances(adk, pairs=[(0, 0), (0, 9)])).run(step=50)
    assert "distances 0-0: constant in all frames" in constant.notes


def test_what_cannot_be_a_feature_is_refused(adk: kn.Trajectory) -> None:
    angles = members(adk)[0]
    for wrong, why in [
        (kn.analysis.RMSF(adk, "name CA"), "RMSF has no row of numbers per frame"),
        (kn.analysis.Neighbors(adk, "name CA", cutoff=5.0), "Neighbors has any number of rows a frame"),
        (kn.analysis.DSSP(adk), "DSSP has a letter for each column"),
        (Dihedrals.of(phi=True), r"has no trajectory; give Dihedrals\(trajectory"),
        ("phi", "found str"),
    ]:
        with pytest.raises(kn.ArgumentError, match=why):
            Features(angles, wrong)
    with pytest.raises(kn.ArgumentError, match="no analyses"):
        Features()
    with pytest.raises(kn.ArgumentError, match="one trajectory"):
        Features(angles, *members(kn.open(datafiles.DCD, topology=datafiles.PSF, stored=False)))
    with pytest.raises(kn.ArgumentError, match="scale must be"):
        Features(angles, scale="max")
    with pytest.raises(kn.ArgumentError, match="distances 0-0: constant in all frames"):
        Features(Distances(adk, pairs=[(0, 0), (0, 9)]), scale="std").run(step=50)
    with pytest.raises(kn.ArgumentError, match="at least two frames, found 1"):
        Features(angles, scale="std").run(stop=1)
    with pytest.raises(kn.ArgumentError, match=r"cos dihedral 0-0-1-2.* not defined in frame 0"):
        Features(Dihedrals(adk, quadruples=[(0, 0, 1, 2)]), scale="std").run(stop=3)


def test_analyses_without_a_trajectory(adk: kn.Trajectory) -> None:
    assert kn.Features is Features and kn.Dihedrals is Dihedrals
    unbound = kn.Features.of(kn.Dihedrals.of("resid 10:14", phi=True, psi=True), Distances.of(pairs=PAIRS), scale="std")
    assert repr(Distances.of(pairs=[(0, 1)])) == "Distances.of(pairs=[(0, 1)])"
    found = pickle.loads(pickle.dumps(unbound)).bind(adk).run(step=9).results.features
    np.testing.assert_array_equal(found, Features(*members(adk)[:2], scale="std").run(step=9).results.features)
    with pytest.raises(TypeError, match="chi9"):
        Dihedrals.of(chi9=True)
    with pytest.raises(kn.ArgumentError, match="found Dihedrals"):
        Features.of(members(adk)[0])
