"""Densities on a grid: MDAnalysis and NumPy bin for bin, all runners, atoms outside, files, a picture."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.analysis import DensityAnalysis
from kinema.base.notes import collected
from kinema.testing.analyses import write_solvated_peptide
from kinema.testing.programs.children import start_child
from kinema.testing.writers import write_dcd


def random_trajectory(folder: Path, n_frames: int = 6, n_atoms: int = 500, spread: float = 4.0) -> tuple[Any, Any]:
    positions = np.random.default_rng(3).normal(0, spread, (n_frames, n_atoms, 3)).astype(np.float32)
    path = folder / "a.dcd"
    write_dcd(path, positions)
    return kn.open(path, stored=False), positions


def test_as_mdanalysis(tmp_path: Path) -> None:
    mda = pytest.importorskip("MDAnalysis")
    density = pytest.importorskip("MDAnalysis.analysis.density")
    topology, path = write_solvated_peptide(tmp_path, 12)
    universe = mda.Universe(str(topology), str(path))
    traj = kn.open(path, topology=topology, stored=False)
    for given in (
        {},
        {"delta": 1.7, "padding": 0.0},
        {"gridcenter": [1.0, -2.0, 0.5], "xdim": 9, "ydim": 12, "zdim": 7},
    ):
        expected = density.DensityAnalysis(universe.select_atoms("name CA OH2"), **given).run().results.density
        found = DensityAnalysis(traj, select="name CA OH2", **given).run()
        assert found.results.grid.shape == expected.grid.shape
        for ours, theirs in zip(found.edges, expected.edges, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)
        # MDAnalysis adds padding in single precision: atoms at an edge may be in the bin beside
        volume = float(found.results.delta.prod())
        apart = np.abs(found.results.density - expected.grid) * volume * 12
        assert apart.sum() <= 4
        np.testing.assert_allclose(found.results.delta, expected.delta, rtol=1e-6)
        np.testing.assert_allclose(found.results.origin, expected.origin, atol=1e-5)
        expected.convert_density("TIP4P")
        converted = found.convert_density("TIP4P")
        assert converted.sum() == pytest.approx(expected.grid.sum(), rel=1e-6)


def test_as_numpy_with_atoms_outside(tmp_path: Path) -> None:
    traj, positions = random_trajectory(tmp_path)
    grid: dict[str, Any] = {"gridcenter": (1.0, 0.0, -1.0), "xdim": 10.0, "ydim": 8.0, "zdim": 6.5, "delta": 0.75}
    found = DensityAnalysis(traj, **grid).run()
    frames = [np.histogramdd(one.astype(np.float64), bins=found.edges)[0] for one in positions]
    expected = np.sum(frames, axis=0)
    volume = found.results.delta.prod()
    np.testing.assert_array_equal(found.results.density, expected / 6 / volume)
    assert found.results.inside == expected.sum()
    assert found.results.inside + found.results.outside == positions.shape[0] * positions.shape[1]
    assert any("outside of the grid" in note for note in found.notes)
    occupied = DensityAnalysis(traj, **grid, quantity="occupancy").run()
    np.testing.assert_array_equal(occupied.results.occupancy, np.mean([one > 0 for one in frames], axis=0))
    assert occupied.results.outside == found.results.outside


def test_all_runners_give_the_same_bits(tmp_path: Path) -> None:
    traj, _ = random_trajectory(tmp_path, 40)
    reference = DensityAnalysis(traj, delta=0.4).run(runner="serial").results
    for runner, workers in (("threads", 2), ("threads", 7), ("processes", 2)):
        with collected():
            found = DensityAnalysis(traj, delta=0.4).run(runner=runner, workers=workers).results
        assert found.density.tobytes() == reference.density.tobytes()
        assert found.outside == reference.outside


def test_files_and_a_picture(tmp_path: Path) -> None:
    traj, _ = random_trajectory(tmp_path)
    density = DensityAnalysis(traj, delta=2.0).run()
    density.save(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as stored:
        np.testing.assert_array_equal(stored["grid"], density.results.grid)
        np.testing.assert_array_equal(stored["edges_z"], density.results.edges_z)
    grids = pytest.importorskip("gridData")
    mrcfile = pytest.importorskip("mrcfile")
    density.save(tmp_path / "a.mrc")
    mapped = grids.Grid(str(tmp_path / "a.mrc"))
    np.testing.assert_array_equal(mapped.grid, density.results.grid.astype(np.float32))
    for name in ("origin", "delta"):
        np.testing.assert_allclose(getattr(mapped, name), density.results[name], rtol=1e-6)
    assert mrcfile.validate(tmp_path / "a.mrc")
    density.save(tmp_path / "a.dx")
    stored = grids.Grid(str(tmp_path / "a.dx"))
    np.testing.assert_allclose(stored.grid, density.results.grid, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(stored.origin, density.results.origin, atol=1e-4)
    density.save(tmp_path / "a.csv", output_unit="nm")
    rows = np.loadtxt(tmp_path / "a.csv", delimiter=",", comments=["#", "x"])
    np.testing.assert_allclose(rows[:, 3], density.results.grid.ravel() * 1000, rtol=1e-6)
    figure = density.plot(tmp_path / "a.png")
    assert len(figure.axes) == 4


def test_units_of_a_density(tmp_path: Path) -> None:
    traj, _ = random_trajectory(tmp_path)
    density = DensityAnalysis(traj, delta=2.0).run()
    np.testing.assert_allclose(density.convert_density("nm^{-3}"), density.results.density * 1000)
    np.testing.assert_allclose(density.convert_density("Molar"), density.results.density * 1660.53907, rtol=1e-8)
    with pytest.raises(kn.ArgumentError, match="unit"):
        density.convert_density("SPCE")


def test_grids_that_are_refused(tmp_path: Path) -> None:
    traj, _ = random_trajectory(tmp_path)
    with pytest.raises(kn.ArgumentError, match="ydim, zdim must be given"):
        DensityAnalysis(traj, gridcenter=(0, 0, 0), xdim=3.0)
    with pytest.raises(kn.ArgumentError, match="three finite numbers"):
        DensityAnalysis(traj, gridcenter=(0, np.nan, 0), xdim=3.0, ydim=3.0, zdim=3.0)
    with pytest.raises(kn.ArgumentError, match="delta"):
        DensityAnalysis(traj, delta=0.0)
    with pytest.raises(kn.ArgumentError, match="2\\^32"):
        DensityAnalysis(traj, delta=0.001).run()
    # a grid that does not fit is refused before the first frame
    with pytest.raises(kn.MemoryLimitError):
        DensityAnalysis(traj, gridcenter=(0, 0, 0), xdim=256.0, ydim=256.0, zdim=256.0).run(memory="64 MiB")


def solvated_peptide(folder: Path) -> Any:
    topology, path = write_solvated_peptide(folder, 12)
    return kn.open(path, topology=topology, stored=False)


@pytest.mark.parametrize(("quantity", "unit"), [("mass", 1.66053906892), ("charge", 1.0)])
def test_masses_and_charges_as_numpy(tmp_path: Path, quantity: str, unit: float) -> None:
    traj = solvated_peptide(tmp_path)
    weights = traj.atoms.masses if quantity == "mass" else traj.atoms.charges
    grid: dict[str, Any] = {"gridcenter": (1.0, 0.0, -1.0), "xdim": 20.0, "ydim": 18.0, "zdim": 16.5, "delta": 0.75}
    found = DensityAnalysis(traj, quantity=quantity, **grid).run(workers=2)
    frames = traj.read().astype(np.float64)
    expected = sum(np.histogramdd(one, bins=found.edges, weights=weights)[0] for one in frames)
    volume = found.results.delta.prod()
    np.testing.assert_allclose(found.results[quantity], expected / 12 / volume * unit, rtol=1e-12, atol=1e-15)
    inside = sum(np.histogramdd(one, bins=found.edges)[0].sum() for one in frames)
    assert (found.results.inside, found.results.outside) == (inside, frames.shape[0] * frames.shape[1] - inside)
    found.plot(tmp_path / "a.png")
    serial = DensityAnalysis(traj, quantity=quantity, **grid).run(runner="serial")
    assert serial.results.grid.tobytes() == found.results.grid.tobytes()


def test_a_grid_along_the_edges_of_a_triclinic_cell(tmp_path: Path) -> None:
    traj = solvated_peptide(tmp_path)
    with collected():
        found = DensityAnalysis(traj, select="name OH2", grid="cell", delta=3.0).run()
    cell = traj[0].cell.astype(np.float64)
    parts = traj.select("name OH2").indices
    places = np.concatenate([one[parts].astype(np.float64) @ np.linalg.inv(cell) for one in traj.read()]) % 1.0
    shape = found.results.grid.shape
    assert shape == tuple(np.ceil(np.linalg.norm(cell, axis=1) / 3.0 - 1e-6))
    expected = np.histogramdd(places, bins=shape, range=[(0, 1)] * 3)[0]
    volume = abs(np.linalg.det(cell)) / np.prod(shape)
    np.testing.assert_allclose(found.results.density, expected / 12 / volume, rtol=1e-6)
    np.testing.assert_allclose(found.results.cell, cell, rtol=1e-6)
    assert (found.results.outside, found.results.inside) == (0, len(places))
    assert not any("nothing centres" in note for note in found.notes)
    h5py = pytest.importorskip("h5py")
    found.save(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as stored:
        np.testing.assert_array_equal(stored["grid"], found.results.grid)
        np.testing.assert_array_equal(stored["cell"], found.results.cell)
        assert stored["grid"].attrs["unit"] == "angstrom^-3"
    with pytest.raises(kn.ArgumentError, match=r"a\.dx.*not right-angled"):
        found.save(tmp_path / "a.dx")
    with pytest.raises(kn.ArgumentError, match=r"a\.mrc.*not right-angled"):
        found.save(tmp_path / "a.mrc")
    found.save(tmp_path / "a.csv")
    assert "a (angstrom),b (angstrom),c (angstrom),density" in (tmp_path / "a.csv").read_text()
    with pytest.raises(kn.ArgumentError, match="leave out gridcenter"):
        DensityAnalysis(traj, grid="cell", gridcenter=(0, 0, 0), xdim=3.0, ydim=3.0, zdim=3.0)


def test_atoms_that_change_with_the_frame(tmp_path: Path) -> None:
    traj = solvated_peptide(tmp_path)
    mda = pytest.importorskip("MDAnalysis")
    universe = mda.Universe(str(tmp_path / "peptide.psf"), str(tmp_path / "peptide.dcd"))
    words = "name OH2 and around 4 segid PEP"
    group = universe.select_atoms(words, updating=True)
    grid: dict[str, Any] = {"gridcenter": (0.0, 0.0, 0.0), "xdim": 24.0, "ydim": 24.0, "zdim": 24.0, "delta": 2.0}
    for quantity, weight in (("density", 1.0), ("mass", 15.9994 * 1.66053906892)):
        with collected():
            found = DensityAnalysis(traj, select=words, quantity=quantity, **grid).run()
        sums, n_atoms = 0.0, 0
        for _ in universe.trajectory:
            sums = sums + np.histogramdd(group.positions.astype(np.float64), bins=found.edges)[0]
            n_atoms += len(group)
        expected = sums * weight / 12 / found.results.delta.prod()
        np.testing.assert_allclose(found.results.grid, expected, rtol=1e-9)
        assert found.results.inside + found.results.outside == n_atoms


def test_a_grid_on_many_workers_needs_its_memory_once(tmp_path: Path) -> None:
    """Workers have lists of the bins that a leaf hits; the counts of the process are one grid."""
    traj, _ = random_trajectory(tmp_path, 40)
    grid: dict[str, Any] = {"gridcenter": (0, 0, 0), "xdim": 128.0, "ydim": 128.0, "zdim": 128.0}
    density = DensityAnalysis(traj, **grid)
    with collected():
        density.run(workers=8, memory="40 MiB")
    assert "8 workers" in density.plan


MEMORY_CHILD = """
import resource, sys
import kinema as kn
from kinema.base.notes import collected

