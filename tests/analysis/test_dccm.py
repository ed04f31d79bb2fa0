"""Cross-correlations: against NumPy and Bio3D, and motions with known correlations."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.analysis.ensembles.pca import rmsip
from kinema.testing import write_dcd
from kinema.testing.programs.children import start_child


@pytest.fixture(scope="module")
def adk() -> kn.Trajectory:
    from MDAnalysisTests.datafiles import DCD, PSF

    return kn.open(DCD, topology=PSF)


def test_values_are_those_of_numpy(adk: kn.Trajectory) -> None:
    found = kn.analysis.CrossCorrelation(adk, select="resid 1-20 and name CA").run().results
    frames = np.asarray(adk.read(select="resid 1-20 and name CA"), np.float64)
    displacements = frames - frames.mean(axis=0)
    covariance = np.einsum("tic,tjc->ij", displacements, displacements) / (len(frames) - 1)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.mean_positions, frames.mean(axis=0), rtol=1e-12)
    lengths = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(found.correlation, covariance / np.outer(lengths, lengths), atol=1e-9)
    assert (np.diag(found.correlation) == 1.0).all() and (found.correlation == found.correlation.T).all()


def test_maps_and_components_are_those_of_bio3d(adk: kn.Trajectory) -> None:
    with np.load(Path(__file__).parent.parent / "data" / "bio3d" / "bio3d.npz") as file:
        stored = dict(file)
    given: Any = {"select": "name CA", "align": "reference"}
    found = kn.analysis.CrossCorrelation(adk, **given).run().results
    np.testing.assert_allclose(found.correlation[::5, ::5], stored["dccm"], atol=1e-6)
    # theirs divides by one less than the number of frames
    fluctuations = np.asarray(kn.analysis.RMSF(adk, **given).run().results.rmsf) * np.sqrt(98 / 97)
    np.testing.assert_allclose(fluctuations, stored["rmsf"], atol=1e-6)
    first, second = (kn.analysis.PCA(adk, **given).run(start=a, stop=b).results for a, b in ((0, 50), (50, None)))
    np.testing.assert_allclose(first.variance[:20], stored["variances"], rtol=1e-5)
    overlap = rmsip(first.p_components, second.p_components, 10)
    assert overlap == pytest.approx(float(stored["rmsip"]), abs=5e-4)


def test_the_diagonal_is_the_square_of_the_rmsf(adk: kn.Trajectory) -> None:
    given: Any = {"select": "name CA", "align": "average"}
    covariance = kn.analysis.CrossCorrelation(adk, **given).run().results.covariance
    rmsf = kn.analysis.RMSF(adk, **given).run().results.rmsf
    n = adk.n_frames
    np.testing.assert_allclose(np.diag(covariance) * (n - 1) / n, rmsf**2, rtol=1e-6)


def test_residues_move_as_the_means_of_their_atoms(adk: kn.Trajectory) -> None:
    of_residues = kn.analysis.CrossCorrelation(adk, select="resid 10-14", by="residue").run()
    centers = kn.analysis.Centers(adk, select="resid 10-14", weights=None, compound="residues").run().results.centers
    displacements = centers - centers.mean(axis=0)
    expected = np.einsum("tic,tjc->ij", displacements, displacements) / (len(centers) - 1)
    np.testing.assert_allclose(of_residues.results.covariance, expected, rtol=1e-6, atol=1e-9)
    assert [one.name for one in of_residues.table().columns] == [
        "residue",
        *(f"{name}{10 + i}" for i, name in enumerate(["GLY", "ALA", "GLY", "LYS", "GLY"])),
    ]


def test_motions_together_apart_and_at_right_angles(tmp_path: Path) -> None:
    swing = np.sin(np.linspace(0, 2 * np.pi, 40, endpoint=False))[:, None, None] * np.eye(3)
    x, y = swing[:, 0], swing[:, 1]
    positions = np.stack([x, 2 * x, -x, y, 0 * x], axis=1) + np.arange(5)[:, None]
    write_dcd(tmp_path / "swing.dcd", positions.astype(np.float32))
    found = kn.analysis.CrossCorrelation(kn.open(tmp_path / "swing.dcd")).run()
    expected = [[1, 1, -1, 0], [1, 1, -1, 0], [-1, -1, 1, 0], [0, 0, 0, 1]]
    np.testing.assert_allclose(found.results.correlation[:4, :4], expected, atol=1e-6)
    assert np.isnan(found.results.correlation[4]).all(), "it does not move"
    found.save(tmp_path / "dccm.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "dccm.npy"), found.results.correlation)


def test_too_few_frames_and_no_residues_are_refused(tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", np.zeros((3, 4, 3), np.float32))
    trajectory = kn.open(tmp_path / "a.dcd")
    with pytest.raises(kn.ArgumentError, match="at least two frames, found 1"):
        kn.analysis.CrossCorrelation(trajectory).run(stop=1)
    with pytest.raises(kn.ArgumentError, match="residues"):
        kn.analysis.CrossCorrelation(trajectory, by="residue")


MEMORY_CHILD = """
import resource
import kinema as kn
from kinema.base.notes import collected
from MDAnalysisTests.datafiles import DCD

traj = kn.open(DCD, stored=False)
for analysis, memory in (kn.analysis.PCA(traj, n_components=5), 64), (kn.analysis.CrossCorrelation(traj), 384):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with collected():
        analysis.run(memory=f"{memory} MiB", workers=2)
    print(memory, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, len(analysis.results.values))
"""


@pytest.mark.processes
def test_ten_thousand_coordinates_keep_their_memory(tmp_path: Path) -> None:
    child = start_child([sys.executable, "-c", MEMORY_CHILD], cwd=tmp_path)
    output, error = child.communicate()
    assert child.returncode == 0, error
    taken = [[int(number) for number in line.split()] for line in output.splitlines()]
    assert all(kib < limit << 10 for limit, kib, _ in taken), taken
    # variances, and rows of the matrix of all atoms
    assert [n for _, _, n in taken] == [5, 3341]
