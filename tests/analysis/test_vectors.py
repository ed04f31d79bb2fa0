"""Angles of axes: against MDAnalysis' principal axes, NumPy, and cases with known angles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.testing import write_dcd

HELICES = ["name CA and resid 13-24", "name CA and resid 115-120"]


@pytest.fixture(scope="module")
def adk() -> kn.Trajectory:
    from MDAnalysisTests.datafiles import DCD, PSF

    return kn.open(DCD, topology=PSF)


def test_axes_are_mdanalysis_last_principal_axes(adk: kn.Trajectory) -> None:
    import MDAnalysis
    from MDAnalysisTests.datafiles import DCD, PSF

    found = kn.analysis.Vectors(adk, axes=HELICES, direction="x").run(step=20).results.angles
    universe = MDAnalysis.Universe(PSF, DCD)
    groups = [universe.select_atoms(one) for one in HELICES]
    expected = []
    for _ in universe.trajectory[::20]:
        u, v = (group.principal_axes()[2] for group in groups)
        cosines = np.abs([u[0], v[0], u @ v])
        expected.append(np.degrees(np.arccos(cosines)))
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_an_axis_between_centres_of_mass(adk: kn.Trajectory) -> None:
    import MDAnalysis
    from MDAnalysisTests.datafiles import DCD, PSF

    ends = ["resid 1-29", "resid 122-159"]
    found = kn.analysis.Vectors(adk, ends=ends, direction="y", signed=True).run(stop=5)
    universe = MDAnalysis.Universe(PSF, DCD)
    first, second = (universe.select_atoms(one) for one in ends)
    expected = []
    for _ in universe.trajectory[:5]:
        along = second.center_of_mass() - first.center_of_mass()
        expected.append(np.degrees(np.arccos(along[1] / np.linalg.norm(along))))
    np.testing.assert_allclose(found.results.angles[:, 0], expected, atol=1e-3)
    assert [one.name for one in found.table().columns[2:]] == ["resid 1-29 - resid 122-159 to y"]
    np.testing.assert_allclose(
        kn.analysis.Vectors(adk, ends=ends, direction="y").run(stop=5).results.angles[:, 0],
        np.minimum(expected, 180 - np.array(expected)),
        atol=1e-3,
    )


def test_weights_move_centres(adk: kn.Trajectory) -> None:
    ends = ["resid 1-29", "resid 122-159"]
    by_mass, equal = (
        kn.analysis.Vectors(adk, ends=ends, weights=weights).run(stop=3).results.angles for weights in ("mass", None)
    )
    assert np.abs(by_mass - equal).max() > 0.01


def _rods(path: Path, vectors: Any, cell: Any = None) -> kn.Trajectory:
    """A frame with a rod of five atoms along each vector."""
    along = np.linspace(-2.0, 2.0, 5)[:, None]
    write_dcd(
        path, np.concatenate([along * np.asarray(one, float) for one in vectors]).astype(np.float32)[None], cell=cell
    )
    return kn.open(path)


def test_signs_are_those_from_the_first_to_the_last_atom(tmp_path: Path) -> None:
    rods = _rods(tmp_path / "rods.dcd", [[0, 0, 1], [0, 1, -1], [0, 0, -1]])
    axes = [np.arange(start, start + 5) for start in (0, 5, 10)]
    signed, unsigned = (
        kn.analysis.Vectors(rods, axes=axes, weights=None, signed=one).run().results.angles[0] for one in (True, False)
    )
    # to z, then (1, 2), (1, 3), (2, 3)
    np.testing.assert_allclose(signed, [0, 135, 180, 135, 180, 45], atol=1e-5)
    np.testing.assert_allclose(unsigned, [0, 45, 0, 45, 0, 45], atol=1e-5)


def test_normals_of_the_faces_of_a_cell(tmp_path: Path) -> None:
    cell = np.array([[[10, 0, 0], [0, 10, 0], [5, 0, 10]]], np.float32)
    rods = _rods(tmp_path / "rods.dcd", [[1, 0, 0]], cell)
    axes = [np.arange(5)]
    # the normal of b and c is (10, 0, -5)
    for direction, expected in {"bc": np.degrees(np.arctan2(5, 10)), "ca": 90.0, "ab": 90.0, "x": 0.0}.items():
        found = kn.analysis.Vectors(rods, axes=axes, weights=None, direction=direction).run().results.angles[0, 0]
        assert found == pytest.approx(expected, abs=1e-5), direction


def test_a_group_that_is_longest_in_no_direction_has_no_angle(tmp_path: Path) -> None:
    write_dcd(tmp_path / "square.dcd", np.array([[[1, 1, 0], [1, -1, 0], [-1, 1, 0], [-1, -1, 0]]], np.float32))
    assert np.isnan(kn.analysis.Vectors(kn.open(tmp_path / "square.dcd"), weights=None).run().results.angles).all()


def test_bad_groups_and_cells_are_refused(adk: kn.Trajectory) -> None:
    with pytest.raises(kn.ArgumentError, match="two groups for each axis, found 1"):
        kn.analysis.Vectors(adk, ends=["name CA"])
    with pytest.raises(kn.ArgumentError, match="an axis is of two atoms or more, found one in MET1"):
        kn.analysis.Vectors(adk, select="name CA", compound="residues")
    with pytest.raises(kn.ArgumentError, match="direction must be"):
        kn.analysis.Vectors(adk, direction="w")
    with pytest.raises(kn.ArgumentError, match="frame 0: the cell has no face ab, which direction names"):
        kn.analysis.Vectors(adk, direction="ab").run(stop=1)