def peak(whose):
    return resource.getrusage(whose).ru_maxrss

grid = {"gridcenter": (0, 0, 0), "xdim": 256.0, "ydim": 256.0, "zdim": 256.0}
before = peak(resource.RUSAGE_SELF)
for runner, workers, memory in (("threads", 8, "512 MiB"), ("processes", 3, "1 GiB")):
    with collected():
        density = kn.analysis.DensityAnalysis(kn.open("a.dcd", stored=False), **grid)
        density.run(runner=runner, workers=workers, memory=memory)
        assert f"{workers} workers" in density.plan, density.plan
    print(runner, peak(resource.RUSAGE_SELF) - before, peak(resource.RUSAGE_CHILDREN), density.results.inside)
"""


@pytest.mark.processes
def test_a_large_grid_keeps_its_memory(tmp_path: Path) -> None:
    """Eight threads share one grid of 128 MiB; three processes have one each."""
    random_trajectory(tmp_path, 64)
    child = start_child([sys.executable, "-c", MEMORY_CHILD], cwd=tmp_path)
    output, _ = child.communicate()
    assert child.returncode == 0
    for line in output.splitlines():
        runner, own, of_child, inside = line.split()
        assert int(inside) == 64 * 500
        # the grid, its bytes from a worker, and the result in double precision
        assert int(own) < (512 if runner == "threads" else 900) << 10
        assert int(of_child) < 700 << 10
